"""Windows over all partitions as a program: any cut, partitions, budgets and faults; then processes that are killed."""

from __future__ import annotations

import random
import signal

import pyarrow.parquet as pq
import pytest

import millpond
from millpond import parquet
from millpond.checkpoint.forking import fork
from millpond.compiler.compile import compile_program
from millpond.crashpoints import IN_EPOCHS
from millpond.engine.simulated import Simulated
from millpond.engine.time.eventtime import FeedTime
from millpond.loops import fixpoint
from millpond.loops.exchanged import TOKENS, exchanged_program, steps_of
from millpond.loops.vertices.kinds import VertexKind
from millpond.program.semantics.epoch_time import epoch_time, us_of
from millpond.testing import at, crash, lost_local_state, simulate, torn_write
from millpond.windowing import tumbling
from tests.children import in_child
from tests.programs.looped import START, carried_kind, carried_of, made_up, shown, spread_kind, spread_of
from tests.programs.sharded import Reached

WINDOW = tumbling("10 s")
KINDS = {"spread": (spread_kind, spread_of), "carried": (carried_kind, carried_of)}
ROWS = made_up(7, 30)
COUNT = len(ROWS)
EPOCH_ROWS = 4
CLOCK = 1_700_000_000_000_000


def leaving(run):
    return [shown(row) for fired in run.fired if fired.handler == TOKENS for row in fired.reply]


@pytest.mark.parametrize(("kind", "partitions", "budget"), [("spread", 1, None), ("spread", 3, 1), ("carried", 4, 3)])
def test_any_cut_gives_what_the_oracle_gives(kind, partitions, budget):
    rows = made_up(partitions, 25)
    make, oracle = KINDS[kind]
    cuts = sorted(random.Random(partitions).sample(range(1, len(rows)), 3))
    faults = [
        crash(at="computed", epoch=2),
        torn_write(epoch=3),
        lost_local_state(epoch=4),
        crash(at="written", epoch=4),
    ]
    run = simulate(
        exchanged_program(make(), WINDOW, budget=budget),
        [at(moment, ("add", key, (target,))) for moment, key, target in rows],
        epochs=cuts, partitions=partitions, faults=faults, close=True,
    )  # fmt: skip
    found = leaving(run)
    assert sorted(found) == oracle(rows)
    assert [one[0] for one in found] == sorted(one[0] for one in found), "results leave in the order of event time"
    assert not any(run.state[name] for name in ("shards", "tokens", "starts")), "windows that are over"
    assert not any(run.state["waiting"].values())
    assert set(map(repr, run.state["desks"].values())) == {"(False, {}, {})"}
    assert len(run.faults) == 4


def test_vertices_lie_in_all_partitions():
    edges = [(0, 1), (1, 2), (2, 0), (2, 3), (4, 4), (0, 1)]
    steps = [at(START, ("add", source, (target, 2.0, None))) for source, target in edges]
    steps.append(at(START, ("add", 2, (3, None, True))))
    program = exchanged_program(VertexKind(Reached, fixpoint(), vertex=int), WINDOW)
    run = simulate(program, steps, epochs=2, partitions=3, close=True)
    found = {}
    for row in (row for fired in run.fired if fired.handler == TOKENS for row in fired.reply):
        found.setdefault(row[2], []).append(row[3])
    # The edge from 2 to 3 was removed, two lie between 0 and 1, and nobody comes to 4 but itself.
    assert found == {0: [0.0, 1.0, 2.0], 1: [2.0, 2.0, 1.0], 2: [4.0, 1.0, 1.0], 4: [float("inf"), 1.0, 1.0]}


@pytest.fixture(scope="module")
def compiled():
    # One round in an epoch: whenever a process dies, iterations are under way.
    return compile_program(exchanged_program(carried_kind(), WINDOW, budget=1))


def go_on(compiled, folder, partitions, until=COUNT):
    with epoch_time(CLOCK * 2):
        simulated = Simulated(
            compiled, folder, partitions, key_groups=8, sinks={TOKENS: parquet(folder / "out")},
            event_time={"add": FeedTime(0, 0, None)}, steps_max=steps_of(1),
        )  # fmt: skip
    while simulated.fed < until:
        told = ROWS[simulated.fed : simulated.fed + EPOCH_ROWS]
        with epoch_time(CLOCK + simulated.fed * 1_000_000):
            rows = [("add", (key, (target,))) for _, key, target in told]
            last = simulated.fed + len(told) == COUNT
            simulated.epoch(rows, [us_of(moment) for moment, _, _ in told], ends=last)
    return simulated


def results(*folders):
    tables = [pq.read_table(path).to_pylist() for folder in folders for path in (folder / "out").glob("*.parquet")]
    return sorted(shown(tuple(part.values())) for rows in tables for row in rows for part in row["reply"])


CASES = [(6 + place % 9, point) for place, point in enumerate(IN_EPOCHS[1:])]
FEW = ("epoch.computed", "manifest.linked")
"""Where processes die in every run of the tests; elsewhere they do in campaigns."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("times", "point"),
    [pytest.param(*case, marks=() if case[1] in FEW else pytest.mark.campaign) for case in CASES],
)
def test_a_process_killed_in_mid_iteration_is_followed_by_one_with_twice_as_many_partitions(
    tmp_path, compiled, times, point
):
    assert in_child(lambda: go_on(compiled, tmp_path, 2), f"{point}:{times}") in (-signal.SIGKILL, 0)
    go_on(compiled, tmp_path, 4)
    assert results(tmp_path) == carried_of(ROWS)


@pytest.mark.slow
def test_a_fork_in_mid_iteration_goes_on_as_its_source_does(tmp_path, compiled):
    base, forked = tmp_path / "base", tmp_path / "forked"
    go_on(compiled, base, 2, until=5 * EPOCH_ROWS)
    shards = dict(millpond.open(base / "checkpoint")["shards"].items())
    assert len(shards) == 16, "it is looked at in mid-iteration"
    fork(base / "checkpoint", forked / "checkpoint")
    first = results(base)
    go_on(compiled, forked, 3)
    assert sorted(first + results(forked)) == carried_of(ROWS)
