"""What a row costs an executor, apart from what its tasks cost without rows."""

from __future__ import annotations

import numpy as np
import pytest

from millpond.engine.elastic import Observed, TaskLoad
from millpond.engine.elastic.speeds import Speeds, Spent, fixed_rows
from millpond.keygroups import Layout


def seen(*spent):
    """An epoch of executors a, b, ... with a partition and a key group each, of so many rows and seconds."""
    layout = Layout(len(spent), len(spent), 1, aligned=False)
    rows, seconds = (tuple(figures) for figures in zip(*spent, strict=True))
    task = TaskLoad("add.0", rows, seconds, 0)
    places = tuple("abcdef"[: len(spent)])
    return Observed(1, layout.owners(), len(spent), layout.atoms, (task,), seconds, 1.0, places)


def speeds_after(*epochs, reports=3):
    speeds = Speeds(reports)
    for epoch in epochs:
        speeds.learn(seen(*epoch))
    return speeds


def pairs_of(fixed, rng, noise=0.0, cost_s=2e-5):
    """Two epochs each of some executors, whose rows differ."""
    for _ in range(12):
        rows = rng.uniform(1000, 10_000, 2)
        seconds = cost_s * rng.uniform(0.5, 5) * (rows + fixed) * np.exp(noise * rng.normal(size=2))
        yield tuple(Spent(*one) for one in zip(rows, seconds, strict=True))


@pytest.mark.parametrize("fixed", [500, 5000, 50_000])
def test_the_fixed_cost_is_found_from_rows_that_change(fixed):
    found = fixed_rows(pairs_of(fixed, np.random.default_rng(1)))
    assert fixed / 1.3 < found < fixed * 1.3


def test_no_fixed_cost_is_found_where_there_is_none():
    assert fixed_rows(pairs_of(0, np.random.default_rng(1))) == 0


@pytest.mark.parametrize("seed", range(10))
def test_the_fixed_cost_is_about_right_though_times_are_noisy_and_one_executor_became_slow(seed):
    rng = np.random.default_rng(seed)
    pairs = list(pairs_of(5000, rng, noise=0.05))
    then, now = pairs[0]
    pairs[0] = then, now._replace(seconds=5 * now.seconds)
    assert 5000 / 3 < fixed_rows(pairs) < 5000 * 3


def test_what_an_epoch_shows_by_itself_is_seen_at_once_and_what_is_of_late_by_most_reports():
    even = [(1000, 0.1), (1000, 0.1)]
    speeds = speeds_after(even, even, [(1000, 0.1), (1000, 2.0)])
    assert speeds.now("ab") == [1.0, pytest.approx(20)]
    assert speeds.of_late("ab") == [1.0, 1.0]


def test_executors_are_about_as_fast_as_most():
    speeds = speeds_after([(1000, 0.1), (1000, 0.12), (1000, 0.1), (1000, 0.3)])
    assert speeds.of_late("abcda") == [1.0, 1.0, 1.0, pytest.approx(3), 1.0]
    assert speeds.of_late("az") == [1.0, 1.0], "one that nobody knows is like the others"


def test_as_long_as_the_fixed_cost_is_not_known_nobody_is_slow_who_may_have_had_fewer_rows():
    assert speeds_after([(5000, 0.2), (100, 0.1)]).now("ab") == [1.0, 1.0]
    assert speeds_after([(5000, 0.2), (4000, 0.8)]).now("ab") == [1.0, pytest.approx(4)]


def test_an_executor_of_few_rows_is_known_to_be_as_fast_once_rows_have_changed():
    speeds = speeds_after([(5000, 0.2), (5000, 0.2)], [(9000, 0.28), (1000, 0.12)])
    assert speeds.now("ab") == [1.0, 1.0]
    speeds.learn(seen((9000, 0.28), (1000, 0.6)))
    assert speeds.now("ab") == [1.0, pytest.approx(5, rel=0.3)]


def test_one_executor_alone_is_neither_fast_nor_slow():
    assert speeds_after([(1000, 0.1)]).of_late("a") == [1.0]
    assert Speeds(3).now("ab") == [1.0, 1.0]
