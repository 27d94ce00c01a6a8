"""A fork of a stream's checkpoint: another program with another query goes on from it, and the base is not touched."""

from __future__ import annotations

import shutil

import millpond
from millpond import Counter, Durability, Keep, Partitioned, Program, entry, memory, parquet
from millpond.checkpoint.recovery import read_state as stored_state
from millpond.spark.job import Job
from millpond.storage.backends.files import FileStorage


class Words(Program):
    counts = Partitioned(Counter[str])

    @entry
    def add(self, word: str) -> int:
        self.counts[word] += 1
        return self.counts[word]


class Doubled(Program):
    """The same state, other code."""

    counts = Partitioned(Counter[str])

    @entry
    def add(self, word: str) -> int:
        self.counts[word] += 2
        return self.counts[word]

    @entry
    def look(self, word: str) -> int:
        return self.counts[word]


def write(spark, folder, name, words):
    frame = spark.createDataFrame([(word,) for word in words], "word string").coalesce(1)
    frame.write.mode("append").parquet(str(folder / name))


def stream(spark, folder, name):
    return spark.readStream.schema("word string").parquet(str(folder / name))


def test_changed_code_and_another_query_go_on_from_a_fork(spark, tmp_path):
    write(spark, tmp_path, "in", ["a", "b", "a"])
    job = Job(
        Words,
        spark,
        checkpoint=tmp_path / "base",
        partitions=2,
        durability=Durability(keep=Keep(last=5)),
        progress=False,
    )
    job.feed("add", stream(spark, tmp_path, "in"), to=parquet(str(tmp_path / "out")))
    assert job.run().epoch == 1
    write(spark, tmp_path, "in", ["a"])
    job = Job(Words, spark, checkpoint=tmp_path / "base", partitions=2, progress=False)
    job.feed("add", stream(spark, tmp_path, "in"), to=parquet(str(tmp_path / "out")))
    assert job.run().epoch == 2
    before = stored_state(FileStorage(tmp_path / "base"))
    published = sorted(path.name for path in (tmp_path / "out").glob("*.parquet"))

    millpond.fork(tmp_path / "base", tmp_path / "new", epoch=1)
    write(spark, tmp_path, "more", ["a", "c"])
    sink = memory()
    forked = Job(Doubled, spark, checkpoint=tmp_path / "new", partitions=3, progress=False)
    forked.feed("add", stream(spark, tmp_path, "more"), to=sink)
    assert forked.run().epoch == 2
    assert sorted((row["word"], row["reply"]) for row in sink.rows()) == [("a", 4), ("c", 2)]

    # A second start with an empty local store restores through the base, in the workers.
    shutil.rmtree(forked._local_root, ignore_errors=True)
    write(spark, tmp_path, "more", ["b"])
    sink = memory()
    forked = Job(Doubled, spark, checkpoint=tmp_path / "new", partitions=2, progress=False)
    forked.feed("add", stream(spark, tmp_path, "more"), to=sink)
    assert forked.run().epoch == 3
    assert [(row["word"], row["reply"]) for row in sink.rows()] == [("b", 3)]
    frame = millpond.read_state(spark, str(tmp_path / "new"), "counts")
    assert {row["key"]: row["value"] for row in frame.collect()} == {"a": 4, "b": 3, "c": 2}

    assert stored_state(FileStorage(tmp_path / "base")) == before
    assert sorted(path.name for path in (tmp_path / "out").glob("*.parquet")) == published
