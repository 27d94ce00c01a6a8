"""Joins over time of batch DataFrames: rows of a key meet in one task, which joins whole columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from millpond.engine.arrowtypes import utc_type
from millpond.engine.gathered.keycodes import KeyCodes
from millpond.errors import WindowError
from millpond.spark.frames.windowplan import key_column, value_column
from millpond.windowing.joins import IntervalJoin, WindowJoin
from millpond.windowing.joins.interval import distance
from millpond.windowing.joins.results import INNER, LEFT
from millpond.windowing.kinds.kinds import Span, Window

Make = Callable[[bool], IntervalJoin | WindowJoin]
Ints = npt.NDArray[np.int64]

BEGIN, END = "window_begin", "window_end"
BUCKET, TIME = "bucket", "time"
"""Names on the way to a task, where the columns of frames are called by their places: their own may be anything."""

RIGHT, FULL = "right", "full"
HOWS = (INNER, LEFT, RIGHT, FULL)
LAST = 2**62 + 2**61 + 1
"""Later than any time of a row and any distance from it."""


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One side: all columns of a frame, which of them are keys, and its time."""

    frame: DataFrame
    keys: Sequence[tuple[str, Column]]
    time: Column

    @property
    def others(self) -> list[T.StructField]:
        """The columns that are no keys."""
        names = {name for name, _ in self.keys}
        return [field for field in self.frame.schema.fields if field.name not in names]

    @property
    def key_fields(self) -> list[tuple[T.StructField, Column]]:
        """The keys with their types."""
        fields = self.frame.select(*(key.alias(name) for name, key in self.keys)).schema.fields
        return list(zip(fields, (key for _, key in self.keys), strict=True))

    @property
    def other_fields(self) -> list[tuple[T.StructField, Column]]:
        """The columns that are no keys, with their types."""
        return [(field, _quoted(field.name)) for field in self.others]

    def bucketed(self, buckets: int) -> DataFrame:
        """The rows with the number of the task that they meet in, and their time."""
        return self.frame.select(
            *(key.alias(key_column(place)) for place, (_, key) in enumerate(self.keys)),
            *(column.alias(value_column(place)) for place, (_, column) in enumerate(self.other_fields)),
            F.pmod(F.xxhash64(*(key for _, key in self.keys)), F.lit(buckets)).alias(BUCKET), self.time.alias(TIME),
        )  # fmt: skip


def join_frames(
    left: JoinSide,
    right: JoinSide,
    within: tuple[Span, Span] | None,
    window: Window | None,
    how: str,
    buckets: int,
) -> DataFrame:
    """Pairs of rows as a frame: the keys, the window if there is one, the columns of the left and of the right side."""
    make = maker_of(within, window, how)
    make(False)  # A join that makes no sense is refused here, not in a task.
    left, right = agreed(left, right)
    schema = joined_schema(left, right, window)
    mine, theirs = left.bucketed(buckets), right.bucketed(buckets)
    key_names = [name for name, _ in left.keys]
    work = _work(make, how, key_names, [[field.name for field in side.others] for side in (left, right)])
    return mine.groupBy(BUCKET).cogroup(theirs.groupBy(BUCKET)).applyInArrow(work, schema)


def agreed(left: JoinSide, right: JoinSide) -> tuple[JoinSide, JoinSide]:
    """Both sides with keys of one type, or rows of equal keys would not meet: of two types of numbers, the wider."""
    key_names = [name for name, _ in left.keys]
    if key_names != [name for name, _ in right.keys]:
        raise bad_frames(f"keys {', '.join(key_names)}", ", ".join(name for name, _ in right.keys))
    whats = [*(f"`{name}`" for name in key_names), "the time"]
    wider: dict[int, T.DataType] = {}
    for place, (what, one, other) in enumerate(zip(whats, _kinds(left), _kinds(right), strict=True)):
        if one == other:
            continue
        if not (isinstance(one, T.NumericType) and isinstance(other, T.NumericType)):
            pair = f"{one.simpleString()} and {other.simpleString()}"
            raise bad_frames("keys and times of the same types on both sides", f"{what} is {pair}", "cast one of them")
        both = F.coalesce(F.lit(None).cast(one), F.lit(None).cast(other))
        wider[place] = left.frame.select(both).schema.fields[0].dataType
    first, second = (
        replace(side, keys=[(name, _wide(key, wider.get(place))) for place, (name, key) in enumerate(side.keys)])
        for side in (left, right)
    )
    return first, second


def _wide(key: Column, kind: T.DataType | None) -> Column:
    return key if kind is None else key.cast(kind)


def joined_schema(left: JoinSide, right: JoinSide, window: Window | None) -> T.StructType:
    """The columns of joined rows; sides that do not go together are refused."""
    key_names = [name for name, _ in left.keys]
    bounds = [] if window is None else [BEGIN, END]
    others = [field for side in (left, right) for field in side.others]
    names = [*key_names, *bounds, *(field.name for field in others)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise bad_frames("columns of the two sides with names of their own", ", ".join(twice))
    *keys, time = _kinds(left)
    return T.StructType(
        [T.StructField(name, kind) for name, kind in zip(key_names, keys, strict=True)]
        + [T.StructField(name, time) for name in bounds]
        + [T.StructField(field.name, _nullable(field.dataType)) for field in others]
    )


def _nullable(kind: T.DataType) -> T.DataType:
    """A type whose parts may be null: those of a struct are, where a row has no partner."""
    match kind:
        case T.StructType():
            return T.StructType([T.StructField(part.name, _nullable(part.dataType)) for part in kind.fields])
        case T.ArrayType():
            return T.ArrayType(_nullable(kind.elementType))
        case T.MapType():
            return T.MapType(_nullable(kind.keyType), _nullable(kind.valueType))
        case _:
            return kind


def _kinds(side: JoinSide) -> list[T.DataType]:
    """The types of keys, and of the time."""
    own = side.frame.select(*(key for _, key in side.keys), side.time)
    return [field.dataType for field in own.schema.fields]


def maker_of(within: tuple[Span, Span] | None, window: Window | None, how: str) -> Make:
    """What makes the join of a task, or, `flipped`, that of the other side with this one."""
    if how not in HOWS:
        raise bad_frames(f"how= one of {', '.join(HOWS)}", repr(how)[:60])
    if (within is None) == (window is None):
        raise bad_frames("either `within=(low, high)` or a window", "both" if within else "neither")
    if window is not None:
        return lambda flipped: WindowJoin(window, how=LEFT if how != INNER or flipped else INNER)
    if not isinstance(within, tuple) or len(within) != 2:
        raise bad_frames("`within=(low, high)`: two distances in time", repr(within)[:60])
    low, high = (distance(each) for each in within)
    return lambda flipped: IntervalJoin(
        -high if flipped else low, -low if flipped else high, how=LEFT if how != INNER or flipped else INNER
    )


class _Pairs(NamedTuple):
    """The places of rows that belong together, null for a row alone, and the windows that they share."""

    mine: pa.Array
    theirs: pa.Array
    begins: Ints | None
    ends: Ints | None

    def flipped(self) -> _Pairs:
        return self._replace(mine=self.theirs, theirs=self.mine)

    def alone(self) -> _Pairs:
        """The rows without a partner."""
        rows = np.flatnonzero(self.theirs.is_null().to_numpy(zero_copy_only=False))
        bounds = (None if bound is None else bound[rows] for bound in (self.begins, self.ends))
        return _Pairs(self.mine.take(pa.array(rows)), self.theirs.take(pa.array(rows)), *bounds)

    def and_those(self, more: _Pairs) -> _Pairs:
        bounds = (
            None if mine is None or other is None else np.append(mine, other)
            for mine, other in ((self.begins, more.begins), (self.ends, more.ends))
        )
        mine, theirs = pa.concat_arrays([self.mine, more.mine]), pa.concat_arrays([self.theirs, more.theirs])
        return _Pairs(mine, theirs, *bounds)


def _work(make: Make, how: str, names: list[str], others: list[list[str]]) -> Callable[[pa.Table, pa.Table], pa.Table]:
    keys = [key_column(place) for place in range(len(names))]

    def run(left: pa.Table, right: pa.Table) -> pa.Table:
        if how == RIGHT:
            found = _pairs(make(True), right, left, keys).flipped()
        else:
            found = _pairs(make(False), left, right, keys)
        if how == FULL:
            found = found.and_those(_pairs(make(True), right, left, keys).alone().flipped())
        here = found.mine.is_valid()
        columns: dict[str, Any] = {
            name: pc.if_else(here, left[key].take(found.mine), right[key].take(found.theirs))
            for name, key in zip(names, keys, strict=True)
        }
        if found.begins is not None and found.ends is not None:
            kind = left.schema.field(TIME).type
            columns |= {BEGIN: pa.array(found.begins).cast(kind), END: pa.array(found.ends).cast(kind)}
        for table, rows, own in ((left, found.mine, others[0]), (right, found.theirs, others[1])):
            columns |= {name: table[value_column(place)].take(rows) for place, name in enumerate(own)}
        return _as_spark_takes_it(pa.table(columns))

    return run


def _as_spark_takes_it(table: pa.Table) -> pa.Table:
    """Timestamps come with the zone of the session, and Spark takes them in UTC alone; the moments are the same."""
    wanted = zip(table.columns, map(utc_type, table.schema.types), strict=True)
    columns = [column if column.type == kind else column.cast(kind) for column, kind in wanted]
    return pa.table(columns, names=table.column_names)


def _pairs(join: IntervalJoin | WindowJoin, left: pa.Table, right: pa.Table, keys: list[str]) -> _Pairs:
    codes = KeyCodes(len(keys))
    sides = [_rows(codes, table, keys) for table in (left, right)]
    timeless = np.flatnonzero(left[TIME].is_null().to_numpy())
    # A key with a null equals no other, so on the right it is nobody's partner; on the left it is one of its own.
    sides[0] = (np.where(sides[0][3], sides[0][0] * 2 + 1, sides[0][0] * 2), *sides[0][1:])
    sides[1] = (sides[1][0] * 2, *sides[1][1:])
    (mine, at, rows, _), (theirs, then, partners, nulls) = sides
    join.add(left=(mine, at, {"row": rows}), right=(theirs[~nulls], then[~nulls], {"row": partners[~nulls]}))
    found = join.close(LAST)
    lefts = found.left.get("row", np.zeros(0, np.int64))
    rights = pa.array(found.right.get("row", np.zeros(len(found), np.int64)), pa.int64(), mask=~found.matched)
    if isinstance(join, IntervalJoin) and join.outer:
        # Nothing is near a row without a time.
        lefts = np.append(lefts, timeless)
        rights = pa.concat_arrays([rights, pa.nulls(len(timeless), rights.type)])
    return _Pairs(pa.array(lefts, pa.int64()), rights, found.begins, found.ends)


def _rows(codes: KeyCodes, table: pa.Table, keys: list[str]) -> tuple[Ints, Ints, Ints, Any]:
    """Of the rows with a time: codes of keys, times, their places, and whether a null is in the key."""
    numbers = codes.encode([table[name] for name in keys])
    timed = table[TIME].is_valid().to_numpy()
    times = table[TIME].cast(pa.timestamp("us", table.schema.field(TIME).type.tz)).cast(pa.int64())
    nulls = np.zeros(len(table), np.bool_)
    for name in keys:
        nulls |= table[name].is_null().to_numpy()
    rows = np.flatnonzero(timed)
    return numbers[rows], times.fill_null(0).to_numpy()[rows], rows, nulls[rows]


def _quoted(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def bad_frames(expected: str, found: str, hint: str = "rename columns first with `withColumnRenamed`") -> WindowError:
    """Return the error for frames that can't be joined."""
    return WindowError(
        "MP652",
        "these frames can't be joined like this",
        expected=expected,
        found=found,
        hint=f"{hint}; see docs/WINDOWS.md, Joins",
    )
