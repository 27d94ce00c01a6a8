"""One contestant of `sliding` in a process of its own, so that its memory is nobody else's.

Started as `python -m benchmarks.sliding_child TASK`, with a task as JSON; the last line it prints is what it found.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import millpond
from benchmarks.memory import TreeMemory, tree_mb
from benchmarks.report import timed
from benchmarks.spark import session
from millpond.windowing import sliding, sum_of

MILLPOND, SPARK = "millpond", "spark"


@dataclass(frozen=True, slots=True)
class Task:
    """Who runs, over which files, with which ranges (in slides of a second), how often, and where results go.

    Only what is computed with the first range is kept, to be checked.
    """

    who: str
    events: str
    warm_up: str
    ranges_s: tuple[int, ...]
    repeat: int
    cores: int
    heap_mb: int
    result: str
    out: str

    def arguments(self) -> list[str]:
        """How a process is told of it."""
        return ["-m", "benchmarks.sliding_child", json.dumps(asdict(self))]


@dataclass(frozen=True, slots=True)
class Found:
    """Seconds of each turn by range, and memory: of the idle session, and the most while something ran."""

    seconds: dict[str, list[float]]
    idle_mb: float
    peak_mb: float


def by_millpond(frame: DataFrame, range_s: int) -> DataFrame:
    """The contestant."""
    window = sliding(f"{range_s} s", "1 s")
    return millpond.windows(frame, key="key", time="time").aggregate(window, total=sum_of("amount"))


def by_spark(frame: DataFrame, range_s: int) -> DataFrame:
    """The peer."""
    window = F.window("time", f"{range_s} seconds", "1 second")
    sums = frame.groupBy("key", window.alias("span")).agg(F.sum("amount").alias("total"))
    return sums.select("key", F.col("span.start").alias("window_begin"), F.col("span.end").alias("window_end"), "total")


CONTESTANTS: dict[str, Callable[[DataFrame, int], DataFrame]] = {MILLPOND: by_millpond, SPARK: by_spark}


def perform(task: Task, spark: SparkSession) -> Found:
    """Warm up, measure every range, and keep the first one's result."""
    aggregate = CONTESTANTS[task.who]
    _to_nowhere(aggregate(spark.read.parquet(task.warm_up), task.ranges_s[0]))
    idle_mb = tree_mb()
    memory = TreeMemory()
    seconds: dict[str, list[float]] = {}
    for range_s in task.ranges_s:
        for _ in range(task.repeat):
            with memory.watching():
                took, _ = timed(partial(_once, task, spark, range_s))
            seconds.setdefault(str(range_s), []).append(took)
    aggregate(spark.read.parquet(task.events), task.ranges_s[0]).write.parquet(task.result)
    return Found(seconds, idle_mb, memory.peak_mb)


def _once(task: Task, spark: SparkSession, range_s: int) -> None:
    _to_nowhere(CONTESTANTS[task.who](spark.read.parquet(task.events), range_s))


def _to_nowhere(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def main(argv: Sequence[str]) -> int:
    """Perform the task."""
    told = json.loads(argv[0])
    task = Task(**{**told, "ranges_s": tuple(told["ranges_s"])})
    conf = {"spark.driver.memory": f"{task.heap_mb}m"}
    with session(f"sliding-{task.who}", task.cores, Path(task.out), conf=conf) as spark:
        found = perform(task, spark)
    print(json.dumps(asdict(found)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
