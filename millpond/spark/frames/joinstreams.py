"""Joins over time of streaming DataFrames: a program with an entry point for each side, and a handler that tells."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from millpond.engine.time.eventtime import FIRST_US, LAST_US
from millpond.lengths import Length
from millpond.sinks.protocol import Sink
from millpond.spark.feeds.columntypes import arrow_of
from millpond.spark.frames.joinprograms import ENTRIES, KEY, ROW, TIME, TOLD, join_program
from millpond.spark.frames.streamed import CARRIED, KEYS, Arrival, as_key, as_row, hints_of, key_hint
from millpond.spark.frames.windowjoins import ALONE, JoinSide, agreed, bad_frames, join_of, joined_schema
from millpond.spark.job import Job
from millpond.windowing.kinds.kinds import Window

Streamed = tuple[JoinSide, Arrival]
"""One side of a join, and how its rows come."""


def join_streams(
    left: Streamed,
    right: Streamed,
    within: tuple[Length, Length] | None,
    window: Window | None,
    how: str,
    to: Sink,
    options: Mapping[str, Any],
) -> Job:
    """A job that sends the rows to a sink which `join_frames` gives of all that the streams will ever tell."""
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
    job = Job(program, left[0].frame.sparkSession, **options)
    for (side, arrival), key, row, entry, told in zip(sides, keys, rows, ENTRIES, ALONE[how], strict=True):
        fed = _matching(side, told=told, windowed=window is not None).withColumns(
            {
                KEY: as_key(side.key_fields, key),
                ROW: as_row(side.other_fields, row),
                TIME: F.unix_micros(side.time),
            }
        )
        arrival.feed(job, entry, fed, F.timestamp_micros(TIME))
    columns = [pa.field(field.name, arrow_of(field.dataType)) for field in schema.fields]
    return job.on_timer(TOLD, to=to, rows=pa.schema(columns))


def _matching(side: JoinSide, *, told: bool, windowed: bool) -> DataFrame:
    """The rows of a side without those that have a null in their key or no time, where none of these can be told.

    A null matches nothing, and a row without a time lies in no window. What else is null fails when the row is fed.
    """
    needed = [] if told else [key for _, key in side.keys]
    if windowed or not told:
        needed.append(side.time)
    there = [column.isNotNull() for column in needed]
    return side.frame.where(functools.reduce(lambda one, other: one & other, there)) if there else side.frame
