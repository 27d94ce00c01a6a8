"""Rows over several keys: on any partitions and cuts, as plain Python in input order, each row all or nothing."""

from __future__ import annotations

import contextlib
import copy
import random
from collections import Counter as Count

import numpy as np
import pyarrow as pa
import pytest

from millpond import Aborted, List, Map, Partitioned, Program, Set, Value, entry
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.engine.gathered.gatheredplacement import Survey, place_surveyed, placed, survey
from millpond.engine.plan import BadRows
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.engine.task import inorder
from millpond.errors import EpochError, MillpondError
from millpond.graph.model import Dispatch
from tests.sizes import compile_once, sized


class Ledger(Program):
    """Several elements, values that are changed in place, single elements, and other entry points beside."""

    balances = Partitioned(Map[str, int])
    notes = Partitioned(Map[str, list[str]])
    friends = Partitioned(Set[tuple[str, str]])
    total = Partitioned(Value[int])
    log = Partitioned(List[str])
    visits = Partitioned(Map[str, int])

    @entry
    def deposit(self, account: str, amount: int) -> int:
        """One key: joins the others, since they share the element."""
        self.balances[account] = self.balances.get(account, 0) + amount
        return self.balances[account]

    @entry
    def transfer(self, source: str, target: str, amount: int) -> int:
        """Two keys, with a note on each side; refuses and raises after it changed something."""
        self.notes.setdefault(source, []).append(f"-{amount}")
        self.balances[source] = self.balances.get(source, 0) - amount
        if amount < 0:
            raise ValueError(amount)
        self.balances[target] = self.balances.get(target, 0) + amount
        self.notes.setdefault(target, []).append(f"+{amount}")
        if self.balances[source] < -20:
            self.abort(f"{source} has too little")
        return len(self.notes[target])

    @entry
    def befriend(self, one: str, other: str) -> None:
        """A set of pairs."""
        if one == other:
            self.abort("alone")
        self.friends.add((one, other))
        self.friends.add((other, one))
        self.notes.setdefault(one, []).append(other)
        del self.notes[one][:-3]

    @entry
    def share(self, source: str, targets: list[str], amount: int) -> int:
        """A list of keys, an element of a single key, and a log."""
        for target in targets:
            self.balances[target] = self.balances.get(target, 0) + amount
            self.balances[source] = self.balances.get(source, 0) - amount
        self.total.set(self.total.get(0) + amount * len(targets))
        self.log.append(source)
        if not targets:
            raise IndexError("nobody")
        return len(self.log)

    @entry
    def visit(self, page: str) -> int:
        """Not gathered: an element of its own."""
        self.visits[page] = self.visits.get(page, 0) + 1
        return self.visits[page]


PROGRAM = compile_once(Ledger)
NAMES = ["a", "b", "c", "dd", "e", "f", "g", "", "h" * 600, "\x00"]


def drawn(rng, count, names=NAMES):
    rows = []
    for _ in range(count):
        one, other = rng.choice(names), rng.choice(names)
        rows.append(
            rng.choice(
                [
                    ("deposit", (one, rng.randrange(9))),
                    ("transfer", (one, other, rng.choice([1, 5, 30, -1]))),
                    ("befriend", (one, other)),
                    ("share", (one, rng.sample(names, rng.randrange(3)), 2)),
                    ("visit", (one,)),
                ]
            )
        )
    return rows


def by_plain(rows):
    """Replies, refusals, rows left out, and the program: a row that raises is as if it had never been fed."""
    program = Ledger()
    replies, refusals, left_out = {}, {}, []
    for number, (name, arguments) in enumerate(rows):
        trial = copy.deepcopy(program)
        try:
            reply = getattr(trial, name)(*arguments)
        except Aborted as refusal:
            refusals[number] = refusal.reason
            if name == "transfer":
                replies[number] = None
            continue
        except (ValueError, IndexError):
            left_out.append(number)
            continue
        program = trial
        if name != "befriend":
            replies[number] = reply
    return replies, refusals, left_out, program


def by_sequential(rows):
    sequential = Sequential(PROGRAM)
    for name, arguments in rows:
        with contextlib.suppress(Aborted, ValueError, IndexError):
            sequential.call(name, *arguments)
    return sequential.state()


def test_the_entry_points_over_several_keys_are_gathered_and_the_other_is_not():
    kinds = {name: one.tasks[0].dispatch for name, one in PROGRAM.entries.items()}
    assert kinds.pop("visit") is Dispatch.BY_KEY
    assert set(kinds.values()) == {Dispatch.GATHERED}


@pytest.mark.parametrize("seed", range(sized(12, 3)))
@pytest.mark.parametrize("policy", [BadRows.SKIP, BadRows.DEAD_LETTER])
def test_any_partitions_and_cuts_give_what_plain_python_gives(tmp_path, monkeypatch, seed, policy):
    rng = random.Random(seed)
    monkeypatch.setattr(inorder, "CHUNK_ROWS", rng.choice([3, 10, 8192]))
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", rng.choice([2, 64]))
    rows = drawn(rng, 120)
    job = Simulated(PROGRAM, tmp_path, rng.choice([1, 2, 3, 7]), bad_rows=policy)
    at = 0
    while at < len(rows):
        size = rng.choice([1, 5, 40])
        job.epoch(rows[at : at + size])
        at += size
    replies, refusals, left_out, _ = by_plain(rows)
    assert job.replies() == replies
    assert job.refusals() == refusals
    assert read_state(job.storage) == by_sequential(rows)
    counters = job._checkpoint.head.counters
    assert sum(n for name, n in counters.items() if name.startswith("total.bad.")) == len(left_out)
    assert sum(n for name, n in counters.items() if name.startswith("total.aborted.")) == len(refusals)
    if policy is BadRows.DEAD_LETTER:
        letters = Count(row["feed"] for sink in job.dead_letters.values() for row in sink.rows())
        assert letters == Count(rows[number][0] for number in left_out)


def test_the_state_of_the_compiled_program_is_that_of_the_plain_one():
    rows = drawn(random.Random(5), 200)
    sequential = Sequential(PROGRAM)
    for name, arguments in rows:
        with contextlib.suppress(Aborted, ValueError, IndexError):
            sequential.call(name, *arguments)
    plain = by_plain(rows)[3]
    for name in ("balances", "notes"):
        assert dict(sequential._states[name][0].entries) == dict(getattr(plain, name))
    assert list(sequential._states["log"][0].container) == list(plain.log)
    assert sequential._states["total"][0].container.get(0) == plain.total.get(0)


def test_under_the_policy_fail_the_first_row_that_raises_is_told_and_nothing_stays(tmp_path):
    job = Simulated(PROGRAM, tmp_path, 3)
    job.epoch([("deposit", ("a", 5))])
    before = read_state(job.storage)
    rows = [("visit", ("x",)), ("transfer", ("b", "c", -1)), ("transfer", ("d", "e", -2)), ("deposit", ("a", 1))]
    with pytest.raises(MillpondError) as caught:
        job.epoch(rows)
    assert caught.value.code == "MP603"
    assert "ValueError: -1" in str(caught.value)
    assert read_state(job.storage) == before


def test_an_abort_is_no_failure_under_any_policy(tmp_path):
    job = Simulated(PROGRAM, tmp_path, 2)
    job.epoch([("transfer", ("a", "b", 30)), ("transfer", ("a", "b", 3)), ("befriend", ("a", "a"))])
    assert job.refusals() == {0: "a has too little", 2: "alone"}
    assert job.replies() == {0: None, 1: 1}


def table_of(rows):
    columns = {f"f1_{name}": [arguments[at] for _, arguments in rows] for at, name in enumerate(("source", "target"))}
    count = len(rows)
    return pa.table(
        {
            "part": pa.array([0] * count, pa.int32()),
            "feed": pa.array([1] * count, pa.int32()),
            **columns,
            "f1_amount": [1] * count,
        }
    )


def plan_of(tmp_path, partitions):
    return Simulated(PROGRAM, tmp_path, partitions)._plan


def test_rows_that_share_keys_are_placed_together_and_others_are_spread(tmp_path):
    plan = plan_of(tmp_path, 4)
    rows = [("transfer", (f"{pair}-{side}", f"{pair}-{side + 1}", 1)) for pair in range(200) for side in range(3)]
    table = table_of(rows)
    placement = place_surveyed(plan, [survey(plan, table.slice(0, 250)), survey(plan, table.slice(250))])
    assert (placement.surveyed, placement.components, placement.largest) == (600, 200, 3)
    parts = placed(plan, placement, table).column("part").to_numpy()
    assert (parts.reshape(200, 3) == parts.reshape(200, 3)[:, :1]).all()
    assert np.bincount(parts, minlength=4).min() >= 120


def test_a_giant_component_takes_all_rows_to_one_partition(tmp_path):
    plan = plan_of(tmp_path, 4)
    table = table_of([("transfer", ("hub", str(number), 1)) for number in range(100)] + [("transfer", ("x", "y", 1))])
    placement = place_surveyed(plan, [survey(plan, table)])
    assert placement.one is not None
    assert set(placed(plan, placement, table).column("part").to_pylist()) == {placement.one}


@pytest.mark.parametrize("row", [("a0", "b9", 1), ("a0", "new", 1)])
def test_rows_that_were_not_surveyed_are_refused_rather_than_split(tmp_path, row):
    plan = plan_of(tmp_path, 4)
    seen = table_of([("transfer", (f"a{n}", f"b{n}", 1)) for n in range(10)])
    placement = place_surveyed(plan, [survey(plan, seen)])
    assert placement.one is None
    with pytest.raises(EpochError) as caught:
        placed(plan, placement, table_of([("transfer", row)]))
    assert caught.value.code == "MP438"


def test_without_rows_there_is_a_placement_all_the_same(tmp_path):
    assert place_surveyed(plan_of(tmp_path, 4), [Survey()]).one == 0
