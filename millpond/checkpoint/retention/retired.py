"""Numbers of epochs that are given away for good, although the manifests that took them are deleted.

The put of a manifest is the fence: of two drivers that commit epoch n, one finds the name taken. If manifest n is
deleted later, a driver that slept all the while would find the name free. So before any manifest is deleted, a mark is
made durable that covers its number, and a driver looks for the mark after its put:

- if n was never committed before, no mark covers it, because a mark covers only numbers up to the newest epoch;
- if n was committed and deleted, its mark was durable before the deletion, so before the put that found the name free:
  the driver sees it and has lost. It leaves the manifest where it is, since it can't tell whether it slept before its
  put or after it, when the manifest was the real one. Nobody builds on it: a start reads the newest manifest and the
  one before it, which are always kept, and the next collection takes it away.

A driver that has not committed for a while looks before its put too, so that such a manifest comes about only if it
sleeps between the two.

Marks cover blocks of numbers, small ones and large ones. A block is marked when all its numbers are committed, so a few
epochs more than asked for stay until their block is complete. Small marks are deleted after the large mark that covers
them is durable; whoever looks, looks for the small one first, so it never misses both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

import msgspec

from millpond.checkpoint.records.manifest import EPOCH_DIGITS
from millpond.checkpoint.records.naming import given_in
from millpond.checkpoint.records.notes import encode_note
from millpond.crashpoints import crashpoint
from millpond.storage.contract import Storage

RETIRED = "retired"
"""The folder of marks."""

SMALL: Final = 8
LARGE: Final = 4096
"""A year of an epoch a second is 7,700 large blocks."""

SIZES: Final = (SMALL, LARGE)


class Retired(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="retired"):
    """The numbers of a block, from `first` to before `until`, are given away."""

    first: int
    until: int


def complete_until(newest: int) -> int:
    """Return the first number that lies in no complete block, if epochs up to `newest` are committed."""
    return (newest + 1) // SMALL * SMALL


def block_end(epoch: int) -> int:
    """Return the first number after the block that an epoch lies in."""
    return (epoch // SMALL + 1) * SMALL


def is_retired(storage: Storage, epoch: int) -> bool:
    """Say whether the number of an epoch was taken once and is deleted now, or may be at any time."""
    return any(storage.contains(_name(size, epoch // size)) for size in SIZES)


def give_away(storage: Storage, until: int, puts_max: int) -> bool:
    """Mark all numbers before `until`, the end of a block; False if more puts are left than are allowed at a time."""
    assert until % SMALL == 0, until
    there = set(given_in(storage, RETIRED))
    wanted = _cover(until)
    missing = [mark for mark in wanted if mark not in there]
    for mark in missing[:puts_max]:
        storage.put(mark, encode_note(wanted[mark]))
        crashpoint("number.retired")
    if len(missing) > puts_max:
        return False
    for mark in sorted(there):
        if _covered(mark, until // LARGE):
            storage.delete(mark)
            crashpoint("number.covered")
    return True


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks that there are, by the size of their blocks."""

    blocks: frozenset[tuple[int, int]]

    @classmethod
    def read(cls, storage: Storage) -> Self:
        """List all marks."""
        found = map(_MARK.fullmatch, given_in(storage, RETIRED))
        pairs = ((int(match[1]), int(match[2])) for match in found if match is not None)
        return cls(frozenset(pair for pair in pairs if pair[0] in SIZES))

    @property
    def until(self) -> int:
        """The first number after the last marked block."""
        return max((size * (number + 1) for size, number in self.blocks), default=0)

    def end_of(self, epoch: int) -> int | None:
        """Return the first number after a marked block that holds an epoch; None if none does."""
        ends = ((epoch // size + 1) * size for size in SIZES if (size, epoch // size) in self.blocks)
        return max(ends, default=None)


_MARK = re.compile(rf"{RETIRED}/([0-9]{{1,9}})-([0-9]{{{EPOCH_DIGITS}}})")


def _cover(until: int) -> dict[str, Retired]:
    large = until // LARGE
    blocks = [(LARGE, number) for number in range(large)]
    blocks += [(SMALL, number) for number in range(large * (LARGE // SMALL), until // SMALL)]
    return {_name(size, number): Retired(size * number, size * (number + 1)) for size, number in blocks}


def _covered(mark: str, large: int) -> bool:
    """Say whether a small mark lies in one of the first so many large blocks."""
    match = _MARK.fullmatch(mark)
    return match is not None and int(match[1]) == SMALL and int(match[2]) < large * (LARGE // SMALL)


def _name(size: int, number: int) -> str:
    return f"{RETIRED}/{size}-{number:0{EPOCH_DIGITS}}"
