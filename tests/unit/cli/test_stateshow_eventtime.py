"""`millpond state show` tells how far event time has come."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from millpond import Counter, Partitioned, Program, entry
from millpond.cli import app
from millpond.engine.simulated import Simulated
from millpond.engine.time.eventtime import FeedTime
from tests.sizes import compile_once

SECOND = 1_000_000


class Counts(Program):
    """Two feeds."""

    counts = Partitioned(Counter[str])

    @entry
    def one(self, key: str) -> None:
        self.counts[key] += 1

    @entry
    def other(self, key: str) -> None:
        self.counts[key] += 2


def shown(folder, *options):
    result = CliRunner().invoke(app, ["state", "show", str(folder / "checkpoint"), *options])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("timed", [True, False])
def test_show_tells_how_far_event_time_has_come(tmp_path, timed):
    feeds = FeedTime(disorder_us=SECOND) if timed else None
    run = Simulated(compile_once(Counts), tmp_path, 2, key_groups=4, event_time=feeds)
    said = []
    for name, second, ends in (("one", 30, False), ("other", 20, False), ("one", 40, True)):
        run.epoch([(name, ("a",))], [second * SECOND] if timed else (), ends=ends and timed)
        said.append(json.loads(shown(tmp_path, "--json"))["watermark"])
    assert said == (["none yet", "1970-01-01T00:00:19+00:00", "the end of time"] if timed else [None] * 3)
    assert ("watermark" in shown(tmp_path)) == timed
