"""The compiled program and its graph, put together from the drafts of its methods."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from millpond.compiler.compiled import CompiledEntry, CompiledProgram, CompiledTask, TaskFunction
from millpond.compiler.draft import Draft, Method, Piece
from millpond.graph.model import Dispatch, Edge, Graph, StateNode, TaskNode
from millpond.program import Element
from millpond.state.counter import Counter
from millpond.state.set import Set


def assemble(draft: Draft, functions: Mapping[str, TaskFunction]) -> CompiledProgram:
    """Put the compiled program together."""
    entries = {method.name: _entry(draft, method, functions) for method in draft.methods}
    return CompiledProgram(draft.program.__name__, draft.elements, MappingProxyType(entries), build_graph(draft))


def _entry(draft: Draft, method: Method, functions: Mapping[str, TaskFunction]) -> CompiledEntry:
    tasks = tuple(
        CompiledTask(
            name=piece.name,
            entry=method.name,
            index=number,
            step=piece.step,
            dispatch=piece.dispatch,
            key=piece.key,
            collects=piece.collects,
            inputs=piece.inputs,
            outputs=piece.outputs,
            accesses=piece.accesses,
            function=functions[piece.name],
            last=piece.last,
        )
        for number, piece in enumerate(method.pieces)
    )
    reads_only = reads_only_entry(method)
    return CompiledEntry(method.point, tasks, reads_only, reads_only or commuting_entry(method, draft.elements))


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
    pieces = [(method, piece) for method in draft.methods for piece in method.pieces]
    tasks = tuple(
        TaskNode(piece.name, method.name, piece.step, piece.accesses, _lines(method, piece)) for method, piece in pieces
    )
    edges = tuple(edge for method in draft.methods for edge in _edges(method))
    return Graph(draft.program.__name__, states, tasks, edges)


def _edges(method: Method) -> Iterator[Edge]:
    source: str | None = None
    for piece in method.pieces:
        yield Edge(source, piece.name, piece.dispatch, piece.key, piece.inputs, piece.reason)
        source = piece.name
    yield Edge(source, None, Dispatch.ANY, "", (), "the reply")


def _lines(method: Method, piece: Piece) -> tuple[int, ...]:
    lines: set[int] = set()
    for statement in method.body[piece.start : piece.end]:
        for node in ast.walk(statement):
            if hasattr(node, "lineno"):
                lines.update(range(node.lineno, (getattr(node, "end_lineno", None) or node.lineno) + 1))
    return tuple(sorted(lines))
