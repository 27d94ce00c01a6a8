"""Any number of rows of a relaxed program may raise after a move: they leave nothing, and few runs find that out."""

from __future__ import annotations

import random

import pytest

from millpond import Map, Partitioned, Program, entry
from millpond.engine import failures, simulated
from millpond.engine.plan import BadRows, Level
from millpond.engine.simulated import Simulated
from millpond.errors import RowError
from tests.property.relaxed_oracle import Relaxed
from tests.sizes import compile_once, sized

POLICIES = (BadRows.SKIP, BadRows.DEAD_LETTER)


class Seats(Program):
    """Keys follow from what rows say; whether a row raises, from what it says and what it finds."""

    taken = Partitioned(Map[int, int])
    trips = Partitioned(Map[int, list[int]])

    @entry(relaxed=True)
    def book(self, user: int, seats: list[int], n: int) -> int:
        got = 0
        for seat in seats:
            owner = self.taken.get(seat, 0)
            self.taken[seat] = owner + 1
            got += owner
        held = self.trips.setdefault(user, [])
        held.append(got)
        if n < 0 or got % 5 == 4:
            raise ValueError(f"{n} and {got}")
        return len(held)

    @entry(relaxed=True)
    def back(self, user: int, seats: list[int], n: int) -> int:
        held = self.trips.setdefault(user, [])
        held.append(n)
        for seat in seats:
            self.taken[seat] = self.taken.get(seat, 0) - 1
        if n < 0:
            raise KeyError(user)
        return n


class Winding(Program):
    """Keys follow from state: such rows can't be brought together."""

    first = Partitioned(Map[int, int])
    second = Partitioned(Map[int, int])

    @entry(relaxed=True)
    def go(self, key: int, n: int) -> int:
        there = self.first.get(key, 0)
        self.first[key] = there + 1
        met = self.second.get(there, 0) + 1
        self.second[there] = met
        self.first[met + 10] = self.first.get(met + 10, 0) + 1
        if n < 0:
            raise ValueError(f"not {n}")
        return met


@pytest.fixture
def attempts(monkeypatch):
    """How often epochs were run."""
    counted = []
    run_in_one_task = simulated.run_in_one_task
    monkeypatch.setattr(simulated, "run_in_one_task", lambda *given: (counted.append(1), run_in_one_task(*given))[1])
    return counted


def plain_run(program, rows):
    """Replies by number, and the rows that raise, in input order: after one that raises, all good ones run anew."""
    plain, good, replies, raised = program(), [], {}, []
    for at, (name, arguments) in enumerate(rows):
        try:
            replies[at] = getattr(plain, name)(*arguments)
            good.append(at)
        except (ValueError, KeyError):
            raised.append(at)
            plain = program()
            for before in good:
                getattr(plain, rows[before][0])(*rows[before][1])
    return replies, raised


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("policy", POLICIES)
def test_rows_that_can_be_brought_together_are_run_in_order_in_a_second_run(tmp_path, attempts, policy, partitions):
    dice = random.Random(partitions)
    rows = [
        (dice.choice(["book", "back"]), (dice.randrange(5), dice.sample(range(6), 2), dice.randrange(-2, 3)))
        for _ in range(sized(400, 150))
    ]
    replies, raised = plain_run(Seats, rows)
    assert len(raised) > 40
    made = Simulated(compile_once(Seats), tmp_path / "all", partitions, key_groups=16, bad_rows=policy)
    counters = made.epoch(rows).manifest.counters
    assert len(attempts) == 2
    assert made.replies() == replies
    assert sum(count for key, count in counters.items() if key.startswith("total.bad.")) == len(raised)
    letters = [letter for sink in made.dead_letters.values() for letter in sink.rows()]
    assert sorted(letter["order_by"] for letter in letters) == (raised if policy is BadRows.DEAD_LETTER else [])
    # Epochs in which no row raises stay relaxed.
    made.epoch([("back", (1, [2, 3], 5))])
    assert len(attempts) == 3


@pytest.mark.parametrize("partitions", [1, 3])
def test_rows_that_can_not_be_brought_together_run_in_sequence_in_a_second_run(tmp_path, attempts, partitions):
    rows = [("go", (at % 7, -1 if at % 4 else 1)) for at in range(1500)]
    replies, raised = plain_run(Winding, rows)
    made = Simulated(compile_once(Winding), tmp_path, partitions, key_groups=16, bad_rows=BadRows.DEAD_LETTER)
    outcome = made.epoch(rows)
    assert outcome.manifest.counters["total.bad.go"] == len(raised) > 1000
    assert len(attempts) == 2
    assert made.replies() == replies


@pytest.mark.parametrize("partitions", [1, 3])
def test_any_number_of_rows_is_left_out_where_epochs_must_be_computed_in_one_way(tmp_path, attempts, partitions):
    rows = [("go", (at % 7, -1 if at % 4 else 1)) for at in range(1500)]
    compiled, replay = compile_once(Winding), Level.REPLAY
    folder = tmp_path / "all"
    made = Simulated(compiled, folder, partitions, key_groups=16, bad_rows=BadRows.DEAD_LETTER, durability=replay)
    outcome = made.epoch(rows)
    good = [at for at in range(len(rows)) if at % 4 == 0]
    assert outcome.manifest.counters["total.bad.go"] == len(rows) - len(good) > 1000
    assert len(attempts) <= failures.SUSPECTS_MAX + 4
    alone = Simulated(compiled, tmp_path / "good", partitions, key_groups=16, durability=replay)
    alone.epoch([rows[at] for at in good])
    assert made.replies() == {good[at]: reply for at, reply in alone.replies().items()}


@pytest.mark.parametrize("seed", range(sized(12, 4)))
def test_what_is_left_is_an_order_of_the_good_rows(tmp_path, seed):
    dice = random.Random(seed)
    rows = [("go", (dice.randrange(2), dice.choice([-1, 1]))) for _ in range(6)]
    good = [row for row in rows if row[1][1] > 0]
    made = Simulated(compile_once(Winding), tmp_path, 2, key_groups=8, bad_rows=BadRows.SKIP)
    made.epoch(rows)
    allowed = {result.partition("], {")[0] for result in Relaxed(Winding, good).allowed()}
    assert repr(([reply for _, reply in sorted(made.replies().items())],))[:-3] in allowed


def test_a_row_that_may_not_fail_fails_the_run(tmp_path):
    rows = [("book", (1, [2, 3], 1)), ("back", (1, [2, 3], -1))]
    policies = {"book": BadRows.SKIP, "back": BadRows.FAIL}
    with pytest.raises(RowError, match="KeyError: 1") as caught:
        Simulated(compile_once(Seats), tmp_path, 2, bad_rows=policies).epoch(rows)
    assert caught.value.code == "MP603"
