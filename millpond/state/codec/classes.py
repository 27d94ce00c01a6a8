"""Classes of the user's own whose values travel between tasks: how a name in a message becomes a class again.

A message names a class by its module and its qualified name. The name is looked up among the classes that this process
has learned (`learn`, `learn_from`), then among the modules that are loaded already; nothing is imported, no attribute
hook is asked, and what is found must be a dataclass, a named tuple, an enum or a `msgspec.Struct`. So the bytes of a
message can choose among the records of the program, and nothing else.

A process learns classes in two ways. Whoever encodes a value of a class has the class, and learns it there: that
is enough for runs in one process. Workers, and drivers that start again, learn the classes of a program when its plan
arrives: those in its hints, and those that its code names, all the way down. That is how classes of `__main__`, of a
notebook, or of a function's body are known there, which no module of the worker holds. If two definitions bear one
name, the one that was learnt last counts.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import sys
import types
import typing
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec

from millpond.errors import StateError

_HEAP_TYPE: Final = 1 << 9
"""CPython's flag of classes that were written in Python."""

UNRESOLVED: Final = (NameError, TypeError, SyntaxError, AttributeError)
"""What `get_type_hints` raises where a hint can't be evaluated."""

_known: dict[tuple[str, str], type] = {}
_objects: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def is_named_tuple(kind: type) -> bool:
    """Return whether a class is a named tuple."""
    fields = getattr(kind, "_fields", None)
    return issubclass(kind, tuple) and isinstance(fields, tuple) and all(isinstance(name, str) for name in fields)


def is_plain_dataclass(kind: type) -> bool:
    """Return whether a class is a dataclass of its attributes alone, not of a list, a dict or an exception."""
    built_in = (base for base in kind.__mro__ if not base.__flags__ & _HEAP_TYPE)
    return dataclasses.is_dataclass(kind) and all(base is object for base in built_in)


def is_plain_struct(kind: type) -> bool:
    """Return whether a class is a `msgspec.Struct` of its fields alone that runs no code of its own when it is made."""
    return issubclass(kind, msgspec.Struct) and not kind.__dictoffset__ and not hasattr(kind, "__post_init__")


def is_plain_object(kind: Any) -> bool:
    """Return whether a class is no record, has annotated fields, and is made of its attributes alone."""
    if not isinstance(kind, type):
        return False
    known = _objects.get(kind)
    if known is None:
        built_in = (base for base in kind.__mro__ if not base.__flags__ & _HEAP_TYPE)
        own = not dataclasses.is_dataclass(kind) and not issubclass(kind, enum.Enum)
        known = _objects[kind] = own and all(base is object for base in built_in) and bool(object_fields(kind))
    return known


def object_fields(kind: type) -> tuple[str, ...]:
    """Return the names of the annotated fields of a class, those of its bases first, without class variables."""
    found: dict[str, None] = {}
    for base in reversed(kind.__mro__):
        for name, hint in vars(base).get("__annotations__", {}).items():
            if not (typing.get_origin(hint) is typing.ClassVar or "ClassVar" in str(hint)):
                found[name] = None
    return tuple(found)


def is_record(kind: Any) -> bool:
    """Return whether values of a class can be taken apart and put together without running its code."""
    return isinstance(kind, type) and (
        issubclass(kind, enum.Enum)
        or is_named_tuple(kind)
        or is_plain_dataclass(kind)
        or is_plain_struct(kind)
        or is_plain_object(kind)
    )


def learn(kind: type) -> tuple[str, str]:
    """Make a class known here, and return its name in messages."""
    name = (kind.__module__, kind.__qualname__)
    _known[name] = kind
    return name


def find_class(module: str, name: str) -> type:
    """Return the class of a name in a message."""
    found = _known.get((module, name))
    if found is None:
        loaded = _loaded(module, name)
        if not is_record(loaded):
            raise StateError(
                "MP230",
                "a message holds a value of a class that the program does not name",
                expected="a dataclass, a named tuple, an enum or a Struct that the program names",
                found=f"{module}.{name}",
                hint="name the class in a hint or in the code of the program, at module level",
            )
        found = _known[module, name] = loaded
    return found


def _loaded(module: str, name: str) -> Any:
    """Return what a loaded module holds under a dotted name; looked up in dicts, so that no code runs."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = vars(found).get(part) if isinstance(found, types.ModuleType | type) else None
    return found


def learn_from(*roots: Any) -> None:
    """Make the records known that some hints, functions and classes name, all the way down."""
    seen: set[int] = set()
    waiting = list(roots)
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if is_record(part):
            learn(part)
        waiting += _parts(part)


def _parts(part: Any) -> Iterator[Any]:
    if isinstance(part, staticmethod | classmethod):
        yield part.__func__
    elif isinstance(part, property):
        yield part.fget
    elif isinstance(part, types.FunctionType):
        if not _is_importable(part):
            yield from _named_by(part)
    elif isinstance(part, type):
        if not _is_importable(part):
            yield from (*part.__bases__, *_hints_of(part), *vars(part).values())
    else:
        yield from typing.get_args(part)


def _is_importable(part: Any) -> bool:
    """Return whether a module that is loaded here holds this very object, so that names in it are found without us."""
    return _loaded(part.__module__, part.__qualname__) is part


def _named_by(function: types.FunctionType) -> Iterator[Any]:
    """Yield what the code of a function names outside itself, and what its signature says."""
    yield from (function.__globals__.get(name) for name in global_names(function.__code__))
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue
    yield from _hints_of(function)


@lru_cache(4096)
def global_names(code: types.CodeType) -> frozenset[str]:
    """Return the global names that some code reads, nested functions included."""
    named = (one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL")
    return frozenset(named).union(*(global_names(one) for one in code.co_consts if isinstance(one, types.CodeType)))


def _hints_of(part: Any) -> Iterator[Any]:
    try:
        yield from typing.get_type_hints(part, include_extras=True).values()
    except UNRESOLVED:
        # A hint that can't be resolved names nothing; that the value can't travel is found when it does.
        return
