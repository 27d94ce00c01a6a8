"""Where a local store stands: the committed state that it holds, and of which key groups.

>>> ranges_of([0, 1, 2, 7])
((0, 2), (7, 7))
>>> sorted(groups_in(((0, 1), (7, 7))))
[0, 1, 7]
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

Ranges = tuple[tuple[int, int], ...]
"""Key groups as ranges, both ends included, ascending and apart from each other."""


class Stamp(msgspec.Struct, frozen=True):
    """Which committed state a store holds: never a bare number, since another timeline has the same numbers."""

    uuid: str
    epoch: int
    hash: str


class StoreVersion(msgspec.Struct, frozen=True):
    """Where a store stands: its stamp, None if it can't be trusted; the key groups that it holds, None for all of
    them; and all that there may be, None if nobody said.

    One that is `moving` from a stamp to another has some entries of the first, and some of the second: it can't be
    read, but whoever applies all that lies between the two has a store of the second.
    """

    stamp: Stamp | None = None
    held: Ranges | None = None
    whole: Ranges | None = None
    moving: tuple[Stamp, Stamp] | None = None

    @property
    def origin(self) -> Stamp | None:
        """The stamp from which deltas lead on, None if they can't."""
        return self.moving[0] if self.moving else self.stamp


def ranges_of(groups: Iterable[int]) -> Ranges:
    """Return key groups as ranges."""
    ranges: list[tuple[int, int]] = []
    for group in sorted(groups):
        if ranges and group == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], group)
        else:
            ranges.append((group, group))
    return tuple(ranges)


def groups_in(ranges: Ranges) -> frozenset[int]:
    """Return the key groups of some ranges."""
    return frozenset(group for first, last in ranges for group in range(first, last + 1))
