"""The compiled program and its graph, put together from the drafts of its methods."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from millpond.compiler.back.sequence import sequence_entry, with_sequence
from millpond.compiler.back.window_adds import only_adds
from millpond.compiler.compiled import (
    CompiledEntry,
    CompiledProgram,
    CompiledTask,
    KeyFunction,
    KeySets,
    Meets,
    TaskFunction,
)
from millpond.compiler.draft import Draft, Method, Piece
from millpond.compiler.ir.jumps import Jump, successors
from millpond.graph.model import Dispatch, Edge, Graph, Mode, StateNode, TaskNode
from millpond.program import Element
from millpond.program.program import dropped_elements
from millpond.state.containers.counter import Counter
from millpond.state.containers.set import Set

_ARGUMENTS = "*"
"""Stands for all parameters, where others are named."""


def assemble(
    draft: Draft, functions: Mapping[str, TaskFunction], finders: Mapping[str, KeyFunction]
) -> CompiledProgram:
    """Put the compiled program together, with functions by task and those that find keys by entry point."""
    compiled = {method.name: _entry(draft, method, functions, finders) for method in draft.methods}
    compiled |= {method.name: sequence_entry(draft, method) for method in draft.whole}
    entries = {name: compiled[name] for name in draft.program.entries()}
    graph = with_sequence(draft, build_graph(draft))
    dropped = dropped_elements(draft.program)
    return CompiledProgram(
        draft.program.__name__, _stored(draft), MappingProxyType(entries), graph, dropped, draft.program
    )


def _stored(draft: Draft) -> Mapping[str, Element]:
    """The elements as a checkpoint has them: those that the program names first, in their order."""
    parts = [element.stored() for element in draft.elements.values()]
    stored = {name: part.pop(name) for name, part in zip(draft.elements, parts, strict=True)}
    return MappingProxyType(stored | {name: element for part in parts for name, element in part.items()})


def _key_sets(method: Method, finders: Mapping[str, KeyFunction]) -> KeySets | None:
    if method.keys is None:
        return None
    return KeySets(method.keys.columns, finders.get(method.name), method.keys.singles)


def _entry(
    draft: Draft, method: Method, functions: Mapping[str, TaskFunction], finders: Mapping[str, KeyFunction]
) -> CompiledEntry:
    tasks = tuple(
        CompiledTask(
            name=piece.name,
            entry=method.name,
            index=number,
            step=piece.step,
            dispatch=piece.dispatch,
            key=tuple(filter(None, piece.key.split(","))),
            collects=piece.collects,
            inputs=piece.inputs,
            accesses=piece.accesses,
            function=functions[piece.name],
            last=piece.last,
            relaxed=method.relaxed,
            keys=_key_sets(method, finders),
            adds=only_adds(method, draft.elements),
            renews=frozenset(access.state for access in piece.accesses if access.state in method.renews),
        )
        for number, piece in enumerate(method.pieces)
    )
    reads_only = reads_only_entry(method)
    commutes = reads_only or (commuting_entry(method, draft.elements) and not method.aborts)
    steps = steps_of(method)
    return CompiledEntry(
        method.point, tasks, reads_only, commutes and not method.relaxed, steps, method.aborts, instance_met(method)
    )


def instance_met(method: Method) -> Meets:
    """Which instances of partial state rows of a method meet: where their key brings them, or they were before."""
    homes: dict[int, set[str | None]] = {number: set() for number in range(len(method.pieces))}
    waiting: list[tuple[int, str | None]] = [(0, _ARGUMENTS)]
    while waiting:
        number, home = waiting.pop()
        piece = method.pieces[number]
        here = piece.routed if piece.dispatch is Dispatch.BY_KEY else home
        if here not in homes[number]:
            homes[number].add(here)
            waiting += [(way.target, here) for way in piece.exits]
    met: dict[str, set[str | None]] = {}
    for number, piece in enumerate(method.pieces):
        for access in piece.accesses:
            if access.mode is Mode.LOCAL:
                met.setdefault(access.state, set()).update(homes[number])
    keys: list[tuple[str, tuple[str, ...]]] = []
    for element, places in met.items():
        (home,) = places if len(places) == 1 else (None,)
        if home is None:
            return Meets(sure=False)
        if home != _ARGUMENTS:
            keys.append((element, tuple(filter(None, home.split(",")))))
    return Meets(tuple(keys))


def steps_of(method: Method) -> int | None:
    """How many steps the rows of a method take at most; None if it comes back to a task it was at."""
    if not method.relaxed:
        return 1 + max(piece.step for piece in method.pieces)
    longest: dict[int, int | None] = {}

    def from_here(number: int, seen: frozenset[int]) -> int | None:
        if number in seen:
            return None
        if number not in longest:
            after = [from_here(way.target, seen | {number}) for way in method.pieces[number].exits]
            longest[number] = None if None in after else 1 + max((steps for steps in after if steps), default=0)
        return longest[number]

    return from_here(0, frozenset())


def reads_only_entry(method: Method) -> bool:
    """Whether no task of a method may change state."""
    return not any(access.writes for piece in method.pieces for access in piece.accesses)


def commuting_entry(method: Method, elements: Mapping[str, Element]) -> bool:
    """Whether a method only adds to counters and sets, and tells nothing: then the order of its rows can't be seen."""
    if method.point.replies:
        return False
    counted = {
        id(node.target)
        for statement in method.body
        for node in ast.walk(statement)
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub)
    }
    for site in (use.site for stop in method.stops for use in stop.uses):
        container = elements[site.element].type.container
        adds = container is Set and site.operations == ("add",)
        if not adds and not (container is Counter and id(site.node) in counted):
            return False
    return True


def build_graph(draft: Draft) -> Graph:
    """The graph of a program whose methods are cut."""
    states = tuple(
        StateNode(name, element.type.text, element.distribution.value, element.type.by, draft.levels[name])
        for name, element in draft.elements.items()
    )
    spans = {method.name: [_span(statement) for statement in method.body] for method in draft.methods}
    pieces = [(method, piece) for method in draft.methods for piece in method.pieces]
    tasks = tuple(
        TaskNode(
            piece.name,
            method.name,
            piece.step,
            piece.accesses,
            _lines(spans[method.name], piece),
            method.keys.touches if method.keys is not None else (),
        )
        for method, piece in pieces
    )
    edges = tuple(edge for method in draft.methods for edge in _edges(method))
    relaxed = frozenset(method.name for method in draft.methods if method.relaxed)
    gathered = tuple((method.name, method.gathered) for method in draft.methods if method.gathered)
    return Graph(draft.program.__name__, states, tasks, edges, relaxed, gathered)


def _edges(method: Method) -> Iterator[Edge]:
    first = method.pieces[0]
    yield Edge(None, first.name, first.dispatch, first.key, first.inputs, first.reason)
    for piece in method.pieces:
        for way in piece.exits:
            to = method.pieces[way.target]
            yield Edge(piece.name, to.name, to.dispatch, to.key, to.inputs, to.reason, way.fan_out)
        if _replies(method, piece):
            yield Edge(piece.name, None, Dispatch.ANY, "", (), "the reply")


def _replies(method: Method, piece: Piece) -> bool:
    """Whether a row may come to its end in a piece."""
    if piece.last:
        return True
    ways = {way.top for way in piece.exits} | {piece.ends}
    for top in piece.tops:
        after = successors(method.body, top)
        if any(isinstance(node, ast.Return) for node in ast.walk(method.body[top])):
            return True
        if not after and not isinstance(method.body[top], ast.Raise) and top + 1 not in ways:
            return True
    return False


def _lines(spans: list[frozenset[int]], piece: Piece) -> tuple[int, ...]:
    return tuple(sorted(frozenset[int]().union(*(spans[top] for top in piece.tops))))


def _span(statement: ast.stmt) -> frozenset[int]:
    """The lines that a statement is written in; a jump is written nowhere."""
    lines: set[int] = set()
    for node in ast.walk(statement) if not isinstance(statement, Jump) else ():
        if hasattr(node, "lineno"):
            lines.update(range(node.lineno, (getattr(node, "end_lineno", None) or node.lineno) + 1))
    return frozenset(lines)
