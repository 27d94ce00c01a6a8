"""The state that rows in sequence work on: every element as a whole, and a program that has it."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from millpond.checkpoint.records.deltas import write_delta
from millpond.checkpoint.records.manifest import StateFile
from millpond.checkpoint.records.work import NO_CHANGE, Changed, Parent
from millpond.compiler.back.direct import TwoCodes
from millpond.compiler.back.sequence import as_function
from millpond.compiler.plan.routing import argument_hash
from millpond.crashpoints import crashpoint
from millpond.engine.sequence.spilled import Spilled
from millpond.engine.task.working import WorkingState
from millpond.errors import EpochError
from millpond.ids import InstanceId, KeyGroup
from millpond.program.globals import asking
from millpond.program.semantics.ambient import ROW
from millpond.program.semantics.epoch_time import adding_now_us
from millpond.program.semantics.rows import JOURNAL
from millpond.state.changes import Changes
from millpond.state.containers.value import THE_KEY
from millpond.state.expiry import AgedType
from millpond.state.journal import Journal
from millpond.state.sequence.aged import SequenceAged
from millpond.state.sequence.entries import Entries
from millpond.state.sequence.overlay import ENTRY_BYTES, OBJECTS_BY_BYTES, SequenceOverlay
from millpond.state.sequence.timers import SequenceTimers
from millpond.state.timers import DUE, TimersType
from millpond.storage.contract import Storage
from millpond.windowing.element import Windows

Ending = tuple[Any, Callable[[], None]]
"""What a row has touched of an element, and what makes values of it."""


class SequenceJournal(Journal):
    """The journal of a program that is always in a row: a call of another entry point may be undone by itself."""

    __slots__ = ("overlays",)

    def __init__(self) -> None:
        super().__init__()
        self.overlays: list[SequenceOverlay] = []

    @property
    def in_row(self) -> bool:
        """Whether a row is at work."""
        return True

    def begin(self) -> None:
        """Open a frame."""
        for overlay in self.overlays:
            overlay.enter()

    def keep(self) -> None:
        """Close a frame whose changes stay."""
        for overlay in self.overlays:
            overlay.leave(keep=True)

    def undo(self) -> None:
        """Close a frame, and bring back all that it met."""
        for overlay in self.overlays:
            overlay.leave(keep=False)


class SequenceState(WorkingState):
    """All elements of a program, each entry read when it is touched, and the `program` whose attributes they are.

    `begins` is what begins a row: if there is partial state, the instance that it meets.
    """

    def prepare(self, parent: Parent, base: Spilled, earlier: Changed = NO_CHANGE) -> None:
        """Make the program, over what a checkpoint holds, what earlier parts changed, and what was put down of it."""
        files = [*parent.snapshot, *(file for delta in parent.deltas for file in delta.files), *earlier.files]
        self._held: float = sum(file.entries for file in files) + len(earlier.inline.keys)
        stored_bytes = sum(file.file.size_bytes for file in files)
        limit = self._plan.memory_bytes
        if limit and self._held * ENTRY_BYTES + OBJECTS_BY_BYTES * stored_bytes > limit:
            # All of it has no room.
            self._held = math.inf
        self._spilled = base
        self._journal = SequenceJournal()
        shipped = self._plan.program.shipped
        assert shipped is not None
        self.program = object.__new__(shipped)
        self._instances: dict[str, list[Any]] = {}
        self._overlays: list[SequenceOverlay] = []
        self._by_name: dict[str, list[SequenceOverlay]] = {}
        containers: dict[str, Any] = {}
        for name, element in self._plan.program.elements.items():
            if name.endswith(DUE):
                continue
            if element.partial:
                homes = [self._plan.layout.home_of(InstanceId(one)) for one in range(self._plan.layout.instances)]
                self._instances[name] = [self._add(name, home) for home in homes]
                containers[name] = self._instances[name][0]
            else:
                containers[name] = self._add(name, self._plan.layout.group_of(THE_KEY) if element.type.single else None)
        self._journal.overlays = self._overlays
        self._given = {**containers, JOURNAL: self._journal}
        self._direct = {name: one for name, held in containers.items() if (one := self._reachable(held)) is not None}
        vars(self.program).update(self._given)
        self.begins = self._meet if self._instances else None
        self._methods: dict[str, Callable[..., Any]] = {}
        self._helpers: set[str] = set()
        self._quick = True
        for overlay in self._lasting():
            overlay.quick = True
        self._points = {name: entry.point for name, entry in self._plan.program.entries.items()}

    def method(self, name: str, function: Callable[..., Any], codes: Mapping[str, TwoCodes]) -> Callable[..., Any]:
        """Return the method of an entry point over the state at hand; `codes` are those of it and of its helpers."""
        if self._quick and not all(overlay.quick for overlay in self._lasting()):
            self._note_rows()
        if name not in self._methods:
            reached = {name: overlay.reached for name, overlay in self._direct.items()}
            for one, both in codes.items():
                code = both.quick if self._quick else both.noting
                if one == name:
                    function = code.bound(as_function(function), reached)
                elif one not in self._given:
                    helper = inspect.getattr_static(type(self.program), one)
                    self._given[one] = types.MethodType(code.bound(helper, reached), self.program)
                    self._helpers.add(one)
            vars(self.program).update(self._given)
            self._methods[name] = function
        return self._methods[name]

    def know(self) -> None:
        """Know entries as they are now: what rows before did is sure."""
        for overlay in self._overlays:
            overlay.begin()
        if self._quick and any(overlay.is_large for overlay in self._lasting()):
            self._note_rows()

    def _note_rows(self) -> None:
        """Note from now on what each row changes."""
        self._quick = False
        for overlay in self._lasting():
            overlay.note_rows()
        self._methods.clear()
        for name in self._helpers:
            del self._given[name], vars(self.program)[name]
        self._helpers.clear()

    def read_ahead(self, keys: Iterable[tuple[str, Iterable[Any]]]) -> None:
        """Read the entries of some keys at once, by element."""
        for name, units in keys:
            self._direct[name].read_ahead(units)

    def endings(self, names: Collection[str]) -> list[Ending]:
        """Return what ends a row, for some elements alone; those that expire end with every one."""
        return [
            one.ending
            for name, overlays in self._by_name.items()
            for one in overlays
            if one.ending is not None and (name in names or isinstance(one, SequenceAged))
        ]

    def end_rows(self) -> None:
        """Make values of what is left to be looked at when some rows have ended, since nobody could tell before."""
        for overlay in self._overlays:
            if overlay.ending is not None and overlay.ending[0]:
                overlay.ending[1]()

    def _lasting(self) -> Iterator[SequenceOverlay]:
        """Return the overlays of what does not expire."""
        return (overlay for overlay in self._overlays if not isinstance(overlay, SequenceAged))

    def _add(self, name: str, group: int | None) -> Any:
        overlay = self._make_whole(name, group)
        self._overlays.append(overlay)
        self._by_name.setdefault(name, []).append(overlay)
        if isinstance(overlay.container, Windows):
            overlay.container.clock = adding_now_us(overlay.container.place)
            overlay.container.know(self._plan.windows_since(name))
        return overlay.container

    def _reachable(self, container: Any) -> SequenceOverlay | None:
        """Return the overlay of a container that is its entries."""
        return next(
            (one for one in self._overlays if one.entries is container and isinstance(container, Entries)), None
        )

    def _make_whole(self, name: str, group: int | None) -> SequenceOverlay:
        element = self._plan.program.elements[name].type
        index, key_groups = self._plan.element_index(name), self._plan.layout.key_groups
        if isinstance(element, AgedType):
            return SequenceAged(element, index, self._view, key_groups, group, self._aging(name), self._journal)
        if isinstance(element, TimersType):
            return SequenceTimers(element, index, self._plan.element_index(name + DUE), self._view, key_groups)
        return SequenceOverlay(element, index, self._view, key_groups, group, held=self._held)

    @property
    def overlays(self) -> Sequence[SequenceOverlay]:
        """All that rows may touch."""
        return self._overlays

    def _meet(self, entry: str, values: tuple[Any, ...]) -> None:
        """Let a row meet the instances of partial state that follow from its entry point and arguments."""
        layout, point = self._plan.layout, self._points[entry]
        group = KeyGroup((argument_hash(point, values) or 0) % layout.key_groups)
        lanes = dict.fromkeys(self._instances, layout.instance_of(group))
        for element, key in self._plan.program.entries[entry].meets.keys:
            given = dict(zip((name for name, _ in point.parameters), values, strict=True))
            parts = tuple(given[name] for name in key)
            lanes[element] = layout.instance_of(layout.group_of(parts[0] if len(parts) == 1 else parts))
        vars(self.program).update((name, self._instances[name][lane]) for name, lane in lanes.items())

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Let rows run inside; the program must be left as it was, but for its state."""
        siblings: Mapping[int, Sequence[Any]] = {
            id(one): instances for instances in self._instances.values() for one in instances
        }
        with asking(siblings):
            yield
        left = {name: value for name, value in vars(self.program).items() if name != ROW}
        changed = [name for name in left.keys() | self._given.keys() if self._is_changed(name, left)]
        if changed:
            raise EpochError(
                "MP442",
                f"a row set self.{min(changed)}, which is not state",
                expected="state that is declared in the class, and changed in place",
                found=", ".join(sorted(changed)),
                hint="declare it, such as `Partitioned(Value[...])`: what is set otherwise is gone with the epoch; "
                "nothing was committed",
            )

    def _is_changed(self, name: str, left: Mapping[str, Any]) -> bool:
        if name in self._instances:
            return not any(left.get(name) is one for one in self._instances[name])
        return left.get(name) is not self._given.get(name)

    def changes(self) -> Changes:
        """Return all that differs from the parent, in the order of the store keys."""
        if not self._spilled.used:
            return self._changes()
        self._put_all_down()
        return Changes.sorted(self._spilled.portions(_PORTION_ENTRIES))

    def _changes(self) -> Changes:
        return Changes.sorted(overlay.changes() for overlay in self._overlays)

    def make_room(self) -> None:
        """Put entries down, between two rows, if they take more memory than they may."""
        limit = self._plan.memory_bytes
        if limit and sum(overlay.size_bytes for overlay in self._overlays) > limit:
            self.put_down()

    def put_down(self) -> None:
        """Put down what changed, and read all again when it is touched.

        What expires in event time stays: rows of another time see more of it than a checkpoint keeps.
        """
        going = [overlay for overlay in self._overlays if not self._stays(overlay)]
        self._spilled.put(Changes.sorted(overlay.changes() for overlay in going))
        for overlay in going:
            overlay.forget()

    def _stays(self, overlay: SequenceOverlay) -> bool:
        return self._plan.event_time and isinstance(overlay, SequenceAged)

    def _put_all_down(self) -> None:
        self.put_down()
        left = filter(self._stays, self._overlays)
        self._spilled.put(Changes.sorted(overlay.changes() for overlay in left))

    def save_by_home(self, storage: Storage, mark: str, rows: int) -> Changed:
        """Write what changed, files for each partition that owns some of it; what was put down by the portion."""
        if not self._spilled.used or self._plan.bounded_loss:
            return super().save_by_home(storage, mark, rows)
        self._put_all_down()
        files: list[StateFile] = []
        for changes in self._spilled.portions(_PORTION_ENTRIES):
            for part in self._by_home(changes):
                files += write_delta(self._place(storage), part, mark)
                crashpoint("delta.written")
        return Changed(files=tuple(files), growth=self._growth())

    @property
    def soonest_us(self) -> int | None:
        """The first moment that a timer was set to; known once changes were saved."""
        overlays = (overlay for overlay in self._overlays if isinstance(overlay, SequenceTimers))
        return min((overlay.soonest_us for overlay in overlays if overlay.soonest_us is not None), default=None)

    def _growth(self) -> int:
        return sum(overlay.growth for overlay in self._overlays)


_PORTION_ENTRIES = 200_000
"""So many changes are in memory at once when they are written."""
