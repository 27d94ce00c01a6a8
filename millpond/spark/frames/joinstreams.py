"""Joins over time of streaming DataFrames: a program with an entry point for each side, and a handler that emits.

It is an ordinary program. Its class is made here, since the types of keys and rows follow from what is joined.
"""

from __future__ import annotations

import datetime
import functools
from typing import Any, Final, Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from millpond.engine.time.eventtime import FIRST_US, LAST_US
from millpond.lengths import Length
from millpond.program.declare import Partitioned
from millpond.program.entries import HANDLER, entry
from millpond.program.program import ProgramBase
from millpond.program.semantics.epoch_time import moment_of, reached_us, us_of
from millpond.program.timers import on_timer
from millpond.sinks.protocol import Sink
from millpond.spark.feeds.columntypes import arrow_of
from millpond.spark.frames.windowjoins import ALONE, JoinSide, agreed, bad_frames, join_of, joined_schema
from millpond.spark.frames.windowstreams import CARRIED, KEYS, Arrival, Start, as_key, as_row, hints_of, key_hint
from millpond.spark.job import Job
from millpond.state.containers.map import Map
from millpond.windowing.joins import KeyJoin, Pair, nothing_held, stored_type
from millpond.windowing.kinds.kinds import Window

KEY, TIME, ROW = "join_key", "join_time", "join_row"
"""What entry points take: the key, the time in microseconds, and the columns of a row."""

ENTRIES: Final = ("left", "right")
TOLD: Final = "told"
"""The handler. Its name is in checkpoints, as those of the entry points are."""

ENDLESS: Final = 2**80
"""Later than any time that a row or a window can have: where the end of event time lies for what is emitted."""

_LIST: Any = list
_TUPLE: Any = tuple
_MAP: Any = Map
_LITERAL: Any = Literal


def join_program(
    join: KeyJoin, key: Any, left: tuple[Any, ...], right: tuple[Any, ...], *, bounds: bool
) -> type[ProgramBase]:
    """Make a program with entry points `left` and `right`, and a handler, whose replies are lists of joined rows.

    `key` is the type of keys, `left` and `right` are those of columns. A joined row has the bounds of its window, if
    there are such `bounds`, and the columns of both sides, all of them None for a row that is not there.
    """
    widths = len(left), len(right)
    described = join.described
    stored = _TUPLE[_LITERAL[described], stored_type(join, _row(left), _row(right))]

    def row_of(pair: Pair) -> tuple[Any, ...]:
        sides = zip((pair.left, pair.right), widths, strict=True)
        columns = [one for row, width in sides for one in ((None,) * width if row is None else row[:width])]
        return (moment_of(pair.begin), moment_of(pair.end), *columns) if bounds else tuple(columns)

    class Joined(ProgramBase):
        held = Partitioned(_MAP[key, stored])

        @entry
        def left(self, join_key: Any, join_time: int, join_row: Any) -> None:
            self._add(0, join_key, join_time, join_row)

        @entry
        def right(self, join_key: Any, join_time: int, join_row: Any) -> None:
            self._add(1, join_key, join_time, join_row)

        @on_timer
        def told(self, join_key: Any, at: datetime.datetime) -> Any:  # noqa: ARG002 - by now there may be more to emit
            reached = reached_us()
            closed = join.close(self.held[join_key][1], ENDLESS if reached >= LAST_US else reached)
            if closed.due is None:
                del self.held[join_key]
            else:
                self.held[join_key] = (described, closed.held)
                self.told.set(join_key, moment_of(min(closed.due, LAST_US)))
            return [row_of(pair) for pair in closed.emitted]

        def _add(self, side: int, join_key: Any, join_time: int, join_row: Any) -> None:
            lists = self.held.setdefault(join_key, (described, nothing_held(join)))[1]
            lists[side].append((join_time, join.mark(join_time, us_of(self.now)), join_row))
            due = moment_of(min(join.due(join_time), LAST_US))
            known = self.told.at(join_key)
            if known is None or due < known:
                self.told.set(join_key, due)

    rows: Any = [_row(hints) for hints in (left, right)]
    for name, row in zip(ENTRIES, rows, strict=True):
        getattr(Joined, name).__annotations__.update({KEY: key, ROW: row})
    parts = (*((datetime.datetime, datetime.datetime) if bounds else ()), *left, *right)
    reply = _LIST[_TUPLE[tuple(part | None for part in parts)]]
    getattr(vars(Joined)[TOLD], HANDLER).__annotations__.update({KEY: key, "return": reply})
    return Joined


def _row(hints: tuple[Any, ...]) -> Any:
    """Return the type of the columns of a row, any of which may be null; a program takes no empty tuple."""
    return _TUPLE[tuple(hint | None for hint in hints) or (bool,)]


Streamed = tuple[JoinSide, Arrival]
"""One side of a join, and how its rows come."""


def join_streams(
    left: Streamed,
    right: Streamed,
    within: tuple[Length, Length] | None,
    window: Window | None,
    how: str,
    to: Sink,
    start: Start,
) -> Job:
    """Make a job that sends the rows to a sink which `join_frames` gives of all that will ever come."""
    lateness_us = max(arrival.time.lateness_us for _, arrival in (left, right))
    join = join_of(within, window, how, min(lateness_us, LAST_US - FIRST_US))
    one, other = agreed(left[0], right[0])
    sides = (one, left[1]), (other, right[1])
    schema = joined_schema(one, other, windowed=window is not None)
    keys = [hints_of(side.key_fields, "key", KEYS) for side, _ in sides]
    if key_hint(keys[0]) != key_hint(keys[1]):
        kinds = [", ".join(field.dataType.simpleString() for field, _ in side.key_fields) for side, _ in sides]
        raise bad_frames("keys of the same types", " and ".join(kinds))
    rows = [hints_of(side.other_fields, "column of a join", CARRIED) for side, _ in sides]
    mine, theirs = (tuple(hint for _, hint in row) for row in rows)
    program = join_program(join, key_hint(keys[0]), mine, theirs, bounds=window is not None)
    job = start.job(program, left[0].frame.sparkSession)
    for (side, arrival), key, row, name, alone in zip(sides, keys, rows, ENTRIES, ALONE[how], strict=True):
        fed = _matching(side, alone=alone, windowed=window is not None).withColumns(
            {
                KEY: as_key(side.key_fields, key),
                ROW: as_row(side.other_fields, row),
                TIME: F.unix_micros(side.time),
            }
        )
        arrival.feed(job, name, fed, F.timestamp_micros(TIME))
    columns = [pa.field(field.name, arrow_of(field.dataType)) for field in schema.fields]
    return job.on_timer(TOLD, to=to, rows=pa.schema(columns))


def _matching(side: JoinSide, *, alone: bool, windowed: bool) -> DataFrame:
    """Leave out rows that have a null in their key or no time, where none of these can be emitted.

    A null matches nothing, and a row without a time lies in no window. What else is null fails when the row is fed.
    """
    needed = [] if alone else [key for _, key in side.keys]
    if windowed or not alone:
        needed.append(side.time)
    there = [column.isNotNull() for column in needed]
    return side.frame.where(functools.reduce(lambda one, other: one & other, there)) if there else side.frame
