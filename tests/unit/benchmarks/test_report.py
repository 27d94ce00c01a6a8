from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from benchmarks import __main__ as front
from benchmarks import keyed_state, latency, word_count
from benchmarks.memory import is_worker, spark_workers
from benchmarks.report import BenchmarkError, Teller, json_line, percentiles, rate, ratio
from benchmarks.transform_with_state import KEYS_FIRST, largest_sample


def silent():
    return Teller(Console(file=io.StringIO()))


@pytest.mark.parametrize("figures", [{}, {"checked": False}, {"checked": 1}, {"millpond": 5.0}])
def test_figures_that_were_not_checked_are_not_rendered(figures):
    with pytest.raises(BenchmarkError, match="not checked"):
        json_line(figures)


def test_a_report_is_one_line_of_json():
    figures = {"millpond": 5.0, "transform_with_state": None, "checked": True, "settings": {"keys": (1, 2)}}
    line = json_line(figures)
    assert "\n" not in line
    assert json.loads(line) == figures | {"settings": {"keys": [1, 2]}}


def test_the_fastest_turn_counts():
    assert rate(100, [4.0, 2.0, 5.0]) == 50.0


def test_there_is_no_ratio_to_who_did_not_run():
    assert ratio(10.0, 4.0) == 2.5
    assert ratio(10.0, None) is None


def test_percentiles_are_nearest_ranks():
    assert percentiles([float(value) for value in range(1, 101)]) == {"p50": 50.0, "p95": 95.0, "p99": 99.0}
    assert percentiles([7.0]) == {"p50": 7.0, "p95": 7.0, "p99": 7.0}


@given(st.lists(st.integers(0, 10_000).map(float), min_size=1))
def test_a_percentile_is_a_measured_value_with_enough_values_below_it(values):
    for name, value in percentiles(values).items():
        assert value in values
        assert sum(other <= value for other in values) >= len(values) * int(name[1:]) / 100


class Failing:
    """A benchmark whose check fails."""

    @staticmethod
    def read_options(args):
        return args

    @staticmethod
    def run(options, spark, teller):
        raise BenchmarkError("Millpond did not emit what the loop emitted")


class Unchecked(Failing):
    """A benchmark that forgot to check."""

    @staticmethod
    def run(options, spark, teller):
        return {"millpond": 5.0}


class Passing(Failing):
    """A benchmark that is right."""

    @staticmethod
    def run(options, spark, teller):
        return {"millpond": 5.0, "checked": True}


@pytest.fixture
def without_spark(monkeypatch):
    monkeypatch.setattr(front, "session", lambda name, cores: nullcontext())


@pytest.mark.parametrize(
    ("module", "why"), [(Failing, "did not emit what the loop emitted"), (Unchecked, "not checked against the loop's")]
)
def test_numbers_are_refused_with_exit_code_1_when_a_check_fails(module, why, monkeypatch, without_spark, capsys):
    monkeypatch.setitem(front.BENCHMARKS, "keyed_state", module)
    monkeypatch.setattr(front, "make_parser", _parser)
    assert front.main(["keyed_state"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert why in " ".join(captured.err.split())


def test_standard_output_ends_with_the_json(monkeypatch, without_spark, capsys):
    monkeypatch.setitem(front.BENCHMARKS, "keyed_state", Passing)
    monkeypatch.setattr(front, "make_parser", _parser)
    assert front.main(["keyed_state"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"millpond": 5.0, "checked": True}


def _parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.set_defaults(partitions=2)
    return parser


def test_workers_are_told_by_their_command_line():
    assert is_worker(["python3", "-m", "pyspark.daemon", "pyspark.worker"])
    assert is_worker(["/usr/bin/python", "-u", "-m", "pyspark.worker"])
    assert not is_worker(["java", "-cp", "pyspark.daemon"])
    assert not is_worker([])


def test_a_worker_below_this_process_is_found_while_it_runs():
    command = [sys.executable, "-c", "input()", "-m", "pyspark.daemon"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        # A busy machine may show it a little later.
        found = (process.pid in {worker.pid for worker in spark_workers()} for _ in range(1000))
        assert any(found)
        process.communicate(b"\n")
    assert process.pid not in {worker.pid for worker in spark_workers()}


@pytest.mark.parametrize("missing", ["google", "google.protobuf"])
@pytest.mark.parametrize("options", [keyed_state.Options(), word_count.Options(), latency.Options()])
def test_a_benchmark_does_not_begin_without_what_the_peer_needs(options, missing, monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.transform_with_state.find_spec", lambda name: None if name == missing else name)
    module = sys.modules[type(options).__module__]
    with pytest.raises(BenchmarkError, match="protobuf"):
        module.run(options, None, silent(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def fake_peer(monkeypatch, seconds_per_key):
    runs = []
    monkeypatch.setattr("benchmarks.transform_with_state.timed", lambda work: (seconds_per_key * work.args[0], work()))
    return runs, runs.append


def test_a_sample_grows_until_it_takes_about_as_long_as_asked(monkeypatch):
    runs, run = fake_peer(monkeypatch, seconds_per_key=0.001)
    sample = largest_sample(run, 200_000, 60.0, silent())
    assert sample.keys == runs[-1] == 60_000
    assert sample.seconds == pytest.approx(60.0)


def test_a_sample_never_has_more_keys_than_there_are(monkeypatch):
    runs, run = fake_peer(monkeypatch, seconds_per_key=0.0001)
    assert largest_sample(run, KEYS_FIRST * 3, 60.0, silent()).keys == KEYS_FIRST * 3
    assert max(runs) == KEYS_FIRST * 3


def test_a_slow_peer_is_not_run_twice(monkeypatch):
    runs, run = fake_peer(monkeypatch, seconds_per_key=1.0)
    assert largest_sample(run, 200_000, 60.0, silent()).keys == KEYS_FIRST
    assert runs[1:] == [KEYS_FIRST], "the first is the warm-up"
