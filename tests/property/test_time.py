"""State that time changes: simulated runs on any number of partitions against plain Python with the same times."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from millpond.checkpoint.records.times import is_over
from millpond.checkpoint.recovery import last_manifest, read_changes, read_genesis, restore_files
from millpond.checkpoint.snapshots.compaction import compact
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.program.semantics.epoch_time import epoch_time
from tests.programs.timed import (
    SECOND,
    START,
    Aged,
    Alarms,
    Moves,
    Plain,
    Pledges,
    Walks,
    committed_state,
    fired_by,
    live_state,
    replies_of,
)
from tests.sizes import compile_once, some_of

pytestmark = pytest.mark.slow

PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""No shrinking: an example writes whole checkpoints, and is small as it is."""

KEYS = st.sampled_from("abcd")
SMALL = st.integers(0, 3)
ROWS = {
    Aged: st.one_of(
        st.tuples(st.sampled_from(("put", "append", "hit")), st.tuples(KEYS, SMALL)),
        st.tuples(st.sampled_from(("pop", "look", "drop", "join", "ask", "leave", "say")), st.tuples(KEYS)),
        st.tuples(st.just("weigh"), st.tuples(SMALL)),
        st.tuples(st.just("hear"), st.just(())),
    ),
    Moves: st.one_of(
        st.tuples(st.just("fill"), st.tuples(KEYS, SMALL)),
        st.tuples(st.just("move"), st.tuples(KEYS, KEYS, SMALL)),
    ),
    Alarms: st.one_of(
        st.tuples(st.just("touch"), st.tuples(KEYS, st.integers(-2, 9))),
        st.tuples(st.just("stop"), st.tuples(KEYS)),
        st.tuples(st.just("repeat"), st.tuples(KEYS, st.integers(-1, 4))),
    ),
    Pledges: st.one_of(
        st.tuples(st.just("fill"), st.tuples(KEYS, SMALL)),
        st.tuples(st.just("give"), st.tuples(KEYS, KEYS)),
    ),
    Walks: st.tuples(st.just("walk"), st.tuples(KEYS, st.integers(0, 5))),
}
HANDLERS = {Aged: (), Moves: (), Alarms: ("idle", "again"), Pledges: ("grow",), Walks: ("ring",)}


def epochs_of(program):
    return st.lists(st.tuples(st.integers(0, 7), st.lists(ROWS[program], max_size=6)), min_size=1, max_size=9)


def with_times(epochs):
    """Epochs at moments that move on, by fractions of a second too: each has its own."""
    now = START
    for number, (seconds, rows) in enumerate(epochs):
        now += seconds * SECOND + (number % 2) + 1
        yield now, rows


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


def compare(program, plain, simulated):
    assert replies_of(simulated) == plain.replies
    fired = {name: [reply for handler, reply in plain.fired if handler == name] for name in HANDLERS[program]}
    assert fired_by(simulated, HANDLERS[program]) == fired
    assert committed_state(program, simulated.storage) == plain.state()


def run_both(program, epochs, directory, partitions, *, ticks=False, restarts=(), **options):
    compiled = compile_once(program)
    plain = Plain(program)
    simulated = Simulated(compiled, directory, partitions, key_groups=8, **options)
    for number, (now, rows) in enumerate(with_times(epochs)):
        if number in restarts:
            simulated = Simulated(compiled, directory, restarts[number], key_groups=8, **options)
        with epoch_time(now):
            if ticks and not rows:
                plain.now = max(plain.now, now) if simulated.tick() is not None else plain.now
                if plain.now == now:
                    plain.fire()
                continue
            plain.epoch(now, rows)
            simulated.epoch(rows)
    return plain, simulated


@pytest.mark.parametrize("program", [Aged, Moves, Alarms, Pledges])
def test_a_simulated_run_equals_plain_python_with_the_same_times(program, fresh):
    @many(6)
    @given(epochs_of(program), st.integers(1, 4))
    def check(epochs, partitions):
        compare(program, *run_both(program, epochs, fresh(), partitions))

    check()


@pytest.mark.parametrize("program", [Aged, Moves, Alarms, Pledges])
def test_the_steps_of_a_compiled_program_equal_plain_python(program):
    @many(20)
    @given(epochs_of(program))
    def check(epochs):
        plain, steps = Plain(program), Sequential(compile_once(program), key_groups=8)
        fired = []
        for now, rows in with_times(epochs):
            plain.epoch(now, rows)
            with epoch_time(now):
                replies = [getattr(reply, "reason", reply) for reply in steps.epoch(rows)]
                assert replies == plain.replies[len(plain.replies) - len(rows) :]
                fired += steps.fire_timers()
        assert fired == [reply for _, reply in plain.fired]

    check()


@pytest.mark.parametrize("program", [Aged, Moves, Alarms])
def test_the_bytes_of_state_do_not_depend_on_partitions(program, fresh):
    @many(3)
    @given(epochs_of(program))
    def check(epochs):
        steps = Sequential(compile_once(program), key_groups=8)
        for now, rows in with_times(epochs):
            with epoch_time(now):
                steps.epoch(rows)
                steps.fire_timers()
                expected = steps.state()
        held = [live_state(run_both(program, epochs, fresh(), partitions)[1].storage) for partitions in (1, 3)]
        assert held[0] == held[1] == expected

    check()


@pytest.mark.parametrize("program", [Aged, Moves, Alarms])
def test_restarts_on_other_partitions_change_nothing(program, fresh):
    @many(6)
    @given(epochs_of(program), st.dictionaries(st.integers(1, 8), st.integers(1, 4), max_size=3))
    def check(epochs, restarts):
        plain, simulated = run_both(program, epochs, fresh(), 2, restarts=restarts)
        assert committed_state(program, simulated.storage) == plain.state()
        assert simulated.fed == len(plain.replies)

    check()


def test_a_row_that_goes_on_in_later_epochs_keeps_its_time(fresh):
    # One row an epoch: nothing can come in between, so the relaxed method is the plain one.
    @many(5)
    @given(st.lists(st.tuples(st.integers(0, 7), st.lists(ROWS[Walks], max_size=1)), min_size=1, max_size=6))
    def check(epochs):
        plain, simulated = Plain(Walks), Simulated(compile_once(Walks), fresh(), 2, key_groups=8, steps_max=2)
        for now, rows in with_times(epochs):
            plain.epoch(now, rows)
            with epoch_time(now):
                simulated.epoch(rows)
        compare(Walks, plain, simulated)

    check()


def test_timers_fire_by_ticks_while_there_are_no_rows(fresh):
    @many(6)
    @given(epochs_of(Alarms))
    def check(epochs):
        plain, simulated = run_both(Alarms, epochs, fresh(), 2, ticks=True)
        compare(Alarms, plain, simulated)

    check()


def test_a_snapshot_holds_no_entry_whose_time_is_over(fresh):
    seen = [0]

    @many(6)
    @given(epochs_of(Aged))
    def check(epochs):
        plain, simulated = run_both(Aged, epochs, fresh(), 2)
        storage = simulated.storage
        genesis, digest = read_genesis(storage)
        head, hashed = last_manifest(storage, digest)
        files = compact(storage, head, hashed, genesis.key_groups).files
        held = {}
        for file in files:
            held.update(read_changes(storage, file).pairs())
        assert held == live_state(storage)
        over = head.times.over_us
        gone = [
            key
            for file in restore_files(head, 0, 7)
            for key, value in read_changes(storage, file).pairs()
            if is_over(key, value, over)
        ]
        seen[0] += len(gone)
        assert committed_state(Aged, storage) == plain.state()

    check()
    assert seen[0] > 0
