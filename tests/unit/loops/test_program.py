"""Iterations over windows as a program: any cut, partitions, budgets and faults; late rows; the order of results."""

from __future__ import annotations

import random

import pytest

from millpond.errors import LoopError
from millpond.loops import Loop, fixpoint, state
from millpond.loops.kinds import LoopKind
from millpond.loops.program import gathered_rows, loop_program
from millpond.testing import assert_equals_plain, at, crash, lost_local_state, simulate, torn_write
from millpond.windowing import sliding, tumbling
from tests.programs.looped import carried_kind, carried_of, made_up, shown, spread_kind, spread_of

KINDS = {"spread": (spread_kind, spread_of), "carried": (carried_kind, carried_of)}
WINDOW = tumbling("10 s")


def run_of(kind, rows, epochs, *, budget=None, lateness="0 s", disorder="0 s", partitions=2, faults=(), close=True):
    program = loop_program(KINDS[kind][0](), WINDOW, budget=budget, lateness=lateness)
    steps = [at(moment, ("add", key, (target,))) for moment, key, target in rows]
    return simulate(
        program, steps, epochs=epochs, partitions=partitions, faults=faults, close=close, lateness=lateness,
        disorder=disorder,
    )  # fmt: skip


def results(run):
    return [shown(row) for fired in run.fired for row in fired.reply]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("seed", "budget"), [(0, None), (1, 1), (2, 3)])
def test_any_cut_gives_what_the_oracle_gives(kind, seed, budget):
    rows = made_up(seed, 60)
    draw = random.Random(seed)
    cuts = sorted(draw.sample(range(1, len(rows)), 1 + seed * 2))
    run = run_of(kind, rows, cuts, budget=budget, partitions=1 + seed)
    found = results(run)
    assert sorted(found) == KINDS[kind][1](rows)
    assert [one[0] for one in found] == sorted(one[0] for one in found), "results leave in the order of event time"
    assert_equals_plain(run)


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("offered", "spread"),
        ("computed", "carried"),
        ("written", "spread"),
        ("committed", "carried"),
        ("published", "carried"),
    ],
)
def test_an_iteration_goes_on_after_a_crash(where, kind):
    rows = made_up(7, 50)
    faults = [crash(at=where, epoch=3), torn_write(epoch=5), lost_local_state(epoch=6), crash(at=where, epoch=8)]
    run = run_of(kind, rows, 8, budget=1, partitions=3, faults=faults)
    assert len(run.faults) == 4
    assert sorted(results(run)) == KINDS[kind][1](rows)
    # Between epochs there were contexts in mid-iteration, with messages under way.
    assert run.starts >= 4


def test_a_context_in_mid_iteration_is_state():
    rows = made_up(2, 60, seconds=10)
    run = run_of("spread", [*rows, (rows[-1][0].replace(second=15), 1, 2)], [len(rows)], budget=1, close=False)
    ((running, _, done, _, _),) = run.state["lanes"].values()
    ((number, ended, keys, quiet, inbox, _),) = running.values()
    assert (number, ended, quiet, done) == (1, False, [], {})
    assert keys
    assert inbox
    assert results(run) == []


def corrected(run):
    """What a table of results holds in the end: all rows of a window take the place of those before."""
    table = {}
    for fired in run.fired:
        fresh = {}
        for row in fired.reply:
            *cells, change = shown(row)
            fresh.setdefault((cells[0], change), []).append(tuple(cells))
        for (window, change), cells in fresh.items():
            assert change == ("correct" if window in table else "tell")
            table[window] = cells
    return sorted(cell for cells in table.values() for cell in cells)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("seed", "budget"), [(0, None), (1, 2)])
def test_late_rows_let_windows_begin_anew(kind, seed, budget):
    rows = made_up(seed, 60, disorder=25)
    run = run_of(kind, rows, 9, budget=budget, lateness="1 minute", partitions=2)
    changes = {row[-1] for fired in run.fired for row in fired.reply}
    assert "tell" in changes
    assert corrected(run) == KINDS[kind][1](rows)
    assert_equals_plain(run)
    assert budget is not None or "correct" in changes


def test_windows_may_overlap():
    rows = made_up(4, 40)
    program = loop_program(spread_kind(), sliding("10 s", "5 s"))
    run = simulate(program, [at(moment, ("add", key, (target,))) for moment, key, target in rows], epochs=4, close=True)
    found = [row for fired in run.fired for row in fired.reply]
    full = [row for row in found if row[0].second % 10 == 0]
    assert sorted(map(shown, full)) == spread_of(rows)
    assert len({row[0] for row in found}) > len({row[0] for row in full})


def test_nothing_is_kept_of_windows_that_are_over():
    run = run_of("spread", made_up(1, 40), 5)
    assert {name: run.state[name] for name in ("entered", "lanes", "turns")} == {
        "entered": {},
        "lanes": {},
        "turns": {},
    }


def test_gathered_rows_are_all_there_however_they_are_combined():
    rows = gathered_rows(int)
    parts = [rows.lift({"row": number}) for number in range(100)]
    draw = random.Random(3)
    while len(parts) > 1:
        place = draw.randrange(len(parts) - 1)
        parts[place : place + 2] = [rows.combine(parts[place], parts[place + 1])]
    assert sorted(rows.lower(parts[0])) == list(range(100))
    chunks = rows.identity
    for number in range(1000):
        chunks = rows.combine(chunks, rows.lift({"row": number}))
    assert len(chunks) <= 10


class Untyped(Loop):
    x = state(0)

    def finalize(self) -> int:
        return 1


class Unnamed(Loop):
    def step(self, messages: list[int]) -> None:
        pass

    def finalize(self) -> tuple[int, int]:
        return 1, 2


@pytest.mark.parametrize("loop", [Untyped, Unnamed, Loop])
def test_types_that_are_missing_are_asked_for(loop):
    with pytest.raises(LoopError) as caught:
        LoopKind(loop, fixpoint(), key=int, columns={"target": int})
    assert caught.value.code == "MP855"


@pytest.mark.parametrize("budget", [0, -1, 1.5, True])
def test_what_is_no_budget_is_refused(budget):
    with pytest.raises(LoopError) as caught:
        loop_program(spread_kind(), WINDOW, budget=budget)
    assert caught.value.code == "MP858"
