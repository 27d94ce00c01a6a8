"""Both contestants of the benchmark `sliding` at a tiny size: they find the same windows. Never a time."""

from __future__ import annotations

from benchmarks.data import timed_events
from benchmarks.sliding import check
from benchmarks.sliding_child import MILLPOND, SPARK, Task, perform


def test_both_contestants_find_the_same_windows(spark, tmp_path):
    (file,) = timed_events(900, 5, 30, 2, tmp_path)
    for who in (MILLPOND, SPARK):
        task = Task(who, str(file), str(file), (7, 30), 1, 2, 512, str(tmp_path / who), str(tmp_path))
        found = perform(task, spark)
        assert found.seconds.keys() == {"7", "30"}
        assert found.idle_mb > 0
    assert check(tmp_path / MILLPOND, tmp_path / SPARK) > 5 * 30
