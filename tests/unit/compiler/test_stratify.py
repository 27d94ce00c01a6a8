from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millpond.compiler.draft import Constraint, Draft
from millpond.compiler.obstacles import Bars
from millpond.compiler.plan.stratify import stratify
from millpond.errors import SourcePlace
from millpond.program import Partitioned, ProgramBase
from millpond.state.containers.map import Map


class Five(ProgramBase):
    a = Partitioned(Map[int, int])
    b = Partitioned(Map[int, int])
    c = Partitioned(Map[int, int])
    d = Partitioned(Map[int, int])
    e = Partitioned(Map[int, int])


PLACE = SourcePlace("f.py", 1, 0, "x")


def constraint(source, target, weight):
    return Constraint(source, target, weight, "go", (PLACE,), "why")


def ordered(*constraints):
    return stratify(Draft(Five, Five.elements(), constraints=constraints))


def levels(*constraints):
    return ordered(*constraints).levels


def test_a_level_is_the_longest_path():
    found = levels(constraint("a", "b", 1), constraint("b", "c", 1), constraint("a", "c", 1), constraint(None, "d", 1))
    assert dict(found) == {"a": 0, "b": 1, "c": 2, "d": 1, "e": 0}


def test_a_circle_without_a_step_is_one_level():
    found = levels(constraint("a", "b", 0), constraint("b", "a", 0), constraint(None, "b", 2))
    assert found["a"] == found["b"] == 2


def test_a_circle_with_a_step_is_an_obstacle():
    circle = constraint("a", "b", 1), constraint("b", "c", 0), constraint("c", "a", 0)
    met = ordered(*circle, constraint("d", "a", 1)).obstacles["go"]
    assert (met.code, met.bars) == ("MP151", Bars.ORDER)
    assert "self.d" not in str(met)


NAMES = st.sampled_from("abcde")
EDGES = st.lists(st.tuples(st.one_of(st.none(), NAMES), NAMES, st.integers(0, 2)), max_size=12)


@given(EDGES)
def test_levels_hold_every_constraint_and_are_the_lowest(edges):
    constraints = [constraint(*edge) for edge in edges if edge[0] != edge[1]]
    draft = ordered(*constraints)
    if draft.obstacles:
        assert draft.obstacles["go"].code == "MP151"
        return
    found = draft.levels
    for edge in constraints:
        base = 0 if edge.source is None else found[edge.source]
        assert found[edge.target] >= base + edge.weight
    for name, level in found.items():
        reasons = [0] + [
            (0 if edge.source is None else found[edge.source]) + edge.weight
            for edge in constraints
            if edge.target == name
        ]
        assert level == max(reasons)
