"""Entry points: the methods of a program that rows are fed to."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from millpond.errors import ProgramError

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__millpond_entry__"


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """An entry point: its name, its function, the types of its parameters and of its reply."""

    name: str
    function: Callable[..., Any]
    parameters: tuple[tuple[str, Any], ...]
    returns: Any

    @property
    def replies(self) -> bool:
        """Whether a call gives a reply."""
        return self.returns is not type(None)


def entry(function: F) -> F:
    """Mark a method as an entry point: its parameters are the columns of the rows that are fed to it."""
    setattr(function, _MARK, True)
    return function


def entry_points(program: type) -> dict[str, EntryPoint]:
    """All entry points of a program class, in the order of their definition, inherited ones first."""
    found: dict[str, EntryPoint] = {}
    for base in reversed(program.__mro__):
        for name, member in vars(base).items():
            if getattr(member, _MARK, False):
                found[name] = _read(program, name, member)
            else:
                found.pop(name, None)
    return found


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
    return EntryPoint(name, function, tuple((p.name, hints[p.name]) for p in parameters), hints["return"])
