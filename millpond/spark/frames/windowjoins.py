"""Joins over time of batch DataFrames: Spark's own join, on the key and a stretch of time or a window.

Rows within two distances meet in bins of time as long as these are apart: a row that may be emitted alone lies in one,
its partners are looked for in two. So a key with many rows costs the pairs that it has, not all that it could have.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import and_, or_
from typing import cast

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from millpond.errors import WindowError
from millpond.lengths import Length
from millpond.windowing.columns.intake import TIME_MAX, unfit
from millpond.windowing.columns.ordering import ranges
from millpond.windowing.joins import KeyIntervals, KeyJoin, KeySessions, KeyWindows, key_intervals, key_windows
from millpond.windowing.kinds.grids import SlicedGrid, windows_of
from millpond.windowing.kinds.kinds import Window

BEGIN, END = "window_begin", "window_end"

ALONE = {"inner": (False, False), "left": (True, False), "right": (False, True), "full": (True, True)}
"""Whether left and right rows without a partner are emitted, by `how`."""

_SIDES = ("l", "r")
_TIME, _BIN = "t", "bin"
_ZERO = "timestamp_ntz'1970-01-01 00:00:00'"
"""Names inside a join, with the letter of their side before them: columns of frames may be called anything."""


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
        return [(field, quoted(field.name)) for field in self.others]

    @property
    def kinds(self) -> list[T.DataType]:
        """The types of keys, and of the time."""
        own = self.frame.select(*(key for _, key in self.keys), self.time)
        return [field.dataType for field in own.schema.fields]

    def placed(self, letter: str) -> DataFrame:
        """Return the columns by their places, and the time in microseconds."""
        return self.frame.select(
            *(key.alias(f"{letter}k{place}") for place, (_, key) in enumerate(self.keys)),
            *(column.alias(f"{letter}v{place}") for place, (_, column) in enumerate(self.other_fields)),
            _micros(self.time, self.kinds[-1]).alias(letter + _TIME),
        )


def join_of(within: tuple[Length, Length] | None, window: Window | None, how: str, lateness_us: int = 0) -> KeyJoin:
    """Return how rows of one key are joined; what makes no sense is refused."""
    if how not in ALONE:
        raise bad_frames(f"how= one of {', '.join(ALONE)}", repr(how)[:60])
    if (within is None) == (window is None):
        raise bad_frames("either `within=(low, high)` or a window", "both" if within else "neither")
    if window is not None:
        return key_windows(window, ALONE[how], lateness_us)
    if not isinstance(within, tuple) or len(within) != 2:
        raise bad_frames("`within=(low, high)`: two distances in time", repr(within)[:60])
    return key_intervals(*within, ALONE[how], lateness_us)


def join_frames(left: JoinSide, right: JoinSide, join: KeyJoin, how: str, partitions: int | None) -> DataFrame:
    """Join rows to a frame: the keys, the window if there is one, the columns of the left and of the right side."""
    left, right = agreed(left, right)
    schema = joined_schema(left, right, windowed=not isinstance(join, KeyIntervals))
    keys = [f"k{place}" for place in range(len(left.keys))]
    mine, theirs = (side.placed(letter) for side, letter in zip((left, right), _SIDES, strict=True))
    bounds: list[Column] = []
    if isinstance(join, KeyIntervals):
        pairs = _near(mine, theirs, join, how, keys, partitions)
    else:
        placed = _in_sessions if isinstance(join, KeySessions) else _in_windows
        pairs = placed(mine, theirs, join, how, keys, partitions)
        bounds = [_moment(F.coalesce(f"l{name}", f"r{name}"), left.kinds[-1]) for name in (BEGIN, END)]
    others = [
        F.col(f"{letter}v{place}")
        for side, letter in zip((left, right), _SIDES, strict=True)
        for place in range(len(side.others))
    ]
    columns = [*(F.coalesce(f"l{key}", f"r{key}") for key in keys), *bounds, *others]
    return pairs.select(*(column.alias(name) for column, name in zip(columns, schema.names, strict=True)))


def agreed(left: JoinSide, right: JoinSide) -> tuple[JoinSide, JoinSide]:
    """Return both sides with keys of one type, or rows of equal keys would not meet: of two of numbers, the wider."""
    key_names = [name for name, _ in left.keys]
    if key_names != [name for name, _ in right.keys]:
        raise bad_frames(f"keys {', '.join(key_names)}", ", ".join(name for name, _ in right.keys))
    whats = [*(f"`{name}`" for name in key_names), "the time"]
    wider: dict[int, T.DataType] = {}
    for place, (what, one, other) in enumerate(zip(whats, left.kinds, right.kinds, strict=True)):
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


def joined_schema(left: JoinSide, right: JoinSide, *, windowed: bool) -> T.StructType:
    """Return the columns of joined rows; sides that do not go together are refused."""
    key_names = [name for name, _ in left.keys]
    bounds = [BEGIN, END] if windowed else []
    others = [field for side in (left, right) for field in side.others]
    names = [*key_names, *bounds, *(field.name for field in others)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise bad_frames("columns of the two sides with names of their own", ", ".join(twice))
    *keys, time = left.kinds
    return T.StructType(
        [T.StructField(name, kind) for name, kind in zip(key_names, keys, strict=True)]
        + [T.StructField(name, time) for name in bounds]
        + [T.StructField(field.name, field.dataType) for field in others]
    )


# --- within two distances


def _near(
    mine: DataFrame, theirs: DataFrame, join: KeyIntervals, how: str, keys: list[str], partitions: int | None
) -> DataFrame:
    """Join rows of which the right one lies between two distances from the left one.

    A row that may be emitted alone must be there once. If that holds for both sides, right rows alone are found apart.
    """
    low, high = join.low, join.high
    close = F.col("rt").between(F.col("lt") + low, F.col("lt") + high)
    equal = [*keys, _BIN]
    width = high - low + 1
    found = []
    if how != "right":
        once, twice = _binned(mine, "l", width, (0,)), _binned(theirs, "r", width, (-high, -low))
        found.append(_meet(once, twice, equal, "left" if how == "full" else how, partitions, close))
    if how in {"right", "full"}:
        once, twice = _binned(theirs, "r", width, (0,)), _binned(mine, "l", width, (low, high))
        found.append(_meet(once, twice, equal, "left" if how == "right" else "left_anti", partitions, close))
    return functools.reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), found)


def _binned(frame: DataFrame, letter: str, width: int, distances: tuple[int, ...]) -> DataFrame:
    """Put rows into the bins of time that lie at some distances from them."""
    points = [F.col(letter + _TIME) + distance for distance in distances]
    begins = [point - F.pmod(point, F.lit(width)) for point in points]
    return frame.withColumn(
        letter + _BIN, begins[0] if len(begins) == 1 else F.explode(F.array_distinct(F.array(*begins)))
    )


def _meet(
    one: DataFrame, other: DataFrame, equal: list[str], how: str, partitions: int | None, *more: Column
) -> DataFrame:
    """Join two frames where these columns of both are equal; null equals nothing."""
    if partitions is not None:
        one, other = (
            frame.repartition(partitions, *(name for name in frame.columns if name[1:] in equal))
            for frame in (one, other)
        )
    matching = [F.col(f"l{name}") == F.col(f"r{name}") for name in equal]
    return one.join(other, functools.reduce(and_, [*matching, *more]), how)


# --- in windows


def _in_windows(
    mine: DataFrame, theirs: DataFrame, join: KeyJoin, how: str, keys: list[str], partitions: int | None
) -> DataFrame:
    """Join rows that lie in one window, once for each that both lie in; those without a time lie in none."""
    assert isinstance(join, KeyWindows)
    grid = cast("SlicedGrid", join.grid)

    def bounds(times: pa.Array) -> pa.Array:
        return _bounds_of(grid, times)

    found = F.arrow_udf(bounds, "array<struct<begin: bigint, end: bigint>>")  # type: ignore[attr-defined]
    one, other = (
        frame.where(F.col(letter + _TIME).isNotNull()).select(
            "*", F.inline(found(letter + _TIME)).alias(f"{letter}{BEGIN}", f"{letter}{END}")
        )
        for frame, letter in zip((mine, theirs), _SIDES, strict=True)
    )
    return _meet(one, other, [*keys, BEGIN], how, partitions)


def _bounds_of(grid: SlicedGrid, times: pa.Array) -> pa.Array:
    """Return the bounds of the windows that each time lies in."""
    first, last = windows_of(grid, times.to_numpy())
    sizes = np.maximum(last - first + 1, 0)
    numbers = ranges(first, sizes)
    bounds = [pa.array(each(numbers)) for each in (grid.begins, grid.ends)]
    offsets = pa.array(np.append(0, np.cumsum(sizes)), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(bounds, ["begin", "end"]))


def _in_sessions(
    mine: DataFrame, theirs: DataFrame, join: KeyJoin, how: str, keys: list[str], partitions: int | None
) -> DataFrame:
    """Join rows of one session, in one pass over the rows of both sides; where a key has a null, sides are apart."""
    assert isinstance(join, KeySessions)
    sides = [
        frame.where(F.col(letter + _TIME).isNotNull()).select(
            *(F.col(letter + name).alias(name) for name in (*keys, _TIME)),
            F.lit(letter).alias("side"),
            F.struct(*frame.columns).alias(letter),
        )
        for frame, letter in zip((mine, theirs), _SIDES, strict=True)
    ]
    rows = sides[0].unionByName(sides[1], allowMissingColumns=True)
    if partitions is not None:
        rows = rows.repartition(partitions, *keys)
    nulls = functools.reduce(or_, [F.col(key).isNull() for key in keys])
    rows = rows.withColumn("apart", F.when(nulls, F.col("side")))
    own = Over.partitionBy(*keys, "apart").orderBy(_TIME)
    rows = rows.withColumn("before", F.lag(_TIME).over(own))
    began = F.when(F.col("before").isNull() | (F.col(_TIME) - F.col("before") >= join.gap), F.col(_TIME))
    rows = rows.withColumn("first", F.max(began).over(own))
    sessions = rows.groupBy(*keys, "apart", F.col("first").alias(BEGIN)).agg(
        (F.max(_TIME) + join.gap).alias(END), *(F.collect_list(letter).alias(letter) for letter in _SIDES)
    )
    for letter, alone in zip(_SIDES, (how in {"right", "full"}, how in {"left", "full"}), strict=True):
        each = F.explode_outer(letter) if alone else F.explode(letter)
        sessions = sessions.withColumn(letter, each)
    bounds = (F.col(name).alias(letter + name) for letter in _SIDES for name in (BEGIN, END))
    return sessions.select("l.*", "r.*", *bounds)


# --- times


def _micros(time: Column, kind: T.DataType) -> Column:
    """Return a time in microseconds since 1970; of one without a zone, as if its clock were that of UTC."""
    us = F.unix_micros(time)
    if isinstance(kind, T.TimestampNTZType):
        us = ((time - F.expr(_ZERO)).cast("decimal(20,6)") * 1_000_000).cast("bigint")  # Seconds; nothing is lost.
    too_far = F.raise_error(F.lit(str(unfit("times", f"microseconds up to {TIME_MAX} from 1970", "one beyond"))))
    return F.when(us.isNull() | us.between(-TIME_MAX, TIME_MAX), us).otherwise(too_far)


def _moment(us: Column, kind: T.DataType) -> Column:
    """Return microseconds since 1970 as a time of a type."""
    if isinstance(kind, T.TimestampNTZType):
        return F.timestamp_add("MICROSECOND", us, F.expr(_ZERO))
    return F.timestamp_micros(us)


def quoted(name: str) -> Column:
    """Return a column by its name, whatever that is."""
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
