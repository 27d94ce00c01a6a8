"""The benchmark `sliding`: what it reads from the command line, and that it tells no numbers of results that differ."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import __main__ as front
from benchmarks import sliding
from benchmarks.data import timed_events
from benchmarks.memory import TreeMemory, tree_mb
from benchmarks.report import BenchmarkError
from benchmarks.sliding import Options, check, in_child
from benchmarks.sliding_child import MILLPOND, Task

WINDOWS = {"key": [1, 1, 2], "window_begin": [0, 10, 0], "window_end": [10, 20, 10], "total": [5, 6, 7]}


def write(folder, columns):
    folder.mkdir()
    pq.write_table(pa.table(columns), folder / "part.parquet")
    return folder


def test_options_are_read_from_the_command_line():
    args = front.make_parser().parse_args(
        ["sliding", "--events", "10", "--range", "7", "--overlaps", "10,20", "--heap", "512", "--svg", "out"]
    )
    assert sliding.read_options(args) == Options(events=10, range_s=7, overlaps=(10, 20), heap_mb=512, svg="out")


def test_the_same_windows_in_any_order_are_fine(tmp_path):
    turned = {name: column[::-1] for name, column in WINDOWS.items()}
    assert check(write(tmp_path / "a", WINDOWS), write(tmp_path / "b", turned)) == 3


@pytest.mark.parametrize(
    "other",
    [
        {**WINDOWS, "total": [5, 6, 8]},
        {**WINDOWS, "window_end": [10, 20, 11]},
        {name: column[:2] for name, column in WINDOWS.items()},
    ],
)
def test_other_windows_are_refused(tmp_path, other):
    with pytest.raises(BenchmarkError, match="not the same"):
        check(write(tmp_path / "a", WINDOWS), write(tmp_path / "b", other))


def test_no_windows_at_all_are_refused(tmp_path):
    none = {name: pa.array([], pa.int64()) for name in WINDOWS}
    with pytest.raises(BenchmarkError):
        check(write(tmp_path / "a", none), write(tmp_path / "b", none))


def test_a_contestant_that_fails_gives_no_numbers(tmp_path):
    task = Task(MILLPOND, "", "", (1,), 1, 0, 512, "", str(tmp_path))
    with pytest.raises(BenchmarkError, match="millpond ended"):
        in_child(task)


def test_a_task_is_told_as_json():
    task = Task(MILLPOND, "events", "warm", (10, 20), 2, 2, 512, "result", "out")
    told = json.loads(task.arguments()[-1])
    assert Task(**{**told, "ranges_s": tuple(told["ranges_s"])}) == task


def test_events_are_in_order_of_time_and_made_once(tmp_path):
    (file,) = timed_events(500, 7, 20, 3, tmp_path)
    table = pq.read_table(file)
    times = table["time"].cast(pa.int64()).to_pylist()
    assert times == sorted(times)
    assert 0 <= times[0] < times[-1] < 20_000_000
    assert set(table["key"].to_pylist()) == set(range(7))
    written = file.stat().st_mtime_ns
    assert timed_events(500, 7, 20, 3, tmp_path) == [file]
    assert file.stat().st_mtime_ns == written


def test_memory_of_a_tree_is_that_of_this_process_at_least():
    memory = TreeMemory()
    with memory.watching():
        held = bytearray(60_000_000)
        held[::4096] = b"x" * len(held[::4096])
        low = tree_mb()
    assert low > 60
    assert memory.peak_mb > 0
    del held
