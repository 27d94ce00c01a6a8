"""Rows in plain Python: each outermost call of an entry point or handler is one.

A row has its time and its random numbers. It gets copies of what it is called with, and its caller a copy of what it
returns. If it raises, all that it changed is undone; if not, all that it touched becomes values when it ends.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, Final, NoReturn, cast

from millpond.errors import Aborted, StateError
from millpond.program.semantics.ambient import ROW, WRITTEN, Row
from millpond.state.codec.shown import ascii_surrogates
from millpond.state.copying import copied
from millpond.state.journal import Journal

ABORT: Final = "abort"
"""What a program calls to refuse a row."""

JOURNAL: Final = "_millpond_journal"
"""The attribute of an instance that notes what the row at work has touched."""


def abort(reason: str) -> NoReturn:
    """Refuse the row that is being worked on."""
    if not isinstance(reason, str):
        raise TypeError(f"self.abort() takes the reason as text, not {type(reason).__name__}")
    if ascii_surrogates(reason) != reason:
        raise ValueError("self.abort() takes the reason as text, and lone surrogates are none")
    raise Aborted(reason)


def wrap_entries(program: type, mark: str) -> None:
    """Make each call of an entry point a row, and let each call of a helper have defaults of its own."""
    for name in {name for base in program.__mro__ for name in vars(base)}:
        member = inspect.getattr_static(program, name)
        function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        if not isinstance(function, types.FunctionType) or hasattr(function, WRITTEN):
            continue
        if member is function and getattr(member, mark, False):
            setattr(program, name, as_row(name, member))
        elif (called := with_own_defaults(function)) is not function:
            setattr(program, name, called if member is function else type(member)(called))


def with_own_defaults(function: types.FunctionType) -> types.FunctionType:
    """Return a function whose calls get copies of the defaults that they leave out, if any can be changed."""
    signature = inspect.signature(function)
    defaults = {name: one.default for name, one in signature.parameters.items() if one.default is not one.empty}
    defaults = {name: default for name, default in defaults.items() if _is_changeable(default)}
    if not defaults:
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        missing = defaults.keys() - given.arguments.keys()
        given.arguments.update((name, copied(defaults[name])) for name in missing)
        return function(*given.args, **given.kwargs)

    setattr(call, WRITTEN, function)
    return cast("types.FunctionType", call)


def _is_changeable(default: Any) -> bool:
    """Return whether calls would notice that a default is one object; one that can't be copied stays so."""
    try:
        return not isinstance(default, frozenset) and copied(default) is not default
    except StateError:
        return False


def _all_of(function: Any) -> Callable[..., Any]:
    """Return a method that gives all that another one yields, at the call."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return list(function(*args, **kwargs))

    return call


def _replying(call: Callable[..., Any], function: Any) -> Callable[..., Any]:
    setattr(call, WRITTEN, function)
    return call


def as_row(name: str, function: Any) -> Callable[..., Any]:
    """Return a method whose calls are rows; a call inside a row belongs to it, and is undone by itself if it raises."""
    if inspect.isgeneratorfunction(function):
        return _replying(as_row(name, _all_of(function)), function)
    signature = inspect.signature(function)
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = len(signature.parameters) - 1 if all(p.kind in by_place for p in signature.parameters.values()) else -1

    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        held = vars(self)
        journal: Journal = held[JOURNAL]
        if journal.in_row:
            with journal.all_or_nothing():
                return function(self, *args, **kwargs)
        own, named = args, kwargs
        if kwargs or len(args) != places:
            # Defaults are copied, too: one object would tell of the rows before.
            given = signature.bind(self, *args, **kwargs)
            given.apply_defaults()
            own, named = given.args[1:], given.kwargs
        # Random numbers follow from what was given, whatever the row does to its copies.
        held[ROW] = Row(name, (*own, *named.values()))
        try:
            with journal.all_or_nothing():
                reply = function(self, *map(copied, own), **{key: copied(value) for key, value in named.items()})
                # Before what it holds becomes values, and so that one that can't be copied undoes the row.
                return copied(reply)
        finally:
            del held[ROW]

    setattr(call, WRITTEN, function)
    return call
