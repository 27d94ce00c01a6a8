"""The interval join written as ordinary state, on Spark: two bounded runs over one checkpoint, out of order."""

from __future__ import annotations

import pytest

from examples.attribution import DISORDER, SEED, Attribution, make_events
from millpond import EventTime, memory
from tests.unit.examples.test_attribution import by_brute_force

pytestmark = pytest.mark.usefixtures("in_utc")


def test_pairs_and_lone_rows_are_those_of_brute_force(spark, tmp_path):
    events = make_events(SEED + 2, 120)
    sinks = {name: memory() for name in ("show", "click", "unclicked")}
    for number, part in enumerate((events[:50], events[50:])):
        job = Attribution.on(spark, checkpoint=tmp_path / "checkpoint", partitions=2, local_root=tmp_path / "local")
        for name, column in (("show", "ad"), ("click", "click")):
            rows = [(place, moment, *arguments) for place, (moment, kind, arguments) in enumerate(part) if kind == name]
            frame = spark.createDataFrame(rows, f"place int, ts timestamp, user string, {column} bigint")
            job.feed(name, frame, order_by="place", time=EventTime("ts", disorder=DISORDER), to=sinks[name])
        job.on_timer("unclicked", to=sinks["unclicked"])
        job.run(f"part-{number}", close=number == 1)
    pairs, lone = by_brute_force(events)
    told = [tuple(pair.values()) for name in ("show", "click") for row in sinks[name].rows() for pair in row["reply"]]
    assert sorted(told) == sorted(pairs)
    assert sorted(row["reply"] for row in sinks["unclicked"].rows() if row["reply"] is not None) == sorted(lone)
    assert pairs
    assert lone
