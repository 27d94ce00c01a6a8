"""Windows of programs on Spark: a stream with a restart, and a bounded run that closes all, against plain Python."""

from __future__ import annotations

import random
from datetime import timedelta

import pyarrow as pa
import pytest

from millpond import EventTime, Tuning, memory
from millpond.engine.time.eventtime import FeedTime
from millpond.program.semantics.epoch_time import epoch_time, moment_of
from millpond.storage.backends.files import FileStorage
from tests.programs.timed import SECOND, START, committed_state
from tests.programs.windowed import Corrected, Ordered, Watched
from tests.spark.feeding import stream_of, write_part

pytestmark = pytest.mark.usefixtures("in_utc")

EVENTS = 1_500_000_000 * SECOND
NAMES = ("read", "visit")
HANDLERS = {Corrected: ("spans", "visits"), Ordered: ("counted", "visits")}
DISORDER = timedelta(seconds=2)
LATENESS = {Corrected: timedelta(seconds=4), Ordered: timedelta()}


def made_up(seed, epochs, rows=14):
    chance = random.Random(seed)
    return [
        [
            ((chance.choice(NAMES), (chance.choice("abc"), chance.randrange(2))), EVENTS + (number * 5 + at) * SECOND)
            for at in (chance.randrange(-8, 5) for _ in range(rows))
        ]
        for number in range(epochs)
    ]


def table_of(name, told):
    own = [(place, key, n, us) for place, ((called, (key, n)), us) in enumerate(told) if called == name]
    place, key, n, ts = zip(*own, strict=True)
    return pa.table({"place": place, "key": key, "n": n, "ts": pa.array([moment_of(us) for us in ts])})


def plain_of(program, epochs, closed):
    feed = FeedTime(DISORDER // timedelta(microseconds=1), LATENESS[program] // timedelta(microseconds=1), None)
    plain = Watched(program, dict.fromkeys(NAMES, feed), late=False)
    for number, told in enumerate(epochs):
        last = closed and number == len(epochs) - 1
        plain.epoch(START + number, [row for row, _ in told], [us for _, us in told], ends=last)
    return plain


def job_on(spark, program, folder, frames, sinks, small_epoch):
    job = program.on(
        spark,
        checkpoint=folder / "ck",
        partitions=3,
        local_root=folder / "local",
        tuning=Tuning(small_epoch=small_epoch),
    )
    for name in NAMES:
        job.feed(
            name, frames[name], order_by="place", time=EventTime("ts", disorder=DISORDER, lateness=LATENESS[program])
        )
    for name in HANDLERS[program]:
        job.on_window(name, to=sinks[name])
    return job


def compare(program, folder, plain, sinks):
    for name in HANDLERS[program]:
        rows = sinks[name].rows()
        assert sorted(row["reply"] for row in rows) == sorted(reply for own, reply in plain.fired if own == name)
        assert all(set(row) == {"reply", "pair" if name == "visits" else "key"} for row in rows)
    assert committed_state(program, FileStorage(folder / "ck")) == plain.state()


@pytest.mark.parametrize(("program", "small_epoch"), [(Corrected, 20_000), (Ordered, 0)])
def test_bounded_runs_close_all_windows_in_the_end(spark, tmp_path, program, small_epoch):
    # The rows of both feeds in the order of their feeds: that is how a run without a common order takes them.
    epochs = [sorted(told, key=lambda row: NAMES.index(row[0][0])) for told in made_up(3, 3)]
    plain = plain_of(program, epochs, closed=True)
    sinks = {name: memory() for name in HANDLERS[program]}
    for number, told in enumerate(epochs):
        frames = {name: spark.createDataFrame(table_of(name, told)) for name in NAMES}
        job = job_on(spark, program, tmp_path, frames, sinks, small_epoch)
        with epoch_time(START + number):
            job.run(f"epoch-{number}", close=number == len(epochs) - 1)
    compare(program, tmp_path, plain, sinks)
    assert len(plain.fired) > 5


def test_a_stream_that_is_started_again_goes_on_with_its_windows(spark, tmp_path):
    epochs = [sorted(told, key=lambda row: NAMES.index(row[0][0])) for told in made_up(4, 4)]
    sinks = {name: memory() for name in HANDLERS[Corrected]}
    for first in (0, 2):
        for number in (first, first + 1):
            for name in NAMES:
                write_part(tmp_path / name, number, table_of(name, epochs[number]))
        frames = {name: stream_of(spark, tmp_path / name) for name in NAMES}
        job_on(spark, Corrected, tmp_path, frames, sinks, 20_000).run(close=first == 2)
    # Event time is closed by an epoch without rows.
    plain = plain_of(Corrected, [*epochs, []], closed=True)
    compare(Corrected, tmp_path, plain, sinks)
    assert any("True" in reply for _, reply in plain.fired)
