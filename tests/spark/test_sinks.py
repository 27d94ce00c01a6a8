"""Sinks: a reader sees whole committed epochs or nothing."""

from __future__ import annotations

import errno
import os

import pyarrow as pa
import pytest

from millpond import console, foreach_epoch, memory, parquet
from millpond.errors import EpochError, RowError, StorageError
from millpond.storage.backends.files import FileStorage
from millpond.storage.door import Door
from tests.programs.keyed import Totals
from tests.spark.feeding import stream_of, visible, write_part


def write_rows(folder, parts=3):
    for part in range(parts):
        write_part(folder, part, pa.table({"key": [part, 100], "amount": [1.0, float(part)]}))


@pytest.fixture
def job(spark, tmp_path):
    """A job over three epochs of two rows, with a sink of the test's choice."""
    write_rows(tmp_path / "in")

    def make(sink):
        made = Totals.on(spark, checkpoint=tmp_path / "ck", partitions=2, local_root=tmp_path / "local")
        return made.feed("add", stream_of(spark, tmp_path / "in"), to=sink, keep=["key"])

    return make


def test_parquet_shows_only_committed_epochs(spark, tmp_path, job, monkeypatch):
    out = tmp_path / "out"
    put = FileStorage.put
    seen_before_commit = []

    def put_watched(self, name, data):
        if name.startswith("manifests/"):
            seen_before_commit.append(spark.read.schema("key long").parquet(str(out)).count() if out.exists() else 0)
            assert len(list((out / "_staged").iterdir())) > 0
            if name.endswith("3"):
                raise StorageError("MP309", "can't write")
        return put(self, name, data)

    monkeypatch.setattr(FileStorage, "put", put_watched)
    with pytest.raises(StorageError) as caught:
        job(parquet(out)).run()
    assert caught.value.code == "MP309"
    assert seen_before_commit == [0, 2, 4]
    assert len(visible(out)) == 4
    monkeypatch.setattr(FileStorage, "put", put)
    job(parquet(out)).run()
    assert sorted(row["key"] for row in visible(out)) == [0, 1, 2, 100, 100, 100]
    assert list((out / "_staged").iterdir()) == []


def test_a_disk_error_while_publishing_is_coded_and_the_next_start_publishes(tmp_path, job, monkeypatch):
    out = tmp_path / "out"

    real = Door.link

    def link_if_there_is_room(door, source, target):
        if target.parent == out:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(door, source, target)

    monkeypatch.setattr(Door, "link", link_if_there_is_room)
    broken = job(parquet(out))
    with pytest.raises(StorageError) as caught:
        broken.run()
    assert caught.value.code == "MP307"
    assert visible(out) == []
    monkeypatch.undo()
    # The commit stands: a new start publishes it before anything else.
    job(parquet(out)).run()
    assert len(visible(out)) == 6


def test_a_committed_file_that_somebody_took_away_is_named(tmp_path, job, monkeypatch):
    out = tmp_path / "out"

    real = Door.link

    def link_what_is_lost(door, source, target):
        if target.parent == out:
            source.unlink()
        real(door, source, target)

    monkeypatch.setattr(Door, "link", link_what_is_lost)
    with pytest.raises(StorageError) as caught:
        job(parquet(out)).run()
    assert caught.value.code == "MP309"
    monkeypatch.undo()
    with pytest.raises(StorageError) as caught:
        job(parquet(out)).run()
    assert caught.value.code == "MP320"


def test_memory_holds_the_rows_of_all_epochs_in_order(job):
    sink = memory()
    job(sink).run()
    rows = [(row["key"], tuple(row["reply"].values())) for row in sink.rows()]
    assert sorted(rows[:2]) == [(0, (1, 1.0)), (100, (1, 0.0))]
    assert sorted(rows[4:]) == [(2, (1, 1.0)), (100, (3, 3.0))]


def test_the_console_shows_the_first_rows_of_each_epoch(job, capsys):
    job(console(limit=1)).run()
    shown = capsys.readouterr().out
    assert [f"epoch {epoch}: 2 rows" in shown for epoch in (1, 2, 3)] == [True] * 3


def test_a_function_gets_each_epoch_as_a_dataframe(job):
    seen = {}

    def take(frame, epoch):
        assert frame.columns == ["key", "reply"]
        seen[epoch] = sorted(row.key for row in frame.collect())

    job(foreach_epoch(take)).run()
    assert seen == {1: [0, 100], 2: [1, 100], 3: [2, 100]}


def test_a_function_that_fails_gets_its_epoch_again_and_no_other_twice(job):
    calls = []

    def take(frame, epoch):
        calls.append((epoch, frame.count()))
        if len(calls) == 2:
            raise ValueError("the database is away")

    with pytest.raises(RowError, match="the database is away") as caught:
        job(foreach_epoch(take)).run()
    assert caught.value.code == "MP605"
    job(foreach_epoch(take)).run()
    assert calls == [(1, 2), (2, 2), (2, 2), (3, 2)]


def test_an_epoch_that_loses_at_the_fence_leaves_nothing_to_see(spark, tmp_path, job):
    out = tmp_path / "out"
    old = job(parquet(out))
    job(memory()).run()
    write_part(tmp_path / "in", 3, pa.table({"key": [9], "amount": [1.0]}))
    with pytest.raises(EpochError) as caught:
        old.run()
    assert caught.value.code in {"MP403", "MP408"}
    assert visible(out) == []
