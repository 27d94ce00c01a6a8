"""Which entry points run gathered: those that must, those that may abort, and all that share an element with them.

Needs: Method.tree with helpers that touch state written out; Draft.gathered, the entry points that can't be ordered.
Leaves: Method.aborts, and Method.gathered: why. An element is touched by gathered entry points alone, or by none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace

from millpond.compiler.diagnostics import bar
from millpond.compiler.draft import Draft, Method
from millpond.compiler.front.callees import is_helper, is_static, read_helper
from millpond.compiler.front.inlining.helpers import is_own
from millpond.compiler.obstacles import Bars, ObstacleError
from millpond.program.semantics.rows import ABORT

ABORTS = "it may abort, which undoes all that it changed"

UNCUT = "its rows are to be undone where they raise"
"""Why an entry point runs gathered that could be cut."""


def gather(draft: Draft) -> Draft:
    """Mark the entry points that run gathered."""
    methods = tuple(replace(method, aborts=_aborts(draft, method)) for method in draft.methods)
    why = dict(draft.gathered)
    for method in methods:
        if method.aborts:
            why.setdefault(method.name, ABORTS)
    touched = {method.name: touched_by(draft, method) for method in methods}
    _close(why, touched)
    gathered = tuple(_exact(replace(method, gathered=why.get(method.name, ""))) for method in methods)
    # One at a time: with one of them run in sequence, others may no longer have to be gathered.
    found = ((method.name, _partial(draft, method)) for method in gathered if method.gathered)
    first = next(((name, obstacle) for name, obstacle in found if obstacle), None)
    return replace(draft, methods=gathered, obstacles=dict([first] if first else []))


def _exact(method: Method) -> Method:
    """A relaxed method that runs gathered may as well be exact: nothing comes in between."""
    return replace(method, point=replace(method.point, relaxed=False)) if method.gathered else method


def _close(why: dict[str, str], touched: Mapping[str, Mapping[str, ast.AST]]) -> None:
    """Add the entry points that touch an element of a gathered one."""
    waiting = list(why)
    while waiting:
        name = waiting.pop(0)
        for other, elements in touched.items():
            shared = next((element for element in touched[name] if element in elements), None)
            if shared is not None and other not in why:
                why[other] = f"{name} does, and both touch self.{shared}"
                waiting.append(other)


def touched_by(draft: Draft, method: Method) -> dict[str, ast.AST]:
    """The elements that a method touches, each with the first place."""
    found: dict[str, ast.AST] = {}
    for node in ast.walk(method.tree):
        if is_own(node, method.self_name) and node.attr in draft.elements:
            found.setdefault(node.attr, node)
    return found


def _aborts(draft: Draft, method: Method) -> bool:
    """Whether a method, or a helper that it calls, may abort."""
    seen: set[str] = set()
    waiting = [(method.tree, method.self_name)]
    while waiting:
        tree, self_name = waiting.pop()
        for name in _own_names(tree, self_name):
            if name == ABORT:
                return True
            if name not in seen and is_helper(draft.program, name):
                seen.add(name)
                helper = read_helper(draft.program, name)
                waiting.append((helper.tree, "" if is_static(draft.program, name) else helper.self_name))
    return False


def _own_names(tree: ast.AST, self_name: str) -> Iterator[str]:
    yield from (node.attr for node in ast.walk(tree) if is_own(node, self_name))


def _partial(draft: Draft, method: Method) -> ObstacleError | None:
    """What keeps a method from being gathered: a partial element, which is at no one place."""
    for element, node in touched_by(draft, method).items():
        if draft.elements[element].partial:
            return bar(
                Bars.KEYS,
                "MP180",
                f"{method.name} touches self.{element}, which is partial, and would have to run gathered",
                method.source,
                node,
                expected="partitioned elements in a gathered method",
                found=f"self.{element} = Partial(...); {method.gathered}",
                hint=f"declare self.{element} as Partitioned(...), or touch it in another entry point",
            )
    return None
