"""Handlers of timers: methods that are called with a key at a moment that the program chose.

`@on_timer` above a method makes the method's name the timers of that handler. Timers are state: they are checkpointed,
moved and cancelled by key like any other entry.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, cast

from millpond.errors import ProgramError
from millpond.program.ambient import as_row, names_in, now_of
from millpond.program.declare import Distribution, Element
from millpond.program.entries import HANDLER, EntryPoint, handler_entry
from millpond.program.epoch_time import epoch_time, event_time, moment_of, told_until, us_of
from millpond.program.program import ProgramBase
from millpond.program.undo import ABORT
from millpond.state.expiry import Expiring
from millpond.state.map import Map
from millpond.state.timers import DUE, Timers, TimersType

K = TypeVar("K")


class TimerElement(Element):
    """The timers of a handler, as a state element of the program that has it."""

    def __init__(self, handler: Callable[..., Any]) -> None:
        super().__init__(Map[int, int], Distribution.PARTITIONED, None)
        # Hints may name what comes later in the module, so they are read when the type is asked for.
        del self.type
        setattr(self, HANDLER, handler)
        self.handler = handler
        self.owner: type = object

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)
        self.owner = owner

    def __getstate__(self) -> dict[str, Any]:
        # Workers call what the compiler made of the handler; the class need not travel for its timers.
        kept = {name: value for name, value in vars(self).items() if name not in (HANDLER, "handler", "owner")}
        return {**kept, "type": self.type}

    @cached_property
    def type(self) -> TimersType:  # type: ignore[override]
        """The type of the timers, by the key that the handler takes."""
        assert issubclass(self.owner, ProgramBase)
        return TimersType.by_key(handler_point(self.owner, self.name).parameters[0][1])

    def stored(self) -> dict[str, Element]:
        """The timers by key, and what orders them."""
        # As exact as the timers: without its order, a timer that is there would never fire.
        due = Element(Map[int, int], Distribution.PARTITIONED, None, durability="exactly_once")
        due.name = self.name + DUE
        due.type = self.type.due
        return {self.name: self, due.name: due}


def on_timer(handler: Callable[[Any, K, datetime.datetime], Any]) -> Timers[K]:
    """Make a method the handler of timers: `def expired(self, key, at)` is called when a timer is due.

    `self.expired.set(key, at)` and `self.expired.cancel(key)` set and cancel them inside entry points and handlers. A
    handler works by its key like an entry point, and what it returns is its reply. docs/TIME.md says when it is called.
    """
    return cast("Timers[K]", TimerElement(handler))


def handler_point(program: type[ProgramBase], name: str) -> EntryPoint:
    """The handler of some timers, checked."""
    # Read by itself, since an entry point that can't be read must not hide what is wrong here.
    point = handler_entry(program, name, getattr(vars_of(program)[name], HANDLER))
    parameters = point.parameters
    if len(parameters) != 2 or parameters[1][1] is not datetime.datetime:
        raise ProgramError(
            "MP184",
            f"{program.__name__}.{name} can't be called by a timer",
            expected=f"def {name}(self, key: ..., at: datetime)",
            found=f"({', '.join(f'{column}: {hint}' for column, hint in parameters)})"[:120],
            hint="a timer has a key and a moment; whatever else the handler needs is in state",
        )
    if _may_abort(program, point.function):
        raise ProgramError(
            "MP188",
            f"{program.__name__}.{name} may abort, and a timer can't be refused",
            expected="a handler that decides by itself what to do",
            found=f"self.{ABORT}(...)",
            hint="return a value that says what happened instead",
        )
    return point


def _may_abort(program: type, handler: Callable[..., Any]) -> bool:
    waiting, seen = list(names_in(handler)), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            member = vars_of(program).get(name)
            waiting += () if isinstance(member, Element) else names_in(member)
    return ABORT in seen


def vars_of(program: type) -> dict[str, Any]:
    """All members of a class, inherited ones included."""
    return {name: member for base in reversed(program.__mro__) for name, member in vars(base).items()}


def timer_elements(program: type[ProgramBase]) -> dict[str, TimerElement]:
    """The timers of a program by the name of their handler, in the order of their definition."""
    found = program.elements().items()
    return {name: element for name, element in found if isinstance(element, TimerElement)}


class Fired(NamedTuple):
    """A timer that fired, and what its handler replied."""

    handler: str
    key: Any
    at: datetime.datetime
    reply: Any


def fire_timers(
    program: ProgramBase, watermark: datetime.datetime | None = None, *, horizon: datetime.datetime | None = None
) -> list[Fired]:
    """Let a plain program call the handlers of all timers that are due at its time, as the end of an epoch does.

    Which ones they are is settled first: a timer that a handler sets waits for the next time. They fire in the order of
    their moments, then of the handlers' definition, then of their keys. With event time, those up to the watermark are
    due, and `self.now` in a handler is the moment of its timer, but not before the horizon of the epoch.
    """
    kind = type(program)
    now = now_of(program) if watermark is None else watermark
    for name, element in kind.elements().items():
        if element.ttl is not None:
            _settle(vars(program)[name])
    timers = timer_elements(kind)
    due = [
        (at, number, key, name) for number, name in enumerate(timers) for at, key in vars(program)[name].due(us_of(now))
    ]
    fired = []
    for at, _, key, name in sorted(due):
        moment = moment_of(at)
        own = moment if horizon is None else max(moment, horizon)
        with told_until(us_of(now)), epoch_time(now) if watermark is None else event_time(own):
            told = moment_of(timers[name].type.told_at(at, us_of(now)))
            closed = vars(program)[name].fired(key, told)
            if closed == []:
                continue
            reply = as_row(name, _called(timers[name].handler, closed))(program, key, told)
        fired.append(Fired(name, key, told, reply))
    return fired


def _called(handler: Callable[..., Any], closed: Any) -> Callable[..., Any]:
    """A handler as a method of its key and a moment: one that is told windows is given them instead."""
    return handler if closed is None else lambda program, key, at: handler(program, key, closed)  # noqa: ARG005


def _settle(container: Any) -> None:
    entries = container if isinstance(container, Expiring) else container._entries  # noqa: SLF001
    entries.settle()
