"""Which handlers of a program feed which, and where that puts each of them.

A handler of timers or windows that adds rows to windows, or sets timers, feeds these: what they are given follows from
it. Windows are emitted when all that feeds them is done. So handlers have stages, and one that waits for late rows
holds back all that it feeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from millpond.errors import WindowError
from millpond.program.entries import HANDLER, entry_points
from millpond.program.places import signature_place
from millpond.program.program import ProgramBase
from millpond.program.semantics.ambient import AMBIENT
from millpond.program.semantics.reach import Asked, asked_by
from millpond.state.cascade import Place

_ADD: Final = "add"
_SET: Final = "set"

Edges = Mapping[str, frozenset[str]]


class HandlerOrder(NamedTuple):
    """A handler's place; whether rows that entry points add come to its windows; whether these are emitted for good."""

    place: Place
    direct: bool
    final: bool


@dataclass(frozen=True)
class _Handler:
    """What it asks for; how long its windows wait for late rows, None for timers; if some end with a row.

    One that `corrects` puts right itself what it fed, when its windows are emitted again; one that `goes_on` fires
    after the end of time, too.
    """

    asked: Asked
    lateness_us: int | None
    untimed: bool
    corrects: bool
    goes_on: bool


_KNOWN: Final = WeakKeyDictionary[type, Mapping[str, HandlerOrder]]()


def handler_orders(program: type[ProgramBase]) -> Mapping[str, HandlerOrder]:
    """Return the place of each handler of a program among the others, by name."""
    known = _KNOWN.get(program)
    if known is None:
        known = _KNOWN[program] = _found(program)
    return known


def _found(program: type[ProgramBase]) -> Mapping[str, HandlerOrder]:
    elements: Mapping[str, Any] = program.elements()
    handlers = {
        name: _Handler(
            asked_by(program, element.handler),
            element.lateness_us,
            element.untimed,
            element.corrects,
            element.goes_on,
        )
        for name, element in elements.items()
        if hasattr(element, HANDLER)
    }
    fed = _fed(handlers)
    inner = _kept(handlers, fed)
    for name, handler in handlers.items():
        if handler.untimed and name in reached(inner, name):
            raise _endless(program, name, elements[name].handler)
    groups = _groups(handlers, elements, inner)
    levels = _levels(inner, groups)
    ranks = _levels(inner, {name: frozenset(_around(inner, name)) for name in inner})
    points = [point for point in entry_points(program).values() if not point.timer]
    by_rows = _late(handlers, fed, {name for point in points for name in asked_by(program, point.function).names})
    timed = {name for name, element in elements.items() if element.ttl is not None} | AMBIENT
    by_others = frozenset(other for name in fed for other in fed[name])
    timely = {
        name
        for name, handler in handlers.items()
        if fed[name] or handler.asked.names & timed or name in by_others or len(groups[name]) > 1
    }
    # Windows that end with a row wait until no other row of its time can come.
    waits = {name: _wait(handlers, fed, name) + (handlers[name].untimed and name in timely) for name in handlers}
    lags = _lags(inner, waits)
    found = {}
    for name, handler in handlers.items():
        cyclic = name in reached(inner, name)
        place = Place(
            stage=levels[name],
            rank=ranks[name],
            lag_us=lags[name],
            timely=name in timely,
            feeds=tuple(sorted(inner[name])),
            strict=cyclic or len(groups[name]) > 1,
            cyclic=cyclic,
            again=handler.lateness_us is None and name in reached(fed, name),
            go_on=handler.goes_on,
        )
        found[name] = HandlerOrder(place, name in by_rows, _is_final(handlers, fed, name))
    return found


def _late(handlers: Mapping[str, _Handler], fed: Edges, named: set[str]) -> set[str]:
    """Return what late rows come to: what entry points name, and what timers feed that these set."""
    found = {name for name in handlers if name in named}
    timers = {name for name in found if handlers[name].lateness_us is None}
    fresh = {other for name in timers for other in fed[name]} - found
    return _late(handlers, fed, found | fresh) if fresh else found


def _fed(handlers: Mapping[str, _Handler]) -> Edges:
    """Return the windows to which each handler may add rows, and the timers that it may set."""
    return {
        name: frozenset(
            other
            for other, one in handlers.items()
            if handler.asked.may(other, _SET if one.lateness_us is None else _ADD)
        )
        for name, handler in handlers.items()
    }


def _kept(handlers: Mapping[str, _Handler], fed: Edges) -> Edges:
    """Return what is called in the same turn as what feeds it.

    Timers that are set in a circle are not: they could be set again and again, and wait for the next epoch.
    """
    return {
        name: frozenset(
            other for other in fed[name] if handlers[other].lateness_us is not None or name not in reached(fed, other)
        )
        for name in fed
    }


def reached(edges: Edges, name: str) -> frozenset[str]:
    """Return all that is fed by a handler in the end."""
    found: set[str] = set()
    waiting = list(edges[name])
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += edges[one]
    return frozenset(found)


def _around(edges: Edges, name: str) -> set[str]:
    """Return the handlers that feed each other in a circle with one, and itself."""
    return {name, *(other for other in reached(edges, name) if name in reached(edges, other))}


def _groups(handlers: Mapping[str, _Handler], elements: Mapping[str, Any], inner: Edges) -> dict[str, frozenset[str]]:
    """Return the handlers that must be called in the order of moments: by each, those that are called with it.

    They feed each other in a circle; or they would be called in different rounds, and can tell in which order they are
    called: by state that both may meet, by windows to which both add, or since one moves the timers of the other.
    """
    edges = dict(inner)
    while True:
        groups = {name: frozenset(_around(edges, name)) for name in edges}
        levels = _levels(inner, groups)
        turns = {name: (levels[name], len(groups[name]) > 1 or name in reached(inner, name)) for name in handlers}
        apart = [
            (one, other)
            for one in handlers
            for other in handlers
            if turns[one] < turns[other] and _tell_apart(handlers, elements, inner, one, other)
        ]
        if not apart:
            return groups
        for one, other in apart:
            edges[one] |= {other}
            edges[other] |= {one}


def _tell_apart(
    handlers: Mapping[str, _Handler], elements: Mapping[str, Any], inner: Edges, one: str, other: str
) -> bool:
    if handlers[one].goes_on or handlers[other].goes_on:
        return False  # It takes all that is there, and puts it in order itself.
    state = {name for name, element in elements.items() if not hasattr(element, HANDLER)}
    if handlers[one].asked.names & handlers[other].asked.names & state or inner[one] & inner[other]:
        return True
    # Windows that it adds to do not show whether they were told; a timer that it sets anew does.
    return any(
        right in inner[left] and handlers[right].lateness_us is None for left, right in ((one, other), (other, one))
    )


def _levels(edges: Edges, groups: Mapping[str, frozenset[str]]) -> dict[str, int]:
    """Return how many groups come one after the other before each handler's own."""
    known: dict[frozenset[str], int] = {}

    def level(group: frozenset[str]) -> int:
        if group not in known:
            before = {groups[name] for name in edges if name not in group and edges[name] & group}
            known[group] = max((level(one) + 1 for one in before), default=0)
        return known[group]

    return {name: level(groups[name]) for name in edges}


def _lags(inner: Edges, waits: Mapping[str, int]) -> dict[str, int]:
    """Return how long after the watermark each is called: what feeds it waits, and so may it."""
    circles = {name: frozenset(_around(inner, name)) for name in inner}
    known: dict[frozenset[str], int] = {}

    def lag(circle: frozenset[str]) -> int:
        if circle not in known:
            before = {circles[name] for name in inner if name not in circle and inner[name] & circle}
            known[circle] = max((lag(one) for one in before), default=0) + max(waits[name] for name in circle)
        return known[circle]

    return {name: lag(circles[name]) for name in inner}


def _wait(handlers: Mapping[str, _Handler], fed: Edges, name: str) -> int:
    """Return how long the windows of a handler wait for late rows themselves."""
    return (handlers[name].lateness_us or 0) if _is_final(handlers, fed, name) else 0


def _is_final(handlers: Mapping[str, _Handler], fed: Edges, name: str) -> bool:
    """Return whether windows are emitted once, for good: what their handler adds or sets could not be taken back."""
    one = handlers[name]
    return one.lateness_us is not None and bool(fed[name]) and not one.corrects


def _endless(program: type, name: str, handler: Any) -> WindowError:
    return WindowError(
        "MP653",
        f"the windows of {program.__name__}.{name} would feed themselves, and they end with rows and not at a time",
        places=signature_place(handler),
        expected="a handler that adds to other windows, or windows over time",
        found=f"self.{name}.add(...), in what the handler of {name} calls",
        hint="a row that ends a window, whose handler adds a row that ends a window, would never come to an end",
    )
