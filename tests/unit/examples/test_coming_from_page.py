"""docs/COMING_FROM.md: its program runs as it stands, and the words of Millpond are words that it has."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from importlib import import_module

import millpond
from millpond.front.opened import OpenCheckpoint
from millpond.spark.job import Job
from millpond.testing import assert_equals_plain, at, simulate
from tests.unit.examples.readme import ROOT

TEXT = (ROOT / "docs" / "COMING_FROM.md").read_text(encoding="utf-8")


def test_the_program_after_does_what_the_one_before_did(tmp_path, monkeypatch):
    (code,) = [code for code in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL) if "# after" in code]
    (tmp_path / "coming_from_program.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    program = import_module("coming_from_program").Count
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    rows = [at(noon + timedelta(seconds=seconds), ("add", key)) for seconds, key in ((0, "a"), (1, "b"), (2, "a"))]
    run = simulate(program, rows, epochs=2, partitions=2, disorder="10 s", close=True)
    assert run.replies == [1, 1, 2]
    assert sorted(fired.reply for fired in run.fired) == [1, 2]
    assert_equals_plain(run)


def test_the_words_of_the_first_column_exist():
    rows = [line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| ")]
    named = set(re.findall(r"`@?(\w+)[(`.]", " ".join(rows)))
    words = {name for name in named if name not in {"millpond", "job", "self"}}
    assert words >= {"Partitioned", "Partial", "Keep", "EventTime", "on_timer", "on_window", "read_state"}
    assert [name for name in sorted(words) if not hasattr(millpond, name)] == []
    assert hasattr(Job, "resize")
    assert isinstance(millpond.open, type(OpenCheckpoint.at))
