"""All tasks of an epoch in one process: the real steps, state, storage and commit, without Spark.

For tests and for small local runs: the same partitions, key groups and messages as on a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from millpond.compiler.compiled import CompiledProgram
from millpond.compiler.routing import HASHED, argument_hash
from millpond.epochs.checkpoint import Checkpoint, EpochOutcome, EpochWork, Offer, Parent
from millpond.graph.model import Dispatch
from millpond.ids import KeyGroup, PartitionId
from millpond.program.epoch_time import now_us
from millpond.program.sinks import MemorySink, ParquetSink, Sink
from millpond.runtime.arrowtypes import arrow_type, to_arrow
from millpond.runtime.assemble import assemble
from millpond.runtime.failures import leaving_out
from millpond.runtime.intake import feed_column, keep_column
from millpond.runtime.messages import decode_control
from millpond.runtime.pending import read_pending
from millpond.runtime.plan import (
    DEAD_LETTERS,
    STEPS_MAX,
    BadRows,
    EpochPlan,
    Excluded,
    FeedPlan,
    Order,
    ProgramPlan,
    SinkPlan,
)
from millpond.runtime.publish import Publisher
from millpond.runtime.replies import ABORTED, REPLY
from millpond.runtime.rescaling import Instances, check_instances
from millpond.runtime.schema import element_schemas
from millpond.runtime.whole import run_whole
from millpond.state.value import THE_KEY
from millpond.storage.files import FileStorage

Row = tuple[str, tuple[Any, ...]]
"""An entry point's name and its arguments."""

_BAD_ROW_GROUP = 0
"""Where a row with a null key goes, as on Spark; it never meets state."""


class Simulated:
    """A program on P partitions in this process, with its checkpoint in a directory.

    Rows are given in input order, mixed over entry points as they come; each call of `epoch` is one epoch. Replies are
    gathered by entry point, each with the number of its row: in memory, or in the `sinks` given. Dead letters are kept
    in `dead_letters`. A checkpoint that is there gets another number of `instances` before the first epoch.
    """

    def __init__(
        self,
        program: CompiledProgram,
        directory: Path,
        partitions: int = 2,
        key_groups: int | None = None,
        instances: int | None = None,
        *,
        sinks: Mapping[str, Sink] | None = None,
        bad_rows: BadRows = BadRows.FAIL,
        steps_max: int = STEPS_MAX,
    ) -> None:
        self._storage = FileStorage(directory / "checkpoint")
        self._checkpoint = Checkpoint.open(self._storage, element_schemas(program), key_groups, instances)
        local = str(directory / f"local-{partitions}")
        self._instances = Instances(self._checkpoint, program, instances, local, shown=False)
        self.sinks: dict[str, Sink] = {name: MemorySink() for name in program.entries} | dict(sinks or {})
        self.dead_letters = {name: MemorySink() for name in program.entries}
        outputs = str(directory / "outputs")
        replies = {name: _sink_plan(name, sink, outputs) for name, sink in self.sinks.items()}
        letters = {name: SinkPlan(f"{name}.{DEAD_LETTERS}", outputs) for name in program.entries}
        feeds = tuple(
            FeedPlan(
                name=name,
                entry=name,
                keep=(("row", pa.int64()),),
                order=Order.COLUMN,
                bad_rows=bad_rows,
                replies=replies[name] if entry.point.replies or entry.aborts else None,
                dead_letters=letters[name] if bad_rows is BadRows.DEAD_LETTER else None,
            )
            for name, entry in program.entries.items()
        )
        layout = self._instances.layout(partitions)
        self._plan = ProgramPlan(program, layout, feeds, self._storage.url, local, steps_max)
        targets: dict[str, tuple[Sink, SinkPlan]] = {name: (self.sinks[name], replies[name]) for name in self.sinks}
        targets |= {letters[name].name: (sink, letters[name]) for name, sink in self.dead_letters.items()}
        self._publisher = Publisher(targets, _refuse, _refuse)
        self._numbers = {name: number for number, name in enumerate(program.entries)}
        head = self._checkpoint.head
        self._batch = 0 if head is None or head.stream is None else head.stream.batch + 1
        counters = {} if head is None else head.counters
        self._fed = sum(n for key, n in counters.items() if key.startswith(("total.fed.", "total.bad.")))
        self._checkpoint.finish_publication(self._publisher.publish)
        self._finish(now_us())
        if self._instances.bring(self._storage, self._publisher.publish):
            self._plan = replace(self._plan, layout=self._instances.layout(partitions))

    @property
    def storage(self) -> FileStorage:
        """The checkpoint's storage."""
        return self._storage

    @property
    def fed(self) -> int:
        """How many rows are committed, over the life of the checkpoint."""
        return self._fed

    def epoch(self, rows: Sequence[Row]) -> EpochOutcome:
        """Run one epoch over rows in order."""
        offer = Offer("simulated", self._batch, tuple(self._plan.program.entries))
        moment = now_us()
        outcome = self._checkpoint.run_epoch(
            offer,
            lambda parent: self._compute(rows, parent, moment),
            self._publisher.publish,
            partitions=self._partitions,
        )
        outcome = self._finish(moment) or outcome
        self._batch += 1
        self._fed += len(rows)
        return outcome

    def _finish(self, moment: int) -> EpochOutcome | None:
        """Go on with the messages that the last epoch left, in as many epochs as that takes."""
        outcome = None
        while (head := self._checkpoint.head) is not None and head.pending:
            outcome = self._checkpoint.run_epoch(
                head.offer,
                lambda parent: self._continue(parent, moment),
                self._publisher.publish,
                partitions=self._partitions,
            )
        return outcome

    def replies(self) -> dict[int, Any]:
        """Replies in memory by the number of their row, over all epochs of this object."""
        return {row["row"]: row[REPLY] for row in self._held() if REPLY in row}

    def refusals(self) -> dict[int, str]:
        """Why rows were refused by `self.abort`, by the number of the row, over all epochs of this object."""
        return {row["row"]: row[ABORTED] for row in self._held() if row.get(ABORTED) is not None}

    def _held(self) -> list[dict[str, Any]]:
        return [row for sink in self.sinks.values() if isinstance(sink, MemorySink) for row in sink.rows()]

    @property
    def _partitions(self) -> int:
        return self._plan.layout.partitions

    def _compute(self, rows: Sequence[Row], parent: Parent, moment: int) -> EpochWork:
        check_instances(parent, self._plan.layout)

        def run(excluded: tuple[Excluded, ...], until: Excluded | None) -> EpochWork:
            epoch = EpochPlan(parent.epoch + 1, parent, now_us=moment, excluded=excluded, until=until)
            return self._assemble(run_whole(self._plan, epoch, self._route(rows)))

        return leaving_out(self._plan.steps, run)

    def _continue(self, parent: Parent, moment: int) -> EpochWork:
        check_instances(parent, self._plan.layout)
        left = read_pending(self._storage, self._plan, parent.pending)
        epoch = EpochPlan(parent.epoch + 1, parent, continues=True, now_us=moment)
        return self._assemble(run_whole(self._plan, epoch, left.to_batches()))

    def _assemble(self, told: pa.Table) -> EpochWork:
        controls = [decode_control(body) for body in told.column("body").to_pylist()]
        head = self._checkpoint.head
        return assemble(self._plan, controls, {} if head is None else head.counters)

    def _route(self, rows: Sequence[Row]) -> list[pa.RecordBatch]:
        routed: list[list[tuple[int, int, int]]] = [[] for _ in range(self._partitions)]
        for number, (entry, arguments) in enumerate(rows):
            group = self._group(entry, arguments)
            task = self._plan.program.entries[entry].tasks[0]
            targets = [self._plan.layout.owner_of(KeyGroup(group))]
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
        for entry, feed in self._numbers.items():
            columns[keep_column(feed, 0)] = pa.array(numbers, pa.int64())
            for place, (name, hint) in enumerate(self._plan.program.entries[entry].point.parameters):
                values = [rows[number][1][place] if own == feed else None for number, own, _ in chosen]
                columns[feed_column(feed, name)] = to_arrow(values, hint).cast(arrow_type(hint))
        return pa.RecordBatch.from_pydict(columns)


def _sink_plan(name: str, sink: Sink, outputs: str) -> SinkPlan:
    if isinstance(sink, ParquetSink):
        return SinkPlan(name, sink.path, visible=True)
    return SinkPlan(name, outputs)


def _refuse(*_: object) -> None:
    raise AssertionError("simulated runs have memory and Parquet sinks only")


__all__ = ["Row", "Simulated"]
