"""Bounded loss with what else there is: time to live, timers, event time, rows over several keys."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond import BoundedLoss
from millpond.checkpoint.read.verify import verify
from millpond.checkpoint.records.manifest import MANIFESTS, decode_manifest
from millpond.checkpoint.recovery import read_state
from millpond.engine.durability.boundedloss import bounded_loss_settings
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from millpond.program.semantics.epoch_time import epoch_time
from millpond.state.local.storekey import element_of
from tests.fuzz.transactions.worlds.bank import Bank
from tests.programs.timed import Aged, Alarms, Moves, Pledges, committed_state, fired_by, replies_of
from tests.property import test_eventtime, test_time
from tests.property.test_bounded_loss import both, kept, lose, start
from tests.property.test_time import HANDLERS, many
from tests.sizes import compile_once

pytestmark = pytest.mark.slow

PROGRAMS = (Aged, Moves, Alarms, Pledges)
LEVELS = st.builds(BoundedLoss, events=st.sampled_from((1, 2, 5, 10**6)), within=st.sampled_from(("3 s", "1000000 s")))
RESTARTS = st.dictionaries(st.integers(1, 6), st.integers(1, 3), max_size=3)


@pytest.fixture(autouse=True)
def _files(monkeypatch):
    """Small changes become files too."""
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 60)


@pytest.fixture
def fresh(tmp_path):
    made = []

    def make():
        made.append(tmp_path / f"run{len(made)}")
        return made[-1]

    return make


@pytest.mark.parametrize("program", PROGRAMS)
def test_while_the_host_lives_time_goes_by_as_in_plain_python(program, fresh):
    @many(5)
    @given(test_time.epochs_of(program), st.integers(1, 3), LEVELS)
    def check(epochs, partitions, level):
        made = test_time.run_both(program, epochs, fresh(), partitions, durability=level)
        test_time.compare(program, *made)

    check()


@pytest.mark.parametrize("program", PROGRAMS)
def test_restarts_on_the_same_host_lose_nothing(program, fresh):
    @many(5)
    @given(test_time.epochs_of(program), RESTARTS, LEVELS, st.booleans())
    def check(epochs, restarts, level, ticks):
        folder = fresh()
        plain, _ = test_time.run_both(program, epochs, folder, 2, ticks=ticks, restarts=restarts, durability=level)
        assert committed_state(program, both(folder)) == plain.state()

    check()


@pytest.mark.parametrize("program", PROGRAMS)
def test_event_time_goes_by_as_in_plain_python(program, fresh):
    @many(5)
    @given(test_eventtime.epochs_of(program), st.lists(test_eventtime.FEEDS, min_size=1, max_size=2), RESTARTS, LEVELS)
    def check(epochs, drawn, restarts, level):
        folder, feeds = fresh(), test_eventtime.feeds_for(program, drawn)
        plain, simulated = test_eventtime.run_both(
            program, epochs, folder, feeds, late=True, restarts=restarts, durability=level
        )
        assert committed_state(program, both(folder)) == plain.state()
        if not restarts:
            assert replies_of(simulated) == plain.replies
            fired = {name: [reply for handler, reply in plain.fired if handler == name] for name in HANDLERS[program]}
            assert fired_by(simulated, HANDLERS[program]) == fired

    check()


@pytest.mark.parametrize("program", PROGRAMS)
def test_after_a_lost_host_each_key_is_as_it_once_was_and_the_run_goes_on(program, fresh):
    compiled = compile_once(program)

    @many(5)
    @given(test_time.epochs_of(program), LEVELS, st.integers(0, 10**6), st.integers(1, 3))
    def check(epochs, level, seed, partitions):
        folder, histories = fresh(), [{}]
        run = Simulated(compiled, folder, 2, key_groups=8, durability=level)
        turns = list(test_time.with_times(epochs))
        for now, rows in turns:
            with epoch_time(now):
                run.epoch(rows)
            names = both(folder).list(MANIFESTS)[len(histories) - 1 :]
            histories += [read_state(both(folder), decode_manifest(both(folder).get(name), name)) for name in names]
        lose(folder, random.Random(seed), 0.7)
        with epoch_time(turns[-1][0]):
            run = Simulated(compiled, folder, partitions, key_groups=8, durability=level)
        # Timers that handlers set fire after the epoch that tells of the loss.
        manifests = [decode_manifest(kept(folder).get(name), name) for name in kept(folder).list(MANIFESTS)]
        there, made = manifests[len(histories) - 2], manifests[len(histories) - 1 :]
        state = read_state(kept(folder), made[0] if made else there)
        bounded = {list(compiled.elements).index(name) for name in bounded_loss_settings(compiled, level)}
        for key in set(histories[-1]) | set(state):
            if element_of(key) in bounded:
                assert state.get(key) in [history.get(key) for history in histories]
            else:
                assert state.get(key) == histories[-1].get(key)
        for seconds in (1, 20):
            with epoch_time(turns[-1][0] + seconds * test_time.SECOND):
                run.epoch(turns[0][1])
        assert verify(kept(folder), everything=True).problems == []

    check()


def test_rows_over_several_keys_lose_no_more_than_their_keys(tmp_path):
    level = BoundedLoss(events=2, within=timedelta(seconds=10**6))
    rows = [("deposit", (f"k{number % 5}", 10)) for number in range(10)]
    rows += [("transfer", (f"k{number % 5}", f"k{number % 3}", 1)) for number in range(20)]
    run = start(Bank, tmp_path, durability=level)
    histories = [{}]
    for at in range(0, 30, 6):
        run.epoch(rows[at : at + 6])
        histories.append(read_state(both(tmp_path)))
    lose(tmp_path)
    run = start(Bank, tmp_path, durability=level)
    state = read_state(kept(tmp_path))
    assert run.loss is not None
    assert sum(state.get(key) != value for key, value in histories[-1].items()) <= run.loss.keys
    assert all(state.get(key) in [history.get(key) for history in histories] for key in histories[-1])
    run.epoch(rows[:6])
