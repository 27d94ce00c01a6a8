"""Epochs that are cut around a few rows in sequence come out as plain Python says, whatever dies in between."""

from __future__ import annotations

import random
import signal
from itertools import pairwise

import pyarrow.parquet as pq
import pytest

from millpond import parquet
from millpond.checkpoint.recovery import read_state
from millpond.crashpoints import IN_EPOCHS, IN_PARTS
from millpond.engine import compute
from millpond.engine.plan import BadRows
from millpond.engine.sequence.cutting import PARTS
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from millpond.keygroups import DEFAULT_KEY_GROUPS, Layout
from millpond.storage.backends.files import FileStorage
from tests.children import in_child
from tests.fuzz.transactions.truth import truth_of
from tests.programs.bank import Bank, bank_rows
from tests.sizes import compile_once, sized

LAYOUT = Layout(DEFAULT_KEY_GROUPS, 1, 1, aligned=False)


def cuts(rng: random.Random, count: int) -> list[int]:
    return sorted({0, count, *(rng.randrange(count) for _ in range(rng.randrange(6)))})


@pytest.mark.parametrize("inline", [60, 64 * 1024])
@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_parts_rows_equal_plain_python(seed, inline, tmp_path, monkeypatch):
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", inline)
    rng = random.Random(seed)
    rows = list(bank_rows(rng, 150, rng.choice([0.02, 0.05])))
    truth = truth_of(Bank, rows, LAYOUT)
    ends, parts = cuts(rng, len(rows)), 0
    for start, end in pairwise(ends):
        run = Simulated(compile_once(Bank), tmp_path, rng.randrange(1, 5), bad_rows=BadRows.SKIP)
        parts += run.epoch(rows[start:end]).manifest.counters.get(PARTS, 0)
        told = run.replies()
        mine = {number: reply for number, reply in truth.replies.items() if start <= number < end}
        refused = run.refusals()
        assert {number: repr(told[number]) for number in told if number not in refused} == mine
        assert refused == {number: why for number, why in truth.aborted.items() if start <= number < end}
        run.close()
    assert parts, "nothing was cut"
    assert read_state(FileStorage(tmp_path / "checkpoint")) == truth.state


def test_a_part_that_leaves_no_room_lets_the_epoch_run_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(compute, "has_room", lambda *_: False)
    rows = [("pay_in", ("a", 5)), ("report", ()), ("pay_in", ("a", 5))]
    run = Simulated(compile_once(Bank), tmp_path, 2)
    assert PARTS not in run.epoch(rows).manifest.counters
    assert run.replies() == {0: 5, 1: [("a", 5)], 2: 10}


def test_the_first_row_that_may_not_raise_is_the_one_that_is_told(tmp_path):
    run = Simulated(compile_once(Bank), tmp_path, 2)
    with pytest.raises(Exception, match="entry point `inherit` raised KeyError"):
        run.epoch([("pay_in", ("b", 3)), ("inherit", ("b",)), ("pay_in", ("b", 7))])
    assert run.batch == 0
    run.epoch([("pay_in", ("b", 3)), ("report", ())])
    assert run.replies()[1] == [("b", 3)], "nothing of the parts before it was left"


ROWS = list(bank_rows(random.Random(5), 120, 0.04))
TRUTH = truth_of(Bank, ROWS, LAYOUT)
EPOCH_ROWS = 30


def go_on(folder, partitions):
    sinks = {name: parquet(folder / "out" / name) for name in Bank.entries()}
    run = Simulated(compile_once(Bank), folder, partitions, sinks=sinks, bad_rows=BadRows.SKIP)
    while run.fed < len(ROWS):
        run.epoch(ROWS[run.fed : run.fed + EPOCH_ROWS])


@pytest.mark.slow
@pytest.mark.parametrize("occurrence", [1, 2, 3])
@pytest.mark.parametrize("point", sized((*IN_PARTS, *IN_EPOCHS[1:]), (*IN_PARTS, *IN_EPOCHS[1::4])))
def test_a_process_killed_between_parts_is_followed_by_one_that_finishes(tmp_path, point, occurrence, monkeypatch):
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 60)
    ended = in_child(lambda: go_on(tmp_path, 2), f"{point}:{occurrence}")
    assert ended == -signal.SIGKILL or point not in IN_PARTS
    go_on(tmp_path, 3)
    found = [row for path in sorted((tmp_path / "out").glob("*/*.parquet")) for row in pq.read_table(path).to_pylist()]
    assert len({row["row"] for row in found}) == len(found), "a reply is there twice"
    refused = {row["row"]: row["aborted"] for row in found if row.get("aborted") is not None}
    assert refused == TRUTH.aborted
    assert {row["row"] for row in found} - refused.keys() == TRUTH.replies.keys()
    assert read_state(FileStorage(tmp_path / "checkpoint")) == TRUTH.state
