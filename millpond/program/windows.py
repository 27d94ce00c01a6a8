"""Handlers of windows: methods that are called with a key and its windows that are over.

`@on_window(...)` above a method makes the method's name the windows of that handler. They are state, stored and found
as timers are: what a timer's moment is to it, the end of the next window is to a key of windows.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar, cast

from millpond.errors import WindowError
from millpond.lengths import Length, length_us
from millpond.program.entries import TAKES_WINDOWS
from millpond.program.feeding import handler_orders
from millpond.program.program import ProgramBase
from millpond.program.semantics.epoch_time import adding_us
from millpond.program.timers import TimerElement, handler_point
from millpond.state.expiry import Clock
from millpond.state.journal import Journal
from millpond.windowing.aggregates.aggregates import Aggregate, several
from millpond.windowing.element import ClosedWindow, WindowRules, Windows, WindowsType
from millpond.windowing.kinds.kinds import FIRST_TIME, LAST_TIME

K = TypeVar("K")

_NO_TIME = datetime.timedelta()


class WindowElement(TimerElement):
    """The windows of a handler, as a state element of the program that has it."""

    def __init__(self, handler: Callable[..., Any], rules: WindowRules) -> None:
        super().__init__(handler)
        self.rules = rules
        self.lateness_us = rules.lateness_us
        self.untimed = rules.untimed

    def __getstate__(self) -> dict[str, Any]:
        # The type has the rules.
        return {name: value for name, value in super().__getstate__().items() if name != "rules"}

    @cached_property
    def type(self) -> WindowsType:  # type: ignore[override]
        """The type of the windows, by the key that the handler takes."""
        assert issubclass(self.owner, ProgramBase)
        key = handler_point(self.owner, self.name).parameters[0][1]
        order = handler_orders(self.owner)[self.name]
        given = self.rules
        rules = WindowRules(given.windows, given.aggregate, given.lateness_us, final=True) if order.final else given
        return WindowsType.of(key, rules, order.place, order.direct)

    def plain(self, journal: Journal, clock: Clock, turn: Clock | None = None) -> Any:
        """Return the windows of a plain Python run, in which the clock tells the time of the row."""
        made = super().plain(journal, clock, turn)
        made.clock = lambda: adding_us(clock(), made.place)
        return made


def on_window(
    windows: Any, /, *, lateness: Length = _NO_TIME, **aggregates: Aggregate
) -> Callable[[Callable[[Any, K, list[ClosedWindow]], Any]], Windows[K]]:
    """Make a method the handler of windows: `def hourly(self, key, closed)` gets the windows of a key that are over.

    `windows` is one of `millpond.windowing`, or several by name. `self.hourly.add(key, column=value)` adds a row at the
    time of `self.now`, inside entry points and handlers. With `lateness`, windows are kept so long after their end, and
    emitted again if a row corrects them. A handler works by its key like an entry point, and what it returns is its
    reply. docs/WINDOWS.md says when it is called.
    """
    named = dict(windows) if isinstance(windows, Mapping) else {"": windows}
    if not named or not all(isinstance(name, str) and hasattr(one, "describe") for name, one in named.items()):
        raise _bad('a window such as tumbling("1 minute"), or several by name', repr(windows)[:80])
    if not aggregates or not all(isinstance(one, Aggregate) for one in aggregates.values()):
        raise _bad("at least one aggregate by name, such as many=count()", repr(aggregates)[:80])
    # No two moments lie farther apart: more is for ever, too.
    kept_us = min(length_us(lateness, "lateness", _bad), LAST_TIME - FIRST_TIME)
    rules = WindowRules(named, several(aggregates), kept_us)
    if kept_us and not rules.any_order:
        raise WindowError(
            "MP649",
            "these windows can't be corrected by late rows",
            expected="lateness= for windows over time and sessions, with aggregates that do not depend on order",
            found=rules.text[:200],
            hint="leave lateness= out, and give EventTime more disorder=: rows of feeds then wait for each other",
        )

    def make(handler: Callable[[Any, K, list[ClosedWindow]], Any]) -> Windows[K]:
        setattr(handler, TAKES_WINDOWS, True)
        return cast("Windows[K]", WindowElement(handler, rules))

    return make


def correcting(windows: Windows[K]) -> None:
    """Let windows be emitted again when late rows correct them, though their handler feeds others: it puts these right.

    Otherwise such windows wait for late rows, and are emitted once.
    """
    element: Any = windows
    element.corrects = True


def _bad(expected: str, found: str) -> WindowError:
    return WindowError(
        "MP647",
        "@on_window does not describe its windows",
        expected=expected,
        found=found,
        hint="see docs/WINDOWS.md, In programs",
    )
