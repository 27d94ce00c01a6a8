"""What an engine computes of an epoch: its rows, messages that the last epoch left, timers that are due, a load.

A `Driver` decides what is offered, commits it and publishes it; Spark and the simulator are the engines that compute
it. How the work of an epoch comes out of what its tasks report, and how it is run again without rows that raise, is the
same for both, and stands here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import pyarrow as pa

from millpond.checkpoint.records.manifest import Loss
from millpond.checkpoint.records.work import EpochOutcome, EpochWork, Parent
from millpond.compiler.compile import compile_program
from millpond.compiler.compiled import CompiledProgram
from millpond.crashpoints import crashpoint
from millpond.engine.assemble import assemble
from millpond.engine.durability.inputlog import with_input
from millpond.engine.failures import leaving_out
from millpond.engine.local_state.initialstate import LoadReport, Target
from millpond.engine.messages import Control
from millpond.engine.plan import NOTHING_EARLIER, Earlier, EpochPlan, Excluded, Level, ProgramPlan
from millpond.engine.sequence.cutting import after, as_one, has_room, in_turn
from millpond.engine.sequence.ways import in_sequence
from millpond.engine.time.eventtime import ParentWatermark
from millpond.engine.time.timekeeping import Firing
from millpond.engine.time.timers import Due, Look
from millpond.errors import ProgramError
from millpond.keygroups import Layout
from millpond.program import ProgramBase
from millpond.storage.open import open_storage

Rows = TypeVar("Rows")
"""The rows of an epoch, as an engine takes them."""

Entries = TypeVar("Entries")
"""The keys and values of a load, as an engine takes them."""


@dataclass(frozen=True, slots=True)
class Request:
    """Asks for the work of the epoch that follows `parent`, whose counters are `before`.

    `now_us` is the epoch's time, and rows with event times are late by the `watermark` of the parent. If it is the
    `last` one, nothing needs to be done ahead for others.
    """

    parent: Parent
    before: Mapping[str, int]
    now_us: int
    watermark: ParentWatermark
    last: bool = False


class Reported(NamedTuple):
    """What the tasks of an epoch reported, and what was counted outside of them."""

    controls: Sequence[Control]
    counted: Mapping[str, int]


class Computed(NamedTuple):
    """The work of an epoch, and what its tasks reported."""

    work: EpochWork
    controls: Sequence[Control] = ()


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed epoch: what its tasks reported, and how long it took from its offer on.

    `consolidation_s` is how long the consolidation took that went on behind it; None if there was none.
    """

    outcome: EpochOutcome
    controls: Sequence[Control]
    seconds: float
    consolidation_s: float | None


class Engine(ABC, Generic[Rows, Entries]):
    """Computes epochs for a driver; whatever it raises, nothing of the epoch is committed.

    An epoch may be asked for more than once, on the same parent, and must come out the same.
    """

    @abstractmethod
    def follow(self, plan: ProgramPlan) -> None:
        """Compute by this plan from now on: at a start, and when key groups have other owners."""

    @abstractmethod
    def compute_rows(self, rows: Rows, request: Request) -> Computed:
        """Run the tasks of an epoch over its rows."""

    @abstractmethod
    def compute_messages(self, left: pa.Table, request: Request) -> Computed:
        """Go on with messages that the parent left, each for the partition that owns it now."""

    @abstractmethod
    def compute_timers(self, due: Due, firing: Firing, request: Request) -> Computed:
        """Call the handlers of timers that are due."""

    @abstractmethod
    def look(self, look: Look, request: Request) -> Iterable[Due]:
        """Look for timers into the stores of all partitions, as they are at the parent."""

    @abstractmethod
    def compute_load(self, target: Target, entries: Entries) -> Sequence[LoadReport]:
        """Write the entries of a load, each range of key groups for itself."""

    def rebalanced(self, layout: Layout) -> Layout:
        """Say who owns which key groups from the next rows on; as they do now, unless something was decided."""
        return layout

    def on_replay(self, done: int, total: int) -> None:
        """Hear that an epoch is computed again from its input, when so many are `done`."""

    def on_loss(self, loss: Loss) -> None:
        """Hear what of state with bounded loss was lost with a host."""

    def on_commit(self, epoch: Committed) -> None:
        """Hear of a committed epoch."""


RunTasks = Callable[[ProgramPlan, EpochPlan], Reported]
"""Runs all tasks of an epoch by a plan, which may be another one than that of the run."""


class Part(NamedTuple):
    """Rows of an epoch that run in one way, after those of the parts before it."""

    plan: ProgramPlan
    run_tasks: RunTasks


def work_of_parts(parts: Sequence[Part], whole: Part, request: Request, source_prefix: str = "") -> Computed:
    """Compute an epoch part by part, each on what those before it changed; as a `whole` if that has no room."""
    earlier, works, controls = Earlier(), list[EpochWork](), list[Control]()
    storage = open_storage(whole.plan.storage_url)
    for part in parts:
        before = works[-1].counters if works else request.before
        work, told = work_of_rows(*part, replace(request, before=before), source_prefix, earlier)
        controls += in_turn(told, earlier.steps)
        works.append(work)
        earlier = after(storage, request.parent.mark, earlier, work, part.plan.steps)
        crashpoint("part.computed")
        if not has_room(whole.plan, earlier):
            return work_of_rows(*whole, request, source_prefix)
    return Computed(as_one(works, earlier.changed), controls)


def work_of_rows(
    plan: ProgramPlan,
    run_tasks: RunTasks,
    request: Request,
    source_prefix: str = "",
    earlier: Earlier = NOTHING_EARLIER,
) -> Computed:
    """Compute an epoch over rows; one in which rows raise that may not stop it is run again without them."""
    parent = request.parent

    def attempt(used: ProgramPlan, excluded: tuple[Excluded, ...], until: Excluded | None) -> Computed:
        epoch = EpochPlan(
            parent.epoch + 1,
            parent,
            source_prefix,
            now_us=request.now_us,
            excluded=excluded,
            until=until,
            watermark=request.watermark,
            earlier=earlier,
        )
        return _computed(used, epoch, request, run_tasks)

    return leaving_out(plan, attempt, _uncut_plan)


def work_of_messages(plan: ProgramPlan, request: Request, run_tasks: RunTasks) -> Computed:
    """Compute an epoch over the messages that its parent left."""
    parent = request.parent
    epoch = EpochPlan(parent.epoch + 1, parent, continues=True, now_us=request.now_us, watermark=request.watermark)
    return _computed(plan, epoch, request, run_tasks)


def _computed(plan: ProgramPlan, epoch: EpochPlan, request: Request, run_tasks: RunTasks) -> Computed:
    controls, counted = run_tasks(plan, epoch)
    work = assemble(plan, controls, request.before, counted, tried=epoch.excluded)
    return Computed(with_input(plan, epoch, work) if plan.durability is Level.REPLAY else work, controls)


def _uncut_plan(plan: ProgramPlan, rows: Iterable[Excluded]) -> ProgramPlan | None:
    """Return a plan in which the entry points of some rows run gathered, and all that are relaxed; or all in sequence.

    Where epochs are computed again from their rows they must be computed in one way: then there is none.
    """
    if plan.durability is Level.REPLAY:
        return None
    relaxed = {name for name, entry in plan.program.entries.items() if entry.point.relaxed}
    whole = frozenset({plan.feeds[row.feed].entry for row in rows} | relaxed)
    if not all(entry.meets.sure for entry in plan.program.entries.values()):
        # Which instance of partial state rows meet would be another matter in any other way.
        return None
    program = _uncut_program(plan.program.made_of, whole)
    if program is None or any(program.graph.why_sequence(name) for name in whole) or not _meet_alike(program, plan):
        return in_sequence(plan)
    return replace(plan, program=program)


def _meet_alike(program: CompiledProgram, plan: ProgramPlan) -> bool:
    """Say whether rows meet the same instances of partial state as they do by a plan."""
    return all(entry.meets == plan.program.entries[name].meets for name, entry in program.entries.items())


_Compiled = dict[frozenset[str], CompiledProgram | None]
_known: WeakKeyDictionary[type[ProgramBase], _Compiled] = WeakKeyDictionary()


def _uncut_program(program: type[ProgramBase], entries: frozenset[str]) -> CompiledProgram | None:
    compiled = _known.setdefault(program, {})
    if entries not in compiled:
        try:
            compiled[entries] = compile_program(program, sorted(entries))
        except ProgramError:
            compiled[entries] = None
    return compiled[entries]
