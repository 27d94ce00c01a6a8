"""What a program knows of the row that it works on, in plain Python: its time, and its random numbers.

A method that asks for `self.now` or `self.random` is wrapped when its class is made, so that a call of it is one row:
one moment, and one source of random numbers that follows from the arguments. Methods that ask for neither stay as they
are, and cost nothing. The compiler reads the method as it was written.
"""

from __future__ import annotations

import datetime
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from millpond.errors import ProgramError
from millpond.program.epoch_time import epoch_now, row_turn, us_of
from millpond.program.row_random import RowRandom, row_random

AMBIENT: Final = frozenset(("now", "random"))
"""The attributes of every program that tell of the row."""

WRITTEN: Final = "__millpond_written__"
"""The attribute of a wrapped method that holds the method as it was written."""

_ROW: Final = "_millpond_row"


class Row:
    """A row that a plain program works on."""

    __slots__ = ("now", "random", "turn")

    def __init__(self, entry: str, arguments: tuple[Any, ...]) -> None:
        self.now = epoch_now()
        self.turn = row_turn()
        self.random = row_random(entry, *arguments)


def as_written(function: Callable[..., Any]) -> Callable[..., Any]:
    """The method that the user wrote, without what `wrap_entries` put around it."""
    return cast("Callable[..., Any]", getattr(function, WRITTEN, function))


def wrap_entries(program: type, mark: str, *, timed: bool = False) -> None:
    """Make each call of an entry point a row, in a class whose methods ask for the row's time or random numbers.

    The state of a `timed` one asks for the time.
    """
    members = [member for base in program.__mro__ for member in vars(base).values()]
    if not timed and not any(map(may_ask, members)):
        return
    for name in {name for base in program.__mro__ for name in vars(base)}:
        member = inspect.getattr_static(program, name)
        if getattr(member, mark, False) and not hasattr(member, WRITTEN):
            setattr(program, name, as_row(name, member))


def may_ask(member: Any) -> bool:
    """Whether a member's code names `now` or `random`; it may mean something else by that."""
    return not AMBIENT.isdisjoint(names_in(member))


def names_in(member: Any) -> set[str]:
    """The attributes and globals that the code of a method names."""
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    function = as_written(member)
    if not isinstance(function, types.FunctionType):
        return set()
    return {name for code in _codes(function.__code__) for name in code.co_names}


def names_used(function: Callable[..., Any]) -> set[str]:
    """All names that the code of a function reads or binds, in whatever scope."""
    codes = list(_codes(function.__code__)) if isinstance(function, types.FunctionType) else []
    return {n for c in codes for n in (*c.co_names, *c.co_varnames, *c.co_freevars, *c.co_cellvars)}


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def as_row(name: str, function: Any) -> Callable[..., Any]:
    """A method whose calls are rows."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).args[1:]
        held = vars(self)
        before = held.get(_ROW)
        held[_ROW] = Row(name, given)
        try:
            return function(self, *args, **kwargs)
        finally:
            held[_ROW] = before

    setattr(call, WRITTEN, function)
    return call


def now_of(program: Any) -> datetime.datetime:
    """The time of the row, or of the clock outside one."""
    row = vars(program).get(_ROW)
    return epoch_now() if row is None else row.now


class RowClock:
    """Tells a program's state the time of the row, in microseconds since 1970."""

    __slots__ = ("_program",)

    def __init__(self, program: Any) -> None:
        self._program = program

    def __call__(self) -> int:
        """The time of the row."""
        return us_of(now_of(self._program))

    def turn(self) -> int:
        """What tells the row's moment from others."""
        row = vars(self._program).get(_ROW)
        return row_turn() if row is None else row.turn


def random_of(program: Any) -> RowRandom:
    """The random source of the row."""
    row = vars(program).get(_ROW)
    if row is None:
        raise ProgramError(
            "MP176",
            "self.random is asked for outside an entry point",
            expected="a call of a method that is marked @entry",
            found=f"a {type(program).__name__} that works on no row",
            hint="random numbers follow from a row: ask for them in an entry point, or in a helper that one calls",
        )
    return cast("RowRandom", row.random)
