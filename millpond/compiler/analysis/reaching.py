"""Reaching definitions: which assignments a name may have its value from, at every point.

Needs: Method.cfg.
Leaves: Method.reaching. A name that may have no value yet is reached by its UNBOUND definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from millpond.compiler.draft import PARAMETER, UNBOUND, Cfg, Definition, Draft, Point, Reaching

Definitions = dict[str, frozenset[Definition]]


def find_reaching(draft: Draft) -> Draft:
    """Compute the reaching definitions of every method."""
    return draft.each(
        lambda method: replace(
            method, reaching=reaching_definitions(method.cfg, (method.self_name, *method.parameters))
        )
    )


def reaching_definitions(cfg: Cfg, parameters: Iterable[str]) -> Reaching:
    """Compute which definitions reach each point of a graph, and number the points in the order of the blocks."""
    firsts = []
    points: list[Point] = []
    for block in cfg.blocks:
        firsts.append(len(points))
        points += block.points
    names = {name for point in points for name in (*point.binds, *point.unbinds)}
    start = {name: frozenset((Definition(name, UNBOUND),)) for name in names}
    start |= {name: frozenset((Definition(name, PARAMETER),)) for name in parameters}
    entering: list[Definitions | None] = [None] * len(cfg.blocks)
    entering[0] = start
    waiting = [0]
    while waiting:
        number = waiting.pop()
        state = dict(entering[number] or {})
        for offset, point in enumerate(cfg.blocks[number].points):
            _step(state, point, firsts[number] + offset)
        for successor in cfg.blocks[number].successors:
            known = entering[successor]
            joined = _join(known, state)
            if joined != known:
                entering[successor] = joined
                waiting.append(successor)
    before: list[Mapping[str, frozenset[Definition]]] = []
    for number, block in enumerate(cfg.blocks):
        state = dict(entering[number] or {})
        for offset, point in enumerate(block.points):
            before.append(dict(state))
            _step(state, point, firsts[number] + offset)
    return Reaching(tuple(points), tuple(before), _heads(points))


def _step(state: Definitions, point: Point, number: int) -> None:
    for name in point.unbinds:
        state[name] = frozenset((Definition(name, UNBOUND),))
    for name in point.binds:
        state[name] = frozenset((Definition(name, number),))


def _join(known: Definitions | None, state: Definitions) -> Definitions:
    if known is None:
        return dict(state)
    return {name: known.get(name, frozenset()) | state.get(name, frozenset()) for name in known.keys() | state.keys()}


def _heads(points: list[Point]) -> tuple[int, ...]:
    heads: dict[int, int] = {}
    for number, point in enumerate(points):
        heads.setdefault(point.top, number)
    return tuple(heads[top] for top in sorted(heads))
