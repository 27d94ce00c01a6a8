"""Tasks: the body cut where its step changes, with what each piece takes, where it goes on, and how it is reached.

Needs: Method.stops, start, fan_outs, cfg, reaching and live; Draft.levels.
Leaves: Method.pieces, the first one first.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from millpond.compiler.analysis.liveness import live_until
from millpond.compiler.diagnostics import bar
from millpond.compiler.draft import (
    UNBOUND,
    Access,
    Definition,
    Dispatch,
    Draft,
    Exit,
    Identity,
    Kind,
    Method,
    Mode,
    Piece,
    Stop,
    as_written,
)
from millpond.compiler.ir.jumps import successors
from millpond.compiler.obstacles import Bars
from millpond.compiler.plan.access import THE_KEY, definitions_in, identity_of, routable
from millpond.program import Element


def dispatch(draft: Draft) -> Draft:
    """Cut every method into its tasks."""
    return draft.each(lambda method: replace(method, pieces=_Cutter(method, draft.levels, draft.elements).pieces()))


def locals_of(method: Method) -> frozenset[str]:
    """The variables of a method, those that the compiler made included."""
    bound = (point.binds for point in method.reaching.points)
    return frozenset(method.parameters).union(*bound) - {method.self_name}


@dataclass
class _Cut:
    """A piece that is being cut out; `before` is the piece that leads to it, None for the first."""

    start: int
    step: int
    before: _Cut | None
    ends: int
    asked: Stop | None = None
    tops: set[int] = field(default_factory=set)
    stops: list[Stop] = field(default_factory=list)
    onward: dict[int, tuple[_Cut, bool]] = field(default_factory=dict)
    checked: frozenset[int] = frozenset()
    position: Identity | None = None

    @property
    def dispatch(self) -> Dispatch:
        if self.asked is not None:
            return Dispatch.ALL_TO_ONE
        kinds = {stop.kind for stop in self.stops}
        if Kind.EACH in kinds:
            return Dispatch.ONE_TO_ALL
        return Dispatch.BY_KEY if Kind.KEYED in kinds else Dispatch.ANY

    @property
    def identity(self) -> Identity | None:
        return self.position or next((stop.identity for stop in self.stops if stop.kind is Kind.KEYED), None)


class _Cutter:
    def __init__(self, method: Method, levels: Mapping[str, int], elements: Mapping[str, Element]) -> None:
        self._method = method
        self._levels = levels
        self._elements = elements
        self._stops = {stop.top: stop for stop in method.stops}
        self._cuts: dict[int, _Cut] = {}

    def pieces(self) -> tuple[Piece, ...]:
        """Cut the method."""
        first = _Cut(0, 0, None, -1)
        waiting = [first]
        while waiting:
            cut = waiting.pop(0)
            self._fill(cut)
            if self._method.relaxed:
                self._check_keys(cut)
            for onward, _ in cut.onward.values():
                if onward is not cut and onward.start not in self._cuts:
                    self._cuts[onward.start] = onward
                    waiting.append(onward)
        later = sorted(self._cuts.values(), key=lambda cut: (cut.step, cut.start))
        numbers = {cut.start: number for number, cut in enumerate(later, start=1)}
        return tuple(self._piece(number, cut, numbers) for number, cut in enumerate((first, *later)))

    def _fill(self, cut: _Cut) -> None:
        """Find what runs in a piece, and where it goes on."""
        waiting = [cut.start] if self._method.body else []
        while waiting:
            top = waiting.pop()
            if top in cut.tops or top in cut.onward or top == cut.ends:
                continue
            stop = self._stops.get(top)
            begins = cut.before is not None and top == cut.start and not cut.tops
            fan = self._method.sent_from(top)
            sent = fan is not None and not begins and fan.loop.head != cut.ends
            if fan is not None and sent:
                cut.onward[top] = self._next(cut, top, fan.loop.head), True
                waiting.append(fan.loop.head)
                if not self._method.relaxed or stop is None or not self._is_here(cut, stop):
                    continue
            if stop is not None and not begins and not sent and not self._is_here(cut, stop):
                cut.onward[top] = self._next(cut, top, cut.ends), False
                continue
            cut.tops.add(top)
            if stop is not None:
                cut.stops.append(stop)
            if stop is not None and stop.kind is Kind.EACH:
                merge = _Cut(top + 1, cut.step + 1, cut, cut.ends, asked=stop)
                cut.onward[top + 1] = self._cuts.get(top + 1, merge), False
            else:
                waiting += successors(self._method.body, top)
        cut.stops.sort(key=lambda stop: stop.top)

    def _next(self, cut: _Cut, top: int, ends: int) -> _Cut:
        step = cut.step + 1 if self._method.relaxed else self._step(self._stops[top])
        return self._cuts.get(top) or _Cut(top, step, cut, ends)

    def _is_here(self, cut: _Cut, stop: Stop) -> bool:
        """Whether an access is made in a piece; in a relaxed method, whether it may be under the piece's key."""
        if stop.kind is Kind.MERGE:
            return True
        if not self._method.relaxed:
            return self._step(stop) == cut.step
        if stop.kind is Kind.EACH:
            return cut.before is None and stop is self._method.start
        if stop.kind is Kind.LOCAL:
            return True
        start = self._position(cut)
        return start is not None and (stop.identity == start.identity or self._key_type(stop) == self._key_type(start))

    def _position(self, cut: _Cut) -> Stop | None:
        """The access that brought a record of a relaxed method to a piece, and to its key."""
        start = self._stops.get(cut.start) if cut.before is not None else self._method.start
        return start if start is not None and start.kind is Kind.KEYED else None

    def _key_type(self, stop: Stop) -> object:
        keyed = (use.access.state for use in stop.uses if use.access.mode is Mode.KEYED)
        elements = [self._elements[name].type for name in keyed]
        return next((element.key_hint for element in elements if not element.single), THE_KEY)

    def _check_keys(self, cut: _Cut) -> None:
        """Find the accesses that are made here only if their key turns out to be the one that the record is at.

        A method that stays under its key is never cut apart, whatever the key is called, and be it by the first turns
        of a loop whose turns are sent away. Once some were, the rest follows them, so that nobody sees it before them.
        """
        start = self._position(cut)
        if start is None:
            return
        cut.position = start.identity
        known = self._known_keys(cut, start)
        checked = {stop.top for stop in cut.stops if stop.kind is Kind.KEYED and stop.identity not in known[stop.top]}
        for top in checked - cut.onward.keys():
            onward = cut if top == cut.start and cut.before is not None else self._next(cut, top, cut.ends)
            cut.onward[top] = onward, False
        cut.checked = frozenset(checked)

    def _known_keys(self, cut: _Cut, start: Stop) -> dict[int, frozenset[Identity | None]]:
        """The keys that are surely the one of the record when a statement of a piece begins, on every path to it."""
        points = self._method.reaching.points
        known: dict[int, frozenset[Identity | None]] = {}
        waiting: list[tuple[int, frozenset[Identity | None]]] = [(cut.start, frozenset((start.identity,)))]
        while waiting:
            top, keys = waiting.pop()
            fan = self._method.sent_from(top)
            if fan is not None and top in cut.onward:
                waiting.append((fan.loop.head, frozenset()))
                keys = frozenset()
            joined = keys & known.get(top, keys)
            if top not in cut.tops or joined == known.get(top):
                continue
            known[top] = joined
            stop = self._stops.get(top)
            if stop is not None and stop.kind is Kind.KEYED:
                joined |= {stop.identity}
            left = frozenset(
                key for key in joined if all(points[at].top != top for at in definitions_in(key) if at >= 0)
            )
            waiting += ((following, left) for following in successors(self._method.body, top) if following != cut.ends)
        return known

    def _step(self, stop: Stop) -> int:
        return self._levels[stop.elements[0]]

    def _piece(self, number: int, cut: _Cut, numbers: Mapping[int, int]) -> Piece:
        key = self._key(cut)
        inputs = self._inputs(cut, key)
        return Piece(
            name=f"{self._method.name}.{number}",
            step=cut.step,
            dispatch=Dispatch.GATHERED if self._method.gathered else cut.dispatch,
            key=key,
            collects=cut.asked.value if cut.asked is not None else "",
            start=cut.start,
            tops=tuple(sorted(cut.tops)),
            inputs=inputs,
            exits=tuple(
                Exit(top, numbers[onward.start], fan_out) for top, (onward, fan_out) in sorted(cut.onward.items())
            ),
            ends=cut.ends,
            accesses=_accesses(cut.stops),
            reason=self._reason(cut),
            loose=frozenset(name for name in inputs if cut.before is not None and self._is_loose(cut, name)),
            checked=cut.checked,
            routed="" if cut.identity == THE_KEY else routable(cut.identity) or None,
        )

    def _is_loose(self, cut: _Cut, name: str) -> bool:
        return Definition(name, UNBOUND) in self._method.reaching.at(cut.start).get(name, ())

    def _key(self, cut: _Cut) -> str:
        identity = cut.identity
        if identity is None or identity == THE_KEY:
            return ""
        if cut.before is None:
            return routable(identity)
        keyed = [stop for stop in self._method.stops if stop.identity == identity and stop.key]
        names = dict.fromkeys([stop.key for stop in keyed] + list(self._method.parameters))
        live = live_until(self._method, cut.start, cut.ends)
        for name in (name for name in names if name in live):
            variable = ast.Name(name, ast.Load())
            known = name in self._method.reaching.at(cut.start)
            if known and identity_of(variable, cut.start, self._method) == identity:
                return name
        raise bar(
            Bars.CUT,
            "MP139",
            "the variable that held this key has another value by now",
            self._method.source,
            keyed[0].node,
            expected="a variable that keeps the key until the last access under it",
            hint="give the new value a name of its own",
        )

    def _inputs(self, cut: _Cut, key: str) -> tuple[str, ...]:
        method = self._method
        if cut.before is None:
            return method.parameters
        live = live_until(method, cut.start, cut.ends)
        carried = (live & locals_of(method)) | ({key} if key else set())
        caught = {node.name for top in method.body for node in ast.walk(top) if isinstance(node, ast.ExceptHandler)}
        for name in sorted(carried & (caught | {key})):
            # Others travel without a value; these would have to be missing in ways that a message can't tell.
            if self._is_loose(cut, name):
                raise bar(
                    Bars.CUT,
                    "MP160",
                    f"`{as_written(name)}` may have no value where the method is cut",
                    method.source,
                    method.body[cut.start],
                    expected=f"`{as_written(name)}` assigned on every path to this statement",
                    found=f"a path that does not assign `{as_written(name)}`",
                    hint=f"write `{as_written(name)} = None` (or another first value) at the top of the method",
                )
        return tuple(sorted(carried))

    def _reason(self, cut: _Cut) -> str:
        if cut.before is None:
            return "the feed"
        if cut.asked is not None:
            return "merged() waits for all instances"
        first = self._stops[cut.start]
        touched = f"self.{first.elements[0]}"
        if cut.start in cut.before.onward and cut.before.onward[cut.start][1]:
            return f"every turn of the loop goes to its own key of {touched}"
        if first.kind is Kind.EACH:
            return f"each({touched}) asks all instances"
        if cut.before.asked is not None:
            return f"{touched} comes after merged()"
        if cut.dispatch is Dispatch.BY_KEY and cut.before.identity is not None:
            if cut.before.identity != cut.identity:
                return f"{touched} is under another key"
        elif cut.dispatch is Dispatch.BY_KEY and not cut.before.stops and self._method.start is None:
            return f"the key of {touched} is computed first"
        return f"{touched} is met at step {cut.step}"


def _accesses(stops: list[Stop]) -> tuple[Access, ...]:
    found: dict[str, Access] = {}
    for access in (use.access for stop in stops for use in stop.uses):
        known = found.get(access.state)
        found[access.state] = access if known is None else replace(known, writes=known.writes or access.writes)
    return tuple(found.values())
