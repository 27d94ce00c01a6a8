"""Rows in sequence are taken as they come, and what has no room in memory is put down."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from millpond import Map, Partitioned, Program, entry
from millpond.checkpoint.records.deltas import decode_changes
from millpond.compiler.compile import compile_program
from millpond.engine.plan import BadRows
from millpond.engine.sequence import streaming
from millpond.engine.sequence.portions import PORTION_ROWS, UnorderedError, in_portions, put_in_order
from millpond.engine.simulated import Simulated
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.local.storekey import element_of, unit_of
from millpond.storage.frame import FrameKind, unseal
from millpond.storage.open import open_storage
from tests.unit.engine.sequence.stream_of_rows import keys_of

ROOM_MB = 300
"""What a task may take besides `memory_mb`."""


def table(**columns):
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def portions(rows, size, batch):
    return [one.num_rows for one in in_portions(rows.to_batches(max_chunksize=batch), size)]


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 100])
def test_where_portions_end_does_not_depend_on_the_batches(batch):
    rows = table(pos=[0, 1, 2, 3, 3, 3, 3, 3, 4, 5, 6])
    assert portions(rows, 3, batch) == portions(rows, 3, 100)
    assert sum(portions(rows, 3, batch)) == rows.num_rows


def test_rows_of_one_place_are_never_divided():
    rows = table(ord=[1, 1, 1, 1, 2], pos=[5, 5, 5, 5, 0])
    found = list(in_portions(rows.to_batches(max_chunksize=1), 2))
    assert [one["ord"].to_pylist() for one in found] == [[1, 1, 1, 1], [2]]


def test_rows_without_places_come_as_one():
    assert portions(table(f0_key=[3, 1, 2]), 1, 1) == [3]


def test_rows_that_are_not_in_order_are_found_within_and_between_portions():
    for places in ([1, 3, 2], [1, 2, 3, 4, 5, 6, 0]):
        with pytest.raises(UnorderedError):
            list(in_portions(table(pos=places).to_batches(max_chunksize=2), 3))


def test_places_are_compared_column_by_column():
    rows = table(ord=[2, 1, 1, 1], feed=[0, 1, 0, 0], src=["b", "a", "c", None], pos=[0, 9, 1, 7])
    found = pa.Table.from_batches(put_in_order(rows.to_batches()))
    assert found["pos"].to_pylist() == [7, 1, 9, 0]
    assert sum(portions(found, 1, 1)) == len(rows)


class Chain(Program):
    links = Partitioned(Map[str, str])

    @entry
    def link(self, one: str, other: str) -> int:
        length = 0
        self.links[one] = other
        while (one := self.links.get(one, "")) and length < 9:
            length += 1
        if length == 9:
            raise ValueError("a ring")
        return length


def test_a_row_that_raises_in_a_later_portion_is_undone_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "in_portions", lambda batches: in_portions(batches, 2))
    rows = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("d", "e"), ("e", "a"), ("f", "a")]
    run = Simulated(compile_program(Chain), tmp_path, 2, bad_rows=BadRows.SKIP, memory_bytes=1)
    run.epoch([("link", row) for row in rows])
    plain, replies = Chain(), {}
    for number, row in enumerate(rows):
        try:
            replies[number] = plain.link(*row)
        except ValueError:
            continue
    assert run.replies() == replies
    assert len(replies) == 5


def check_stream(folder, rows, keys, memory_bytes, portion=PORTION_ROWS):
    """Run rows in a process of its own and check all that they left; by how many MB it has grown."""
    sizes = map(str, (folder, rows, keys, memory_bytes, portion))
    words = [sys.executable, "-m", "tests.unit.engine.sequence.stream_of_rows", *sizes]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    told = json.loads(done.stdout.splitlines()[-1])
    drawn = keys_of(rows, keys)
    counts, last = np.bincount(drawn, minlength=keys), np.full(keys, -1)
    last[drawn] = np.arange(rows)
    seen = Counter()
    codecs = KeyCodec(int), (ValueCodec(int), ValueCodec(list[int]))
    storage = open_storage(told["checkpoint"])
    for name in told["files"]:
        payload = unseal(FrameKind.DELTA, storage.get(name), name)
        for key, value in decode_changes(payload, name).pairs():
            unit, element = codecs[0].decode(unit_of(key)), element_of(key)
            expected = int(counts[unit]) if element == 0 else [int(last[unit])]
            assert codecs[1][element].decode(value) == expected
            seen[element] += 1
    there = int(np.count_nonzero(counts))
    assert seen == {0: there, 1: there}
    assert told["growth"] == 2 * there
    return told["grown_mb"]


def test_rows_over_more_keys_than_have_room_leave_what_plain_python_leaves(tmp_path):
    check_stream(tmp_path, 40_000, 8_000, 1_000_000, 5_000)


@pytest.mark.campaign
@pytest.mark.timeout(7200)
def test_ten_million_rows_over_two_million_keys_stay_within_memory_mb(tmp_path):
    assert check_stream(tmp_path, 10_000_000, 2_000_000, 256_000_000) < 256 + ROOM_MB
