"""Tasks: the body cut where its step changes, with what each piece takes, leaves, and how it is reached.

Needs: Method.stops, reaching and live; Draft.levels.
Leaves: Method.pieces.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from millpond.compiler.access import THE_KEY, identity_of, routable
from millpond.compiler.diagnostics import refuse
from millpond.compiler.draft import UNBOUND, Access, Definition, Dispatch, Draft, Identity, Kind, Method, Piece, Stop
from millpond.compiler.split import starts_here


def dispatch(draft: Draft) -> Draft:
    """Cut every method into its tasks."""
    methods = tuple(replace(method, pieces=_Cutter(method, draft.levels).pieces()) for method in draft.methods)
    return replace(draft, methods=methods)


def locals_of(method: Method) -> frozenset[str]:
    """The variables of a method, those that the compiler made included."""
    bound = (point.binds for point in method.reaching.points)
    return frozenset(method.parameters).union(*bound) - {method.self_name}


@dataclass
class _Cut:
    start: int
    step: int
    stops: list[Stop] = field(default_factory=list)

    @property
    def dispatch(self) -> Dispatch:
        kinds = {stop.kind for stop in self.stops}
        if Kind.EACH in kinds:
            return Dispatch.ONE_TO_ALL
        if Kind.MERGE in kinds:
            return Dispatch.ALL_TO_ONE
        return Dispatch.BY_KEY if Kind.KEYED in kinds else Dispatch.ANY

    @property
    def identity(self) -> Identity | None:
        return next((stop.identity for stop in self.stops if stop.kind is Kind.KEYED), None)


class _Cutter:
    def __init__(self, method: Method, levels: Mapping[str, int]) -> None:
        self._method = method
        self._levels = levels

    def pieces(self) -> tuple[Piece, ...]:
        """Cut the method."""
        cuts = self._cuts()
        ends = [cut.start for cut in cuts[1:]] + [len(self._method.body)]
        keys = [self._key(number, cut) for number, cut in enumerate(cuts)]
        taken = [self._inputs(number, cut, keys[number]) for number, cut in enumerate(cuts)]
        left = [*taken[1:], ()]
        return tuple(
            Piece(
                name=f"{self._method.name}.{number}",
                step=cut.step,
                dispatch=cut.dispatch,
                key=keys[number],
                collects=cut.stops[0].value if cut.dispatch is Dispatch.ALL_TO_ONE else "",
                start=cut.start,
                end=ends[number],
                inputs=taken[number],
                outputs=left[number],
                accesses=_accesses(cut.stops),
                last=number == len(cuts) - 1,
                reason=self._reason(cuts[number - 1] if number else None, cut),
            )
            for number, cut in enumerate(cuts)
        )

    def _cuts(self) -> list[_Cut]:
        stops = self._method.stops
        cuts: list[_Cut] = []
        if not stops or self._step(stops[0]) > 0 or not starts_here(stops[0]):
            cuts.append(_Cut(0, 0))
        asked: Stop | None = None
        for stop in stops:
            if stop.kind is Kind.MERGE:
                assert asked is not None
                cuts.append(_Cut(asked.top + 1, self._step(asked) + 1))
            elif not cuts or cuts[-1].step != self._step(stop):
                cuts.append(_Cut(stop.top if cuts else 0, self._step(stop)))
            cuts[-1].stops.append(stop)
            asked = stop
        return cuts

    def _step(self, stop: Stop) -> int:
        return self._levels[stop.elements[0]]

    def _key(self, number: int, cut: _Cut) -> str:
        identity = cut.identity
        if identity is None or identity == THE_KEY:
            return ""
        if number == 0:
            return routable(identity)
        keyed = [stop for stop in self._method.stops if stop.identity == identity and stop.key]
        for name in dict.fromkeys([stop.key for stop in keyed] + list(self._method.parameters)):
            variable = ast.Name(name, ast.Load())
            known = name in self._method.reaching.at(cut.start)
            if known and identity_of(variable, cut.start, self._method) == identity:
                return name
        raise refuse(
            "MP139",
            "the variable that held this key has another value by now",
            self._method.source,
            keyed[0].node,
            expected="a variable that keeps the key until the last access under it",
            hint="give the new value a name of its own",
        )

    def _inputs(self, number: int, cut: _Cut, key: str) -> tuple[str, ...]:
        method = self._method
        if number == 0:
            return method.parameters
        carried = (method.live[cut.start] & locals_of(method)) | ({key} if key else set())
        for name in sorted(carried):
            if Definition(name, UNBOUND) in method.reaching.at(cut.start).get(name, ()):
                raise refuse(
                    "MP160",
                    f"`{name}` may have no value where the method is cut",
                    method.source,
                    method.body[cut.start],
                    expected=f"`{name}` assigned on every path to this statement",
                    found=f"a path that does not assign `{name}`",
                    hint=f"write `{name} = None` (or another first value) at the top of the method",
                )
        return tuple(sorted(carried))

    def _reason(self, before: _Cut | None, cut: _Cut) -> str:
        if before is None:
            return "the feed"
        if not before.stops and not starts_here(cut.stops[0]) and cut.dispatch is Dispatch.BY_KEY:
            return f"the key of self.{cut.stops[0].elements[0]} is computed first"
        match cut.dispatch:
            case Dispatch.ONE_TO_ALL:
                return f"each(self.{cut.stops[0].elements[0]}) asks all instances"
            case Dispatch.ALL_TO_ONE:
                return "merged() waits for all instances"
            case Dispatch.ANY:
                return f"self.{cut.stops[0].elements[0]} is met at step {cut.step}"
        touched = f"self.{cut.stops[0].elements[0]}"
        if before.dispatch is Dispatch.ALL_TO_ONE:
            return f"{touched} comes after merged()"
        if before.identity is not None and before.identity != cut.identity:
            return f"{touched} is under another key"
        return f"{touched} is met at step {cut.step}"


def _accesses(stops: list[Stop]) -> tuple[Access, ...]:
    found: dict[str, Access] = {}
    for access in (use.access for stop in stops for use in stop.uses):
        known = found.get(access.state)
        found[access.state] = access if known is None else replace(known, writes=known.writes or access.writes)
    return tuple(found.values())
