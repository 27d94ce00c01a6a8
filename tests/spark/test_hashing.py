"""Spark SQL, Python and NumPy hash a key to the same number."""

from __future__ import annotations

import datetime
import random

import numpy as np
import pytest
from pyspark.sql import functions as F  # noqa: N812

from millpond.keygroups import Layout, hash_ints, stable_hash
from millpond.spark.exchange.hashing import hash_column, hash_columns
from tests.programs.keyed import fresh_seed

EDGES = [0, 1, -1, 2**31 - 2, 2**31 - 1, 2**31, 2**32 - 1, 2**32, -(2**31), -(2**32), 2**63 - 1, -(2**63), 2**62]
TEXTS = ["", "a", "é", "日本語", "🜁", "a\u0000b", "\u0301", "x" * 5000, "ǅ", "\U0010ffff"]
BYTES = [b"", b"\x00", b"\xff\xfe", bytes(range(256)), b"a" * 5000]
DATES = [datetime.date(1970, 1, 1), datetime.date(1969, 12, 31), datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]
COLUMNS = [("long", int, EDGES), ("string", str, TEXTS), ("binary", bytes, BYTES), ("boolean", bool, [True, False])]
COLUMNS += [("date", datetime.date, DATES)]


@pytest.mark.parametrize(("kind", "hint", "values"), COLUMNS)
def test_a_column_hashes_as_in_python(spark, kind, hint, values):
    frame = spark.createDataFrame([(value,) for value in [*values, None]], f"v {kind}")
    hashed = [row.h for row in frame.select(F.expr(hash_column("v", hint)).alias("h")).collect()]
    assert hashed == [*map(stable_hash, values), None]


def test_random_integers_hash_alike_in_all_three(spark):
    seed = fresh_seed()
    rng = random.Random(seed)
    values = [rng.randrange(-(2**63), 2**63) >> rng.randrange(63) for _ in range(2000)]
    frame = spark.createDataFrame([(value,) for value in values], "v long")
    hashed = [row.h for row in frame.select(F.expr(hash_column("v", int)).alias("h")).collect()]
    assert hashed == [stable_hash(value) for value in values]
    assert hash_ints(np.array(values, dtype=np.int64)).tolist() == hashed


@pytest.mark.parametrize("kind", ["tinyint", "smallint", "int"])
def test_narrow_integers_hash_as_wide_ones(spark, kind):
    frame = spark.createDataFrame([(value,) for value in (-128, -1, 0, 127)], "v long").select(F.col("v").cast(kind))
    hashed = [row.h for row in frame.select(F.expr(hash_column("v", int)).alias("h")).collect()]
    assert hashed == [stable_hash(value) for value in (-128, -1, 0, 127)]


def test_tuples_hash_as_in_python(spark):
    hints = [int, str, bool, datetime.date, bytes]
    values = [
        (edge, TEXTS[at % len(TEXTS)], at % 2 == 0, DATES[at % len(DATES)], BYTES[at % len(BYTES)])
        for at, edge in enumerate(EDGES)
    ]
    frame = spark.createDataFrame(values, "a long, b string, c boolean, d date, e binary")
    hashed = [row.h for row in frame.select(F.expr(hash_columns(frame.columns, hints)).alias("h")).collect()]
    assert hashed == [stable_hash(value) for value in values]
    parts = F.struct(*(F.col(name).alias(f"_{place}") for place, name in enumerate(frame.columns, 1))).alias("v")
    whole = frame.select(parts).select(F.expr(hash_column("v", tuple[tuple(hints)])).alias("h")).collect()
    assert [row.h for row in whole] == hashed
    single = frame.select(F.expr(hash_columns(["a"], [int])).alias("h")).collect()
    assert [row.h for row in single] == [stable_hash((edge,)) for edge in EDGES]


@pytest.mark.parametrize("aligned", [True, False])
def test_a_group_is_owned_by_one_partition_of_its_own_range(aligned):
    for partitions in (1, 2, 3, 7, 8, 40):
        layout = Layout(128, partitions, 8, aligned)
        for partition in range(partitions):
            assert all(layout.owner_of(group) == partition for group in layout.groups_of(partition))
        assert sorted(group for p in range(partitions) for group in layout.groups_of(p)) == list(range(128))
