"""Which partition runs where: what is even, and who keeps their place when an anchor is built anew."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from millpond.engine.elastic import Observed, TaskLoad
from millpond.engine.messages import Control, Found, Seen
from millpond.keygroups import Layout
from millpond.spark.placement.placement import LOOK_EPOCHS_MAX, Anchor, Anchors, keep_places, uneven

EXECUTORS = st.sampled_from("abcd")
BOTH = st.lists(st.tuples(EXECUTORS, EXECUTORS), min_size=1, max_size=12)


@given(BOTH)
def test_each_partition_gets_a_row_of_its_own_and_as_many_as_possible_stay(pairs):
    wanted, offered = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    chosen = keep_places(wanted, offered, [1.0] * len(pairs))
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


class Fixed(Anchors):
    """Anchors on executors a and b without Spark: an anchor lies where it is said, and counts how often it is built."""

    def __init__(self):
        super().__init__(None, "root", holding=True)
        self.built = 0

    def _executors(self):
        return {"a", "b"}

    def _slots(self):
        return [10 * number for number in range(self._partitions)]

    def _build_even(self, slots, executors):
        self.built += 1
        return "frame", {slot: "ab"[at * 2 // len(slots)] for at, slot in enumerate(slots)}

    def _drop(self):
        self._anchor = None

    def run(self, epochs, rows):
        """So many epochs with so many rows for each partition, a thousand of them in a second."""
        for epoch in range(epochs):
            anchor = self.prepare(len(rows))
            layout = Layout(len(rows), len(rows), 1, aligned=False)
            seconds = tuple(count / 1000 for count in rows)
            task = TaskLoad("add.0", tuple(rows), seconds, 0)
            seen = Observed(epoch, layout.owners(), len(rows), layout.atoms, (task,), seconds, 3.0, anchor.places)
            self.note([Control(0, at, 0, 0, seen=Seen(place)) for at, place in enumerate(anchor.places)], seen)
        return self._anchor


def test_partitions_with_many_rows_come_to_different_executors_without_a_new_anchor():
    anchors = Fixed()
    assert anchors.run(1, (900, 100, 800, 100)) == Anchor("frame", (0, 20, 10, 30), ("a", "b", "a", "b"))
    after = anchors.run(12, (900, 100, 800, 100))
    assert sorted(after.slots) == [0, 10, 20, 30]
    assert after.places[0] != after.places[2]
    assert sum(now != then for now, then in zip(after.places, "abab", strict=True)) == 2, "one for one"
    assert anchors.built == 1
    assert anchors.run(40, (900, 100, 800, 100)) == after, "and they stay there"


def test_one_epoch_that_is_out_of_line_gives_no_partition_another_executor():
    anchors = Fixed()
    anchors.run(3, (500, 500, 500, 500))
    anchors.run(1, (5000, 100, 5000, 100))
    assert anchors.run(40, (500, 500, 500, 500)).places == ("a", "b", "a", "b")


def test_what_partitions_had_to_do_with_other_key_groups_is_no_reason():
    stays, moves = Fixed(), Fixed()
    for anchors in (stays, moves):
        assert anchors.run(3, (900, 100, 800, 100)).places == ("a", "b", "a", "b")
    stays.forget_loads()
    assert stays.run(1, (500, 500, 500, 500)).places == ("a", "b", "a", "b")
    assert moves.run(1, (500, 500, 500, 500)).places != ("a", "b", "a", "b")
