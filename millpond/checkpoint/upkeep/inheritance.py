"""What each instance of a partial element holds after their number changed: all, a share or a merge of what was.

Entries are pairs of bytes, a unit and its value, in the order of the units. Only a merge looks into them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from millpond.checkpoint.upkeep.merging import Entry, merge_instances
from millpond.ids import InstanceId
from millpond.keygroups import Succession
from millpond.program.declare import Element
from millpond.state.containers.list import List

HASH_BYTES = 8

Read = Callable[[InstanceId], Iterator[Entry]]
"""Reads an instance as it was."""


@dataclass(frozen=True, slots=True)
class Inheritance:
    """Where the content of an instance comes from: `sources` as they were, or share `number` of `shares` of one."""

    sources: tuple[InstanceId, ...]
    number: int = 0
    shares: int = 1

    @property
    def whole(self) -> InstanceId | None:
        """The instance that this one is just like, if there is one."""
        return self.sources[0] if len(self.sources) == self.shares == 1 else None


NOTHING = Inheritance(())


def inherited(element: Element, succession: Succession, instance: InstanceId) -> Inheritance:
    """Return what an instance takes over, as the element's declaration says."""
    sources = tuple(map(InstanceId, succession.sources(instance)))
    if not succession.grows:
        return Inheritance(sources)
    heirs = succession.heirs(sources[0])
    match element.on_scale_out:
        case "copy":
            return Inheritance(sources)
        case "split":
            return Inheritance(sources, heirs.index(instance), len(heirs))
        case "empty":
            return Inheritance(sources) if instance == heirs[0] else NOTHING


def content(element: Element, inheritance: Inheritance, read: Read, salt: int) -> Iterator[Entry]:
    """Yield the entries of an instance that inherits; `salt` makes one split independent of the one before it."""
    sources = inheritance.sources
    if not sources:
        return iter(())
    if len(sources) > 1:
        return merge_instances(element, [read(source) for source in sources])
    if inheritance.shares == 1:
        return read(sources[0])
    if element.type.container is List:
        return _run(element, inheritance, lambda: read(sources[0]))
    return (entry for entry in read(sources[0]) if _share_of(entry[0], inheritance.shares, salt) == inheritance.number)


def _run(element: Element, inheritance: Inheritance, read: Callable[[], Iterator[Entry]]) -> Iterator[Entry]:
    """Yield a run of a list: shares one after the other are the list again; each counts its positions from 0."""
    length = sum(1 for _ in read())
    first = length * inheritance.number // inheritance.shares
    end = length * (inheritance.number + 1) // inheritance.shares
    for position, (_, value) in enumerate(islice(read(), first, end)):
        yield element.type.keys.encode(position), value


def _share_of(unit: bytes, shares: int, salt: int) -> int:
    """Say which share a unit belongs to.

    Not by the hash of keys: all units of a share agree in it, so that sharing the share once more by the same hash
    would leave it in one piece.
    """
    digest = hashlib.blake2b(unit, digest_size=HASH_BYTES, salt=salt.to_bytes(HASH_BYTES, "big")).digest()
    return int.from_bytes(digest, "big") % shares


def differences(before: Iterable[Entry], after: Iterable[Entry]) -> Iterator[tuple[bytes, bytes | None, int]]:
    """Yield what changes in one place.

    Units with their new values, None if they go, and by how much the place grows.
    """
    olds, news = iter(before), iter(after)
    old, new = next(olds, None), next(news, None)
    while old is not None or new is not None:
        if new is None or (old is not None and old[0] < new[0]):
            assert old is not None
            yield old[0], None, -1
            old = next(olds, None)
        elif old is None or new[0] < old[0]:
            yield new[0], new[1], 1
            new = next(news, None)
        else:
            if old[1] != new[1]:
                yield new[0], new[1], 0
            old, new = next(olds, None), next(news, None)
