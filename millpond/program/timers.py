"""Handlers of timers: methods that are called with a key at a moment that the program chose.

`@on_timer` above a method makes the method's name the timers of that handler. Timers are state: they are checkpointed,
moved and cancelled by key like any other entry.

>>> from millpond import Program, entry
>>> class Reminders(Program):
...     @on_timer
...     def remind(self, user: str, at: datetime.datetime) -> str:
...         return f"{user}: it is time"
...
...     @entry
...     def ask(self, user: str) -> None:
...         self.remind.set(user, self.now + datetime.timedelta(minutes=5))
>>> nine, plain = datetime.datetime(2024, 5, 1, 9, tzinfo=datetime.UTC), Reminders()
>>> with epoch_time(nine):
...     plain.ask("ann")
>>> [fired.reply for fired in fire_timers(plain, nine + datetime.timedelta(hours=1))]
['ann: it is time']
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar, cast

from millpond.errors import ProgramError
from millpond.program.declare import Distribution, Element
from millpond.program.entries import HANDLER, MARK, RELAXED, EntryPoint, handler_entry
from millpond.program.feeding import handler_orders
from millpond.program.program import ProgramBase
from millpond.program.semantics.ambient import names_in, now_of
from millpond.program.semantics.epoch_time import FireUntil, epoch_time, event_time, firing_until, moment_of, us_of
from millpond.program.semantics.reach import members_of
from millpond.program.semantics.rows import ABORT, as_row
from millpond.state.cascade import Cascade, Timer, Turn
from millpond.state.containers.map import Map
from millpond.state.expiry import Expiring
from millpond.state.timers import DUE, LAST_US, Timers, TimersType

K = TypeVar("K")

_FIRED: Final = "_millpond_fired"
"""What a plain program remembers: the time up to which its handlers were called."""


class TimerElement(Element):
    """The timers of a handler, as a state element of the program that has it."""

    lateness_us: int | None = None
    """How long windows wait for late rows; None for timers."""

    untimed = False
    """Whether some of them end with a row and not at a time."""

    goes_on = False
    """Whether timers that are set at the end of time still fire, in epoch after epoch."""

    corrects = False
    """Whether the handler itself puts right what it fed, when late rows correct its windows."""

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

    def in_program(self, program: type) -> Element:
        """Return the element as a program has it: in another one, its handler may feed other ones."""
        if program is self.owner:
            return self
        own = object.__new__(type(self))
        vars(own).update({name: value for name, value in vars(self).items() if name != "type"}, owner=program)
        return own

    def __getstate__(self) -> dict[str, Any]:
        # Workers call what the compiler made of the handler; the class need not travel for its timers.
        kept = {name: value for name, value in vars(self).items() if name not in (HANDLER, "handler", "owner")}
        return {**kept, "type": self.type}

    @cached_property
    def type(self) -> TimersType:  # type: ignore[override]
        """The type of the timers, by the key that the handler takes."""
        assert issubclass(self.owner, ProgramBase)
        key = handler_point(self.owner, self.name).parameters[0][1]
        return TimersType.by_key(key, handler_orders(self.owner)[self.name].place)

    def stored(self) -> dict[str, Element]:
        """Return the timers by key, and what orders them."""
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


def going_on(timers: Timers[K]) -> None:
    """Let timers that their handler sets at the end of time fire, too: it sets them until its work is done."""
    element: Any = timers
    element.goes_on = True


def interleaved(timers: Timers[K]) -> None:
    """Let a handler visit keys in any order and number, as `@entry(relaxed=True)` does: others come in between."""
    element: Any = timers
    setattr(element.handler, RELAXED, True)


def handler_point(program: type[ProgramBase], name: str) -> EntryPoint:
    """Return the handler of some timers, checked."""
    # Read by itself, since an entry point that can't be read must not hide what is wrong here.
    point = handler_entry(program, name, getattr(members_of(program)[name], HANDLER))
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
    members, waiting, seen = members_of(program), list(names_in(handler)), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            member = members.get(name)
            # No handler calls an entry point: an `add` that aborts is not that of windows.
            waiting += () if isinstance(member, Element) or hasattr(member, MARK) else names_in(member)
    return ABORT in seen


def timer_elements(program: type[ProgramBase]) -> dict[str, TimerElement]:
    """Return the timers of a program by the name of their handler, in the order of their definition."""
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

    They fire in the order of their moments, then of the handlers' definition, then of their keys; what handlers feed
    comes behind them. Which ones they are is settled first: a timer that its own handler sets waits for the next time.
    With event time, those up to the watermark are due, and `self.now` in a handler is the moment of its timer, but not
    before the horizon of the epoch.
    """
    kind = type(program)
    now = us_of(now_of(program) if watermark is None else watermark)
    for name, element in kind.elements().items():
        if element.ttl is not None:
            _settle(vars(program)[name])
    timers = timer_elements(kind)
    cascade = Cascade({name: element.type for name, element in timers.items()})
    named = list(timers.items())
    before = vars(program).get(_FIRED)
    fired: list[Fired] = []
    turn = Turn()
    while (found := cascade.next_round(_due(program, named, now), turn, ends=now >= LAST_US)) is not None:
        turn = found.turn
        for at, number, key in found.timers:
            name, element = named[number]
            own = at if horizon is None else max(at, us_of(horizon))
            with (
                firing_until(FireUntil(now, before, found.once)),
                epoch_time(now) if watermark is None else event_time(own),
            ):
                moment = moment_of(element.type.fires_at(at, now))
                reply = as_row(name, _taking(name, element.handler))(program, key, moment)
            if reply is not _Over.NOTHING:
                fired.append(Fired(name, key, moment, reply))
    vars(program)[_FIRED] = now
    if now >= LAST_US and any(element.goes_on and vars(program)[name].due(now) for name, element in named):
        return fired + _fire_on(program, named, now, horizon)
    return fired


def _fire_on(
    program: ProgramBase, timers: list[tuple[str, TimerElement]], now: int, horizon: datetime.datetime | None
) -> list[Fired]:
    """Fire the timers that go on after the end of time, in as many turns as it takes."""
    fired: list[Fired] = []
    going = {number for number, (_, element) in enumerate(timers) if element.goes_on}
    while due := sorted(one for one in _due(program, timers, now) if one[1] in going):
        for at, number, key in due:
            name, element = timers[number]
            own = at if horizon is None else max(at, us_of(horizon))
            with firing_until(FireUntil(now, now, None)), event_time(own):
                reply = as_row(name, _taking(name, element.handler))(program, key, moment_of(at))
            fired.append(Fired(name, key, moment_of(at), reply))
    return fired


def _due(program: ProgramBase, timers: list[tuple[str, TimerElement]], now: int) -> list[Timer]:
    return [
        (at, number, key)
        for number, (name, element) in enumerate(timers)
        for at, key in vars(program)[name].due(element.type.until_us(now))
    ]


class _Over(enum.Enum):
    """What is said of a key that has no window to tell."""

    NOTHING = 0


def _taking(name: str, handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return a handler as a method that takes its timer, or its windows, out of state first: all of it is one row."""

    def call(program: ProgramBase, key: Any, at: datetime.datetime) -> Any:
        closed = vars(program)[name].fired(key, at)
        if closed == []:
            return _Over.NOTHING
        return handler(program, key, at if closed is None else closed)

    return call


def _settle(container: Any) -> None:
    entries = container if isinstance(container, Expiring) else container._entries  # noqa: SLF001
    entries.settle()
