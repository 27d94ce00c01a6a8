"""A row that raises costs that row: it leaves no trace, in whatever kind of state, at whatever step, in any number."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from millpond.engine import simulated
from millpond.engine.plan import BadRows
from millpond.engine.simulated import Simulated
from millpond.engine.task import inorder
from millpond.engine.time.eventtime import FeedTime
from millpond.errors import Aborted, RowError
from millpond.program.semantics.epoch_time import event_time
from tests.chance import SEED, seed_of
from tests.programs.keyed import committed_state
from tests.programs.raising import (
    HANDLERS,
    PROGRAMS,
    SECOND,
    Chain,
    Hops,
    Kinds,
    Loops,
    Moves,
    Pairs,
    Timed,
    Vague,
    rows_of,
)
from tests.sizes import compile_once, sized

WIDE = pytest.mark.campaign
POLICIES = (BadRows.SKIP, BadRows.DEAD_LETTER)
START = 1_700_000_000 * SECOND


def times_of(program, rows):
    """Every row a little later than the one before, if the program goes by event time."""
    return [START + at * SECOND // 3 for at in range(len(rows))] if program is Timed else []


def truth(program, rows):
    """What plain Python makes of rows, each all or nothing: replies and refusals by number, and the rows that raise.

    It trusts nobody to undo: after a row that raises, a fresh instance runs the good rows from the beginning.
    """
    times = times_of(program, rows)

    def call(plain, at):
        name, arguments = rows[at]
        if not times:
            return getattr(plain, name)(*arguments)
        with event_time(times[at]):
            return getattr(plain, name)(*arguments)

    plain, good, replies, refused, raised = program(), [], {}, {}, []
    for at in range(len(rows)):
        try:
            reply = call(plain, at)
        except Aborted as abort:
            refused[at], replies[at] = abort.reason, None
        except Exception:  # noqa: BLE001 - whatever a row raises, it is left out
            raised.append(at)
            plain = program()
            for before in good:
                call(plain, before)
        else:
            good.append(at)
            if program.entries()[rows[at][0]].replies:
                replies[at] = reply
    return replies, refused, raised


def run(program, folder, epochs, times, partitions, **options):
    """Run epochs of rows, and say what became of them."""
    made = Simulated(
        compile_once(program),
        folder,
        partitions,
        key_groups=32,
        instances=4,
        event_time=FeedTime(lateness_us=None) if program is Timed else None,
        **options,
    )
    outcome = None
    for rows in epochs:
        outcome = made.epoch(rows, times[: len(rows)])
        times = times[len(rows) :]
    return made, outcome


def handled(made):
    """What handlers replied."""
    return {name: [row["reply"] for row in made.sinks[name].rows()] for name in sorted(HANDLERS & set(made.sinks))}


def cut(rows, dice):
    ends = sorted(dice.sample(range(1, len(rows)), dice.randrange(3)))
    return [rows[first:last] for first, last in zip([0, *ends], [*ends, len(rows)], strict=True)]


@pytest.mark.parametrize("seed", [*range(sized(2, 1)), *(pytest.param(n, marks=WIDE) for n in range(100, 200))])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_that_raise_are_as_if_they_had_never_been_fed(tmp_path, monkeypatch, name, share, seed):
    # A campaign has a seed of its own.
    drawn = seed_of(f"raising {seed}") if SEED else seed
    program, dice = PROGRAMS[name], random.Random(f"{name} {drawn} {share}")
    rows = rows_of(program, drawn, 120, share)
    times = times_of(program, rows)
    replies, refused, raised = truth(program, rows)
    assert raised or share < 0.1 or SEED, "rows out of a campaign's seed may all be good ones"
    monkeypatch.setattr(inorder, "CHUNK_ROWS", dice.choice([4, 40, 8192]))
    monkeypatch.setattr(inorder, "KNOW_ROWS", dice.choice([1, 3, 32]))
    policy, partitions = dice.choice(POLICIES), dice.choice([1, 2, 3])
    epochs = cut(rows, dice)
    made, outcome = run(program, tmp_path / "all", epochs, times, partitions, bad_rows=policy)
    if program is not Timed:
        # Timers fire where epochs end.
        assert (made.replies(), made.refusals()) == (replies, refused)
    counters = outcome.manifest.counters
    fed = {key: count for key, count in counters.items() if key.startswith("total.fed.")}
    assert sum(count for key, count in fed.items() if key[10:] not in HANDLERS) == len(rows) - len(raised)
    assert sum(count for key, count in counters.items() if key.startswith("total.bad.")) == len(raised)
    letters = [letter for sink in made.dead_letters.values() for letter in sink.rows()]
    if policy is BadRows.DEAD_LETTER:
        assert sorted(letter["order_by"] for letter in letters) == raised
    # The same without these rows, in the same epochs, must come to the same state.
    numbers = iter(range(len(rows)))
    good = [[row for row in epoch if next(numbers) not in raised] for epoch in epochs]
    left = [time for at, time in enumerate(times) if at not in raised]
    alone, _ = run(program, tmp_path / "good", good, left, partitions, bad_rows=BadRows.FAIL)
    assert committed_state(tmp_path / "all" / "checkpoint") == committed_state(tmp_path / "good" / "checkpoint")
    assert handled(made) == handled(alone)
    numbered = [at for at in range(len(rows)) if at not in raised]
    assert made.replies() == {numbered[at]: reply for at, reply in alone.replies().items()}


@pytest.fixture
def attempts(monkeypatch):
    """How often epochs were run."""
    counted = []
    run_in_one_task = simulated.run_in_one_task
    monkeypatch.setattr(simulated, "run_in_one_task", lambda *given: (counted.append(1), run_in_one_task(*given))[1])
    return counted


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("program", [Kinds, Pairs])
def test_rows_of_one_step_and_gathered_rows_are_left_out_in_the_only_run(tmp_path, attempts, program, policy):
    rows = rows_of(program, 1, 3000, 0.5)
    made, outcome = run(program, tmp_path, [rows], [], 2, bad_rows=policy)
    assert len(attempts) == 1
    bad = sum(count for key, count in outcome.manifest.counters.items() if key.startswith("total.bad."))
    assert bad > 1000
    assert len(made.replies()) == len(rows) - bad


@pytest.mark.parametrize("policy", POLICIES)
def test_rows_that_raise_after_a_move_send_the_epoch_back_once_however_many_there_are(tmp_path, attempts, policy):
    rows = [("go", (at % 50, -1 if at % 3 else 1)) for at in range(3000)]
    plain = Hops()
    made, outcome = run(Hops, tmp_path, [rows], [], 2, bad_rows=policy)
    assert len(attempts) == 2
    assert outcome.manifest.counters["total.bad.go"] == 2000
    assert made.replies() == {at: plain.go(*arguments) for at, (_, arguments) in enumerate(rows) if arguments[1] > 0}


def test_rows_that_raise_because_of_rows_that_raise_take_more_runs_but_not_one_for_each(tmp_path, attempts):
    rows = rows_of(Moves, 5, 400, 0.2)
    replies, _, raised = truth(Moves, rows)
    made, _ = run(Moves, tmp_path, [rows], [], 3, bad_rows=BadRows.SKIP)
    assert made.replies() == replies
    assert len(attempts) < len(raised) / 2


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("policy", POLICIES)
def test_rows_that_raise_because_of_each_other_are_run_uncut_where_they_can_be(tmp_path, attempts, policy, partitions):
    dice = random.Random(partitions)
    rows = [("go", (dice.randrange(4), dice.randrange(4))) for _ in range(300)]
    replies, _, raised = truth(Chain, rows)
    made, outcome = run(Chain, tmp_path, [rows[:100], rows[100:]], [], partitions, bad_rows=policy)
    assert made.replies() == replies
    assert outcome.manifest.counters["total.bad.go"] == len(raised) > 50
    assert len(attempts) <= 2 * 3, "two epochs: one run to find them, one to try them, one uncut"


def test_no_row_that_does_not_raise_costs_a_run(tmp_path, attempts):
    rows = [row for row in rows_of(Loops, 1, 50, 0) if len(row[1][2]) < 1]
    run(Loops, tmp_path, [rows], [], 2, bad_rows=BadRows.SKIP)
    assert len(attempts) == 1


# --- feeds that fail beside feeds that do not


def test_a_row_that_fails_only_because_of_one_that_is_left_out_does_not_fail_the_run(tmp_path):
    # The first row leaves one item behind at its second step, and raises at its third: so the look finds none.
    rows = [("go", (1, -3)), ("look", (3, -1)), ("look", (3, 1))]
    policies = {"go": BadRows.SKIP, "look": BadRows.FAIL}
    made, _ = run(Moves, tmp_path, [rows], [], 2, bad_rows=policies)
    assert made.replies() == {1: 0, 2: 0}


def test_a_row_that_may_not_fail_fails_the_run_with_what_plain_python_raises(tmp_path):
    rows = [("go", (1, -3)), ("go", (1, 2)), ("look", (3, -1)), ("look", (3, -2))]
    policies = {"go": BadRows.SKIP, "look": BadRows.FAIL}
    with pytest.raises(RowError, match="1 are odd") as caught:
        run(Moves, tmp_path, [rows], [], 2, bad_rows=policies)
    assert caught.value.code == "MP603"
    assert "n=-1" in str(caught.value)


@pytest.mark.parametrize("partitions", [1, 3])
def test_of_equal_rows_the_right_one_is_left_out(tmp_path, partitions):
    rows = [("go", (1, 0)) for _ in range(30)]
    replies, _, raised = truth(Moves, rows)
    assert raised
    made = Unnumbered(compile_once(Moves), tmp_path, partitions, bad_rows=BadRows.SKIP)
    outcome = made.epoch(rows)
    assert outcome.manifest.counters["total.bad.go"] == len(raised)
    assert sorted(made.sinks["go"].rows(), key=str) == sorted(
        ({"row": 0, "reply": one} for one in replies.values()), key=str
    )


class Unnumbered(Simulated):
    """Rows that all have the same place in the input."""

    def _batch_of(self, fed, partition, chosen):
        batch = super()._batch_of(fed, partition, chosen)
        for at, name in enumerate(batch.schema.names):
            if name == "ord" or name.startswith("k"):
                batch = batch.set_column(at, name, pa.array([0] * batch.num_rows, pa.int64()))
        return batch


# --- what a dead letter says


def test_a_dead_letter_has_the_row_its_place_the_epoch_and_the_lines_of_the_user(tmp_path):
    rows = [("append", (1, 5)), ("append", (2, -7))]
    made, _ = run(Timed, tmp_path, [rows[:1], rows[1:]], [START, START + 9], 2, bad_rows=BadRows.DEAD_LETTER)
    (letter,) = made.dead_letters["append"].rows()
    (line,) = letter.pop("lines")
    assert line.partition("raising.py:")[2].partition(" in ")[2] == 'append: raise ValueError(f"not {n}")'
    assert letter.pop("event_time") == datetime(2023, 11, 14, 22, 13, 20, 9, UTC)
    assert letter == {
        "feed": "append",
        "entry": "append",
        "reason": "entry point `append` raised ValueError: not -7",
        "row": '{"key": 2, "n": -7, "row": 1}',
        "source": None,
        "position": 0,
        "order_by": 1,
        "epoch": 2,
        "exception": "ValueError",
    }


def test_the_reason_is_what_the_row_raises_without_the_rows_that_are_left_out(tmp_path):
    # In the first run the look finds two: one of a row that is left out later.
    rows = [("go", (1, 2)), ("go", (1, -3)), ("look", (3, -1))]
    policies = dict.fromkeys(("go", "look"), BadRows.DEAD_LETTER)
    made, _ = run(Moves, tmp_path, [rows], [], 2, bad_rows=policies)
    assert [one["reason"] for one in made.dead_letters["look"].rows()] == [
        "entry point `look` raised ValueError: 1 are odd"
    ]
    assert [one["exception"] for one in made.dead_letters["go"].rows()] == ["ZeroDivisionError"]


def test_an_exception_whose_text_differs_each_time_is_told_and_ends(tmp_path, attempts):
    made, _ = run(Vague, tmp_path, [[("go", (1,)), ("go", (2,))]], [], 1, bad_rows=BadRows.DEAD_LETTER)
    assert made.replies() == {1: 1}
    assert len(attempts) <= 3
    (letter,) = made.dead_letters["go"].rows()
    assert "object at 0x" in letter["reason"]
