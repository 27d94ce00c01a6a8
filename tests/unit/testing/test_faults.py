"""Faults of simulated runs: each happens, the run starts anew, and what comes of it is what plain Python gives."""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import replace
from datetime import timedelta
from typing import get_args

import pytest

from millpond.errors import MillpondError, StorageError
from millpond.storage.backends.files import FileStorage
from millpond.testing import (
    KILL,
    assert_equals_plain,
    crash,
    disk_full,
    io_error,
    lost_local_state,
    pause,
    random_faults,
    simulate,
    torn_write,
)
from millpond.testing.faults import Moment
from tests.sizes import sized
from tests.unit.testing.programs import Bank, Kinds, Visits, Words

WORDS = [("add", word) for word in "abcabdacbbda"]
CALLS = ("create", "write", "sync", "link", "sync_folder", "listdir")
STARTS_ANEW = [
    *(crash(at=moment, epoch=2) for moment in get_args(Moment)),
    *(io_error(call, epoch=2) for call in CALLS),
    disk_full(epoch=2),
    torn_write(epoch=2),
    torn_write(epoch=2, nth=3),
    lost_local_state(epoch=2),
]


@pytest.mark.parametrize("fault", STARTS_ANEW, ids=lambda fault: f"{fault.kind} {fault.sites[0]} {fault.nth}")
def test_a_fault_happens_once_and_nothing_is_lost_or_done_twice(fault):
    run = simulate(Words, WORDS, epochs=3, faults=[fault])
    assert run.faults == [fault]
    assert run.starts == 2
    assert [report.rows for report in run.reports] == [4, 4, 4]
    assert run.reports[0].attempts == run.reports[2].attempts == 1
    assert run.replies == simulate(Words, WORDS).replies
    assert_equals_plain(run)


def test_a_fault_that_a_run_survives_has_happened_too():
    fault = io_error("unlink", epoch=1)
    run = simulate(Words, WORDS, faults=[fault])
    assert (run.faults, run.starts) == ([fault], 1)
    assert_equals_plain(run)


def test_an_epoch_is_tried_until_all_its_faults_have_happened():
    faults = [
        crash("computed", 1),
        crash("computed", 1),
        disk_full(1),
        io_error("sync", 1, nth=2),
        crash("committed", 1),
    ]
    run = simulate(Words, [*WORDS[:5], KILL, *WORDS[5:]], epochs=2, faults=faults)
    assert Tally(run.faults) == Tally(faults)
    assert [report.attempts for report in run.reports] == [7, 1]
    assert run.starts == 7
    assert_equals_plain(run)


def test_a_committed_epoch_does_not_run_again_so_a_second_crash_behind_its_commit_can_t_happen():
    with pytest.raises(MillpondError, match="MP584"):
        simulate(Words, WORDS, faults=[crash("committed", 1), crash("committed", 1)])


def test_a_call_that_is_not_made_so_often_can_t_fail():
    with pytest.raises(MillpondError, match="MP584"):
        simulate(Words, WORDS, faults=[io_error("write", epoch=1, nth=1000)])


@pytest.mark.parametrize("seed", sized(range(12), range(3)))
def test_random_faults_all_happen_and_change_nothing(seed):
    steps = [("see", word) for word in "abcd"] + [("count", "a"), ("write", "x"), ("note", "y"), ("count", "d")]
    faults = random_faults(seed, 5, epochs=2)
    run = simulate(Kinds, steps, epochs=2, partitions=1 + seed % 3, faults=faults)
    assert Tally(run.faults) == Tally(faults)
    assert_equals_plain(run, merge={"hits": sum})


def test_every_random_fault_of_an_epoch_happens_beside_the_others():
    faults = random_faults(3, 6, epochs=1)
    run = simulate(Words, WORDS, faults=faults)
    assert Tally(run.faults) == Tally(faults)
    assert_equals_plain(run)


def test_random_faults_follow_from_their_seed():
    drawn = [random_faults(seed, 4, epochs=5) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    runs = [simulate(Words, WORDS, epochs=5, faults=drawn[0]) for _ in range(2)]
    assert runs[0].faults == runs[1].faults
    assert runs[0].reports == runs[1].reports
    assert (runs[0].replies, runs[0].starts) == (runs[1].replies, runs[1].starts)
    with pytest.raises(MillpondError, match="MP586"):
        random_faults(1, 7, epochs=1)


@pytest.mark.parametrize("moment", get_args(Moment))
def test_timers_fire_once_through_crashes(moment):
    steps = [("click", "ann"), ("click", "bob"), pause(timedelta(minutes=31)), ("click", "ann"), ("click", "cid")]
    faults = [crash(moment, epoch) for epoch in (1, 2)]
    run = simulate(Visits, steps, faults=faults)
    assert [(fired.key, fired.reply) for fired in run.fired] == [("ann", 1), ("bob", 1)]
    assert run.faults == faults
    assert_equals_plain(run)


def test_rows_over_several_keys_stay_whole_through_crashes():
    steps = [("open", name, 10) for name in "abc"] + [
        ("move", *pair, 40) for pair in ("ab", "bc", "ca", "ab", "ab", "ab")
    ]
    run = simulate(Bank, steps, epochs=3, partitions=3, faults=random_faults(11, 8, epochs=3))
    assert sum(account.cents for account in run.state["accounts"].values()) == 300
    assert_equals_plain(run)


class Forgetful(Words):
    """Answers otherwise than the class that is compiled."""

    def __init__(self):
        super().__init__()
        self.counts["a"] = 5


def test_a_run_that_answers_wrongly_is_found_and_told_readably():
    run = replace(simulate(Words, WORDS, epochs=2), program=Forgetful)
    with pytest.raises(AssertionError) as caught:
        assert_equals_plain(run)
    lines = str(caught.value).splitlines()
    assert lines[0] == "the run of Forgetful differs from plain Python"
    assert "  row 0, add('a'): 6 in plain Python, 1 in the run" in lines
    assert lines[-1] == "  state counts['a']: 9 in plain Python, 4 in the run"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda run: {"replies": [7, *run.replies[1:]]}, "row 0, click('ann'): 1 in plain Python, 7 in the run"),
        (
            lambda run: {"state": {**run.state, "clicks": {}}},
            "state clicks['ann']: 1 in plain Python, nothing in the run",
        ),
        (lambda run: {"state": {**run.state, "clicks": {"ann": 1, "eve": 1}}}, "nothing in plain Python, 1 in the run"),
        (lambda run: {"fired": []}, "fired[0]: Fired(handler='over', key='ann'"),
    ],
)
def test_each_difference_is_found(change, told):
    run = simulate(Visits, [("click", "ann"), pause(timedelta(minutes=31)), ("click", "ann")])
    assert_equals_plain(run)
    with pytest.raises(AssertionError) as caught:
        assert_equals_plain(replace(run, **change(run)))
    assert told in str(caught.value)


def test_only_the_first_differences_are_shown():
    rows = [("add", "a") for _ in range(30)]
    run = simulate(Words, rows)
    with pytest.raises(AssertionError, match="and 10 more"):
        assert_equals_plain(replace(run, replies=[0] * 30))


def test_an_error_that_no_fault_made_is_raised(monkeypatch):
    def refuse(self, name, data):
        raise StorageError("MP307", "the disk is gone")

    monkeypatch.setattr(FileStorage, "put", refuse)
    with pytest.raises(StorageError):
        simulate(Words, WORDS, faults=[crash("published", 1)])
