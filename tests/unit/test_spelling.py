"""Calls as they were written before are refused, and the error shows how they are written now."""

from __future__ import annotations

from datetime import timedelta

import pytest

import millpond
from millpond import BoundedLoss, Counter, Durability, EventTime, Keep, Partitioned, Tuning
from millpond.engine.elastic.options import Elastic
from millpond.errors import FeedError
from millpond.spelling import check_call

TAKEN = ("checkpoint", "partitions", "local_root", "progress", "durability", "tuning")


def on(durability=None, tuning=None, **old):
    check_call("Program.on", old, TAKEN, {"durability": (Durability, durability), "tuning": (Tuning, tuning)})


def feed(time=None, **old):
    check_call("job.feed", old, ("to", "keep", "name"), {"time": (EventTime, time)})


@pytest.mark.parametrize(
    ("call", "now"),
    [
        (lambda: on(key_groups=4), "tuning=Tuning(key_groups=4)"),
        (lambda: on(retries=2, small_epoch=0, elastic="act"), "tuning=Tuning(retries=2, small_epoch=0, elastic='act')"),
        (lambda: on(memory_mb=None, steps=3), "tuning=Tuning(steps=3, memory_mb=None)"),
        (lambda: on(tuning=5), "tuning=Tuning(5)"),
        (lambda: on(durability="replay"), "durability=Durability('replay')"),
        (lambda: on(durability="lazy"), "durability=Durability('bounded_loss')"),
        (lambda: on(durability=BoundedLoss(events=3)), "durability=Durability(BoundedLoss(events=3, "),
        (lambda: on(keep=None, restore="lazy"), "durability=Durability(keep=None, restore='on_demand')"),
        (lambda: on(durability="replay", work="w"), "durability=Durability('replay', work='w')"),
        (lambda: on(keygroups=4), "tuning=Tuning(key_groups=...)"),
        (lambda: on(checkpint="ck"), "expected  checkpoint="),
        (lambda: on(zzz=1), "expected  checkpoint=, partitions=, local_root=, progress=, durability=, tuning="),
        (lambda: feed(time="ts"), "time=EventTime('ts')"),
        (
            lambda: feed("ts", late=1, disorder=timedelta(1)),
            "EventTime('ts', disorder=datetime.timedelta(days=1), late=1)",
        ),
        (lambda: feed(idle="1 s"), "time=EventTime(idle='1 s')"),
        (lambda: feed(lateness_us=1), "time=EventTime(lateness=...)"),
        (lambda: Durability("lazy"), 'expected  "bounded_loss"'),
        (lambda: Durability(restore="lazy"), 'expected  "on_demand"'),
        (lambda: Partitioned(Counter[str], durability="lazy"), 'expected  "bounded_loss"'),
        (lambda: BoundedLoss(events=2, seconds=5), 'BoundedLoss(within="5 s")'),
        (lambda: Keep(grace_s=600), 'Keep(grace="600 s")'),
        (lambda: Elastic(ignored_s=0.05), 'Elastic(ignored="0.05 s")'),
        (lambda: millpond.Lazy, "from millpond import BoundedLoss"),
        (lambda: millpond.windows(None, key="k", time="at", disorder=timedelta(1)), "time=EventTime('at', disorder="),
        (lambda: millpond.windows(None, key="k", time="at", partition=2), "expected  partitions="),
    ],
)
def test_the_old_spelling_is_shown_the_new_one(call, now):
    with pytest.raises(FeedError) as caught:
        call()
    assert caught.value.code == "MP526"
    assert now in str(caught.value)


def test_what_is_written_as_it_should_be_passes():
    on()
    on(Durability("replay"), Tuning(retries=1))
    feed(EventTime("ts", disorder="10 s"))


def test_other_names_that_are_not_there_are_missing_as_in_any_module():
    assert not hasattr(millpond, "Lazier")
    with pytest.raises(ImportError, match="Lazier"):
        from millpond import Lazier  # noqa: F401
