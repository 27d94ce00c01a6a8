"""What a task of a step works on: rows of feeds at step 0, messages later, both as columns with their places."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.compiler.compiled import CompiledTask
from millpond.engine.arrowtypes import arrow_type, in_utc, to_arrow
from millpond.engine.messages import CONTROL_TASK, MESSAGE_SCHEMA, Letter
from millpond.engine.plan import EpochPlan, Excluded, ProgramPlan, key_parameters, parameter_hints
from millpond.engine.publish.deadletters import BadRow, SourceRows
from millpond.engine.task.badrows import bad_rows
from millpond.engine.task.columns import (
    Coded,
    Column,
    KeptColumn,
    ListColumn,
    NumberColumn,
    Rows,
    TupleColumn,
    column_of,
)
from millpond.engine.task.ordering import Places, path_ranks, source_ranks
from millpond.engine.time.laterows import TIME, LateRows, late_table, untimed
from millpond.errors import EpochError, FeedError
from millpond.graph.model import Dispatch
from millpond.program.entries import EntryPoint
from millpond.state.codec.shown import shown
from millpond.state.codec.typenames import type_text
from millpond.state.codec.wire import decode_values

UNPARSED = "unparsed"
"""The column of a source that can't read all that it is given: the bytes of what it could not, else null."""


@dataclass(frozen=True, slots=True)
class Bodies:
    """What messages carry, as it came: read anew each time, since the task's code may change what it is given.

    With `answers`, a row is several messages, all alike but for what is `collected` from them.
    """

    column: pa.Array
    answers: Rows | None = None
    collected: int = 0

    def rows(self, picked: Rows | None) -> list[list[Any]]:
        """Return the values of some rows, or of all."""
        if self.answers is None:
            bodies = self.column if picked is None else self.column.take(pa.array(picked))
            return [decode_values(body) for body in bodies.to_pylist()]
        answers = self.answers if picked is None else self.answers[picked]
        decoded = [decode_values(body) for body in self.column.take(pa.array(answers.ravel())).to_pylist()]
        gathered = []
        for start in range(0, len(decoded), answers.shape[1]):
            own = decoded[start : start + answers.shape[1]]
            gathered.append([*own[0]])
            gathered[-1][self.collected] = [answer[self.collected] for answer in own]
        return gathered


@dataclass(slots=True)
class Work:
    """Rows for one task from one feed: variables, columns to keep, key groups, and places in the order.

    Rows whose key says all about their group travel without it. Of feeds with event time, `times` is what `self.now`
    says in each row, and `happened` are the event times of rows that have just come in. `source` is what came in,
    of the rows of a first task, and `carried` what the messages of others carry.
    """

    task: CompiledTask
    feed: int
    places: Places
    groups: npt.NDArray[np.int32] | None
    sources: pa.Array
    paths: pa.Array
    variables: dict[str, Column]
    keep: list[KeptColumn]
    times: npt.NDArray[np.int64] | None = None
    happened: npt.NDArray[np.int64] | None = None
    source: SourceRows | None = None
    carried: Bodies | None = None
    _coded: Coded | None = None

    def __len__(self) -> int:
        return len(self.places)

    def content(self) -> list[Column | KeptColumn]:
        """Return all that a row says: what tells two rows of one place apart."""
        times = [] if self.times is None else [NumberColumn(self.times)]
        return [*self.variables.values(), *self.keep, *times]

    def renewed(self) -> Work:
        """Return the same rows as they came, whatever the task's code did to what they carry."""
        if self.carried is None:
            return self
        columns = self.fresh(np.arange(len(self)))
        return replace(self, variables={name: ListColumn(column) for name, column in columns.items()})

    def fresh(self, rows: Rows) -> dict[str, list[Any]]:
        """Return the variables of some rows as they came."""
        names = self.task.inputs
        if self.carried is None:
            return {name: self.variables[name].take(rows) for name in names}
        bodies = self.carried.rows(rows)
        return {name: [body[at] for body in bodies] for at, name in enumerate(names)}

    def bad_row(self, row: int, epoch: EpochPlan, reason: str, letter: Letter | None = None) -> BadRow:
        """Return a row of a first task that is left out."""
        assert self.source is not None, self.task.name
        name = epoch.source_name(self.sources[row].as_py())
        place = int(self.places.order[row]), name, int(self.places.position[row])
        text, time_us = self.source.row(row), self.source.time_us(row)
        return BadRow(self.feed, reason, text, *place, time_us, letter)

    def key_column(self) -> Column:
        """Return the column of dispatch keys of a BY_KEY task."""
        parts = [self.variables[name] for name in self.task.key]
        return parts[0] if len(parts) == 1 else TupleColumn(parts)

    def coded_keys(self) -> Coded:
        """Return the distinct dispatch keys of a BY_KEY task, and which of them each row has."""
        if self._coded is None:
            self._coded = self.key_column().distinct()
        return self._coded


@dataclass(slots=True)
class Intake:
    """All input of one task of a step; `waiting` are messages for a later step, `incomplete` answers of too few."""

    work: list[Work] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    late: list[LateRows] = field(default_factory=list)
    control: list[bytes] = field(default_factory=list)
    received: int = 0
    received_bytes: int = 0
    message_bytes: int = 0
    waiting: pa.RecordBatch | None = None
    incomplete: int = 0


def feed_column(feed: int, name: str) -> str:
    """Return the name of a parameter's column among the columns of all feeds."""
    return f"f{feed}_{name}"


def unparsed_column(feed: int) -> str:
    """Return the name of the column with what a feed's source could not read."""
    return f"u{feed}"


def keep_column(feed: int, place: int) -> str:
    """Return the name of a kept column that is no parameter: by its place, since its own name may be anything."""
    return f"k{feed}_{place}"


def read_feeds(plan: ProgramPlan, epoch: EpochPlan, batches: Iterable[pa.RecordBatch], intake: Intake) -> None:
    """Rows of the feeds, as routed at step 0."""
    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return
    table = in_utc(pa.Table.from_batches(held).combine_chunks())
    intake.received = table.num_rows
    intake.received_bytes = content_bytes(table)
    if len(plan.feeds) == 1:
        _read_feed(plan, epoch, 0, with_defaults(plan, 0, table), intake)
        return
    feeds = column_array(table, "feed").to_numpy(zero_copy_only=False)
    for number in range(len(plan.feeds)):
        own = table.filter(pa.array(feeds == number))
        if own.num_rows:
            _read_feed(plan, epoch, number, with_defaults(plan, number, own), intake)


def with_defaults(plan: ProgramPlan, feed: int, table: pa.Table) -> pa.Table:
    """Return the rows of a feed with the defaults of its entry point where a column is null."""
    point = plan.entry_of(feed).point
    hints = dict(point.parameters)
    for name, default in point.defaults:
        place = table.schema.get_field_index(feed_column(feed, name))
        column = table.column(place)
        if column.null_count and default is not None:
            filled = _filled(column.combine_chunks(), default_array(point, name, default, hints[name]))
            table = table.set_column(place, table.field(place), filled)
    return table


def default_array(point: EntryPoint, name: str, default: Any, hint: Any) -> pa.Array:
    """Return a default as a column of one row, or raise if it is not of the type of its parameter."""
    try:
        return to_arrow([default], hint).cast(arrow_type(hint))
    except (TypeError, ValueError, AttributeError, OverflowError, pa.ArrowException) as error:
        raise FeedError(
            "MP532",
            f"the default of `{name}` of entry point `{point.name}` is not of its type",
            expected=type_text(hint),
            found=f"{shown(default)} ({error})"[:160],
        ) from error


def _filled(column: pa.Array, default: pa.Array) -> pa.Array:
    whole = pa.concat_arrays([column.cast(default.type), default])
    places = np.where(_mask_of(column), len(column), np.arange(len(column)))
    return whole.take(pa.array(places))


def _mask_of(column: pa.Array) -> npt.NDArray[np.bool_]:
    missing: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return missing


def content_bytes(table: pa.Table) -> int:
    """Say how many bytes the values of a table have, the same however rows arrived.

    Nested ones are taken for 16 each.
    """
    total = 0
    for column in table.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            total += pc.sum(pc.binary_length(column)).as_py() or 0
        elif not pa.types.is_null(column.type):
            total += len(column) * (16 if pa.types.is_nested(column.type) else column.type.bit_width // 8)
    return total


def _read_feed(plan: ProgramPlan, epoch: EpochPlan, number: int, table: pa.Table, intake: Intake) -> None:
    if epoch.until is not None:
        table = table.filter(pa.array(_before(epoch, number, table, epoch.until)))
    entry = plan.entry_of(number)
    task = entry.tasks[0]
    hints = parameter_hints(entry)
    keys = key_parameters(task)
    columns = {name: column_array(table, feed_column(number, name)) for name in hints}
    bad, reasons = bad_rows(columns, hints, keys)
    if plan.feeds[number].unparsed:
        bad, reasons = _with_unparsed(column_array(table, unparsed_column(number)), bad, reasons)
    timing = plan.feeds[number].time
    if timing is not None:
        bad, reasons = untimed(column_array(table, TIME), bad, reasons)
    if bad.any():
        source = _source_rows(plan, number, columns, table)
        _note_bad(epoch, number, source, table, np.flatnonzero(bad), reasons, intake)
        table = table.filter(pa.array(~bad))
        columns = {name: column_array(table, feed_column(number, name)) for name in hints}
    if timing is not None and plan.feeds[number].late is not None:
        late = _ints(table, TIME) < epoch.watermark.bound_us(timing)
        if late.any():
            intake.late.append(_late_rows(plan, epoch, number, table.filter(pa.array(late))))
            table = table.filter(pa.array(~late))
            columns = {name: column_array(table, feed_column(number, name)) for name in hints}
    rows = table.num_rows
    if not rows:
        return
    sources = _sources(table)
    zeros = np.zeros(rows, dtype=np.int64)
    places = Places(
        order=_ints(table, "ord"),
        feed=np.full(rows, number, dtype=np.int64),
        source=source_ranks(sources),
        position=_ints(table, "pos"),
        tie=zeros,
        duplicate=zeros,
        turn=zeros,
        instance=zeros,
    )
    variables = {name: column_of(columns[name], hint, key=name in keys) for name, hint in hints.items()}
    keep = [
        KeptColumn(columns[name] if name in columns else column_array(table, keep_column(number, place)))
        for place, (name, _) in enumerate(plan.feeds[number].keep)
    ]
    groups = column_array(table, "grp").to_numpy(zero_copy_only=False) if "grp" in table.column_names else None
    paths = pa.nulls(rows, pa.binary())
    happened = None if timing is None else _ints(table, TIME)
    times = None if happened is None else np.maximum(happened, epoch.watermark.floor_us)
    own = _source_rows(plan, number, columns, table)
    intake.work.append(Work(task, number, places, groups, sources, paths, variables, keep, times, happened, own))


def _late_rows(plan: ProgramPlan, epoch: EpochPlan, feed: int, table: pa.Table) -> LateRows:
    names = parameter_hints(plan.entry_of(feed))
    columns = {name: column_array(table, feed_column(feed, name)) for name in names}
    for place, (name, kind) in enumerate(plan.feeds[feed].keep):
        if name not in columns:
            columns[name] = column_array(table, keep_column(feed, place)).cast(kind)
    happened = _ints(table, TIME)
    places = (_ints(table, "ord"), source_ranks(_sources(table)), _ints(table, "pos"))
    return LateRows(feed, late_table(columns, happened, epoch.watermark, places), int(happened.max()))


def _before(epoch: EpochPlan, feed: int, table: pa.Table, until: Excluded) -> npt.NDArray[np.bool_]:
    """Say which rows come before a row in the input."""
    order, position = _ints(table, "ord"), _ints(table, "pos")
    before: npt.NDArray[np.bool_] = order < until.order
    same = order == until.order
    if feed != until.feed:
        before |= same & (feed < until.feed)
        return before
    names = [epoch.source_name(name) or "" for name in _sources(table).to_pylist()]
    bound = until.source or ""
    earlier = np.array([name < bound for name in names], dtype=bool)
    there = np.array([name == bound for name in names], dtype=bool)
    before |= same & (earlier | (there & (position < until.position)))
    return before


def _note_bad(
    epoch: EpochPlan,
    feed: int,
    source: SourceRows,
    table: pa.Table,
    rows: npt.NDArray[np.intp],
    reasons: list[str],
    intake: Intake,
) -> None:
    order, position, names = _ints(table, "ord"), _ints(table, "pos"), _sources(table)
    for row, reason in zip(rows.tolist(), reasons, strict=True):
        name = epoch.source_name(names[row].as_py())
        place = int(order[row]), name, int(position[row])
        intake.bad.append(BadRow(feed, reason, source.row(row), *place, source.time_us(row)))


def _source_rows(plan: ProgramPlan, feed: int, columns: dict[str, pa.Array], table: pa.Table) -> SourceRows:
    """Rows with all that is kept of them, whether it is a parameter or not."""
    kept = {
        name: column_array(table, keep_column(feed, place))
        for place, (name, _) in enumerate(plan.feeds[feed].keep)
        if name not in columns
    }
    times = None if plan.feeds[feed].time is None else column_array(table, TIME)
    unread = {UNPARSED: column_array(table, unparsed_column(feed))} if plan.feeds[feed].unparsed else {}
    return SourceRows({**columns, **kept, **unread}, times)


def _with_unparsed(
    unread: pa.Array, bad: npt.NDArray[np.bool_], reasons: list[str]
) -> tuple[npt.NDArray[np.bool_], list[str]]:
    """Return which rows are bad, with those that their source could not read; that goes before what else they lack."""
    wrong = ~_mask_of(unread)
    told = dict(zip(np.flatnonzero(bad).tolist(), reasons, strict=True))
    told |= dict.fromkeys(np.flatnonzero(wrong).tolist(), "the record can't be parsed: its bytes are in `unparsed`")
    return bad | wrong, [told[row] for row in sorted(told)]


def read_messages(plan: ProgramPlan, step: int, batches: Iterable[pa.RecordBatch], intake: Intake) -> None:
    """Messages for a step, and the control rows that pass through, whatever is wrong with the messages."""
    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return
    table = pa.Table.from_batches(held).combine_chunks()
    numbers = column_array(table, "task").to_numpy(zero_copy_only=False)
    intake.control = column_array(table.filter(pa.array(numbers == CONTROL_TASK)), "body").to_pylist()
    later = [number for number, task in enumerate(plan.tasks) if not task.relaxed and task.step > step]
    waits = np.isin(numbers, later)
    if waits.any():
        intake.waiting = _as_sent(table.filter(pa.array(waits)))
    here = ~waits & (numbers != CONTROL_TASK)
    intake.received = int(here.sum() + waits.sum())
    table, numbers = table.filter(pa.array(here)), numbers[here]
    if not len(numbers):
        return
    intake.message_bytes = pc.sum(pc.binary_length(table.column("body"))).as_py() or 0
    feeds = column_array(table, "feed").to_numpy(zero_copy_only=False)
    places = _message_places(table, feeds)
    for number in np.unique(numbers).tolist():
        for feed in np.unique(feeds[numbers == number]).tolist():
            rows = np.flatnonzero((numbers == number) & (feeds == feed))
            told = table.take(rows)
            intake.work.append(_read_task(plan, plan.tasks[number], feed, told, places.take(rows), intake))


def _as_sent(table: pa.Table) -> pa.RecordBatch:
    columns = [column_array(table, field.name).cast(field.type) for field in MESSAGE_SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA)


def _message_places(table: pa.Table, feeds: npt.NDArray[np.int32]) -> Places:
    """Return the places of all messages, ranked together, so that those of different tasks can be compared."""
    return Places(
        order=_ints(table, "ord"),
        feed=feeds.astype(np.int64),
        source=source_ranks(column_array(table, "src")),
        position=_ints(table, "pos"),
        tie=_ints(table, "tie"),
        duplicate=_ints(table, "dup"),
        turn=path_ranks(column_array(table, "path")),
        instance=_ints(table, "inst"),
    )


def _read_task(
    plan: ProgramPlan, task: CompiledTask, feed: int, table: pa.Table, places: Places, intake: Intake
) -> Work:
    sources, paths = column_array(table, "src"), column_array(table, "path")
    groups = column_array(table, "grp").to_numpy(zero_copy_only=False)
    carried = Bodies(column_array(table, "body"))
    if task.dispatch is Dispatch.ALL_TO_ONE:
        whole = _answered(plan, places)
        intake.incomplete += len(places) - len(whole)
        answers = whole[_gather(plan, task, places.take(whole))]
        first = answers[:, 0]
        places = replace(places.take(first), instance=np.zeros(len(first), dtype=np.int64))
        groups, sources, paths = groups[first], sources.take(pa.array(first)), paths.take(pa.array(first))
        carried = Bodies(carried.column, answers, task.inputs.index(task.collects))
    bodies = carried.rows(None)
    timed, inputs = plan.feeds[feed].time is not None, len(task.inputs)
    values = list(zip(*bodies, strict=True)) or [()] * (inputs + len(plan.feeds[feed].keep) + timed)
    times = np.array(values.pop(), dtype=np.int64) if timed else None
    variables: dict[str, Column] = {
        name: ListColumn(column) for name, column in zip(task.inputs, values[:inputs], strict=True)
    }
    kinds = (kind for _, kind in plan.feeds[feed].keep)
    keep = [KeptColumn(pa.array(column, type=kind)) for column, kind in zip(values[inputs:], kinds, strict=True)]
    return Work(task, feed, places, groups, sources, paths, variables, keep, times, carried=carried)


def _answered(plan: ProgramPlan, places: Places) -> npt.NDArray[np.intp]:
    """Pick the answers to rows that got all of them: a row that raised at one instance lacks some, and is left out."""
    every = np.arange(len(places))
    if not plan.sifts or not len(places):
        return every
    sorting = places.sorting()
    rows = every if sorting is None else sorting
    ordered = places.take(rows)
    begins = np.ones(len(rows), dtype=bool)
    begins[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in ordered.columns()[:-1]])
    row = np.cumsum(begins) - 1
    whole: npt.NDArray[np.intp] = rows[np.bincount(row)[row] == plan.layout.instances]
    return whole


def _gather(plan: ProgramPlan, task: CompiledTask, places: Places) -> npt.NDArray[np.intp]:
    """Return the answers of all instances to each row, in the order of the instances."""
    width = plan.layout.instances
    sorting = places.sorting()
    rows = np.arange(len(places)) if sorting is None else sorting
    wanted = np.tile(np.arange(width), len(rows) // width)
    if len(rows) % width or not np.array_equal(places.instance[rows], wanted):
        raise EpochError(
            "MP430",
            f"answers of instances for {task.name} are missing",
            expected=f"{width} per row, one from each instance",
            found=f"{len(rows)} in all",
            hint="this is a fault of Millpond, please report it; nothing was committed",
        )
    return rows.reshape(-1, width)


def column_array(table: pa.Table, name: str) -> pa.Array:
    """Return a column of a table, in one piece."""
    column = table.column(name)
    chunk = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(chunk, pa.ChunkedArray):
        return chunk.chunk(0) if chunk.num_chunks else pa.array([], type=chunk.type)
    return chunk


def _sources(table: pa.Table) -> pa.Array:
    """Say where rows come from; rows of one source, or of none, travel without it."""
    return column_array(table, "src") if "src" in table.column_names else pa.nulls(table.num_rows, pa.string())


def _ints(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    if name not in table.column_names:
        return np.zeros(table.num_rows, dtype=np.int64)
    column = column_array(table, name).to_numpy(zero_copy_only=False)
    values: npt.NDArray[np.int64] = column.astype(np.int64, copy=False)
    return values
