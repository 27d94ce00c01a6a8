"""What a task that aggregates over windows must know: keys, queries, aggregates, and the types of what it gives.

Rows reach a task with columns named by their place: `k0`, `k1`, … are the keys, `t` is the time, and `v0`, `v1`, … what
aggregates read.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from millpond.engine.arrowtypes import arrow_type, to_arrow
from millpond.errors import FeedError, WindowError
from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.aggregates.forms import Kinds
from millpond.windowing.kinds.driven import Session
from millpond.windowing.kinds.kinds import Window
from millpond.windowing.kinds.periodic import COUNT, TIME, Periodic
from millpond.windowing.kinds.userdefined import Viewed

WINDOW = "window"
BEGIN, END = "window_begin", "window_end"
FROM, TO = "window_from", "window_to"
"""Bounds of windows that lie over something else than time."""

CHANGE = "change"
"""What a row does to a table of results by key and window, if late rows may correct some: tell, correct or retract."""

TIME_COLUMN = "t"


@dataclass(frozen=True, slots=True)
class ResultType:
    """The type of a column of results, and the hint that it was made of, if there was one."""

    kind: pa.DataType
    hint: Any = None

    def column(self, name: str, values: Sequence[Any]) -> pa.Array:
        """Return values as a column."""
        try:
            return pa.array(values, self.kind) if self.hint is None else to_arrow(values, self.hint)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise WindowError(
                "MP646",
                f"a result does not fit the column `{name}`",
                expected=str(self.kind),
                found=str(error).partition("\n")[0][:200],
                hint=f"say its type: aggregate(..., types={{{name!r}: float}})",
            ) from error


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """Keys with their types, the columns that aggregates read with theirs, and what is computed of them.

    `single` says that there is one window without a name. `results` are the types of aggregates, in their order. If it
    `corrects`, windows may be emitted again.
    """

    keys: tuple[tuple[str, pa.DataType], ...]
    time: pa.DataType
    columns: tuple[tuple[str, pa.DataType], ...]
    queries: Mapping[str, Window | Viewed]
    single: bool
    aggregates: Mapping[str, Aggregate]
    results: tuple[ResultType, ...]
    corrects: bool = False

    def __post_init__(self) -> None:
        names = self.schema.names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise WindowError(
                "MP641",
                "two columns of the result would have one name",
                expected=f"keys and aggregates with names of their own, none of them {BEGIN} or {END}",
                found=", ".join(twice),
                hint="name the aggregate otherwise, or the key: `col('window').alias('pane')`",
            )

    @property
    def columnar(self) -> bool:
        """Whether whole columns can be aggregated; else it goes record by record, in order of time."""
        kinds = dict(self.columns)
        return all(has_column_form(window) for window in self.queries.values()) and all(
            each.columns is not None and each.columns.fits(kinds) for each in self.aggregates.values()
        )

    def opened(self, batch: pa.RecordBatch) -> pa.Table:
        """Return rows as they came to a task, if nothing is missing in them."""
        table = pa.Table.from_batches([batch])
        if table[TIME_COLUMN].null_count:
            raise WindowError(
                "MP644",
                "there are rows without a time",
                expected="a time in every row",
                found=f"{table[TIME_COLUMN].null_count} nulls among {len(table)} rows",
                hint="leave them out: `df.where('time is not null')`",
            )
        for place, (name, _) in enumerate(self.columns):
            if table[value_column(place)].null_count and name in self._named:
                raise WindowError(
                    "MP645",
                    f"the column `{name}` has nulls",
                    expected="a value in every row",
                    found=f"{table[value_column(place)].null_count} nulls among {len(table)} rows",
                    hint="leave those rows out, or say what they count: `coalesce(amount, 0)`",
                )
        return table

    def values(self, table: pa.Table) -> dict[str, pa.ChunkedArray]:
        """Return the columns that aggregates read, by their own names; a table can't have these, which may be any."""
        return {name: table[value_column(place)] for place, (name, _) in enumerate(self.columns)}

    @property
    def _named(self) -> set[str]:
        return {name for each in self.aggregates.values() for name in each.named or ()}

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result: keys, the window's name if there are several, its bounds, the aggregates."""
        fields = [pa.field(name, kind) for name, kind in self.keys]
        if not self.single:
            fields.append(pa.field(WINDOW, pa.string()))
        over_time = [has_time_bounds(window) for window in self.queries.values()]
        if any(over_time):
            fields += [pa.field(name, self.time) for name in (BEGIN, END)]
        if not all(over_time):
            measured = any(_is_measured(window) for window in self.queries.values())
            fields += [pa.field(name, pa.float64() if measured else pa.int64()) for name in (FROM, TO)]
        fields += [pa.field(name, result.kind) for name, result in zip(self.aggregates, self.results, strict=True)]
        if self.corrects:
            fields.append(pa.field(CHANGE, pa.string()))
        return pa.schema(fields)


def result_type(name: str, aggregate: Aggregate, kinds: Kinds, hint: Any) -> ResultType:
    """Return the type of an aggregate's results: as given, as follows from its column, or as its `lower` is annotated.

    `kinds` are the types of the columns that it may read.
    """
    if hint is not None:
        return ResultType(arrow_type(hint), hint)
    kind = None if aggregate.columns is None else aggregate.columns.result_type(name, kinds)
    return ResultType(kind) if kind is not None else _annotated(name, aggregate)


def key_column(place: int) -> str:
    """Return the name of a key on its way to a task."""
    return f"k{place}"


def value_column(place: int) -> str:
    """Return the name of a column that aggregates read, on its way to a task."""
    return f"v{place}"


def has_column_form(window: Window | Viewed) -> bool:
    """Say whether windows can be computed over whole columns."""
    return isinstance(window, Session) or (isinstance(window, Periodic) and window.measure == TIME)


def has_time_bounds(window: Window | Viewed) -> bool:
    """Say whether a window begins and ends at times, not at numbers of records or points of a measure."""
    return window.needs_time and not isinstance(window, Viewed)


def _is_measured(window: Window | Viewed) -> bool:
    return isinstance(window, Periodic) and window.measure not in {TIME, COUNT}


def _annotated(name: str, aggregate: Aggregate) -> ResultType:
    try:
        hint = typing.get_type_hints(aggregate.lower)["return"]
        return ResultType(arrow_type(hint), hint)
    except (KeyError, NameError, TypeError, FeedError) as error:
        raise WindowError(
            "MP643",
            f"the type of the column `{name}` is not known",
            expected=f"a type: aggregate(..., types={{{name!r}: float}})",
            found=f"the aggregate `{aggregate.name}`, whose results may be of any",
            hint="or annotate what its `lower` returns",
        ) from error
