"""The peer: the same logic in Spark's `transformWithState`, Row form, with RocksDB as Spark asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from benchmarks.report import BenchmarkError, Teller, timed

KEYS_FIRST = 2_000
"""Keys of the first sample; larger ones follow until a run takes long enough."""

KEYS_WARM_UP = 200

PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class KeyedTotals(StatefulProcessor):
    """Count and running sum of a key; one row out for each row in."""

    OUTPUT = "key long, amount double, count long, total double"

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._total = handle.getValueState("total", "count long, total double")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        # One call less than exists() and then get().
        count, total = self._total.get() or (0, 0.0)
        for row in rows:
            count += 1
            total += row.amount
            yield Row(key=key[0], amount=row.amount, count=count, total=total)
        self._total.update((count, total))

    def close(self) -> None:
        """Nothing to give back."""


class OrderedTotals(StatefulProcessor):
    """The same, for a source that mixes up the rows of a batch: they are put in order first."""

    OUTPUT = "seq long, sent_ns long, count long, total double"

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._total = handle.getValueState("total", "count long, total double")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        count, total = self._total.get() or (0, 0.0)
        for row in sorted(rows, key=lambda row: int(row.seq)):
            count += 1
            total += row.amount
            yield Row(seq=row.seq, sent_ns=row.sent_ns, count=count, total=total)
        self._total.update((count, total))

    def close(self) -> None:
        """Nothing to give back."""


class WordTotals(StatefulProcessor):
    """Count of a word; one row out for each batch in which it occurs."""

    OUTPUT = "word string, count long"

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        (count,) = self._count.get() or (0,)
        count += sum(1 for _ in rows)
        self._count.update((count,))
        yield Row(word=key[0], count=count)

    def close(self) -> None:
        """Nothing to give back."""


def transformed(frame: DataFrame, key: str, processor: KeyedTotals | OrderedTotals | WordTotals) -> DataFrame:
    """Apply a processor to a stream, grouped by `key`."""
    return frame.groupBy(key).transformWithState(processor, processor.OUTPUT, "Append", "None")


def run_to_end(frame: DataFrame, folder: Path) -> Path:
    """Run a streaming query until its input is used up, checkpointed, and return the folder of its Parquet output."""
    rows = folder / "rows"
    writer = frame.writeStream.format("parquet").option("path", str(rows))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return rows


@contextmanager
def state_store(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Set the session up for `transformWithState`, with as many partitions as Millpond has; undone afterwards."""
    settings = {PROVIDER: ROCKSDB, PARTITIONS: str(partitions)}
    before = {name: str(spark.conf.get(name)) for name in settings}
    _configure(spark, settings)
    try:
        yield
    finally:
        _configure(spark, before)


def _configure(spark: SparkSession, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)


def require_protobuf() -> None:
    """Refuse to begin without what `transformWithState` needs, rather than to stop half-way."""
    if find_spec("google") is None or find_spec("google.protobuf") is None:
        raise BenchmarkError(
            "transformWithState needs the package protobuf: install it (pip install protobuf), or leave that "
            "contestant out (--no-tws)"
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """A run over all events of the keys below `keys`."""

    keys: int
    seconds: float
    rows: Path


@dataclass(frozen=True, slots=True)
class PeerResult:
    """What `transformWithState` did on a sample, in figures."""

    rate: float
    keys: int
    events: int
    seconds: float


def largest_sample(run: Callable[[int], Path], keys: int, seconds: float, teller: Teller) -> Sample:
    """Run over ever more keys until a run takes about `seconds`, or all keys are in; the last run counts.

    A sample is made of keys, each with all its events: what `transformWithState` pays, it pays for each key in a batch,
    so a sample of events that thins out the keys would make it look slower than it is.
    """
    with teller.doing("transformWithState: warm-up"):
        run(min(keys, KEYS_WARM_UP))
    sample = min(keys, KEYS_FIRST)
    while True:
        with teller.doing(f"transformWithState: {sample:,} of {keys:,} keys"):
            took, rows = timed(partial(run, sample))
        if sample == keys or took >= seconds / 2:
            return Sample(sample, took, rows)
        sample = min(keys, int(sample * seconds / took))
