"""Loads of initial state on Spark: a DataFrame of keys and values, checked before anything runs, written by tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import get_args, get_origin

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from millpond.compiler.compiled import CompiledProgram
from millpond.engine.arrowtypes import in_utc
from millpond.engine.local_state.initialstate import (
    KEY,
    Into,
    Load,
    LoadReport,
    Target,
    load_columns,
    load_rows,
    loadable,
)
from millpond.errors import FeedError, StateError
from millpond.program.entries import EntryPoint
from millpond.spark.exchange.collecting import collect
from millpond.spark.exchange.hashing import hash_column, hash_columns
from millpond.spark.exchange.worker import CONTROL_DDL
from millpond.spark.feeds.matching import check_columns
from millpond.spark.ship import Shipment, unpack
from millpond.storage.open import open_storage

TASKS_MIN = 8
"""A load is cut into at least so many ranges of key groups: a task holds all entries of a range in memory."""

_PART = "_millpond_part"
_decoder = msgspec.msgpack.Decoder(LoadReport)


def make_load(
    program: CompiledProgram,
    element: str,
    frame: DataFrame,
    into: Into | None,
    name: str | None,
    others: Iterable[Load[DataFrame]],
) -> Load[DataFrame]:
    """Check a load and describe it."""
    declared = loadable(program, element)
    if name == "" or any((other.name or other.element.name) == (name or element) for other in others):
        raise StateError(
            "MP276",
            "a load has an empty name" if name == "" else f"two loads are named `{name or element}`",
            expected='one load per element, or names: job.load(..., name="backfill")',
            found='name=""' if name == "" else f"a second load named `{name or element}`",
        )
    if frame.isStreaming:
        raise StateError(
            "MP271",
            f"`{element}` can't be loaded from a streaming DataFrame",
            expected="a DataFrame that ends: spark.read, not spark.readStream",
            found="a stream",
            hint="load what there is, and feed the stream to an entry point",
        )
    point = EntryPoint(element, make_load, load_columns(declared), None)
    try:
        check_columns(point, frame, element)
    except FeedError as error:
        raise StateError(
            "MP271",
            f"the DataFrame can't be loaded into `{element}`",
            expected=error.expected,
            found=error.found,
            hint="select, rename and cast columns to " + ", ".join(f"`{column}`" for column, _ in point.parameters),
        ) from error
    return Load(declared, frame, into, name)


def write_entries(frame: DataFrame, shipment: Shipment, target: Target, partitions: int) -> list[LoadReport]:
    """Write the entries of a load, each range of key groups in a task."""
    rows = _routed(frame, target, partitions)
    reported = collect(rows.mapInArrow(_load_function(shipment, target), CONTROL_DDL))
    return [_decoder.decode(bytes(row.body)) for row in reported]


def _routed(frame: DataFrame, target: Target, partitions: int) -> DataFrame:
    """Return the columns of the load, with all rows of a key group in one task."""
    names = [f"`{name}`" for name, _ in target.columns]
    if target.one_group:
        return frame.selectExpr(*names).coalesce(1)
    tasks = min(target.key_groups, max(TASKS_MIN, partitions))
    hint = target.element.type.key_hint
    if get_origin(hint) is tuple:
        parts = [f"_millpond_key_{at}" for at in range(len(get_args(hint)))]
        flat = frame.selectExpr(*names, *(f"`{KEY}`.`_{at}` {part}" for at, part in enumerate(parts, 1)))
        hashed = hash_columns(parts, get_args(hint))
    else:
        flat, hashed = frame.selectExpr(*names), hash_column(KEY, hint)
    group = f"({hashed} % {target.key_groups})"
    # A row with a null key is told of by the task that it comes to, whichever that is.
    part = f"coalesce(int(({group} * {tasks}) div {target.key_groups}), 0)"
    placed = flat.selectExpr(*names, f"{part} {_PART}")
    return placed.repartitionById(tasks, F.col(_PART)).drop(_PART)


def _load_function(
    shipment: Shipment, target: Target
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    name, told = target.element.name, (target.index, target.key_groups, target.homes, target.moment_us, target.mark)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = [batch for batch in batches if batch.num_rows]
        if held:
            plan = unpack(shipment)
            own = Target(plan.program.elements[name], *told)
            report = load_rows(open_storage(plan.storage_url), own, in_utc(pa.Table.from_batches(held)))
            body = pa.array([msgspec.msgpack.encode(report)], pa.binary())
            yield pa.RecordBatch.from_arrays([body], names=["body"])

    return run
