"""Conditions one by one, combined, and for one and the same round."""

from __future__ import annotations

import math
from typing import ClassVar

import pytest

from millpond.errors import LoopError
from millpond.loops import Loop, fixpoint, iterate, rounds, run_loop, state, when, within
from millpond.loops.termination import RoundReport


def code_of(call):
    with pytest.raises(LoopError) as caught:
        call()
    return caught.value.code


def report(number=1, messages=1, votes=(), **aggregates):
    return RoundReport(number, messages, votes, aggregates)


def test_a_fixpoint_is_no_message():
    assert fixpoint().over(report(messages=0))
    assert not fixpoint().over(report(messages=1))


def test_rounds_are_counted():
    assert [rounds(3).over(report(number)) for number in (0, 2, 3, 4)] == [False, False, True, True]
    assert rounds(0).over(report(0))


def test_an_aggregate_is_within_its_bound():
    until = within(0.5, of="change")
    assert [until.over(report(change=one)) for one in (0.0, 0.5, 0.6, math.nan)] == [True, True, False, False]
    assert not until.over(report()), "nobody reported"


def test_votes():
    assert when(all).over(report(votes=(True, True)))
    assert not when(all).over(report(votes=(True, False)))
    assert when(any).over(report(votes=(True, False)))
    assert not when(all).over(report()), "silence is no vote"


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("right", [True, False])
def test_conditions_are_combined(left, right):
    one, two = rounds(1 if left else 9), rounds(2 if right else 9)
    assert (one | two).over(report(2)) is (left or right)
    assert (one & two).over(report(2)) is (left and right)


def test_the_bound_of_combined_conditions():
    assert (rounds(3) | rounds(5)).limit() == 3
    assert (rounds(3) & rounds(5)).limit() == 5
    assert (rounds(3) & fixpoint()).limit() is None
    assert (rounds(3) | fixpoint()).limit() == 3


def test_text_has_the_brackets_that_it_needs():
    until = (rounds(3) | within(0.5, of="x")) & when(all)
    assert until.text == "(rounds(3) | within(0.5, of='x')) & when(all)"


@pytest.mark.parametrize(
    "call",
    [
        lambda: rounds(-1),
        lambda: rounds(1.0),
        lambda: within(-1.0),
        lambda: within(math.nan),
        lambda: within(True),
        lambda: within(1.0, of=3),
        lambda: when(3),
        lambda: fixpoint() | 3,
        lambda: fixpoint() & None,
        lambda: iterate(1, abs, until=3),
        lambda: iterate(1, abs, until=within(1, of="x")),
        lambda: iterate([1], list, until=within(1)),
        lambda: within(1.0).over(report()),
    ],
)
def test_what_is_no_condition_is_refused(call):
    assert code_of(call) == "MP850"


class Ring(Loop):
    """Each key votes in each round; a key votes yes in the round of its own number, and one round later no."""

    aggregators: ClassVar = {"yes": sum}
    size: int = state(0)

    def entry(self, rows: list[int]) -> None:
        self.size = rows[0]
        self.send(self.key, 0)

    def step(self, messages: list[int]) -> None:
        yes = self.round % self.size == self.key
        self.vote(yes)
        self.report("yes", int(yes))
        self.send(self.key, 0)

    def finalize(self) -> int:
        return self.round


@pytest.mark.parametrize("size", [2, 3, 5])
def test_votes_of_different_rounds_are_never_counted_together(size):
    # Over `size` rounds every key has voted yes once, but never all in one round.
    found = run_loop(Ring, {key: [size] for key in range(size)}, until=when(all) | rounds(4 * size))
    assert set(found.values()) == {4 * size}
    assert set(run_loop(Ring, {key: [size] for key in range(size)}, until=when(any)).values()) == {1}


def test_aggregates_are_those_of_one_round():
    found = run_loop(Ring, {key: [3] for key in range(3)}, until=rounds(9) | within(0.0, of="yes"))
    assert set(found.values()) == {9}, "one of three votes yes in every round"


def test_a_loop_without_messages_is_over_whatever_it_waits_for():
    class Still(Loop):
        def finalize(self) -> int:
            return self.round

    assert run_loop(Still, {1: [1]}, until=rounds(10) & when(all)) == {1: 0}
