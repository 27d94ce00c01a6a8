from __future__ import annotations

import pytest

from examples.fraud_rules import FraudRules
from examples.kv_store import KeyValueStore
from examples.recommender import Recommender
from examples.word_count import LineCount, WordCount
from millpond.compiler.compile import compile_program
from millpond.compiler.explain import FORMATS, explain
from millpond.errors import ProgramError
from tests.golden.programs import load, program_in
from tests.unit.graph.market import Market

PROGRAMS = [FraudRules, KeyValueStore, Recommender, WordCount, LineCount, Market]

HELPED = """
class P(Program):
    a = Partitioned(Counter[int])
    b = Partitioned(Counter[int])

    def _bump(self, k: int) -> int:
        self.a[k] += 1
        return self.a[k]

    @entry
    def go(self, k: int, j: int) -> int:
        x = self._bump(k)
        self.b[j] += x
        return x
"""


@pytest.mark.parametrize("shape", FORMATS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_example_is_shown_in_every_shape(program, shape):
    graph = compile_program(program).graph
    shown = explain(program, shape)
    assert [task.name for task in graph.tasks if task.name not in shown] == []
    assert [state.name for state in graph.states if state.name not in shown] == []


def test_an_unknown_shape_is_refused():
    with pytest.raises(ProgramError) as refused:
        explain(Market, "pdf")
    assert refused.value.code == "MP108"


def test_a_page_shows_the_whole_class_and_the_lines_of_helpers_belong_to_tasks(tmp_path):
    program = program_in(load(HELPED, tmp_path))
    page = explain(program, "html")
    assert "a = Partitioned(Counter[int])" in page
    helper = next(line for line in page.splitlines() if line.endswith("self.a[k] += 1</div>"))
    assert 'data-on="task-go.0"' in helper


def test_inherited_entry_points_are_listed_where_they_are_written(tmp_path):
    base = load(HELPED, tmp_path)
    derived = load("class Q(base.P):\n    pass\n", tmp_path, head=f"import {base.__name__} as base\n")
    page = explain(program_in(derived), "html")
    assert "class Q(base.P):" in page
    assert f"{base.__name__}.py</h2>" in page
