"""Replies that wait in the checkpoint's storage: handed over at least once and whole, wherever the process dies."""

from __future__ import annotations

import pyarrow as pa
import pytest

from millpond import Durability
from millpond.checkpoint.commit.checkpoint import Checkpoint, EpochWork
from millpond.checkpoint.records.offers import Batch
from millpond.engine.plan import SinkPlan
from millpond.engine.publish.publish import Publisher
from millpond.engine.publish.replies import IN_CHECKPOINT, KEPT, stage, staging_mark
from millpond.engine.publish.staging import CheckpointArea
from millpond.errors import FeedError, StorageError
from millpond.sinks.console import console
from millpond.sinks.functions import foreach_epoch
from millpond.sinks.memory import memory
from millpond.spark.streaming.workroot import WorkRoot
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.log.log import LogStorage
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.backends.perkey import PerKeyStorage
from tests.unit.engine.publish.test_publish import replies_of


class DyingError(BaseException):
    """The process dies here."""


class Mortal(MemoryStorage):
    """A storage at whose nth put or delete the process dies."""

    left = None

    def _live(self):
        if self.left is not None:
            if self.left == 0:
                raise DyingError
            self.left -= 1

    def put(self, name, data):
        self._live()
        return super().put(name, data)

    def delete(self, name):
        self._live()
        super().delete(name)


class Stage:
    """A checkpoint with an epoch of three files, and a publisher that can be made anew."""

    def __init__(self, scratch):
        self.storage = Mortal()
        self.scratch = scratch
        self.plan = SinkPlan("replies", IN_CHECKPOINT)
        self.checkpoint = Checkpoint.open(self.storage, ())
        self.handed = []
        self.epoch(1)

    def epoch(self, number):
        mark = staging_mark(number, self.checkpoint.genesis.uuid)
        tables = [pa.table({"reply": [n, n + 10]}) for n in range(3)]
        outputs = tuple(stage(self.plan, t, f"{mark}-00-{part:05}", self.storage) for part, t in enumerate(tables))
        work = EpochWork((), outputs, {})
        self.checkpoint.run_epoch(Batch("q", number - 1), lambda _: work, lambda _: None, partitions=1)
        self.outputs = outputs

    def publish(self, sink=None):
        sink = sink or foreach_epoch(lambda rows, epoch: self.handed.append((epoch, rows)))
        kept = CheckpointArea(self.storage, self.scratch)
        sinks = {"replies": (sink, self.plan)}
        publisher = Publisher(self.checkpoint.genesis, sinks, kept, replies_of)
        publisher.recover(self.checkpoint.head)
        publisher.publish(self.checkpoint.head)

    def waiting(self):
        return self.storage.list(KEPT)


ROWS = [0, 10, 1, 11, 2, 12]


@pytest.fixture
def work(tmp_path):
    return Stage(tmp_path / "scratch")


def test_an_epoch_is_handed_over_once_and_nothing_waits_any_more(work):
    assert len(work.waiting()) == 3
    work.publish()
    work.publish()
    assert work.handed == [(1, ROWS)]
    assert work.waiting() == []
    assert list(work.scratch.iterdir()) == []


def test_memory_and_console_get_all_rows(work, capsys):
    sink = memory()
    work.publish(sink)
    assert [row["reply"] for row in sink.rows()] == ROWS
    other = Stage(work.scratch)
    other.publish(console(5))
    assert "epoch 1:" in capsys.readouterr().out


def test_wherever_the_process_dies_the_epoch_is_handed_over_whole(tmp_path):
    for steps in range(20):
        work = Stage(tmp_path / str(steps))
        work.storage.left = steps
        died = False
        try:
            work.publish()
        except DyingError:
            died = True
        work.storage.left = None
        work.publish()
        assert set(map(str, work.handed)) == {str((1, ROWS))}, steps
        # Again only if it died before the note.
        assert len(work.handed) == (2 if died and steps == 0 else 1)
        assert work.waiting() == []
    assert not died


def test_what_a_deletion_brings_back_after_a_power_cut_is_not_handed_over_again(work):
    data = {name: work.storage.get(name) for name in work.waiting()}
    work.publish()
    work.storage._files.update(data)
    work.publish()
    assert work.handed == [(1, ROWS)]
    assert work.waiting() == []


def test_a_lost_file_of_an_epoch_that_was_not_handed_over_is_an_error(work):
    work.storage.delete(work.waiting()[1])
    with pytest.raises(StorageError) as caught:
        work.publish()
    assert caught.value.code == "MP304"
    assert work.handed == []


def test_a_damaged_file_is_an_error(work):
    name = work.waiting()[1]
    data = work.storage.get(name)
    work.storage._files[name] = data[:-3] + b"xyz"
    with pytest.raises(StorageError) as caught:
        work.publish()
    assert caught.value.code == "MP310"
    assert work.handed == []


def test_a_scratch_folder_that_can_t_be_written_is_an_error(work):
    work.scratch.mkdir(parents=True)
    kept = CheckpointArea(work.storage, work.scratch)
    with pytest.raises(StorageError) as caught:
        kept._fetched(work.outputs[0], work.scratch / "nowhere")
    assert caught.value.code == "MP356"


def test_what_earlier_tries_and_epochs_left_is_swept_and_others_files_are_not(work):
    mark = staging_mark(1, work.checkpoint.genesis.uuid)
    stage(work.plan, pa.table({"reply": [7]}), f"{mark}-00-00009", work.storage)
    foreign = stage(work.plan, pa.table({"reply": [9]}), f"{staging_mark(1, 'ffffffff-0')}-00-00000", work.storage)
    work.publish()
    assert work.waiting() == [f"{KEPT}/{foreign.file.name}"]
    assert len(work.storage.list("outputs/_handed")) == 1
    work.epoch(2)
    work.publish()
    notes = work.storage.list("outputs/_handed")
    assert [note.split("/")[2][:10] for note in notes] == ["0000000002"]
    assert work.handed == [(1, ROWS), (2, ROWS)]


def test_a_folder_has_room_for_everything_and_others_have_a_work_folder(tmp_path):
    folder = WorkRoot.of(FileStorage(tmp_path / "ck"), None, str(tmp_path / "local"), "u", one_host=False)
    assert folder.spark_folder() == tmp_path / "ck" / "spark"
    assert folder.outputs == tmp_path / "ck" / "outputs"
    beside = WorkRoot.of(LogStorage(tmp_path / "log"), None, str(tmp_path / "local"), "u", one_host=True)
    assert beside.spark_folder() == tmp_path / "local-work" / "u" / "spark"
    assert str(beside.outputs) == IN_CHECKPOINT
    given = WorkRoot.of(PerKeyStorage(tmp_path / "pk"), f"file://{tmp_path}/w", "local", "u", one_host=False)
    assert given.spark_folder() == tmp_path / "w" / "spark"
    assert str(given.outputs) == IN_CHECKPOINT
    assert given.shares_files


def test_a_stream_on_a_cluster_needs_a_place_that_is_shared(tmp_path):
    nowhere = WorkRoot.of(LogStorage(tmp_path / "log"), None, str(tmp_path / "local"), "u", one_host=False)
    assert not nowhere.shares_files
    assert not nowhere.has_spark_checkpoint()
    with pytest.raises(FeedError) as caught:
        nowhere.spark_folder()
    assert caught.value.code == "MP521"
    assert f"log://{tmp_path}/log" in str(caught.value)


@pytest.mark.parametrize("work", ["", "s3://bucket/x", "redis://:secret@host/0/x", "nul\0"])
def test_a_work_root_that_is_no_folder_is_refused_without_its_password(tmp_path, work):
    with pytest.raises(FeedError) as caught:
        WorkRoot.of(FileStorage(tmp_path), work, "local", "u", one_host=True)
    assert caught.value.code == "MP522"
    assert "secret" not in str(caught.value)


def test_restore_is_one_of_two_words():
    assert Durability().restore == "on_demand"
    with pytest.raises(FeedError) as caught:
        Durability(restore="later")
    assert caught.value.code == "MP523"
