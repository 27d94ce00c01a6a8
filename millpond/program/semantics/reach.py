"""What the code of a method can name: its own names, and those of all functions of the user that it may call."""

from __future__ import annotations

import dis
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from millpond.program.declare import Element
from millpond.program.semantics.ambient import as_written, codes_of, names_in

_ASKING: Final = frozenset(("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR"))
_READING: Final = frozenset(("LOAD_ATTR", "LOAD_METHOD"))
_LOADING: Final = frozenset(("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_DEREF"))
_CLOSING: Final = frozenset(("MAKE_CELL", "LOAD_CLOSURE"))
_NAMING: Final = frozenset(name for name in dis.opmap if "FAST" in name or "DEREF" in name) | _CLOSING
_SUPER: Final = frozenset(("super", "__class__"))
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


class Asked(NamedTuple):
    """What a method may ask its program for, all that it calls included: `names`, with what is asked of each at once.

    `self.windows.add(...)` asks `windows` for `add`. What goes elsewhere (`one = self.windows`) may be asked for any of
    the `words` there, and so may everything if the program itself goes elsewhere.
    """

    names: frozenset[str]
    at_once: Mapping[str, frozenset[str]]
    elsewhere: frozenset[str]
    words: frozenset[str]

    def may(self, name: str, word: str) -> bool:
        """Return whether a member of the program may be asked for something."""
        if name not in self.names:
            return False
        there = name in self.elsewhere and (word in self.words or not self.words.isdisjoint(_BY_TEXT))
        return there or word in self.at_once.get(name, frozenset())


def asked_by(program: type, method: Callable[..., Any]) -> Asked:
    """Return what a method may ask its program for: by the object that is asked, as far as its code tells."""
    members = members_of(program)
    waiting, seen, words = [as_written(method)], dict[int, Any](), set[str]()
    at_once: dict[str, frozenset[str]] = {}
    lost = unseen = False
    while waiting:
        function = waiting.pop()
        if id(function) in seen:
            continue
        seen[id(function)] = function
        words |= names_reached(program, function)
        asked = _asked_of_first(function)
        lost = lost or asked is None
        for name, word in asked or ():
            member = members.get(name)
            unseen = unseen or _binds(member)
            at_once[name] = at_once.get(name, frozenset()) | {word}
            waiting += _functions(member)
    if unseen:
        return Asked(frozenset(members), {}, frozenset(members), _BY_TEXT)
    if lost:
        names = frozenset(at_once).union(*(names_in_reach(program, function) for function in seen.values()))
        return Asked(names, {}, names, frozenset(words))
    elsewhere = frozenset(name for name, asked_for in at_once.items() if "" in asked_for)
    return Asked(frozenset(at_once), at_once, elsewhere, frozenset(words))


def _binds(member: Any) -> bool:
    """Return whether a member is given the program when it is asked for, to do with it what this can't see."""
    if isinstance(member, Element | property | staticmethod | classmethod | types.FunctionType):
        return False
    return hasattr(type(member), "__get__")


def _asked_of_first(function: Any) -> set[tuple[str, str]] | None:
    """Return what a function asks its first parameter for, each with what is asked of that at once, if anything is.

    None if the parameter goes elsewhere: then others may ask it for anything.
    """
    if isinstance(function, staticmethod) or not isinstance(function, types.FunctionType):
        return set()
    first = function.__code__.co_varnames[: function.__code__.co_argcount][:1]
    found: set[tuple[str, str]] = set()
    for code in codes_of(function) if first else []:
        if not _SUPER.isdisjoint((*code.co_names, *code.co_freevars)):
            return None
        steps = list(dis.get_instructions(code))
        for at, one in enumerate(steps):
            if one.opname in _CLOSING or not _names(one, first[0]):
                continue
            asked, then = (*steps[at + 1 : at + 3], None, None)[:2]
            if one.opname not in _LOADING or asked is None or asked.opname not in _ASKING:
                return None
            asks = then is not None and then.opname in _ASKING and asked.opname in _READING
            found.add((asked.argval, then.argval if then is not None and asks else ""))
    return found


def _names(step: dis.Instruction, name: str) -> bool:
    """Return whether an instruction is about a variable; newer Pythons load two at once."""
    return step.opname in _NAMING and (step.argval == name or (isinstance(step.argval, tuple) and name in step.argval))


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
