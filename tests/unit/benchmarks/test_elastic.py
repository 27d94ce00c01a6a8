from __future__ import annotations

import argparse
import os
import subprocess
import sys

import psutil
import pytest

from benchmarks.charts import line_chart
from benchmarks.committed import commits_in
from benchmarks.elastic import Options, add_options, draw, make_figures, read_options
from benchmarks.pinning import cores, executors_below, pin, thieves
from benchmarks.report import BenchmarkError
from benchmarks.rising import Commit, Followed, rising
from benchmarks.straggler import Robbed
from benchmarks.workload import write_input
from millpond.spark.reporting.reports import EpochReport


def report(epoch, seconds, moved=0):
    return EpochReport(epoch, 100, 0, 0, 0, seconds, 0.0, {}, groups_moved=moved)


def test_the_load_rises_in_the_first_half_and_stays_in_the_second():
    assert rising(6, 900) == [300, 600, 900, 900, 900, 900]
    assert rising(5, 900) == [300, 600, 900, 900, 900]
    assert min(rising(30, 3)) == 1


def test_what_is_written_is_what_is_counted(tmp_path):
    given = write_input(tmp_path / "in", [3, 5], turns=2, seed=1)
    assert len(given.files) == 2
    assert given.sizes == (3, 5)
    assert given.counts.total() == 8


def test_commits_of_a_job_are_counted_also_before_the_first(tmp_path):
    assert commits_in(tmp_path) == 0
    (tmp_path / "manifests").mkdir()
    for epoch in (9, 10):
        (tmp_path / "manifests" / f"{epoch:010}").touch()
    assert commits_in(tmp_path) == 10


def test_too_few_epochs_are_refused():
    parser = argparse.ArgumentParser()
    add_options(parser)
    with pytest.raises(BenchmarkError, match="8 epochs are too few"):
        read_options(parser.parse_args(["--epochs", "8"]))
    assert read_options(parser.parse_args(["--pace", "0.5"])).pace == 0.5


def followed(seconds, partitions=(1, 1, 2, 4)):
    """Files of 100, 200, 400 and 400 rows, one a second, and when they were committed."""
    return Followed(tuple(map(Commit, seconds, (100, 200, 400, 400), partitions)), 1.0)


def robbed(*seconds, moved_at=None):
    """Some epochs, the thieves come after the third."""
    return Robbed(tuple(report(at, took, 5 * (at == moved_at)) for at, took in enumerate(seconds)), 3)


def test_rates_are_those_of_the_last_third_and_lag_is_behind_the_last_file():
    told = followed([1.0, 2.0, 4.0, 6.0])
    assert told.rate == pytest.approx(400 / 2)
    assert told.lag_s == pytest.approx(3.0)
    assert told.rates() == [(2.0, 200.0), (4.0, 200.0), (6.0, 200.0)]


def test_a_robbed_run_tells_before_stolen_and_late():
    told = robbed(*range(1, 10), moved_at=6)
    assert told.before_s == 3.0, "without the first two"
    assert told.relieved_at == 6
    assert told.stolen_s == pytest.approx(5.5)
    assert told.late_s == 8.0
    never = robbed(*[1.0] * 9)
    assert never.relieved_at is None
    assert never.stolen_s == 1.0


def test_figures_are_ratios_of_medians_and_charts_show_the_last_turn(tmp_path):
    scaled = {
        "fixed": [followed([1, 2, 2 + n, 2 + 2 * n], (1, 1, 1, 1)) for n in (4, 400, 5)],
        "elastic": [followed([1, 2, 2 + n, 2 + 2 * n]) for n in (1, 0.1, 2)],
    }
    relieved = {
        "fixed": [robbed(9, 9, 1, 4, 4, 4, 4) for _ in range(3)],
        "elastic": [robbed(9, 9, 1, 4, 4, late, late, moved_at=5) for late in (2, 1, 9)],
    }
    options = Options(epochs=4, svg=str(tmp_path / "charts"))
    figures = make_figures(options, scaled, relieved)
    assert figures["scale_out_ratio"] == pytest.approx(5.0)
    assert figures["relief_ratio"] == pytest.approx(0.5)
    assert figures["partitions"] == [[1, 1, 2, 4]] * 3
    assert figures["groups_moved"] == [5, 5, 5]
    assert figures["relieved_after_epochs"] == [2, 2, 2]
    assert (figures["relieved_by_before"], figures["unrelieved_by_before"]) == (2.0, 4.0)
    paths = draw(options, scaled, relieved)
    assert [path.rpartition("/")[2] for path in paths] == ["elastic-rising.svg", "elastic-slow.svg"]
    assert all("<svg" in (tmp_path / "charts" / path.rpartition("/")[2]).read_text() for path in paths)
    assert draw(Options(), scaled, relieved) == []


@pytest.mark.parametrize(
    ("highest", "marks"),
    [(6.0, ["0", "1", "2", "3", "4", "5", "6"]), (1450.0, ["0", "500", "1,000", "1,500"]), (0.3, ["0", "0.05", "0.3"])],
)
def test_an_even_scale_begins_at_zero_and_is_marked_at_round_numbers(highest, marks):
    chart = line_chart("t", "x", "y", {"a": [(1, highest), (2, highest / 2)]}, even=True)
    assert all(f'text-anchor="end">{mark}<' in chart for mark in marks)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores are chosen by Linux")
def test_a_process_and_what_it_starts_later_run_on_one_core():
    code = "import subprocess, sys; input(); subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        pin(psutil.Process(process.pid), cores()[-1])
        process.stdin.write(b"\n")
        process.stdin.flush()
        found = []
        while not found:
            found = psutil.Process(process.pid).children()
        assert os.sched_getaffinity(process.pid) == os.sched_getaffinity(found[0].pid) == {cores()[-1]}
        process.stdin.close()


def test_thieves_are_gone_when_they_are_not_wanted_any_more():
    before = {child.pid for child in psutil.Process().children()}
    with thieves(cores()[0], 2):
        found = {child.pid for child in psutil.Process().children()} - before
        assert len(found) == 2
        assert all(os.sched_getaffinity(pid) == {cores()[0]} for pid in found)
    assert {child.pid for child in psutil.Process().children()} == before


def test_other_processes_are_no_executors():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE):
        assert executors_below(psutil.Process()) == []
