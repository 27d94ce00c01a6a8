"""Every storage backend is read by `millpond.open` in the same way."""

from __future__ import annotations

from millpond.front.opened import OpenCheckpoint
from tests.unit.checkpoint.reading_histories import made

STEPS = [
    ([("words", {(None, "mill"): 1, (None, "pond"): 2}), ("counts", {(0, 3): 1, (1, 3): 2})], False),
    ([("words", {(None, "mill"): 3})], True),
]


def test_state_is_read_lazily_at_any_kept_epoch(backend):
    storage = backend.open()
    made(STEPS, storage)
    with OpenCheckpoint(storage) as checkpoint:
        words = checkpoint["words"]
        assert (words.get("mill"), words.get("pond"), words.get("dam")) == (3, 2, None)
        assert sorted(words.items()) == [("mill", 3), ("pond", 2)]
        assert words.at(1).get("mill") == 1
        assert [(change.key, change.old, change.new) for change in words.diff(1)] == [("mill", 1, 3)]
        assert checkpoint["counts"].merged(sum).get(3) == 3
        assert sorted(row["value"] for row in words.to_arrow().to_pylist()) == [2, 3]
