"""Open windows are state like any other: forked, moved to other partitions, shown, and gone when they are over."""

from __future__ import annotations

from datetime import timedelta

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from millpond import Program, entry, on_window
from millpond.checkpoint.forking import fork
from millpond.cli import app
from millpond.compiler.compile import compile_program
from millpond.engine.simulated import Simulated
from millpond.engine.time.eventtime import FeedTime
from millpond.windowing import ClosedWindow, collect, count, count_sliding, session, sliding, sum_of

SECOND = 1_000_000
TIMES = FeedTime(disorder_us=2 * SECOND)


class Meters(Program):
    """One handler whose windows are kept as slices, and one whose rows wait for their turn."""

    @entry
    def read(self, key: str, n: int) -> None:
        self.spans.add(key, n=n)
        self.last.add(key, n)

    @on_window(
        {"five": sliding(timedelta(seconds=5), timedelta(seconds=2)), "visit": session(timedelta(seconds=2))},
        total=sum_of("n"),
        many=count(),
    )
    def spans(self, key: str, closed: list[ClosedWindow]) -> str:
        return f"{key} {[(one.name, one.begin.second, one.end.second, *one.values.values()) for one in closed]}"

    @on_window(count_sliding(3, 2), all=collect())
    def last(self, key: str, closed: list[ClosedWindow]) -> str:
        return f"{key} {[(one.begin, one['all']) for one in closed]}"


EPOCHS = [[(key, turn * 4 + n, n) for key in "abc" for n in range(3)] for turn in range(4)]


def run(directory, partitions, epochs, checkpoint=None, *, ends=False):
    """Feed epochs; what handlers were told."""
    told = Simulated(
        compile_program(Meters), directory, partitions, key_groups=8, event_time=TIMES, checkpoint=checkpoint
    )
    for place, rows in enumerate(epochs):
        times = [second * SECOND for _, second, _ in rows]
        told.epoch([("read", (key, n)) for key, _, n in rows], times, ends=ends and place == len(epochs) - 1)
    return [sorted(row["reply"] for row in told.sinks[name].rows()) for name in ("spans", "last")]


def state(*arguments):
    found = CliRunner().invoke(app, ["state", *map(str, arguments)])
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_fork_in_the_middle_of_windows_goes_on_as_its_source_does(partitions, tmp_path):
    whole = run(tmp_path / "whole", 2, EPOCHS, ends=True)
    first = run(tmp_path / "base", 2, EPOCHS[:2])
    forked = tmp_path / "forked" / "checkpoint"
    fork(tmp_path / "base" / "checkpoint", forked)
    for directory in (tmp_path / "forked", tmp_path / "base"):
        rest = run(directory, partitions, EPOCHS[2:], ends=True)
        assert [sorted(one + other) for one, other in zip(first, rest, strict=True)] == whole
    assert all(map(len, whole))


def test_open_windows_can_be_looked_at_and_those_that_are_over_are_gone(tmp_path):
    run(tmp_path, 2, EPOCHS[:3])
    checkpoint = tmp_path / "checkpoint"
    assert "all well" in state("verify", checkpoint)
    assert "(8000000, 10000000, 0, (3, 3))" in state("get", checkpoint, "spans", "a")
    assert "collect" in state("get", checkpoint, "last", "a")
    assert "'b'" in state("diff", checkpoint, 1, 3)
    state("export", checkpoint, "spans", "--to", tmp_path / "spans.parquet")
    assert sorted(pq.read_table(tmp_path / "spans.parquet")["key"].to_pylist()) == ["a", "b", "c"]
    run(tmp_path, 2, EPOCHS[3:], ends=True)
    state("export", checkpoint, "spans", "--to", tmp_path / "over.parquet")
    assert len(pq.read_table(tmp_path / "over.parquet")) == 0
