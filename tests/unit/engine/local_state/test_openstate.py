from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from millpond.checkpoint.commit.checkpoint import Changed, Checkpoint, EpochWork
from millpond.checkpoint.records.manifest import ElementSchema
from millpond.checkpoint.records.offers import Batch
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.engine.local_state import openstate
from millpond.engine.local_state.openstate import default_local_root, drop_old_copies, open_state, store_path
from millpond.errors import StateError
from millpond.keygroups import Layout
from millpond.state.changes import Changes
from millpond.state.local.localstore import LocalStore
from millpond.state.local.storekey import group_of, store_key
from millpond.state.local.storeversion import Stamp, groups_in, ranges_of
from millpond.storage.backends.files import FileStorage

GROUPS = 8
ELEMENTS = (ElementSchema("seen", "counter", "partitioned", "", "str", "int"),)
LAYOUT = Layout(GROUPS, 3, 4, aligned=False)


def key_of(word: str) -> bytes:
    return store_key(0, ord(word[0]) % GROUPS, word.encode())


class Job:
    """A tiny job that counts words over a real checkpoint, its state opened as a task does."""

    def __init__(self, root, local, layout=LAYOUT):
        self.storage = FileStorage(root)
        self.local = str(local)
        self.layout = layout
        self.checkpoint = Checkpoint.open(self.storage, ELEMENTS, key_groups=GROUPS, instances=4)

    def run(self, words, query="q"):
        offer = Batch(query, self.batch(query))
        partitions = self.layout.partitions
        self.checkpoint.run_epoch(
            offer, lambda parent: self.compute(parent, words), lambda manifest: None, partitions=partitions
        )

    def batch(self, query):
        head = self.checkpoint.head
        return 0 if head is None else head.stream.number + 1

    def compute(self, parent, words):
        return EpochWork(tuple(self.part(parent, words, part) for part in range(self.layout.partitions)), (), {})

    def part(self, parent, words, partition):
        groups = self.layout.groups_of(partition)
        counts = Counter(key_of(word) for word in words if group_of(key_of(word)) in groups)
        with open_state(self.storage, self.local, parent, self.layout, partition) as view:
            state = dict(view.scan(b""))
        assert all(group_of(key) in groups for key in state)
        changed = {key: b"%d" % (int(state.get(key, b"0")) + count) for key, count in sorted(counts.items())}
        changed = {key: None if value == b"3" else value for key, value in changed.items()}
        return Changed(Changes(list(changed), list(changed.values())))

    def opened(self, parent=None, layout=None, local=None):
        """The whole state as the stores give it."""
        layout = layout or self.layout
        state = {}
        for partition in range(layout.partitions):
            with open_state(
                self.storage, local or self.local, parent or self.checkpoint.parent, layout, partition
            ) as view:
                found = dict(view.scan(b""))
            assert not state.keys() & found.keys()
            state |= found
        return state


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path / "checkpoint", tmp_path / "local")


@pytest.fixture
def steps(monkeypatch):
    """How stores were brought to where they were wanted."""
    taken = []
    advance, rebuild = LocalStore.advance, LocalStore.rebuild
    monkeypatch.setattr(LocalStore, "advance", lambda *args: (taken.append("advance"), advance(*args))[1])
    monkeypatch.setattr(LocalStore, "rebuild", lambda *args: (taken.append("rebuild"), rebuild(*args))[1])
    return taken


def test_the_state_before_the_first_epoch_is_empty(job):
    assert job.opened() == {}


def test_the_stores_hold_what_the_checkpoint_holds_after_each_epoch(job, monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
    for words in (["a", "b"], ["a", "c", "c"], ["a", "d"], ["b", "e"], ["a"], ["h", "i"]):
        job.run(words)
        assert job.opened() == read_state(job.storage)
    assert job.checkpoint.head.snapshot_epoch > 0
    assert key_of("a") in read_state(job.storage)


def test_a_store_that_stands_at_the_parent_is_used_as_it_is(job, steps):
    job.run(["a", "b"])
    job.opened()
    steps.clear()
    job.opened()
    assert steps == []


def test_a_store_one_epoch_behind_is_advanced(job, steps):
    job.run(["a"])
    job.opened()
    steps.clear()
    job.run(["b"])
    assert job.opened() == read_state(job.storage)
    assert set(steps) == {"advance"}


def test_a_store_several_epochs_behind_is_advanced_too(job, steps, tmp_path):
    job.run(["a"])
    behind = str(tmp_path / "behind")
    job.opened(local=behind)
    for words in (["b"], ["a", "c"], ["a"]):
        job.run(words)
    steps.clear()
    assert job.opened(local=behind) == read_state(job.storage)
    assert set(steps) == {"advance"}


def test_a_store_too_far_behind_is_rebuilt(job, steps, tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
    job.run(["a"])
    behind = str(tmp_path / "behind")
    job.opened(local=behind)
    for _ in range(14):
        job.run(["b", "c"])
    steps.clear()
    assert job.opened(local=behind) == read_state(job.storage)
    assert set(steps) == {"rebuild"}


def test_a_store_of_the_future_is_rebuilt_at_an_older_parent(job, steps):
    job.run(["a"])
    older, before = job.checkpoint.parent, read_state(job.storage)
    job.run(["b"])
    job.opened()
    steps.clear()
    assert job.opened(parent=older) == before
    assert set(steps) == {"rebuild"}


def test_a_store_of_another_timeline_with_the_same_numbers_is_rebuilt(job, steps):
    job.run(["a"])
    job.run(["b"])
    assert job.opened() == read_state(job.storage)
    parent = job.checkpoint.parent
    for partition in range(LAYOUT.partitions):
        store = LocalStore.at(store_path(job.local, parent.uuid, partition))
        store.rebuild(Stamp(parent.uuid, parent.epoch, "0" * 64), [Changes([key_of("z")], [b"foreign"])])
    steps.clear()
    assert job.opened() == read_state(job.storage)
    assert set(steps) == {"rebuild"}


def test_a_store_of_a_foreign_parent_is_not_advanced_onto_this_timeline(job, steps):
    job.run(["a"])
    job.run(["b"])
    parent = job.checkpoint.parent
    for partition in range(LAYOUT.partitions):
        store = LocalStore.at(store_path(job.local, parent.uuid, partition))
        store.rebuild(Stamp(parent.uuid, parent.epoch - 1, "0" * 64), [Changes([key_of("z")], [b"foreign"])])
    steps.clear()
    assert job.opened() == read_state(job.storage)
    assert "advance" not in steps


def test_another_checkpoint_in_the_same_local_root_has_its_own_stores(job, tmp_path):
    other = Job(tmp_path / "other", tmp_path / "local")
    job.run(["a"])
    other.run(["b"])
    assert job.opened() == {key_of("a"): b"1"}
    assert other.opened() == {key_of("b"): b"1"}


@pytest.mark.parametrize("partitions", [1, 2, 5, 8])
@pytest.mark.parametrize("aligned", [False, True])
def test_another_layout_opens_the_same_state(job, partitions, aligned):
    job.run(["a", "b", "c", "d", "e", "f", "g", "h"])
    job.run(["a", "e", "i"])
    before = job.opened()
    layout = Layout(GROUPS, partitions, 4, aligned=aligned)
    assert job.opened(layout=layout) == before == read_state(job.storage)
    assert job.opened() == before


def test_the_number_of_partitions_may_change_between_epochs(job):
    for partitions, words in ((3, ["a", "b"]), (8, ["a", "c"]), (1, ["a", "b"]), (3, ["d"])):
        job.layout = Layout(GROUPS, partitions, 4, aligned=False)
        job.run(words)
    assert read_state(job.storage) == {key_of("b"): b"2", key_of("c"): b"1", key_of("d"): b"1"}
    assert job.opened() == read_state(job.storage)


def test_a_store_that_another_process_advanced_is_used(job, tmp_path):
    job.run(["a"])
    job.opened()
    job.run(["b"])
    script = (
        "import sys\n"
        "from tests.unit.engine.local_state.test_openstate import Job\n"
        "print(sorted(Job(sys.argv[1], sys.argv[2]).opened().items()))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "checkpoint"), job.local],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == str(sorted(read_state(job.storage).items()))
    assert job.opened() == read_state(job.storage)


def test_a_store_that_is_taken_away_again_and_again_is_a_coded_error(job, monkeypatch):
    job.run(["a"])
    monkeypatch.setattr(openstate, "_restore", lambda *args: None)
    with pytest.raises(StateError) as caught:
        job.opened(local=job.local + "-new")
    assert caught.value.code == "MP222"


def test_the_default_root_differs_between_checkpoints_and_is_stable():
    assert default_local_root("/a", "/tmp") == default_local_root("/a", "/tmp")
    assert default_local_root("/a", "/tmp") != default_local_root("/b", "/tmp")


def brought(job, local=None):
    """What the stores remember to have lacked for the present parent, by partition."""
    found = []
    for partition in range(job.layout.partitions):
        with open_state(job.storage, local or job.local, job.checkpoint.parent, job.layout, partition) as view:
            note = view.restored
        lacked = note is not None and note.epoch == job.checkpoint.parent.epoch
        found.append((note.had_copy, note.seconds > 0) if lacked else None)
    return found


def test_a_store_remembers_whether_its_state_was_here_was_old_or_was_restored(job, tmp_path):
    job.run(["a", "b"])
    job.run(["b"])
    assert brought(job) == [None] * 3
    assert brought(job) == [None] * 3
    elsewhere = str(tmp_path / "elsewhere")
    assert brought(job, elsewhere) == [(False, True)] * 3
    assert brought(job, elsewhere) == [(False, True)] * 3, "a later step of the same epoch tells the same"
    job.run(["c"])
    assert brought(job, elsewhere) == [None] * 3, "one epoch behind is where every store is that was used last"
    job.run(["c"])
    job.run(["d"])
    assert brought(job, elsewhere) == [(True, True)] * 3
    assert brought(job) == [None] * 3


def test_copies_that_nobody_opened_for_long_are_dropped_and_come_back_when_they_are_wanted(job, monkeypatch):
    monkeypatch.setattr(openstate, "OLD_EPOCHS_MAX", 3)
    job.run(["a", "b", "c"])
    whole = job.opened()
    for _ in range(5):
        job.run(["b"])
    with open_state(job.storage, job.local, job.checkpoint.parent, job.layout, 0):
        pass
    assert drop_old_copies(job.local, job.checkpoint.parent) == []
    monkeypatch.setattr(job, "part", lambda parent, words, partition: Changed())
    for _ in range(6):
        job.run([])
    with open_state(job.storage, job.local, job.checkpoint.parent, job.layout, 0):
        pass
    paths = [store_path(job.local, job.checkpoint.parent.uuid, partition) for partition in range(3)]
    assert drop_old_copies(job.local, job.checkpoint.parent) == paths[1:]
    assert [path.exists() for path in paths] == [True, False, False]
    assert job.opened() == read_state(job.storage)
    assert job.opened().keys() >= whole.keys() - {key_of("b")}


def test_a_store_that_another_task_is_about_to_fill_is_not_dropped(job):
    job.run(["a"])
    new = LocalStore.at(store_path(job.local, job.checkpoint.parent.uuid, 7))
    assert drop_old_copies(job.local, job.checkpoint.parent) == []
    assert not new.is_gone()
    new.close()


def test_where_there_are_no_stores_nothing_is_dropped(job):
    assert drop_old_copies(job.local, job.checkpoint.parent) == []


@pytest.fixture
def brought_in(monkeypatch):
    """The key groups that stores were given from the checkpoint, by how."""
    taken = {"rebuilt": 0, "groups": set()}
    rebuild, take = LocalStore.rebuild, LocalStore.take

    def counted_take(store, stamp, groups, read, whole):
        def counting(ranges):
            taken["groups"] |= groups_in(ranges)
            return read(ranges)

        return take(store, stamp, groups, counting, whole)

    def counted_rebuild(*args):
        taken["rebuilt"] += 1
        return rebuild(*args)

    monkeypatch.setattr(LocalStore, "take", counted_take)
    monkeypatch.setattr(LocalStore, "rebuild", counted_rebuild)
    return taken


@pytest.mark.parametrize("behind", [0, 1, 3])
def test_only_groups_that_change_owner_are_restored(job, brought_in, behind):
    job.run(["a", "b", "c", "d", "e", "f", "g", "h"])
    job.opened()
    for _ in range(behind):
        job.part = lambda parent, words, partition: Changed(
            Changes([key_of("a")] * (not partition), [b"9"] * (not partition))
        )
        job.run([])
    brought_in["rebuilt"] = 0
    owners = list(LAYOUT.owners())
    moved = {0: 2, 4: 0}
    for group, owner in moved.items():
        owners[group] = owner
    layout = LAYOUT.with_owners(owners)
    assert job.opened(layout=layout) == read_state(job.storage)
    assert brought_in == {"rebuilt": 0, "groups": set(moved)}
    brought_in["groups"] = set()
    assert job.opened(layout=layout) == read_state(job.storage)
    assert brought_in["groups"] == set(), "what came stays"


def test_a_new_partition_is_restored_alone(job, brought_in):
    job.run(["a", "b", "c", "d", "e", "f", "g", "h"])
    job.opened()
    brought_in["rebuilt"] = 0
    owners = list(LAYOUT.owners())
    owners[1] = owners[5] = 3
    layout = LAYOUT.with_owners(owners, 4)
    assert job.opened(layout=layout) == read_state(job.storage)
    assert brought_in == {"rebuilt": 1, "groups": set()}


def test_a_store_of_quite_other_groups_is_made_anew(job, brought_in):
    job.run(["a", "b", "c", "d", "e", "f", "g", "h"])
    job.opened()
    brought_in["rebuilt"] = 0
    layout = LAYOUT.with_owners([2 - owner for owner in LAYOUT.owners()])
    assert job.opened(layout=layout) == read_state(job.storage)
    assert brought_in["rebuilt"] == 2, "the middle one stays as it is"


def test_consolidation_hands_stores_over_too(job):
    job.run(["a", "b", "c", "d", "e", "f", "g", "h"])
    job.opened()
    job.run(["a", "b"])
    owners = list(LAYOUT.owners())
    owners[0] = 1
    layout = LAYOUT.with_owners(owners)
    assert all(openstate.catch_up(job.storage, job.local, job.checkpoint.parent, layout, part) for part in range(3))
    with LocalStore.at(store_path(job.local, job.checkpoint.parent.uuid, 1)).view() as view:
        assert view.held == ranges_of(LAYOUT.groups_of(1))
    assert job.opened(layout=layout) == read_state(job.storage)
