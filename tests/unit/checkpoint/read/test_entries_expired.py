"""Entries whose time is over at an epoch are not read there, though its files hold them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from millpond import Map, Partitioned, Program, entry
from millpond.checkpoint.read.entries import Kind, diff, entries, lookup, sizes
from millpond.checkpoint.read.history import History
from millpond.checkpoint.recovery import read_state
from millpond.engine.simulated import Simulated
from millpond.program.semantics.epoch_time import epoch_time
from millpond.storage.backends.files import FileStorage
from tests.sizes import compile_once

START = 1_700_000_000_000_000
SECOND = 1_000_000


class Fresh(Program):
    seen = Partitioned(Map[str, int], ttl=timedelta(seconds=10))
    kept = Partitioned(Map[str, int])

    @entry
    def see(self, key: str, n: int) -> None:
        self.seen[key] = n
        self.kept[key] = n


@pytest.fixture
def history(tmp_path):
    """Epoch 1 at second 0 sees a, epoch 2 at second 6 sees b, epoch 3 at second 12 sees c."""
    simulated = Simulated(compile_once(Fresh), tmp_path, partitions=2)
    for at, key in ((0, "a"), (6, "b"), (12, "c")):
        with epoch_time(START + at * SECOND):
            simulated.epoch([("see", (key, at))])
    storage = FileStorage(tmp_path / "checkpoint")
    assert len(read_state(storage)) == 6, "the files hold all entries"
    return History(storage)


def keys_at(history, epoch, element):
    return sorted(found.key for found in entries(history, history.point(epoch), element))


def test_an_entry_is_read_at_the_epochs_at_which_it_is_there(history):
    assert [keys_at(history, epoch, "seen") for epoch in (1, 2, 3)] == [["a"], ["a", "b"], ["b", "c"]]
    assert keys_at(history, 3, "kept") == ["a", "b", "c"]


def test_a_key_is_found_until_its_time_is_over(history):
    assert [len(lookup(history, history.point(epoch), "seen", "a")) for epoch in (1, 2, 3)] == [1, 1, 0]
    assert len(lookup(history, history.point(3), "kept", "a")) == 1


def test_an_entry_that_is_over_counts_no_more(history):
    point = history.point(3)
    counted = dict.fromkeys(("seen", "kept"), 0)
    for size in sizes(history, point):
        schema = point.elements[size.element]
        counted[schema.name] += size.entries
    assert counted == {"seen": 2, "kept": 3}


def test_an_entry_whose_time_went_by_in_between_was_removed(history):
    found = {change.key: change.kind for change in diff(history, history.point(2), history.point(3), "seen")}
    assert found == {"a": Kind.REMOVED, "c": Kind.ADDED}
