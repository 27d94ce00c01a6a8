"""Which partition runs where: what is even, and who keeps their place when an anchor is built anew."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from millpond.runtime.messages import Control, Found, Seen
from millpond.runtime.spark.placement import LOOK_EPOCHS_MAX, Anchors, keep_places, uneven

EXECUTORS = st.sampled_from("abcd")
BOTH = st.lists(st.tuples(EXECUTORS, EXECUTORS), min_size=1, max_size=12)


@given(BOTH)
def test_each_partition_gets_a_row_of_its_own_and_as_many_as_possible_stay(pairs):
    wanted, offered = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    chosen = keep_places(wanted, offered)
    assert sorted(chosen) == list(range(len(pairs)))
    stayed = sum(offered[at] == place for at, place in zip(chosen, wanted, strict=True))
    # No assignment can do better than what both sides have of each executor.
    assert stayed == sum((Counter(wanted) & Counter(offered)).values())


@given(st.lists(EXECUTORS, max_size=12), st.sets(EXECUTORS))
def test_executors_are_uneven_if_moving_one_partition_would_help(places, executors):
    counts = {name: places.count(name) for name in {*places, *executors}}
    helps = any(counts[one] - 1 >= counts[other] + 1 for one in counts for other in counts)
    assert uneven(places, executors) == helps


class Looks(Anchors):
    """Anchors without Spark: counts when it would look for executors."""

    def __init__(self):
        super().__init__(None, "root", holding=True)
        self.looks = []
        self.epoch = 0

    def _look(self):
        self.looks.append(self.epoch)

    def run(self, epochs, places):
        for _ in range(epochs):
            self.epoch += 1
            self.prepare(len(places))
            controls = [Control(0, at, 0, 0, seen=Seen(place, Found.LOCAL)) for at, place in enumerate(places)]
            self.note(controls)


def test_looks_become_rare_while_nothing_moves_and_frequent_again_when_something_does():
    anchors = Looks()
    anchors.run(200, "ab")
    assert anchors.looks[:6] == [1, 2, 4, 8, 16, 32]
    gaps = [b - a for a, b in zip(anchors.looks, anchors.looks[1:], strict=False)]
    assert max(gaps) == LOOK_EPOCHS_MAX
    before = len(anchors.looks)
    anchors.run(1, "aa")
    anchors.run(8, "aa")
    assert len(anchors.looks) >= before + 4


def test_another_number_of_partitions_is_looked_at_at_once():
    anchors = Looks()
    anchors.run(100, "ab")
    anchors.looks.clear()
    anchors.run(1, "abc")
    assert anchors.looks == [101]


def test_without_holding_there_is_no_anchor_and_no_look():
    anchors = Anchors(None, "root", holding=False)
    assert anchors.prepare(4) is None


def test_the_last_epoch_of_a_run_is_not_worth_an_anchor():
    anchors = Looks()
    assert anchors.prepare(4, last=True) is None
    assert anchors.looks == []
