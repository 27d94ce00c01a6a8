"""The state of a checkpoint as DataFrames: Spark's tasks read its files, a range of key groups each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from millpond.checkpoint.read import entries as reading
from millpond.checkpoint.read.elements import ElementReader
from millpond.checkpoint.read.history import History, Point
from millpond.engine.statetables import change_batches, change_columns, entry_batches, entry_columns
from millpond.errors import EpochError
from millpond.ids import ManifestHash, PartitionId
from millpond.keygroups import Layout
from millpond.spark.feeds.columntypes import spark_schema
from millpond.spark.placement.placement import checked_host
from millpond.storage.open import open_storage

Session: TypeAlias = SparkSession
Frame: TypeAlias = DataFrame

Mark = tuple[int, ManifestHash]
"""A point as it is sent to tasks: its manifest is read where it is needed."""

Read = Callable[[History, ElementReader, range], Iterator[pa.RecordBatch]]
"""Reads the entries of a range of key groups, in a task."""


def state_frame(spark: SparkSession, checkpoint: str | Path, element: str, epoch: int | None) -> DataFrame:
    """Return a state element as it was after an epoch; `front.frames.read_state` says what it holds."""
    history = History(open_storage(str(checkpoint)))
    point = history.point(epoch)
    reader = history.reader(element, point)
    mark = (point.epoch, point.hash)

    def read(there: History, own: ElementReader, groups: range) -> Iterator[pa.RecordBatch]:
        return entry_batches(own, reading.entries(there, _find(there, mark), element, groups))

    return _frame(spark, history, point, element, entry_columns(reader)[0], read)


def change_frame(spark: SparkSession, checkpoint: str | Path, element: str, since: int, until: int | None) -> DataFrame:
    """Return what each epoch changed in a state element; `front.frames.read_changes` says what it holds."""
    history = History(open_storage(str(checkpoint)))
    first, last = history.point(since), history.point(until)
    reader = history.reader(element, last)
    reading.check_feed(history, first, last, element)
    begin, end = (first.epoch, first.hash), (last.epoch, last.hash)

    def read(there: History, own: ElementReader, groups: range) -> Iterator[pa.RecordBatch]:
        return change_batches(own, reading.feed(there, _find(there, begin), _find(there, end), element, groups))

    return _frame(spark, history, last, element, change_columns(reader)[0], read)


def _frame(
    spark: SparkSession, history: History, point: Point, element: str, schema: pa.Schema, read: Read
) -> DataFrame:
    checked_host(spark)
    url, key_groups, epoch = history.storage.url, history.genesis.key_groups, point.epoch
    tasks = min(int(spark.conf.get("spark.sql.shuffle.partitions") or 2), key_groups)
    layout = Layout(key_groups, tasks, 1, aligned=False)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = [number for batch in batches for number in batch.column("id").to_pylist()]
        there = History(open_storage(url))
        own = there.reader(element, there.point(epoch))
        for number in numbers:
            yield from read(there, own, layout.range_of(PartitionId(number)))

    return spark.range(0, tasks, 1, tasks).mapInArrow(run, spark_schema(schema))


def _find(there: History, mark: Mark) -> Point:
    """Return the point as a task finds it; another one under the same number means that the checkpoint was replaced."""
    epoch, digest = mark
    found = there.point(epoch)
    if found.hash != digest:
        raise EpochError(
            "MP455",
            "the checkpoint was replaced since the DataFrame was made",
            expected=f"epoch {epoch} with hash {digest}",
            found=f"hash {found.hash}",
            hint="make the DataFrame again",
        )
    return found
