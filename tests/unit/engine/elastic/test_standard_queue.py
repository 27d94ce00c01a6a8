"""What the standard policy makes of rows that wait in the sources."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.engine.elastic import Elastic, Observed, Reason
from millpond.engine.elastic.standard import Queue
from tests.sizes import some_of
from tests.unit.engine.elastic.test_standard_policies import Cluster, even

SPARK_S = 0.4


class Source:
    """Rows that come at a rate, and a cluster whose epochs take at most `limit` of them each, as fast as it goes."""

    def __init__(self, limit, partitions=1, *, told=True, trigger_s=0.0, options=None):
        self.cluster = Cluster(partitions, overhead_s=SPARK_S, options=options)
        self.cluster.trigger_s = trigger_s
        self.limit = limit
        self.told = told
        self.rows = 0.0

    def run(self, rows_per_s, epochs):
        """So many epochs; the number of partitions after each."""
        counts = []
        for _ in range(epochs):
            # Some row has always come by the time that an epoch ends.
            taken = min(max(self.rows, 1.0), self.limit)
            self.cluster.epoch(even(taken))
            # Spark tells of a batch when it is done.
            self.cluster.queued = round(self.rows - taken) if self.told else None
            self.rows = max(self.rows - taken, 0.0) + rows_per_s * self.cluster.interval_s
            counts.append(self.cluster.layout.partitions)
        return counts


def seen(fed_rows, queued_rows):
    return Observed(1, (0,), 1, [(0,)], (), (0.1,), 1.0, fed_rows=fed_rows, queued_rows=queued_rows)


@pytest.mark.parametrize(
    ("told", "grows", "long"),
    [
        ([(100, None)], False, False),
        ([(100, 0)], False, False),
        ([(100, 301)], False, True),
        ([(100, 300)], False, False),
        ([(100, 0), (100, 6)], True, False),
        ([(100, 0), (100, 5)], False, False),
        ([(100, 400), (100, 390)], False, True),
        ([(100, 400), (100, 500)], True, True),
        ([(100, 400), (100, 500), (0, None)], True, True),
        ([(100, 400), (100, 500), (100, None)], False, False),
        ([(100, 400), (100, None), (100, 500)], False, True),
    ],
)
def test_a_queue_grows_or_is_long_by_the_rows_of_epochs(told, grows, long):
    queue = Queue()
    for fed, queued in told:
        queue.learn(seen(fed, queued))
    assert (queue.grows, queue.long) == (grows, long)


def test_a_queue_that_grows_adds_partitions_that_are_at_work_for_less_than_what_is_busy():
    options = Elastic(busy=0.9)
    # At work for 0.6 of the time, which is not 0.7 of 0.9, while more rows come than are worked on.
    unknown, known = (Source(600, told=told, options=options) for told in (False, True))
    assert unknown.run(700, 30)[-1] == 1
    assert known.run(700, 30)[-1] == 2
    assert [decision.reason for decision in known.cluster.decisions] == [Reason.BUSY]
    assert "rows wait, more than before): 2 instead of 1" in known.cluster.decisions[0].told
    assert known.rows < unknown.rows / 3


@pytest.mark.parametrize("reports", [1, 3, 5])
def test_a_queue_that_grows_needs_as_many_reports_as_anything(reports):
    source = Source(600, options=Elastic(busy=0.9, reports=reports))
    source.rows = 6000.0
    # With the first batch nothing is told, and the second one has nothing to compare with.
    assert source.run(700, 2 + reports) == [1] * (1 + reports) + [2]


def test_partitions_that_are_hardly_at_work_are_not_more_of_them_because_a_queue_grows():
    # It is the source that gives few rows to an epoch.
    source = Source(100, trigger_s=1.0)
    assert set(source.run(500, 60)) == {1}


def test_partitions_stay_while_a_long_queue_is_worked_off_and_go_when_it_is():
    told, untold = Source(100, 4), Source(100, 4, told=False)
    for source in (told, untold):
        source.rows = 10_000.0
    assert min(untold.run(10, 60)) < 4, "by time at work alone they would be too many"
    assert set(told.run(10, 80)) == {4}
    assert told.rows > 300
    assert told.run(10, 80)[-1] == 1


@given(st.integers(1, 4000), st.integers(20, 4000), st.integers(1, 8), st.floats(0.0, 2.0), st.floats(0.3, 1.0))
@settings(max_examples=some_of(30), deadline=None)
def test_a_steady_rate_ends_in_a_steady_number(rows_per_s, limit, partitions, trigger_s, busy):
    source = Source(limit, partitions, trigger_s=trigger_s, options=Elastic(busy=busy))
    source.run(rows_per_s, 200)
    settled = len(source.cluster.decisions)
    source.run(rows_per_s, 150)
    assert len(source.cluster.decisions) == settled, "no flapping"
