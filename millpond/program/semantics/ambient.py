"""What a program knows of the row that it works on, in plain Python: its time, and its random numbers.

A call of an entry point is one row: one moment, and one source of random numbers that follows from the arguments. Both
are found when they are first asked for. The compiler reads the method as it was written.
"""

from __future__ import annotations

import datetime
import types
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Final, cast

from millpond.errors import ProgramError
from millpond.program.semantics.epoch_time import epoch_now, row_turn, us_of
from millpond.program.semantics.row_random import RowRandom, row_random

AMBIENT: Final = frozenset(("now", "random"))
"""The attributes of every program that tell of the row."""

WRITTEN: Final = "__millpond_written__"
"""The attribute of a wrapped method that holds the method as it was written."""

ROW: Final = "_millpond_row"
"""The attribute of an instance that holds the row at work."""


class Row:
    """A row that a plain program works on."""

    def __init__(self, entry: str, arguments: tuple[Any, ...]) -> None:
        self._entry = entry
        self._arguments = arguments

    @cached_property
    def now(self) -> datetime.datetime:
        """Its time."""
        return epoch_now()

    @cached_property
    def turn(self) -> int:
        """What tells its moment from others."""
        return row_turn()

    @cached_property
    def random(self) -> RowRandom:
        """Its random numbers."""
        return row_random(self._entry, *self._arguments)


def as_written(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method that the user wrote, without what makes its calls rows."""
    return cast("Callable[..., Any]", getattr(function, WRITTEN, function))


def may_ask(member: Any) -> bool:
    """Return whether a member's code names `now` or `random`; it may mean something else by that."""
    return not AMBIENT.isdisjoint(names_in(member))


def names_in(member: Any) -> set[str]:
    """Return the attributes and globals that the code of a method names."""
    return {name for code in codes_of(member) for name in code.co_names}


def codes_of(member: Any) -> list[types.CodeType]:
    """Return the code of a method as it was written, and that of all functions inside of it."""
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    function = as_written(member)
    return list(_codes(function.__code__)) if isinstance(function, types.FunctionType) else []


def names_used(function: Callable[..., Any]) -> set[str]:
    """Return all names that the code of a function reads or binds, in whatever scope."""
    codes = list(_codes(function.__code__)) if isinstance(function, types.FunctionType) else []
    return {n for c in codes for n in (*c.co_names, *c.co_varnames, *c.co_freevars, *c.co_cellvars)}


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def now_of(program: Any) -> datetime.datetime:
    """Return the time of the row, or of the clock outside one."""
    row = vars(program).get(ROW)
    return epoch_now() if row is None else row.now


class RowClock:
    """Tells a program's state the time of the row, in microseconds since 1970."""

    __slots__ = ("_program",)

    def __init__(self, program: Any) -> None:
        self._program = program

    def __call__(self) -> int:
        """Return the time of the row."""
        return us_of(now_of(self._program))

    def turn(self) -> int:
        """Return what tells the row's moment from others."""
        row = vars(self._program).get(ROW)
        return row_turn() if row is None else row.turn


def random_of(program: Any) -> RowRandom:
    """Return the random source of the row."""
    row = vars(program).get(ROW)
    if row is None:
        raise ProgramError(
            "MP176",
            "self.random is read outside an entry point",
            expected="a call of a method that is marked @entry",
            found=f"a {type(program).__name__} that works on no row",
            hint="random numbers follow from a row: ask for them in an entry point, or in a helper that one calls",
        )
    return cast("RowRandom", row.random)
