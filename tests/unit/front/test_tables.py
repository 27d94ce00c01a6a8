"""Tables of opened checkpoints beside models in plain Python, and how little of a checkpoint is read."""

from __future__ import annotations

import pytest
from hypothesis import given

from millpond.checkpoint.read.entries import Kind
from millpond.checkpoint.read.history import History
from millpond.errors import DamagedError, EpochError
from millpond.front.opened import OpenCheckpoint
from millpond.keygroups import Layout
from millpond.storage.backends.memory import MemoryStorage
from tests.unit.checkpoint.reading_histories import ABSENT, ELEMENTS, KEY_GROUPS, histories, made


class Reads:
    """A storage that notes what is read of it."""

    def __init__(self, storage):
        self._storage = storage
        self.names = []

    def get(self, name):
        self.names.append(name)
        return self._storage.get(name)

    def __getattr__(self, name):
        return getattr(self._storage, name)


def views(checkpoint, name):
    """The tables that hold an element's entries, by instance."""
    table = checkpoint[name]
    return {None: table} if table.instances is None else {at: table.instance(at) for at in range(table.instances)}


def in_order(element, keys):
    return sorted(keys, key=element.type.keys.encode)


@given(histories)
def test_tables_hold_what_the_model_holds(history):
    checkpoint = made(history, MemoryStorage())
    for epoch in {len(checkpoint.models) - 1, len(checkpoint.models) // 2}:
        model = checkpoint.models[epoch]
        opened = OpenCheckpoint(checkpoint.storage, epoch=epoch)
        for name, element in ELEMENTS.items():
            for instance, table in views(opened, name).items():
                held = {key: value for (at, key), value in model[name].items() if at == instance}
                shown = held if element.type.kind != "set" else dict.fromkeys(held, True)
                assert dict(table.items()) == shown
                assert len(table) == len(shown)
                assert list(table.scan()) == [(key, shown[key]) for key in in_order(element, shown)]
                one = (lambda key, table=table: table.get()) if name == "when" else table.get
                assert {key: one(key) for key in shown} == shown


@given(histories)
def test_scans_merges_and_differences_follow_from_the_model(history):
    checkpoint = made(history, MemoryStorage())
    newest = OpenCheckpoint(checkpoint.storage)
    counts = newest["counts"].merged(sum)
    sums: dict[int, int] = {}
    for (_, key), value in checkpoint.models[-1]["counts"].items():
        sums[key] = sums.get(key, 0) + value
    assert dict(counts.items()) == sums
    assert {key: counts.get(key) for key in (*sums, 99)} == {**sums, 99: None}
    words, element = newest["words"], ELEMENTS["words"]
    held = {key: value for (_, key), value in checkpoint.models[-1]["words"].items()}
    keys = in_order(element, held)
    for start in (None, *keys[:2], "m"):
        for stop in (None, *keys[-2:]):
            wanted = [key for key in keys if (start is None or start <= key) and (stop is None or key < stop)]
            assert [key for key, _ in words.scan(start, stop)] == wanted
            assert [key for key, _ in words.scan(start, stop, limit=1)] == wanted[:1]
    for before in {0, len(checkpoint.models) // 2}:
        model = checkpoint.models[before]
        for name in ("words", "counts"):
            old, new = model[name], checkpoint.models[-1][name]
            changed = {place for place in {*old, *new} if old.get(place, ABSENT) != new.get(place, ABSENT)}
            told = {
                (change.instance, change.key): (change.kind, change.old, change.new)
                for change in newest[name].diff(before)
            }
            assert told == {
                place: (
                    Kind.ADDED if place not in old else Kind.REMOVED if place not in new else Kind.CHANGED,
                    old.get(place),
                    new.get(place),
                )
                for place in changed
            }


def group_of(key):
    return Layout(KEY_GROUPS, 1, 2, aligned=False).group_of(key)


@pytest.fixture
def words():
    """One entry in each key group, and a snapshot of two chunks below a delta of two files."""
    keys = {}
    for number in range(200):
        keys.setdefault(group_of(f"w{number}"), f"w{number}")
    first = [("words", {(None, key): group for group, key in keys.items()})]
    second = [("words", {(None, key): group + 10 for group, key in keys.items() if group in (0, 4)})]
    return made([(first, False), (second, True)], MemoryStorage()), keys


def test_a_point_read_fetches_files_of_one_key_group_alone(words):
    checkpoint, keys = words
    storage = Reads(checkpoint.storage)
    for group, key in keys.items():
        opened = OpenCheckpoint(storage)
        table = opened["words"]
        storage.names.clear()
        assert table.get(key) == (group + 10 if group in (0, 4) else group)
        files = {file.file.name for file in History(checkpoint.storage).point().files(range(group, group + 1))}
        read = [name for name in storage.names if name.split("/")[0] in ("deltas", "snapshots")]
        assert set(read) <= files
        # The newest file that knows the key is the last one that is read, and no file is read twice.
        assert len(read) == (1 if group in (0, 4) else len(files))
        table.get(key)
        assert len(storage.names) == len(read)


def test_nothing_is_read_before_it_is_asked_for(words):
    storage = Reads(words[0].storage)
    opened = OpenCheckpoint(storage)
    walk = opened["words"].items()
    assert not [name for name in storage.names if name.startswith(("deltas", "snapshots"))]
    next(walk)
    read = {name for name in storage.names if name.startswith(("deltas", "snapshots"))}
    assert len(read) < len(History(words[0].storage).point().files())


def test_a_damaged_file_is_an_error_every_time(words):
    checkpoint, keys = words
    for name in checkpoint.storage.list("snapshots"):
        data = checkpoint.storage.get(name)
        checkpoint.storage.delete(name)
        checkpoint.storage.put(name, data[:-1] + bytes((data[-1] ^ 1,)))
    table = OpenCheckpoint(checkpoint.storage)["words"]
    for _ in range(2):
        with pytest.raises(DamagedError, match="MP310"):
            table.get(keys[1])


def test_an_epoch_that_was_given_up_meanwhile_is_told_as_such(words):
    checkpoint, keys = words
    table = OpenCheckpoint(checkpoint.storage, epoch=1)["words"]
    for name in [*checkpoint.storage.list("deltas"), checkpoint.storage.list("manifests")[0]]:
        checkpoint.storage.delete(name)
    with pytest.raises(EpochError, match="MP450"):
        table.get(keys[1])


def test_a_small_cache_gives_the_same(words):
    from millpond.checkpoint.read.groups import KeyGroups

    history = History(words[0].storage)
    point = history.point()
    small, usual = (KeyGroups(words[0].storage, point, 0, held_bytes=size) for size in (1, 1 << 20))
    for _ in range(2):
        assert [small.entries(group) for group in range(KEY_GROUPS)] == [usual.entries(g) for g in range(KEY_GROUPS)]
    small.close()
    usual.close()
