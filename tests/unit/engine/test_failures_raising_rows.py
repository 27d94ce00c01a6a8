"""Rows on which the user's code raises: under a policy that does not fail, they leave no trace at any step."""

from __future__ import annotations

import copy
import random

import pytest

from millpond import Counter, Map, Partitioned, Program, entry
from millpond.engine.plan import BadRows
from millpond.engine.simulated import Simulated
from millpond.engine.task.inorder import Memory
from millpond.errors import RowError
from tests.sizes import compile_once, sized


class Picky(Program):
    """Changes state in place, moves, changes more, and raises before and after the move."""

    seen = Partitioned(Map[int, list[int]])
    counts = Partitioned(Map[int, int])

    @entry
    def put(self, group: int, item: int) -> int:
        items = self.seen.setdefault(group, [])
        items.append(item)
        size = len(items)
        if size == 3:
            raise ValueError("three is one too many")
        self.counts[item] = self.counts.get(item, 0) + 1
        if self.counts[item] == 5:
            raise KeyError("five")
        return size


def plain_run(rows):
    """Plain Python, each row all or nothing."""
    program, replies = Picky(), {}
    for number, (_, arguments) in enumerate(rows):
        kept = copy.deepcopy((dict(program.seen.items()), dict(program.counts.items())))
        try:
            replies[number] = program.put(*arguments)
        except (ValueError, KeyError):
            program = Picky()
            for key, value in kept[0].items():
                program.seen[key] = value
            for key, value in kept[1].items():
                program.counts[key] = value
    return replies


@pytest.mark.parametrize("policy", [BadRows.SKIP, BadRows.DEAD_LETTER])
@pytest.mark.parametrize("partitions", sized([1, 2, 3], [3]))
def test_rows_that_raise_are_as_if_never_fed(tmp_path, policy, partitions):
    dice = random.Random(partitions)
    rows = [("put", (dice.randrange(6), dice.randrange(4))) for _ in range(40)]
    expected = plain_run(rows)
    assert 0 < len(expected) < len(rows)
    simulated = Simulated(compile_once(Picky), tmp_path, partitions, bad_rows=policy)
    simulated.epoch(rows[:15])
    outcome = simulated.epoch(rows[15:])
    assert simulated.replies() == expected
    assert outcome.manifest.counters["total.bad.put"] == len(rows) - len(expected)
    letters = simulated.dead_letters["put"].rows()
    assert len(letters) == (len(rows) - len(expected) if policy is BadRows.DEAD_LETTER else 0)
    assert all("raised ValueError" in letter["reason"] or "raised KeyError" in letter["reason"] for letter in letters)


def test_by_default_a_row_that_raises_fails_the_epoch_and_nothing_is_committed(tmp_path):
    simulated = Simulated(compile_once(Picky), tmp_path, 2)
    with pytest.raises(RowError, match="three is one too many") as caught:
        simulated.epoch([("put", (1, item)) for item in range(4)])
    assert caught.value.code == "MP603"
    assert "in put: raise ValueError" in (caught.value.found or "")
    assert simulated.fed == 0


class Growing(Program):
    """Raises after it has changed in place what the row carried to its key."""

    counts = Partitioned(Counter[int])

    @entry
    def grow(self, key: int, steps: int) -> list[int]:
        held = [1, 2]
        place = sum(held) + key
        self.counts.pop(place, None)
        for _ in range(steps):
            held += held[:2]
            self.counts[place] = held[2 * steps + 1]
        return held


@pytest.mark.parametrize("policy", list(BadRows))
def test_a_row_that_raises_after_it_changed_what_it_carries_is_not_tried_again_as_it_is_then(tmp_path, policy):
    rows = [("grow", (1, 0)), ("grow", (2, 1)), ("grow", (3, 2))]
    plain = Growing()
    with pytest.raises(IndexError):
        plain.grow(3, 2)
    simulated = Simulated(compile_once(Growing), tmp_path, 1, bad_rows=policy)
    if policy is BadRows.FAIL:
        with pytest.raises(RowError, match="raised IndexError"):
            simulated.epoch(rows)
        return
    simulated.epoch(rows)
    assert simulated.replies() == {0: [1, 2], 1: [1, 2, 1, 2]}


class Full(Program):
    """Changes state in place, and raises each time."""

    seen = Partitioned(Map[int, list[int]])

    @entry
    def put(self, group: int, item: int) -> int:
        self.seen.setdefault(group, []).append(item)
        raise ValueError("full")


def test_to_undo_a_row_costs_the_same_however_many_raise(tmp_path, monkeypatch):
    looked_at = []
    go_back = Memory.go_back

    def counted(self, first, last):
        found = go_back(self, first, last)
        looked_at.append(len(found))
        return found

    monkeypatch.setattr(Memory, "go_back", counted)
    simulated = Simulated(compile_once(Full), tmp_path, 1, bad_rows=BadRows.DEAD_LETTER)
    simulated.epoch([("put", (1, item)) for item in range(1000)])
    assert len(simulated.dead_letters["put"].rows()) == len(looked_at) == 1000
    assert max(looked_at) < 100
