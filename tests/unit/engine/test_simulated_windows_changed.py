"""Other windows for a handler at a restart, one rule at a time."""

from __future__ import annotations

import operator
from datetime import timedelta

import pytest

from millpond import Program, entry, on_window
from millpond.checkpoint.recovery import last_manifest, read_genesis
from millpond.engine.simulated import Simulated
from millpond.engine.time.eventtime import FeedTime
from millpond.errors import MillpondError
from millpond.testing import epoch_time
from millpond.windowing import (
    ClosedWindow,
    aggregate,
    argmax,
    collect,
    count,
    count_tumbling,
    distinct_count,
    last_every,
    last_of,
    max_of,
    measured,
    punctuation,
    quantiles_of,
    session,
    sum_of,
    top_k,
    tumbling,
    user_defined,
    variance_of,
)
from tests.programs.timed import live_state
from tests.sizes import compile_once

SECOND = 1_000_000
FIVE, TEN, THIRTY = (timedelta(seconds=seconds) for seconds in (5, 10, 30))
TOTAL = {"total": sum_of("n")}


def program(windows, aggregates=None, lateness=timedelta()):
    class Changes(Program):
        @entry
        def put(self, key: str, n: int) -> None:
            self.told.add(key, n=n, m=n)

        @on_window(windows, lateness=lateness, **(aggregates or TOTAL))
        def told(self, key: str, closed: list[ClosedWindow]) -> list[str]:
            return [f"{one.name} {bound(one.begin)} {list(one.values.values())}" for one in closed]

    return compile_once(Changes)


def bound(begin):
    return begin if isinstance(begin, int) else int(begin.timestamp())


def run(folder, compiled, rows, **options):
    """Start a program, feed a key rows of a time and a number, an epoch each; what it is told."""
    simulated = Simulated(compiled, folder, key_groups=8, event_time={"put": FeedTime()}, **options)
    for seconds, n in rows:
        with epoch_time(SECOND):
            simulated.epoch([("put", ("a", n))], [seconds * SECOND])
    return [line for row in simulated.sinks["told"].rows() for line in row["reply"]]


def entries(simulated):
    """How many entries there are, by what is counted."""
    _, hashed = read_genesis(simulated.storage)
    return last_manifest(simulated.storage, hashed)[0].counters["total.entries"]


def test_a_window_goes_on_under_another_name_beside_one_that_came(tmp_path):
    assert run(tmp_path, program(tumbling(TEN)), [(1, 1), (2, 2)]) == []
    both = {"ten": tumbling(TEN), "five": tumbling(FIVE)}
    assert run(tmp_path, program(both), [(4, 4), (5, 8), (12, 16), (60, 0)]) == [
        "ten 0 [15]",
        "five 5 [8]",
        "five 10 [16]",
        "ten 10 [16]",
    ]


def test_a_window_that_went_is_told_no_more_and_begins_anew_when_it_comes_back(tmp_path):
    both = {"ten": tumbling(TEN), "thirty": tumbling(THIRTY)}
    assert run(tmp_path, program(both), [(1, 1)]) == []
    assert run(tmp_path, program(tumbling(TEN)), [(12, 2), (21, 4)]) == [" 0 [1]", " 10 [2]"]
    assert run(tmp_path, program(both), [(35, 8), (61, 16), (100, 0)]) == [
        "ten 20 [4]",
        "ten 30 [8]",
        "thirty 30 [8]",
        "ten 60 [16]",
        "thirty 60 [16]",
    ]


def test_a_session_that_came_is_told_if_no_row_before_it_can_belong_to_it(tmp_path):
    assert run(tmp_path, program({"ten": tumbling(TEN)}), [(8, 1)]) == []
    both = {"ten": tumbling(TEN), "visit": session(FIVE)}
    told = run(tmp_path, program(both), [(12, 2), (13, 4), (18, 8), (90, 0)])
    assert [line for line in told if line.startswith("visit")] == ["visit 18 [8]"]


def test_without_event_time_windows_that_came_begin_after_the_last_epoch(tmp_path):
    def fed(compiled, *seconds):
        simulated = Simulated(compiled, tmp_path, key_groups=8)
        for second in seconds:
            with epoch_time(second * SECOND):
                simulated.epoch([("put", ("a", second))])
        return [line for row in simulated.sinks["told"].rows() for line in row["reply"]]

    assert fed(program({"ten": tumbling(TEN)}), 1, 6) == []
    both = {"ten": tumbling(TEN), "five": tumbling(FIVE)}
    assert fed(program(both), 8, 11, 21) == ["ten 0 [15]", "five 10 [11]", "ten 10 [11]"]


def test_if_no_window_stays_nothing_is_kept_and_all_else_may_change(tmp_path):
    run(tmp_path, program({"ten": tumbling(TEN), "visit": session(FIVE)}), [(1, 1)])
    counted = program(count_tumbling(2), {"last": last_of("m"), "top": max_of("n")})
    simulated = Simulated(counted, tmp_path, key_groups=8, event_time={"put": FeedTime()})
    assert (live_state(simulated.storage), entries(simulated)) == ({}, 0)
    assert run(tmp_path, counted, [(2, 2), (3, 1), (4, 7), (5, 7)]) == [
        " 0 [1, 2]",
        " 2 [7, 7]",
    ]


def test_windows_over_records_begin_with_the_first_that_they_see(tmp_path):
    last = {"last": last_of("n")}
    before = {"two": count_tumbling(2)}
    assert run(tmp_path, program(before, last), [(1, 1)]) == []
    after = {
        "km": measured(by_n, 10),
        "mark": punctuation(is_seven),
        "two": count_tumbling(2),
        "three": count_tumbling(3),
        "own": user_defined(pairs, 0),
    }
    rows = [(2, 2), (3, 7), (4, 9), (5, 12), (6, 23), (7, 23)]
    assert sorted(run(tmp_path, program(after, last), rows)) == [
        "km 10 [12]",
        "mark 1 [2]",
        "own 1 [7]",
        "own 3 [12]",
        "three 0 [9]",
        "three 3 [23]",
        "two 0 [2]",
        "two 2 [9]",
        "two 4 [23]",
    ]


def by_n(record):
    return record["n"]


def is_seven(record):
    return record["n"] == 7


def pairs(seen, _moment):
    return int(seen % 2 == 0), int(seen >= 2 and seen % 2 == 0), seen + 1


@pytest.mark.parametrize(
    ("windows", "aggregates", "options", "why"),
    [
        (tumbling(TEN), {**TOTAL, "many": count()}, {}, "open windows know nothing of `many`"),
        (tumbling(TEN), {"total": sum_of("m")}, {}, "open windows know another `total`"),
        ({"ten": tumbling(TEN), "two": count_tumbling(2)}, TOTAL, {}, "now needs them in order"),
        ({"ten": tumbling(TEN), "visit": session(TEN)}, TOTAL, {"lateness": FIVE}, "`visit` a handler of its own"),
    ],
)
def test_what_cant_go_on_is_refused_with_both_sides_and_changes_nothing(tmp_path, windows, aggregates, options, why):
    run(tmp_path, program(tumbling(TEN)), [(1, 1)])
    with pytest.raises(MillpondError, match="MP441") as caught:
        run(tmp_path, program(windows, aggregates, **options), [])
    assert why in str(caught.value)
    assert "checkpoint  Regular(range=10000000, slide=10000000, origin=0) over time; total=sum(n)" in str(caught.value)
    assert run(tmp_path, program(tumbling(TEN)), [(2, 2), (11, 4)]) == [" 0 [3]"]


def own(identity, combine, **options):
    return aggregate(lift=by_n, combine=combine, lower=int, identity=identity, partial_type=int, **options)


OTHERS = {
    "collect": (collect("n"), collect("m")),
    "collect by a function": (collect("n"), collect(by_n)),
    "top by": (top_k(3, "n", "n"), top_k(3, "m", "n")),
    "top of": (top_k(3, "n", "n"), top_k(3, "n", "m")),
    "top k": (top_k(3, "n", "n"), top_k(4, "n", "n")),
    "argmax by": (argmax("n", "n"), argmax("m", "n")),
    "argmax of": (argmax("n", "m"), argmax("m", "n")),
    "distinct": (distinct_count("n"), distinct_count("m")),
    "distinct buckets": (distinct_count("n"), distinct_count("n", log2_buckets=10)),
    "quantiles": (quantiles_of([0.5], "n"), quantiles_of([0.5], "m")),
    "quantiles ranks": (quantiles_of([0.5], "n"), quantiles_of([0.9], "n")),
    "quantiles compression": (quantiles_of([0.5], "n"), quantiles_of([0.5], "n", compression=50)),
    "variance": (variance_of("n"), variance_of("n", sample=True)),
    "variance of": (variance_of("n"), variance_of("m")),
    "integers": (sum_of("n"), sum_of("n", integers=True)),
    "own identity": (own(0, max), own(1, operator.mul)),
    "own name": (own(0, max, name="most"), own(0, min, name="least")),
    "own order": (own(0, max), own(0, max, commutative=True)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_an_aggregate_that_reads_or_computes_something_else_is_refused(tmp_path, name):
    before, after = ({"x": one} for one in OTHERS[name])
    run(tmp_path, program(tumbling(TEN), before), [(1, 1)])
    with pytest.raises(MillpondError, match="MP441"):
        run(tmp_path, program(tumbling(TEN), after), [])
    told = run(tmp_path, program(tumbling(TEN), before), [(2, 2), (11, 4)])
    assert len(told) == 1


def test_a_view_of_other_records_is_another_window(tmp_path):
    first = {"last": last_of("n")}
    assert run(tmp_path, program({"v": last_every(1, TEN)}, first), [(1, 1), (2, 2)]) == []
    assert run(tmp_path, program({"v": last_every(2, TEN)}, first), [(3, 3), (11, 4), (12, 5)]) == ["v 0 [3]"]


def test_rows_that_waited_in_order_are_not_made_slices(tmp_path):
    run(tmp_path, program({"two": count_tumbling(2), "ten": tumbling(TEN)}), [(1, 1)])
    with pytest.raises(MillpondError, match="nothing needs that any more"):
        run(tmp_path, program({"ten": tumbling(TEN)}), [])
