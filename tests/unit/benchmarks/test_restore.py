"""The benchmark of restoring: small, whole, and refusing to print what is wrong."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from benchmarks import restore
from benchmarks.__main__ import make_parser
from benchmarks.report import BenchmarkError, Teller, json_line


def options_of(*words):
    return restore.read_options(make_parser().parse_args(["restore", *words]))


@pytest.mark.slow
def test_a_state_is_restored_by_other_numbers_of_tasks_and_checked(tmp_path):
    options = options_of("--keys", "3000", "--bytes", "20", "--turns", "1", "--folder", str(tmp_path))
    figures = restore.run(options, None, Teller(Console(file=io.StringIO())))
    assert json_line(figures)
    for case in ("1_to_1", "2_to_1", "1_to_2", "2_to_2"):
        assert figures[f"on_demand_first_{case}_s"] > 0
        assert figures[f"on_demand_all_{case}_s"] > 0
        assert figures[f"eager_{case}_s"] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_state_that_is_not_what_was_written_gets_no_figures():
    data = restore.Data(options_of("--keys", "50", "--bytes", "8"))
    digest = data.digest()
    found = restore.Restored(0.1, 0.2, 50, digest)
    assert restore.checked(found, data, digest, "1→1") is found
    for wrong in (replace(found, entries=49), replace(found, digest=digest ^ 1)):
        with pytest.raises(BenchmarkError, match="1→1"):
            restore.checked(wrong, data, digest, "1→1")


def test_the_digest_sees_which_value_stands_under_which_key():
    one, two = (restore.digest_of(key, value) for key, value in ((b"abcd", b"1"), (b"abce", b"2")))
    swapped = restore.digest_of(b"abcd", b"2") + restore.digest_of(b"abce", b"1")
    assert one + two != swapped
