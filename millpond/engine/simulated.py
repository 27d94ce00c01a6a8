"""All tasks of an epoch in one process: the real steps, state, storage and commit, without Spark.

For tests and for small local runs: the same partitions, key groups and messages as on a cluster.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from millpond.checkpoint.commit.checkpoint import Checkpoint, EpochOutcome, EpochResult, EpochWork, Offer, Parent
from millpond.checkpoint.commit.settling import may_be_lost, settle
from millpond.checkpoint.records.manifest import Loss, Ownership
from millpond.checkpoint.records.times import Times
from millpond.checkpoint.retention.retention import Keep
from millpond.compiler.compiled import CompiledProgram
from millpond.compiler.routing import HASHED, argument_hash
from millpond.engine.arrowtypes import arrow_type, to_arrow
from millpond.engine.assemble import assemble
from millpond.engine.durability.boundedloss import Saving, bounded_loss_settings
from millpond.engine.durability.inputlog import with_input
from millpond.engine.durability.pending import read_pending
from millpond.engine.durability.replaying import check_durability, replay_lost
from millpond.engine.failures import leaving_out
from millpond.engine.gathered.uncut import uncut_plan
from millpond.engine.local_state.evolving import Schemas, check_elements
from millpond.engine.local_state.initialstate import (
    Into,
    check_empty,
    load_offer,
    load_rows,
    load_work,
    loadable,
    target_of,
)
from millpond.engine.local_state.rescaling import Instances, check_instances
from millpond.engine.messages import decode_control
from millpond.engine.onetask import run_in_one_task
from millpond.engine.plan import (
    DEAD_LETTERS,
    LATE,
    STEPS_MAX,
    BadRows,
    EpochPlan,
    Excluded,
    FeedPlan,
    Level,
    Order,
    ProgramPlan,
    SinkPlan,
)
from millpond.engine.publish.publish import Publisher
from millpond.engine.publish.replies import ABORTED, REPLY
from millpond.engine.schema import element_schemas
from millpond.engine.sequence.ways import HOME, plan_for
from millpond.engine.task.intake import feed_column, keep_column
from millpond.engine.time.eventtime import FeedTime, Judged
from millpond.engine.time.laterows import TIME
from millpond.engine.time.timekeeping import Left, Timekeeper
from millpond.engine.time.timers import Stores, due_in_turn, handlers_of, nothing_fed
from millpond.graph.model import Dispatch
from millpond.ids import PartitionId
from millpond.keygroups import Layout
from millpond.program.durability import BoundedLoss
from millpond.program.entries import EntryPoint
from millpond.sinks.memory import MemorySink
from millpond.sinks.protocol import Sink
from millpond.state.containers.value import THE_KEY
from millpond.storage.composed.unsynced import UnsyncedStorage, durable
from millpond.storage.contract import Storage
from millpond.storage.open import open_storage

Row = tuple[str, tuple[Any, ...]]
"""An entry point's name and its arguments."""

USUAL_PARTITIONS = 2
"""How many there are if nobody says."""

_KEEP = Keep()

_BAD_ROW_GROUP = 0
"""Where a row with a null key goes, as on Spark; it never meets state."""


class Simulated:
    """A program on P partitions in this process, with its checkpoint in a directory, or at the address of another one.

    Rows are given in input order, mixed over entry points as they come; each call of `epoch` is one epoch. Replies are
    gathered by entry point, each with the number of its row: in memory, or in the `sinks` given. What becomes of bad
    rows may differ by entry point; dead letters are kept in `dead_letters`, or in those given. A checkpoint that is
    there gets another number of `instances`, and the elements of a program that changed, before the first epoch; if its
    entry points are others, the first epoch must be told to `adopt`.

    With an `event_time` each entry point is a feed with such times, and the rows of an epoch come with theirs. `late`
    ones are kept in `late_rows` then, in memory or in the sinks given, or else worked on as others are.

    A task that would hold more than `memory_bytes` runs in portions.
    """

    _row_times: Sequence[int | None] = ()

    def __init__(
        self,
        program: CompiledProgram,
        directory: Path,
        partitions: int | None = None,
        key_groups: int | None = None,
        instances: int | None = None,
        *,
        sinks: Mapping[str, Sink] | None = None,
        dead_letters: Mapping[str, MemorySink] | None = None,
        bad_rows: BadRows | Mapping[str, BadRows] = BadRows.FAIL,
        steps_max: int = STEPS_MAX,
        durability: Level | BoundedLoss = Level.EXACTLY_ONCE,
        adopt: bool = False,
        keep: Keep | None = _KEEP,
        event_time: FeedTime | Mapping[str, FeedTime] | None = None,
        late: Mapping[str, Sink] | bool = False,
        checkpoint: str | None = None,
        memory_bytes: int = 0,
    ) -> None:
        self._adopt = adopt
        level, bounded = check_durability(program, durability), bounded_loss_settings(program, durability)
        self._storage: Storage = open_storage(checkpoint or str(directory / "checkpoint"))
        near = UnsyncedStorage(self._storage, directory / "near")
        if level is Level.REPLAY or bounded:
            self._storage = near
        schemas, kept = element_schemas(program), keep or Keep.all()
        self._checkpoint = Checkpoint.open(self._storage, schemas, key_groups, instances, evolving=True, keep=kept)
        local = str(directory / f"local-{partitions or USUAL_PARTITIONS}")
        self._schemas = Schemas(self._checkpoint, program, local, shown=False)
        self._instances = Instances(self._checkpoint, program, instances, local, shown=False)
        self.sinks: dict[str, Sink] = {name: MemorySink() for name in program.entries} | dict(sinks or {})
        self.dead_letters = {name: MemorySink() for name in program.entries} | dict(dead_letters or {})
        self.late_rows: dict[str, Sink] = {name: MemorySink() for name in program.entries} if late else {}
        self.late_rows |= late if isinstance(late, Mapping) else {}
        self._times = Timekeeper(program, lambda: self._checkpoint.head)
        self._fires = self._times.handlers
        timing = _timing(program, self._fires, event_time)
        self._times.follow({name: timing.get(name) for name in program.entries if name not in self._fires}, level)
        policies = dict.fromkeys(program.entries, bad_rows) if isinstance(bad_rows, BadRows) else bad_rows
        feeds = self._feeds(program, directory / "outputs", policies, timing)
        layout = self._instances.last_layout(partitions, USUAL_PARTITIONS)
        self._plan = ProgramPlan(
            program,
            layout,
            feeds,
            self._storage.url,
            local,
            steps_max,
            durability=level,
            elements=self._schemas.elements,
            bounded_loss=frozenset(bounded),
            memory_bytes=memory_bytes,
        )
        self._numbers = {name: number for number, name in enumerate(program.entries)}
        head = self._checkpoint.head
        self._batch = 0 if head is None or head.stream is None else head.stream.batch + 1
        self._fed = self._fed_before({} if head is None else head.counters)
        self._publisher.begin(self._checkpoint)
        self.replayed = replay_lost(self._plan, self._storage, self._checkpoint)
        self.loss = self._settled(near, bounded)
        if self._schemas.bring(self._storage, self._publisher.publish):
            self._plan = replace(self._plan, elements=self._schemas.elements)
        settings = {self._plan.element_index(name): one for name, one in bounded.items()}
        self._saving = Saving(near, settings, threaded=False) if bounded else None
        self._finish(self._times.going_on())
        self._fire_owed()
        if self._instances.bring(self._storage, self._publisher.publish):
            self._plan = replace(self._plan, layout=self._instances.renewed(self._plan.layout))

    def _feeds(
        self, program: CompiledProgram, outputs: Path, policies: Mapping[str, BadRows], timing: Mapping[str, FeedTime]
    ) -> tuple[FeedPlan, ...]:
        """A feed for each entry point, and what publishes to their sinks."""
        replies = {name: SinkPlan.of(name, sink, outputs) for name, sink in self.sinks.items()}
        letters = {name: SinkPlan(f"{name}.{DEAD_LETTERS}", str(outputs)) for name in program.entries}
        late = {name: SinkPlan.of(f"{name}.{LATE}", sink, outputs) for name, sink in self.late_rows.items()}
        targets: dict[str, tuple[Sink, SinkPlan]] = {name: (self.sinks[name], replies[name]) for name in self.sinks}
        targets |= {letters[name].name: (sink, letters[name]) for name, sink in self.dead_letters.items()}
        targets |= {late[name].name: (sink, late[name]) for name, sink in self.late_rows.items()}
        self._publisher = Publisher(self._checkpoint.genesis, targets)
        return tuple(
            FeedPlan(
                name=name,
                entry=name,
                keep=_kept(entry.point),
                order=Order.COLUMN,
                bad_rows=policies.get(name, BadRows.FAIL),
                replies=replies[name] if entry.point.replies or entry.aborts else None,
                dead_letters=letters[name] if policies.get(name) is BadRows.DEAD_LETTER else None,
                time=timing.get(name),
                late=late.get(name),
            )
            for name, entry in program.entries.items()
        )

    def _fed_before(self, counters: Mapping[str, int]) -> int:
        """How many rows were committed before this run; late ones that went to a sink were not fed."""
        kinds = ("fed", "bad", "late") if self.late_rows else ("fed", "bad")
        names = [name for name in self._plan.program.entries if name not in self._fires]
        return sum(counters.get(f"total.{kind}.{name}", 0) for kind in kinds for name in names)

    def _settled(self, near: UnsyncedStorage, bounded: Mapping[str, BoundedLoss]) -> Loss | None:
        """Make durable what the last run left near its host; what of it is lost."""
        if not bounded and not may_be_lost(self._checkpoint.head):
            return None
        return settle(near, self._checkpoint, self._publisher.publish)

    @property
    def storage(self) -> Storage:
        """The checkpoint's storage."""
        return self._storage

    def load(self, element: str, rows: pa.Table, *, into: Into | None = None, name: str | None = None) -> None:
        """Fill a state element with rows of keys and values, once; `Job.load` says the rules."""
        offer = load_offer(self._checkpoint, element, name)
        if offer is None:
            return
        declared, index = loadable(self._plan.program, element), self._plan.element_index(element)
        moment, kept = self._times.moment(), durable(self._storage)
        target = target_of(declared, index, self._plan.layout, into, moment)

        def compute(parent: Parent) -> EpochWork:
            check_empty(self._storage, parent, index, element)
            work = load_work(self._checkpoint, [load_rows(kept, target, rows)])
            return self._times.noted(work, moment, self._plan.element_indexes)

        self._checkpoint.run_epoch(offer, compute, self._publisher.publish, partitions=self._partitions)

    @property
    def batch(self) -> int:
        """The number of the next batch of rows, from 0; the ones before it are committed."""
        return self._batch

    @property
    def fed(self) -> int:
        """How many rows are committed, over the life of the checkpoint."""
        return self._fed

    def epoch(self, rows: Sequence[Row], times: Sequence[int | None] = (), *, ends: bool = False) -> EpochOutcome:
        """Run one epoch over rows in order; with event time, `times` are theirs, in microseconds since 1970.

        If it `ends`, the watermark moves to the end of time, as after a bounded run.
        """
        self._times.check_open()
        offer = Offer("simulated", self._batch, self._sources)
        moment = self._times.moment()
        self._row_times = times
        outcome = self._commit(
            offer,
            lambda parent: self._timed(self._compute(rows, parent, moment), moment, ends=ends),
            moment,
            adopt=self._adopt,
        )
        self._adopt = False
        outcome = self._finish(moment) or outcome
        self._batch += 1
        self._fed += len(rows)
        self._fire_owed()
        return outcome

    def tick(self) -> EpochOutcome | None:
        """Let the time move on without rows, if that changes anything: timers that are due fire."""
        if not self._times.ticks():
            return None
        outcome = self._fire(self._times.moment())
        self._fire_owed()
        return outcome

    def close(self) -> None:
        """End the run: let go of a snapshot that is under way."""
        self._checkpoint.close()

    @property
    def layout(self) -> Layout:
        """Who owns what."""
        return self._plan.layout

    def assign(self, owners: Sequence[int], partitions: int | None = None, spread: Sequence[int] | None = None) -> int:
        """Let these partitions own the key groups from the next epoch on; return how many groups go to another one.

        `spread` says where rows of tasks without state run.
        """
        before = self._plan.layout
        self._plan = replace(self._plan, layout=before.with_owners(owners, partitions).with_spread(spread))
        return self._plan.layout.moved_since(before)

    @property
    def times(self) -> Times:
        """The times that hold after the last committed epoch."""
        return self._times.last

    def _timed(self, work: EpochWork, moment: int, *, ends: bool = False) -> EpochWork:
        return self._times.noted(work, moment, self._plan.element_indexes, ends=ends)

    def _fire_owed(self) -> None:
        """Fire the timers that are due at the end of the last epoch, in epochs that belong to it."""
        while (moment := self._times.owed()) is not None:
            self._fire(moment)

    def _fire(self, moment: int) -> EpochOutcome:
        return self._commit(Offer.tick(), lambda parent: self._compute_timers(parent, moment), moment)

    def _commit(
        self, offer: Offer, compute: Callable[[Parent], EpochWork], moment: int, *, adopt: bool = False
    ) -> EpochOutcome:
        saving = self._saving

        def computed(parent: Parent) -> EpochWork:
            return compute(parent) if saving is None else saving.noted(compute(parent))

        outcome = self._checkpoint.run_epoch(
            offer,
            computed,
            self._publisher.publish,
            partitions=self._partitions,
            adopt=adopt,
            ownership=Ownership.of(self._plan.layout),
        )
        if saving is not None and outcome.result is EpochResult.COMMITTED:
            saving.committed(outcome, self._checkpoint.head_hash, moment)
        return outcome

    def _compute_timers(self, parent: Parent, moment: int) -> EpochWork:
        handlers, firing = handlers_of(self._plan), self._times.firing(moment)
        due, then = due_in_turn(handlers, Stores(self._plan, self._storage, parent), firing)
        if due.timers:
            self._row_times = due.times(self._times.judged().floor_us)
            work = self._compute(due.rows(handlers, then.until_us), parent, moment, then.judged(self._times.judged()))
        else:
            work = nothing_fed({} if self._checkpoint.head is None else self._checkpoint.head.counters)
        return self._times.noted(work, moment, self._plan.element_indexes, left=Left(due.next_us, then.noted))

    def _finish(self, moment: int) -> EpochOutcome | None:
        """Go on with the messages that the last epoch left, in as many epochs as that takes."""
        outcome = None
        while (head := self._checkpoint.head) is not None and head.pending:
            outcome = self._commit(
                head.offer, lambda parent: self._timed(self._continue(parent, moment), moment), moment
            )
        return outcome

    def replies(self) -> dict[int, Any]:
        """Replies in memory by the number of their row, over all epochs of this object."""
        return {number: row[REPLY] for number, row in self._held() if REPLY in row}

    def refusals(self) -> dict[int, str]:
        """Why rows were refused by `self.abort`, by the number of the row, over all epochs of this object."""
        return {number: row[ABORTED] for number, row in self._held() if row.get(ABORTED) is not None}

    def _held(self) -> list[tuple[int, dict[str, Any]]]:
        held = []
        for name, sink in self.sinks.items():
            if name not in self._fires and isinstance(sink, MemorySink):
                column = number_column(self._plan.program.entries[name].point)
                held += [(row[column], row) for row in sink.rows()]
        return held

    @property
    def _partitions(self) -> int:
        return self._plan.layout.partitions

    def _compute(self, rows: Sequence[Row], parent: Parent, moment: int, handlers: Judged | None = None) -> EpochWork:
        check_instances(parent, self._plan.layout)
        check_elements(parent, self._plan.elements)

        def run(plan: ProgramPlan, excluded: tuple[Excluded, ...], until: Excluded | None) -> EpochWork:
            judged = self._times.judged() if handlers is None else handlers
            epoch = EpochPlan(parent.epoch + 1, parent, now_us=moment, excluded=excluded, until=until, judged=judged)
            return self._assemble(plan, epoch, run_in_one_task(plan, epoch, self._sent(plan, rows)))

        return leaving_out(plan_for(self._plan, {self._numbers[entry] for entry, _ in rows}), run, uncut_plan)

    def _continue(self, parent: Parent, moment: int) -> EpochWork:
        check_instances(parent, self._plan.layout)
        check_elements(parent, self._plan.elements)
        left = read_pending(self._storage, self._plan, parent.pending)
        judged = self._times.judged()
        epoch = EpochPlan(parent.epoch + 1, parent, continues=True, now_us=moment, judged=judged)
        return self._assemble(self._plan, epoch, run_in_one_task(self._plan, epoch, left.to_batches()))

    def _assemble(self, plan: ProgramPlan, epoch: EpochPlan, told: pa.Table) -> EpochWork:
        controls = [decode_control(body) for body in told.column("body").to_pylist()]
        head = self._checkpoint.head
        work = assemble(plan, controls, {} if head is None else head.counters, tried=epoch.excluded)
        return with_input(plan, epoch, work)

    @property
    def _sources(self) -> tuple[str, ...]:
        return tuple(self._plan.program.entries)

    def _sent(self, plan: ProgramPlan, rows: Sequence[Row]) -> list[pa.RecordBatch]:
        if not plan.in_sequence:
            return self._route(rows)
        chosen = [(number, self._numbers[entry], 0) for number, (entry, _) in enumerate(rows)]
        return [self._batch_of(rows, HOME, chosen)]

    def _route(self, rows: Sequence[Row]) -> list[pa.RecordBatch]:
        routed: list[list[tuple[int, int, int]]] = [[] for _ in range(self._partitions)]
        owners, carriers = self._plan.layout.owners(), self._plan.layout.carriers()
        for number, (entry, arguments) in enumerate(rows):
            group = self._group(entry, arguments)
            task = self._plan.program.entries[entry].tasks[0]
            targets = [PartitionId((carriers if task.free else owners)[group])]
            if task.dispatch is Dispatch.ONE_TO_ALL:
                everyone = (PartitionId(p) for p in range(self._partitions))
                targets = [p for p in everyone if len(self._plan.layout.instances_of(p))]
            for partition in targets:
                routed[partition].append((number, self._numbers[entry], group))
        return [self._batch_of(rows, partition, chosen) for partition, chosen in enumerate(routed)]

    def _group(self, entry: str, arguments: tuple[Any, ...]) -> int:
        compiled = self._plan.program.entries[entry]
        task = compiled.tasks[0]
        layout = self._plan.layout
        if task.dispatch is not Dispatch.BY_KEY:
            hints = tuple(hint for _, hint in compiled.point.parameters)
            if any(value is None and hint in HASHED for hint, value in zip(hints, arguments, strict=True)):
                return _BAD_ROW_GROUP
            return argument_hash(hints, arguments) % layout.key_groups
        if not task.key:
            return layout.group_of(THE_KEY)
        named = dict(zip((name for name, _ in compiled.point.parameters), arguments, strict=True))
        parts = [named[name] for name in task.key.split(",")]
        if None in parts:
            return _BAD_ROW_GROUP
        return layout.group_of(parts[0] if len(parts) == 1 else tuple(parts))

    def _batch_of(self, rows: Sequence[Row], partition: int, chosen: Sequence[tuple[int, int, int]]) -> pa.RecordBatch:
        # Backwards, because nothing may depend on the order in which rows arrive at a partition.
        chosen = chosen[::-1]
        numbers = [number + self._fed for number, _, _ in chosen]
        columns: dict[str, pa.Array] = {
            "part": pa.array([partition] * len(chosen), pa.int32()),
            "feed": pa.array([feed for _, feed, _ in chosen], pa.int32()),
            "grp": pa.array([group for _, _, group in chosen], pa.int32()),
            "ord": pa.array(numbers, pa.int64()),
            "src": pa.array([None] * len(chosen), pa.string()),
            "pos": pa.array([0] * len(chosen), pa.int64()),
        }
        if self._times.by_event:
            columns[TIME] = pa.array([self._row_times[number] for number, _, _ in chosen], pa.int64())
        for entry, feed in self._numbers.items():
            columns[keep_column(feed, 0)] = pa.array(numbers, pa.int64())
            for place, (name, hint) in enumerate(self._plan.program.entries[entry].point.parameters):
                values = [rows[number][1][place] if own == feed else None for number, own, _ in chosen]
                columns[feed_column(feed, name)] = to_arrow(values, hint).cast(arrow_type(hint))
        return pa.RecordBatch.from_pydict(columns)


def number_column(point: EntryPoint) -> str:
    """The column that tells the number of a row beside its reply: `row`, unless a parameter is called so."""
    taken = {name for name, _ in point.parameters}
    return next(name for name in ("row" + "_" * more for more in itertools.count()) if name not in taken)


def _kept(point: EntryPoint) -> tuple[tuple[str, pa.DataType], ...]:
    """What replies keep: the number of their row; of handlers also the key and the moment, which nobody else has."""
    parameters = point.parameters if point.timer else ()
    return ((number_column(point), pa.int64()), *((name, arrow_type(hint)) for name, hint in parameters))


def _timing(
    program: CompiledProgram, handlers: Sequence[str], given: FeedTime | Mapping[str, FeedTime] | None
) -> dict[str, FeedTime]:
    """The event time of each feed; timers are never late."""
    if given is None:
        return {}
    feeds = dict.fromkeys(program.entries, given) if isinstance(given, FeedTime) else dict(given)
    return feeds | dict.fromkeys(handlers, FeedTime(lateness_us=None))


__all__ = ["Row", "Simulated", "number_column"]
