"""Tasks on Spark that may hold a megabyte: more rows than that run in portions, and give what plain Python gives."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millpond import Tuning, parquet
from tests.programs.keyed import Totals, committed_state, oracle

ROWS = 12_000
KEYS = 900


@pytest.mark.connect
def test_a_batch_that_is_larger_than_memory_equals_plain_python(spark, tmp_path):
    dice = random.Random(5)
    rows = [("add", (dice.randrange(KEYS), float(dice.randrange(50)))) for _ in range(ROWS)]
    keys, amounts = zip(*(arguments for _, arguments in rows), strict=True)
    table = pa.table({"key": keys, "amount": amounts, "number": range(ROWS)})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=1000)
    job = Totals.on(
        spark,
        checkpoint=tmp_path / "ck",
        local_root=tmp_path / "local",
        partitions=2,
        progress=False,
        tuning=Tuning(small_epoch=0, memory_mb=1),
    )
    frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
    job.feed("add", frame, to=parquet(tmp_path / "out"), keep=["number"], order_by="number")
    job.run()
    wanted = oracle(Totals, rows)
    replies = pq.read_table(tmp_path / "out").to_pylist()
    assert len(replies) == ROWS
    assert {row["number"]: row["reply"] for row in replies} == wanted.replies
    assert committed_state(tmp_path / "ck") == wanted.state
    # Every portion of a task writes a file of its own.
    assert len(list((tmp_path / "out").glob("*.parquet"))) > 2
