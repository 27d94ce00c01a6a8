"""Where a fork may be, and what a fork that failed leaves: nothing of one checkpoint lies inside another one."""

from __future__ import annotations

import contextlib
import shutil

import pytest

from millpond.checkpoint import forking
from millpond.checkpoint.forking import fork, overlap, places_of
from millpond.checkpoint.read.history import History
from millpond.checkpoint.records.manifest import GENESIS_NAME
from millpond.checkpoint.retention.retention import Keep
from millpond.checkpoint.retention.savepoints import savepoints
from millpond.clock import ManualClock
from millpond.errors import MillpondError, StorageError
from millpond.storage.backends.files import FileStorage
from millpond.storage.composed.layered import BASE_NAME
from millpond.storage.open import open_storage
from tests.unit.checkpoint.keeping import Died, Driver, Watched


@pytest.fixture
def base(tmp_path):
    driver = Driver(open_storage(str(tmp_path / "base")), Keep.all(), ManualClock())
    for number in range(3):
        driver.epoch({"a": str(number)})
    return tmp_path / "base"


def files_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and ".staging" not in path.parts}


def code_of(call, *arguments, **options):
    with pytest.raises(MillpondError) as caught:
        call(*arguments, **options)
    return caught.value.code


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("scheme", ["", "log://", "perkey://", "file://"])
@pytest.mark.parametrize("inside", ["snapshots", "new", "a/b/c", "deltas/../x", "../other/../base/y"])
def test_a_fork_inside_its_source_is_refused(base, scheme, inside, copy):
    before = files_in(base)
    assert code_of(fork, base, f"{scheme}{base}/{inside}", copy=copy) == "MP423"
    assert files_in(base) == before


@pytest.mark.parametrize("scheme", ["", "log://", "perkey://"])
def test_a_source_inside_its_fork_is_refused(base, tmp_path, scheme):
    before = files_in(tmp_path)
    assert code_of(fork, base, f"{scheme}{tmp_path}") == "MP423"
    assert files_in(tmp_path) == before


def test_links_that_lead_into_the_source_are_refused(base, tmp_path):
    (tmp_path / "link").symlink_to(base)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "link").symlink_to(base / "deltas")
    for target in (tmp_path / "link" / "snapshots", tmp_path / "deep" / "link" / "x"):
        assert code_of(fork, base, target) == "MP423"
    assert code_of(fork, tmp_path / "link", base / "snapshots") == "MP423"
    (tmp_path / "dangling").symlink_to(base / "snapshots")
    assert code_of(fork, base, tmp_path / "dangling") == "MP423"


def test_a_fork_inside_the_base_of_its_source_is_refused(base, tmp_path):
    fork(base, tmp_path / "new")
    assert code_of(fork, tmp_path / "new", base / "snapshots") == "MP423"
    assert code_of(fork, tmp_path / "new", base / "snapshots", copy=True) == "MP423"


def test_a_fork_inside_a_root_of_a_spread_source_is_refused(tmp_path):
    url = f"spread://{tmp_path}/one|{tmp_path}/two"
    Driver(open_storage(url), Keep.all(), ManualClock()).epoch({"a": "1"})
    assert code_of(fork, url, tmp_path / "two" / "new") == "MP423"
    assert code_of(fork, url, f"spread://{tmp_path}/three|{tmp_path}/one/x", copy=True) == "MP423"


@pytest.mark.parametrize("name", ["base2", "bas", "base-new/x"])
def test_a_name_that_only_begins_alike_is_fine(base, tmp_path, name):
    fork(base, tmp_path / name)
    assert History(open_storage(str(tmp_path / name))).epochs == (3,)


def test_folders_of_object_stores_are_compared_too():
    source = places_of("s3://bucket/recs?region=x")
    assert overlap(source, places_of("s3://bucket/recs/snapshots?region=x"))
    assert overlap(places_of("s3://bucket/recs/a?region=x"), source)
    assert not overlap(source, places_of("s3://bucket/recs2?region=x"))
    assert not overlap(source, places_of("s3://other/recs/snapshots?region=x"))
    assert not overlap(places_of("redis://host/0/a"), places_of("redis://host/0/a/b"))


def test_a_fork_that_can_not_be_written_takes_its_savepoint_back(base, tmp_path):
    (tmp_path / "file").write_text("no folder")
    for target in (tmp_path / "file" / "new", "/proc/x"):
        assert code_of(fork, base, target) in {"MP309", "MP306"}
    assert savepoints(FileStorage(base)) == ()


class FailingAt:
    """Makes the put of one name in the target fail, before or after it is done."""

    def __init__(self, monkeypatch, base, name, when, error):
        def watching(url):
            storage = open_storage(url)
            return storage if url == str(base) else Watched(storage, self._before)

        self._at = (when, name)
        self._error = error
        monkeypatch.setattr(forking, "open_storage", watching)

    def _before(self, call, name):
        if call == self._at[0] and name.startswith(self._at[1]):
            raise self._error


@pytest.mark.parametrize("error", [StorageError("MP309", "the disk"), Died()])
@pytest.mark.parametrize("when", ["put", "did put"])
@pytest.mark.parametrize("name", [BASE_NAME, "manifests/", GENESIS_NAME])
def test_a_fork_that_fails_is_held_if_it_is_there_and_only_then(base, tmp_path, monkeypatch, name, when, error):
    FailingAt(monkeypatch, base, name, when, error)
    with contextlib.suppress(StorageError, Died):
        fork(base, tmp_path / "new")
    made = (tmp_path / "new" / GENESIS_NAME).exists()
    assert made is ((name, when) == (GENESIS_NAME, "did put"))
    held = [savepoint.name for savepoint in savepoints(FileStorage(base))]
    if made:
        assert held == [f"fork-{History(open_storage(str(tmp_path / 'new'))).genesis.uuid}"]
    else:
        assert held == []


def test_a_fork_whose_place_was_taken_meanwhile_takes_its_savepoint_back(base, tmp_path, monkeypatch):
    other = tmp_path / "other"
    Driver(open_storage(str(other)), Keep.all(), ManualClock())

    def take(call, name):
        if (call, name) == ("put", GENESIS_NAME):
            shutil.copy(other / GENESIS_NAME, tmp_path / "new" / GENESIS_NAME)

    def watching(url):
        storage = open_storage(url)
        return storage if url == str(base) else Watched(storage, take)

    monkeypatch.setattr(forking, "open_storage", watching)
    assert code_of(fork, base, tmp_path / "new") == "MP423"
    assert savepoints(FileStorage(base)) == ()


@pytest.mark.parametrize("epoch", ["9" * 5000, "9" * 11, "\u0663", 10**5000, -1], ids=range(5))
def test_numbers_that_no_epoch_has_are_not_kept(base, tmp_path, epoch):
    assert code_of(fork, base, tmp_path / "new", epoch) in {"MP450", "MP425"}


def test_a_number_may_have_zeros_before_it(base, tmp_path):
    assert fork(base, tmp_path / "new", "0" * 5000 + "2").epoch == 2
