"""Every kind of window with every aggregate as state of a program, against a brute force over all rows.

Streams have disorder, rows that come twice, gaps and equal times, of one key and of many. Runs are simulated with some
partitions, and are started again with others while windows are open, also after crashes.
"""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.windowing.keyed import keyrows
from millpond.windowing.shared import SharedWindows
from millpond.windowing.stores.stores import EAGER, ON_DEMAND, PREFIX
from tests.property.test_eventtime import fresh, many  # noqa: F401
from tests.property.windows_kinds import (
    AGGREGATES,
    ANY_ORDER,
    KINDS,
    OVER_TIME,
    SHORT_STORIES,
    STORIES,
    UNIT,
    Dying,
    run,
    run_with_crashes,
    story,
)
from tests.sizes import sized, slow_or_wide

LATENESS = 6 * UNIT


@pytest.fixture(params=[ON_DEMAND, EAGER])
def store(request, monkeypatch):
    """Windows whose rows are in order keep their slices in this store, and look after their number at every row."""
    monkeypatch.setattr(keyrows, "SharedWindows", partial(SharedWindows, store=request.param, check=True))
    return request.param


def check(fresh, kinds, aggregates, examples, lateness=0, stories=STORIES):  # noqa: F811
    """Run generated stories; how many windows were told, and how many of them again."""
    seen = []

    @many(examples)
    @given(stories)
    def runs(told):
        seen.append(run(fresh, kinds, aggregates, told, lateness=lateness))

    runs()
    return [sum(one) for one in zip(*seen, strict=True)]


def test_all_kinds_with_all_aggregates_in_one_element(store, fresh):  # noqa: F811
    told, _ = check(fresh, list(KINDS), list(AGGREGATES), sized(3, 1))
    assert told > sized(100, 20)


@pytest.mark.parametrize("kind", sized(list(KINDS), list(KINDS)[::4]))
def test_a_kind_alone_with_all_aggregates(kind, fresh):  # noqa: F811
    check(fresh, [kind], list(AGGREGATES), 1, stories=SHORT_STORIES)


@pytest.mark.parametrize("name", sized(list(AGGREGATES), list(AGGREGATES)[::4]))
def test_an_aggregate_alone_over_all_kinds(name, fresh):  # noqa: F811
    told, _ = check(fresh, list(KINDS), [name], 1, stories=SHORT_STORIES)
    assert told > 5


@pytest.mark.parametrize("lateness", [0, LATENESS])
def test_windows_over_time_with_aggregates_in_any_order(lateness, fresh):  # noqa: F811
    told, again = check(fresh, list(OVER_TIME), ANY_ORDER, sized(4, 2), lateness)
    assert told > sized(20, 5)
    assert lateness or not again


@pytest.mark.parametrize(
    ("kinds", "aggregates"), [(KINDS, AGGREGATES), (OVER_TIME, ANY_ORDER)], ids=["all kinds", "any order"]
)
@pytest.mark.parametrize(
    "stories", [range(3), *slow_or_wide([range(3, 12)], [range(12, 30)])], ids=["some", "more", "many"]
)
def test_windows_survive_crashes_at_any_write(stories, kinds, aggregates, fresh, monkeypatch):  # noqa: F811
    dying = Dying(monkeypatch)
    crashes = [run_with_crashes(fresh, dying, list(kinds), list(aggregates), number) for number in stories]
    assert sum(crashes) >= len(stories)


@pytest.mark.parametrize("every", slow_or_wide([6], [1]))
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_alone_with_an_aggregate_alone(kind, every, fresh):  # noqa: F811
    told = 0
    for number, name in list(enumerate(AGGREGATES))[list(KINDS).index(kind) % every :: every]:
        told += run(fresh, [kind], [name], story(number, epochs=5))[0]
    assert told > 20 // every


MIXES = st.tuples(
    st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6, unique=True),
    st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=4, unique=True),
)
IN_ANY_ORDER = st.tuples(
    st.lists(st.sampled_from(sorted(OVER_TIME)), min_size=1, max_size=4, unique=True),
    st.lists(st.sampled_from(ANY_ORDER), min_size=1, max_size=3, unique=True),
)


def check_mixes(fresh, mixes, examples, lateness=0):  # noqa: F811
    """Run stories of generated elements; how many windows were told, and how many of them again."""
    seen = []

    @many(examples)
    @given(mixes, STORIES)
    def runs(mix, told):
        seen.append(run(fresh, *mix, told, lateness=lateness))

    runs()
    return [sum(one) for one in zip(*seen, strict=True)]


@pytest.mark.slow
@pytest.mark.usefixtures("store")
def test_some_kinds_with_some_aggregates(fresh):  # noqa: F811
    told, _ = check_mixes(fresh, MIXES, 25)
    assert told > 100


@pytest.mark.slow
@pytest.mark.parametrize("lateness", [0, LATENESS])
def test_some_windows_over_time_with_some_aggregates_in_any_order(lateness, fresh):  # noqa: F811
    told, again = check_mixes(fresh, IN_ANY_ORDER, 40, lateness)
    assert told > 100
    assert (again > 0) == (lateness > 0)


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("mixes", "lateness"), [(MIXES, 0), (IN_ANY_ORDER, 0), (IN_ANY_ORDER, LATENESS)], ids=["all", "any order", "late"]
)
def test_very_many_elements(mixes, lateness, fresh):  # noqa: F811
    check_mixes(fresh, mixes, 500, lateness)


@pytest.mark.slow
def test_stores_change_while_windows_are_open(fresh, monkeypatch):  # noqa: F811
    """The usual store is chosen anew every 64 slices: a key with many rows has several, and starts again with each."""
    kinds = set()

    class Noting(SharedWindows):
        def export(self):
            kinds.add(self.store_kind)
            return super().export()

    monkeypatch.setattr(keyrows, "SharedWindows", partial(Noting, check=True))
    names = [name for name in AGGREGATES if AGGREGATES[name][0].inverse is None]
    for number in range(3):
        run(fresh, list(KINDS), names, story(number, rows=60, keys="a"))
    assert kinds == {ON_DEMAND, EAGER}
    run(fresh, list(KINDS), ["count", "integers", "parities"], story(3, rows=60, keys="a"))
    assert kinds == {ON_DEMAND, EAGER, PREFIX}
