"""The benchmark of rows that raise, at a small size: its input, its checks, and what it reports."""

from __future__ import annotations

import argparse

import pytest

from benchmarks import raising_rows
from benchmarks.raising_rows import CONTESTANTS, EVERY, OneStep, Options, check, make_rows, plain_loop
from benchmarks.report import BenchmarkError, Teller, json_line
from millpond.engine.plan import BadRows
from millpond.engine.simulated import Simulated
from tests.sizes import compile_once

SMALL = Options(rows=400, keys=20, repeat=1)


def test_one_row_in_a_hundred_raises_and_the_others_are_the_same():
    none, some = make_rows(SMALL, 0), make_rows(SMALL, EVERY)
    assert all(item > 0 for _, (_, item) in none)
    assert [at for at, (_, (_, item)) in enumerate(some) if item < 0] == [99, 199, 299, 399]
    assert [(key, abs(item)) for _, (key, item) in some] == [arguments for _, arguments in none]


def test_every_way_is_measured_and_checked(tmp_path):
    figures = raising_rows.run(SMALL, None, Teller(), tmp_path)
    assert json_line(figures)
    assert {f"{name}_ratio" for name in CONTESTANTS} <= set(figures)


def test_a_reply_that_is_not_that_of_the_loop_or_a_lost_letter_is_refused(tmp_path):
    rows = make_rows(SMALL, EVERY)
    made = Simulated(compile_once(OneStep), tmp_path, 2, bad_rows=BadRows.DEAD_LETTER)
    made.epoch(rows)
    wanted = plain_loop(OneStep, rows)
    check(made, wanted, len(rows))
    with pytest.raises(BenchmarkError, match="dead letter"):
        check(made, wanted, len(rows) + 1)
    with pytest.raises(BenchmarkError, match="replied"):
        check(made, wanted | {0: -1}, len(rows))


def test_sizes_are_read_from_the_command_line():
    parser = argparse.ArgumentParser()
    raising_rows.add_options(parser)
    assert raising_rows.read_options(parser.parse_args([])) == Options()
