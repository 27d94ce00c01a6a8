"""Folders with foreseeable names are ours alone or refused, and nothing behind a link is read, written or deleted."""

from __future__ import annotations

import os
import stat

import pytest

from millpond.engine.local_state import openstate
from millpond.errors import StateError
from millpond.ids import PartitionId
from millpond.spark.placement import executor
from millpond.spark.streaming.workroot import WorkRoot
from millpond.state.local import ownfolders
from millpond.state.local.localstore import LocalStore
from millpond.state.local.ownfolders import make_private, own_folder
from millpond.storage.backends.log.log import LogStorage


def code_of(call, *arguments):
    with pytest.raises(StateError) as caught:
        call(*arguments)
    return caught.value.code


def mode_of(path):
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_new_folder_is_for_its_owner_alone_and_so_are_those_above_it(tmp_path):
    assert mode_of(own_folder(tmp_path / "root")) == 0o700
    make_private(tmp_path / "a" / "b" / "c")
    assert {mode_of(tmp_path / part) for part in ("a", "a/b", "a/b/c")} == {0o700}
    LocalStore(tmp_path / "local" / "uuid" / "00000").close()
    assert {mode_of(tmp_path / part) for part in ("local", "local/uuid", "local/uuid/00000")} == {0o700}


def test_a_folder_that_others_can_only_read_is_closed_to_them(tmp_path):
    (tmp_path / "root").mkdir(mode=0o755)
    assert mode_of(own_folder(tmp_path / "root")) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path, mode):
    (tmp_path / "root").mkdir()
    (tmp_path / "root").chmod(mode)
    assert code_of(own_folder, tmp_path / "root") == "MP226"


def test_a_folder_of_somebody_else_is_refused(tmp_path, monkeypatch):
    (tmp_path / "root").mkdir(mode=0o700)
    monkeypatch.setattr(ownfolders.os, "getuid", lambda: os.geteuid() + 1)
    assert code_of(own_folder, tmp_path / "root") == "MP226"


@pytest.mark.parametrize("target", ["folder", "nothing", "file"])
def test_a_link_in_the_place_of_the_root_is_refused(tmp_path, target):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "dear").write_text("x")
    (tmp_path / "file").write_text("x")
    (tmp_path / "root").symlink_to(tmp_path / target)
    assert code_of(own_folder, tmp_path / "root") == "MP226"
    assert (tmp_path / "folder" / "dear").exists()
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("level", ["uuid", "uuid/00000"])
def test_a_link_in_the_place_of_a_store_or_of_all_stores_of_a_checkpoint_is_refused(tmp_path, level):
    victim = tmp_path / "victim"
    (victim / "00000").mkdir(parents=True)
    (victim / "00000" / "dear").write_text("x")
    place = tmp_path / "local" / level
    place.parent.mkdir(parents=True)
    place.symlink_to(victim if level == "uuid" else victim / "00000")
    assert code_of(LocalStore, tmp_path / "local" / "uuid" / "00000") == "MP226"
    assert [path.name for path in (victim / "00000").iterdir()] == ["dear"]


def test_stores_behind_a_link_are_not_deleted(tmp_path):
    victim = tmp_path / "victim"
    (victim / "00007").mkdir(parents=True)
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "uuid").symlink_to(victim)

    class Stands:
        uuid, epoch, hash = "uuid", openstate.OLD_EPOCHS_MAX - 1, "h"

    layout = openstate.Layout(8, 1, 1, aligned=False)
    assert openstate.drop_gone(str(tmp_path / "local"), Stands(), layout) == []
    assert openstate.drop_old_copies(str(tmp_path / "local"), Stands()) == []
    assert (victim / "00007").exists()
    assert openstate.store_path(str(tmp_path / "local"), "uuid", PartitionId(7)).exists()


@pytest.mark.parametrize("forged", ["link", "open"])
def test_a_register_of_executors_that_others_could_write_is_not_believed(tmp_path, monkeypatch, forged):
    monkeypatch.setattr(executor.tempfile, "gettempdir", lambda: str(tmp_path))
    victim = tmp_path / "victim" / executor.STORES
    victim.mkdir(parents=True)
    register = executor.register_folder()
    if forged == "link":
        (tmp_path / "elsewhere").mkdir()
        register.symlink_to(tmp_path / "elsewhere")
    else:
        register.mkdir()
        register.chmod(0o777)
    (register / "1-0").symlink_to(victim)
    assert executor.sweep_register() == []
    assert victim.exists()


def test_sparks_own_checkpoint_lies_beside_the_local_root_and_never_in_it(tmp_path):
    log = LogStorage(tmp_path / "log")
    local = tmp_path / "local"
    work = WorkRoot.of(log, None, str(local), "uuid", one_host=True)
    assert not work.spark_folder().is_relative_to(local)
    assert work.spark_folder().is_relative_to(tmp_path)


def test_sparks_checkpoint_of_an_earlier_version_is_brought_out_of_the_local_root(tmp_path):
    old = tmp_path / "local" / "work" / "uuid" / "spark" / "offsets"
    old.mkdir(parents=True)
    (old / "0").write_text("v1")
    for _ in range(2):
        work = WorkRoot.of(LogStorage(tmp_path / "log"), None, str(tmp_path / "local"), "uuid", one_host=True)
        assert work.has_spark_checkpoint()
        assert (work.spark_folder() / "offsets" / "0").read_text() == "v1"
    assert not old.exists()
