"""What relaxed entry points may give: every order of the source that changes rows at moves alone.

A row runs as the plain method that it is, until it is about to touch another key than the one it is at. Only there may
others come in between. `allowed` looks at all such orders, from the source alone: nothing of the compiler, and none of
its tasks, takes part in it. A row is brought back to where it paused by running it again over what it had read.
"""

from __future__ import annotations

import copy
import inspect
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from millpond.program import ProgramBase

Row = tuple[str, tuple[Any, ...]]

ORDERS_MAX = 60_000
"""More situations than these are too many to look at; a test then takes fewer rows."""

_SINGLE = object()


class TooManyError(Exception):
    """There are more situations than can be looked at."""


class _Paused(BaseException):
    """The row is about to move; no handler of its method catches this."""


class _Ride:
    """One row, from its start through what it has read before, then over the state up to its next move."""

    def __init__(self, log: tuple[Any, ...]) -> None:
        self._log = log
        self._given = 0
        self._place: object = None
        self.fresh: list[Any] = []

    def touch(self, key: Any, act: Callable[[], Any]) -> Any:
        """Touch a key, or stop before it."""
        if self._given < len(self._log):
            self._given += 1
            return copy.deepcopy(self._log[self._given - 1])
        place = (type(key), key)
        if self.fresh and place != self._place:
            raise _Paused
        self._place = place
        found = act()
        self.fresh.append(copy.deepcopy(found))
        return found


@dataclass(frozen=True)
class _Element:
    """An element as a method meets it: each operation touches a key."""

    container: Any
    kind: Any
    ride: _Ride

    def _key(self, *args: Any) -> Any:
        if self.kind.single:
            return _SINGLE
        cell = self.kind.by and isinstance(args[0], tuple)
        return args[0][self.kind.by == "column"] if cell else args[0]

    def __getitem__(self, key: Any) -> Any:
        return self.ride.touch(self._key(key), lambda: self.container[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        def act() -> None:
            self.container[key] = value

        self.ride.touch(self._key(key), act)

    def __delitem__(self, key: Any) -> None:
        def act() -> None:
            del self.container[key]

        self.ride.touch(self._key(key), act)

    def __contains__(self, key: Any) -> bool:
        return bool(self.ride.touch(self._key(key), lambda: key in self.container))

    def __len__(self) -> int:
        return int(self.ride.touch(_SINGLE, lambda: len(self.container)))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def operation(*args: Any) -> Any:
            return self.ride.touch(self._key(*args), lambda: getattr(self.container, name)(*args))

        return operation


class _Self:
    """What a method calls `self`: elements that pause, and all else as the class has it."""

    def __init__(self, program: type[ProgramBase], elements: dict[str, Any]) -> None:
        self._program = program
        self._elements = elements

    def __getattr__(self, name: str) -> Any:
        if name in self._elements:
            return self._elements[name]
        member = inspect.unwrap(getattr(self._program, name))
        return types.MethodType(member, self) if isinstance(member, types.FunctionType) else member


@dataclass(frozen=True)
class _Situation:
    """Where all rows are: what each has read so far, its reply if it is done, and the state."""

    entries: dict[str, dict[Any, Any]]
    logs: tuple[tuple[Any, ...], ...]
    replies: tuple[tuple[Any, ...], ...]

    def seen_as(self) -> str:
        held = {name: sorted(map(repr, entries.items())) for name, entries in self.entries.items()}
        return repr((held, self.logs, self.replies))


def shown(replies: Sequence[Any], entries: dict[str, dict[Any, Any]]) -> str:
    """A result as text: the replies of all rows, and the state that they leave."""
    held = {name: sorted((repr(key), _text(value)) for key, value in entries[name].items()) for name in sorted(entries)}
    return repr((list(replies), held))


def _text(value: Any) -> str:
    return repr(sorted(value.items())) if isinstance(value, dict) else repr(value)


class Relaxed:
    """All results that the rows of one epoch may give."""

    def __init__(self, program: type[ProgramBase], rows: Sequence[Row]) -> None:
        self._program = program
        self._types = {name: element.type for name, element in program.elements().items()}
        self._rows = rows

    def allowed(self) -> set[str]:
        """The replies of the rows, followed by the state, for each order."""
        first = _Situation({name: {} for name in self._types}, ((),) * len(self._rows), ((),) * len(self._rows))
        waiting, seen, results = [first], {first.seen_as()}, set()
        while waiting:
            here = waiting.pop()
            open_rows = [number for number, reply in enumerate(here.replies) if not reply]
            if not open_rows:
                results.add(shown([reply for (reply,) in here.replies], here.entries))
            for number in open_rows:
                after = self._advance(here, number)
                if after.seen_as() not in seen:
                    seen.add(after.seen_as())
                    waiting.append(after)
            if len(seen) > ORDERS_MAX:
                raise TooManyError
        return results

    def _advance(self, here: _Situation, number: int) -> _Situation:
        """Let one row go up to its next move, or its end."""
        ride = _Ride(here.logs[number])
        held = {name: copy.deepcopy(entries) for name, entries in here.entries.items()}
        wrapped: dict[str, Any] = {}
        stores: dict[str, Any] = {}
        for name, kind in self._types.items():
            stores[name] = kind.bare()
            dict.update(stores[name], held[name])
            wrapped[name] = _Element(kind.wrap(stores[name]), kind, ride)
        entry, args = self._rows[number]
        reply: tuple[Any, ...] = ()
        try:
            method = inspect.unwrap(getattr(self._program, entry))
            reply = (method(_Self(self._program, wrapped), *copy.deepcopy(args)),)
        except _Paused:
            pass
        logs, replies = list(here.logs), list(here.replies)
        logs[number] = () if reply else here.logs[number] + tuple(ride.fresh)
        replies[number] = reply
        return _Situation({name: dict(store.items()) for name, store in stores.items()}, tuple(logs), tuple(replies))
