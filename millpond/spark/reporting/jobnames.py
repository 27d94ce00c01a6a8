"""What Spark's own UI calls the jobs of an epoch: "Recommender, epoch 12, step 0".

Names are for people alone: a session that has no way to take them runs without. Through Spark Connect they are tags.
Only here the SparkContext of a classic session is touched, through its public methods; the group of a job that is
already in one stays, since Spark cancels the jobs of a query by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.sql import SparkSession

from millpond.checkpoint.read.plain import printable
from millpond.spark.streaming.connect import over_connect

DESCRIPTION = "spark.job.description"
GROUP = "spark.jobGroup.id"


def epoch_name(title: str, epoch: int, steps: int) -> str:
    """Return how the job of an epoch is called: all its steps are one job."""
    return f"{printable(title)}, epoch {epoch}, {'step 0' if steps == 1 else f'steps 0 to {steps - 1}'}"


@contextmanager
def named(spark: SparkSession, name: str) -> Iterator[None]:
    """Call the jobs that this thread starts by a name, and afterwards as before."""
    taken = _tag(spark, name) if over_connect(spark) else _describe(spark, name)
    try:
        yield
    finally:
        taken()


def _tag(spark: SparkSession, name: str) -> Any:
    tag = name.replace(",", "")
    with suppress(Exception):
        spark.addTag(tag)

    def untag() -> None:
        with suppress(Exception):
            spark.removeTag(tag)

    return untag


def _describe(spark: SparkSession, name: str) -> Any:
    context: Any = None
    before: dict[str, str | None] = {}
    with suppress(Exception):
        context = spark.sparkContext
        before = {key: context.getLocalProperty(key) for key in (DESCRIPTION, GROUP)}
        context.setLocalProperty(DESCRIPTION, name)
        if before[GROUP] is None:
            context.setLocalProperty(GROUP, f"millpond {name.partition(',')[0]}")

    def restore() -> None:
        with suppress(Exception):
            for key, value in before.items():
                context.setLocalProperty(key, value)

    return restore
