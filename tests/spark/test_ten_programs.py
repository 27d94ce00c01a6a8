"""The ten programs on Spark: batches of one epoch, and streams of two, answer as the oracle of each program does."""

from __future__ import annotations

import pyarrow as pa
import pytest

from millpond import Tuning, parquet
from millpond.engine.arrowtypes import arrow_type, to_arrow
from millpond.keygroups import DEFAULT_INSTANCES, DEFAULT_KEY_GROUPS
from tests.programs.keyed import committed_state
from tests.sizes import compile_once
from tests.spark.feeding import streams, tables, visible, write_part
from tests.unit.examples.ten import CASES, decoded, expect

ROWS = 160
SEED = 2026
PARTITIONS = (2, 3, 1, 2, 3, 2, 1, 3, 2, 3)
ROW = "row_number"
"""The column that orders rows and finds their replies; no program has a parameter of this name."""

STREAMED = ("Bank", "SearchIndex")
"""A gathered program, and a relaxed one, whose answers depend on its epochs: these are run with two."""


def write(folder, case, epochs):
    """Write a file per entry point and epoch; rows are ordered by their number."""
    before = 0
    for part, rows in enumerate(epochs):
        for name, entry in compile_once(case.program).entries.items():
            chosen = [(before + at, arguments) for at, (called, arguments) in enumerate(rows) if called == name]
            columns = {ROW: pa.array([number for number, _ in chosen], pa.int64())}
            for place, (column, hint) in enumerate(entry.point.parameters):
                values = [arguments[place] for _, arguments in chosen]
                columns[column] = to_arrow(values, hint).cast(arrow_type(hint))
            write_part(folder / name, part, pa.table(columns))
        before += len(rows)


def run(job, case, frames, out):
    """Feed every entry point and run to the end; returns the report, and replies by row."""
    points = case.program.entries()
    for name, point in points.items():
        to = parquet(out / name) if point.replies else None
        job.feed(name, frames[name], order_by=ROW, to=to, keep=[ROW] if to else None)
    report = job.run()
    rows = [row for name, point in points.items() if point.replies for row in visible(out / name)]
    replies = {row[ROW]: row["reply"] for row in rows}
    assert len(replies) == len(rows), "a reply is there twice"
    return report, replies


def texts_of(replies):
    return {number: repr(reply) for number, reply in replies.items()}


@pytest.mark.parametrize(
    ("case", "partitions"), [*zip(CASES, PARTITIONS, strict=True)], ids=[case.name for case in CASES]
)
def test_a_batch_equals_the_oracle(spark, tmp_path, case, partitions):
    rows = case.rows(SEED, ROWS)
    wanted = expect(case, [rows], DEFAULT_KEY_GROUPS, DEFAULT_INSTANCES)
    write(tmp_path / "in", case, [rows])
    job = case.program.on(spark, checkpoint=tmp_path / "ck", partitions=partitions, local_root=tmp_path / "local")
    report, replies = run(job, case, tables(spark, case.program, tmp_path / "in"), tmp_path / "out")
    assert report.rows == len(rows)
    assert texts_of(replies) == wanted.replies
    state = committed_state(tmp_path / "ck")
    assert state == wanted.state
    case.holds(rows, replies, decoded(case.program, state))


@pytest.mark.parametrize("case", [case for case in CASES if case.name in STREAMED], ids=lambda case: case.name)
def test_two_epochs_equal_the_oracle_with_these_epochs(spark, tmp_path, case):
    rows = case.rows(SEED + 1, ROWS)
    epochs = [rows[: ROWS // 2], rows[ROWS // 2 :]]
    wanted = expect(case, epochs, DEFAULT_KEY_GROUPS, DEFAULT_INSTANCES)
    write(tmp_path / "in", case, epochs)
    job = case.program.on(
        spark, checkpoint=tmp_path / "ck", partitions=2, local_root=tmp_path / "local", tuning=Tuning(small_epoch=0)
    )
    _, replies = run(job, case, streams(spark, case.program, tmp_path / "in"), tmp_path / "out")
    assert texts_of(replies) == wanted.replies
    assert committed_state(tmp_path / "ck") == wanted.state
