from __future__ import annotations

import pytest

from benchmarks import elastic
from benchmarks.elastic import Options, draw, rising, write_input
from millpond.runtime.spark.progress import EpochReport


def report(epoch, rows, seconds, partitions=1, moved=0):
    return EpochReport(epoch, rows, 0, 0, 0, seconds, 0.0, {}, partitions=partitions, groups_moved=moved)


def test_the_load_rises_up_to_all_rows():
    sizes = rising(Options(epochs=5, rows=1000))
    assert sizes == [200, 400, 600, 800, 1000]
    assert min(rising(Options(epochs=30, rows=3))) == 1


def test_what_is_written_is_what_is_counted(tmp_path):
    files, counts = write_input(tmp_path / "in", [3, 5], Options())
    assert len(files) == 2
    assert counts.total() == 8


def test_figures_are_of_the_second_half_and_charts_show_all_epochs(tmp_path):
    scaled = {
        "fixed": [report(at, 100, 1.0) for at in range(1, 5)],
        "elastic": [report(at, 100, 1.0 if at < 3 else 0.5, partitions=at) for at in range(1, 5)],
    }
    relieved = {
        "fixed": [report(at, 100, 4.0) for at in range(1, 5)],
        "elastic": [report(at, 100, 4.0 if at < 3 else 1.0, moved=at) for at in range(1, 5)],
    }
    options = Options(epochs=4, svg=str(tmp_path / "charts"))
    figures = elastic._figures(options, scaled, relieved)
    assert figures["scale_out_ratio"] == pytest.approx(2.0)
    assert figures["relief_ratio"] == pytest.approx(0.25)
    assert figures["partitions"] == [1, 2, 3, 4]
    assert figures["groups_moved"] == 10
    paths = draw(options, scaled, relieved)
    assert [path.rpartition("/")[2] for path in paths] == ["elastic-rising.svg", "elastic-slow.svg"]
    assert all("<svg" in (tmp_path / "charts" / path.rpartition("/")[2]).read_text() for path in paths)
    assert draw(Options(), scaled, relieved) == []
