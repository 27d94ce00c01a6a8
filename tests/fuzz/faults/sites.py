"""Where faults may happen: of all sites a quarter is on in a run, and one that is on fires a quarter of the time.

So some runs see one kind of fault all the time and others many kinds together, which an even chance would never give.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from tests.fuzz.dice import Dice, derive

ON_SHARE: Final = 0.25
FIRE_SHARE: Final = 0.25


class Sites:
    """Decides, for a seed, which sites are on and when they fire; counts what fired."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._dice = Dice(derive(seed, "fire"))
        self._on: dict[str, bool] = {}
        self.calm = False
        self.fired: Counter[str] = Counter()

    def fires(self, site: str, rarity: int = 1) -> bool:
        """Whether a fault happens now; a site that is passed very often fires `rarity` times less."""
        if self.calm or not self._is_on(site) or not self._dice.chance(FIRE_SHARE / rarity):
            return False
        self.fired[site] += 1
        return True

    def one(self, choices: tuple[int, ...]) -> int:
        """One of several ways in which a fault may show."""
        return self._dice.one(choices)

    def _is_on(self, site: str) -> bool:
        # By name, so that a new site changes nothing about the others.
        if site not in self._on:
            self._on[site] = Dice(derive(self._seed, "on", site)).chance(ON_SHARE)
        return self._on[site]
