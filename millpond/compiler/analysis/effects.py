"""What builtins and library functions do to what they are given, by the object behind a name.

Methods of Python's own types stand under the function of their type: `list.append`. What is not in the table may do
anything: change what it is given, put one thing into another, and give any of it back.
"""

from __future__ import annotations

import bisect
import copy
import enum
import functools
import heapq
import itertools
import operator
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast, get_origin

from millpond.compiler.analysis.mutability import is_frozen
from millpond.compiler.analysis.record_types import is_made_of_fields


class Result(enum.Enum):
    """What a call gives."""

    PLAIN = "a value that can't be changed"
    NEW = "a copy all the way down"
    ITEMS = "something new that holds the items of what is given"
    PAIRS = "something new that holds tuples of the items of what is given"
    HOLDS = "something new that holds what is given"
    PART = "one of the items of what is given"
    GIVEN = "one of what is given"
    ANYTHING = "anything"


@dataclass(frozen=True, slots=True)
class Effect:
    """What a call does: what it gives, whether it changes the first that it is given, and what it puts into that.

    `puts` is "given" or "items" for the others, or their items; `calls` if it may call a function that it is given.
    """

    result: Result = Result.PLAIN
    changes: bool = False
    puts: str = ""
    calls: bool = False


UNKNOWN: Final = Effect(Result.ANYTHING, changes=True, puts="given", calls=True)

PLAIN: Final = Effect()
_ITEMS: Final = Effect(Result.ITEMS)
_PAIRS: Final = Effect(Result.PAIRS)
_PART: Final = Effect(Result.PART)
_TAKES: Final = Effect(Result.PART, changes=True)
_CHANGES: Final = Effect(changes=True)
_PUTS: Final = Effect(changes=True, puts="given")
_PUTS_ITEMS: Final = Effect(changes=True, puts="items")

_FUNCTIONS: Final[Mapping[Any, Effect]] = {
    **dict.fromkeys((len, int, float, str, bool, bytes, complex, repr, ascii, abs, round, ord, chr, hash), PLAIN),
    **dict.fromkeys((isinstance, issubclass, callable, format, range, print, divmod, pow, hex, oct, bin), PLAIN),
    **dict.fromkeys((any, all), PLAIN),
    **dict.fromkeys((list, tuple, set, frozenset, dict, reversed, iter, deque, OrderedDict), _ITEMS),
    **dict.fromkeys((itertools.chain, itertools.islice, Counter), _ITEMS),
    **dict.fromkeys((enumerate, zip), _PAIRS),
    copy.copy: _ITEMS,
    copy.deepcopy: Effect(Result.NEW),
    sorted: Effect(Result.ITEMS, calls=True),
    sum: _ITEMS,
    min: Effect(Result.PART, calls=True),
    max: Effect(Result.PART, calls=True),
    next: _TAKES,
    cast: Effect(Result.GIVEN),
    **dict.fromkeys((heapq.heappush, bisect.insort, bisect.insort_left, bisect.insort_right), _PUTS),
    **dict.fromkeys((heapq.heappop,), _TAKES),
    **dict.fromkeys((heapq.heapify,), _CHANGES),
    **dict.fromkeys((heapq.heapreplace, heapq.heappushpop), Effect(Result.PART, changes=True, puts="given")),
    operator.getitem: _PART,
    functools.reduce: UNKNOWN,
}

_LOOKS: Final = ("index", "count", "__len__", "__contains__", "isdisjoint", "issubset", "issuperset")
_COPIES: Final = ("copy", "union", "intersection", "difference", "symmetric_difference", "values", "keys")
_METHODS: Final[Mapping[str, Effect]] = {
    **dict.fromkeys(_LOOKS, PLAIN),
    **dict.fromkeys((*_COPIES, "elements", "__iter__", "__reversed__"), _ITEMS),
    **dict.fromkeys(("items", "most_common"), _PAIRS),
    **dict.fromkeys(("append", "appendleft", "add", "insert"), _PUTS),
    **dict.fromkeys(("extend", "extendleft", "update", "__ior__", "__iadd__"), _PUTS_ITEMS),
    **dict.fromkeys(("remove", "discard", "clear", "reverse", "rotate", "move_to_end", "subtract"), _CHANGES),
    **dict.fromkeys(("intersection_update", "difference_update", "symmetric_difference_update"), _CHANGES),
    "sort": Effect(changes=True, calls=True),
    **dict.fromkeys(("pop", "popleft", "popitem"), _TAKES),
    **dict.fromkeys(("get", "__getitem__"), _PART),
    "setdefault": Effect(Result.PART, changes=True, puts="given"),
}
"""Methods of Python's own containers: those that several of them have do the same in each."""

_PURE_MODULES: Final = frozenset(("builtins", "datetime", "decimal", "uuid"))
KINDS: Final = (list, dict, set, frozenset, tuple, deque, defaultdict, OrderedDict, Counter)
"""Python's own containers, whose operators are known."""


def _members() -> Iterator[tuple[Any, Effect]]:
    for kind in KINDS:
        for name, effect in _METHODS.items():
            member = getattr(kind, name, None)
            if member is not None:
                yield member, effect


TABLE: Final[Mapping[Any, Effect]] = {**_FUNCTIONS, **dict(_members())}
"""All that is known, by object."""


def effect_of(meaning: Any) -> Effect:
    """What calling an object does."""
    if isinstance(meaning, type) and meaning not in TABLE:
        return Effect(Result.HOLDS) if is_made_of_fields(meaning) or _only_holds(meaning) else UNKNOWN
    try:
        return TABLE.get(meaning, UNKNOWN)
    except TypeError:
        return UNKNOWN


def _only_holds(kind: type) -> bool:
    return issubclass(kind, BaseException) and kind.__module__ == "builtins"


def effect_of_method(hint: Any, name: str) -> Effect:
    """What a method does of a value of a type; of Any nothing is known."""
    kind = get_origin(hint) or hint
    if is_frozen(hint) and not isinstance(getattr(kind, name, None), type(effect_of_method)):
        # What a value gives that can't be changed, by Python's own code, has nothing to do with what it is given.
        return (
            Effect(Result.NEW)
            if getattr(kind, "__module__", "") in ("builtins", "datetime", "decimal", "uuid")
            else UNKNOWN
        )
    return effect_of(getattr(kind, name, None)) if isinstance(kind, type) else UNKNOWN


def is_fresh(meaning: Any) -> bool:
    """Whether what a function gives shares nothing with what it is given, which it leaves as it is."""
    effect = effect_of(meaning)
    return effect.result in (Result.PLAIN, Result.NEW) and not effect.changes


def leaves_alone(meaning: Any) -> bool:
    """Whether a function leaves what it is given as it is, but for iterators; its result may hold parts of it."""
    effect = effect_of(meaning)
    return effect.result is not Result.ANYTHING and (not effect.changes or meaning is next)
