from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millpond.checkpoint.read.plain import printable
from millpond.engine.publish.staging import FolderArea
from millpond.errors import FeedError, MillpondError, RowError, StorageError
from millpond.sinks import Sink, SinkDescription, Staged, StagedFile, Token
from millpond.sinks.console import ConsoleSink, console
from millpond.sinks.functions import EpochSink, foreach_epoch
from millpond.sinks.memory import memory
from millpond.sinks.parquet import parquet
from tests.unit.engine.publish.test_publish import REPLIES, Stage

AWAY = ValueError("the database is away")
CHECKPOINT = "0b9f4e0e-5c56-4d0b-8a0e-0c8f7f6f2a11"


def token(epoch, sink="add.replies"):
    return Token(CHECKPOINT, (), sink, epoch)


@pytest.fixture
def staged(tmp_path):
    def make(*numbers):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.parquet"
        pq.write_table(pa.table({"n": numbers}), path)
        return Staged((StagedFile(token(1).of_file(path.name), path, len(numbers)),))

    return make


def test_a_parquet_sink_is_an_absolute_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parquet("replies").path == str(tmp_path / "replies")
    assert parquet(tmp_path / "x").path == str(tmp_path / "x")
    assert parquet(f"file://{tmp_path}/x").path == str(tmp_path / "x")
    assert parquet(f"file:{tmp_path}/x").path == str(tmp_path / "x")


@pytest.mark.parametrize("path", ["hdfs://host/x", "", "file:"])
def test_a_place_that_is_no_folder_is_refused(path):
    with pytest.raises(FeedError, match="MP502"):
        parquet(path)


def test_an_address_of_an_object_store_that_is_none_is_refused_without_its_password():
    with pytest.raises(StorageError, match="MP311") as caught:
        parquet("s3://me:hunter2@bucket/x")
    assert "hunter2" not in str(caught.value)


def test_memory_holds_epochs_in_their_order_and_each_once(staged):
    sink = memory()
    sink.publish(token(2), staged(2))
    sink.publish(token(1), staged(1))
    sink.publish(token(2), staged(3))
    assert sink.rows() == [{"n": 1}, {"n": 3}]
    assert memory().rows() == []


def test_two_feeds_into_one_memory_do_not_replace_each_other(staged):
    sink = memory()
    sink.publish(token(1, "left.replies"), staged(1))
    sink.publish(token(1, "right.replies"), staged(2))
    assert sink.rows() == [{"n": 1}, {"n": 2}]


def test_sinks_that_hold_rows_show_them(staged, tmp_path):
    sink, schema = memory(), pa.schema([("n", pa.int32())])
    sink.publish(token(1), staged(1, 2))
    assert sink.held(schema) == pa.table({"n": [1, 2]}, schema=schema)
    assert parquet(tmp_path).held(schema) == tmp_path
    assert console().held(schema) is None


@pytest.mark.parametrize("value", ["[/b]", "[red]", "Counter[str]", "\x1b[2J", "a\nb", "\udcff"])
def test_the_console_shows_any_text_as_it_is(tmp_path, capsys, value):
    kept = value.encode("utf-8", "replace").decode()
    pq.write_table(pa.table({"[/x] reply": [kept]}), tmp_path / "x.parquet")
    console().publish(token(3, "asked"), Staged((StagedFile(token(3), tmp_path / "x.parquet", 1),)))
    told = capsys.readouterr().out
    assert "[/x] reply" in told
    assert "\x1b" not in told
    assert printable(kept) in told


def test_other_sinks_are_descriptions():
    def take(frame, epoch):
        pass

    assert console() == ConsoleSink(20)
    assert foreach_epoch(take) == EpochSink(take)


def test_there_is_no_dataframe_without_spark(staged):
    with pytest.raises(FeedError, match="MP531"):
        foreach_epoch(print).publish(token(1), staged(1))


class Failing(Sink):
    """A sink of a user that fails in one of its methods."""

    def __init__(self, failing=(), error=AWAY):
        self.failing, self.error, self.given = failing, error, []

    def describe(self):
        return SinkDescription("the warehouse")

    def publish(self, token, staged):
        if "publish" in self.failing:
            raise self.error
        self.given += staged.table()["reply"].to_pylist()

    def recover(self, token, files):
        if "recover" in self.failing:
            raise self.error
        return ()


@pytest.mark.parametrize("where", ["publish", "recover"])
def test_what_a_sink_raises_is_told_with_its_place_and_the_epoch_is_tried_again(tmp_path, where):
    work = Stage(tmp_path / "outputs", visible=False)
    for _ in range(2):
        with pytest.raises(RowError) as caught:
            work.publish(Failing([where]))
        assert caught.value.code == "MP605"
        assert "the warehouse raised ValueError on epoch 1" in str(caught.value)
        assert "the database is away" in str(caught.value)
        assert work.staged() == work.names()
    sink = Failing()
    work.publish(sink)
    work.publish(sink)
    assert sink.given == REPLIES


def test_an_error_with_a_code_is_told_as_it_is(tmp_path):
    error = MillpondError("MP309", "the disk is away")
    with pytest.raises(MillpondError) as caught:
        Stage(tmp_path / "outputs", visible=False).publish(Failing(["publish"], error))
    assert caught.value is error


def test_an_epoch_for_memory_goes_to_the_folder_that_the_feed_has_by_now(tmp_path):
    work, out = Stage(tmp_path / "outputs", visible=False), tmp_path / "out"
    for _ in range(2):
        work.publish(parquet(out))
    assert sorted(path.name for path in out.glob("*.parquet")) == work.names()
    assert sorted(pq.read_table(out)["reply"].to_pylist()) == sorted(REPLIES)
    assert work.staged() == []


def test_files_of_an_epoch_that_another_driver_publishes_meanwhile_are_not_missed(tmp_path, monkeypatch):
    work, looked = Stage(tmp_path / "sink"), FolderArea.is_published

    def overtaken(area, note, outputs):
        """Between the look at the note and the look at the files, another driver does all of it."""
        found = looked(area, note, outputs)
        monkeypatch.undo()
        work.publish(parquet(work.root))
        return found

    monkeypatch.setattr(FolderArea, "is_published", overtaken)
    work.publish(parquet(work.root))
    assert work.published() == work.names()
    assert work.staged() == []
