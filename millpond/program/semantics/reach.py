"""What the code of a method can name: its own names, and those of all functions of the user that it may call."""

from __future__ import annotations

import dis
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

from millpond.program.declare import Element
from millpond.program.semantics.ambient import as_written, codes_of, names_in

_ASKING: Final = frozenset(("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR"))
_OF_PARTS: Final = frozenset(("LOAD_ATTR", "LOAD_METHOD", "BINARY_SUBSCR", "CALL", "CALL_KW", "CALL_FUNCTION_EX"))


def members_of(program: type) -> dict[str, Any]:
    """Return all members of a class, inherited ones included."""
    return {name: member for base in reversed(program.__mro__) for name, member in vars(base).items()}


def names_reached(program: type, method: Callable[..., Any]) -> set[str]:
    """Return all names of attributes and globals in a method, and in the methods and functions that it names.

    Functions of Python's own library are left out. A name may mean something else than it seems: so this is more than
    what can happen, never less, as long as nothing is looked up by a text. But `self.windows.add` is no
    method `add` of the program.
    """
    members = members_of(program)
    waiting, seen, found = [as_written(method)], set[int](), set[str]()
    while waiting:
        function = waiting.pop()
        if id(function) not in seen:
            seen.add(id(function))
            names = names_in(function)
            found |= names
            named = [*(members.get(name) for name in _of_variables(function)), *_outside(function, names)]
            waiting += [code for one in named for code in _functions(one)]
    return found


def _of_variables(function: Any) -> set[str]:
    """Return the attributes that the code of a function asks its variables for, and not parts of these or results."""
    found: set[str] = set()
    for code in codes_of(function):
        before = ""
        for one in dis.get_instructions(code):
            if one.opname in _ASKING and before not in _OF_PARTS:
                found.add(one.argval)
            before = one.opname
    return found


_BY_TEXT: Final = frozenset(
    ("getattr", "hasattr", "attrgetter", "methodcaller", "vars", "dir", "__dict__", "__getattribute__", "getmembers")
)
"""What finds members of an object by their names as text."""


def names_in_reach(program: type, method: Callable[..., Any]) -> set[str]:
    """As `names_reached`, but if members may be looked up by a text, all of the program count as named."""
    found = names_reached(program, method)
    if not found & _BY_TEXT:
        return found
    members = {name: one for name, one in members_of(program).items() if not name.startswith("__")}
    code = [function for one in members.values() for function in _functions(one)]
    return found.union(members, *(names_reached(program, function) for function in code))


def _outside(function: Callable[..., Any], names: set[str]) -> Iterator[Any]:
    """Yield what the names of a function mean around it: in its module, in what that imports, and in its closure."""
    if not isinstance(function, types.FunctionType):
        return
    closed = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    for one in [*(function.__globals__.get(name) for name in names), *closed]:
        yield one
        if isinstance(one, types.ModuleType) or (isinstance(one, type) and not issubclass(one, BaseException)):
            yield from (inspect.getattr_static(one, name, None) for name in names)


def _functions(member: Any) -> Iterator[types.FunctionType]:
    if isinstance(member, Element):
        return
    if isinstance(member, property):
        member = member.fget
    elif isinstance(member, staticmethod | classmethod):
        member = member.__func__
    function = as_written(member) if callable(member) else member
    if isinstance(function, types.FunctionType):
        module = (function.__module__ or "").partition(".")[0]
        if module not in sys.stdlib_module_names and module != "millpond":
            yield function


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
