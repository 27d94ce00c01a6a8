"""What changed of stored state, from the overlay of a task to the file of an epoch and into local stores.

>>> first, second = Changes.of({b"b": b"1", b"a": b"2"}), Changes([b"a"], [None])
>>> Changes.joined([first, second])
Changes(keys=[b'a', b'b'], values=[None, b'1'])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from operator import lt
from typing import NamedTuple


class Changes(NamedTuple):
    """Store keys, each once and ascending if nothing else is said, and for each its new value; None is a tombstone."""

    keys: list[bytes]
    values: list[bytes | None]

    @classmethod
    def of(cls, changed: Mapping[bytes, bytes | None]) -> Changes:
        """Changes in the order of their keys."""
        keys = sorted(changed)
        return cls(keys, list(map(changed.__getitem__, keys)))

    @classmethod
    def joined(cls, parts: Iterable[Changes]) -> Changes:
        """Several changes as one: of two for a key the later counts."""
        changed: dict[bytes, bytes | None] = {}
        for part in parts:
            changed.update(part.pairs())
        return cls.of(changed)

    @classmethod
    def sorted(cls, parts: Iterable[Changes]) -> Changes:
        """Several changes of different keys as one, in whatever order they are."""
        found = list(parts)
        changes = cls([key for one in found for key in one.keys], [value for one in found for value in one.values])
        if all(map(lt, changes.keys, islice(changes.keys, 1, None))):
            return changes
        return changes.at(sorted(range(len(changes.keys)), key=changes.keys.__getitem__))

    @property
    def size_bytes(self) -> int:
        """How many bytes keys and values have together."""
        return sum(map(len, self.keys)) + sum(map(len, filter(None, self.values)))

    def pairs(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Return each key with its value."""
        return zip(self.keys, self.values, strict=True)

    def at(self, places: Iterable[int]) -> Changes:
        """Those at some places, in the order of these."""
        chosen = list(places)
        return Changes([self.keys[at] for at in chosen], [self.values[at] for at in chosen])

    def sliced(self, start: int, end: int) -> Changes:
        """Those from one place up to another."""
        return Changes(self.keys[start:end], self.values[start:end])
