"""All tasks of an epoch in one process: the real steps, state, storage and commit, without Spark.

For tests and for small local runs: the same driver, partitions, key groups and messages as on a cluster.

>>> import tempfile
>>> from millpond import Counter, Partitioned, Program, entry
>>> from millpond.compiler.compile import compile_program
>>> class Words(Program):
...     counts = Partitioned(Counter[str])
...
...     @entry
...     def add(self, word: str) -> int:
...         self.counts[word] += 1
...         return self.counts[word]
>>> with tempfile.TemporaryDirectory() as folder:
...     run = Simulated(compile_program(Words), Path(folder), partitions=3)
...     outcome = run.epoch([("add", ("mill",)), ("add", ("pond",)), ("add", ("mill",))])
>>> outcome.manifest.epoch, sorted(run.replies().items())
(1, [(0, 1), (1, 1), (2, 2)])
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from millpond.checkpoint.commit.checkpoint import Checkpoint, EpochOutcome
from millpond.checkpoint.records.manifest import Loss
from millpond.checkpoint.records.offers import Batch
from millpond.checkpoint.records.times import Times
from millpond.checkpoint.retention.retention import Keep
from millpond.compiler.compiled import CompiledProgram
from millpond.compiler.plan.routing import argument_hash
from millpond.engine.arrowtypes import arrow_type, to_arrow
from millpond.engine.compute import (
    Computed,
    Engine,
    Part,
    Reported,
    Request,
    work_of_messages,
    work_of_parts,
    work_of_rows,
)
from millpond.engine.driver import Driver
from millpond.engine.local_state.initialstate import Into, Load, LoadReport, Target, load_rows, loadable
from millpond.engine.messages import decode_control
from millpond.engine.onetask import run_in_one_task
from millpond.engine.plan import (
    DEAD_LETTERS,
    LATE,
    STEPS_MAX,
    BadRows,
    EpochPlan,
    FeedPlan,
    Level,
    Order,
    ProgramPlan,
    SinkPlan,
)
from millpond.engine.publish.publish import Publisher
from millpond.engine.publish.replies import ABORTED, REPLY
from millpond.engine.sequence.ways import HOME, cut_around, plan_for
from millpond.engine.task.intake import feed_column, keep_column
from millpond.engine.time.eventtime import FeedTime
from millpond.engine.time.laterows import TIME
from millpond.engine.time.timekeeping import Firing
from millpond.engine.time.timers import Due, Look, handlers_of, look_here
from millpond.graph.model import Dispatch
from millpond.ids import PartitionId
from millpond.keygroups import Layout
from millpond.program.durability import BoundedLoss
from millpond.program.entries import EntryPoint
from millpond.sinks.memory import MemorySink
from millpond.sinks.protocol import Sink
from millpond.state.containers.value import THE_KEY
from millpond.storage.composed.unsynced import UnsyncedStorage
from millpond.storage.contract import Storage
from millpond.storage.open import open_storage

Row = tuple[str, tuple[Any, ...]]
"""An entry point's name and its arguments."""

USUAL_PARTITIONS = 2
"""How many there are if nobody says."""

_KEEP = Keep()

_BAD_ROW_GROUP = 0
"""Where a row with a null key goes, as on Spark; it never meets state."""


@dataclass(frozen=True, slots=True)
class Fed:
    """The rows of an epoch, numbered from the `first` on; with event time their times, in microseconds since 1970."""

    rows: Sequence[Row]
    times: Sequence[int | None] = ()
    first: int = 0

    def between(self, start: int, end: int) -> Fed:
        """Return the rows from one up to another."""
        return Fed(self.rows[start:end], self.times[start:end], self.first + start)


class Simulated(Engine[Fed, pa.Table]):
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
        self._failed: tuple[int, object] | None = None
        storage = open_storage(checkpoint or str(directory / "checkpoint"))
        local = str(directory / f"local-{partitions or USUAL_PARTITIONS}")
        self._driver: Driver[Fed, pa.Table] = Driver(
            program,
            storage,
            UnsyncedStorage(storage, directory / "near"),
            local,
            durability=durability,
            keep=keep or Keep.all(),
            key_groups=key_groups,
            instances=instances,
            partitions=partitions,
            usual_partitions=USUAL_PARTITIONS,
            shown=False,
            threaded=False,
        )
        names = list(program.entries)
        self.sinks: dict[str, Sink] = {name: MemorySink() for name in names} | dict(sinks or {})
        self.dead_letters = {name: MemorySink() for name in names} | dict(dead_letters or {})
        self.late_rows: dict[str, Sink] = {name: MemorySink() for name in names} if late else {}
        self.late_rows |= late if isinstance(late, Mapping) else {}
        self._numbers = {name: number for number, name in enumerate(names)}
        policies = dict.fromkeys(names, bad_rows) if isinstance(bad_rows, BadRows) else bad_rows
        timing = _timing(program, self._driver.times.handlers, event_time)
        feeds = self._feeds(program, directory / "outputs", policies, timing)
        plan = self._driver.plan(feeds, local, steps_max, memory_bytes)
        self._driver.start(self, plan, self._publisher, tuple(names))

    def _feeds(
        self, program: CompiledProgram, outputs: Path, policies: Mapping[str, BadRows], timing: Mapping[str, FeedTime]
    ) -> tuple[FeedPlan, ...]:
        """Return a feed for each entry point, and what publishes to their sinks."""
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

    @property
    def storage(self) -> Storage:
        """The checkpoint's storage."""
        return self._driver.storage

    @property
    def _checkpoint(self) -> Checkpoint:
        return self._driver.checkpoint

    @property
    def batch(self) -> int:
        """The number of the next batch of rows, from 0; the ones before it are committed."""
        head = self._checkpoint.head
        if head is None or head.stream is None:
            return 0
        unfinished = head.pending and head.offer == head.stream
        return head.stream.number if unfinished else head.stream.number + 1

    @property
    def fed(self) -> int:
        """How many rows are committed, over the life of the checkpoint; late ones that went to a sink among them."""
        head = self._checkpoint.head
        counters = {} if head is None else head.counters
        kinds = ("fed", "bad", "late") if self.late_rows else ("fed", "bad")
        names = [name for name in self._numbers if name not in self._driver.times.handlers]
        return sum(counters.get(f"total.{kind}.{name}", 0) for kind in kinds for name in names)

    @property
    def layout(self) -> Layout:
        """Who owns what."""
        return self._driver.layout

    @property
    def times(self) -> Times:
        """The times that hold after the last committed epoch."""
        return self._driver.times.last

    @property
    def loss(self) -> Loss | None:
        """What of state with bounded loss was lost, as the start found it."""
        return self._driver.loss

    @property
    def replayed(self) -> int:
        """How many epochs the start computed again from their input."""
        return self._driver.replayed

    def epoch(self, rows: Sequence[Row], times: Sequence[int | None] = (), *, ends: bool = False) -> EpochOutcome:
        """Run one epoch over rows in order; with event time, `times` are theirs, in microseconds since 1970.

        If it `ends`, the watermark moves to the end of time, as after a bounded run. Called again with the same rows
        after it raised, it offers that epoch again: if it was committed, only what was left of it is done.
        """
        entries = self._plan.program.entries
        filled = [(name, entries[name].point.filled(arguments)) for name, arguments in rows]
        offered = (filled, tuple(times), ends)
        number = self._failed[0] if self._failed is not None and self._failed[1] == offered else self.batch
        self._failed = number, offered
        offer = Batch("simulated", number, tuple(self._numbers))
        outcome = self._driver.epoch(offer, Fed(filled, times, self.fed), adopt=self._adopt, ends=ends)
        self._failed, self._adopt = None, False
        return outcome

    def tick(self) -> EpochOutcome | None:
        """Let the time move on without rows, if that changes anything: timers that are due fire."""
        return self._driver.tick()

    def load(self, element: str, rows: pa.Table, *, into: Into | None = None, name: str | None = None) -> None:
        """Fill a state element with rows of keys and values, once; `Job.load` says the rules."""
        self._driver.load(Load(loadable(self._driver.program, element), rows, into, name))

    def assign(self, owners: Sequence[int], partitions: int | None = None, spread: Sequence[int] | None = None) -> int:
        """Let these partitions own the key groups from the next epoch on; return how many groups go to another one.

        `spread` says where rows of tasks without state run.
        """
        before = self.layout
        self._driver.own(before.with_owners(owners, partitions).with_spread(spread))
        return self.layout.moved_since(before)

    def close(self) -> None:
        """End the run: let go of a snapshot that is under way, and save what is unsynced."""
        self._driver.close()

    def replies(self) -> dict[int, Any]:
        """Return replies in memory by the number of their row, over all epochs of this object."""
        return {number: row[REPLY] for number, row in self._held() if REPLY in row}

    def refusals(self) -> dict[int, str]:
        """Say why rows were refused by `self.abort`, by the number of the row, over all epochs of this object."""
        return {number: row[ABORTED] for number, row in self._held() if row.get(ABORTED) is not None}

    def _held(self) -> list[tuple[int, dict[str, Any]]]:
        held = []
        for name, sink in self.sinks.items():
            if name not in self._driver.times.handlers and isinstance(sink, MemorySink):
                column = number_column(self._plan.program.entries[name].point)
                held += [(row[column], row) for row in sink.rows()]
        return held

    def follow(self, plan: ProgramPlan) -> None:
        """Compute by this plan from now on."""
        self._plan = plan
        points = [plan.program.entries[name].point for name in self._numbers]
        # Of each parameter: its feed, its place in a row, its column and its type.
        self._columns = [
            (feed, place, feed_column(feed, name), hint, arrow_type(hint))
            for feed, point in enumerate(points)
            for place, (name, hint) in enumerate(point.parameters)
        ]

    def compute_rows(self, rows: Fed, request: Request) -> Computed:
        """Run the tasks of an epoch over its rows."""
        parts = cut_around(self._plan, [self._numbers[entry] for entry, _ in rows.rows])
        if not parts:
            return work_of_rows(*self._part(rows), request)
        return work_of_parts([self._part(rows.between(*part)) for part in parts], self._part(rows), request)

    def _part(self, rows: Fed) -> Part:
        chosen = plan_for(self._plan, {self._numbers[entry] for entry, _ in rows.rows})
        return Part(chosen, lambda plan, epoch: self._run(plan, epoch, self._sent(plan, rows)))

    def compute_messages(self, left: pa.Table, request: Request) -> Computed:
        """Go on with messages that the parent left."""
        return work_of_messages(self._plan, request, lambda plan, epoch: self._run(plan, epoch, left.to_batches()))

    def compute_timers(self, due: Due, firing: Firing, request: Request) -> Computed:
        """Call the handlers of timers that are due."""
        calls = due.rows(handlers_of(self._plan), firing.until_us)
        return self.compute_rows(Fed(calls, due.times(request.watermark.floor_us), self.fed), request)

    def look(self, look: Look, request: Request) -> list[Due]:
        """Look for timers into the stores of all partitions."""
        return look_here(self._plan, self.storage, request.parent, look)

    def compute_load(self, target: Target, entries: pa.Table) -> list[LoadReport]:
        """Write the entries of a load."""
        return [load_rows(self.storage, target, entries)]

    @staticmethod
    def _run(plan: ProgramPlan, epoch: EpochPlan, rows: Sequence[pa.RecordBatch]) -> Reported:
        reported = run_in_one_task(plan, epoch, rows)
        return Reported([decode_control(body) for body in reported.column("body").to_pylist()], {})

    def _sent(self, plan: ProgramPlan, fed: Fed) -> list[pa.RecordBatch]:
        if not plan.in_sequence:
            return self._route(fed)
        chosen = [(number, self._numbers[entry], 0) for number, (entry, _) in enumerate(fed.rows)]
        return [self._batch_of(fed, HOME, chosen)]

    def _route(self, fed: Fed) -> list[pa.RecordBatch]:
        layout = self._plan.layout
        routed: list[list[tuple[int, int, int]]] = [[] for _ in range(layout.partitions)]
        owners, carriers = layout.owners(), layout.carriers()
        for number, (entry, arguments) in enumerate(fed.rows):
            group = self._group(entry, arguments)
            task = self._plan.program.entries[entry].tasks[0]
            targets = [PartitionId((carriers if task.free else owners)[group])]
            if task.dispatch is Dispatch.ONE_TO_ALL:
                everyone = (PartitionId(p) for p in range(layout.partitions))
                targets = [p for p in everyone if len(layout.instances_of(p))]
            for partition in targets:
                routed[partition].append((number, self._numbers[entry], group))
        return [self._batch_of(fed, partition, chosen) for partition, chosen in enumerate(routed) if chosen]

    def _group(self, entry: str, arguments: tuple[Any, ...]) -> int:
        compiled = self._plan.program.entries[entry]
        task = compiled.tasks[0]
        layout = self._plan.layout
        if task.dispatch is not Dispatch.BY_KEY:
            hashed = argument_hash(compiled.point, arguments)
            return _BAD_ROW_GROUP if hashed is None else hashed % layout.key_groups
        if not task.key:
            return layout.group_of(THE_KEY)
        named = dict(zip((name for name, _ in compiled.point.parameters), arguments, strict=True))
        parts = [named[name] for name in task.key]
        if None in parts:
            return _BAD_ROW_GROUP
        return layout.group_of(parts[0] if len(parts) == 1 else tuple(parts))

    def _batch_of(self, fed: Fed, partition: int, chosen: Sequence[tuple[int, int, int]]) -> pa.RecordBatch:
        # Backwards, because nothing may depend on the order in which rows arrive at a partition.
        chosen = chosen[::-1]
        numbers = [number + fed.first for number, _, _ in chosen]
        columns: dict[str, pa.Array] = {
            "part": pa.array([partition] * len(chosen), pa.int32()),
            "feed": pa.array([feed for _, feed, _ in chosen], pa.int32()),
            "grp": pa.array([group for _, _, group in chosen], pa.int32()),
            "ord": pa.array(numbers, pa.int64()),
            "src": pa.array([None] * len(chosen), pa.string()),
            "pos": pa.array([0] * len(chosen), pa.int64()),
        }
        if self._plan.event_time:
            columns[TIME] = pa.array([fed.times[number] for number, _, _ in chosen], pa.int64())
        columns |= {keep_column(feed, 0): columns["ord"] for feed in range(len(self._numbers))}
        here = {feed for _, feed, _ in chosen}
        for feed, place, name, hint, kind in self._columns:
            if feed in here:
                values = [fed.rows[number][1][place] if own == feed else None for number, own, _ in chosen]
                columns[name] = to_arrow(values, hint).cast(kind)
            else:
                columns[name] = pa.nulls(len(chosen), kind)
        return pa.RecordBatch.from_pydict(columns)


def number_column(point: EntryPoint) -> str:
    """Return the column that tells the number of a row beside its reply: `row`, unless a parameter is called so."""
    taken = {name for name, _ in point.parameters}
    return next(name for name in ("row" + "_" * more for more in itertools.count()) if name not in taken)


def _kept(point: EntryPoint) -> tuple[tuple[str, pa.DataType], ...]:
    """Choose what replies keep: the number of their row; of handlers the key and the moment, which nobody else has."""
    parameters = point.parameters if point.timer else ()
    return ((number_column(point), pa.int64()), *((name, arrow_type(hint)) for name, hint in parameters))


def _timing(
    program: CompiledProgram, handlers: Sequence[str], given: FeedTime | Mapping[str, FeedTime] | None
) -> dict[str, FeedTime]:
    """Return the event time of each feed; timers are never late."""
    if given is None:
        return {}
    feeds = dict.fromkeys(program.entries, given) if isinstance(given, FeedTime) else dict(given)
    return feeds | dict.fromkeys(handlers, FeedTime(lateness_us=None))


__all__ = ["Row", "Simulated", "number_column"]
