"""The state that a task of a step works on: one overlay per element or instance, and how it is saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millpond.checkpoint.records.deltas import write_delta
from millpond.checkpoint.records.manifest import StateFile
from millpond.checkpoint.records.work import Changed, UnsyncedChanges
from millpond.compiler.compiled import CompiledTask
from millpond.crashpoints import crashpoint
from millpond.engine.durability.setapart import Met, set_apart, unsynced_changes
from millpond.engine.elastic.loadmetrics import keyed_load, work_load
from millpond.engine.gathered.keysets import TouchedKeys
from millpond.engine.gathered.links import Reach
from millpond.engine.gathered.partitionedview import owners_of
from millpond.engine.messages import Load
from millpond.engine.plan import INLINE_BYTES_MAX, INLINE_ENTRIES_MAX, Level, ProgramPlan
from millpond.engine.task.columns import ListColumn
from millpond.engine.task.intake import Work
from millpond.engine.time.ttl import NEVER_US, Over
from millpond.graph.model import Dispatch, Mode
from millpond.ids import InstanceId, PartitionId
from millpond.program.semantics.epoch_time import adding_now_us, now_us, row_turn
from millpond.state.aged import AgedOverlay, AgedValue, Aging
from millpond.state.changes import Changes
from millpond.state.containers.value import THE_KEY
from millpond.state.expiry import AgedType
from millpond.state.overlay import Base, KeyedOverlay, OnDemandOverlay
from millpond.state.rowentries import row_container
from millpond.state.timers import DUE, TimersOverlay, TimersType
from millpond.state.units import Ints
from millpond.storage.composed.unsynced import unsynced_of
from millpond.storage.contract import Storage
from millpond.windowing.element import Windows


class WorkingState:
    """The elements of one step on one partition; `loads` are of the rows whose keys were loaded."""

    def __init__(
        self,
        plan: ProgramPlan,
        step: int,
        partition: PartitionId,
        view: Base,
        owned: Sequence[int] | None = None,
        *,
        over: Over | None = None,
    ) -> None:
        self._plan = plan
        self._partition = partition
        self._owned = plan.layout.groups_of(partition) if owned is None else owned
        self._view = view
        self._keyed: dict[str, KeyedOverlay] = {}
        self._on_demand: dict[tuple[str, int], OnDemandOverlay] = {}
        self._rows: dict[int, Any] = {}
        self._met = Met() if plan.bounded_loss else None
        self._guarded: frozenset[str] = frozenset()
        self.loads: list[Load] = []
        # What is kept by access may change when it is only read.
        aged = (name for name, element in plan.program.elements.items() if element.ttl is not None)
        self._written: set[str] = set(aged)
        self._over = over or {}
        here = [state.name for state in plan.program.graph.states if plan.relaxed or state.level == step]
        self._has_lanes = any(plan.program.elements[name].partial for name in here)

    def lanes(self) -> list[int | None]:
        """Return the instances that this partition runs one after the other; a single None where nothing is partial."""
        if not self._has_lanes:
            return [None]
        return list(self._plan.layout.instances_of(self._partition))

    def guard(self, names: frozenset[str]) -> None:
        """Find reads of keys that were not loaded, in elements that nothing was loaded of yet."""
        assert not names & self._keyed.keys()
        self._guarded = names

    def prefetch(self, work: Work) -> Ints | None:
        """Load the keys that the rows of a BY_KEY task touch; return the rank of each row's key in the store."""
        names = self._keyed_names(work.task)
        if not names:
            self.loads.append(work_load(work, self._plan.layout, self._partition))
            return None
        column = work.key_column()
        if isinstance(column, ListColumn):
            # Values from user code: a dict would take 1, 1.0 and True for one key.
            for name in names:
                self._plan.program.elements[name].type.keys.check_types(column.take(None))
        units, codes = work.coded_keys()
        ranks = [self.keyed_overlay(name).prefetch(units) for name in names]
        self.loads.append(keyed_load(work.task.name, units, self.keyed_overlay(names[0]).groups, codes))
        for name, places in zip(names, ranks, strict=True):
            if self._met is not None and name in self._plan.bounded_loss:
                self._met.count(self.keyed_overlay(name).prefetched, places[codes])
        return ranks[0][codes]

    def by_key_alone(self, task: CompiledTask) -> bool:
        """Say whether rows of different keys share no state, so that only the order within a key can be seen."""
        return 0 < len(self._keyed_names(task)) == len(task.accesses)

    def _keyed_names(self, task: CompiledTask) -> list[str]:
        if task.dispatch is not Dispatch.BY_KEY or not task.key:
            return []
        names = [access.state for access in task.accesses if access.mode is Mode.KEYED]
        return [name for name in names if not self._plan.program.elements[name].type.single]

    def reach(self, work: Work, lane: int | None) -> Reach:
        """Return what the rows of a task may touch: its keys, and instances and elements of a single key as a whole."""
        names = self._keyed_names(work.task)
        keyed: list[tuple[KeyedOverlay, TouchedKeys]] = []
        if names:
            distinct, codes = work.coded_keys()
            units = distinct.tolist() if isinstance(distinct, np.ndarray) else distinct
            keyed = [(self.keyed_overlay(name), TouchedKeys(name, units, codes, codes)) for name in names]
        others = [access for access in work.task.accesses if access.state not in names]
        return Reach(keyed, [self._whole_overlay(access.state, access.mode, lane) for access in others])

    def containers(self, task: CompiledTask, lane: int | None) -> list[Any]:
        """Return what the task's code works on, in the order of its accesses."""
        self._written |= task.writes
        overlays = [(access.state, self._overlay(access.state, access.mode, lane)) for access in task.accesses]
        return [self._renewed(name, one) if name in task.renews else one.container for name, one in overlays]

    def _overlay(self, name: str, mode: Mode, lane: int | None) -> KeyedOverlay | OnDemandOverlay:
        if mode is Mode.KEYED and not self._plan.program.elements[name].type.single:
            return self.keyed_overlay(name)
        return self._whole_overlay(name, mode, lane)

    def _whole_overlay(self, name: str, mode: Mode, lane: int | None) -> OnDemandOverlay:
        if mode is Mode.KEYED:
            return self.single_overlay(name)
        assert lane is not None, name
        return self._on_demand_overlay(name, self._plan.layout.home_of(InstanceId(lane)))

    def _renewed(self, name: str, overlay: KeyedOverlay | OnDemandOverlay) -> Any:
        """Return the container of rows whose code makes values of what they touched when they end."""
        container = self._rows.get(id(overlay))
        if container is None:
            element = self._plan.program.elements[name].type
            container = self._rows[id(overlay)] = row_container(element, overlay.entries)
        return container

    def keyed_overlay(self, name: str) -> KeyedOverlay:
        """Return the entries of a partitioned element, by key."""
        overlay = self._keyed.get(name)
        if overlay is None:
            overlay = self._keyed[name] = self._make_keyed(name)
        return overlay

    def _make_keyed(self, name: str) -> KeyedOverlay:
        element = self._plan.program.elements[name].type
        index, key_groups = self._plan.element_index(name), self._plan.layout.key_groups
        guarded = name in self._guarded
        if isinstance(element, AgedType):
            return AgedOverlay(element, index, self._view, key_groups, self._owned, self._aging(name), guarded=guarded)
        if isinstance(element, TimersType):
            due = self._plan.element_index(name + DUE)
            timers = TimersOverlay(element, index, due, self._view, key_groups, self._owned, guarded=guarded)
            if isinstance(timers.container, Windows):
                timers.container.clock = adding_now_us(element.place)
                timers.container.know(self._plan.windows_since(name))
            return timers
        return KeyedOverlay(element, index, self._view, key_groups, self._owned, guarded=guarded)

    def _aging(self, name: str) -> Aging:
        ttl = self._plan.program.elements[name].ttl
        assert ttl is not None, name
        floor = self._over.get(self._plan.element_index(name), NEVER_US)
        if self._plan.event_time:
            return Aging(ttl, floor, floor, now_us, row_turn)
        return Aging(ttl, now_us(), floor)

    def single_overlay(self, name: str) -> OnDemandOverlay:
        """Return the entries of an element of a single key."""
        return self._on_demand_overlay(name, self._plan.layout.group_of(THE_KEY))

    def _on_demand_overlay(self, name: str, group: int) -> OnDemandOverlay:
        overlay = self._on_demand.get((name, group))
        if overlay is None:
            element = self._plan.program.elements[name].type
            index = self._plan.element_index(name)
            if isinstance(element, AgedType):
                overlay = AgedValue(element, index, group, self._view, self._aging(name))
            else:
                overlay = OnDemandOverlay(element, index, group, self._view)
            self._on_demand[name, group] = overlay
        return overlay

    def changes(self) -> Changes:
        """Return all that differs from the parent, in the order of the store keys."""
        overlays: list[tuple[str, KeyedOverlay | OnDemandOverlay]] = list(self._keyed.items())
        overlays += [(name, whole) for (name, _), whole in self._on_demand.items()]
        written = [overlay for name, overlay in overlays if name in self._written]
        if len(written) == 1 and isinstance(written[0], KeyedOverlay) and written[0].in_order:
            return written[0].changes()
        return Changes.sorted(overlay.changes() for overlay in written)

    def save(self, storage: Storage, mark: str, before: Mapping[bytes, bytes | None], rows: int) -> Changed:
        """Write what changed; small changes are returned instead.

        `before` is what earlier steps changed, if it is this step that speaks for all. So many `rows` may have met a
        key of which it is not known.
        """
        changes, unsynced = self._set_apart(storage, mark, rows)
        if before:
            changes = Changes.of({**before, **dict(changes.pairs())})
        # What orders timers lies anywhere.
        anywhere = any(isinstance(overlay, TimersOverlay) for overlay in self._keyed.values())
        return self._put(storage, mark, changes, unsynced, by_home=anywhere)

    def save_by_home(self, storage: Storage, mark: str, rows: int) -> Changed:
        """Write what changed of gathered keys, a file for each partition that owns some of them."""
        return self._put(storage, mark, *self._set_apart(storage, mark, rows), by_home=True)

    def _put(
        self, storage: Storage, mark: str, changes: Changes, unsynced: UnsyncedChanges, *, by_home: bool
    ) -> Changed:
        if _is_small(changes):
            return Changed(changes, growth=self._growth(), unsynced=unsynced)
        parts = self._by_home(changes) if by_home else [changes]
        files: list[StateFile] = []
        for part in parts:
            files += write_delta(self._place(storage), part, mark)
            crashpoint("delta.written")
        return Changed(files=tuple(files), growth=self._growth(), unsynced=unsynced)

    def _set_apart(self, storage: Storage, mark: str, rows: int) -> tuple[Changes, UnsyncedChanges]:
        """Return what changed, and what of it stays near the host."""
        changed = self.changes()
        if self._met is None:
            return changed, UnsyncedChanges()
        kept, unsynced = set_apart(changed, self._plan.bounded_loss_indexes)
        return kept, unsynced_changes(
            storage, unsynced, self._met.of(unsynced.keys, rows), mark, inline=_is_small(unsynced)
        )

    def _place(self, storage: Storage) -> Storage:
        """Say where changes go: near the host, if they can be computed again from what is logged."""
        return unsynced_of(storage) if self._plan.durability is Level.REPLAY else storage

    def _by_home(self, changes: Changes) -> list[Changes]:
        """Changes by the partition that owns their keys."""
        owners = owners_of(self._plan.layout, pa.array(changes.keys, pa.binary()))
        return [changes.at(np.flatnonzero(owners == home).tolist()) for home in np.unique(owners).tolist()]

    @property
    def soonest_us(self) -> int | None:
        """The first moment that a timer was set to; known once changes were saved."""
        overlays = (overlay for overlay in self._keyed.values() if isinstance(overlay, TimersOverlay))
        return min((overlay.soonest_us for overlay in overlays if overlay.soonest_us is not None), default=None)

    def _growth(self) -> int:
        overlays: list[KeyedOverlay | OnDemandOverlay] = [*self._keyed.values(), *self._on_demand.values()]
        return sum(overlay.growth for overlay in overlays)


def _is_small(changes: Changes) -> bool:
    return len(changes.keys) <= INLINE_ENTRIES_MAX and changes.size_bytes <= INLINE_BYTES_MAX
