"""A folder is opened by the kind of storage that made it, and by no other: a wrong scheme is no empty checkpoint."""

from __future__ import annotations

import itertools
import os

import pytest

from millpond.checkpoint.retention.retention import Keep
from millpond.clock import ManualClock
from millpond.errors import StorageError
from millpond.storage.backends.files import FileStorage
from millpond.storage.open import open_storage
from tests.unit.checkpoint.keeping import Driver

KINDS = ("", "log://", "perkey://", "rocksdb://")


def filled(url, epochs=3):
    driver = Driver(open_storage(url), Keep.all(), ManualClock())
    for number in range(epochs):
        driver.epoch({"a": str(number)})
    close(driver.storage)


def close(storage):
    if hasattr(storage, "close"):
        storage.close()


def files_in(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(url):
    with pytest.raises(StorageError) as caught:
        open_storage(url)
    return caught.value


@pytest.mark.parametrize(("made", "opened"), list(itertools.permutations(KINDS, 2)))
def test_a_folder_of_another_kind_is_refused_and_not_touched(tmp_path, made, opened):
    filled(f"{made}{tmp_path}/x")
    before = files_in(tmp_path)
    error = refused(f"{opened}{tmp_path}/x")
    assert error.code == "MP358"
    assert (made or str(tmp_path)) in error.hint
    assert files_in(tmp_path) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_is_opened_again_by_its_own_kind(tmp_path, kind):
    filled(f"{kind}{tmp_path}/x")
    again = Driver(open_storage(f"{kind}{tmp_path}/x"), Keep.all(), ManualClock())
    assert again.checkpoint.epoch == 3
    close(again.storage)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_holds_something_else_is_no_checkpoint_of_another_kind(tmp_path, kind):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "notes.txt").write_text("mine")
    (tmp_path / "x" / "lock").write_text("")
    (tmp_path / "x" / "spark").mkdir()
    storage = open_storage(f"{kind}{tmp_path}/x")
    assert storage.list("manifests") == []
    close(storage)
    assert (tmp_path / "x" / "notes.txt").read_text() == "mine"


def test_a_checkpoint_of_which_the_manifests_are_lost_is_still_known(tmp_path):
    filled(f"{tmp_path}/x")
    for file in (tmp_path / "x" / "manifests").iterdir():
        file.unlink()
    (tmp_path / "x" / "manifests").rmdir()
    assert refused(f"perkey://{tmp_path}/x").code == "MP358"


def test_a_folder_with_two_layouts_is_refused_by_both(tmp_path):
    filled(f"{tmp_path}/x")
    (tmp_path / "x" / "manifests=2F0000000001").write_bytes(b"from a wrong address, before it was refused")
    assert refused(f"{tmp_path}/x").code == "MP358"
    assert refused(f"perkey://{tmp_path}/x").code == "MP358"


def test_staged_files_of_another_kind_stay(tmp_path):
    filled(f"perkey://{tmp_path}/x")
    staged = tmp_path / "x" / ".staging" / "old"
    staged.write_bytes(b"")
    os.utime(staged, (0, 0))
    assert refused(f"{tmp_path}/x").code == "MP358"
    assert staged.exists()


def test_a_root_of_a_spread_storage_is_no_checkpoint_of_its_own(tmp_path):
    url = f"spread://{tmp_path}/one|{tmp_path}/two"
    filled(url, 20)
    assert any(FileStorage(tmp_path / "two").list("deltas"))
    error = refused(str(tmp_path / "two"))
    assert error.code == "MP358"
    assert "spread" in error.found
    assert Driver(open_storage(url), Keep.all(), ManualClock()).checkpoint.epoch == 20


def test_the_roots_of_a_spread_storage_are_looked_at_too(tmp_path):
    filled(f"{tmp_path}/one")
    assert refused(f"spread://log://{tmp_path}/one|{tmp_path}/two").code == "MP358"


@pytest.mark.parametrize("digits", [20, 5000])
def test_a_database_of_redis_with_very_many_digits_is_no_address(digits):
    assert refused(f"redis://host/{'9' * digits}/recs").code == "MP311"
