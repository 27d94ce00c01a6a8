"""What programs mean by the rule that state holds values, in a hundred lines of plain Python: the oracle.

A program's text is loaded with the names of this file in place of those of the package. State elements are dicts. A row
runs as Python runs it; when it ends, every value of state becomes a new tree of its declared type, and a row that
raised is undone. What lies outside of rows must be as before: if it is not, the program had to be refused.
"""

from __future__ import annotations

import functools
import itertools
import sys
import types
import typing
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

from tests.values.trees import copied, decode, encode, told

Row = tuple[str, tuple[Any, ...]]

_NUMBERS = itertools.count()


class Map:
    """The type of an element, `Map[key, value]`."""

    def __init__(self, key: Any, value: Any) -> None:
        self.key, self.value = key, value

    def __class_getitem__(cls, hints: tuple[Any, Any]) -> Map:
        return cls(*hints)


class Partitioned:
    """A declared element."""

    def __init__(self, of: Map) -> None:
        self.of = of


class Partial(Partitioned):
    """Numbers of which each instance has a part: what it holds is another claim."""


class Counter(Map):
    """Numbers by key, 0 at first."""

    def __init__(self, key: Any) -> None:
        super().__init__(key, int)

    def __class_getitem__(cls, key: Any) -> Counter:
        return cls(key)


class Program:
    """An instance holds a dict for each element."""

    def __init__(self) -> None:
        for name, element in elements_of(type(self)).items():
            vars(self)[name] = new_dict(element, {})


def entry(method: Callable[..., Any]) -> Callable[..., Any]:
    """An entry point is called as it is."""
    return method


def lru_cache(maxsize: Any = None) -> Any:
    """A cache whose results can be looked at: they lie outside of rows."""
    if callable(maxsize):
        return lru_cache()(maxsize)

    def cached(function: Callable[..., Any]) -> Callable[..., Any]:
        held: dict[Any, Any] = {}

        @functools.wraps(function)
        def call(*given: Any) -> Any:
            if given not in held:
                held[given] = function(*given)
                call.first[given] = told(held[given])
            return held[given]

        call.held, call.first = held, {}
        return call

    return cached


def elements_of(program: type[Program]) -> dict[str, Partitioned]:
    """The elements that a class declares."""
    return {name: one for name, one in vars(program).items() if isinstance(one, Partitioned)}


def new_dict(element: Partitioned, held: dict[Any, Any]) -> dict[Any, Any]:
    """What an element is in plain Python."""
    return defaultdict(int, held) if isinstance(element.of, Counter) else held


@dataclass(frozen=True)
class Ended:
    """How a row ended: with a reply, with an exception, or with a change of what lies outside of it."""

    reply: Any = None
    raised: str = ""
    outside: str = ""


class Oracle:
    """A program under the rule, row by row."""

    def __init__(self, text: str) -> None:
        self._module = load(text)
        self._program = program_in(self._module, Program)
        self.instance = self._program()
        self._elements = elements_of(self._program)
        self._trees: dict[str, dict[Any, Any]] = {name: {} for name in self._elements}
        self._outside = self._looked()
        self._defaults = [(one, one.__defaults__) for one in self._functions() if one.__defaults__]

    def row(self, row: Row) -> Ended:
        """Run a row."""
        name, given = row
        for function, defaults in self._defaults:
            function.__defaults__ = copied(defaults)
        try:
            reply = getattr(self.instance, name)(*copied(given))
            ended = Ended(copied(reply))
            trees = {name: self._encoded(name) for name in self._elements}
        except Exception as error:  # noqa: BLE001 - whatever a program raises
            ended, trees = Ended(raised=type(error).__name__), self._trees
        changed = self._changed()
        if changed:
            ended, trees = Ended(outside=changed), self._trees
        self._trees = trees
        self._renew()
        return ended

    def state(self) -> dict[str, dict[Any, str]]:
        """Every element's values as texts."""
        return {
            name: {key: told(value) for key, value in vars(self.instance)[name].items()}
            for name, element in self._elements.items()
            if not isinstance(element, Partial)
        }

    def _encoded(self, name: str) -> dict[Any, Any]:
        hint = self._elements[name].of.value
        return {key: encode(hint, value) for key, value in vars(self.instance)[name].items()}

    def _renew(self) -> None:
        """Nothing of the row is left but values: not even the dicts, nor attributes that it gave to the instance."""
        vars(self.instance).clear()
        for name, held in self._trees.items():
            hint = self._elements[name].of.value
            new = {key: decode(hint, tree) for key, tree in held.items()}
            vars(self.instance)[name] = new_dict(self._elements[name], new)

    def _functions(self) -> list[Any]:
        held = [*vars(self._module).values(), *vars(self._program).values()]
        return [one for one in held if isinstance(one, types.FunctionType)]

    def _looked(self) -> dict[str, str]:
        """Objects of the module and of the class, as texts."""
        places = {"": vars(self._module), "self.": vars(self._program)}
        return {
            prefix + name: told(one)
            for prefix, place in places.items()
            for name, one in place.items()
            if not name.startswith("__")
            and (isinstance(one, list | dict | set | tuple) or (is_dataclass(one) and not isinstance(one, type)))
        }

    def _changed(self) -> str:
        now = self._looked()
        for name, before in self._outside.items():
            if now.get(name) != before:
                return name
        for function in vars(self._module).values():
            for given, first in getattr(function, "first", {}).items():
                if told(function.held[given]) != first:
                    return f"{function.__name__}{given}"
        return ""


def load(text: str) -> types.ModuleType:
    """A module out of a program's text, with this file in place of the package."""
    text = text.replace("from millpond import", f"from {__name__} import")
    text = text.replace("from functools import lru_cache", f"from {__name__} import lru_cache")
    module = types.ModuleType(f"values_oracle_{next(_NUMBERS)}")
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, module.__name__, "exec"), vars(module))
        # While the module can be found by its name: hints are texts until somebody asks for them.
        for one in list(vars(module).values()):
            if isinstance(one, type) and (is_dataclass(one) or hasattr(one, "_fields")):
                one.__annotations__ = typing.get_type_hints(one)
    finally:
        del sys.modules[module.__name__]
    return module


def program_in(module: types.ModuleType, base: type) -> Any:
    """The last program of a module."""
    return [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, base)][-1]


def expect(text: str, rows: Sequence[Row]) -> tuple[list[Ended], dict[str, dict[Any, str]]]:
    """How each row ends, up to the first that changes what lies outside; and the state that is left."""
    oracle, ends = Oracle(text), []
    for row in rows:
        ends.append(oracle.row(row))
        if ends[-1].outside:
            break
    return ends, oracle.state()
