"""The folder of an executor: its own, noted on its host, and removed once its process is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from millpond.spark.placement import executor
from millpond.spark.placement.executor import (
    STORES,
    executor_name,
    forget,
    is_own,
    local_folder,
    register_folder,
    root_on_executor,
    sweep_register,
)
from millpond.state.local.localstore import LocalStore
from millpond.state.local.storeversion import Stamp


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host of its own: temporary files, and a function that makes this process a worker of an executor there."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()

    def work_for(name):
        monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / name / 'blockmgr-1'},{tmp_path / name / 'blockmgr-2'}")

    return work_for


def test_a_path_is_taken_as_it_is(host):
    assert local_folder("/some/where") == "/some/where"
    assert not register_folder().exists()


def test_executors_jobs_and_checkpoints_have_folders_of_their_own(host):
    folders = set()
    for name in ("one", "two"):
        host(name)
        folders |= {local_folder(root_on_executor(url, token)) for url in ("a", "b") for token in ("x", "y")}
        assert executor_name().endswith("blockmgr-1")
    assert len(folders) == 8


def test_two_tasks_that_begin_at_once_leave_each_other_their_stores(host, monkeypatch):
    host("one")
    killed, root = root_on_executor("ck", "killed"), root_on_executor("ck", "new")
    left = Path(local_folder(killed)) / "uuid" / "00000"
    left.mkdir(parents=True)
    forget_earlier = executor._forget_earlier

    def neighbour_is_faster(folder):
        (folder / "uuid" / "00000").mkdir(parents=True)
        forget_earlier(folder)

    monkeypatch.setattr(executor, "_forget_earlier", neighbour_is_faster)
    assert (Path(local_folder(root)) / "uuid" / "00000").exists()
    assert not left.exists()


def test_an_ended_job_leaves_nothing_and_takes_nothing_of_others(host, tmp_path):
    host("one")
    ended, other = root_on_executor("ck", "x"), root_on_executor("other", "x")
    for root in (ended, other):
        (Path(local_folder(root)) / "store").mkdir(parents=True)
    forget(ended)
    assert not Path(local_folder(ended)).exists()
    assert (Path(local_folder(other)) / "store").exists()
    forget(str(tmp_path))
    assert tmp_path.exists()


def test_stores_that_a_killed_driver_left_go_when_its_checkpoint_is_worked_on_again(host):
    """Executors of a Connect server outlive their clients."""
    host("one")
    left, other = (Path(local_folder(root_on_executor(url, "x"))) / "store" for url in ("ck", "other"))
    for path in (left, other):
        LocalStore.at(path).rebuild(Stamp("u", 1, "h"), (), ((0, 3),))
    again = Path(local_folder(root_on_executor("ck", "y")))
    assert not left.parent.exists()
    assert [path for _, path in LocalStore._open if Path(path).is_relative_to(left.parent)] == [], "it takes disk"
    # What is there already was not left by somebody else.
    (again / "store").mkdir(parents=True)
    assert local_folder(root_on_executor("ck", "y")) == str(again)
    assert (again / "store").exists()
    assert other.exists()


def test_an_executor_lets_go_of_what_it_forgets(host):
    host("one")
    root = root_on_executor("ck", "x")
    store = Path(local_folder(root)) / "store"
    LocalStore.at(store)
    forget(root)
    assert not store.exists()
    assert [path for _, path in LocalStore._open if path == str(store)] == []


def note_dead(stores):
    """Note stores as those of a process that has lived and is gone."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = executor._identity(child.pid)
    child.communicate(b"\n")
    register_folder().mkdir(mode=0o700, exist_ok=True)
    (register_folder() / name).symlink_to(stores)
    return register_folder() / name


def test_stores_of_a_process_that_is_gone_are_removed_by_the_next_executor(host, tmp_path):
    left = tmp_path / "dead" / STORES
    left.mkdir(parents=True)
    note = note_dead(left)
    host("one")
    local_folder(root_on_executor("ck", "x"))
    assert not left.exists()
    assert not note.is_symlink()
    assert len(list(register_folder().iterdir())) == 1


def test_stores_of_a_living_process_stay(host, tmp_path):
    host("one")
    folder = Path(local_folder(root_on_executor("ck", "x")))
    folder.mkdir(parents=True)
    assert sweep_register() == []
    assert folder.exists()


def test_a_note_that_names_another_folder_removes_nothing(host, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    note = note_dead(precious)
    assert sweep_register() == []
    assert precious.exists()
    assert not note.is_symlink()


def test_only_folders_below_that_of_the_executor_are_its_own(host, tmp_path, monkeypatch):
    host("one")
    folder = local_folder(root_on_executor("ck", "x"))
    assert is_own(folder)
    assert not is_own(str(tmp_path))
    host("two")
    assert not is_own(folder)
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    assert not is_own(local_folder(root_on_executor("ck", "x")))
