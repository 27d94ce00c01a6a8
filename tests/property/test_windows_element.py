"""Windows in programs: simulated runs against plain Python, and both against a brute force over all rows."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.checkpoint.recovery import last_manifest, read_changes, read_genesis, restore_files
from millpond.checkpoint.snapshots.compaction import compact
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from millpond.engine.time.eventtime import FIRST_US, FeedTime
from millpond.program.semantics.epoch_time import epoch_time
from tests.programs.timed import SECOND, Plain, committed_state, fired_by, live_state, replies_of
from tests.programs.windowed import (
    Adding,
    Corrected,
    Meters,
    Ordered,
    Watched,
    counted_told,
    ordered_sessions_told,
    sessions_told,
    spans_told,
    wanted_rounds,
)
from tests.property.test_eventtime import fresh, many, run_both, with_times  # noqa: F401
from tests.sizes import compile_once

pytestmark = pytest.mark.slow

PROGRAMS = (Meters, Corrected, Ordered)
HANDLERS = {
    Meters: ("spans", "visits"),
    Corrected: ("spans", "visits"),
    Ordered: ("counted", "visits"),
    Adding: ("ring", "spans", "totals"),
}
BRUTE = {
    Meters: {"spans": ("read", spans_told), "visits": ("visit", sessions_told)},
    Corrected: {"spans": ("read", spans_told), "visits": ("visit", sessions_told)},
    Ordered: {"counted": ("read", counted_told), "visits": ("visit", ordered_sessions_told)},
}
ROW = st.tuples(st.sampled_from(("read", "read", "visit")), st.tuples(st.sampled_from("ab"), st.integers(0, 2)))
TIMED = st.tuples(ROW, st.one_of(st.integers(-6, 9), st.integers(-2, 9), st.integers(0, 9)))
EPOCHS = st.lists(st.tuples(st.integers(0, 4), st.lists(TIMED, max_size=6)), min_size=1, max_size=8)


def feeds(program):
    """Rows may be as late as windows are kept."""
    lateness = (0, 2 * SECOND, 4 * SECOND) if program is Corrected else (0,)
    one = st.builds(
        FeedTime,
        disorder_us=st.sampled_from((0, SECOND, 4 * SECOND)),
        lateness_us=st.sampled_from(lateness),
        idle_us=st.sampled_from((None, 1, 5 * SECOND)),
    )
    return st.fixed_dictionaries({"read": one, "visit": one})


def compare(program, plain, simulated):
    assert replies_of(simulated) == plain.replies
    fired = {name: [reply for handler, reply in plain.fired if handler == name] for name in HANDLERS[program]}
    assert fired_by(simulated, HANDLERS[program]) == fired
    assert committed_state(program, simulated.storage) == plain.state()


def check_by_force(program, plain):
    for handler, (name, tell) in BRUTE[program].items():
        told = [{own: list(w) for own, w in one.items() if own[0] == handler} for _, one in plain.rounds]
        assert told == wanted_rounds(plain, handler, name, tell)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_plain_python_tells_what_a_brute_force_over_all_rows_says(program, late):
    seen = {"told": 0, "corrected": 0, "retracted": 0, "late": 0}

    @many(150)
    @given(EPOCHS, feeds(program), st.booleans())
    def check(epochs, times, ends):
        plain = Watched(program, times, late=late)
        turns = list(with_times(epochs))
        for number, (clock, rows, happened) in enumerate(turns):
            plain.epoch(clock, rows, happened, ends=ends and number == len(turns) - 1)
        check_by_force(program, plain)
        seen["told"] += len(plain.fired)
        seen["corrected"] += sum("True" in reply for _, reply in plain.fired)
        seen["retracted"] += sum("retract" in reply for _, reply in plain.fired)
        seen["late"] += plain.counted_late

    check()
    assert seen["told"] > 100
    assert seen["late"] > 0
    assert (seen["corrected"] > 0) == (program is Corrected)
    # What is taken back always is held to plain Python; that there is some, test_windows_retracted sees to.
    assert not seen["retracted"] or program is Corrected


def test_rows_that_handlers_add_are_told_once_and_no_window_is_told_twice():
    seen = []

    @many(100)
    @given(EPOCHS, feeds(Adding))
    def check(epochs, times):
        plain = Watched(Adding, times, late=True)
        turns = list(with_times(epochs))
        for clock, rows, happened in turns:
            plain.epoch(clock, rows, happened)
        # Handlers add what later rounds tell, until nothing is left.
        for later in range(1, 60):
            happened = turns[-1][0] + later * 100 * SECOND
            plain.epoch(turns[-1][0] + later, [(name, ("z", 0)) for name in times], [happened] * len(times))
        told = [(*own, *one) for _, found in plain.rounds for own, windows in found.items() for one in windows]
        told = [one for one in told if one[1] != "z"]
        assert len({one[:5] for one in told}) == len(told)
        added = [name for _, name, (key, _), _ in plain.added if name == "visit" and key != "z"]
        added += [handler for handler, reply in plain.fired if handler == "spans" and "'z'" not in reply]
        added += [handler for handler, reply in plain.fired if handler == "ring" and "'z'" not in reply]
        assert sum(many_rows for handler, *_, many_rows, _ in told if handler == "totals") == len(added)
        seen.extend(added)

    check()
    assert {"visit", "spans", "ring"} == set(seen)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("program", [*PROGRAMS, Adding])
def test_a_simulated_run_equals_plain_python(program, late, fresh):  # noqa: F811
    @many(12)
    @given(
        EPOCHS,
        feeds(program),
        st.integers(1, 4),
        st.dictionaries(st.integers(1, 8), st.integers(1, 4), max_size=3),
        st.booleans(),
    )
    def check(epochs, times, partitions, restarts, ends):
        plain, simulated = run_both(
            program, epochs, fresh(), times, late=late, partitions=partitions, restarts=restarts, ends=ends
        )
        assert committed_state(program, simulated.storage) == plain.state()
        assert simulated.fed == len(plain.replies)
        if not restarts:
            compare(program, plain, simulated)

    check()


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_steps_of_a_compiled_program_equal_plain_python(program):
    @many(12)
    @given(EPOCHS, feeds(program))
    def check(epochs, times):
        plain = Watched(program, times, late=False)
        steps, fired = Sequential(compile_once(program), key_groups=8), []
        for clock, rows, happened in with_times(epochs):
            floor = FIRST_US if plain.horizon is None else plain.horizon
            replies = steps.epoch(rows, [max(time, floor) for time in happened])
            plain.epoch(clock, rows, happened)
            assert replies == plain.replies[len(plain.replies) - len(rows) :]
            if plain.watermark is not None:
                fired += steps.fire_timers(plain.watermark, floor)
        assert fired == [reply for _, reply in plain.fired]

    check()


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_bytes_of_state_do_not_depend_on_partitions(program, fresh):  # noqa: F811
    @many(3)
    @given(EPOCHS, feeds(program))
    def check(epochs, times):
        runs = [run_both(program, epochs, fresh(), times, late=False, partitions=n)[1] for n in (1, 3)]
        assert live_state(runs[0].storage) == live_state(runs[1].storage)

    check()


@pytest.mark.parametrize("program", [Meters, Ordered])
def test_without_event_time_windows_go_by_the_times_of_epochs(program, fresh):  # noqa: F811
    told = []

    @many(8)
    @given(EPOCHS, st.integers(1, 3))
    def check(epochs, partitions):
        plain = Plain(program)
        simulated = Simulated(compile_once(program), fresh(), partitions, key_groups=8)
        for clock, rows, _ in with_times(epochs):
            with epoch_time(clock):
                if rows or not plain.replies:
                    plain.epoch(clock, rows)
                    simulated.epoch(rows)
                elif simulated.tick() is not None:
                    plain.now = clock
                    plain.fire()
        compare(program, plain, simulated)
        told.extend(plain.fired)

    check()
    assert told


@pytest.mark.parametrize("program", PROGRAMS)
def test_deltas_hold_each_key_once_and_a_snapshot_holds_the_windows_that_are_open(program, fresh, monkeypatch):  # noqa: F811
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 60)

    @many(4)
    @given(EPOCHS, feeds(program))
    def check(epochs, times):
        _, simulated = run_both(program, epochs, fresh(), times, late=False)
        storage = simulated.storage
        genesis, genesis_hash = read_genesis(storage)
        head, hashed = last_manifest(storage, genesis_hash)
        for file in restore_files(head, 0, 7):
            keys, _ = read_changes(storage, file)
            assert all(one < other for one, other in pairwise(keys))
        files = compact(storage, head, hashed, genesis.key_groups).files
        held = {}
        for file in files:
            held.update(read_changes(storage, file).pairs())
        assert held == live_state(storage)

    check()
