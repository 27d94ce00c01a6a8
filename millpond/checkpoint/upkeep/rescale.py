"""Another number of instances of partial state, for a checkpoint that is there.

A rescale is an epoch of its own. Its delta moves the entries of instances to where the new number puts them, and its
manifest says the number from there on. It is committed as any epoch is: whoever dies on the way leaves the old number
or the new one, and of two drivers one loses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from millpond.checkpoint.records.deltas import by_place, write_changes
from millpond.checkpoint.records.manifest import StateFile
from millpond.checkpoint.records.offers import Rescaled
from millpond.checkpoint.records.work import Changed, EpochWork, Parent
from millpond.checkpoint.upkeep.inheritance import NOTHING, Inheritance, content, differences, inherited
from millpond.checkpoint.upkeep.merging import Entry
from millpond.checkpoint.upkeep.scratch import Scratch, Tell, scratch_view
from millpond.crashpoints import crashpoint
from millpond.errors import EpochError
from millpond.ids import InstanceId
from millpond.keygroups import Layout, Succession
from millpond.program.declare import Element
from millpond.state.changes import Changes
from millpond.state.local.storekey import PREFIX_BYTES, store_prefix
from millpond.state.overlay import Base
from millpond.storage.contract import Storage
from millpond.storage.frame import FrameKind

CHUNK_BYTES = 8 * 1024 * 1024
"""About the size of a delta file; so much is held in memory before it is written."""

Difference = tuple[bytes, bytes | None, int]
"""A key, its new value or None, and by how many entries that lets the state grow."""


@dataclass(frozen=True, slots=True)
class Rescale:
    """A change of the number of instances: of which elements, and what the new number is."""

    elements: Mapping[str, Element]
    instances: int

    @property
    def offer(self) -> Rescaled:
        """What is applied to the checkpoint."""
        return Rescaled(self.instances)

    @property
    def doing(self) -> str:
        """What people are told of it while it is under way."""
        return f"moving to {self.instances} instances"

    def compute(self, storage: Storage, parent: Parent, scratch: Scratch) -> EpochWork:
        """Return the work of the epoch that follows `parent`."""
        check_rescale(self.elements, parent.key_groups, parent.instances, self.instances)
        moves = list(self._moves(parent))
        concerned = {move.index for move in moves}
        with scratch_view(storage, parent, concerned, scratch) as view:
            changed = write_differences(storage, self._changes(view, parent, moves, scratch.writing), parent.mark)
        return EpochWork((changed,), (), {})

    def _moves(self, parent: Parent) -> Iterator[_Move]:
        """Yield every place whose content changes, in the order of store keys."""
        before = Layout(parent.key_groups, 1, parent.instances, aligned=True)
        after = Layout(parent.key_groups, 1, self.instances, aligned=True)
        olds = _homes(before)
        news = _homes(after)
        succession = Succession(parent.instances, self.instances)
        places = {kept.name: index for index, kept in enumerate(parent.elements) if kept is not None}
        for element in sorted(self.elements.values(), key=lambda element: places[element.name]):
            index = places[element.name]
            if element.partial:
                for group in sorted({*olds, *news}):
                    old, new = olds.get(group), news.get(group)
                    takes = NOTHING if new is None else inherited(element, succession, new)
                    if old is None and takes is NOTHING:
                        continue
                    if old is None or takes.whole != old:
                        yield _Move(index, element, group, old, takes)

    def _changes(self, view: Base, parent: Parent, moves: list[_Move], tell: Tell) -> Iterator[Difference]:
        homes = Layout(parent.key_groups, 1, parent.instances, aligned=True)
        for done, move in enumerate(moves):
            read = _reader(view, move.index, homes)
            old = iter(()) if move.old is None else read(move.old)
            new = content(move.element, move.takes, read, self.instances)
            prefix = store_prefix(move.index, move.group)
            yield from ((prefix + unit, value, growth) for unit, value, growth in differences(old, new))
            tell(done + 1, len(moves))


def check_rescale(elements: Mapping[str, Element], key_groups: int, before: int, after: int) -> None:
    """Refuse a number that the checkpoint can't have, or fewer instances of what can't be merged."""
    Layout(key_groups, 1, after, aligned=True)
    stuck = [element for element in elements.values() if element.partial and element.merge is None]
    if after < before and stuck:
        raise EpochError(
            "MP420",
            "fewer instances of partial state, and no merge= to combine them",
            expected=f"merge= in the declaration of {', '.join(f'`{element.name}`' for element in stuck)}",
            found=f"{after} instances instead of {before}, and {stuck[0]!r} without merge=",
            hint=f"say how entries are merged, e.g. {stuck[0].name} = Partial({stuck[0].type.text}, "
            f"merge=millpond.merges.{_SUGGESTED.get(stuck[0].type.kind, 'total')}); nothing was changed",
        )


_SUGGESTED = {"set": "union", "list": "concatenate", "map": "greatest", "value": "greatest"}


@dataclass(frozen=True, slots=True)
class _Move:
    """A place in the store, by element and key group: which instance was there, and what comes there."""

    index: int
    element: Element
    group: int
    old: InstanceId | None
    takes: Inheritance


def _homes(layout: Layout) -> dict[int, InstanceId]:
    """Return the instance that is stored under each key group, where there is one."""
    return {layout.home_of(InstanceId(number)): InstanceId(number) for number in range(layout.instances)}


def _reader(view: Base, index: int, layout: Layout) -> Callable[[InstanceId], Iterator[Entry]]:
    def read(instance: InstanceId) -> Iterator[Entry]:
        prefix = store_prefix(index, layout.home_of(instance))
        return ((key[PREFIX_BYTES:], value) for key, value in view.scan(prefix))

    return read


def write_differences(storage: Storage, found: Iterable[Difference], mark: str) -> Changed:
    """Write ascending differences to files of bounded size."""
    files: list[StateFile] = []
    changes = Changes([], [])
    size = grown = 0
    for key, value, growth in found:
        changes.keys.append(key)
        changes.values.append(value)
        grown += growth
        size += len(key) + len(value or b"")
        if size >= CHUNK_BYTES:
            files += _write(storage, changes, mark)
            changes, size = Changes([], []), 0
    files += _write(storage, changes, mark)
    return Changed(files=tuple(files), growth=grown)


def _write(storage: Storage, changes: Changes, mark: str) -> Iterator[StateFile]:
    for place, own in by_place(storage, changes):
        if own.keys:
            yield write_changes(place, FrameKind.DELTA, own, mark)
            crashpoint("delta.written")
