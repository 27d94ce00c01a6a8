"""Timers that are due at a committed point: found in the partitions' stores, and fed to their handlers as rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from millpond.epochs.work import EpochWork, Parent
from millpond.ids import PartitionId
from millpond.program.epoch_time import moment_of
from millpond.runtime.assemble import RUNNING_TOTAL
from millpond.runtime.eventtime import FIRST_US
from millpond.runtime.opening import open_state
from millpond.runtime.plan import ProgramPlan
from millpond.state.timers import DUE, TimersType, scan_due
from millpond.storage.contract import Storage


class Due(NamedTuple):
    """Timers that are due, as (moment, number of the handler, key); and when the next one is, if there is one."""

    timers: list[tuple[int, int, Any]]
    next_us: int | None

    @classmethod
    def together(cls, parts: Iterable[Due]) -> Due:
        """The timers of several partitions, in the order in which they fire."""
        found = list(parts)
        later = [part.next_us for part in found if part.next_us is not None]
        return cls(sorted(timer for part in found for timer in part.timers), min(later, default=None))

    def times(self, floor_us: int) -> list[int]:
        """What `self.now` says in their handlers where rows have times of their own: the moment of each."""
        return [max(at, floor_us) for at, _, _ in self.timers]

    def rows(self, handlers: Mapping[str, TimersType], until: int | None) -> list[tuple[str, tuple[Any, ...]]]:
        """The timers that are due until a time as rows of their handlers, in the order in which they fire."""
        if until is None:
            return []
        known = list(handlers.items())
        found = ((*known[number], key, at) for at, number, key in self.timers)
        return [(name, (key, moment_of(kind.told_at(at, until)))) for name, kind, key, at in found]


def due_timers(plan: ProgramPlan, storage: Storage, parent: Parent, now: int | None) -> Due:
    """All timers that are due at a time; None is before all times."""
    partitions = range(plan.layout.partitions)
    return Due.together(due_in_partition(plan, storage, parent, PartitionId(number), now) for number in partitions)


def due_in_partition(
    plan: ProgramPlan, storage: Storage, parent: Parent, partition: PartitionId, now: int | None
) -> Due:
    """The timers that are due at a time, of those that a partition keeps in order."""
    until = FIRST_US - 1 if now is None else now
    groups = plan.layout.groups_of(partition)
    parts = []
    with open_state(storage, plan.local_root, parent, plan.layout, partition, plan.restore) as view:
        for number, (name, element) in enumerate(handlers_of(plan).items()):
            due, later = scan_due(view, element, plan.element_index(name + DUE), groups, until)
            parts.append(Due([(at, number, key) for at, key in due], later))
        view.check()
    return Due.together(parts)


def handlers_of(plan: ProgramPlan) -> dict[str, TimersType]:
    """The handlers of a program and the types of their timers, in the order of their definition."""
    types = {name: element.type for name, element in plan.program.elements.items()}
    return {name: kind for name, kind in types.items() if isinstance(kind, TimersType)}


def nothing_fed(before: dict[str, int]) -> EpochWork:
    """The work of an epoch that has no rows: running totals go on."""
    return EpochWork((), (), {name: count for name, count in before.items() if name.startswith(RUNNING_TOTAL)})
