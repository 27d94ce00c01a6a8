"""Where a method must move between its state accesses, as constraints on the steps of the elements.

Needs: Method.stops, fan_outs, reaching.
Leaves: Method.start, the access that the first step brings rows to, and Draft.constraints: how many steps at least lie
between two elements that a method visits one after the other, on any path.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from millpond.compiler.draft import Constraint, Draft, FanOut, Identity, Kind, Method, Mode, Stop
from millpond.compiler.ir.jumps import leading_to, reached, successors
from millpond.compiler.plan.access import THE_KEY, comes_as_key, definitions_in, routable
from millpond.compiler.plan.check_merge import check_merge
from millpond.compiler.plan.fan_out import why_dependent
from millpond.program import Element

SAME_PLACE = "the record is there already"
OTHER_KEY = "another key"
ALL_INSTANCES = "all instances are asked"
AFTER_MERGE = "all instances have answered"
COMPUTED_KEY = "the key is computed first"
START = "the start of the method"
TURNS = "the turns of the loop depend on each other"
EVERY_TURN = "every turn of the loop is sent to its own key"


def split(draft: Draft) -> Draft:
    """Find the moves of every method."""
    found: list[Constraint] = []

    def started(method: Method) -> Method:
        check_merge(method)
        begun = replace(method, start=_start(method, draft.elements))
        if not method.relaxed:
            found.extend(_constraints(begun, draft.elements))
        return begun

    return replace(draft.each(started), constraints=tuple(found))


@dataclass(frozen=True, slots=True)
class _Fact:
    """How a statement may be reached: the access before it, the key that the record is at, the loop whose turn it is.

    `sent` if it is reached by a message of its own.
    """

    last: int
    position: Identity | None
    turn: FanOut | None = None
    sent: bool = False


_NEVER_MOVED: Identity = ("start",)


def _facts(method: Method) -> dict[int, set[_Fact]]:
    """All ways in which each statement may be reached."""
    stops = {stop.top: stop for stop in method.stops}
    points: dict[int, set[int]] = {}
    for number, point in enumerate(method.reaching.points):
        points.setdefault(point.top, set()).add(number)
    entering: dict[int, set[_Fact]] = {}
    waiting = [(0, _Fact(-1, _NEVER_MOVED))] if method.body else []
    while waiting:
        top, fact = waiting.pop()
        if fact in entering.setdefault(top, set()):
            continue
        entering[top].add(fact)
        left = _after(fact, stops.get(top), top)
        if definitions_in(left.position) & points.get(top, set()):
            # The variable of the key has another value from here on.
            left = replace(left, position=None)
        for following in successors(method.body, top):
            waiting += _arrivals(method, following, left)
    return entering


def _after(fact: _Fact, stop: Stop | None, top: int) -> _Fact:
    if stop is None:
        return replace(fact, sent=False)
    if stop.kind is Kind.MERGE:
        return replace(fact, position=None, sent=False)
    position = {Kind.KEYED: stop.identity, Kind.LOCAL: fact.position}.get(stop.kind)
    return _Fact(top, position, fact.turn)


def _arrivals(method: Method, top: int, fact: _Fact) -> Iterator[tuple[int, _Fact]]:
    """How a statement is reached from one before it; an access that a loop sends away is passed over."""
    if fact.turn is not None and top == fact.turn.loop.head:
        return
    fan = method.sent_from(top)
    if fan is None or fan == fact.turn:
        yield top, fact
        return
    yield top, replace(fact, turn=fan, sent=True)
    yield from _arrivals(method, fan.loop.head, fact)


def _start(method: Method, elements: Mapping[str, Element]) -> Stop | None:
    """The access that rows can be brought to straight away, if it is the first on every path that has one."""
    entering = _facts(method)
    stops = [stop for stop in method.stops if any(fact.last < 0 for fact in entering.get(stop.top, ()))]
    firsts = [stop for stop in stops if stop.kind is not Kind.LOCAL]
    if not firsts or len({(stop.kind, stop.identity) for stop in firsts}) > 1:
        return None
    if not all(_starts_here(method, stop, elements) for stop in firsts):
        return None
    sent = any(fact.sent for stop in firsts for fact in entering[stop.top])
    return None if sent or len(firsts) < len(stops) else firsts[0]


def _starts_here(method: Method, stop: Stop, elements: Mapping[str, Element]) -> bool:
    if stop.kind is Kind.KEYED:
        names = routable(stop.identity)
        return stop.identity == THE_KEY or (
            bool(names) and all(comes_as_key(method, names, elements[name]) for name in _keyed_elements(stop))
        )
    return stop.kind is Kind.EACH and stop.top == 0


def _keyed_elements(stop: Stop) -> list[str]:
    return [use.access.state for use in stop.uses if use.access.mode is Mode.KEYED]


def _weigh(method: Method, before: Stop | None, stop: Stop, fact: _Fact) -> tuple[int, str]:
    """How many steps lie before an access, and why."""
    if fact.sent:
        return 1 + (before is not None and before.kind is Kind.EACH), EVERY_TURN
    if before is None:
        here = stop.kind is Kind.LOCAL or method.start is not None
        return (0, START) if here else (1, COMPUTED_KEY)
    if before.kind is Kind.EACH:
        return 2, AFTER_MERGE
    if stop.kind is Kind.EACH:
        return 1, ALL_INSTANCES
    moved = stop.kind is Kind.KEYED and stop.identity != fact.position
    return (1, OTHER_KEY) if moved else (0, SAME_PLACE)


def _constraints(method: Method, elements: Mapping[str, Element]) -> Iterator[Constraint]:
    place = method.source.place
    stops = {stop.top: stop for stop in method.stops if stop.kind is not Kind.MERGE}
    entering = _facts(method)
    for top, stop in stops.items():
        for fact in sorted(entering.get(top, ()), key=lambda fact: (fact.last, fact.sent)):
            before = stops.get(fact.last)
            position = fact.position
            if position == _NEVER_MOVED and method.start is not None:
                position = method.start.identity
            weight, why = _weigh(method, before, stop, replace(fact, position=position))
            places = (place(stop.node),) if before is None else (place(before.node), place(stop.node))
            sources: tuple[str | None, ...] = (None,) if before is None else before.elements
            for source, target in itertools.product(sources, stop.elements):
                if source == target and weight and not fact.sent:
                    why = _loop_reason(method, fact.last, top, elements) or why
                if source != target or weight:
                    yield Constraint(source, target, weight, method.name, places, why)
        # A statement is never cut, so all that it touches is met at one step.
        for source, target in itertools.permutations(stop.elements, 2):
            yield Constraint(source, target, 0, method.name, (place(stop.node),), SAME_PLACE)
    for fan in method.fan_outs:
        yield from _kept_apart(method, fan)


def _same_sender(method: Method, fan: FanOut, stop: Stop) -> bool:
    """Whether another loop sends an access away from the same task: its turns are counted on, and keep their order."""
    away = frozenset[int]().union(*(other.region for other in method.fan_outs))
    senders = [other.loop.head for other in method.fan_outs if stop.top in other.region]
    if not senders:
        return False
    onward = reached(method.body, [fan.loop.head])
    between = {top for head in senders for top in leading_to(method.body, head)} & onward
    return not any(own.top in between and own.top not in away for own in method.stops)


def _loop_reason(method: Method, before: int, top: int, elements: Mapping[str, Element]) -> str:
    """Why two accesses to an element are not sent away by the loop that both are in; "" if none is."""
    loop = next((loop for loop in method.loops if before in loop and top in loop), None)
    why = "" if loop is None else why_dependent(method, loop, elements)
    return f"{TURNS}: {why}" if why else ""


def _kept_apart(method: Method, fan: FanOut) -> Iterator[Constraint]:
    """What a loop sends away must not meet the elements that the method itself visits from there on."""
    place = method.source.place
    onward = reached(method.body, [fan.loop.head]) - fan.region
    sent = [stop for stop in method.stops if stop.top in fan.region]
    own = [stop for stop in method.stops if stop.top in onward]
    for one, other in itertools.product(sent, own):
        if _same_sender(method, fan, other):
            continue
        for element in set(one.elements) & set(other.elements):
            places = (place(one.node), place(other.node))
            yield Constraint(element, element, 1, method.name, places, EVERY_TURN)
