"""TPC-C on partitions keeps the consistency conditions 1 to 4 of the standard, whatever is cut and killed."""

from __future__ import annotations

import copy

import pytest

from examples.tpcc import OrderEntry, conditions, initial_rows, work_rows
from millpond.testing import Refused, assert_equals_plain, crash, simulate

ROWS = [*initial_rows(), *work_rows(220, seed=3)]
SET_UP = len(list(initial_rows()))


def run_of(cuts, partitions, **how):
    return simulate(OrderEntry, ROWS, epochs=cuts, partitions=partitions, **how)


@pytest.fixture(scope="module")
def run():
    return run_of([SET_UP, SET_UP + 90, SET_UP + 91], 3, faults=[crash(at="written", epoch=2)])


def test_it_equals_plain_python_and_keeps_the_conditions(run):
    assert_equals_plain(run)
    assert all(conditions(run.state).values())
    assert any(isinstance(reply, Refused) for reply in run.replies)
    assert len(run.state["orders"]) > 60


def test_another_cut_and_number_of_partitions_give_the_same(run):
    other = run_of([SET_UP + 7], 5)
    assert (other.replies, other.state) == (run.replies, run.state)


def _unpaid(state):
    state["warehouses"][1].ytd += 1


def _skipped(state):
    state["districts"][1, 1].next_order += 1


def _lost_new_order(state):
    held = next(held for held in state["new_orders"].values() if len(held) > 2)
    del held[1]


def _lost_line(state):
    next(lines for lines in state["order_lines"].values()).pop()


@pytest.mark.parametrize(("number", "breaks"), list(enumerate((_unpaid, _skipped, _lost_new_order, _lost_line))))
def test_a_state_that_breaks_a_condition_is_found(run, number, breaks):
    state = copy.deepcopy(run.state)
    breaks(state)
    assert not list(conditions(state).values())[number]
