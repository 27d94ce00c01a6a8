"""Spilling: a task in portions, where its rows and the state that they touch are more than it may hold at once.

Inside a step, key groups have nothing to do with each other: that is what partitions rest on. So a task may work on the
rows of some of its key groups, then on those of others, as if it were several tasks; what they tell is told as one. The
rows of groups whose turn has not come wait in files without a name, which go with the process.

Which rows run together follows from the rows and the parent alone, never from the order in which they came: two
attempts of a task must tell the same.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import IO, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.checkpoint.records.times import TaskTimes
from millpond.checkpoint.records.work import Changed, Parent
from millpond.engine.durability.setapart import joined_unsynced
from millpond.engine.messages import CONTROL_TASK, Control, Outbox, decode_control, place_key
from millpond.engine.plan import Level, ProgramPlan, parameter_hints
from millpond.engine.task.columns import TupleColumn, column_of
from millpond.engine.task.intake import column_array, content_bytes, feed_column
from millpond.engine.task.step import StepRun
from millpond.errors import MillpondError
from millpond.graph.model import Access, Mode
from millpond.ids import PartitionId
from millpond.state.changes import Changes
from millpond.state.units import groups_of_units
from millpond.storage.door import coded

ROW_BYTES = 700
"""What a row takes besides its content: its place in the order, its values and its entry of state as Python objects."""

OBJECTS_BY_BYTES = 4
"""What values take as Python objects, and again as bytes while they are written, by what they take in a file."""

PIECES_MAX = 64
"""As finely rows are divided at most: each piece is an open file."""

Pieces = npt.NDArray[np.int64]


def run_task(task: StepRun, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Run a task of a step over its rows, in as many portions as its memory asks for."""
    if not _can_divide(task.plan, task.step):
        return task.run(batches)
    cost = _Cost(task.epoch.parent)
    coming = iter(batches)
    held: list[pa.RecordBatch] = []
    total = 0
    for batch in coming:
        held.append(batch)
        total += cost.of(batch)
        if total > task.plan.memory_bytes:
            try:
                return _run_divided(task, cost, chain(held, coming))
            except MillpondError as error:
                # Spark's worker must not be left with rows that nobody took.
                for _ in coming:
                    pass
                return task.failed(error)
    return task.run(held)


def _can_divide(plan: ProgramPlan, step: int) -> bool:
    """Say whether rows of different key groups share nothing at this step, and nothing asks for all of them at once.

    Rows that are logged to be run again are all held, and how they were divided would have to be known then.
    """
    if not plan.memory_bytes or plan.relaxed or plan.durability is Level.REPLAY:
        return False
    here = {state.name for state in plan.program.graph.states if state.level == step}
    if any(plan.program.elements[name].partial or plan.program.elements[name].type.single for name in here):
        return False
    fed = {name for name in plan.program.entries if plan.in_sequence or not plan.program.graph.why_sequence(name)}
    tasks = [task for feed in plan.feeds if feed.entry in fed for task in plan.program.entries[feed.entry].tasks]
    met = [task for task in tasks if task.step == step or (task.index == 0 and step == 0)]
    return all(task.free or (task.key and _only_by_key(task.accesses)) for task in met)


def _only_by_key(accesses: Iterable[Access]) -> bool:
    return all(access.mode is Mode.KEYED for access in accesses)


class _Cost:
    """What rows take in memory, about: the same for the same rows, in whatever batches they come."""

    def __init__(self, parent: Parent) -> None:
        files = [*parent.snapshot, *(file for epoch in parent.deltas for file in epoch.files)]
        entries = sum(file.entries for file in files)
        entry_bytes = sum(file.file.size_bytes for file in files) // max(entries, 1)
        self._row_bytes = ROW_BYTES + OBJECTS_BY_BYTES * entry_bytes

    def of(self, batch: pa.RecordBatch) -> int:
        """Return what the rows of a batch take."""
        rows: int = batch.num_rows
        return rows * self._row_bytes + OBJECTS_BY_BYTES * content_bytes(pa.Table.from_batches([batch]))


def _run_divided(task: StepRun, cost: _Cost, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    plan = task.plan
    groups = plan.layout.groups_of(task.partition)
    told: list[pa.RecordBatch] = []
    with _Waiting(Path(plan.local_root), _pieces(plan.layout.key_groups, groups)) as waiting:
        for table in _gathered(batches, cost, plan.memory_bytes // OBJECTS_BY_BYTES):
            waiting.add(table, _groups(plan, table), cost)
        for number, rows in enumerate(waiting.spilled_rows(plan.memory_bytes)):
            one = StepRun(
                plan, task.epoch, task.step, task.partition, {} if number else task.counted, where=task.where,
                portion=number, storage=task.storage,
            )  # fmt: skip
            told.append(one.run(rows))
            task.seen = task.seen if number else one.seen
    return _as_one(told, task.step, task.partition)


def _gathered(batches: Iterable[pa.RecordBatch], cost: _Cost, size: int) -> Iterator[pa.Table]:
    """Batches by the handful, since a small one would be cut into crumbs."""
    held: list[pa.RecordBatch] = []
    total = 0
    for batch in batches:
        held.append(batch)
        total += cost.of(batch)
        if total > size:
            yield pa.Table.from_batches(held)
            held, total = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _pieces(key_groups: int, owned: Sequence[int]) -> Pieces:
    """Say which piece the rows of each key group are in; those of a partition are divided evenly."""
    count = min(len(owned), PIECES_MAX)
    pieces = np.arange(key_groups) * count // key_groups
    pieces[list(owned)] = np.arange(len(owned)) * count // len(owned)
    return pieces


def _groups(plan: ProgramPlan, table: pa.Table) -> Pieces:
    """Find the key group of each row: in it, or by its key; a row without a key is a bad one, and goes anywhere."""
    if "grp" in table.column_names:
        told: Pieces = column_array(table, "grp").to_numpy(zero_copy_only=False).astype(np.int64)
        return told
    entry = plan.entry_of(0)
    task, hints = entry.tasks[0], parameter_hints(entry)
    arrays = [column_array(table, feed_column(0, name)) for name in task.key]
    known = np.logical_and.reduce([array.is_valid().to_numpy(zero_copy_only=False) for array in arrays])
    own = [array.filter(pa.array(known)) for array in arrays]
    columns = [column_of(array, hints[name], key=True) for array, name in zip(own, task.key, strict=True)]
    units, codes = (columns[0] if len(columns) == 1 else TupleColumn(columns)).distinct()
    groups = np.zeros(table.num_rows, dtype=np.int64)
    if len(units):
        element = plan.program.elements[task.accesses[0].state].type
        groups[known] = groups_of_units(element.keys, units, plan.layout.key_groups)[codes]
    return groups


class _Waiting:
    """The rows of a task by piece, in files that nobody else sees."""

    def __init__(self, folder: Path, pieces: Pieces) -> None:
        self._folder = folder
        self._pieces = pieces
        self._files: dict[int, IO[bytes]] = {}
        self._writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}
        self._costs: Counter[int] = Counter()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *told: object) -> None:
        self._open.close()

    def add(self, table: pa.Table, groups: Pieces, cost: _Cost) -> None:
        """Put rows to those of their pieces."""
        pieces = self._pieces[groups]
        order = np.argsort(pieces, kind="stable")
        rows = table.take(pa.array(order)).combine_chunks()
        found, starts = np.unique(pieces[order], return_index=True)
        for piece, start, end in zip(found.tolist(), starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
            for batch in rows.slice(start, end - start).to_batches():
                self._costs[piece] += cost.of(batch)
                with coded("write", "rows that wait for their turn"):
                    self._writer(piece, batch.schema).write_batch(batch)

    def _writer(self, piece: int, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
        writer = self._writers.get(piece)
        if writer is None:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = self._files[piece] = self._open.enter_context(tempfile.TemporaryFile(dir=self._folder))  # noqa: SIM115 - closed when all portions have run
            writer = self._writers[piece] = pa.ipc.new_stream(pa.PythonFile(file, "w"), schema)
        return writer

    def spilled_rows(self, memory_bytes: int) -> Iterator[Iterable[pa.RecordBatch]]:
        """Neighbouring pieces, as many at a time as fit; one that does not fit by itself comes alone."""
        with coded("write", "rows that wait for their turn"):
            for writer in self._writers.values():
                writer.close()
        portion: list[int] = []
        for piece in sorted(self._files):
            if portion and sum(self._costs[each] for each in (*portion, piece)) > memory_bytes:
                yield self._read(portion)
                portion = []
            portion.append(piece)
        yield self._read(portion)

    def _read(self, pieces: Sequence[int]) -> Iterator[pa.RecordBatch]:
        for piece in pieces:
            with coded("read", "rows that wait for their turn"), self._files.pop(piece) as file:
                file.seek(0)
                yield from pa.ipc.open_stream(pa.PythonFile(file, "r"))


def _as_one(told: Sequence[pa.RecordBatch], step: int, partition: PartitionId) -> pa.RecordBatch:
    """Return what the portions of a task tell, as the task would."""
    whole = pa.Table.from_batches(told).combine_chunks()
    numbers = column_array(whole, "task").to_numpy()
    bodies = column_array(whole.filter(pa.array(numbers == CONTROL_TASK)), "body").to_pylist()
    controls = [(body, decode_control(body)) for body in bodies]
    own = [control for _, control in controls if (control.step, control.partition) == (step, partition)]
    passing = [body for body, control in controls if (control.step, control.partition) != (step, partition)]
    joined = join_controls(own)
    if joined.failure is not None:
        return Outbox().table(joined, passing)
    messages = whole.filter(pa.array(numbers != CONTROL_TASK)).combine_chunks().to_batches()
    return Outbox().table(joined, passing, *messages[:1])


def join_controls(controls: Sequence[Control]) -> Control:
    """Return what portions of one task of a step did, as one: each worked on key groups of its own."""
    first = controls[0]
    received = sum(one.received for one in controls)
    failures = [one.failure for one in controls if one.failure is not None]
    if failures:
        failure = min(failures, key=lambda failure: place_key(failure.place))
        return Control(first.step, first.partition, received, 0, failure=failure)
    raised = tuple(one for control in controls for one in control.raised)
    spent, counted = Counter[str](), Counter[str]()
    for one in controls:
        spent.update(one.spent)
        counted.update(one.counters)
    return Control(
        first.step,
        first.partition,
        received,
        sum(one.sent for one in controls),
        changed=_joined([one.changed for one in controls]),
        outputs=tuple(file for one in controls for file in one.outputs),
        counters=dict(counted),
        times=TaskTimes.joined(one.times for one in controls),
        raised=raised,
        incomplete=sum(one.incomplete for one in controls),
        pending=tuple(file for one in controls for file in one.pending),
        spent=dict(spent),
        seen=first.seen,
        loads=tuple(load for one in controls for load in one.loads),
        size_bytes=sum(one.size_bytes for one in controls),
        busy=_join_busy(controls),
    )


def _joined(told: Sequence[Changed]) -> Changed:
    return Changed(
        Changes.joined(one.inline for one in told),
        tuple(file for one in told for file in one.files),
        sum(one.growth for one in told),
        joined_unsynced([one.unsynced for one in told]),
    )


def _join_busy(controls: Sequence[Control]) -> dict[int, float]:
    """Earlier steps are told by all portions alike; the time of this one is that of all of them."""
    step = controls[0].step
    busy = dict(controls[0].busy)
    if step in busy:
        busy[step] = sum(one.busy.get(step, 0.0) for one in controls)
    return busy
