"""Control rows of an epoch: all of them, each once, and the right failure first."""

from __future__ import annotations

import pytest

from millpond.checkpoint.records.work import Changed
from millpond.engine.assemble import assemble
from millpond.engine.messages import Control, Failure, decode_control, encode_control
from millpond.engine.simulated import Simulated
from millpond.errors import EpochError, RowError
from millpond.state.changes import Changes
from tests.programs.keyed import Recommender
from tests.sizes import compile_once


@pytest.fixture
def plan(tmp_path):
    return Simulated(compile_once(Recommender), tmp_path, partitions=2)._plan


def told(plan, **changes):
    """One control row per task, all of one story; `changes` replace some by (step, partition)."""
    rows = {(s, p): Control(s, p, 0, 0) for s in range(plan.steps) for p in range(2)}
    return list((rows | changes.get("instead", {})).values())


def failure(code, order):
    return Failure("RowError", code, "no", place=(order, 0, None, 0))


def test_changes_of_all_steps_come_together_by_partition(plan):
    work = assemble(
        plan,
        told(
            plan,
            instead={
                (0, 0): Control(
                    0, 0, 0, 0, changed=Changed(Changes([b"b"], [b"1"]), growth=2), counters={"fed.rate": 2}
                ),
                (1, 0): Control(
                    1, 0, 0, 0, changed=Changed(Changes([b"a"], [None]), growth=-1), counters={"fed.rate": 1}
                ),
            },
        ),
        {"total.fed.rate": 4, "fed.rate": 9},
    )
    assert [one.inline for one in work.changed] == [([b"a", b"b"], [None, b"1"]), ([], [])]
    assert work.counters == {"entries": 1, "fed.rate": 3, "total.entries": 1, "total.fed.rate": 7}


def test_the_first_failure_in_input_order_is_raised(plan):
    rows = told(
        plan,
        instead={
            (0, 0): Control(0, 0, 0, 0, failure=failure("MP603", 7)),
            (0, 1): Control(0, 1, 0, 0, failure=failure("MP602", 3)),
        },
    )
    with pytest.raises(RowError) as caught:
        assemble(plan, rows, {})
    assert caught.value.code == "MP602"


def test_a_failure_of_an_earlier_step_comes_first(plan):
    rows = told(
        plan,
        instead={
            (0, 1): Control(0, 1, 0, 0, failure=failure("MP603", 7)),
            (1, 0): Control(1, 0, 0, 0, failure=Failure("EpochError", "MP430", "answers are missing")),
        },
    )
    with pytest.raises(RowError) as caught:
        assemble(plan, rows, {})
    assert caught.value.code == "MP603"


def incomplete(plan, rows):
    with pytest.raises(EpochError) as caught:
        assemble(plan, rows, {})
    return caught.value.code == "MP431"


def test_a_missing_report_is_noticed(plan):
    assert incomplete(plan, told(plan)[:-1])


def test_a_report_that_comes_twice_is_noticed(plan):
    assert incomplete(plan, [*told(plan), told(plan)[0]])


def test_a_message_that_never_arrived_is_noticed(plan):
    assert incomplete(plan, told(plan, instead={(0, 0): Control(0, 0, 0, 5), (1, 1): Control(1, 1, 4, 0)}))


def test_no_reports_at_all_are_an_empty_epoch(plan):
    work = assemble(plan, [], {"total.entries": 3})
    assert (work.changed, work.outputs, work.counters) == ((), (), {"total.entries": 3})


def test_a_control_row_travels_unchanged():
    control = Control(
        1, 2, 3, 4, changed=Changed(Changes([b"k"], [None])), counters={"x": 1}, failure=failure("MP602", 1)
    )
    assert decode_control(encode_control(control)) == control
