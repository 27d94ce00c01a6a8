from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from benchmarks import __main__ as front
from benchmarks import value_copies
from benchmarks.report import BenchmarkError, Teller, json_line
from benchmarks.value_copies import PROGRAMS, Events, Options, compiled_pair, loop, measure


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_copy_is_left_where_objects_are_new(name):
    ruled, _ = compiled_pair(PROGRAMS[name])
    assert ruled.entries["add"].tasks[0].renews == frozenset()


def test_figures_have_a_ratio_for_every_type():
    figures = value_copies.run(Options(keys=3, events=4, repeat=1), None, Teller(Console(file=io.StringIO())))
    assert figures["by_type"].keys() == PROGRAMS.keys()
    assert json.loads(json_line(figures))["checked"] is True


def test_a_loop_leaves_what_the_rows_put_there():
    ruled, _ = compiled_pair(Events)
    _, held = loop(ruled, [["a", "b", "a"], [1, 2, 3]])
    assert {key: [event.amount for event in events] for key, events in held.items()} == {"a": [1, 3], "b": [2]}


def test_other_state_than_that_of_the_class_gives_no_figures(monkeypatch):
    monkeypatch.setattr(value_copies, "loop", lambda *_: (1.0, {}))
    with pytest.raises(BenchmarkError, match="Events leaves other state"):
        measure(Events, Options(keys=2, events=2, repeat=1))


def test_sizes_can_be_chosen():
    args = front.make_parser().parse_args(["value_copies", "--keys", "2", "--events", "3", "--repeat", "4"])
    assert value_copies.read_options(args) == Options(2, 3, 4)
