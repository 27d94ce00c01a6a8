"""Feeds: what fits is fed in its order, what does not is refused before any query starts."""

from __future__ import annotations

import datetime
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812

from millpond import Counter, List, Map, Partitioned, Program, Tuning, Value, entry, memory, parquet
from millpond.checkpoint.snapshots import snapshots
from millpond.errors import FeedError, MillpondError, RowError
from millpond.spark.exchange import compute
from tests.programs.keyed import Store, Totals, committed_state, fresh_seed, oracle
from tests.spark.farewell import is_progress
from tests.spark.feeding import stream_of, write_part

ROOT = Path(__file__).parents[2]
LENGTH = Annotated[int, msgspec.Meta(ge=1, le=5)]
NAME = Annotated[str, msgspec.Meta(max_length=3)]


class Journal(Program):
    """Keeps rows in the order in which it meets them."""

    lines = Partitioned(Map[int, list[str]])

    @entry
    def note(self, page: int, line: str) -> int:
        held = self.lines.get(page, [])
        self.lines[page] = [*held, line]
        return len(held) + 1

    @entry
    def clear(self, page: int) -> None:
        self.lines[page] = []


class Anything(Program):
    lines = Partitioned(Map[str, str])

    @entry
    def put(self, key: str, value: str) -> object:
        self.lines[key] = value
        return value


class Checked(Program):
    total = Partitioned(Map[str, int])

    @entry
    def add(self, name: NAME, length: LENGTH, comment: str | None) -> int:
        self.total[name] = self.total.get(name, 0) + length
        return self.total[name]


class Days(Program):
    """A key of several columns, and types of all kinds."""

    seen = Partitioned(Map[tuple[str, datetime.date], int])

    @entry
    def see(self, place: str, day: datetime.date, flags: list[bool], at: datetime.datetime) -> tuple[int, list[bool]]:
        self.seen[place, day] = self.seen.get((place, day), 0) + 1
        return self.seen[place, day], flags


class Chained(Program):
    """Two elements, the second a step behind the first, and an entry point that needs the first alone."""

    near = Partitioned(Counter[int])
    far = Partitioned(Counter[int])

    @entry
    def both(self, key: int, other: int) -> None:
        self.near[key] += 1
        self.far[other] += self.near[key]

    @entry
    def first(self, key: int) -> None:
        self.near[key] += 1


class Log(Program):
    """Elements that live under a single key."""

    lines = Partitioned(List[str])
    last = Partitioned(Value[str])

    @entry
    def write(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def on(spark, tmp_path):
    """A job on a checkpoint of its own."""

    def make(program, **options):
        options.setdefault("partitions", 2)
        return program.on(spark, checkpoint=tmp_path / "ck", local_root=tmp_path / "local", **options)

    return make


def code_of(call, family=FeedError):
    with pytest.raises(family) as caught:
        call()
    return caught.value.code


def test_a_missing_column_is_named_with_what_there_is(spark, on):
    frame = spark.createDataFrame([(1, 2.0)], "key long, sum double")
    with pytest.raises(FeedError) as caught:
        on(Totals).feed("add", frame)
    assert caught.value.code == "MP503"
    assert "key: int, amount: float" in str(caught.value)
    assert "key: bigint, sum: double" in str(caught.value)
    assert "`amount`" in str(caught.value)


@pytest.mark.parametrize("kind", ["string", "double", "decimal(10,0)", "timestamp", "array<long>"])
def test_a_column_of_the_wrong_type_is_refused(spark, on, kind):
    frame = spark.createDataFrame([], f"key {kind}, amount double")
    assert code_of(lambda: on(Totals).feed("add", frame)) == "MP504"


@pytest.mark.parametrize(("key", "amount"), [("tinyint", "float"), ("int", "double"), ("bigint", "float")])
def test_narrow_numbers_are_widened(spark, on, tmp_path, key, amount):
    frame = spark.createDataFrame([(1, 0.5), (1, 1.5)], f"key {key}, amount {amount}").withColumn("at", F.lit(1))
    on(Totals).feed("add", frame, order_by="at").run()
    assert committed_state(tmp_path / "ck") == oracle(Totals, [("add", (1, 0.5)), ("add", (1, 1.5))]).state


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda job, frame: job.feed("no", frame), "MP510"),
        (lambda job, frame: job.feed("put", frame, to=memory()), "MP511"),
        (lambda job, frame: job.feed("get", frame, on_bad_row="explode", order_by="at"), "MP512"),
        (lambda job, frame: job.feed("get", frame, to=memory(), keep=["nope"], order_by="at"), "MP513"),
        (lambda job, frame: job.feed("get", frame, to=memory(), keep=["key", "key"], order_by="at"), "MP513"),
        (lambda job, frame: job.feed("get", frame, to="out", order_by="at"), "MP514"),
        (lambda job, frame: job.feed("get", frame, order_by="nope"), "MP506"),
        (lambda job, frame: job.feed("get", frame, order_by="key"), "MP506"),
        (lambda job, frame: job.feed("get", frame, order_by="at").feed("get", frame, order_by="at"), "MP507"),
        (lambda job, frame: job.run(), "MP508"),
        (lambda job, frame: job.feed("get", frame, order_by="at").start(), "MP509"),
    ],
)
def test_a_feed_that_does_not_fit_is_refused(spark, on, call, code):
    frame = spark.createDataFrame([], "key string, value string, at long")
    assert code_of(lambda: call(on(Store), frame)) == code


def test_a_reply_of_no_type_is_refused_a_sink_and_runs_without_one(spark, on, tmp_path):
    frame = spark.createDataFrame([("a", "b", 1)], "key string, value string, at long")
    job = on(Anything)
    assert code_of(lambda: job.feed("put", frame, order_by="at", to=memory())) == "MP501"
    job.feed("put", frame, order_by="at").run()
    assert committed_state(tmp_path / "ck")


def test_batch_and_stream_do_not_mix(spark, on, tmp_path):
    write_part(tmp_path / "in", 0, pa.table({"key": ["a"], "value": ["b"]}))
    job = on(Store).feed("put", stream_of(spark, tmp_path / "in"))
    job.feed("get", spark.read.parquet(str(tmp_path / "in")))
    assert code_of(job.run) == "MP509"


def test_a_program_that_sees_order_is_refused_rows_without_one(spark, on):
    frame = spark.createDataFrame([(1, "x")], "page long, line string")
    with pytest.raises(FeedError) as caught:
        on(Journal).feed("note", frame)
    assert caught.value.code == "MP505"
    assert "order_by=" in str(caught.value)


def test_rows_go_in_the_order_of_the_column(spark, on, tmp_path):
    seed = fresh_seed()
    lines = [(1, f"line {at}", at) for at in range(50)]
    shuffled = random.Random(seed).sample(lines, len(lines))
    frame = spark.createDataFrame(shuffled, "page long, line string, at long").repartition(3)
    on(Journal).feed("note", frame, order_by="at").run()
    assert committed_state(tmp_path / "ck") == oracle(Journal, [("note", (1, line)) for _, line, _ in lines]).state


@pytest.mark.parametrize("kind", ["timestamp", "date"])
def test_times_order_rows_too(spark, on, tmp_path, kind):
    days = [datetime.datetime(2026, 1, day, tzinfo=datetime.UTC) for day in (3, 1, 2)]
    frame = spark.createDataFrame([(1, str(day.day), day) for day in days], "page long, line string, at timestamp")
    on(Journal).feed("note", frame.withColumn("at", F.col("at").cast(kind)), order_by="at").run()
    assert committed_state(tmp_path / "ck") == oracle(Journal, [("note", (1, text)) for text in "123"]).state


def test_rows_of_files_go_in_the_order_of_files_and_rows(spark, on, tmp_path):
    lines = [f"line {at}" for at in range(60)]
    for part in range(3):
        table = pa.table({"page": [1] * 20, "line": lines[part * 20 : part * 20 + 20]})
        write_part(tmp_path / "in", part, table)
    on(Journal).feed("note", spark.read.parquet(str(tmp_path / "in")).repartition(5)).run()
    assert committed_state(tmp_path / "ck") == oracle(Journal, [("note", (1, line)) for line in lines]).state


@pytest.mark.parametrize(("small_epoch", "files"), [(0, 1), (20_000, 1), (20_000, 2)])
def test_streamed_files_go_in_the_order_of_files_and_rows(spark, on, tmp_path, small_epoch, files):
    lines = [f"line {at}" for at in range(60)]
    for part in range(4):
        table = pa.table({"page": [at % 3 for at in range(15)], "line": lines[part * 15 : part * 15 + 15]})
        write_part(tmp_path / "in put", part, table)
    job = on(Journal, tuning=Tuning(small_epoch=small_epoch)).feed("note", stream_of(spark, tmp_path / "in put", files))
    assert len(job.run().epochs) == 4 // files
    rows = [("note", (at % 15 % 3, line)) for at, line in enumerate(lines)]
    assert committed_state(tmp_path / "ck") == oracle(Journal, rows).state


@pytest.mark.classic("no epoch runs in one task there")
def test_an_epoch_too_large_for_one_task_is_given_to_many(spark, on, tmp_path, monkeypatch):
    sizes = (2, 2, 40, 2, 2)
    lines = [f"line {at}" for at in range(sum(sizes))]
    for part, size in enumerate(sizes):
        first = sum(sizes[:part])
        write_part(tmp_path / "in", part, pa.table({"page": [1] * size, "line": lines[first : first + size]}))
    ways = []
    shuffled = compute.step_function
    monkeypatch.setattr(compute, "step_function", lambda *plan: ways.append(plan[1].epoch) or shuffled(*plan))
    on(Journal, tuning=Tuning(small_epoch=2)).feed("note", stream_of(spark, tmp_path / "in")).run()
    assert ways == [1, 3, 4], "the first, the large one, and the one after it"
    assert committed_state(tmp_path / "ck") == oracle(Journal, [("note", (1, line)) for line in lines]).state


def test_elements_of_steps_that_no_feed_needs_survive_a_snapshot(spark, on, tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
    keys = spark.createDataFrame([(key,) for key in range(20)], "key long")
    moves = spark.createDataFrame([(key, key + 1) for key in range(20)], "key long, other long")
    on(Chained).feed("both", moves, order_by="key").run()
    for number in range(3):
        on(Chained).feed("first", keys, order_by="key").run(f"more {number}")
    rows = [("both", (key, key + 1)) for key in range(20)] + [("first", (key,)) for key in range(20)] * 3
    assert committed_state(tmp_path / "ck") == oracle(Chained, rows).state
    assert list((tmp_path / "ck" / "snapshots").rglob("*")), "there was no snapshot"


def test_exploded_rows_have_one_order_on_any_number_of_partitions(spark, tmp_path):
    write_part(tmp_path / "in", 0, pa.table({"page": [1, 2, 1], "text": ["b a c a", "x y", "c d"]}))
    frame = spark.read.parquet(str(tmp_path / "in"))
    states = []
    for partitions, spread in ((1, 1), (3, 4), (2, 2)):
        exploded = frame.select("page", F.explode(F.split("text", " ")).alias("line")).repartition(spread)
        job = Journal.on(
            spark, checkpoint=tmp_path / f"ck{partitions}", partitions=partitions, local_root=tmp_path / "local"
        )
        job.feed("note", exploded).run()
        states.append(committed_state(tmp_path / f"ck{partitions}"))
    assert states[0] == states[1] == states[2]
    assert len(states[0]) == 2


def test_feeds_without_a_common_column_go_in_the_order_of_their_declaration(spark, on, tmp_path):
    write_part(tmp_path / "notes", 0, pa.table({"page": [1, 2], "line": ["a", "b"]}))
    write_part(tmp_path / "clears", 0, pa.table({"page": [1]}))
    write_part(tmp_path / "more", 0, pa.table({"page": [1], "line": ["c"]}))
    job = on(Journal).feed("note", spark.read.parquet(str(tmp_path / "notes")))
    job.feed("clear", spark.read.parquet(str(tmp_path / "clears")))
    job.feed("note", spark.read.parquet(str(tmp_path / "more")), name="more").run()
    rows = [("note", (1, "a")), ("note", (2, "b")), ("clear", (1,)), ("note", (1, "c"))]
    assert committed_state(tmp_path / "ck") == oracle(Journal, rows).state


def test_replies_keep_the_columns_that_were_asked_for(spark, on):
    sink = memory()
    frame = spark.createDataFrame(
        [(1, "x", 7, [1, 2], datetime.date(2026, 1, 2))], "page long, line string, at long, tags array<int>, day date"
    )
    on(Journal).feed("note", frame, order_by="at", to=sink, keep=["tags", "day", "line"]).run()
    assert sink.rows() == [{"tags": [1, 2], "day": datetime.date(2026, 1, 2), "line": "x", "reply": 1}]


def test_replies_keep_the_parameters_unless_told_otherwise(spark, on):
    sink = memory()
    frame = spark.createDataFrame([(1, "x", 7)], "page long, line string, at long")
    on(Journal).feed("note", frame, order_by="at", to=sink).run()
    assert sink.rows() == [{"page": 1, "line": "x", "reply": 1}]


def test_keys_of_several_columns_and_types_of_all_kinds(spark, on, tmp_path):
    at = datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC)
    days = [datetime.date(2026, 5, day % 3 + 1) for day in range(20)]
    rows = [("see", ("äb"[number % 2], day, [True, number % 2 == 0], at)) for number, day in enumerate(days)]
    frame = spark.createDataFrame(
        [(*arguments, number) for number, (_, arguments) in enumerate(rows)],
        "place string, day date, flags array<boolean>, at timestamp, number long",
    )
    sink = memory()
    on(Days, partitions=3).feed("see", frame.repartition(3), order_by="number", to=sink, keep=["number"]).run()
    wanted = oracle(Days, rows)
    assert committed_state(tmp_path / "ck") == wanted.state
    assert {row["number"]: row["reply"] for row in sink.rows()} == wanted.replies


def test_an_element_under_a_single_key_keeps_its_order(spark, on, tmp_path):
    frame = spark.createDataFrame([(str(at), at) for at in range(30)], "line string, at long").repartition(4)
    on(Log, partitions=3).feed("write", frame, order_by="at").run()
    assert committed_state(tmp_path / "ck") == oracle(Log, [("write", (str(at),)) for at in range(30)]).state


BAD = [(None, 1, "null key"), ("a", None, "null"), ("a", 9, "too long"), ("long", 1, "long name")]


@pytest.fixture
def checked(spark):
    rows = [("a", 5, None), *BAD, ("b", 1, "fine")]
    return spark.createDataFrame(
        [(*row, at) for at, row in enumerate(rows)], "name string, length int, comment string, at long"
    )


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_row_fails_the_run_and_commits_nothing(spark, on, tmp_path, checked, bad):
    frame = checked.where(F.col("comment").isNull() | F.col("comment").isin("fine", bad[2]))
    with pytest.raises(RowError) as caught:
        on(Checked).feed("add", frame, order_by="at").run()
    assert caught.value.code == "MP602"
    assert "on_bad_row" in str(caught.value)
    assert committed_state(tmp_path / "ck") == {}


def test_bad_rows_are_skipped_and_counted(on, tmp_path, checked):
    report = on(Checked).feed("add", checked, order_by="at", on_bad_row="skip").run()
    assert (report.rows, report.epochs[0].bad_rows) == (2, 4)
    assert committed_state(tmp_path / "ck") == oracle(Checked, [("add", ("a", 5, None)), ("add", ("b", 1, "x"))]).state


def test_bad_rows_go_to_a_dead_letter_sink_with_their_reason(spark, on, tmp_path, checked):
    replies = memory()
    job = on(Checked).feed("add", checked, order_by="at", to=replies, on_bad_row=parquet(tmp_path / "dead"))
    job.run()
    letters = [row.asDict() for row in spark.read.parquet(str(tmp_path / "dead")).collect()]
    assert len(letters) == 4
    assert {letter["feed"] for letter in letters} == {"add"}
    assert all("`name`" in letter["reason"] or "`length`" in letter["reason"] for letter in letters)
    assert sorted(row["name"] for row in replies.rows()) == ["a", "b"]


def test_user_code_that_raises_is_told_with_its_row_and_goes_on_once_mended(spark, tmp_path):
    from tests.spark.faulty import Faulty, Mended

    for part in range(3):
        write_part(tmp_path / "in", part, pa.table({"key": [part, 7], "divisor": [1, 1 - part % 2]}))

    def job(program):
        made = program.on(spark, checkpoint=tmp_path / "ck", partitions=2, local_root=tmp_path / "local")
        return made.feed("divide", stream_of(spark, tmp_path / "in"), to=parquet(tmp_path / "out"))

    with pytest.raises(RowError) as caught:
        job(Faulty).run()
    assert caught.value.code == "MP603"
    assert caught.value.__cause__ is None
    text = str(caught.value)
    assert "divide(key=7, divisor=0)" in text
    assert "faulty.py:" in text
    assert "10 // divisor" in text
    assert "part-0001.parquet" in text
    assert "py4j" not in text
    report = job(Mended).run()
    assert report.epoch == 3
    assert spark.read.parquet(str(tmp_path / "out")).count() == 6


MAIN = """
from millpond import Map, Partitioned, Program, entry, memory
from millpond.spark.session import local_session

def twice(value):
    return 2 * value

class Mine(Program):
    held = Partitioned(Map[int, int])

    @entry
    def put(self, key: int) -> int:
        self.held[key] = twice(key)
        return self.held[key]

spark = local_session()
sink = memory()
job = Mine.on(spark, checkpoint="ck", local_root="local")
job.feed("put", spark.createDataFrame([(1, 1), (2, 2)], "key long, at long"), order_by="at", to=sink).run()
print(sorted(row["reply"] for row in sink.rows()))
spark.stop()
"""


def test_a_program_of_a_script_runs_on_workers_that_cannot_import_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(MAIN)
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert is_progress(done.stderr, "Mine"), done.stderr
    assert done.stdout == "[2, 4]\n"


def test_kept_columns_may_have_any_name(spark, tmp_path):
    sink = memory()
    frame = spark.createDataFrame([("a\0b", 1), ("", 2)], "key string, `part.x y` long")
    Store.on(spark, checkpoint=tmp_path / "c").feed("get", frame, to=sink, keep=["part.x y", "key"]).run()
    assert sorted(row["part.x y"] for row in sink.rows()) == [1, 2]


def test_columns_of_the_same_name_are_refused_and_spark_still_tells_its_own_errors(spark, tmp_path):
    frame = spark.createDataFrame([("a", 1)], "key string, n long")
    job = Store.on(spark, checkpoint=tmp_path / "c")
    with pytest.raises(FeedError) as caught:
        job.feed("get", frame.select("key", "key"))
    assert caught.value.code == "MP516"
    with pytest.raises(FeedError):
        job.feed("put", frame.selectExpr("key", "key as value"))  # nothing orders it: the probe for a source fails
    with pytest.raises(AnalysisException):
        _ = frame.select("nothing").schema


def test_a_job_on_no_partitions_and_a_run_without_a_name_are_refused(spark, tmp_path):
    with pytest.raises(MillpondError) as caught:
        Store.on(spark, checkpoint=tmp_path / "c", partitions=0)
    for rows in (-1, "many", True):
        with pytest.raises(FeedError, match="MP518"):
            Store.on(spark, checkpoint=tmp_path / "c", tuning=Tuning(small_epoch=rows))
    assert caught.value.code == "MP206"
    with pytest.raises(FeedError) as caught:
        Store.on(spark, checkpoint=tmp_path / "d").run("")
    assert caught.value.code == "MP517"
