"""Levels: the one step at which each element is met, so that every key sees its accesses in input order.

Needs: Draft.constraints.
Leaves: Draft.levels: the longest path to each element. A cycle that takes a step has no levels: it is an obstacle.
"""

from __future__ import annotations

from dataclasses import replace

from millpond.compiler.draft import Constraint, Draft
from millpond.compiler.obstacles import Bars, ObstacleError
from millpond.compiler.plan.split import AFTER_MERGE, TURNS


def stratify(draft: Draft) -> Draft:
    """Give every element its level, or say which entry points keep it from having one."""
    for constraint in draft.constraints:
        if constraint.source == constraint.target:
            return replace(draft, obstacles={constraint.entry: _visited_twice(constraint)})
    levels = dict.fromkeys(draft.elements, 0)
    raised_by: dict[str, Constraint] = {}
    last = None
    for _ in range(len(levels) + 1):
        last = _raise_levels(levels, raised_by, draft.constraints)
        if last is None:
            break
    if last is not None:
        cycle = _cycle(last, raised_by)
        return replace(draft, obstacles=dict.fromkeys((constraint.entry for constraint in cycle), _no_order(cycle)))
    return replace(draft, levels=levels)


def _raise_levels(
    levels: dict[str, int], raised_by: dict[str, Constraint], constraints: tuple[Constraint, ...]
) -> Constraint | None:
    """Raise every level to what its constraints ask; the last constraint that did, or None if all hold."""
    last = None
    for constraint in constraints:
        base = 0 if constraint.source is None else levels[constraint.source]
        if levels[constraint.target] < base + constraint.weight:
            levels[constraint.target] = base + constraint.weight
            raised_by[constraint.target] = last = constraint
    return last


def _cycle(last: Constraint, raised_by: dict[str, Constraint]) -> list[Constraint]:
    """Walk back along what raised the levels until an element comes again."""
    trail: list[Constraint] = []
    seen: list[str] = []
    at = last.target
    while at not in seen:
        seen.append(at)
        constraint = raised_by[at]
        trail.append(constraint)
        assert constraint.source is not None
        at = constraint.source
    return trail[seen.index(at) :][::-1]


def _visited_twice(constraint: Constraint) -> ObstacleError:
    if constraint.why == AFTER_MERGE:
        return ObstacleError(
            "MP152",
            f"{constraint.entry} touches self.{constraint.target} again after each() has read all instances",
            bars=Bars.ORDER,
            places=constraint.places,
            expected="one visit to an element in a method",
            found=constraint.why,
            hint="do what you need to do to it before each(), or in another entry point",
        )
    if constraint.why.startswith(TURNS):
        return ObstacleError(
            "MP155",
            f"{constraint.entry} visits self.{constraint.target} once for every turn of a loop",
            bars=Bars.ORDER,
            places=constraint.places,
            expected="turns that do not depend on each other, so that all can be sent to their keys at once",
            found=constraint.why,
            hint="do what ties the turns together before or after the loop, or mark the entry point "
            "@entry(relaxed=True)",
        )
    return ObstacleError(
        "MP150",
        f"{constraint.entry} visits self.{constraint.target} twice",
        bars=Bars.ORDER,
        places=constraint.places,
        expected="all accesses of a method to an element under one key",
        found=constraint.why,
        hint="give the key a name once and use it for both; if they are two keys, use two entry points, or give up "
        "exactness with @entry(relaxed=True)",
    )


def _no_order(cycle: list[Constraint]) -> ObstacleError:
    names = list(dict.fromkeys(f"self.{constraint.target}" for constraint in cycle))
    places = tuple(dict.fromkeys(place for constraint in cycle for place in constraint.places))
    told = "; ".join(
        f"{constraint.entry}: self.{constraint.source} before self.{constraint.target}" for constraint in cycle
    )
    return ObstacleError(
        "MP151",
        f"{' and '.join(names)} are visited in orders that disagree",
        bars=Bars.ORDER,
        places=places,
        expected="one order of the state elements that every method keeps",
        found=told,
        hint="swap the accesses in one of them, keep both under the same key so that no move lies between them, or "
        "give up exactness with @entry(relaxed=True)",
    )
