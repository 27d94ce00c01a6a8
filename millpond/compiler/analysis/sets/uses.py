"""What functions do with the order of a set that they are given: a table, looked up by the object behind the name."""

from __future__ import annotations

import copy
import dataclasses
import functools
import heapq
import itertools
import json
import math
import operator
import pprint
import reprlib
import types
import typing
from enum import Enum
from typing import Any, Final

import msgspec

from millpond.compiler.front.scope import MISSING
from millpond.program.semantics.ambient import as_written


class Use(Enum):
    """What becomes of the order of a set, or of an iterator over one, that a function is given."""

    BLIND = "neither the result nor anything else tells it"
    UNLESS_KEYED = "the result is ordered by the members themselves, unless there is a key function"
    ADDS = "numbers are added or multiplied: exact for integers alone"
    KEEPS = "the set itself is kept or handed on"
    PASSES = "the result has the same order"
    APPLIES = "a function is applied to the members, in their order"
    OWN = "a function of the program's own package, to be looked into"
    SEES = "the result depends on it, or nobody knows"


_BLIND: Final = (
    *(len, set, frozenset, any, all, bool, isinstance, issubclass, type, callable, math.fsum),
    *(operator.or_, operator.and_, operator.xor, operator.sub, operator.contains, operator.truth, operator.not_),
    *(operator.ior, operator.iand, operator.ixor, operator.isub, operator.is_, operator.is_not),
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
)
_COMMUTE: Final = (min, max, set.union, frozenset.union, set.intersection, frozenset.intersection)
_UNLESS_KEYED: Final = (sorted, min, max, heapq.nlargest, heapq.nsmallest)
_ADDS: Final = (sum, math.prod)
_KEEPS: Final = (copy.copy, copy.deepcopy, dataclasses.replace, typing.cast, types.SimpleNamespace, print)
_PASSES: Final = (list, tuple, iter, itertools.chain, itertools.chain.from_iterable)
_APPLIES: Final = (map, filter, functools.reduce)

_SHOWS: Final = (
    *(str, repr, ascii, format, reprlib.repr, pprint.pformat, json.dumps),
    *(msgspec.json.encode, msgspec.msgpack.encode, msgspec.to_builtins),
)

SEEING_MEMBERS: Final = frozenset(
    ("pop", "__iter__", "__repr__", "__str__", "__format__", "__reduce__", "__reduce_ex__")
)
"""Members of a set that tell its order."""

SEEING_METHODS: Final = frozenset(
    (
        *("join", "extend", "extendleft", "fromkeys", "writelines", "format", "format_map"),
        *("choice", "choices", "sample", "shuffle"),
    )
)
"""Methods, whatever they are of, that tell the order of a set that they are given."""

CHANGING_METHODS: Final = frozenset(
    (*("append", "appendleft", "extend", "insert", "pop", "popleft", "popitem", "setdefault", "send", "write"),)
)
"""Methods that leave behind in which order they were called."""


def use_of(meaning: Any, module: str) -> Use:
    """What a function does with the order of a set; `module` is the one that the program is in."""
    for use, functions in _TABLE:
        if any(meaning is function or _same_method(meaning, function) for function in functions):
            return use
    if isinstance(meaning, operator.methodcaller):
        return use_of_member(str(meaning.__reduce__()[1][0]))
    if getattr(meaning, "__objclass__", None) in (set, frozenset):
        return use_of_member(meaning.__name__)
    if isinstance(meaning, functools.partial):
        found = use_of(meaning.func, module)
        return found if found in (Use.BLIND, Use.KEEPS) else Use.SEES
    if not is_package_own(meaning, module):
        return Use.SEES
    if isinstance(meaning, type):
        return Use.KEEPS
    return Use.OWN if isinstance(plain_function(meaning), types.FunctionType) else Use.SEES


def _same_method(one: Any, other: Any) -> bool:
    # A class method is another object each time it is asked for.
    return isinstance(one, types.BuiltinMethodType) and isinstance(other, types.BuiltinMethodType) and one == other


_TABLE: Final = (
    (Use.BLIND, _BLIND),
    (Use.UNLESS_KEYED, _UNLESS_KEYED),
    (Use.ADDS, _ADDS),
    (Use.KEEPS, _KEEPS),
    (Use.PASSES, _PASSES),
    (Use.APPLIES, _APPLIES),
)


def use_of_member(name: str) -> Use:
    """What a method of a set does with its order, and with that of its arguments."""
    return Use.SEES if name in SEEING_MEMBERS or not hasattr(set, name) else Use.BLIND


def commutes(meaning: Any) -> bool:
    """Whether a function that is blind to the order of sets is so to that of its arguments, as methods of sets are."""
    return meaning is MISSING or any(meaning is known for known in _COMMUTE)


def shows(meaning: Any) -> bool:
    """Whether a function writes down all that a value holds, sets in it too."""
    return any(meaning is function for function in _SHOWS)


def is_package_own(meaning: Any, module: str) -> bool:
    """Whether a function or class is of the same package as a module."""
    home = getattr(meaning, "__module__", None)
    return isinstance(home, str) and home.partition(".")[0] == module.partition(".")[0] and home != "builtins"


def plain_function(meaning: Any) -> Any:
    """A function without what is wrapped around it."""
    meaning = as_written(meaning)
    while not isinstance(meaning, types.FunctionType) and hasattr(meaning, "__wrapped__"):
        meaning = meaning.__wrapped__
    return meaning
