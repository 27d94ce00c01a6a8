"""Moments are the same moments whatever the time zone of the session: programs see them in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

import millpond
from millpond import EventTime, Map, Partitioned, Program, entry, memory, parquet
from millpond import windowing as w
from tests.spark.feeding import stream_of

NOON = datetime(2024, 3, 10, 6, 30, tzinfo=UTC)
"""In New York clocks are put forward half an hour later."""


class Last(Program):
    """Keeps moments by themselves and inside of tuples, in methods over one key and over two."""

    last = Partitioned(Map[str, datetime])
    spans = Partitioned(Map[str, list[datetime]])
    met = Partitioned(Map[int, datetime])

    @entry
    def see(self, name: str, at: datetime, span: tuple[datetime, int]) -> datetime:
        self.spans[name] = [*self.spans.get(name, []), span[0]]
        before = self.last.get(name, at)
        self.last[name] = at
        return before

    @entry
    def meet(self, one: int, other: int, at: datetime) -> datetime:
        before = max(self.met.get(one, at), self.met.get(other, at))
        self.met[one] = at
        self.met[other] = at
        return before


@pytest.fixture
def in_new_york(spark):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def moments(spark, count):
    return spark.range(count).selectExpr(
        "id", "concat('n', id % 3) as name", f"timestamp_micros({int(NOON.timestamp())}000000 + id * 600000000) as at"
    )


@pytest.mark.usefixtures("in_new_york")
def test_programs_keep_moments_of_a_session_in_another_zone(spark, tmp_path):
    seen = moments(spark, 12).selectExpr("id", "name", "at", "struct(at as _1, int(id) as _2) as span", "at as told")
    met = moments(spark, 6).selectExpr("id", "int(id) as one", "int(id) + 1 as other", "at")
    replies, others = memory(), memory()
    job = Last.on(spark, checkpoint=tmp_path / "ck", partitions=2)
    job.feed("see", seen, to=replies, order_by="id", keep=["told"])
    job.feed("meet", met, to=others, order_by="id")
    job.run()
    plain = Last()
    times = [NOON + timedelta(minutes=10 * n) for n in range(12)]
    wanted = [(plain.see(f"n{n % 3}", at, (at, n)), at) for n, at in enumerate(times)]
    met_wanted = [plain.meet(n, n + 1, times[n]) for n in range(6)]
    assert sorted((row["reply"], row["told"]) for row in replies.rows()) == sorted(wanted)
    assert sorted(row["reply"] for row in others.rows()) == sorted(met_wanted)
    state = millpond.read_state(spark, tmp_path / "ck", "last").selectExpr("key", "unix_micros(value) as us").collect()
    assert {row["key"]: row["us"] for row in state} == {
        name: int(at.timestamp()) * 1_000_000 for name, at in plain.last.items()
    }


@pytest.mark.usefixtures("in_new_york")
def test_windows_over_a_stream_of_a_session_in_another_zone(spark, tmp_path):
    moments(spark, 40).coalesce(1).write.parquet(str(tmp_path / "in"))
    sink = memory()
    asked = {"last": w.max_of("at"), "many": w.count()}
    windows = {"hour": w.tumbling(timedelta(hours=1)), "day": w.days("America/New_York")}
    millpond.windows(stream_of(spark, tmp_path / "in"), key="name", time=EventTime("at")).job(
        windows, to=sink, checkpoint=tmp_path / "ck", **asked
    ).run(close=True)
    batch = millpond.windows(spark.read.parquet(str(tmp_path / "in")), key="name", time="at").aggregate(
        windows, **asked
    )
    bounds = ("window_begin", "window_end", "last")
    wanted = batch.selectExpr(
        "name", "window", "many", *(f"unix_micros({name}) as {name}" for name in bounds)
    ).collect()
    found = [
        (row["name"], row["window"], row["many"], *(round(row[name].timestamp() * 1e6) for name in bounds))
        for row in sink.rows()
    ]
    assert sorted(found) == sorted(map(tuple, wanted))
    assert len(found) > 20


@pytest.mark.usefixtures("in_new_york")
@pytest.mark.parametrize(
    "join",
    [{"within": (timedelta(minutes=-25), timedelta(minutes=40))}, {"window": w.days("America/New_York")}],
    ids=["within", "days"],
)
def test_joins_of_streams_of_a_session_in_another_zone(spark, tmp_path, join):
    for side, columns in (("left", ("name", "at", "id as n")), ("right", ("name", "at as then", "id as m"))):
        moments(spark, 60).selectExpr(*columns).coalesce(1).write.parquet(str(tmp_path / side))

    def sides(read, timed):
        return (
            millpond.windows(read(tmp_path / side), key="name", time=timed(time))
            for side, time in (("left", "at"), ("right", "then"))
        )

    mine, theirs = sides(partial(stream_of, spark), EventTime)
    out = tmp_path / "out"
    mine.join_job(theirs, **join, how="full", to=parquet(out), checkpoint=tmp_path / "ck").run(close=True)
    mine, theirs = sides(lambda path: spark.read.parquet(str(path)), str)
    wanted, found = (
        sorted(map(str, frame.selectExpr("name", "n", "m", "unix_micros(at)", "unix_micros(then)").collect()))
        for frame in (mine.join(theirs, **join, how="full"), spark.read.parquet(str(out)))
    )
    assert found == wanted
    assert len(found) > 60
