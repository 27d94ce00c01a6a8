"""What each() gave may only be merged, on every path, before anything else is touched."""

from __future__ import annotations

import ast

from millpond.compiler.diagnostics import bar, refuse
from millpond.compiler.draft import Definition, Kind, Method, Stop
from millpond.compiler.ir.jumps import successors
from millpond.compiler.obstacles import Bars


def check_merge(method: Method) -> None:
    """Refuse a method that does anything but merge with what each() gave."""
    stops = {stop.top: stop for stop in method.stops}
    merges: dict[int, list[Stop]] = {stop.top: [] for stop in method.stops if stop.kind is Kind.EACH}
    seen: set[tuple[int, int]] = set()
    waiting = [(0, -1)] if method.body else []
    while waiting:
        top, asked = waiting.pop()
        if (top, asked) in seen:
            continue
        seen.add((top, asked))
        stop = stops.get(top)
        if stop is not None:
            _check_stop(method, stop, stops.get(asked))
            if stop.kind is Kind.MERGE:
                merges[asked].append(stop)
            asked = top if stop.kind is Kind.EACH else -1
        after = successors(method.body, top)
        if asked >= 0 and not after and not isinstance(method.body[top], ast.Raise):
            raise _never_merged(method, stops[asked])
        waiting += [(following, asked) for following in after]
    for top, found in merges.items():
        _check_uses(method, stops[top], found)


def _check_stop(method: Method, stop: Stop, asked: Stop | None) -> None:
    if stop.kind is Kind.MERGE:
        if asked is None or asked.value != stop.value:
            raise refuse(
                "MP144",
                "merged() is not given what each() returned",
                method.source,
                stop.node,
                expected="merged(values, function) after values = each(self.state).method(...)",
            )
    elif asked is not None:
        raise bar(
            Bars.SIGHT,
            "MP145",
            "state is touched between each() and merged()",
            method.source,
            stop.node,
            expected=f"merged({asked.value}, ...) first",
            hint="merge the answers of all instances before the next access",
            also=[method.source.place(asked.node)],
        )


def _never_merged(method: Method, asked: Stop) -> Exception:
    _check_uses(method, asked, [])
    return refuse(
        "MP146",
        "what each() returned is never merged",
        method.source,
        asked.node,
        expected=f"merged({asked.value}, function)",
        hint="each() gives one value per instance; say how they become one",
    )


def _check_uses(method: Method, asked: Stop, merges: list[Stop]) -> None:
    reaching = method.reaching
    given = Definition(asked.value, reaching.heads[asked.top])
    allowed = [merge.node.args[0] for merge in merges if isinstance(merge.node, ast.Call)]
    for point, before in zip(reaching.points, reaching.before, strict=True):
        if asked.value not in point.reads or given not in before.get(asked.value, ()):
            continue
        for node in ast.walk(point.node):
            named = isinstance(node, ast.Name) and node.id == asked.value and isinstance(node.ctx, ast.Load)
            if named and not any(node is one for one in allowed):
                raise refuse(
                    "MP142",
                    "what each() returned is used before it is merged",
                    method.source,
                    node,
                    expected=f"merged({asked.value}, function)",
                    hint="it has one value per instance; merge them, then use the result",
                    also=[method.source.place(asked.node)],
                )
