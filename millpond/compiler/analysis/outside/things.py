"""Objects that are outside of a row, as the compiler finds them: what they hold, and what changes them.

A `Thing` is an object of the module or of a class, or a result that a function keeps and of which only the type is
known. A `Value` is what an expression may be: some of these things, or something new that holds some.
"""

from __future__ import annotations

import ast
import bisect
import collections
import contextlib
import dis
import enum
import functools
import heapq
import itertools
import operator
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import _lru_cache_wrapper, cached_property
from typing import Any, Final, get_origin

import numpy as np

from millpond.compiler.analysis.effects import PLAIN, effect_of
from millpond.compiler.analysis.mutability import field_of, is_frozen, items_of
from millpond.compiler.front.scope import arguments_of

_CODE: Final = (
    *(type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, enum.Enum),
    *(types.MethodDescriptorType, types.WrapperDescriptorType, property, staticmethod, classmethod),
)
"""What is code, and nothing that rows could find changed."""

_UNCHANGING: Final = (tuple, frozenset, str, bytes, range, types.MappingProxyType)
"""Kinds that can't be changed themselves, whatever they hold."""

_GROWING: Final = (list, set, dict, collections.deque, bytearray, np.ndarray)
"""Kinds that `+=` and its like change in place."""

_CHANGERS: Final = frozenset(
    (
        *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update", "setdefault", "popitem"),
        *("add", "discard", "intersection_update", "difference_update", "symmetric_difference_update", "popleft"),
        *("appendleft", "extendleft", "rotate", "subtract", "move_to_end", "__setitem__", "__delitem__", "__iadd__"),
        *("__setattr__", "fill", "resize", "put", "itemset", "partition", "setflags", "__next__", "send", "throw"),
    )
)
"""Methods of Python's own containers, iterators and of arrays that change them."""

_OF_CONTAINERS: Final = (*_GROWING, collections.Counter, collections.OrderedDict, collections.defaultdict)

_VIEWING: Final = frozenset(("items", "keys", "values", "copy", "union", "intersection", "difference", "most_common"))
"""Methods of Python's own containers whose result is new."""

_FIRST_CHANGED: Final = (
    *(heapq.heappush, heapq.heappop, heapq.heapify, heapq.heapreplace, heapq.heappushpop, setattr, delattr, next),
    *(operator.setitem, operator.delitem, operator.iadd, operator.ior, operator.iconcat, operator.iand),
    *(bisect.insort, bisect.insort_left, bisect.insort_right),
)
"""Functions that change their first argument."""

_NEW: Final = (
    *(list, tuple, set, frozenset, dict, sorted, reversed, enumerate, zip, map, filter, iter, collections.deque),
    *(itertools.chain, itertools.islice, itertools.product, collections.Counter, collections.OrderedDict),
)
"""Functions whose result is new, and holds what their arguments hold."""

_GIVING: Final = (next, min, max, functools.reduce, operator.getitem, getattr, typing.cast)
"""Functions whose result may be what they are given, or a part of it."""

BY_OPERATORS: Final = (
    *("__getitem__", "__contains__", "__bool__", "__len__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"),
    *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__floordiv__", "__mod__"),
    *("__pow__", "__matmul__", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__", "__neg__", "__pos__"),
    *("__invert__", "__enter__", "__exit__", "__missing__"),
)
BY_FUNCTIONS: Final = (
    *("__eq__", "__lt__", "__gt__", "__add__", "__radd__", "__call__"),
    *("__len__", "__iter__", "__next__", "__reversed__", "__contains__", "__bool__", "__int__", "__float__", "__abs__"),
    *("__index__", "__hash__", "__str__", "__repr__", "__format__", "__round__", "__getattr__"),
)
BY_TRUTH: Final = ("__bool__", "__len__")
BY_WALKS: Final = ("__iter__", "__next__", "__getitem__")
BY_AUGMENTING: Final = (
    *("__iadd__", "__isub__", "__imul__", "__ior__", "__iand__", "__ixor__", "__ipow__", "__imod__", "__itruediv__"),
    *("__ifloordiv__", "__imatmul__", "__ilshift__", "__irshift__"),
)
"""Methods that operators, statements and Python's own functions call."""

_HELD_MAX: Final = 100_000
"""So many parts of an object are looked at; of more, those that come first stand for all."""


@dataclass(frozen=True)
class Thing:
    """An object by its identity, or a kept result by its type; `text` is what the program calls it."""

    text: str
    identity: int
    value: Any
    hint: Any = None

    @classmethod
    def of(cls, value: Any, text: str) -> Thing:
        """An object that is there."""
        return cls(text, id(value), value)

    @classmethod
    def kept(cls, function: str, hint: Any) -> Thing:
        """What a function gives again and again."""
        return cls(f"what {function}() keeps", 0, None, hint)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing) and (self.identity, self.hint) == (other.identity, other.hint)

    def __hash__(self) -> int:
        return self.identity

    @property
    def _is_there(self) -> bool:
        return self.identity != 0

    @cached_property
    def changeable(self) -> bool:
        """Whether it can be changed itself."""
        if not self._is_there:
            return not is_frozen(self.hint) and (get_origin(self.hint) or self.hint) not in _UNCHANGING
        if _is_code(self.value) or type(self.value) in _UNCHANGING or is_frozen(type(self.value)):
            return False
        return not isinstance(self.value, tuple) and not _is_frozen_record(self.value)

    @property
    def matters(self) -> bool:
        """Whether a row could change it, or something that it leads to."""
        return self.changeable or bool(self.children) or self.is_shared_code

    @property
    def is_shared_code(self) -> bool:
        """Whether it is a class, a function or a module, whose attributes are there for all rows."""
        return self._is_there and isinstance(self.value, type | types.FunctionType | types.ModuleType | ClassAttributes)

    @property
    def grows(self) -> bool:
        """Whether `+=` changes it in place."""
        if not self._is_there:
            return (get_origin(self.hint) or self.hint) in (*_GROWING, Any)
        return isinstance(self.value, _GROWING)

    @property
    def has_places(self) -> bool:
        """Whether something can be put into it under a key."""
        return not self._is_there or hasattr(type(self.value), "__setitem__")

    @property
    def fills(self) -> bool:
        """Whether looking for a key may put it in."""
        kind = self.value if self._is_there else None
        return isinstance(kind, collections.defaultdict) and kind.default_factory is not None

    @property
    def used_up(self) -> bool:
        """Whether walking through it changes it."""
        return self._is_there and hasattr(type(self.value), "__next__")

    @cached_property
    def children(self) -> frozenset[Thing]:
        """What it holds that could be changed, or holds such."""
        if not self._is_there:
            hints = [one for one in items_of(self.hint) if not is_frozen(one)]
            return frozenset(Thing(self.text, 0, None, one) for one in hints)
        if isinstance(self.value, enum.EnumType):
            members: list[Any] = list(self.value)
            return frozenset(Thing.of(member, self.text) for member in members)
        if _is_code(self.value) and not isinstance(self.value, enum.Enum):
            return frozenset()
        found = (Thing.of(part, self.text) for part in itertools.islice(_parts(self.value), _HELD_MAX))
        return frozenset(thing for thing in found if thing.changeable or not is_frozen(type(thing.value)))

    def attribute(self, name: str) -> frozenset[Thing]:
        """What an attribute of it may be."""
        if not self._is_there:
            hint = field_of(self.hint, name)
            return frozenset() if is_frozen(hint) else frozenset((Thing(self.text, 0, None, hint),))
        held = _attributes(self.value)
        if name in held:
            thing = Thing.of(held[name], f"{self.text}.{name}")
            return frozenset((thing,)) if thing.matters else frozenset()
        return self.children

    def method(self, name: str) -> Any:
        """A method of its class that a user wrote, cached or not; None if it has none of that name."""
        if not self._is_there or isinstance(self.value, _CODE):
            return None
        found = next((vars(base)[name] for base in type(self.value).__mro__ if name in vars(base)), None)
        return found if isinstance(found, types.FunctionType | _lru_cache_wrapper) else None

    def getter(self, name: str) -> Any:
        """The function that a property of its class runs; None if there is no such property."""
        if not self._is_there or isinstance(self.value, _CODE):
            return None
        return getter_of(type(self.value), name)

    @property
    def names(self) -> list[str]:
        """The names of what it is known to have as attributes."""
        return list(_attributes(self.value)) if self._is_there else []

    @property
    def shown(self) -> str:
        """What it is, for an error."""
        return f"{self.text}: {type(self.value).__name__}" if self._is_there else self.text


@dataclass(frozen=True, eq=False)
class ClassAttributes:
    """What a new object has by its class, as long as it has none of its own by these names."""

    held: dict[str, Any]


@functools.lru_cache(maxsize=1024)
def class_attributes(kind: type, own: frozenset[str]) -> ClassAttributes:
    """What objects of a class find in it: attributes that could be changed, but for those that they have themselves."""
    held = {name: value for name, value in _attributes(kind).items() if name not in own and not name.startswith("__")}
    things = {name: Thing.of(value, name) for name, value in held.items()}
    return ClassAttributes({name: held[name] for name, one in things.items() if one.changeable or one.children})


def _attributes(value: Any) -> dict[str, Any]:
    """What an object holds by name, as far as it can be asked without running code."""
    if isinstance(value, ClassAttributes):
        return value.held
    if isinstance(value, type):
        held_by_all = {name: held for base in reversed(value.__mro__) for name, held in vars(base).items()}
        return {**held_by_all, "__dict__": held_by_all, "__mro__": value.__mro__, "__bases__": value.__bases__}
    held = getattr(value, "__dict__", None)
    if not isinstance(held, dict):
        return {}
    if not isinstance(value, enum.Enum):
        return held
    # Its class is no part of a member, although Python keeps it there.
    return {**{name: one for name, one in held.items() if name != "__objclass__"}, "value": held.get("_value_")}


def _is_code(value: Any) -> bool:
    """Whether an object is only there to be called: a function, or what libraries make of some."""
    return isinstance(value, _CODE) or (callable(value) and not isinstance(type(value).__call__, types.FunctionType))


def _is_frozen_record(value: Any) -> bool:
    settings = getattr(type(value), "__dataclass_params__", None) or getattr(type(value), "__struct_config__", None)
    return bool(settings is not None and settings.frozen)


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | types.MappingProxyType):
        for key, held in value.items():
            yield key
            yield held
    elif isinstance(value, list | tuple | set | frozenset | collections.deque):
        yield from value
    elif type(value).__module__ != "builtins" and not isinstance(value, ClassAttributes):
        yield from _attributes(value).values()
        names = (name for base in type(value).__mro__ for name in getattr(base, "__slots__", ()))
        yield from (getattr(value, name) for name in names if isinstance(name, str) and hasattr(value, name))


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression may be: one of the things `is_`, or something new that `holds` some, however deep."""

    is_: frozenset[Thing] = frozenset()
    holds: frozenset[Thing] = frozenset()

    @property
    def all(self) -> frozenset[Thing]:
        """All things that it may be or hold."""
        return self.is_ | self.holds

    def part(self, attribute: str = "") -> Value:
        """What a part of it may be: an item, or an attribute."""
        if not self.is_ and not self.holds:
            return self
        inside = (thing.attribute(attribute) if attribute else thing.children for thing in self.is_)
        return Value(frozenset(part for parts in inside for part in parts) | self.holds, self.holds)

    def any_attribute(self) -> Value:
        """What an attribute of it may be whose name is not known."""
        every = (thing.attribute(name) for thing in self.is_ for name in thing.names)
        return Value(frozenset(part for parts in every for part in parts))

    def attribute_of(self, path: str) -> Value:
        """What an attribute of it may be, and an attribute of that: `a.b`."""
        return functools.reduce(Value.part, path.split("."), self)

    def given_by(self, method: str, given: Value) -> Value:
        """What a method of it may give: a part, what it was given, or something new that holds these."""
        inside = self.part()
        new = Value(holds=inside.all | self.holds | given.all)
        if method in _VIEWING and all(isinstance(thing.value, _OF_CONTAINERS) for thing in self.is_):
            return new
        return join(inside, given, new)


NOTHING: Final = Value()

Env = dict[str, Value]
"""What the variables of a function may be, and what elements may hold."""


def join(*values: Value) -> Value:
    """What may be any of some values."""
    several = [value for value in values if value.is_ or value.holds]
    if len(several) < 2:
        return several[0] if several else NOTHING
    is_: frozenset[Thing] = frozenset().union(*(value.is_ for value in several))
    holds: frozenset[Thing] = frozenset().union(*(value.holds for value in several))
    return Value(is_, holds)


def is_changer(thing: Thing, method: str) -> bool:
    """Whether a method of an object changes it, as far as its name tells; the user's own are looked into instead."""
    if method not in _CHANGERS:
        return False
    if thing.identity == 0:
        return thing.hint is Any or (get_origin(thing.hint) or thing.hint) in _OF_CONTAINERS
    return thing.changeable and hasattr(type(thing.value), method)


def changes_argument(function: Any) -> int | None:
    """Which argument a function changes, None if none that is known."""
    if any(function is known for known in _FIRST_CHANGED):
        return 0
    if isinstance(function, types.MethodDescriptorType) and function.__objclass__ in _OF_CONTAINERS:
        return 0 if function.__name__ in _CHANGERS else None
    return None


def made_by(function: Any, given: Value) -> Value:
    """What a function makes of what it is given, as far as that is known without looking into it."""
    if effect_of(function) == PLAIN:
        return NOTHING
    if any(function is known for known in _GIVING):
        return join(given, given.part())
    if any(function is known for known in _NEW):
        return Value(holds=given.part().all)
    # Whatever it is, it may hold what it is given, or parts of that (a ChainMap, a MappingProxyType).
    return Value(holds=given.all | given.part().all | given.part().part().all)


def value_of(meaning: Any, text: str) -> Value:
    """An object of outside as what an expression may be."""
    thing = Thing.of(meaning, text)
    return Value(frozenset((thing,))) if thing.matters else NOTHING


def as_lambda(meaning: Any, node: ast.Call) -> ast.Lambda | None:
    """What `methodcaller`, `itemgetter` and `attrgetter` make, written as a function."""
    given, first = ast.Name("given", ast.Load()), node.args[0] if node.args else None
    body: ast.expr
    if meaning is operator.methodcaller and first is not None:
        # A name that is not known may be that of a method that changes anything.
        name = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else "clear"
        body = ast.Call(ast.Attribute(given, name, ast.Load()), node.args[1:], node.keywords)
    elif meaning is operator.attrgetter and node.args and all(map(_is_text, node.args)):
        paths = [_path(given, path) for path in node.args]
        body = paths[0] if len(paths) == 1 else ast.Tuple(paths, ast.Load())
    elif (meaning is operator.itemgetter or meaning is operator.attrgetter) and first is not None:
        # Whichever part it is.
        body = ast.Subscript(given, ast.Constant(0), ast.Load())
    else:
        return None
    made = ast.Lambda(ast.arguments([], [ast.arg("given")], None, [], [], None, []), body)
    return ast.fix_missing_locations(ast.copy_location(made, node))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _path(owner: ast.expr, path: ast.expr) -> ast.expr:
    for name in str(ast.literal_eval(path)).split("."):
        owner = ast.Attribute(owner, name, ast.Load())
    return owner


def as_load(target: ast.expr) -> ast.expr:
    """What a place holds before something is put there."""
    match target:
        case ast.Subscript(value=value, slice=place):
            return ast.copy_location(ast.Subscript(value, place, ast.Load()), target)
        case ast.Attribute(value=value, attr=name):
            return ast.copy_location(ast.Attribute(value, name, ast.Load()), target)
    return target


def member_of(kind: type, name: str) -> Any:
    """What stands under a name in a class or in one of its bases; None if nothing does."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def members_named(kinds: Iterable[type], names: Iterable[str], *, setting: bool) -> Iterator[tuple[type, Any, Any]]:
    """What stands under some names in classes, and the function that is run by naming it, or by setting it."""
    for kind, name in itertools.product(kinds, names):
        member = member_of(kind, name)
        code = getattr(member, "fset" if setting else "fget", None) or getattr(member, "func", member)
        if not setting or code is not member:
            yield kind, member, code


def getter_of(kind: type, name: str) -> Any:
    """The function that a property of a class runs; None if there is no such property."""
    found = member_of(kind, name)
    return found.fget if isinstance(found, property) else getattr(found, "func", None)


def new_object(kind: type, own: frozenset[str] = frozenset()) -> Value:
    """An object of a class that is no object of outside: it has what its class has, but for what is its own."""
    fields = getattr(kind, "__dataclass_fields__", getattr(kind, "_fields", ()))
    by_class = class_attributes(kind, own.union(fields, stored_by(vars(kind).get("__init__"))))
    return Value(frozenset((Thing.of(by_class, kind.__name__),))) if by_class.held else NOTHING


@functools.lru_cache(maxsize=1024)
def bare(function: types.FunctionType) -> types.FunctionType:
    """A decorator's function as it is written itself, and not as the function that it stands for."""
    parts = (function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made = types.FunctionType(*parts)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__code__.co_qualname
    return made


def referenced(function: Any) -> Iterator[Value]:
    """What a function that can't be read may give: all objects of outside that its code names, and parts of them."""
    if not isinstance(function, types.FunctionType):
        return
    named = [(name, function.__globals__[name]) for name in function.__code__.co_names if name in function.__globals__]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            named.append((name, cell.cell_contents))
    for name, held in (*named, *((function.__name__, one) for one in function.__defaults__ or ())):
        whole = value_of(held, name)
        yield from (whole, whole.part(), whole.part().part())


def stored_by(function: Any) -> Iterator[str]:
    """The attributes that a function sets, of whatever."""
    if isinstance(function, types.FunctionType):
        yield from (one.argval for one in dis.get_instructions(function) if one.opname == "STORE_ATTR")


def given_to(
    tree: ast.FunctionDef | ast.Lambda, args: Sequence[Value], named: Mapping[str, Value], defaults: Env
) -> Env:
    """What parameters stand for in a call; "" names what comes as `**x`, whose names are not known."""
    names = [argument.arg for argument in (*tree.args.posonlyargs, *tree.args.args)]
    spread = named.get("", NOTHING).part()
    env = dict.fromkeys((argument.arg for argument in arguments_of(tree.args)), NOTHING)
    env |= {name: join(defaults.get(name, NOTHING), spread) for name in env if name not in named}
    env |= dict(zip(names, args, strict=False))
    if tree.args.vararg is not None:
        env[tree.args.vararg.arg] = Value(holds=join(*args[len(names) :]).all)
    if tree.args.kwarg is not None:
        others = (value for name, value in named.items() if name and name not in env)
        env[tree.args.kwarg.arg] = Value(holds=join(spread, *others).all)
    return env | {name: value for name, value in named.items() if name in env}


def written_defaults(tree: ast.FunctionDef | ast.Lambda) -> dict[str, ast.expr]:
    """The defaults of the parameters of a function inside a method, as they are written."""
    names = [argument.arg for argument in (*tree.args.posonlyargs, *tree.args.args)]
    late = dict(zip(names[::-1], tree.args.defaults[::-1], strict=False))
    only = zip(tree.args.kwonlyargs, tree.args.kw_defaults, strict=True)
    return late | {argument.arg: default for argument, default in only if default is not None}


def defaults_of(function: Any, tree: ast.FunctionDef) -> Env:
    """What parameters stand for that a call leaves out: one object for all calls."""
    if isinstance(function, ast.Attribute):
        return {}
    names = [argument.arg for argument in (*tree.args.posonlyargs, *tree.args.args)]
    values = function.__defaults__ or ()
    late = dict(zip(names[::-1], values[::-1], strict=False)) | (function.__kwdefaults__ or {})
    return {name: value_of(value, f"the default of `{name}`") for name, value in late.items()}


def merged(one: Env | None, other: Env | None) -> Env | None:
    """What variables may be where two ways meet; None is a way that does not get there."""
    if one is None or other is None:
        return one if other is None else other
    return {name: join(one.get(name, NOTHING), other.get(name, NOTHING)) for name in {**one, **other}}
