"""Which epochs of a checkpoint stay readable, and for how long what is not kept stays on the disk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from millpond.checkpoint.retention.retired import complete_until
from millpond.errors import EpochError
from millpond.state.codec.shown import shown

LAST = 100
GRACE_SECONDS = 600.0
"""Longer than a reader takes that has just chosen an epoch, short enough that garbage does not pile up."""

GRACE_SECONDS_MAX = 1e10
"""Three hundred years: a limit that nobody meets, so that moments stay numbers."""

LAST_MIN = 2
"""A start compares the newest manifest with the one before it, so that one must be the real one."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Which epochs stay: the `last` ones, every `every`-th, and those with a savepoint; `last=None` keeps all.

    What is not kept is deleted `grace_s` seconds after that was noted, in the background, a little after each epoch.
    The newest epoch and the one before it always stay.

    >>> Keep(last=2, every=10).kept(range(1, 30), pinned={17})
    [10, 17, 20, 24, 25, 26, 27, 28, 29]
    """

    last: int | None = LAST
    every: int | None = None
    grace_s: float = GRACE_SECONDS

    def __post_init__(self) -> None:
        _check(self.last is None or _whole(self.last), "last", self.last)
        _check(self.every is None or _whole(self.every), "every", self.every)
        number = type(self.grace_s) in {int, float}
        _check(number and 0 <= self.grace_s <= GRACE_SECONDS_MAX, "grace_s", self.grace_s)

    @classmethod
    def all(cls) -> Keep:
        """Keep every epoch for ever."""
        return cls(last=None)

    @property
    def grace_ms(self) -> int:
        """The grace period in milliseconds."""
        return int(self.grace_s * 1000)

    def kept(self, epochs: Iterable[int], pinned: Iterable[int]) -> list[int]:
        """Which of these epochs stay, ascending; the highest of them is the newest one.

        Epochs of a block of numbers that is not complete stay too: see `retired.py`.
        """
        there = sorted(epochs)
        if self.last is None or not there:
            return there
        newest = there[-1]
        first = min(newest - max(self.last, LAST_MIN) + 1, complete_until(newest))
        chosen = set(pinned)
        return [
            epoch
            for epoch in there
            if epoch >= first or epoch in chosen or (self.every is not None and epoch % self.every == 0)
        ]


def _whole(number: object) -> bool:
    return type(number) is int and number >= 1


def _check(holds: bool, field: str, found: object) -> None:
    if not holds:
        raise EpochError(
            "MP429",
            f"`{field}` makes no sense",
            expected="Keep(last=100, every=1000, grace_s=600): epochs from 1 on, seconds from 0 to 1e10",
            found=shown(found),
            hint="leave `every` out to keep the last ones only; Keep.all() keeps every epoch",
        )
