"""Which entry points run gathered: those that must, those that may abort, and all that share an element with them.

Needs: Method.tree with helpers that touch state written out; Draft.gathered, the entry points that can't be ordered.
Leaves: Method.aborts, and Method.gathered: why. An element is touched by gathered entry points alone, or by none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace

from millpond.compiler.draft import Draft, Method
from millpond.compiler.front.callees import is_helper, is_static, read_helper
from millpond.compiler.front.inlining.helpers import is_own
from millpond.compiler.plan.stratify import OrderError
from millpond.errors import ProgramError
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
    for method in gathered:
        if method.gathered:
            _check(draft, method)
    return replace(draft, methods=gathered)


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


def _check(draft: Draft, method: Method) -> None:
    touched = touched_by(draft, method)
    for element, node in touched.items():
        if draft.elements[element].partial:
            raise OrderError(
                "MP180",
                f"{method.name} touches self.{element}, which is partial, and would have to run gathered",
                places=(method.source.place(node),),
                expected="partitioned elements in a gathered method",
                found=f"self.{element} = Partial(...); {method.gathered}",
                hint=f"declare self.{element} as Partitioned(...), or touch it in another entry point",
                entries=(method.name,),
            )


def describe(error: ProgramError) -> str:
    """Why an entry point is run gathered: what keeps it from being ordered."""
    lines = list(dict.fromkeys(place.line for place in error.places))
    told = f"line {lines[0]}" if len(lines) == 1 else f"lines {', '.join(map(str, lines))}"
    return f"{error.summary} ({told})" if lines else error.summary


def _sentences(first: str | None, second: str) -> str:
    return second if first is None else f"{first}. {second}"


def both(error: ProgramError, refusal: ProgramError) -> ProgramError:
    """The error of a program that can't be ordered, with why it can't be gathered either."""
    return ProgramError(
        error.code,
        error.summary,
        places=tuple(dict.fromkeys((*error.places, *refusal.places))),
        expected=error.expected,
        found=_sentences(error.found, f"It can't run gathered: {refusal.code} {refusal.summary}"),
        hint=_sentences(error.hint, f"To run it gathered: {refusal.hint}"),
    )
