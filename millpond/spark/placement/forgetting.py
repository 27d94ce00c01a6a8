"""Tasks that are spread over all executors: they tell where they run, and remove there what a job has left."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from millpond.clock import SystemClock
from millpond.spark.placement.executor import ON_EXECUTOR, executor_name, forget

HOLD_S = 0.05
"""How long such a task holds its core, so that the next one goes to another."""

_CLOCK = SystemClock()


def spread_tasks(spark: SparkSession, tasks: int, forgotten: str = "") -> DataFrame:
    """Return a row of each task: the `place` it ran at, where the stores of a local root are `forgotten`."""
    frame = spark.range(0, tasks, 1, tasks)
    return frame.select(telling(HOLD_S, forgotten)(F.col("id")).alias("place"))


def forget_stores(spark: SparkSession, local_root: str, tasks: int) -> None:
    """Remove the stores of a job from all executors that so many tasks come to, if they lie there."""
    if tasks and local_root.startswith(ON_EXECUTOR):
        spread_tasks(spark, tasks, local_root).collect()


def telling(hold_s: float, forgotten: str = "") -> Callable[..., Column]:
    """Return a column that tells on which executor it was computed, where the stores of a root are `forgotten`."""

    def tell(_: int) -> str:
        forget(forgotten)
        _CLOCK.sleep(hold_s)
        return executor_name()

    column: Callable[..., Column] = F.udf(tell, "string", useArrow=False).asNondeterministic()
    return column
