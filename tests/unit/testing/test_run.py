"""Simulated runs of the kit: replies, state, reports, what stands between rows, time, and errors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from millpond import MillpondError
from millpond.errors import RowError
from millpond.testing import (
    EOF,
    KILL,
    Fired,
    LeftOut,
    ManualClock,
    Refused,
    assert_equals_plain,
    at,
    crash,
    io_error,
    pause,
    simulate,
)
from tests.unit.testing.programs import Account, Bank, Kinds, Sums, Visits, Walk, Words

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
WORDS = [("add", word) for word in ("mill", "pond", "mill", "weir", "mill")]
TOTALS = {"counts": {"mill": 3, "pond": 1, "weir": 1}}


def attempts(run):
    return [report.attempts for report in run.reports]


@pytest.mark.parametrize("partitions", [1, 2, 5])
@pytest.mark.parametrize(("epochs", "sizes"), [(1, [5]), (2, [2, 3]), (5, [1] * 5), ([1, 4], [1, 3, 1])])
def test_rows_are_cut_into_epochs_and_give_what_plain_python_gives(epochs, sizes, partitions):
    run = simulate(Words, WORDS, epochs=epochs, partitions=partitions)
    assert run.replies == [1, 1, 2, 1, 3]
    assert run.state == TOTALS
    assert [(report.epoch, report.rows) for report in run.reports] == list(enumerate(sizes, 1))
    assert (attempts(run), run.starts) == ([1] * len(sizes), 1)
    assert_equals_plain(run)


def test_the_input_ends_at_eof_and_a_new_start_goes_on_behind_it():
    run = simulate(Words, [*WORDS[:2], EOF, *WORDS[2:], EOF])
    assert run.replies == [1, 1, 2, 1, 3]
    assert ([report.rows for report in run.reports], attempts(run), run.starts) == ([2, 3], [1, 1], 2)
    assert_equals_plain(run)


def test_what_a_killed_process_did_is_lost_and_its_rows_come_again():
    run = simulate(Words, [*WORDS[:3], KILL, WORDS[3], KILL, WORDS[4]], epochs=[2])
    assert run.replies == [1, 1, 2, 1, 3]
    assert run.state == TOTALS
    assert (attempts(run), run.starts) == ([1, 3], 3)
    assert_equals_plain(run)


def test_a_process_that_is_killed_between_epochs_has_lost_nothing():
    run = simulate(Words, [KILL, *WORDS[:2], EOF, KILL, *WORDS[2:], KILL])
    assert (run.replies, attempts(run)) == ([1, 1, 2, 1, 3], [1, 2])
    assert_equals_plain(run)


def test_time_passes_in_pauses_alone_and_timers_fire():
    clock = ManualClock(1_000_000)
    steps = [("click", "ann"), pause(9 * MINUTE), ("click", "ann"), pause(11 * MINUTE), ("click", "ann")]
    run = simulate(Visits, [*steps, pause(31 * MINUTE), ("click", "bob")], clock=clock)
    assert run.replies == [1, 2, 1, 1], "pages are forgotten ten minutes after the last click"
    last = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=1000 + 20 * 60, milliseconds=3)
    assert run.fired == [Fired("over", "ann", last + 30 * MINUTE, 3)]
    assert [report.rows for report in run.reports if report.epoch == 3] == [1, 0]
    assert run.state["clicks"] == {"bob": 1}
    assert list(run.state["over"]) == ["bob"]
    assert clock.now_ms() == 1_000_000 + 51 * 60_000 + 4
    assert_equals_plain(run)


def test_a_pause_in_which_nothing_is_due_is_no_epoch():
    run = simulate(Visits, [pause(MINUTE), ("click", "ann"), pause(MINUTE), EOF, pause(MINUTE)])
    assert [report.rows for report in run.reports] == [1]
    assert_equals_plain(run)


def test_rows_with_event_time_move_the_watermark_and_late_ones_are_dropped_or_kept():
    steps = [at(NOON + minutes * MINUTE, ("click", user)) for minutes, user in ((0, "ann"), (45, "bob"), (1, "cid"))]
    kept = simulate(Visits, steps, epochs=3, disorder=MINUTE)
    assert kept.reports[1].watermark == NOON + 44 * MINUTE
    assert [fired[:2] for fired in kept.fired] == [("over", "ann")]
    assert_equals_plain(kept)
    dropped = simulate(Visits, steps, epochs=3, disorder=MINUTE, late="drop")
    assert dropped.replies == [1, 1, LeftOut("")]
    assert dropped.replies[2].reason == "late by 2580.0 s"
    assert dropped.failures == {}
    assert_equals_plain(dropped)
    late = simulate(Visits, steps, epochs=3, lateness=timedelta(hours=1), late="drop")
    assert late.replies == [1, 1, 1]
    assert_equals_plain(late)


@pytest.mark.parametrize("close", [False, True])
def test_windows_are_told_when_the_watermark_passes_them_or_event_time_ends(close):
    readings = [(0, "a", 1), (3, "b", 5), (12, "a", 2), (14, "a", 3), (31, "b", 7)]
    steps = [at(NOON + minutes * MINUTE, ("read", key, n)) for minutes, key, n in readings]
    run = simulate(Sums, steps, epochs=2, close=close, faults=[crash(at="committed", epoch=2)])
    told = [(fired.key, fired.reply) for fired in run.fired]
    wanted = {("a", (1.0,)), ("b", (5.0,)), ("a", (5.0,))} | ({("b", (7.0,))} if close else set())
    assert {(key, (n,)) for key, sums in told for n in sums} == wanted
    assert run.state == {}
    assert_equals_plain(run)


def test_refused_rows_are_seen_and_a_column_may_have_any_name():
    steps = [("open", "ann", 10), ("open", "bob", 100), ("move", "bob", "ann", 60), ("move", "bob", "ann", 60)]
    run = simulate(Bank, steps, partitions=3)
    assert run.replies == [("ann", 100), ("bob", 100), Account("bob", 40), Refused("bob lacks the money")]
    assert run.state == {"accounts": {"ann": Account("ann", 160), "bob": Account("bob", 40)}}
    assert_equals_plain(run)


def test_rows_that_raise_fail_the_run_or_are_skipped():
    steps = [("open", "ann", 10), ("open", "bob", 0), ("move", "cid", "ann", 1), ("open", "cid", 1)]
    with pytest.raises(RowError) as caught:
        simulate(Bank, steps)
    assert caught.value.code == "MP603"
    run = simulate(Bank, steps, epochs=2, on_bad_row="skip", faults=[crash(at="published", epoch=1)])
    assert run.replies == [("ann", 100), LeftOut(""), LeftOut(""), ("cid", 100)]
    assert [(number, reason.split("raised ")[1].split(":")[0]) for number, reason in run.failures.items()] == [
        (1, "ZeroDivisionError"),
        (2, "KeyError"),
    ]
    assert_equals_plain(run)


def test_every_kind_of_state_is_told_as_plain_values():
    words = ["mill", "pond", "mill"]
    steps = [(name, word) for word in words for name in ("note", "write", "say", "see")]
    steps += [("weigh", "mill", 0.5), ("pair", "mill", 2), ("pair", "mill", 2), ("count", "mill")]
    run = simulate(Kinds, steps, epochs=3, partitions=3, instances=3)
    assert run.replies[-1] == 2
    partial = {name: run.state.pop(name) for name in ("seen", "hits")}
    assert run.state == {
        "words": {"mill", "pond"},
        "log": words,
        "last": "mill",
        "weights": {"mill": 0.5},
        "pairs": {("mill", 2): 2},
    }
    assert set().union(*partial["seen"]) == {"mill", "pond"}
    assert sum(instance.get("mill", 0) for instance in partial["hits"]) == 2
    assert [len(held) for held in partial.values()] == [3, 3]


def test_instances_of_partial_state_are_merged_to_be_compared():
    steps = [("see", f"word {number}") for number in range(12)]
    run = simulate(Kinds, steps, epochs=3)
    assert_equals_plain(run, merge={"hits": sum})
    with pytest.raises(MillpondError) as caught:
        assert_equals_plain(run)
    assert caught.value.code == "MP585"
    assert_equals_plain(simulate(Kinds, steps, instances=1))


def test_a_relaxed_program_equals_plain_python_row_by_row_and_shows_where_it_differs_else():
    steps = [("lead", "a", "b"), ("lead", "b", "c"), ("walk", "a"), ("walk", "b"), ("walk", "c")]
    assert_equals_plain(simulate(Walk, steps, epochs=len(steps)))
    with pytest.raises(AssertionError) as caught:
        assert_equals_plain(simulate(Walk, steps))
    assert "the run of Walk differs from plain Python" in str(caught.value)


REFUSED = {
    "MP580": lambda: simulate(Words, [EOF, pause(MINUTE)]),
    "MP510": lambda: simulate(Words, [("sub", "mill")]),
    "MP503": lambda: simulate(Words, [("add", "mill", 1)]),
    "MP504": lambda: simulate(Words, [("add", 1)]),
    "MP512": lambda: simulate(Words, WORDS, on_bad_row="dead letters"),
    "MP206": lambda: simulate(Words, WORDS, partitions=0),
    "MP583": lambda: simulate(Words, [at(NOON, WORDS[0]), WORDS[1]]),
    "MP584": lambda: simulate(Words, WORDS, faults=[crash(at="computed", epoch=2)]),
    "MP586": lambda: crash(at="lunch", epoch=1),
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_can_t_be_simulated_is_refused_with_its_code(code):
    with pytest.raises(MillpondError) as caught:
        REFUSED[code]()
    assert caught.value.code == code


def test_a_handler_is_no_entry_point():
    with pytest.raises(MillpondError, match="MP510"):
        simulate(Visits, [("over", "ann", NOON)])


@pytest.mark.parametrize("epochs", [0, -1, 6, [0], [5], [3, 2], [2, 2]])
def test_bad_cuts_are_refused(epochs):
    with pytest.raises(MillpondError, match="MP581"):
        simulate(Words, WORDS, epochs=epochs)


@pytest.mark.parametrize("step", ["add", (), (1, "mill"), None, at(NOON, "add")])
def test_what_is_no_step_is_refused(step):
    with pytest.raises(MillpondError, match="MP582"):
        simulate(Words, [step])


@pytest.mark.parametrize("make", [lambda: pause(-MINUTE), lambda: pause(9), lambda: at(datetime(2024, 5, 1), WORDS[0])])  # noqa: DTZ001
def test_times_that_are_none_are_refused(make):
    with pytest.raises(MillpondError, match="MP582"):
        make()


@pytest.mark.parametrize(
    "make", [lambda: crash("computed", 0), lambda: io_error("fly", 1), lambda: io_error("read", 1, 0)]
)
def test_faults_that_there_are_not_are_refused(make):
    with pytest.raises(MillpondError, match="MP586"):
        make()


def test_lengths_of_time_are_texts_or_timedeltas():
    assert pause("90 s") == pause(timedelta(seconds=90))
    rows = [at(datetime(2024, 5, 1, tzinfo=UTC), row) for row in WORDS]
    assert simulate(Words, rows, disorder="10 s", lateness=timedelta(minutes=1)).options.disorder == timedelta(
        seconds=10
    )


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"disorder": "10"}, "MP635"),
        ({"lateness": timedelta(-1)}, "MP635"),
        ({"late": "lose"}, "MP512"),
        ({"faults": "crash"}, "MP586"),
        ({"faults": [1]}, "MP586"),
    ],
)
def test_options_that_say_nothing_are_refused(options, code):
    with pytest.raises(MillpondError) as caught:
        simulate(Words, WORDS, **options)
    assert caught.value.code == code
