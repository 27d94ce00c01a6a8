"""State that expires and timers on Spark: bounded runs against plain Python with the same times, and ticks."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from millpond import Counter, Map, Partitioned, Program, Tuning, entry, memory, on_timer, parquet
from millpond.errors import MillpondError
from millpond.program.semantics.epoch_time import epoch_time
from millpond.storage.backends.files import FileStorage
from tests.programs.timed import SECOND, START, Alarms, Plain, Pledges, committed_state
from tests.spark.drivers import wait_for
from tests.spark.feeding import stream_of, write_part

EPOCHS = [
    (0, [("touch", ("a", 3)), ("touch", ("b", 5)), ("repeat", ("c", 1)), ("touch", ("a", 4))]),
    (2, [("repeat", ("d", 2)), ("touch", ("e", -1)), ("stop", ("b",))]),
    (5, [("touch", ("b", 2)), ("repeat", ("c", 1))]),
    (9, [("touch", ("z", 30))]),
    (20, [("stop", ("y",))]),
]
SCHEMAS = {
    "touch": "place int, key string, wait bigint",
    "stop": "place int, key string",
    "repeat": "place int, key string, n bigint",
}


def run_epoch(spark, folder, number, rows, sinks, **tuning):
    job = Alarms.on(
        spark,
        checkpoint=folder / "checkpoint",
        partitions=3,
        local_root=folder / "local",
        tuning=Tuning(**tuning),
    )
    for name in ("touch", "stop", "repeat"):
        own = [(place, *arguments) for place, (called, arguments) in enumerate(rows) if called == name]
        job.feed(name, spark.createDataFrame(own, SCHEMAS[name]), order_by="place")
    for name, sink in sinks.items():
        job.on_timer(name, to=sink)
    return job.run(f"epoch-{number}")


@pytest.mark.parametrize("spread", [False, True])
def test_bounded_runs_equal_plain_python_with_the_same_times(spark, tmp_path, monkeypatch, spread):
    if spread:
        # As on a cluster: the stores are looked into by their hosts, and no epoch runs in one task.
        monkeypatch.setattr("millpond.spark.placement.placement.one_host", lambda _: False)
    plain = Plain(Alarms)
    sinks = {"idle": memory(), "again": memory()}
    for number, (seconds, rows) in enumerate(EPOCHS[: 3 if spread else 5]):
        now = START + seconds * SECOND
        plain.epoch(now, rows)
        with epoch_time(now):
            run_epoch(spark, tmp_path, number, rows, sinks)
    assert committed_state(Alarms, FileStorage(tmp_path / "checkpoint")) == plain.state()
    for name, sink in sinks.items():
        wanted = sorted(str(reply) for handler, reply in plain.fired if handler == name)
        assert sorted(str(row["reply"]) for row in sink.rows()) == wanted
    assert set(sinks["again"].rows()[0]) == {"pair", "at", "reply"}
    assert all(isinstance(row["at"], datetime) for row in sinks["idle"].rows())


def test_handlers_over_several_keys_run_gathered(spark, tmp_path):
    plain, replies = Plain(Pledges), memory()
    epochs = [
        (0, [("fill", (key, 2)) for key in "abcdefgh"]),
        (1, [("give", ("a", "z")), ("give", ("b", "y"))]),
        (5, [("give", ("nobody", "a"))]),
    ]
    for number, (seconds, rows) in enumerate(epochs):
        now = START + seconds * SECOND
        plain.epoch(now, rows)
        job = Pledges.on(
            spark,
            checkpoint=tmp_path / "checkpoint",
            partitions=3,
            local_root=tmp_path / "local",
            tuning=Tuning(small_epoch=0),
        )
        own = [(place, *arguments) for place, (_, arguments) in enumerate(rows)]
        columns = "place int, key string, n bigint" if not number else "place int, source string, target string"
        job.feed(rows[0][0], spark.createDataFrame(own, columns), order_by="place")
        with epoch_time(now):
            job.on_timer("grow", to=replies).run(f"epoch-{number}")
    assert committed_state(Pledges, FileStorage(tmp_path / "checkpoint")) == plain.state()
    assert sorted(row["reply"] for row in replies.rows()) == sorted(reply for _, reply in plain.fired)
    assert {row["key"] for row in replies.rows()} == set("abcdefghyz")


class Sessions(Program):
    """A session is over when nothing came for a while."""

    clicks = Partitioned(Counter[str])
    pages = Partitioned(Map[str, list[str]], ttl=timedelta(hours=1))

    @entry
    def click(self, user: str, page: str) -> None:
        self.clicks[user] += 1
        self.pages.setdefault(user, []).append(page)
        self.over.set(user, self.now + timedelta(seconds=1))

    @on_timer
    def over(self, user: str, at: datetime) -> tuple[int, int]:
        return self.clicks.pop(user, 0), len(self.pages.get(user, []))


def clicks(folder, part, users):
    write_part(folder, part, pa.table({"user": users, "page": ["home"] * len(users)}))


def test_a_query_whose_feeds_are_idle_fires_timers_by_itself(spark, tmp_path):
    clicks(tmp_path / "in", 0, ["ann", "bob", "ann"])
    job = Sessions.on(spark, checkpoint=tmp_path / "checkpoint", partitions=2, local_root=tmp_path / "local")
    job.feed("click", stream_of(spark, tmp_path / "in"))
    job.on_timer("over", to=parquet(tmp_path / "out"))
    query = job.start(tick=timedelta(milliseconds=200))

    def rows():
        found = list((tmp_path / "out").glob("*.parquet"))
        return [] if not found else spark.read.parquet(str(tmp_path / "out")).collect()

    try:
        wait_for(lambda: len(rows()) == 2, "two replies")
        assert {row.user: tuple(row.reply) for row in rows()} == {"ann": (2, 2), "bob": (1, 1)}
        clicks(tmp_path / "in", 1, ["ann"])
        wait_for(lambda: len(rows()) == 3, "a third reply")
        epochs = len(list((tmp_path / "checkpoint" / "manifests").iterdir()))
        time.sleep(1.5)
        assert len(list((tmp_path / "checkpoint" / "manifests").iterdir())) == epochs, (
            "nothing is due, nothing is written"
        )
    finally:
        query.stop()
    assert sorted(tuple(row.reply) for row in rows()) == [(1, 1), (1, 3), (2, 2)]
    assert job.error is None
    state = committed_state(Sessions, FileStorage(tmp_path / "checkpoint"))
    assert state["clicks"] == {}
    assert state["over"] == {}


class Broken(Program):
    counts = Partitioned(Counter[str])

    @entry
    def click(self, user: str, page: str) -> None:
        self.counts[user] += 1
        self.over.set(user, self.now + timedelta(seconds=1))

    @on_timer
    def over(self, user: str, at: datetime) -> int:
        return 1 // (self.counts[user] - 1)


def test_a_handler_that_raises_in_a_tick_ends_the_query_and_is_told(spark, tmp_path):
    clicks(tmp_path / "in", 0, ["ann"])
    job = Broken.on(spark, checkpoint=tmp_path / "checkpoint", partitions=2, local_root=tmp_path / "local")
    job.feed("click", stream_of(spark, tmp_path / "in"))
    query = job.start(tick=timedelta(milliseconds=200))
    try:
        wait_for(lambda: job.error is not None and not query.isActive, "the end of the query")
    finally:
        query.stop()
    assert "ZeroDivisionError" in str(job.error)
    assert committed_state(Broken, FileStorage(tmp_path / "checkpoint"))["over"], "the timer is still there"


def test_rows_can_not_be_fed_to_a_handler_and_ticks_are_lengths_of_time(spark, tmp_path):
    clicks(tmp_path / "in", 0, ["ann"])
    job = Sessions.on(spark, checkpoint=tmp_path / "checkpoint", partitions=2, local_root=tmp_path / "local")
    frame = stream_of(spark, tmp_path / "in")
    wrong = {
        "MP461": (lambda: job.feed("over", frame), lambda: job.feed("click", frame, name="over")),
        "MP462": (lambda: job.on_timer("click", to=memory()),),
        "MP463": (lambda: job.feed("click", frame).start(tick=timedelta(seconds=-1)),),
    }
    for code, calls in wrong.items():
        for call in calls:
            with pytest.raises(MillpondError) as caught:
                call()
            assert caught.value.code == code
