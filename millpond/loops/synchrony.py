"""How far keys may be ahead of each other: not at all, or by a number of rounds.

Under `stale(n)` a loop goes in turns of n + 1 rounds. In a turn each shard of keys works for itself: what its keys send
to each other arrives in the next round, as ever; what they send to other shards arrives in the next turn. So no key is
more than n rounds ahead of the slowest, and which message is seen when follows from the keys alone.

>>> stale(2).rounds, strict.rounds
(3, 1)
"""

from __future__ import annotations

from dataclasses import dataclass

from millpond.errors import LoopError


@dataclass(frozen=True, slots=True)
class Synchrony:
    """How many rounds the shards of a loop run by themselves in one turn."""

    rounds: int

    @property
    def text(self) -> str:
        """It, as it is written."""
        return "strict" if self.rounds == 1 else f"stale({self.rounds - 1})"

    def __repr__(self) -> str:
        return self.text


strict = Synchrony(1)
"""All keys are in the same round: a round sees all messages of the round before it, and no others."""


def stale(ahead: int) -> Synchrony:
    """Let keys be up to so many rounds ahead of the slowest; `stale(0)` is strict.

    Steps that are monotone (a minimum, a union) come to the same fixpoint as under `strict`, in fewer turns.
    """
    if type(ahead) is not int or ahead < 0:
        raise LoopError(
            "MP852",
            "this is no synchrony",
            expected="strict, or stale(n) with a whole number of at least 0",
            found=repr(ahead)[:60],
        )
    return Synchrony(ahead + 1)
