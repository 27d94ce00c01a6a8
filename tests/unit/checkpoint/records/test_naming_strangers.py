"""Files that no Millpond put into a checkpoint: never deleted, never in the way, and told of by `verify`."""

from __future__ import annotations

import os

import pytest

from millpond.checkpoint.commit import commit
from millpond.checkpoint.read.history import History, kept_epochs
from millpond.checkpoint.read.verify import verify
from millpond.checkpoint.records.naming import given_in, strange_in
from millpond.checkpoint.repairing import repair
from millpond.checkpoint.retention.collection import Collector, collect_all
from millpond.checkpoint.retention.deletionlist import DeletionList, put_list
from millpond.checkpoint.retention.retention import Keep
from millpond.checkpoint.snapshots import snapshots
from millpond.clock import ManualClock
from millpond.errors import MillpondError
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.composed.layered import TrialStorage
from tests.sizes import sized
from tests.unit.checkpoint.keeping import GRACE_MS, Driver, after, check_kept

KEEP = Keep(last=2, grace="0 s")
FOLDERS = ("deltas", "snapshots", "pending", "inputs", "saves", "merged", "condemned", "swept", "retired", "savepoints")
ODD = ("a b", os.fsdecode(b"\xff"), "zz~", "\u0663", "\n", "0" * 250)
PLAIN = ("notes.txt", "0" * 39, "0" * 41, "A" * 40, "sub/" + "0" * 40)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
    monkeypatch.setattr(commit, "DELTAS_KEPT", 1)


def rows(count):
    return [{"c": str(number % 7), "a": "x" if number % 2 else None} for number in range(count)]


def run(storage, count, keep=KEEP, models=None):
    models = {0: {}} if models is None else models
    driver = Driver(storage, keep, ManualClock())
    for row in rows(count):
        driver.clock.advance(GRACE_MS)
        epoch = driver.checkpoint.epoch
        models[epoch + 1] = after(models[epoch], row)
        driver.epoch(row)
    return models


def put_strangers(root):
    """Strange files in every folder of a checkpoint; where they are."""
    put = []
    for folder in FOLDERS:
        for name in (*ODD, *(PLAIN if folder != "savepoints" else ())):
            path = root / folder / name
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_bytes(b"mine")
            put.append(path)
    return put


def test_a_job_runs_on_beside_strange_files_and_deletes_none_of_them(tmp_path):
    models = run(FileStorage(tmp_path / "c"), 4)
    put = put_strangers(tmp_path / "c")
    run(FileStorage(tmp_path / "c"), 40, models=models)
    storage = FileStorage(tmp_path / "c")
    assert kept_epochs(storage)[0][0] > 20
    check_kept(storage, models)
    assert [path.read_bytes() for path in put] == [b"mine"] * len(put)


def test_the_collection_of_a_checkpoint_without_a_job_leaves_strange_files_alone(tmp_path):
    models = run(FileStorage(tmp_path / "c"), 20, Keep.all())
    put = put_strangers(tmp_path / "c")
    storage = FileStorage(tmp_path / "c")
    trial = TrialStorage(storage)
    collect_all(trial, KEEP, ManualClock())
    assert collect_all(storage, KEEP, ManualClock()).manifests > 10
    check_kept(storage, models)
    assert [path.read_bytes() for path in put] == [b"mine"] * len(put)


def test_verify_lists_strange_files_and_calls_nothing_damaged(tmp_path):
    run(FileStorage(tmp_path / "c"), 5, Keep.all())
    storage = FileStorage(tmp_path / "c")
    assert verify(storage, everything=True).strange == []
    put = put_strangers(tmp_path / "c")
    findings = verify(storage, everything=True)
    assert findings.problems == []
    assert sorted(findings.strange) == sorted(path.relative_to(tmp_path / "c").as_posix() for path in put)
    assert not set(findings.unnamed) & set(findings.strange)
    assert verify(storage).strange is None


def test_every_name_that_a_checkpoint_gives_is_known(tmp_path):
    storage = MemoryStorage()
    run(storage, 40, Keep(last=3, every=5, grace="0 s"))
    assert strange_in(storage) == []
    folders = {name.partition("/")[0] for name in storage.list("") if "/" in name}
    assert folders >= {"deltas", "snapshots", "merged", "condemned", "retired", "manifests"}
    for folder in folders:
        assert given_in(storage, folder) == storage.list(folder)


def test_an_old_list_that_names_strange_files_is_done_with(tmp_path):
    storage = FileStorage(tmp_path / "c")
    models = run(storage, 4)
    (tmp_path / "c" / "deltas" / "a b").write_bytes(b"mine")
    put_list(storage, DeletionList(0, ("deltas/a b", "deltas/" + "0" * 40)))
    run(FileStorage(tmp_path / "c"), 20, models=models)
    assert (tmp_path / "c" / "deltas" / "a b").read_bytes() == b"mine"


def make_link(path):
    path.symlink_to(path.parent / "elsewhere")


SPECIAL = [os.mkfifo, make_link]


@pytest.mark.parametrize("make", SPECIAL)
@pytest.mark.parametrize("name", sized(["pipe", "a b"], ["a b"]))
@pytest.mark.parametrize("folder", FOLDERS[:-1])
def test_special_files_beside_others_are_in_nobodys_way(tmp_path, make, folder, name):
    models = run(FileStorage(tmp_path / "c"), 4)
    (tmp_path / "c" / folder).mkdir(exist_ok=True)
    make(tmp_path / "c" / folder / name)
    run(FileStorage(tmp_path / "c"), 20, models=models)
    findings = verify(FileStorage(tmp_path / "c"), everything=True)
    assert findings.problems == []
    assert findings.strange == [f"{folder}/{name}"]
    assert os.path.lexists(tmp_path / "c" / folder / name)


@pytest.mark.parametrize("make", SPECIAL)
def test_a_special_file_among_manifests_is_told_by_its_name(tmp_path, make):
    run(FileStorage(tmp_path / "c"), 5, Keep.all())
    make(tmp_path / "c" / "manifests" / "pipe")
    storage = FileStorage(tmp_path / "c")
    for findings in (verify(storage), verify(storage, everything=True)):
        assert [(each.file, each.error.code) for each in findings.problems] == [("manifests/pipe", "MP306")]
    with pytest.raises(MillpondError, match="MP413"):
        run(storage, 1)
    done = repair(storage)
    assert not done.healthy
    assert done.in_the_way == ["manifests/pipe"]
    done = repair(storage, 5)
    assert done.healthy
    assert done.in_the_way == []
    assert verify(storage, everything=True).problems == []
    assert Driver(FileStorage(tmp_path / "c"), KEEP, ManualClock()).checkpoint.epoch == 5


@pytest.mark.parametrize("make", SPECIAL)
def test_a_special_file_in_the_place_of_a_manifest_is_gone_past(tmp_path, make):
    models = run(FileStorage(tmp_path / "c"), 5, Keep.all())
    newest = tmp_path / "c" / "manifests" / "0000000005"
    newest.unlink()
    make(newest)
    storage = FileStorage(tmp_path / "c")
    findings = verify(storage)
    assert [(each.file, each.error.code) for each in findings.problems] == [("manifests/0000000005", "MP306")]
    with pytest.raises(MillpondError, match="MP306"):
        run(storage, 1)
    assert repair(TrialStorage(storage), 4).healthy
    assert os.path.lexists(newest)
    done = repair(storage, 4)
    assert (done.healthy, done.went_back) == (True, [5])
    assert Driver(FileStorage(tmp_path / "c"), KEEP, ManualClock()).checkpoint.epoch == 4
    check_kept(storage, models)


def test_a_strange_file_among_manifests_is_set_aside_by_who_goes_back(tmp_path):
    run(FileStorage(tmp_path / "c"), 5, Keep.all())
    storage = FileStorage(tmp_path / "c")
    (tmp_path / "c" / "manifests" / "0000000005.bak").write_bytes(b"mine")
    assert not repair(storage).healthy
    assert repair(storage, 5).healthy
    (kept,) = (tmp_path / "c" / "aside").iterdir()
    assert kept.read_bytes() == b"mine"
    (tmp_path / "c" / "manifests" / "a b").write_bytes(b"mine")
    done = repair(storage, 5)
    assert done.in_the_way == ["manifests/a b"], "no storage can name it: somebody has to take it away by hand"
    assert not done.healthy
    assert History(storage).strays == ("manifests/a b",)


def test_a_folder_of_manifests_that_is_a_link_is_told_by_its_name(tmp_path):
    run(FileStorage(tmp_path / "c"), 5, Keep.all())
    (tmp_path / "c" / "manifests").rename(tmp_path / "elsewhere")
    (tmp_path / "c" / "manifests").symlink_to(tmp_path / "elsewhere")
    findings = verify(FileStorage(tmp_path / "c"))
    assert [(each.file, each.error.code) for each in findings.problems] == [("manifests", "MP306")]


def test_a_collector_without_epochs_has_nothing_to_do():
    storage, clock = MemoryStorage(), ManualClock()
    assert collect_all(storage, KEEP, clock).files == 0
    collector = Collector(storage, KEEP, clock)
    collector.refresh()
    assert collector.condemned == frozenset()
