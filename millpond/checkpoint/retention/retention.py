"""Which epochs of a checkpoint stay readable, and for how long what is not kept stays on the disk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from millpond.checkpoint.retention.retired import complete_until
from millpond.errors import EpochError
from millpond.lengths import Length, length_us
from millpond.spelling import in_seconds_no_more
from millpond.state.codec.shown import shown

LAST = 100
GRACE = timedelta(minutes=10)
"""Longer than a reader takes that has just chosen an epoch, short enough that garbage does not pile up."""

GRACE_MS_MAX = 10**13
"""Three hundred years: a limit that nobody meets, so that moments stay numbers."""

LAST_MIN = 2
"""A start compares the newest manifest with the one before it, so that one must be the real one."""


@in_seconds_no_more
@dataclass(frozen=True, slots=True)
class Keep:
    """Which epochs stay: the `last` ones, every `every`-th, and those with a savepoint; `last=None` keeps all.

    What is not kept is deleted when a `grace` period is over since that was noted, in the background, a little after
    each epoch. The newest epoch and the one before it always stay.

    >>> Keep(last=2, every=10).kept(range(1, 30), pinned={17})
    [10, 17, 20, 24, 25, 26, 27, 28, 29]
    """

    last: int | None = LAST
    every: int | None = None
    grace: Length = GRACE

    def __post_init__(self) -> None:
        _check(self.last is None or _whole(self.last), "last", self.last)
        _check(self.every is None or _whole(self.every), "every", self.every)
        _check(self.grace_ms <= GRACE_MS_MAX, "grace", self.grace)

    @classmethod
    def all(cls) -> Keep:
        """Keep every epoch for ever."""
        return cls(last=None)

    @property
    def grace_ms(self) -> int:
        """The grace period in milliseconds."""
        return length_us(self.grace, "grace", partial(_wrong, "grace")) // 1000

    def kept(self, epochs: Iterable[int], pinned: Iterable[int]) -> list[int]:
        """Say which of these epochs stay, ascending; the highest of them is the newest one.

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
        expected = 'Keep(last=100, every=1000, grace="10 minutes"): epochs from 1 on, up to 300 years'
        raise _wrong(field, expected, shown(found))


def _wrong(field: str, expected: str, found: str) -> EpochError:
    return EpochError(
        "MP429",
        f"Keep() does not take this `{field}`",
        expected=expected,
        found=found,
        hint="leave `every` out to keep the last ones only; Keep.all() keeps every epoch",
    )
