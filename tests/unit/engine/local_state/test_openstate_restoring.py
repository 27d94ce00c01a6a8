"""Stores that hold a part of their key groups: whatever comes in, moves on or is lost, they read as a dict does."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from millpond.checkpoint.commit.checkpoint import Changed, Checkpoint, EpochWork
from millpond.checkpoint.records import deltas
from millpond.checkpoint.records.deltas import write_delta
from millpond.checkpoint.records.manifest import ElementSchema, StateFile
from millpond.checkpoint.records.offers import Batch
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import compaction, snapshots
from millpond.engine.local_state import openstate
from millpond.engine.local_state.openstate import Restoring, kept_names, open_state, range_starts, store_path
from millpond.engine.plan import BadRows
from millpond.engine.simulated import Simulated
from millpond.errors import StateError, StorageError
from millpond.keygroups import Layout
from millpond.state.changes import Changes
from millpond.state.local import localstore
from millpond.state.local.localstore import KEY_BYTES_MAX, LocalStore
from millpond.state.local.storekey import group_of, store_key, store_prefix
from millpond.state.local.storeversion import groups_in, ranges_of
from millpond.state.local.storeview import OnDemandView
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.content import FileRef
from tests.programs.keyed import Recommender, Store, Words, committed_state, fresh_seed, oracle, random_rows
from tests.sizes import compile_once, some_of

GROUPS = 12
ELEMENTS = tuple(ElementSchema(name, "map", "partitioned", "", "int", "int") for name in "ab")
UNITS = (b"", b"u", b"v" * (KEY_BYTES_MAX - 3), b"w" * 600)
SMALL_FILE = 100
"""Bytes of a file of state in these tests, so that a few entries make several chunks."""

keys = st.builds(store_key, st.integers(0, 1), st.integers(0, GROUPS - 1), st.sampled_from(UNITS))
changes = st.dictionaries(keys, st.none() | st.binary(min_size=20, max_size=60), min_size=1, max_size=20)


class Losable(MemoryStorage):
    """Says of some files that they can't be read."""

    def __init__(self):
        super().__init__()
        self.lost = False

    def get(self, name):
        if self.lost and name.startswith(("deltas/", "snapshots/")):
            raise StorageError("MP309", f"can't read {name}")
        return super().get(name)


def failure_of(call):
    try:
        call()
    except StorageError as error:
        return error
    return None


def small_files():
    """Chunks of a few entries, snapshots every few epochs, and no state so small that it is restored at once."""
    stack = ExitStack()
    for module in (deltas, compaction, openstate):
        stack.enter_context(patch.object(module, "FILE_BYTES", SMALL_FILE))
    stack.enter_context(patch.object(openstate, "KEPT_BYTES_MAX", SMALL_FILE))
    stack.enter_context(patch.object(snapshots, "DELTA_EPOCHS_MAX", 3))
    stack.enter_context(patch.object(openstate, "AT_ONCE_BYTES_MAX", 0))
    return stack


class World:
    """A checkpoint, and the stores of its partitions in a folder."""

    def __init__(self, folder, storage=None):
        self.storage = storage or Losable()
        self.folder = folder
        self.layout = Layout(GROUPS, 2, 4, aligned=False)
        self.checkpoint = Checkpoint.open(self.storage, ELEMENTS, key_groups=GROUPS, instances=4)
        self.batch = 0

    def commit(self, changed):
        ordered = sorted(changed)
        parts = []
        for partition in range(self.layout.partitions):
            own = [key for key in ordered if group_of(key) in self.layout.groups_of(partition)]
            files = write_delta(self.storage, Changes(own, [changed[key] for key in own]), mark="test") if own else ()
            parts.append(Changed(files=files))
        offer = Batch("q", self.batch)
        self.batch += 1
        work = EpochWork(tuple(parts), (), {})
        self.checkpoint.run_epoch(offer, lambda _: work, lambda _: None, partitions=self.layout.partitions)

    def open(self, partition, restore="on_demand", parent=None):
        parent = parent or self.checkpoint.parent
        return open_state(self.storage, self.folder, parent, self.layout, partition, restore)

    def store(self, partition):
        return LocalStore.at(store_path(self.folder, self.checkpoint.genesis.uuid, partition))

    def close(self):
        LocalStore.close_below(Path(self.folder))
        shutil.rmtree(self.folder, ignore_errors=True)


class Interleaved(RuleBasedStateMachine):
    """Any order of epochs, reads, restarts, losses and rescales."""

    def __init__(self):
        super().__init__()
        self.patches = small_files()
        self.world = World(tempfile.mkdtemp(prefix="millpond-restoring-"))
        self.model = {}
        self.history = {0: {}}
        self.old = None
        self.views = []

    def teardown(self):
        self.let_go()
        self.world.close()
        self.patches.close()

    def let_go(self):
        for _, view in self.views:
            view.close()
        self.views.clear()

    @initialize(changed=changes)
    def begin(self, changed):
        self.commit(changed)

    @rule(changed=changes)
    def commit(self, changed):
        self.old = (self.world.checkpoint.parent, self.model)
        self.world.commit(changed)
        self.model = {**self.model, **changed}
        self.model = {key: value for key, value in self.model.items() if value is not None}
        self.history[self.world.checkpoint.epoch] = self.model

    @rule(partition=st.integers(0, 11), restore=st.sampled_from(["on_demand", "on_demand", "eager"]))
    def open(self, partition, restore):
        partition %= self.world.layout.partitions
        if any(part == partition and view.stamp.epoch != self.world.checkpoint.epoch for part, view in self.views):
            # A task of an old epoch that still reads: what it does not hold would be gone under it.
            self.let_go()
        self.views.append((partition, self.world.open(partition, restore)))

    @precondition(lambda self: self.views)
    @rule(at=st.integers(0, 5), asked=st.lists(keys, max_size=6), unique=st.booleans())
    def read(self, at, asked, unique):
        partition, view = self.views[at % len(self.views)]
        model = self.model_of(partition, view)
        asked = sorted(set(asked)) if unique else list(dict.fromkeys(asked))
        assert view.get_many(asked) == [model.get(key) for key in asked]
        assert [view.get(key) for key in asked] == [model.get(key) for key in asked]

    @precondition(lambda self: self.views)
    @rule(at=st.integers(0, 5), element=st.integers(0, 1), group=st.integers(0, GROUPS - 1))
    def scan(self, at, element, group):
        partition, view = self.views[at % len(self.views)]
        prefix = store_prefix(element, group)
        model = self.model_of(partition, view)
        assert list(view.scan(prefix)) == sorted(item for item in model.items() if item[0].startswith(prefix))

    @precondition(lambda self: self.views)
    @rule(at=st.integers(0, 5), prefix=st.sampled_from([b"", b"\0", b"\1"]), asked=st.lists(keys, max_size=3))
    def scan_all_and_read_meanwhile(self, at, prefix, asked):
        partition, view = self.views[at % len(self.views)]
        model = self.model_of(partition, view)
        found = []
        for entry in view.scan(prefix):
            found.append(entry)
            for _, other in self.views:
                other.get_many(asked)
        assert found == sorted(item for item in model.items() if item[0].startswith(prefix))

    def model_of(self, partition, view):
        """What a view must show: the epoch it was opened at, its own groups alone."""
        groups = self.world.layout.groups_of(partition)
        return {key: value for key, value in self.history[view.stamp.epoch].items() if group_of(key) in groups}

    @rule()
    def finish_epoch(self):
        self.let_go()

    @rule()
    def restart(self):
        self.let_go()
        LocalStore.close_below(Path(self.world.folder))

    @rule()
    def lose_stores(self):
        self.restart()
        shutil.rmtree(self.world.folder, ignore_errors=True)

    @rule(partitions=st.integers(1, GROUPS))
    def rescale(self, partitions):
        self.let_go()
        self.world.layout = Layout(GROUPS, partitions, 4, aligned=False)

    @precondition(lambda self: self.old is not None)
    @rule(partition=st.integers(0, 11), asked=st.lists(keys, max_size=4, unique=True))
    def another_driver_at_the_epoch_before(self, partition, asked):
        self.let_go()
        partition %= self.world.layout.partitions
        parent, model = self.old
        groups = self.world.layout.groups_of(partition)
        with self.world.open(partition, parent=parent) as view:
            asked = [key for key in asked if group_of(key) in groups]
            assert view.get_many(asked) == [model.get(key) for key in asked]

    @rule(partition=st.integers(0, 11), group=st.integers(0, GROUPS - 1))
    def a_load_that_fails_changes_nothing(self, partition, group):
        self.let_go()
        partition %= self.world.layout.partitions
        with self.world.open(partition) as view:
            held = view.held
            self.world.storage.lost = True
            failed = failure_of(lambda: list(view.scan(store_prefix(0, group))))
            self.world.storage.lost = False
            assert failure_of(view.check) is failed
            if failed is None:
                # What there is of the group is here, or it has no file at all.
                return
        with self.world.store(partition).view() as after:
            assert after.held == held

    @invariant()
    def views_stand_where_they_were_opened(self):
        for _, view in self.views:
            assert view.stamp.uuid == self.world.checkpoint.genesis.uuid

    @rule()
    def all_of_it(self):
        self.let_go()
        state = {}
        for partition in range(self.world.layout.partitions):
            with self.world.open(partition) as view:
                state |= dict(view.scan(b""))
        assert state == self.model == read_state(self.world.storage)


Interleaved.TestCase.settings = settings(max_examples=some_of(10), stateful_step_count=20, deadline=None)
test_any_interleaving_reads_as_a_dict = Interleaved.TestCase


@pytest.mark.slow
class TestMuchLonger(Interleaved.TestCase):
    settings = settings(max_examples=some_of(150), stateful_step_count=40, deadline=None)


@pytest.fixture
def world(tmp_path):
    with small_files():
        made = World(str(tmp_path / "local"))
        yield made
        made.close()


def every_group(value):
    return {store_key(0, group, b"u"): value * 40 for group in range(GROUPS)}


def test_a_first_key_brings_in_a_part_and_no_more(world):
    world.commit(every_group(b"1"))
    with world.open(0) as view:
        assert isinstance(view, OnDemandView)
        assert view.held == ()
        assert view.get(store_key(0, 0, b"u")) == b"1" * 40
        assert 0 in groups_in(view.held)
        assert len(groups_in(view.held)) < 6
        assert view.restore_s > 0
    with world.open(0) as view:
        assert 0 in groups_in(view.held), "the next task finds what this one brought in"


def test_what_is_all_there_is_opened_as_a_plain_view(world):
    world.commit(every_group(b"1"))
    with world.open(0) as view:
        assert len(list(view.scan(b""))) == 6
    with world.open(0) as view:
        assert type(view) is localstore.StoreView
        assert view.held is None


def test_an_eager_restore_holds_everything_before_it_is_read(world):
    world.commit(every_group(b"1"))
    with world.open(0, "eager") as view:
        assert type(view) is localstore.StoreView
        assert view.held is None
        assert view.restore_s == 0


def test_deltas_reach_the_groups_that_are_held_and_others_are_read_as_they_are_later(world):
    world.commit(every_group(b"1"))
    with world.open(0) as view:
        view.get(store_key(0, 0, b"u"))
        held = view.held
    world.commit({store_key(0, 0, b"u"): b"two", store_key(0, 5, b"u"): None})
    with world.open(0) as view:
        assert view.held == held, "advanced, not rebuilt"
        assert view.get(store_key(0, 0, b"u")) == b"two"
        assert view.get(store_key(0, 5, b"u")) is None
        assert view.get(store_key(0, 4, b"u")) == b"1" * 40


def test_a_group_that_another_process_brings_in_between_is_not_left_behind(world):
    """The deltas were chosen for fewer groups than the store holds when they shall be applied."""
    world.commit(every_group(b"1"))
    with world.open(0) as view:
        view.get(store_key(0, 0, b"u"))
    before = world.checkpoint.parent
    world.commit({store_key(0, group, b"u"): b"two" for group in range(GROUPS)})
    advance = LocalStore.advance

    def late(store, *args):
        with patch.object(LocalStore, "advance", advance), world.open(0, parent=before) as other:
            other.get(store_key(0, 5, b"u"))
        return advance(store, *args)

    with patch.object(LocalStore, "advance", late), world.open(0) as view:
        assert dict(view.scan(b"")) == {store_key(0, group, b"u"): b"two" for group in range(6)}


def test_a_store_that_moves_under_a_view_on_demand_is_a_coded_error_and_never_a_wrong_answer(world):
    world.commit(every_group(b"1"))
    with world.open(0) as view:
        assert view.get(store_key(0, 0, b"u")) == b"1" * 40
        world.commit(every_group(b"2"))
        with world.open(0) as newer:
            assert newer.get(store_key(0, 5, b"u")) == b"2" * 40
        with pytest.raises(StateError) as caught:
            view.get(store_key(0, 5, b"u"))
        assert caught.value.code == "MP222"
        with pytest.raises(StateError):
            view.check()


def test_a_map_that_must_grow_below_open_views_is_grown(world, monkeypatch):
    monkeypatch.setattr(localstore, "MAP_BYTES_START", 1 << 17)
    monkeypatch.setattr(localstore, "_room_for", lambda expected_bytes: 0)
    large = {store_key(0, group, b"%03d" % n): bytes(2000) for group in range(GROUPS) for n in range(40)}
    world.commit(large)
    world.commit({store_key(1, 0, b"x"): b"y" * 700})
    with world.open(0) as one, world.open(0) as other:
        asked = store_key(1, 0, b"x")
        assert one.get(asked) == other.get(asked) == b"y" * 700
        scanning = other.scan(store_prefix(0, 0))
        assert next(scanning) == (store_key(0, 0, b"000"), bytes(2000))
        assert dict(one.scan(b"\0")) == {key: value for key, value in large.items() if group_of(key) < 6}
        assert [key for key, _ in scanning] == [store_key(0, 0, b"%03d" % n) for n in range(1, 40)]
        assert other.get(asked) == b"y" * 700


def test_a_kill_between_two_ranges_goes_on_where_it_was(world):
    world.commit(every_group(b"1"))
    taken = []
    take = LocalStore.take

    def dies(store, stamp, groups, read, whole):
        if len(taken) == 1:
            raise KeyboardInterrupt
        taken.append(groups)
        return take(store, stamp, groups, read, whole)

    with patch.object(LocalStore, "take", dies), pytest.raises(KeyboardInterrupt):
        world.open(0, "eager")
    LocalStore.close_below(Path(world.folder))
    with world.store(0).view() as left:
        assert left.held == ranges_of(taken[0])
    with world.open(0, "eager") as view:
        assert dict(view.scan(b"")) == {key: value for key, value in every_group(b"1").items() if group_of(key) < 6}


@given(st.sets(st.integers(0, 300)))
def test_ranges_stand_for_the_groups_they_were_made_of(groups):
    ranges = ranges_of(groups)
    assert groups_in(ranges) == groups
    assert all(after[0] > before[1] + 1 for before, after in pairwise(ranges))


def file_of(first, last, size, number):
    return StateFile(FileRef(f"deltas/{number:040}", size, "0" * 64), first, last, 1)


file_parts = st.tuples(st.integers(0, 63), st.integers(0, 63), st.integers(1, 1 << 26))


@given(st.lists(file_parts, max_size=30), st.integers(0, 30))
def test_ranges_are_all_groups_once_and_reading_them_is_at_most_twice_the_state(parts, chunks):
    files = [file_of(min(a, b), max(a, b), size, number) for number, (a, b, size) in enumerate(parts)]
    groups = range(64)
    kept = kept_names(files)
    starts = range_starts(files, files[:chunks], groups, kept)
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    bounds = [(first, end - 1) for first, end in pairwise([*starts, 64])]
    read = sum(f.file.size_bytes * (1 if f.file.name in kept else sum(f.overlaps(*b) for b in bounds)) for f in files)
    assert read <= 2 * sum(f.file.size_bytes for f in files)


def test_chunks_of_a_snapshot_are_what_ranges_are_made_of():
    chunks = [file_of(first, first + 3, 16 << 20, first) for first in range(0, 64, 4)]
    small = [file_of(0, 63, 1 << 20, 100), file_of(5, 60, 1 << 20, 101)]
    starts = range_starts([*chunks, *small], chunks, range(64), kept_names([*chunks, *small]))
    assert starts == list(range(0, 64, 4))


def test_a_range_reads_the_files_that_reach_into_it_and_no_others(world):
    world.commit(every_group(b"1"))
    files = Restoring(world.storage, world.checkpoint.parent, range(6))
    assert len(files.ranges) > 1
    read = []
    get = world.storage.get
    world.storage.get = lambda name: (read.append(name), get(name))[1]
    first = files.ranges[0]
    loaded = list(files.read(((first[0], first[-1]),)))
    assert {group_of(key) for keys_, _ in loaded for key in keys_} == set(first)
    assert len(read) < len(world.checkpoint.parent.deltas[-1].files)


@pytest.mark.parametrize("program", [Store, Words, pytest.param(Recommender, marks=pytest.mark.slow)])
def test_programs_whose_workers_lose_their_stores_give_the_same_answers(tmp_path, program):
    rows = random_rows(program, fresh_seed(), 36)
    replies = {}
    with small_files():
        for start in range(0, len(rows), 12):
            # Restarted with other partitions, which find no stores, every time.
            job = Simulated(compile_once(program), tmp_path, 1 + start // 12 % 3)
            for first in range(start, start + 12, 6):
                job.epoch(rows[first : first + 6])
            replies |= job.replies()
            LocalStore.close_below(tmp_path)
            for local in tmp_path.glob("local-*"):
                shutil.rmtree(local)
    expected = oracle(program, rows)
    assert replies == expected.replies
    assert committed_state(tmp_path / "checkpoint") == expected.state


@pytest.mark.parametrize("bad_rows", [BadRows.FAIL, BadRows.SKIP])
def test_a_state_that_can_t_be_restored_is_no_fault_of_the_row_that_asked_for_it(tmp_path, bad_rows):
    with small_files():
        Simulated(compile_once(Words), tmp_path, 2, 16, 4).epoch([("add", (word,)) for word in "abcdefgh"])
        LocalStore.close_below(tmp_path)
        shutil.rmtree(tmp_path / "local-2")
        job = Simulated(compile_once(Words), tmp_path, 2, 16, 4, bad_rows=bad_rows)
        for delta in (tmp_path / "checkpoint" / "deltas").iterdir():
            delta.write_bytes(b"not what it was")
        with pytest.raises(StorageError) as caught:
            job.epoch([("add", ("a",)), ("count", ("a",))])
        assert caught.value.code == "MP310"


CHILD = """
import os, random, signal, sys
from unittest.mock import patch
from millpond.checkpoint.commit.checkpoint import Checkpoint
from millpond.engine.local_state.openstate import open_state
from millpond.engine.local_state.openstate import Restoring
from millpond.state.local.storekey import group_of
from millpond.storage.open import open_storage
from tests.unit.engine.local_state.test_openstate_restoring import ELEMENTS, GROUPS, World, small_files

folder, how, seed = sys.argv[1:]
read = Restoring.read

def dies(self, ranges):
    for number, loaded in enumerate(read(self, ranges)):
        yield loaded
        if how == "middle" and len(self.seen) >= 1:
            os.kill(os.getpid(), signal.SIGKILL)
    self.seen.append(ranges)

with small_files(), patch.object(Restoring, "read", dies), patch.object(Restoring, "seen", [], create=True):
    world = World(f"{folder}/local", open_storage(f"{folder}/ck"))
    print("ready", flush=True)
    sys.stdin.readline()
    groups = list(range(GROUPS))
    random.Random(int(seed)).shuffle(groups)
    found = {}
    for group in groups:
        with world.open(group * 2 // GROUPS) as view:
            found |= {key: value for key, value in view.scan(bytes((0, group >> 8, group)))}
    print(sorted((key.hex(), value.hex()) for key, value in found.items()))
"""


def start_child(folder, how, seed):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder), how, str(seed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[4],
    )


@pytest.fixture
def filled(tmp_path):
    with small_files():
        World(str(tmp_path / "local"), FileStorage(tmp_path / "ck")).commit(every_group(b"1"))
    return tmp_path


def told(entries):
    return f"{sorted((key.hex(), value.hex()) for key, value in entries.items())}\n"


@pytest.mark.slow
def test_a_task_that_is_killed_inside_a_load_leaves_what_was_whole_before_it(filled):
    killed = start_child(filled, "middle", 1)
    killed.communicate("go\n")
    assert killed.returncode == -signal.SIGKILL
    child = start_child(filled, "whole", 2)
    assert child.communicate("go\n")[0] == f"ready\n{told(every_group(b'1'))}"


@pytest.mark.slow
def test_processes_that_load_the_same_store_at_the_same_time_all_read_the_same(filled):
    children = [start_child(filled, "whole", seed) for seed in range(4)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    assert {child.communicate()[0] for child in children} == {told(every_group(b"1"))}
