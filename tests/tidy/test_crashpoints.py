"""Every crash point is somewhere in the code, and the code names no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from millpond.crashpoints import POINTS
from tests.tidy.tree import Module, calls, modules, parse


def points_named(module: Module) -> Iterator[tuple[str, str | None]]:
    """Each call of `crashpoint`: its place, and the point it names if a literal names it."""
    for node, name in calls(module):
        if name.split(".")[-1] == "crashpoint":
            point = node.args[0] if node.args else None
            literal = point.value if isinstance(point, ast.Constant) and isinstance(point.value, str) else None
            yield module.at(node, ast.unparse(node)), literal


def unknown_points(module: Module) -> list[str]:
    return [place for place, point in points_named(module) if point not in POINTS]


@pytest.mark.parametrize("line", ["crashpoint('no.such.point')", "crashpoints.crashpoint(name)", "crashpoint()"])
def test_a_call_without_a_known_point_is_found(line):
    assert len(unknown_points(parse(line))) == 1


def test_a_known_point_is_read_from_its_call():
    module = parse(f"crashpoint({POINTS[0]!r})")
    assert unknown_points(module) == []
    assert [point for _, point in points_named(module)] == [POINTS[0]]


def test_every_call_names_a_known_point():
    assert [place for module in modules("millpond") for place in unknown_points(module)] == []


def test_every_point_is_called():
    named = {point for module in modules("millpond") for _, point in points_named(module)}
    assert sorted(set(POINTS) - named) == []
