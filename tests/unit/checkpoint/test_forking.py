"""Forks against a dict for each epoch: they begin where their base was, go their own way, and hold what they need."""

from __future__ import annotations

import contextlib
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millpond.checkpoint import forking
from millpond.checkpoint.commit import commit
from millpond.checkpoint.forking import forget_fork, fork, point_of
from millpond.checkpoint.read.history import History, kept_epochs
from millpond.checkpoint.read.verify import verify
from millpond.checkpoint.records.manifest import GENESIS_NAME
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.repairing import repair
from millpond.checkpoint.retention.collection import collect_all
from millpond.checkpoint.retention.retention import Keep
from millpond.checkpoint.retention.savepoints import add_savepoint, find_savepoint, remove_savepoint, savepoints
from millpond.checkpoint.snapshots import snapshots
from millpond.clock import ManualClock
from millpond.errors import EpochError, MillpondError, StorageError
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.composed.layered import BASE_NAME, LayeredStorage, TrialStorage
from millpond.storage.contract import bottom
from millpond.storage.open import open_storage
from tests.sizes import some_of
from tests.unit.checkpoint.keeping import Died, Driver, Watched, after, check_kept, stored

KEEP = Keep(last=2, grace="0 s")


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
    monkeypatch.setattr(commit, "DELTAS_KEPT", 1)


def rows(count, begin=0):
    return [{"c": str(number), "a": "x" if number % 2 else None} for number in range(begin, begin + count)]


def run(url, count, models, keep=KEEP, begin=0):
    driver = Driver(open_storage(str(url)), keep, ManualClock())
    for row in rows(count, begin):
        epoch = driver.checkpoint.epoch
        models[epoch + 1] = after(models[epoch], row)
        driver.epoch(row)
    return driver


@pytest.mark.parametrize("copy", [False, True])
def test_a_fork_begins_where_its_base_was_and_goes_its_own_way(tmp_path, copy):
    models = {0: {}}
    run(tmp_path / "base", 5, models, Keep.all())
    made = fork(tmp_path / "base", tmp_path / "new", 4, copy=copy)
    assert (made.epoch, made.copied) == (4, copy)
    theirs = {4: models[4]}
    driver = run(tmp_path / "new", 6, theirs, Keep.all(), begin=100)
    run(tmp_path / "base", 6, models, Keep.all(), begin=50)
    check_kept(open_storage(str(tmp_path / "new")), theirs)
    check_kept(open_storage(str(tmp_path / "base")), models)
    assert driver.checkpoint.genesis.uuid == made.uuid != History(FileStorage(tmp_path / "base")).genesis.uuid
    assert driver.checkpoint.epoch == 10
    assert verify(open_storage(str(tmp_path / "new")), everything=True).problems == []
    if copy:
        shutil.rmtree(tmp_path / "base")
        assert verify(open_storage(str(tmp_path / "new")), everything=True).problems == []
    else:
        assert len(FileStorage(tmp_path / "new").list("")) < 3 + 4 * 7


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_fork_of_the_first_epochs_stands_on_its_own_genesis(tmp_path, epoch):
    models = {0: {}}
    run(tmp_path / "base", 3, models, Keep.all())
    fork(tmp_path / "base", tmp_path / "new", epoch)
    theirs = {epoch: models[epoch]}
    run(tmp_path / "new", 3, theirs, Keep.all(), begin=7)
    new = open_storage(str(tmp_path / "new"))
    check_kept(new, theirs)
    assert verify(new, everything=True).problems == []


def test_a_fork_holds_what_it_needs_although_its_base_deletes(tmp_path):
    models = {0: {}}
    run(tmp_path / "base", 6, models)
    fork(tmp_path / "base", tmp_path / "new", 5)
    for round_ in range(12):
        run(tmp_path / "base", 4, models, begin=1000 * round_)
    kept = kept_epochs(FileStorage(tmp_path / "base"))[0]
    assert 5 in kept
    assert 6 not in kept
    new = open_storage(str(tmp_path / "new"))
    assert read_state(new) == stored(models[5])
    theirs = {5: models[5]}
    for round_ in range(8):
        run(tmp_path / "new", 4, theirs, begin=2000 * round_)
    check_kept(new, theirs)
    assert kept_epochs(new)[0][0] > 5, "it collects for itself"
    assert 5 in kept_epochs(FileStorage(tmp_path / "base"))[0]


def test_forks_of_forks_read_through_all_of_them(tmp_path):
    models = {0: {}}
    run(tmp_path / "0", 4, models)
    for depth in range(1, 5):
        fork(tmp_path / str(depth - 1), tmp_path / str(depth))
        theirs = {4 + depth - 1: models[4 + depth - 1]}
        run(tmp_path / str(depth), 1, theirs, begin=10 * depth)
        models.update(theirs)
    last = open_storage(str(tmp_path / "4"))
    assert read_state(last) == stored(models[8])
    for depth in range(4):
        run(tmp_path / str(depth), 20, {4 + depth: models[4 + depth]}, begin=300)
        collect_all(open_storage(str(tmp_path / str(depth))), KEEP, ManualClock())
    assert read_state(last) == stored(models[8])
    assert verify(last).problems == []


def test_a_savepoint_names_the_epoch_of_a_fork(tmp_path):
    models = {0: {}}
    run(tmp_path / "base", 5, models, Keep.all())
    add_savepoint(FileStorage(tmp_path / "base"), "before", 3)
    assert fork(tmp_path / "base", tmp_path / "new", "before").epoch == 3
    assert fork(tmp_path / "base", tmp_path / "other", "4").epoch == 4
    assert fork(tmp_path / "base", tmp_path / "newest").epoch == 5
    with pytest.raises(EpochError, match="MP425"):
        fork(tmp_path / "base", tmp_path / "none", "after")
    assert read_state(open_storage(str(tmp_path / "new"))) == stored(models[3])


def test_a_savepoint_of_another_timeline_is_refused(tmp_path):
    run(tmp_path / "base", 5, {0: {}}, Keep.all())
    storage = FileStorage(tmp_path / "base")
    add_savepoint(storage, "before", 5)
    assert repair(storage, to=4).healthy
    run(tmp_path / "base", 1, {4: {}}, Keep.all(), begin=77)
    with pytest.raises(EpochError, match="MP413"):
        point_of(History(storage), "before")


def test_the_savepoint_of_a_fork_goes_only_when_the_fork_is_gone(tmp_path):
    run(tmp_path / "base", 3, {0: {}}, Keep.all())
    made = fork(tmp_path / "base", tmp_path / "new")
    storage = FileStorage(tmp_path / "base")
    held = find_savepoint(storage, f"fork-{made.uuid}")
    assert held.fork == str(tmp_path / "new")
    with pytest.raises(MillpondError, match="MP248"):
        forget_fork(storage, held)
    shutil.rmtree(tmp_path / "new")
    forget_fork(storage, held)
    assert savepoints(storage) == ()


def test_an_unfit_place_or_epoch_is_refused(tmp_path):
    run(tmp_path / "base", 2, {0: {}}, Keep.all())
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note.txt").write_text("x")
    for bad in (tmp_path / "full", tmp_path / "base"):
        with pytest.raises(EpochError, match="MP423"):
            fork(tmp_path / "base", bad)
    with pytest.raises(EpochError, match="MP423") as caught:
        fork(tmp_path / "base", f"rocksdb://{tmp_path}/rocks")
    assert "--copy" in str(caught.value)
    with pytest.raises(EpochError, match="MP424"):
        fork(tmp_path / "base", tmp_path / "new", 0)
    with pytest.raises(EpochError, match="MP450"):
        fork(tmp_path / "base", tmp_path / "new", 9)
    with pytest.raises(StorageError, match="MP350"):
        fork(tmp_path / "nothing", tmp_path / "new")
    storage = FileStorage(tmp_path / "base")
    manifest = History(storage).point(2).manifest
    storage.delete(manifest.deltas[0].files[0].file.name)
    with pytest.raises(EpochError, match="MP424"):
        fork(tmp_path / "base", tmp_path / "new", 2)
    assert not (tmp_path / "new").exists()
    assert savepoints(storage) == ()


def test_the_first_batch_of_any_query_is_the_first_of_a_fork(tmp_path):
    models = {0: {}}
    driver = run(tmp_path / "base", 5, models, Keep.all())
    assert driver.checkpoint.head.stream.number == 4
    fork(tmp_path / "base", tmp_path / "new")
    driver = Driver(open_storage(str(tmp_path / "new")), Keep.all(), ManualClock())
    head = driver.checkpoint.head
    assert (head.epoch, head.stream, head.outputs) == (5, None, ())
    driver.epoch({"z": "new"})
    assert driver.checkpoint.head.stream.number == 0


@pytest.mark.parametrize("copy", [False, True])
def test_a_fork_that_died_on_the_way_is_no_checkpoint(tmp_path, monkeypatch, copy):
    """Whatever it left is refused, or is the whole fork; the base is as it was."""
    models = {0: {}}
    run(tmp_path / "base", 5, models, Keep.all())
    done = False
    death = 0
    while not done:
        left = [death]

        def before(call, name, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise Died

        place = tmp_path / f"new-{death}"
        monkeypatch.setattr(forking, "open_storage", lambda url, before=before: Watched(open_storage(url), before))
        done = True
        with contextlib.suppress(Died):
            fork(tmp_path / "base", place, 4, copy=copy)
            death = 10**6
        done = death == 10**6
        monkeypatch.undo()
        monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
        there = open_storage(str(place))
        if there.contains(GENESIS_NAME):
            assert read_state(there) == stored(models[4])
        elif there.list("manifests"):
            with pytest.raises(EpochError, match="MP414"):
                History(there)
        check_kept(FileStorage(tmp_path / "base"), models)
        if not done:
            with contextlib.suppress(EpochError):
                fork(tmp_path / "base", place, 4, copy=copy)
        death += 1
    for held in savepoints(FileStorage(tmp_path / "base")):
        with contextlib.suppress(MillpondError):
            forget_fork(FileStorage(tmp_path / "base"), held)
    assert len(savepoints(FileStorage(tmp_path / "base"))) <= (0 if copy else 2 + 4)


@pytest.mark.slow
@settings(
    max_examples=some_of(20),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.tuples(st.sampled_from(["run", "fork", "collect"]), st.integers(0, 10), st.integers(1, 9)), max_size=12)
)
def test_any_forks_and_collections_leave_every_kept_epoch_readable(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("forks")
    models = [{0: {}}]
    run(folder / "0", 3, models[0])
    for what, number, count in steps:
        which = number % len(models)
        place = folder / str(which)
        if what == "run":
            run(place, count, models[which], begin=count)
        elif what == "collect":
            collect_all(open_storage(str(place)), KEEP, ManualClock())
        else:
            made = fork(place, folder / str(len(models)), copy=count == 9)
            models.append({made.epoch: models[which][made.epoch]})
        for at, model in enumerate(models):
            check_kept(open_storage(str(folder / str(at))), model)


def test_a_base_that_is_gone_is_named(tmp_path):
    run(tmp_path / "base", 3, {0: {}}, Keep.all())
    fork(tmp_path / "base", tmp_path / "new")
    shutil.rmtree(tmp_path / "base")
    with pytest.raises(StorageError, match="MP304") as caught:
        read_state(open_storage(str(tmp_path / "new")))
    assert str(tmp_path / "base") in str(caught.value)


def test_a_chain_of_bases_that_comes_back_is_refused(tmp_path):
    run(tmp_path / "base", 3, {0: {}}, Keep.all())
    fork(tmp_path / "base", tmp_path / "new")
    data = FileStorage(tmp_path / "new").get(BASE_NAME).replace(b"/base", b"/base")
    shutil.rmtree(tmp_path / "base")
    fresh = FileStorage(tmp_path / "base")
    fresh.put(BASE_NAME, data)
    with pytest.raises(StorageError, match="MP312"):
        read_state(open_storage(str(tmp_path / "new")))


def test_only_content_is_read_from_the_base():
    base, own = MemoryStorage(), MemoryStorage()
    content, part = "deltas/" + "a" * 40, f"inputs/{'b' * 40}-00003"
    names = (content, part, "manifests/0000000001", f"heads/0000000001-{'c' * 40}", "genesis", "savepoints/x")
    for name in names:
        base.put(name, b"1")
    layered = LayeredStorage(own, None, lambda _: base)
    layered._behind = base
    assert [name for name in names if layered.contains(name)] == [content, part]
    assert layered.get(content) == layered.get(part) == b"1"
    with pytest.raises(StorageError, match="MP304"):
        layered.get("manifests/0000000001")
    assert layered.list("") == []
    layered.delete(content)
    assert base.contains(content)
    layered.put(content, b"own")
    assert layered.get(content) == b"own"
    assert bottom(layered) is bottom(own) is own


def test_a_trial_changes_nothing_below():
    below = MemoryStorage()
    below.put("a/1", b"1")
    trial = TrialStorage(below)
    trial.delete("a/1")
    trial.put("a/2", b"2")
    assert trial.list("a") == trial.list("") == ["a/2"]
    with pytest.raises(StorageError, match="MP304"):
        trial.get("a/1")
    assert trial.get("a/2") == b"2"
    assert below.list("") == ["a/1"]
    trial.put("a/1", b"again")
    assert trial.get("a/1") == b"again"
    assert trial.url == below.url


def test_removing_a_savepoint_of_ours_does_not_ask_for_forks(tmp_path):
    run(tmp_path / "base", 3, {0: {}}, Keep.all())
    storage = FileStorage(tmp_path / "base")
    add_savepoint(storage, "mine")
    remove_savepoint(storage, "mine")
    assert savepoints(storage) == ()


def test_a_copy_takes_no_damage_along(tmp_path):
    folder = tmp_path / "base"
    driver = Driver(open_storage(str(folder)), Keep.all(), ManualClock())
    for number in range(3):
        driver.epoch({"a": str(number)})
    name = History(FileStorage(folder)).point(2).files()[0].file.name
    (folder / name).write_bytes((folder / name).read_bytes()[:-1])
    with pytest.raises(StorageError, match="MP310"):
        fork(folder, tmp_path / "copy", copy=True)
    # Which files were copied before the damaged one depends on their names.
    with pytest.raises(MillpondError, match=r"MP350|MP414"):
        History(FileStorage(tmp_path / "copy"))
