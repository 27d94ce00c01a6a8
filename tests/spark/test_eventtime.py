"""Event time on Spark: bounded runs and streams against plain Python with the same watermarks, kills and idle feeds."""

from __future__ import annotations

import random
import signal
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import functions as F  # noqa: N812

from millpond import Counter, Durability, EventTime, Partitioned, Program, Tuning, entry, memory, parquet
from millpond.checkpoint.recovery import last_manifest, read_genesis
from millpond.engine.time.eventtime import LAST_US, FeedTime
from millpond.errors import MillpondError
from millpond.program.semantics.epoch_time import epoch_time, moment_of
from millpond.storage.backends.files import FileStorage
from tests.programs.eventtimed import EventPlain
from tests.programs.timed import SECOND, START, Alarms, Moves, Pledges, committed_state
from tests.spark.drivers import wait_for
from tests.spark.eventtime_job import DISORDER, Visits, VisitsDriver, visits
from tests.spark.feeding import stream_of, write_part

pytestmark = pytest.mark.usefixtures("in_utc")

EVENTS = 1_500_000_000 * SECOND
SCHEMAS = {
    "touch": "place int, ts timestamp, key string, wait bigint",
    "stop": "place int, ts timestamp, key string",
    "repeat": "place int, ts timestamp, key string, n bigint",
    "fill": "place int, ts timestamp, key string, n bigint",
    "move": "place int, ts timestamp, source string, target string, n bigint",
    "give": "place int, ts timestamp, source string, target string",
}


def made_up(program, seed, epochs=4, rows=12):
    """Epochs of rows at event times that drift on, out of order, some late and some without any."""
    chance = random.Random(seed)
    kinds = {
        Alarms: [("touch", 2), ("repeat", 2), ("stop", 1)],
        Moves: [("fill", 2), ("move", 3)],
        Pledges: [("fill", 2), ("give", 1)],
    }[program]
    found = []
    for number in range(epochs):
        told = []
        for _ in range(rows):
            name, shape = chance.choice(kinds)
            keys = ("key",) if name not in ("move", "give") else ("source", "target")
            arguments = tuple(chance.choice("abcde") for _ in keys)
            arguments += (chance.randrange(4),) * (shape > len(keys))
            happened = EVENTS + (number * 5 + chance.randrange(-9, 6)) * SECOND
            told.append(((name, arguments), None if chance.random() < 0.05 else happened))
        found.append(told)
    return found


def frames(spark, names, told):
    for name in names:
        own = [
            (place, None if happened is None else moment_of(happened), *arguments)
            for place, ((called, arguments), happened) in enumerate(told)
            if called == name
        ]
        yield name, spark.createDataFrame(own, SCHEMAS[name])


def late_of(plain, names, sinks):
    found = [
        (name, tuple(row[parameter] for parameter in row if parameter not in ("event_time", "late_by")), row["late_by"])
        for name in names
        for row in sinks[name].rows()
    ]
    return sorted(found), sorted((name, arguments, by / SECOND) for name, arguments, _, by in plain.late)


@pytest.mark.parametrize(
    ("program", "small_epoch", "spread"),
    [(Alarms, 20_000, False), (Alarms, 0, True), (Moves, 0, False), (Pledges, 0, False)],
)
def test_bounded_runs_equal_plain_python_with_the_same_watermarks(
    spark, tmp_path, monkeypatch, program, small_epoch, spread
):
    if spread:
        monkeypatch.setattr("millpond.spark.placement.placement.one_host", lambda _: False)
    names = {Alarms: ("touch", "stop", "repeat"), Moves: ("fill", "move"), Pledges: ("fill", "give")}[program]
    handlers = {Alarms: ("idle", "again"), Moves: (), Pledges: ("grow",)}[program]
    feed = FeedTime(disorder_us=2 * SECOND, lateness_us=SECOND, idle_us=3 * SECOND)
    plain = EventPlain(program, dict.fromkeys(names, feed), late=True)
    sinks = {name: memory() for name in (*names, *handlers)}
    epochs = made_up(program, 11, epochs=2 if spread else 3)
    late = 0
    for number, told in enumerate(epochs):
        clock, last = START + number * 2 * SECOND, number == len(epochs) - 1
        plain.epoch(clock, [row for row, _ in told], [happened for _, happened in told], ends=last)
        job = program.on(
            spark,
            checkpoint=tmp_path / "checkpoint",
            partitions=3,
            local_root=tmp_path / "local",
            tuning=Tuning(small_epoch=small_epoch),
        )
        for name, frame in frames(spark, names, told):
            job.feed(
                name,
                frame,
                order_by="place",
                on_bad_row="skip",
                time=EventTime(
                    "ts" if number else F.col("ts") + F.expr("interval 0 seconds"),
                    disorder=timedelta(seconds=2),
                    lateness=timedelta(seconds=1),
                    idle=timedelta(seconds=3),
                    late=sinks[name],
                ),
            )
        for name in handlers:
            job.on_timer(name, to=sinks[name])
        with epoch_time(clock):
            report = job.run(f"epoch-{number}", close=last)
        assert report.epochs[0].watermark == (None if plain.watermark is None else moment_of(plain.watermark))
        late += report.epochs[0].late_rows
    found, wanted = late_of(plain, names, sinks)
    assert found == wanted
    assert late == plain.counted_late > 0
    assert committed_state(program, FileStorage(tmp_path / "checkpoint")) == plain.state()
    for name in handlers:
        replies = sorted(str(reply) for handler, reply in plain.fired if handler == name)
        assert sorted(str(row["reply"]) for row in sinks[name].rows()) == replies
    assert plain.fired or not handlers


def clicks(seed, count):
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        happened = EVENTS + (number // 2 + chance.randrange(-4, 3)) * SECOND
        rows.append((("click", (chance.choice("abcdef"), number)), happened))
    return rows


def write_clicks(folder, told, parts):
    size = -(-len(told) // parts)
    epochs = [told[at : at + size] for at in range(0, len(told), size)]
    place = 0
    for part, epoch in enumerate(epochs):
        table = pa.table(
            {
                "place": pa.array(range(place, place + len(epoch)), pa.int64()),
                "ts": pa.array([happened for _, happened in epoch], pa.timestamp("us", tz="UTC")),
                "user": [row[1][0] for row, _ in epoch],
                "page": pa.array([row[1][1] for row, _ in epoch], pa.int64()),
            }
        )
        write_part(folder, part, table)
        place += len(epoch)
    return epochs


def visits_in_plain_python(epochs, ends=True):
    plain = EventPlain(Visits, {"click": FeedTime(disorder_us=DISORDER // timedelta(microseconds=1))}, late=True)
    for number, told in enumerate(epochs):
        plain.epoch(START + number, [row for row, _ in told], [happened for _, happened in told])
    if ends:
        plain.history.append((START + 100, []))
        plain._move(START + 100, ends=True)
    return plain


def in_folder(folder):
    files = [str(path) for path in folder.glob("*.parquet")]
    return ds.dataset(files).to_table().to_pylist() if files else []


def check_visits(folder, plain):
    assert committed_state(Visits, FileStorage(folder / "ck")) == plain.state()
    replies = {row["place"]: row["reply"] for row in in_folder(folder / "out")}
    assert len(replies) == len(in_folder(folder / "out"))
    assert replies == {at: reply for at, reply in enumerate(plain.replies) if reply is not None}
    over = sorted(tuple(row["reply"].values()) for row in in_folder(folder / "over"))
    assert over == sorted(reply for _, reply in plain.fired)
    late = sorted((row["user"], row["page"], row["late_by"]) for row in in_folder(folder / "late"))
    assert late == sorted((*arguments, by / SECOND) for _, arguments, _, by in plain.late)


def head_of(folder):
    storage = FileStorage(folder / "ck")
    return last_manifest(storage, read_genesis(storage)[1])[0]


@pytest.mark.connect
def test_a_stream_equals_plain_python_and_can_be_closed_later(spark, tmp_path):
    epochs = write_clicks(tmp_path / "in", clicks(3, 60), 5)
    visits(spark, tmp_path, 20_000, stream_of(spark, tmp_path / "in")).run()
    plain = visits_in_plain_python(epochs, ends=False)
    check_visits(tmp_path, plain)
    assert plain.late
    assert plain.fired
    assert head_of(tmp_path).times.event.watermark_us == plain.watermark < LAST_US
    # Nothing new: it is only closed, and once.
    for _ in range(2):
        visits(spark, tmp_path, 20_000, stream_of(spark, tmp_path / "in")).run(close=True)
    check_visits(tmp_path, visits_in_plain_python(epochs))
    assert head_of(tmp_path).epoch == len(epochs) + sum(1 for _ in fired_epochs(epochs)) + 1
    write_clicks(tmp_path / "more", clicks(4, 5), 1)
    (tmp_path / "more" / "part-0000.parquet").rename(tmp_path / "in" / "part-0009.parquet")
    with pytest.raises(MillpondError) as caught:
        visits(spark, tmp_path, 20_000, stream_of(spark, tmp_path / "in")).run()
    assert caught.value.code == "MP632"


def fired_epochs(epochs):
    """The epochs after which timers may have been due."""
    plain = visits_in_plain_python([], ends=False)
    for number, told in enumerate(epochs):
        plain.epoch(START + number, [row for row, _ in told], [happened for _, happened in told])
        if plain.fired:
            yield number
            plain.fired.clear()


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_a_killed_driver_goes_on_with_the_same_watermarks(spark, tmp_path):
    epochs = write_clicks(tmp_path / "in", clicks(5, 48), 4)
    plain = visits_in_plain_python(epochs)
    for number, point in enumerate(("epoch.computed:2", "manifest.committed:3", "publish.started:2")):
        driver = VisitsDriver(tmp_path, crash_at=point, small_epoch=20_000 * (number % 2))
        assert driver.end() in (0, -signal.SIGKILL)
    assert VisitsDriver(tmp_path).end() == 0
    assert plain.late
    check_visits(tmp_path, plain)


class Counts(Program):
    """A program that time changes nothing of."""

    clicks = Partitioned(Counter[str])

    @entry
    def click(self, user: str) -> int:
        self.clicks[user] += 1
        return self.clicks[user]


def test_a_feed_that_falls_idle_lets_timers_fire_by_ticks(spark, tmp_path):
    def written(part, user, second):
        ts = datetime(2020, 1, 1, 0, 0, second, tzinfo=UTC)
        write_part(tmp_path / user, part, pa.table({"user": [user], "page": [1], "place": [part], "ts": [ts]}))

    written(0, "busy", 50)
    written(0, "calm", 1)
    job = Visits.on(spark, checkpoint=tmp_path / "ck", partitions=2, local_root=tmp_path / "local")
    for user in ("busy", "calm"):
        job.feed(
            "click",
            stream_of(spark, tmp_path / user),
            name=user,
            order_by="place",
            time=EventTime("ts", idle=timedelta(seconds=4) if user == "calm" else timedelta(minutes=10)),
        )
    job.on_timer("over", to=parquet(tmp_path / "over"))
    query = job.start(tick=timedelta(milliseconds=200))
    try:
        wait_for(lambda: len(in_folder(tmp_path / "over")) == 1, "a timer")
        assert [row["user"] for row in in_folder(tmp_path / "over")] == ["calm"]
        event = head_of(tmp_path).times.event
        assert moment_of(event.watermark_us).second == 50
    finally:
        query.stop()
    assert job.error is None


@pytest.mark.classic("durability=`replay` is refused there before its event time is")
def test_what_does_not_describe_event_time_is_refused(spark, tmp_path):
    frame = spark.createDataFrame(
        [(0, datetime(2020, 1, 1, tzinfo=UTC), "a", 1)], "place int, ts timestamp, user string, page bigint"
    )

    def job(folder="ck"):
        return Visits.on(spark, checkpoint=tmp_path / folder, partitions=2, local_root=tmp_path / "local")

    def feed(**options):
        return job().feed("click", frame, order_by="place", **options)

    def used():
        job("used").feed("click", frame, order_by="place").run("first")
        return job("used").feed("click", frame, order_by="place", time=EventTime("ts")).run("second")

    def replayed():
        other = Counts.on(
            spark,
            checkpoint=tmp_path / "log",
            partitions=2,
            local_root=tmp_path / "local",
            durability=Durability("replay"),
        )
        return other.feed("click", frame, order_by="place", time=EventTime("ts")).run()

    wrong = {
        "MP637": (replayed,),
        "MP630": (lambda: feed(time=EventTime("ts")).feed("click", frame, name="other", order_by="place").run(),),
        "MP631": (used,),
        "MP526": (
            lambda: feed(time="ts"),
            lambda: feed(disorder=timedelta(seconds=1)),
            lambda: feed(late=memory()),
            lambda: feed(lateness_us=5),
        ),
        "MP634": (
            lambda: feed(time=EventTime("page")),
            lambda: feed(time=EventTime("nothing")),
            lambda: feed(time=EventTime(F.lit(1))),
        ),
        "MP635": (
            lambda: feed(time=EventTime("ts", disorder=5)),
            lambda: feed(time=EventTime("ts", idle=timedelta(0))),
        ),
        "MP514": (lambda: feed(time=EventTime("ts", late="late")),),
        "MP636": (
            lambda: job().feed(
                "click",
                frame.withColumn("late_by", F.lit(1)),
                order_by="place",
                time=EventTime("ts", late=memory()),
                to=memory(),
                keep=["late_by"],
            ),
        ),
    }
    for code, calls in wrong.items():
        for call in calls:
            with pytest.raises(MillpondError) as caught:
                call()
            assert caught.value.code == code
