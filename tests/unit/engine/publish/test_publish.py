from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millpond.checkpoint.commit.checkpoint import Checkpoint, EpochWork
from millpond.checkpoint.records.offers import Batch
from millpond.engine.plan import SinkPlan
from millpond.engine.publish.publish import Publisher
from millpond.engine.publish.replies import STAGING, stage, staging_mark
from millpond.errors import StorageError
from millpond.sinks.console import console
from millpond.sinks.functions import foreach_epoch
from millpond.sinks.memory import memory
from millpond.sinks.parquet import parquet
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.door import Door, through


class DyingError(BaseException):
    """The process dies here."""


class MortalDoor(Door):
    """A disk at which the process dies before the nth unlink, or before the first sync of a folder."""

    def __init__(self, unlinks=None, syncs=None):
        self.unlinks = unlinks
        self.syncs = syncs

    def unlink(self, path):
        if self.unlinks == 0:
            raise DyingError
        self.unlinks = self.unlinks and self.unlinks - 1
        super().unlink(path)

    def sync_folder(self, path):
        if self.syncs == 0:
            raise DyingError
        super().sync_folder(path)


class Stage:
    """An epoch with three staged files, and a publisher of them that can be made anew after each death."""

    def __init__(self, root: Path, *, visible: bool = True):
        self.root = root
        self.plan = SinkPlan("replies", str(root), visible=visible)
        tables = [pa.table({"reply": [n, n + 10]}) for n in range(3)]
        checkpoint = Checkpoint.open(MemoryStorage(), ())
        self.mark = staging_mark(1, checkpoint.genesis.uuid)
        self.outputs = tuple(stage(self.plan, table, f"{self.mark}-00-{part:05}") for part, table in enumerate(tables))
        work = EpochWork((), self.outputs, {})
        checkpoint.run_epoch(Batch("q", 0), lambda parent: work, lambda manifest: None, partitions=1)
        self.genesis = checkpoint.genesis
        self.manifest = checkpoint.head

    def publish(self, sink, door=None):
        self.publish_to({"replies": (sink, self.plan)}, door)

    def publish_to(self, sinks, door=None, manifest=None):
        with through(door or Door()):
            publisher = Publisher(self.genesis, sinks, frames=replies_of)
            publisher.recover(manifest or self.manifest)
            publisher.publish(manifest or self.manifest)

    def staged(self):
        return sorted(path.name for path in (self.root / STAGING).iterdir())

    def published(self):
        return sorted(path.name for path in self.root.glob("*.parquet"))

    def names(self):
        return sorted(output.file.name for output in self.outputs)


def replies_of(files):
    return [row["reply"] for path in files for row in pq.read_table(path).to_pylist()]


REPLIES = [0, 10, 1, 11, 2, 12]


@pytest.fixture
def staged(tmp_path):
    return Stage(tmp_path / "sink")


@pytest.fixture
def handed(tmp_path):
    return Stage(tmp_path / "sink", visible=False)


@pytest.fixture
def sink(tmp_path):
    return parquet(tmp_path / "sink")


def test_published_files_are_visible_and_no_longer_staged(staged, sink):
    staged.publish(sink)
    assert staged.published() == staged.names()
    assert staged.staged() == []
    assert sorted(pq.read_table(staged.root)["reply"].to_pylist()) == sorted(REPLIES)


def test_publishing_twice_changes_nothing(staged, sink):
    staged.publish(sink)
    before = {name: (staged.root / name).stat().st_mtime_ns for name in staged.published()}
    staged.publish(sink)
    assert {name: (staged.root / name).stat().st_mtime_ns for name in staged.published()} == before


@pytest.mark.parametrize("door", [MortalDoor(syncs=0), MortalDoor(unlinks=0), MortalDoor(unlinks=2)])
def test_a_publication_that_died_is_completed(staged, sink, door):
    with pytest.raises(DyingError):
        staged.publish(sink, door)
    staged.publish(sink)
    assert staged.published() == staged.names()
    assert staged.staged() == []


def test_a_half_published_epoch_is_completed(staged, sink):
    first = staged.names()[0]
    (staged.root / STAGING / first).rename(staged.root / first)
    staged.publish(sink)
    assert staged.published() == staged.names()


def test_nothing_staged_is_forgotten_before_all_names_are_durable(staged, sink):
    with pytest.raises(DyingError):
        staged.publish(sink, MortalDoor(syncs=0))
    assert staged.staged() == staged.names()


def test_a_committed_file_that_is_nowhere_is_an_error_that_names_it(staged, sink):
    lost = staged.names()[1]
    (staged.root / STAGING / lost).unlink()
    with pytest.raises(StorageError) as caught:
        staged.publish(sink)
    assert caught.value.code == "MP320"
    assert lost in caught.value.summary


def test_memory_holds_an_epoch_once_however_often_it_is_published(handed):
    sink = memory()
    with pytest.raises(DyingError):
        handed.publish(sink, MortalDoor(unlinks=0))
    handed.publish(sink)
    handed.publish(sink)
    assert [row["reply"] for row in sink.rows()] == REPLIES


def test_the_console_shows_an_epoch_once_although_it_was_not_cleaned_up(handed, capsys):
    sink = console(limit=3)
    with pytest.raises(DyingError):
        handed.publish(sink, MortalDoor(unlinks=0))
    handed.publish(sink)
    handed.publish(sink)
    shown = capsys.readouterr().out
    assert shown.count("epoch 1:") == 1
    assert [f" {reply} " in shown for reply in (0, 10, 1, 11)] == [True, True, True, False], "it shows three"


def test_the_console_shows_an_epoch_again_if_the_process_died_before_it_was_noted(handed, monkeypatch, capsys):
    def dying(*_):
        raise DyingError

    monkeypatch.setattr(FileStorage, "put", dying)
    with pytest.raises(DyingError):
        handed.publish(console(limit=3))
    monkeypatch.undo()
    handed.publish(console(limit=3))
    assert capsys.readouterr().out.count("epoch 1:") == 2


@pytest.mark.parametrize("unlinks", [0, 1, 2])
def test_a_function_is_given_the_whole_epoch_or_nothing_wherever_the_process_died(handed, unlinks):
    given = []
    sink = foreach_epoch(lambda rows, epoch: given.append((epoch, rows)))
    with pytest.raises(DyingError):
        handed.publish(sink, MortalDoor(unlinks=unlinks))
    handed.publish(sink)
    handed.publish(sink)
    assert given == [(1, REPLIES)]
    assert handed.staged() == []


def test_a_function_that_fails_is_given_the_epoch_again(handed):
    given = []

    def flaky(rows, epoch):
        given.append(rows)
        if len(given) == 1:
            raise DyingError

    sink = foreach_epoch(flaky)
    with pytest.raises(DyingError):
        handed.publish(sink)
    handed.publish(sink)
    assert given == [REPLIES, REPLIES]


def test_a_part_of_an_epoch_that_was_lost_is_not_handed_over_as_the_whole(handed):
    (handed.root / STAGING / handed.names()[1]).unlink()
    with pytest.raises(StorageError) as caught:
        handed.publish(memory())
    assert caught.value.code == "MP320"


def test_a_damaged_file_is_an_error_that_names_it(handed):
    damaged = handed.root / STAGING / handed.names()[1]
    damaged.write_bytes(b"PAR1 garbage PAR1")
    with pytest.raises(StorageError) as caught:
        handed.publish(memory())
    assert caught.value.code == "MP321"
    assert damaged.name in caught.value.summary


def test_files_of_a_sink_that_is_gone_stay_staged(handed):
    handed.publish_to({})
    assert handed.staged() == handed.names()


def test_what_a_try_on_other_partitions_left_is_swept_but_not_the_files_of_another_job(tmp_path):
    work = Stage(tmp_path)
    left = stage(work.plan, pa.table({"reply": [7]}), f"{work.mark}-00-00009")
    later = stage(work.plan, pa.table({"reply": [8]}), f"{staging_mark(2, work.manifest.checkpoint)}-00-00000")
    foreign = stage(work.plan, pa.table({"reply": [9]}), f"{staging_mark(1, 'ffffffff-0000')}-00-00000")
    work.publish(parquet(tmp_path))
    assert work.staged() == sorted([later.file.name, foreign.file.name])
    assert left.file.name not in work.published()


def test_files_that_their_readers_moved_away_after_publication_are_not_missed(staged, sink):
    staged.publish(sink)
    for name in staged.published():
        (staged.root / name).unlink()
    staged.publish(sink)
    assert staged.published() == []


def test_an_epoch_is_published_where_it_said_also_if_the_feed_has_another_sink_by_now(staged, tmp_path):
    staged.publish_to({"replies": (memory(), SinkPlan("replies", str(tmp_path / "other")))})
    assert staged.published() == staged.names()


@pytest.mark.parametrize("visible", [True, False])
def test_two_sinks_of_one_folder_get_their_rows_also_if_these_are_equal(tmp_path, visible):
    plans = [SinkPlan(name, str(tmp_path), visible=visible) for name in ("left.late", "right.late")]
    checkpoint = Checkpoint.open(MemoryStorage(), ())
    place = f"{staging_mark(1, checkpoint.genesis.uuid)}-00-00000"
    outputs = tuple(stage(plan, pa.table({"n": [7]}), place) for plan in plans)
    sinks = [parquet(tmp_path) if visible else memory() for _ in plans]
    targets = {plan.name: (sink, plan) for plan, sink in zip(plans, sinks, strict=True)}
    checkpoint.run_epoch(
        Batch("q", 0),
        lambda parent: EpochWork((), outputs, {}),
        Publisher(checkpoint.genesis, targets).publish,
        partitions=1,
    )
    told = (
        [sink.rows() for sink in sinks]
        if not visible
        else [pq.read_table(f).to_pylist() for f in tmp_path.glob("*.parquet")]
    )
    assert told == [[{"n": 7}], [{"n": 7}]]
