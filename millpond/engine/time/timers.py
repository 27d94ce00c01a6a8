"""Timers that are due at a committed point: found in the partitions' stores, and fed to their handlers as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from millpond.checkpoint.records.work import RUNNING_TOTAL, EpochWork, Parent
from millpond.engine.local_state.openstate import open_state
from millpond.engine.plan import ProgramPlan
from millpond.engine.time.eventtime import FIRST_US
from millpond.engine.time.timekeeping import Firing
from millpond.ids import PartitionId
from millpond.program.semantics.epoch_time import moment_of
from millpond.state.cascade import Cascade, Timer, Turn
from millpond.state.timers import DUE, TimersType, scan_due
from millpond.state.units import store_keys_of
from millpond.storage.contract import Storage
from millpond.windowing.element import WindowsType


class Due(NamedTuple):
    """Timers that are due, as (moment, number of the handler, key); and when the next one is, if there is one."""

    timers: list[tuple[int, int, Any]]
    next_us: int | None

    @classmethod
    def together(cls, parts: Iterable[Due]) -> Due:
        """Return the timers of several partitions, in the order in which they fire."""
        found = list(parts)
        later = [part.next_us for part in found if part.next_us is not None]
        return cls(sorted(timer for part in found for timer in part.timers), min(later, default=None))

    def times(self, floor_us: int) -> list[int]:
        """Return what `self.now` says in their handlers where rows have times of their own: the moment of each."""
        return [max(at, floor_us) for at, _, _ in self.timers]

    def rows(self, handlers: Mapping[str, TimersType], until: int | None) -> list[tuple[str, tuple[Any, ...]]]:
        """Return the timers that are due until a time as rows of their handlers, in the order in which they fire."""
        if until is None:
            return []
        known = list(handlers.items())
        found = ((*known[number], key, at) for at, number, key in self.timers)
        return [(name, (key, moment_of(kind.fires_at(at, until)))) for name, kind, key, at in found]

    def several(self, handlers: Mapping[str, TimersType], turn: Turn) -> list[tuple[int, Any]]:
        """Return the handlers and keys that may be called at more than one moment: that is in what a key holds."""
        kinds = list(handlers.values())
        found = ((number, key, kinds[number]) for _, number, key in self.timers)
        return [
            (number, key)
            for number, key, kind in found
            if isinstance(kind, WindowsType) and kind.place.timely and kind.place.stage >= turn.stage
        ]

    def at_each(self, several: Sequence[tuple[int, Any]], moments: Iterable[Timer]) -> Due:
        """Return the timers, those of several moments at each."""
        replaced = set(several)
        others = [timer for timer in self.timers if timer[1:] not in replaced]
        return Due(sorted([*others, *moments]), self.next_us)

    def only(self, handlers: Mapping[str, TimersType], called: Sequence[Timer]) -> Due:
        """Those that are called in a round; the next one is due when the first of the others is."""
        kinds, own = list(handlers.values()), {timer[1:] for timer in called}
        left = [kinds[timer[1]].waits_until(timer[0]) for timer in self.timers if timer[1:] not in own]
        return Due(list(called), min([*left, *([] if self.next_us is None else [self.next_us])], default=None))


Look = Callable[[ProgramPlan, Storage, Parent, PartitionId], Due]
"""Looks for timers into the store of a partition, as it is at a parent."""


def look_here(plan: ProgramPlan, storage: Storage, parent: Parent, look: Look) -> list[Due]:
    """Look into the stores of all partitions from this process."""
    return [look(plan, storage, parent, PartitionId(one)) for one in range(plan.layout.partitions)]


def due_at_end(plan: ProgramPlan, ask: Callable[[Look], Iterable[Due]], until: int) -> Due:
    """Find the timers of handlers that go on after the end of time."""
    handlers = handlers_of(plan)
    going = Cascade(handlers).going_on
    due = Due.together(ask(partial(_due_in_partition, until=until)))
    return due.only(handlers, [timer for timer in due.timers if timer[1] in going])


def due_in_turn(plan: ProgramPlan, firing: Firing, ask: Callable[[Look], Iterable[Due]]) -> tuple[Due, Firing]:
    """Find what is called in the next round of a firing, and how far it is then; `ask` looks into all stores."""
    handlers = handlers_of(plan)
    cascade = Cascade(handlers)
    while True:
        due = Due.together(ask(partial(_due_in_partition, until=firing.until_us)))
        if firing.until_us is not None and (several := due.several(handlers, firing.turn)):
            moments = ask(partial(_moments_in_partition, owned=_by_owner(plan, several), until=firing.until_us))
            due = due.at_each(several, [timer for part in moments for timer in part.timers])
        found = cascade.next_round(due.timers, firing.turn, ends=firing.closing)
        if found is not None:
            return due.only(handlers, found.timers), firing.then(found)
        if firing.end is None:
            return due.only(handlers, []), firing.done()
        firing = firing.end


def _due_in_partition(
    plan: ProgramPlan, storage: Storage, parent: Parent, partition: PartitionId, until: int | None
) -> Due:
    """Find the timers that are due at a time, each key at its first moment; None is before all times."""
    groups = plan.layout.groups_of(partition)
    parts = []
    with open_state(storage, plan.local_root, parent, plan.layout, partition, plan.restore) as view:
        for number, (name, element) in enumerate(handlers_of(plan).items()):
            last = FIRST_US - 1 if until is None else element.until_us(until)
            due, later = scan_due(view, element, plan.element_index(name + DUE), groups, last)
            next_us = None if later is None else element.waits_until(later)
            parts.append(Due([(at, number, key) for at, key in due], next_us))
        view.check()
    return Due.together(parts)


def _by_owner(plan: ProgramPlan, several: Sequence[tuple[int, Any]]) -> dict[int, list[tuple[int, Any]]]:
    """Handlers and keys by the partition that has what the keys hold."""
    found: dict[int, list[tuple[int, Any]]] = {}
    for number, key in several:
        owner = plan.layout.owner_of(plan.layout.group_of(key))
        found.setdefault(owner, []).append((number, key))
    return found


def _moments_in_partition(
    plan: ProgramPlan,
    storage: Storage,
    parent: Parent,
    partition: PartitionId,
    owned: Mapping[int, list[tuple[int, Any]]],
    until: int,
) -> Due:
    """Find all moments up to a time at which handlers are called with keys that a partition has."""
    found: list[Timer] = []
    several = owned.get(partition)
    if several is None:
        return Due(found, None)
    with open_state(storage, plan.local_root, parent, plan.layout, partition, plan.restore) as view:
        for number, (name, element) in enumerate(handlers_of(plan).items()):
            keys = [key for own, key in several if own == number]
            if not keys:
                continue
            windows = element.wrap({})
            windows.know(plan.windows_since(name))
            places = store_keys_of(plan.element_index(name), element.keys, keys, plan.layout.key_groups)
            stored = dict(zip(sorted(places), view.get_many(sorted(places)), strict=True))
            for key, place in zip(keys, places, strict=True):
                value = stored[place]
                assert value is not None, name
                moments = windows.moments(element.values.decode(value), element.until_us(until))
                found += [(at, number, key) for at in moments]
        view.check()
    return Due(found, None)


def handlers_of(plan: ProgramPlan) -> dict[str, TimersType]:
    """Return the handlers of a program and the types of their timers, in the order of their definition."""
    types = {name: element.type for name, element in plan.program.elements.items()}
    return {name: kind for name, kind in types.items() if isinstance(kind, TimersType)}


def nothing_fed(before: Mapping[str, int]) -> EpochWork:
    """Return the work of an epoch that has no rows: running totals go on."""
    return EpochWork((), (), {name: count for name, count in before.items() if name.startswith(RUNNING_TOTAL)})
