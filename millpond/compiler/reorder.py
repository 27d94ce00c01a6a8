"""Hints: statements that would save an exchange if they stood elsewhere.

The rule is simple and errs on the side of silence. A method goes in a straight line from one task to the next; a later
task is under the same key as an earlier one, but not beside it; nothing that its statements on state need is made,
rebound or possibly changed in between, nothing that lies in between takes what they make, no statement of them ends the
method; and with the two in one task there are still levels for all elements.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence

from millpond.compiler.draft import Source
from millpond.compiler.front.scope import Names
from millpond.graph.cost import entries_of
from millpond.graph.model import Dispatch, Edge, Graph, TaskNode

Visits = Sequence[frozenset[str]]
"""The elements that an entry point visits, task by task."""


def reorderings(graph: Graph, entry: str, source: Source) -> list[str]:
    """Say which statements of an entry point could move up to save an exchange."""
    chain = _chain(graph, entry)
    body = _statements(source, entry)
    if chain is None or not body:
        return []
    inside = range(body[0].lineno, (body[-1].end_lineno or body[-1].lineno) + 1)
    if not all(line in inside for _, task in chain for line in task.lines):
        # A helper was written out in the method; its lines can't move.
        return []
    return list(_hints(graph, entry, chain, body))


def _hints(graph: Graph, entry: str, chain: list[tuple[Edge, TaskNode]], body: Sequence[ast.stmt]) -> Iterator[str]:
    for first, last in itertools.combinations(range(len(chain)), 2):
        edge, task = chain[last]
        if last - first < 2 or not _same_key(chain[first][0], edge):
            continue
        moved = [s for s in _of(task, body) if _touches(s, {access.state for access in task.accesses})]
        left = [s for s in _of(task, body) if s not in moved and moved and s.lineno < moved[-1].lineno]
        passed = [s for _, other in chain[first + 1 : last] for s in _of(other, body)]
        stays = _of(chain[first][1], body)
        if not (moved and passed and stays and _apart(moved, passed, stays, left)):
            continue
        if not _independent(moved, [*passed, *left], edge.key) or not _levels_permit(graph, entry, first, last):
            continue
        lines = f"line {moved[0].lineno}" if len(moved) == 1 else f"lines {moved[0].lineno} to {moved[-1].end_lineno}"
        key = f"the key {edge.key}" if edge.key else "the only key"
        yield f"move {lines} up, after line {stays[-1].end_lineno}: both are under {key}; it saves an exchange"


def _touches(statement: ast.stmt, states: set[str]) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in states for node in ast.walk(statement))


def _chain(graph: Graph, entry: str) -> list[tuple[Edge, TaskNode]] | None:
    """The tasks of an entry point with the edge into each, or None if there is more than one way through."""
    tasks = {task.name: task for task in graph.tasks if task.entry == entry}
    chain: list[tuple[Edge, TaskNode]] = []
    at: str | None = None
    for _ in tasks:
        after = [edge for edge in graph.edges if edge.source == at and edge.target in tasks]
        replies = [edge for edge in graph.edges if edge.source == at and edge.target is None and at is not None]
        if len(after) != 1 or replies or after[0].fan_out or after[0].target is None:
            return None
        at = after[0].target
        chain.append((after[0], tasks[at]))
    return chain


def _statements(source: Source, name: str) -> list[ast.stmt]:
    """The statements of a method's body, with the lines of its file; none if they can't be told."""
    text = "\n".join(source.lines)
    indented = text[:1].isspace()
    try:
        module = ast.parse(("if 1:\n" if indented else "") + text)
    except SyntaxError:
        return []
    ast.increment_lineno(module, source.first - 1 - indented)
    found = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and node.name == name]
    return list(found[0].body) if len(found) == 1 else []


def _of(task: TaskNode, body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements of the body that have a line in a task."""
    return [s for s in body if any(s.lineno <= line <= (s.end_lineno or s.lineno) for line in task.lines)]


def _same_key(one: Edge, other: Edge) -> bool:
    return one.dispatch is other.dispatch is Dispatch.BY_KEY and one.key == other.key


def _apart(*groups: list[ast.stmt]) -> bool:
    """Whether no statement is in two groups, and none leaves the method or a loop."""
    together = [id(statement) for group in groups for statement in group]
    if len(together) != len(set(together)):
        return False
    leaves = (ast.Return, ast.Break, ast.Continue, ast.Raise)
    return not any(isinstance(node, leaves) for group in groups for s in group for node in ast.walk(s))


def _independent(moved: Sequence[ast.stmt], passed: Sequence[ast.stmt], key: str) -> bool:
    before, after = Names.of(*moved), Names.of(*passed)
    needs = before.reads | set(key.split(","))
    changed = after.binds | after.unbinds | _perhaps_changed(passed)
    makes = before.binds | before.unbinds | _perhaps_changed(moved)
    return not (needs & changed or makes & (after.reads | after.binds))


def _perhaps_changed(statements: Sequence[ast.stmt]) -> set[str]:
    """Variables whose objects may be changed: parts of them are stored, or they are handed to somebody."""
    found: set[str] = set()
    for node in (node for statement in statements for node in ast.walk(statement)):
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                found.add(_root(node))
            case ast.Call(func=func, args=arguments, keywords=keywords):
                found |= {_root(func)} if isinstance(func, ast.Attribute) else set()
                found |= {a.id for a in arguments if isinstance(a, ast.Name)}
                found |= {k.value.id for k in keywords if isinstance(k.value, ast.Name)}
    return found - {"self", ""}


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _levels_permit(graph: Graph, entry: str, first: int, last: int) -> bool:
    """Whether all elements still have levels when two tasks of an entry point become one."""
    visits: list[Visits] = []
    for name in entries_of(graph):
        if name in graph.relaxed and name != entry:
            continue
        own = [frozenset(a.state for a in task.accesses) for task in graph.tasks if task.entry == name]
        if name == entry:
            own[first] |= own[last]
            del own[last]
        visits.append(own)
    return _have_levels(visits)


def _have_levels(visits: Sequence[Visits]) -> bool:
    """Whether elements visited one after the other can be met at rising steps, and those of one task at one step."""
    steps: list[tuple[str, str, int]] = []
    for own in visits:
        stops = [stop for stop in own if stop]
        for stop in stops:
            steps += [(a, b, 0) for a, b in itertools.permutations(stop, 2)]
        for one, other in itertools.pairwise(stops):
            steps += [(a, b, 1) for a in one for b in other]
    levels = dict.fromkeys((name for step in steps for name in step[:2]), 0)
    for _ in range(len(levels) + 1):
        late = [(b, levels[a] + weight) for a, b, weight in steps if levels[b] < levels[a] + weight]
        if not late:
            return True
        for name, level in late:
            levels[name] = max(levels[name], level)
    return False
