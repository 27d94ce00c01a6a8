from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from rich.console import Console

from benchmarks import __main__ as front
from benchmarks import shared_windows
from benchmarks.charts import line_chart
from benchmarks.report import BenchmarkError, Teller, json_line
from benchmarks.shared_windows import SENSORS, Options, make_records, measure, rolling_means, sensor_changes
from millpond.windowing import SharedWindows, count_tumbling

QUIET = Teller(Console(file=io.StringIO()))


@pytest.mark.slow
def test_figures_are_checked_and_charts_are_drawn(tmp_path):
    options = Options(records=4000, queries=(1, 10), scale=100, events=5000, svg=str(tmp_path))
    figures = json.loads(json_line(shared_windows.run(options, None, QUIET)))
    # The formulas themselves are tested where they are; here it is seen that techniques did not change places.
    assert figures["cutty_vs_tree"] < 1
    assert figures["calls_vs_pairs_plus"].keys() == {"1", "10"}
    assert {cost["windows"] for cost in (each["10"] for each in figures["periodic"].values())} != {0}
    # Sessions: each record of the tree is a slice of its own.
    assert figures["sessions_cutty_vs_tree"] < 1
    assert max(figures["sessions_slices_vs_tree"].values()) < 1
    assert {cost["windows"] for cost in (each["10"] for each in figures["sessions"].values())} != {0}
    assert len(figures["charts"]) == 5
    for path in figures["charts"]:
        assert len(list(ET.parse(path).getroot())) > 10


def test_sensors_change_often_or_seldom_as_the_document_has_it():
    changes = [sum(sensor_changes(number, Options())) for number in range(SENSORS)]
    assert changes[0] > 100 * changes[-1] > 0
    assert sensor_changes(3, Options()) == sensor_changes(3, Options())


def test_a_wrong_result_leaves_no_number():
    records = make_records(Options(records=100))
    sums = np.concatenate((np.zeros((1, 3), np.int64), np.cumsum(np.array(records), axis=0)))
    windows = {"w": count_tumbling(10)}
    assert measure(SharedWindows(rolling_means(), windows), records, sums).windows == 9
    sums[55] += 1
    sums[50:] += 7
    with pytest.raises(BenchmarkError, match="not"):
        measure(SharedWindows(rolling_means(), windows), records, sums)


def test_a_run_in_which_no_window_ends_leaves_no_number():
    with pytest.raises(BenchmarkError, match="--records"):
        measure(SharedWindows(rolling_means(), {"w": count_tumbling(10)}), [(1, 2, 3)] * 5, np.zeros((6, 3), np.int64))


def test_options_are_read():
    args = front.make_parser().parse_args(["shared_windows", "--queries", "1,5", "--records", "10", "--svg", "out"])
    assert shared_windows.read_options(args) == Options(records=10, queries=(1, 5), svg="out")
    usual = shared_windows.read_options(front.make_parser().parse_args(["shared_windows"]))
    assert usual == Options(svg="out/charts")


def test_a_chart_has_room_for_its_numbers_and_names_across():
    chart = line_chart("t", "a", "u", {"x": [(1, 10_000_000), (2, 20)]}, named={1: "one", 2: "two & more"})
    root = ET.fromstring(chart)
    labels = [one for one in root.iter() if one.get("text-anchor") == "end"]
    assert "10,000,000" in [one.text for one in labels]
    # A digit of this size is some seven points wide, and the name of the scale stands at 14.
    assert all(float(one.get("x")) - 7 * len(one.text) > 20 for one in labels)
    assert {"one", "two & more"} <= {one.text for one in root.iter()}


def test_a_chart_names_its_lines_and_its_steps():
    chart = line_chart("calls & more", "queries", "calls", {"a": [(1, 10), (2, 1000)], "b": [(1, 20), (2, 900)]})
    words = [element.text for element in ET.fromstring(chart).iter() if element.text and element.text.strip()]
    assert {"calls & more", "queries", "a", "b", "10", "100", "1,000", "1", "2"} <= set(words)
