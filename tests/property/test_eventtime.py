"""Programs on event time: simulated runs with disorder, cuts, idle feeds, restarts and crashes against plain Python."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millpond import Map, Partitioned, Program, entry
from millpond.engine.plan import BadRows
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.engine.time.eventtime import FIRST_US, FeedTime
from millpond.program.semantics.epoch_time import epoch_time
from tests import sizes
from tests.programs.eventtimed import EventPlain
from tests.programs.timed import (
    SECOND,
    START,
    Aged,
    Alarms,
    Moves,
    Pledges,
    Walks,
    committed_state,
    fired_by,
    live_state,
    replies_of,
)
from tests.property.test_time import HANDLERS, KEYS, PHASES, ROWS, SMALL
from tests.sizes import compile_once, some_of

pytestmark = pytest.mark.slow

EVENTS = 1_500_000_000 * SECOND
"""Rows happened long before they are fed: nothing may mix the two times up."""

FEEDS = st.builds(
    FeedTime,
    disorder_us=st.sampled_from((0, SECOND, 4 * SECOND)),
    lateness_us=st.sampled_from((0, 0, 3 * SECOND)),
    idle_us=st.sampled_from((None, 1, 2 * SECOND, 5 * SECOND)),
)


def timed_row(program):
    return st.tuples(ROWS[program], st.one_of(st.none(), st.integers(-6, 9), st.integers(-2, 9), st.integers(0, 9)))


def epochs_of(program):
    return st.lists(st.tuples(st.integers(0, 4), st.lists(timed_row(program), max_size=6)), min_size=1, max_size=8)


def with_times(epochs):
    """Epochs at moments of the clock, and rows at event times that drift on with them."""
    clock, drift = START, EVENTS
    for number, (seconds, told) in enumerate(epochs):
        clock += seconds * SECOND + 1 + number % 2
        drift += seconds * SECOND
        times = [None if offset is None else drift + offset * SECOND for _, offset in told]
        yield clock, [row for row, _ in told], times


def many(examples):
    return settings(
        max_examples=some_of(examples),
        deadline=None,
        phases=PHASES,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


@pytest.fixture
def fresh(tmp_path):
    made = []

    def make():
        made.append(tmp_path / f"run{len(made)}")
        return made[-1]

    return make


def feeds_for(program, drawn):
    names = [name for name in compile_once(program).entries if name not in HANDLERS[program]]
    return {name: drawn[number % len(drawn)] for number, name in enumerate(names)}


def run_both(
    program, epochs, directory, feeds, *, late, partitions=2, restarts=None, ends=False, steps_max=8, **options
):
    compiled = compile_once(program)
    plain = EventPlain(program, feeds, late=late)

    def make(count):
        return Simulated(
            compiled,
            directory,
            count,
            key_groups=8,
            steps_max=steps_max,
            bad_rows=BadRows.SKIP,
            event_time=feeds,
            late=late,
            **options,
        )

    simulated = make(partitions)
    turns = list(with_times(epochs))
    for number, (clock, rows, times) in enumerate(turns):
        with epoch_time(clock):
            if restarts and number in restarts:
                simulated = make(restarts[number])
            last = ends and number == len(turns) - 1
            if not rows and number and not last:
                if simulated.tick() is not None:
                    plain.tick(clock)
                continue
            plain.epoch(clock, rows, times, ends=last)
            simulated.epoch(rows, times, ends=last)
            event = simulated.times.event
            assert (event.watermark_us, event.horizon_us) == (plain.watermark, plain.horizon)
    return plain, simulated


def total(counters, kind):
    return sum(count for name, count in counters.items() if name.startswith(f"total.{kind}."))


def late_rows(simulated, program):
    names = {name: list(compile_once(program).entries[name].point.parameters) for name in simulated.late_rows}
    found = []
    for name, sink in simulated.late_rows.items():
        for row in sink.rows():
            arguments = tuple(row[parameter] for parameter, _ in names[name])
            happened = int(row["event_time"].timestamp()) * SECOND
            found.append((name, arguments, happened, round(row["late_by"] * SECOND)))
    return sorted(found)


def compare(program, plain, simulated):
    assert replies_of(simulated) == plain.replies
    fired = {name: [reply for handler, reply in plain.fired if handler == name] for name in HANDLERS[program]}
    assert fired_by(simulated, HANDLERS[program]) == fired
    assert committed_state(program, simulated.storage) == plain.state()


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("program", [Aged, Moves, Alarms, Pledges])
def test_a_simulated_run_equals_plain_python_with_the_same_times(program, late, fresh):
    seen = {"late": 0, "fired": 0}

    @many(16)
    @given(epochs_of(program), st.lists(FEEDS, min_size=1, max_size=3), st.integers(1, 4), st.booleans())
    def check(epochs, drawn, partitions, ends):
        feeds = feeds_for(program, drawn)
        plain, simulated = run_both(program, epochs, fresh(), feeds, late=late, partitions=partitions, ends=ends)
        compare(program, plain, simulated)
        assert late_rows(simulated, program) == sorted(plain.late)
        counters = {} if simulated._checkpoint.head is None else simulated._checkpoint.head.counters
        assert total(counters, "late") == plain.counted_late
        assert total(counters, "bad") == len(plain.bad)
        seen["late"] += plain.counted_late
        seen["fired"] += len(plain.fired)

    check()
    if sizes.SMALL:
        # The few cases of a small run need not have all of it.
        return
    # With as many feeds as this one has, the watermark seldom moves.
    assert seen["late"] > 0 or program is Aged
    assert seen["fired"] > 0 or not HANDLERS[program]


@pytest.mark.parametrize("program", [Aged, Moves, Alarms])
def test_restarts_on_other_partitions_change_nothing(program, fresh):
    @many(6)
    @given(
        epochs_of(program),
        st.lists(FEEDS, min_size=1, max_size=3),
        st.dictionaries(st.integers(1, 8), st.integers(1, 4), max_size=3),
    )
    def check(epochs, drawn, restarts):
        feeds = feeds_for(program, drawn)
        plain, simulated = run_both(program, epochs, fresh(), feeds, late=True, restarts=restarts)
        assert committed_state(program, simulated.storage) == plain.state()
        assert simulated.fed == len(plain.replies)

    check()


@pytest.mark.parametrize("program", [Aged, Moves, Alarms, Pledges])
def test_the_steps_of_a_compiled_program_equal_plain_python(program):
    @many(12)
    @given(epochs_of(program), st.lists(FEEDS, min_size=1, max_size=2))
    def check(epochs, drawn):
        plain = EventPlain(program, feeds_for(program, drawn), late=False)
        steps, fired = Sequential(compile_once(program), key_groups=8), []
        for clock, rows, times in with_times(epochs):
            kept = [(row, time) for row, time in zip(rows, times, strict=True) if time is not None]
            floor = FIRST_US if plain.horizon is None else plain.horizon
            replies = steps.epoch([row for row, _ in kept], [max(time, floor) for _, time in kept])
            plain.epoch(clock, [row for row, _ in kept], [time for _, time in kept])
            wanted = plain.replies[len(plain.replies) - len(kept) :]
            assert [getattr(reply, "reason", reply) for reply in replies] == wanted
            if plain.watermark is not None:
                fired += steps.fire_timers(plain.watermark, floor)
        assert fired == [reply for _, reply in plain.fired]

    check()


class Notes(Program):
    """Lists that are changed in place under two keys, all or nothing, and forgotten by when they were written."""

    logs = Partitioned(Map[str, list[int]], ttl=timedelta(seconds=6))

    @entry
    def note(self, one: str, other: str, n: int) -> int:
        self.logs.setdefault(one, []).append(n)
        self.logs.setdefault(other, []).append(n)
        if n == 2:
            self.abort("no")
        if n == 3:
            self.logs[one].pop()
        return len(self.logs[other])


def test_rows_that_are_undone_leave_no_stamp(fresh):
    row = st.tuples(st.just("note"), st.tuples(KEYS, KEYS, SMALL))
    timed = st.tuples(row, st.integers(-2, 9))

    @many(25)
    @given(
        st.lists(st.tuples(st.integers(0, 4), st.lists(timed, max_size=9)), min_size=1, max_size=4), st.integers(1, 3)
    )
    def check(epochs, partitions):
        feeds = {"note": FeedTime(disorder_us=4 * SECOND)}
        plain, simulated = run_both(Notes, epochs, fresh(), feeds, late=False, partitions=partitions)
        assert replies_of(simulated) == plain.replies
        assert committed_state(Notes, simulated.storage) == plain.state()

    check()


def test_a_row_that_goes_on_in_later_epochs_keeps_its_time(fresh):
    # One row an epoch: nothing can come in between, so the relaxed method is the plain one.
    @many(8)
    @given(
        st.lists(st.tuples(st.integers(0, 4), st.lists(timed_row(Walks), max_size=1)), min_size=1, max_size=6),
        st.lists(FEEDS, min_size=1, max_size=1),
    )
    def check(epochs, drawn):
        plain, simulated = run_both(Walks, epochs, fresh(), feeds_for(Walks, drawn), late=False, steps_max=2)
        compare(Walks, plain, simulated)

    check()


@pytest.mark.parametrize("program", [Aged, Moves, Alarms])
def test_the_bytes_of_state_do_not_depend_on_partitions(program, fresh):
    @many(3)
    @given(epochs_of(program), st.lists(FEEDS, min_size=1, max_size=2))
    def check(epochs, drawn):
        feeds = feeds_for(program, drawn)
        runs = [run_both(program, epochs, fresh(), feeds, late=False, partitions=n)[1] for n in (1, 3)]
        assert live_state(runs[0].storage) == live_state(runs[1].storage)

    check()
