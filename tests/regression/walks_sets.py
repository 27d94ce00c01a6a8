"""A job whose replies show in which order sets are walked, in a session of the user's own or of ours; a child runs it.

What it shows is hidden from the compiler, which would refuse it: the order of a set of the module, of one in state, of
one that came over a cut and of one that the row has made.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from millpond import Map, Partitioned, Program, entry, memory
from millpond.errors import MillpondError
from millpond.spark.session import local_session

FRUITS = {"apple", "banana", "cherry", "date", "elder", "fig"}
walk = functools.partial(str.join, " ")


class Hidden:
    """What it holds has no type that the compiler knows."""

    def __init__(self, held):
        self.held = held


class Walks(Program):
    tags = Partitioned(Map[str, frozenset[str]])
    seen = Partitioned(Map[int, int])

    @entry
    def add(self, name: str, tag: str) -> str:
        tags = self.tags.get(name, frozenset()) | {tag}
        self.tags[name] = tags
        own = {tag, name, "x", "y", "z"}
        size = len(tags)
        self.seen[size] = self.seen.get(size, 0) + 1
        return f"{walk(Hidden(FRUITS).held)} | {walk(Hidden(tags).held)} | {walk(Hidden(own).held)}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--session", choices=("own", "ours"), required=True)
    parser.add_argument("--conf", default="")
    given = parser.parse_args()
    if given.session == "ours":
        spark = local_session("walks", cores=1)
    else:
        builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        for pair in filter(None, given.conf.split(",")):
            builder = builder.config(*pair.split("="))
        spark = builder.getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        try:
            job = Walks.on(spark, checkpoint=Path(folder) / "checkpoint")
            rows = [(number, "ab"[number % 2], f"tag{number}") for number in range(12)]
            frame = spark.createDataFrame(rows, "number int, name string, tag string")
            replies = memory()
            job.feed("add", frame, order_by="number", to=replies)
            job.run()
            shown = [str(row) for row in sorted(replies.rows(), key=str)]
        except MillpondError as error:
            shown = [error.code, error.summary, f"found {error.found}", f"next {error.hint}"]
    sys.stdout.write("\n".join(shown))
    sys.stdout.flush()
    spark.stop()
    os._exit(0)


if __name__ == "__main__":
    main()
