"""Entry points: the methods of a program that rows are fed to.

>>> from millpond import Program
>>> class Echo(Program):
...     @entry
...     def say(self, text: str, times: int) -> str:
...         return text * times
>>> point = entry_points(Echo)["say"]
>>> point.parameters, point.returns, point.replies
((('text', <class 'str'>), ('times', <class 'int'>)), <class 'str'>, True)
"""

from __future__ import annotations

import datetime
import inspect
import itertools
import types
import typing
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, overload

from millpond.errors import ProgramError, SourceError, SourcePlace, WindowError
from millpond.program.columntypes import without_column
from millpond.program.places import signature_place
from millpond.program.semantics.ambient import as_written, names_used
from millpond.state.codec.classes import UNRESOLVED
from millpond.state.codec.typenames import type_text
from millpond.state.copying import copied
from millpond.windowing.element import ClosedWindow

F = TypeVar("F", bound=Callable[..., Any])

MARK = "__millpond_entry__"
"""The attribute that marks a method as an entry point."""

HANDLER = "__millpond_handler__"
"""The attribute of a class's timers that holds their handler."""

TAKES_WINDOWS = "__millpond_takes_windows__"
"""The attribute that marks a handler whose second parameter is a list of windows."""

RELAXED = "__millpond_relaxed__"
"""The attribute of a method that says whether others may come in between where it moves."""

_WAY: Final = "__millpond_way__"

Way: TypeAlias = Literal["steps", "gathered"]
"""The ways to run that an entry point can ask for, the fastest first; a slower one is an error then."""


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """An entry point: its name, its function, the types of its parameters and of its reply.

    A `relaxed` one may be interleaved with others wherever it moves from key to key. A `timer` is fed by timers that
    are due, not by rows. One that is given `windows` is a timer whose second parameter is, in the source, a list of the
    windows that are over; what it is fed is the moment up to which they are. If it asks for a `way` to run, it has none
    that is slower. `defaults` are those of its parameters: a row whose column is missing or null takes a copy. One that
    `yields` gives several replies, each a row of its sink; what it returns is the list of them.
    """

    name: str
    function: Callable[..., Any]
    parameters: tuple[tuple[str, Any], ...]
    returns: Any
    relaxed: bool = False
    timer: bool = False
    windows: bool = False
    way: Way | None = None
    defaults: tuple[tuple[str, Any], ...] = ()
    yields: bool = False

    @property
    def replies(self) -> bool:
        """Whether a call gives a reply."""
        return self.returns is not type(None)

    def filled(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arguments of a call by place, with defaults where the last ones are left out, or are None."""
        if not self.defaults:
            return tuple(arguments)
        defaults = dict(self.defaults)
        names = [name for name, _ in self.parameters]
        left_out = names[len(arguments) :]
        if len(arguments) > len(names) or any(name not in defaults for name in left_out):
            return tuple(arguments)
        given = zip(names, (*arguments, *[None] * len(left_out)), strict=False)
        return tuple(copied(defaults.get(name)) if value is None else value for name, value in given)


@overload
def entry(function: F) -> F:  # noqa: D418
    """Mark a method: `@entry`."""


@overload
def entry(*, relaxed: bool = False, way: Way | None = None) -> Callable[[F], F]:  # noqa: D418
    """Mark a method with options: `@entry(relaxed=True)`."""


def entry(function: F | None = None, *, relaxed: bool = False, way: Way | None = None) -> F | Callable[[F], F]:
    """Mark a method as an entry point: its parameters are the columns of the rows that are fed to it.

    With `relaxed=True` the method may visit keys in any order and number, and gives up being exact: other rows may
    come in between wherever it moves from one key to another. With `way="steps"` or `way="gathered"` a program in which
    it can only run in a slower way does not compile; else `explain` tells which way it is.
    """
    if way is not None and way not in get_args(Way):
        raise ProgramError(
            "MP189",
            "an entry point asks for a way to run that there is not",
            expected=", ".join(f'"{one}"' for one in get_args(Way)),
            found=repr(way)[:60],
        )

    def mark(marked: F) -> F:
        setattr(marked, MARK, True)
        setattr(marked, RELAXED, relaxed)
        setattr(marked, _WAY, way)
        return marked

    return mark if function is None else mark(function)


def entry_points(program: type) -> dict[str, EntryPoint]:
    """Return all entry points of a program class, in the order of their definition, inherited ones first."""
    found: dict[str, EntryPoint] = {}
    for base in reversed(program.__mro__):
        for name, member in vars(base).items():
            handler = getattr(member, HANDLER, None)
            if handler is not None:
                found[name] = handler_entry(program, name, handler)
            elif isinstance(member, staticmethod | classmethod) and _is_marked(member):
                raise ProgramError(
                    "MP118",
                    f"{program.__name__}.{name} is an entry point, and can't be a static or class method",
                    places=signature_place(member.__func__),
                    expected="a method with no decorator but @entry",
                    found=f"@{type(member).__name__}",
                    hint=f"leave @{type(member).__name__} out: def {name}(self, ...)",
                )
            elif getattr(member, MARK, False):
                found[name] = _read(program, name, as_written(member))
            else:
                found.pop(name, None)
    return found


def entry_of(method: Callable[..., Any]) -> EntryPoint:
    """Return the entry point that a method of a program is: `entry_of(Shop.order)`."""
    if not getattr(method, MARK, False) or not inspect.isfunction(method):
        raise SourceError(
            "MP813",
            "this is not an entry point",
            expected="a method marked @entry, as its class has it: Shop.order",
            found=repr(method)[:80],
        )
    owner = type(method.__qualname__.rpartition(".")[0].rpartition(".")[2] or "Program", (), {})
    return _read(owner, method.__name__, as_written(method))


def _is_marked(member: staticmethod[..., Any] | classmethod[Any, ..., Any]) -> bool:
    """Return whether a static or class method is marked, in whichever order its decorators are."""
    return bool(getattr(member, MARK, False) or getattr(member.__func__, MARK, False))


def abstract_methods(program: type) -> list[str]:
    """Return the methods that a class leaves to those that derive from it."""
    members: dict[str, Any] = {}
    for base in reversed(program.__mro__):
        members.update(vars(base))
    found = (name for name, member in members.items() if getattr(member, "__isabstractmethod__", False))
    return sorted(found)


def handler_entry(program: type, name: str, handler: Callable[..., Any]) -> EntryPoint:
    """Return the handler of some timers as an entry point."""
    point = replace(_read(program, name, handler), timer=True)
    if not getattr(handler, TAKES_WINDOWS, False):
        return point
    if len(point.parameters) != 2 or point.parameters[1][1] != list[ClosedWindow]:
        raise WindowError(
            "MP647",
            f"{program.__name__}.{name} can't be given windows",
            expected=f"def {name}(self, key: ..., closed: list[ClosedWindow])",
            found=f"({', '.join(f'{column}: {hint}' for column, hint in point.parameters)})"[:160],
            hint="from millpond.windowing import ClosedWindow",
        )
    used = names_used(handler)
    at = next(found for found in ("at" + "_" * more for more in itertools.count()) if found not in used)
    return replace(point, windows=True, parameters=(point.parameters[0], (at, datetime.datetime)))


def _read(program: type, name: str, function: Callable[..., Any]) -> EntryPoint:
    where = f"{program.__name__}.{name}"
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except UNRESOLVED as error:
        raise _unresolved(where, signature_place(function), error) from None
    parameters = list(inspect.signature(function).parameters.values())[1:]
    for parameter in parameters:
        if parameter.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            raise ProgramError(
                "MP103",
                f"parameter `{parameter.name}` of {where} can't be a column",
                places=signature_place(function, parameter.name),
                expected="parameters by name, no *args, no **kwargs, none before a `/`",
                found=str(parameter),
            )
        if parameter.name not in hints:
            raise ProgramError(
                "MP104",
                f"parameter `{parameter.name}` of {where} has no type hint",
                places=signature_place(function, parameter.name),
                expected=f"{parameter.name}: int (or another type)",
                found=parameter.name,
                hint="columns are matched to parameters by name and type",
            )
    if "return" not in hints:
        raise ProgramError(
            "MP105",
            f"{where} has no return type",
            places=signature_place(function),
            expected="-> None, or the type of its reply",
            found="no hint",
        )
    columns = tuple((p.name, hints[p.name] if p.default is not None else hints[p.name] | None) for p in parameters)
    defaults = tuple((p.name, p.default) for p in parameters if p.default is not p.empty)
    yields = inspect.isgeneratorfunction(function)
    if yields:
        hints["return"] = _yielded(where, function, hints["return"])
    # A reply of any type is one that no sink takes, which is said where one is given; it may be wanted for itself.
    replies = [("", hints["return"])] if hints["return"] not in (Any, object) else []
    for told, hint in (*columns, *replies):
        _check_column(where, function, told, hint)
    relaxed, way = getattr(function, RELAXED, False), getattr(function, _WAY, None)
    return EntryPoint(name, function, columns, hints["return"], relaxed, way=way, defaults=defaults, yields=yields)


def _yielded(where: str, function: Callable[..., Any], hint: Any) -> Any:
    """Return the type of all replies of a method that yields them: `list[int]` for `Iterator[int]`."""
    arguments = get_args(hint)
    if get_origin(hint) not in (Iterator, Iterable, Generator) or not arguments:
        raise ProgramError(
            "MP105",
            f"{where} yields replies, and its return type does not tell theirs",
            places=signature_place(function),
            expected="-> Iterator[int], or another type of a reply",
            found=type_text(hint),
        )
    whole: Any = list
    return whole[arguments[0]]


def _unresolved(where: str, places: tuple[SourcePlace, ...], error: Exception) -> ProgramError:
    missing = "import the name at module level, where the hint can see it"
    wrong = "write a type that Python can evaluate, and that values can have"
    return ProgramError(
        "MP102",
        f"a type hint of {where} can't be resolved",
        places=places,
        found=str(error),
        hint=missing if isinstance(error, NameError) else wrong,
    )


def _check_column(where: str, function: Callable[..., Any], parameter: str, hint: Any) -> None:
    """Refuse a parameter, or with no name a reply, of a type that no column can hold."""
    try:
        unfit = next(without_column(hint), None) if hint != list[ClosedWindow] else None
    except UNRESOLVED as error:
        raise _unresolved(where, signature_place(function, parameter), error) from None
    if unfit is not None:
        raise ProgramError(
            "MP148",
            f"{f'parameter `{parameter}`' if parameter else 'the reply'} of {where} has no column type",
            places=signature_place(function, parameter),
            expected="numbers, str, bytes, bool, date, datetime, Decimal, UUID, Literal, Enum, list, set, dict, tuple, "
            "dataclass, or `| None`",
            found=type_text(unfit),
            hint="a column has one type: take two parameters that may be None, or a text that says which it is"
            if get_origin(unfit) in (Union, types.UnionType, Literal)
            else "let the column hold a text or a number, and make the value of it: Path(text)",
        )
