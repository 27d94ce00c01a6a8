"""Where a method must move between its state accesses, as constraints on the steps of the elements.

Needs: Method.stops, Method.reaching.
Leaves: Draft.constraints: how many steps at least lie between two elements that a method visits one after the other.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from millpond.compiler.access import THE_KEY, routable
from millpond.compiler.diagnostics import refuse
from millpond.compiler.draft import Constraint, Definition, Draft, Identity, Kind, Method, Stop

SAME_PLACE = "the record is there already"
OTHER_KEY = "another key"
ALL_INSTANCES = "all instances are asked"
AFTER_MERGE = "all instances have answered"
COMPUTED_KEY = "the key is computed first"
START = "the start of the method"


def split(draft: Draft) -> Draft:
    """Find the moves of every method."""
    for method in draft.methods:
        check_answers(method)
    found = tuple(constraint for method in draft.methods for constraint in _constraints(method))
    return replace(draft, constraints=found)


def starts_here(stop: Stop) -> bool:
    """Whether the first step can bring a row straight to its first access."""
    match stop.kind:
        case Kind.KEYED:
            return stop.identity == THE_KEY or bool(routable(stop.identity))
        case Kind.EACH:
            return stop.top == 0
    return stop.kind is Kind.LOCAL


@dataclass(frozen=True, slots=True)
class _Move:
    source: Stop | None
    target: Stop
    weight: int
    why: str


def _moves(method: Method) -> Iterator[_Move]:
    position: Identity | None = None
    last: Stop | None = None
    for stop in method.stops:
        if stop.kind is Kind.MERGE:
            continue
        if last is None:
            here = starts_here(stop)
            yield _Move(None, stop, 0 if here else 1, START if here else COMPUTED_KEY)
        elif last.kind is Kind.EACH:
            yield _Move(last, stop, 2, AFTER_MERGE)
        elif stop.kind is Kind.EACH:
            yield _Move(last, stop, 1, ALL_INSTANCES)
        elif stop.kind is Kind.KEYED and stop.identity != position:
            yield _Move(last, stop, 1, OTHER_KEY)
        else:
            yield _Move(last, stop, 0, SAME_PLACE)
        position = stop.identity if stop.kind is Kind.KEYED else position
        last = stop


def _constraints(method: Method) -> Iterator[Constraint]:
    place = method.source.place
    for move in _moves(method):
        here = place(move.target.node)
        if move.source is None:
            for target in move.target.elements:
                yield Constraint(None, target, move.weight, method.name, (here,), move.why)
        else:
            pairs = itertools.product(move.source.elements, move.target.elements)
            places = (place(move.source.node), here)
            for source, target in pairs:
                if source != target or move.weight:
                    yield Constraint(source, target, move.weight, method.name, places, move.why)
        # A statement is never cut, so all that it touches is met at one step.
        for source, target in itertools.permutations(move.target.elements, 2):
            yield Constraint(source, target, 0, method.name, (here,), SAME_PLACE)


def check_answers(method: Method) -> None:
    """Refuse a method that does anything but merge with what each() gave."""
    asked: Stop | None = None
    for stop in method.stops:
        if stop.kind is Kind.MERGE:
            if asked is None or asked.value != stop.value:
                raise refuse(
                    "MP144",
                    "merged() is given something that each() did not give",
                    method.source,
                    stop.node,
                    expected="merged(values, function) after values = each(self.state).method(...)",
                )
            _check_uses(method, asked, stop)
            asked = None
        elif asked is not None:
            raise refuse(
                "MP145",
                "state is touched between each() and merged()",
                method.source,
                stop.node,
                expected=f"merged({asked.value}, ...) first",
                hint="merge the answers of all instances before the next access",
                also=[method.source.place(asked.node)],
            )
        elif stop.kind is Kind.EACH:
            asked = stop
    if asked is not None:
        _check_uses(method, asked, None)
        raise refuse(
            "MP146",
            "the answers of all instances are never merged",
            method.source,
            asked.node,
            expected=f"merged({asked.value}, function)",
            hint="each() gives one value per instance; say how they become one",
        )


def _check_uses(method: Method, asked: Stop, merge: Stop | None) -> None:
    reaching = method.reaching
    given = Definition(asked.value, reaching.heads[asked.top])
    for point, before in zip(reaching.points, reaching.before, strict=True):
        if asked.value not in point.reads or given not in before.get(asked.value, ()):
            continue
        loads = [
            node
            for node in ast.walk(point.node)
            if isinstance(node, ast.Name) and node.id == asked.value and isinstance(node.ctx, ast.Load)
        ]
        allowed = merge.node.args[0] if merge is not None and isinstance(merge.node, ast.Call) else None
        for load in loads:
            if load is not allowed:
                raise refuse(
                    "MP142",
                    "what each() gave is used as one value",
                    method.source,
                    load,
                    expected=f"merged({asked.value}, function)",
                    hint="it has one value per instance; merge them, then use the result",
                    also=[method.source.place(asked.node)],
                )
