"""Entry points: the methods of a program that rows are fed to."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload

from millpond.errors import ProgramError
from millpond.program.ambient import as_written

F = TypeVar("F", bound=Callable[..., Any])

MARK = "__millpond_entry__"
"""The attribute that marks a method as an entry point."""

HANDLER = "__millpond_handler__"
"""The attribute of a class's timers that holds their handler."""

_RELAXED = "__millpond_relaxed__"


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """An entry point: its name, its function, the types of its parameters and of its reply.

    A `relaxed` one may be interleaved with others wherever it moves from key to key. A `timer` is fed by timers that
    are due, not by rows.
    """

    name: str
    function: Callable[..., Any]
    parameters: tuple[tuple[str, Any], ...]
    returns: Any
    relaxed: bool = False
    timer: bool = False

    @property
    def replies(self) -> bool:
        """Whether a call gives a reply."""
        return self.returns is not type(None)


@overload
def entry(function: F) -> F:  # noqa: D418
    """`@entry`."""


@overload
def entry(*, relaxed: bool = False) -> Callable[[F], F]:  # noqa: D418
    """`@entry(relaxed=True)`."""


def entry(function: F | None = None, *, relaxed: bool = False) -> F | Callable[[F], F]:
    """Mark a method as an entry point: its parameters are the columns of the rows that are fed to it.

    With `relaxed=True` the method may visit keys in any order and number, and gives up being exact: other rows may
    come in between wherever it moves from one key to another.
    """

    def mark(marked: F) -> F:
        setattr(marked, MARK, True)
        setattr(marked, _RELAXED, relaxed)
        return marked

    return mark if function is None else mark(function)


def entry_points(program: type) -> dict[str, EntryPoint]:
    """All entry points of a program class, in the order of their definition, inherited ones first."""
    found: dict[str, EntryPoint] = {}
    for base in reversed(program.__mro__):
        for name, member in vars(base).items():
            handler = getattr(member, HANDLER, None)
            if handler is not None:
                found[name] = handler_entry(program, name, handler)
            elif getattr(member, MARK, False):
                found[name] = _read(program, name, as_written(member))
            else:
                found.pop(name, None)
    return found


def handler_entry(program: type, name: str, handler: Callable[..., Any]) -> EntryPoint:
    """The handler of some timers as an entry point."""
    return replace(_read(program, name, handler), timer=True)


def _read(program: type, name: str, function: Callable[..., Any]) -> EntryPoint:
    where = f"{program.__name__}.{name}"
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ProgramError(
            "MP102",
            f"a type hint of {where} can't be resolved",
            found=str(error),
            hint="import the name at module level, where the hint can see it",
        ) from None
    parameters = list(inspect.signature(function).parameters.values())[1:]
    for parameter in parameters:
        if parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD or parameter.default is not parameter.empty:
            raise ProgramError(
                "MP103",
                f"parameter `{parameter.name}` of {where} can't be a column",
                expected="plain parameters without defaults, *args or **kwargs",
                found=str(parameter),
            )
        if parameter.name not in hints:
            raise ProgramError(
                "MP104",
                f"parameter `{parameter.name}` of {where} has no type hint",
                expected=f"{parameter.name}: int (or another type)",
                found=parameter.name,
                hint="columns are matched to parameters by name and type",
            )
    if "return" not in hints:
        raise ProgramError(
            "MP105", f"{where} has no return type", expected="-> None, or the type of its reply", found="no hint"
        )
    columns = tuple((p.name, hints[p.name]) for p in parameters)
    return EntryPoint(name, function, columns, hints["return"], getattr(function, _RELAXED, False))
