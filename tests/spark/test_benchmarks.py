"""Each benchmark at a tiny size, end to end: what it reports, and that it was checked. Never a time."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import keyed_state, large_state, latency, snapshots, word_count
from benchmarks.report import BenchmarkError, Teller, json_line
from benchmarks.transform_with_state import PARTITIONS, PROVIDER

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.classic("figures are taken on an embedded Spark only (make bench)")

COMMON = {
    "millpond",
    "python_loop",
    "transform_with_state",
    "vs_python_loop",
    "vs_transform_with_state",
    "peak_worker_mb",
    "checked",
    "settings",
}


@pytest.fixture
def teller():
    return Teller(Console(file=io.StringIO()))


def test_keyed_state_reports_all_and_leaves_only_its_input_and_the_session_as_it_was(spark, teller, tmp_path):
    before = {name: spark.conf.get(name) for name in (PROVIDER, PARTITIONS)}
    options = keyed_state.Options(events=600, keys=(20, 900), repeat=1, tws_seconds=0.001)
    figures = keyed_state.run(options, spark, teller, tmp_path)
    assert figures.keys() >= COMMON
    assert figures["checked"] is True
    assert figures["rates_by_keys"].keys() == {"20", "900"}
    assert figures["spread_by_keys"] >= 1
    assert figures["settings"]["events"] == 900
    assert figures["transform_with_state_sample"]["events"] == 900
    assert figures["peak_worker_mb"] >= figures["peak_worker_mb_each"] > 0
    assert json.loads(json_line(figures))["checked"] is True
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert {name: spark.conf.get(name) for name in (PROVIDER, PARTITIONS)} == before


def test_word_count_reports_partitioned_and_partial_counts(spark, teller, tmp_path):
    options = word_count.Options(lines=60, words=30, repeat=1, tws_seconds=0.001)
    figures = word_count.run(options, spark, teller, tmp_path)
    assert figures.keys() >= COMMON | {"millpond_partial", "python_counter", "vs_python_loop_partial"}
    assert figures["checked"] is True
    assert figures["transform_with_state_sample"]["events"] == 60 * 8
    assert json.loads(json_line(figures))["checked"] is True


def test_latency_reports_percentiles_of_both(spark, teller, tmp_path):
    options = latency.Options(rate=200, keys=10, seconds=1.0, warm_up=0.5)
    figures = latency.run(options, spark, teller, tmp_path)
    for who in ("millpond", "transform_with_state"):
        p50, p95, p99 = (figures[f"{who}_{name}"] for name in ("p50", "p95", "p99"))
        assert 0 < p50 <= p95 <= p99
    assert figures["vs_transform_with_state_p50"] > 0
    assert json.loads(json_line(figures))["checked"] is True


def test_snapshots_reports_what_is_kept_and_finishes_some_in_the_background(spark, teller, tmp_path):
    options = snapshots.Options(gigabytes=(0.0005,), rows=50, epochs=8, every=2, turns=1)
    figures = snapshots.run(options, spark, teller, tmp_path)
    assert figures["snapshots_0.0005gb"]["background"] > 0
    for name in ("kept", "p99_ratio", "kept_synchronous", "p99_ratio_synchronous"):
        assert figures[f"{name}_0.0005gb"] > 0
    assert json.loads(json_line(figures))["checked"] is True


def test_large_state_reports_memory_and_rate_at_every_size(spark, teller, tmp_path):
    options = large_state.Options(keys=(100, 300), rows=100, epochs=1, large_rows=3000, memory_mb=1)
    figures = large_state.run(options, spark, teller, tmp_path)
    assert figures["worker_mb"].keys() == figures["rates"].keys() == {"100", "300"}
    assert figures["worker_mb_ratio"] > 0
    assert figures["large_epoch_mb"].keys() == {"in_portions", "at_once"}
    assert json.loads(json_line(figures))["checked"] is True


def test_without_the_peer_its_figures_are_null(spark, teller, tmp_path):
    options = keyed_state.Options(events=40, keys=(10,), repeat=1, tws_seconds=None)
    figures = keyed_state.run(options, spark, teller, tmp_path)
    assert figures["transform_with_state"] is None
    assert figures["vs_transform_with_state"] is None
    assert figures["checked"] is True


def test_a_run_that_differs_from_the_loop_gives_no_figures(spark, teller, tmp_path, monkeypatch):
    honest = keyed_state.plain_loop

    def another_loop(files):
        totals, emitted = honest(files)
        return totals, [(count, total + 1) for count, total in emitted]

    monkeypatch.setattr(keyed_state, "plain_loop", another_loop)
    options = keyed_state.Options(events=40, keys=(10,), repeat=1, tws_seconds=None)
    with pytest.raises(BenchmarkError, match="Millpond did not emit what the loop emitted"):
        keyed_state.run(options, spark, teller, tmp_path)


def test_the_last_line_of_the_command_is_its_report():
    words = ["keyed_state", "--events", "50", "--keys", "5", "--epochs", "2", "--repeat", "1", "--no-tws"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *words], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["checked"] is True
