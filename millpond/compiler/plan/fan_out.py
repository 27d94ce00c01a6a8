"""Loops whose turns do not depend on each other: all turns are sent away at once instead of one after the other.

Needs: Method.stops, loops, live, reaching and values.
Leaves: Method.fan_outs, inner loops first. A turn runs in place up to its first access; the rest of the turn travels.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace

from millpond.compiler.analysis.objs import Obj
from millpond.compiler.draft import Draft, FanOut, Kind, Method, as_written
from millpond.compiler.ir.jumps import Loop, reached, successors
from millpond.compiler.ir.model import Op
from millpond.compiler.plan.access import definitions_in
from millpond.program import Element


def find_fan_outs(draft: Draft) -> Draft:
    """Find the loops of every method that can be fanned out."""
    return draft.each(lambda method: replace(method, fan_outs=_Finder(method, draft.elements).fan_outs()))


def why_dependent(method: Method, loop: Loop, elements: Mapping[str, Element]) -> str:
    """Why the turns of a loop can't be sent away at once, for the user; "" if they can."""
    finder = _Finder(method, elements)
    return finder.obstacle(loop, finder.travelling(loop))


@dataclass
class _Finder:
    method: Method
    elements: Mapping[str, Element]

    def fan_outs(self) -> tuple[FanOut, ...]:
        """The loops that can be fanned out, inner ones first."""
        found: list[FanOut] = []
        for loop in self.method.loops:
            inner = frozenset[int]().union(*(fan.region for fan in found if fan.loop.head in loop))
            stops = frozenset(self.travelling(loop)) - inner
            if not stops or self._stays(loop, stops) or self.obstacle(loop, stops):
                continue
            fan = FanOut(loop, stops, reached(self.method.body, sorted(stops), loop.head))
            if not self.method.relaxed or self._keeps_order(fan):
                found.append(fan)
        return tuple(found)

    def travelling(self, loop: Loop) -> frozenset[int]:
        """The accesses of a loop that may need another place."""
        return frozenset(
            stop.top for stop in self.method.stops if stop.top in loop and stop.kind in (Kind.KEYED, Kind.EACH)
        )

    def _keeps_order(self, fan: FanOut) -> bool:
        """Whether turns sent away at once meet every element as they would one after the other.

        Exact methods have levels for that. In a relaxed one a turn must stay where it is sent, and the method itself
        must not go there afterwards: then a row by itself still does what plain Python does. The instance of partial
        state is met where the method is, without a move, so that others would see that before the turns.
        """
        onward = reached(self.method.body, [fan.loop.head]) - fan.region
        sent = [stop for stop in self.method.stops if stop.top in fan.region]
        later = [stop for stop in self.method.stops if stop.top in onward]
        own = {element for stop in later for element in stop.elements}
        places = {(stop.kind, stop.identity) for stop in sent if stop.kind is not Kind.LOCAL}
        if len(places) > 1 or any(stop.kind is Kind.LOCAL for stop in later):
            return False
        return not own & {element for stop in sent for element in stop.elements}

    def _stays(self, loop: Loop, stops: frozenset[int]) -> bool:
        """Whether all turns have the same key, so that the whole loop runs where it is."""
        chosen = [stop for stop in self.method.stops if stop.top in stops]
        made = {definitions_in(stop.identity) for stop in chosen}
        points = self.method.reaching.points
        fixed = not any(points[point].top in loop for one in made for point in one if point >= 0)
        return fixed and len({(stop.kind, stop.identity) for stop in chosen}) == 1 and chosen[0].kind is Kind.KEYED

    def obstacle(self, loop: Loop, stops: frozenset[int]) -> str:
        """What ties the turns of a loop together, or ""."""
        body = self.method.body
        if loop.head in stops:
            return "whether there is a next turn follows from state"
        region = reached(body, sorted(stops), loop.head)
        for top in region:
            if any(isinstance(node, ast.Return) for node in ast.walk(body[top])):
                return "a turn may return"
            after = successors(body, top)
            if any(other not in loop for other in after) or (not after and not isinstance(body[top], ast.Raise)):
                return "a turn may leave the loop"
        needed = self.method.live[loop.head]
        points = [point for point in self.method.reaching.points if point.top in region]
        bound = needed.intersection(*[frozenset[str]().union(*(point.binds for point in points))])
        if bound:
            return f"{_called(min(bound))} is carried from turn to turn"
        found = self.method.values.points
        used = found.reach({obj: sure for name in needed for obj, sure in found.of(name).items()})
        roots = {obj.root for obj in used}
        for name, changed in sorted(self._changed(region).items()):
            if name in needed or roots & {obj.root for obj in changed}:
                return f"{_called(name)} is changed by one turn and used by others"
        return ""

    def _changed(self, region: frozenset[int]) -> dict[str, list[Obj]]:
        """The variables whose objects a turn may change, each with these; state keeps its own order."""
        values = self.method.values
        found: dict[str, list[Obj]] = {}
        for obj, places in values.points.changed.items():
            for at in places:
                one = values.flat.instrs[at]
                if one.top in region and one.op is not Op.STATE:
                    names = (
                        values.flat.root(arg) for arg in one.args if obj in values.points.reach(values.points.of(arg))
                    )
                    found.setdefault(min(filter(None, names), default="gathered__"), []).append(obj)
        return found


def _called(name: str) -> str:
    return "what the comprehension gathers" if name.startswith("gathered__") else f"`{as_written(name)}`"
