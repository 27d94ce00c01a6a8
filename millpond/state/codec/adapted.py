"""Types that msgspec does not know, told to it: deques, the dicts of `collections`, classes with annotated fields.

A deque is stored as its bound and its items, a dict of any kind as a dict, an object as its annotated attributes; what
else it holds does not survive. Objects are made again without running a line of their class. What a `defaultdict` makes
of a missing key follows from its type.

>>> from collections import defaultdict, deque
>>> data = encode({"a": deque([1, 2], maxlen=3)})
>>> decoder(dict[str, deque[int]]).decode(data)
{'a': deque([1, 2], maxlen=3)}
>>> decoder(defaultdict[str, defaultdict[str, int]]).decode(encode({}))["a"]["b"]
0
"""

from __future__ import annotations

import collections
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from inspect import getattr_static
from threading import RLock
from typing import Any, Final, get_args, get_origin

import msgspec
from msgspec import inspect

from millpond.state.codec.classes import UNRESOLVED, is_plain_object, object_fields
from millpond.state.codec.nesting import types_in

DICTS: Final = (collections.defaultdict, collections.OrderedDict, collections.Counter)
"""Kinds of dicts that come back as what they were."""

_FLAT: Final = frozenset((int, float, str, bytes, bool))
FACTORIES: Final = (
    *(int, float, str, bytes, bool, list, dict, set, frozenset, tuple),
    *(collections.deque, collections.OrderedDict, collections.Counter),
)
"""Types that, called, give what is empty or zero."""


def _encode_hook(value: Any) -> Any:
    if type(value) is collections.deque:
        return [value.maxlen, list(value)]
    if is_plain_object(type(value)):
        return object_parts(value)
    # As msgspec says it of what it does not know.
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


encode: Final = msgspec.msgpack.Encoder(enc_hook=_encode_hook).encode
"""Encode a value of any type that state can hold."""


def decoder(hint: Any) -> msgspec.msgpack.Decoder[Any]:
    """Return what decodes values of a type; the `__post_init__` of a dataclass is not run again."""
    completed = (part.cls for part in types_within(type_info(hint)) if isinstance(part, inspect.DataclassType))
    with _uncompleted([kind for kind in completed if hasattr(kind, _COMPLETING)]):
        return msgspec.msgpack.Decoder(hint, dec_hook=_decode_hook)


_COMPLETING: Final = "__post_init__"
_DESCRIBED: Final = "__msgspec_cache__"
"""Where msgspec keeps what it found out about a class, its `__post_init__` among that."""

_completing = RLock()


class _OfObjectsAlone:
    """A method that objects have and their class does not show: who makes objects meanwhile sees no difference."""

    def __init__(self, method: Any) -> None:
        self._method = method

    def __get__(self, made: Any, kind: type) -> Any:
        if made is None:
            raise AttributeError(_COMPLETING)
        return self._method.__get__(made, kind)


@contextmanager
def _uncompleted(kinds: list[type]) -> Iterator[None]:
    """Let msgspec, which calls `__post_init__` for what it decodes, look at classes without seeing theirs."""
    with _completing:
        before = [(kind, name, vars(kind).get(name)) for kind in kinds for name in (_COMPLETING, _DESCRIBED)]
        methods = [_OfObjectsAlone(getattr_static(kind, _COMPLETING)) for kind in kinds]
        try:
            for kind, method in zip(kinds, methods, strict=True):
                setattr(kind, _COMPLETING, method)
                if _DESCRIBED in vars(kind):
                    delattr(kind, _DESCRIBED)
            yield
        finally:
            for kind, name, member in before:
                if member is not None:
                    setattr(kind, name, member)
                elif name in vars(kind):
                    delattr(kind, name)


def object_parts(value: Any) -> dict[str, Any]:
    """Return the annotated attributes of an object; one that is missing has no stored form."""
    try:
        return {name: getattr(value, name) for name in object_fields(type(value))}
    except AttributeError as error:
        raise TypeError(f"an object without a value for `{error.name}`") from None


def _decode_hook(hint: Any, stored: Any) -> Any:
    return _maker(hint)(stored)


@lru_cache(maxsize=1024)
def _maker(hint: Any) -> Callable[[Any], Any]:
    """Return what makes a value of a type of what msgspec read without knowing it."""
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if kind is collections.deque:
        read = _reader(list[arguments[0] if arguments else Any])  # type: ignore[misc]
        return lambda stored: _made_deque(read, stored)
    if kind in DICTS:
        read = _reader(stored_dict(hint))
        if kind is collections.defaultdict:
            factory = factory_of(hint)
            return lambda stored: collections.defaultdict(factory, read(stored))
        return lambda stored: _filled(kind(), read(stored))
    assert is_plain_object(kind), hint
    readers = {name: _reader(field) for name, field in _field_hints(kind).items()}
    return lambda stored: _made_object(kind, readers, stored)


def _reader(hint: Any) -> Callable[[Any], Any]:
    known = decoder(hint)
    arguments = get_args(hint)
    if get_origin(hint) is list and arguments[0] in _FLAT:
        wanted = {arguments[0]}
        return lambda stored: stored if wanted.issuperset(map(type, stored)) else known.decode(encode(stored))
    return lambda stored: known.decode(encode(stored))


def _made_deque(read: Callable[[Any], Any], stored: Any) -> Any:
    if type(stored) is not list or len(stored) != 2 or not (stored[0] is None or type(stored[0]) is int):
        raise msgspec.ValidationError("Expected the bound and the items of a deque")
    if type(stored[1]) is not list:
        raise msgspec.ValidationError(f"Expected `array`, got `{type(stored[1]).__name__}`")
    return collections.deque(read(stored[1]), stored[0])


def _filled(empty: Any, items: dict[Any, Any]) -> Any:
    # Counter.update would add up, and OrderedDict needs its own way.
    for key, item in items.items():
        empty[key] = item
    return empty


def _made_object(kind: Any, readers: dict[str, Callable[[Any], Any]], stored: Any) -> Any:
    if type(stored) is not dict or stored.keys() != readers.keys():
        raise msgspec.ValidationError(f"Expected an object with {', '.join(readers)}")
    made = object.__new__(kind)
    for name, read in readers.items():
        object.__setattr__(made, name, read(stored[name]))
    return made


def _field_hints(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in object_fields(kind)}


def stored_dict(hint: Any) -> Any:
    """Return the dict that a dict of `collections` is stored as."""
    arguments = get_args(hint)
    if (get_origin(hint) or hint) is collections.Counter:
        return dict[arguments[0] if arguments else Any, int]  # type: ignore[misc]
    whole: Any = dict
    return whole[arguments or (Any, Any)]


@dataclass(frozen=True, slots=True)
class Nested:
    """Makes the `defaultdict` of a missing key; `inner` makes that of one in it."""

    inner: Any

    def __call__(self) -> collections.defaultdict[Any, Any]:
        """Make the inner one, empty."""
        return collections.defaultdict(self.inner)


def factory_of(hint: Any) -> Any:
    """Return what a `defaultdict` of a type makes of a missing key: what is empty or zero; None if there is no such."""
    arguments = get_args(hint)
    item = arguments[1] if len(arguments) == 2 else None
    kind = get_origin(item) or item
    if kind is collections.defaultdict:
        return Nested(factory_of(item))
    return kind if kind in FACTORIES else None


def same_factory(told: collections.defaultdict[Any, Any], value: collections.defaultdict[Any, Any]) -> bool:
    """Return whether a `defaultdict` makes of a missing key what another one does, that its type tells."""
    wanted, own = told.default_factory, value.default_factory
    if own is None or wanted is None or own is wanted:
        return own is wanted
    made = own()
    return type(made) is type(wanted()) and bool(made == wanted())


# --- what a type is made of


def types_within(hint: inspect.Type) -> list[inspect.Type]:
    """Return all types that a type is made of; a class may mention itself."""
    seen: dict[int, inspect.Type] = {}
    waiting = [hint]
    while waiting:
        part = waiting.pop()
        if id(part) not in seen:
            seen[id(part)] = part
            waiting += types_in(part)
    return list(seen.values())


def type_info(hint: Any) -> inspect.Type:
    """Return msgspec's description of a type, with the types in it that msgspec does not know."""
    described: inspect.Type = _Describing().described(inspect.type_info(hint), hint)
    return described


class AdaptedType(inspect.Type):
    """A type that msgspec does not know: its class, what it is made of, or the fields of an object."""

    cls: type
    parts: tuple[inspect.Type, ...] = ()
    fields: tuple[inspect.Field, ...] = ()


_RECORDS: Final = (inspect.DataclassType, inspect.NamedTupleType, inspect.TypedDictType, inspect.StructType)


class _Describing:
    """Describes records once each: a class may mention itself."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def described(self, info: Any, hint: Any) -> Any:
        """Return a description in which no part is unknown that we know, by the hint that it is of."""
        while get_origin(hint) is typing.Annotated:
            hint = get_args(hint)[0]
        if isinstance(info, inspect.Metadata):
            return type(info)(self.described(info.type, hint), info.extra_json_schema, info.extra)
        if isinstance(info, inspect.CustomType):
            return self._adapted(info, hint)
        if isinstance(info, _RECORDS):
            return self._record(info, hint)
        arguments = [part for part in get_args(hint) if part is not Ellipsis]
        if isinstance(info, inspect.UnionType):
            return inspect.UnionType(tuple(self.described(inspect.type_info(part), part) for part in arguments))
        if isinstance(info, inspect.TupleType):
            pairs = zip(info.item_types, arguments, strict=True)
            return inspect.TupleType(tuple(self.described(part, own) for part, own in pairs))
        if isinstance(info, inspect.DictType) and len(arguments) == 2:
            return msgspec.structs.replace(
                info,
                key_type=self.described(info.key_type, arguments[0]),
                value_type=self.described(info.value_type, arguments[1]),
            )
        if hasattr(info, "item_type") and len(arguments) == 1:
            return msgspec.structs.replace(info, item_type=self.described(info.item_type, arguments[0]))
        return info

    def _adapted(self, info: inspect.CustomType, hint: Any) -> Any:
        kind: Any = info.cls
        if kind is collections.deque:
            return AdaptedType(kind, (self._of(get_args(hint)[0] if get_args(hint) else Any),))
        if kind in DICTS:
            stored = self._of(stored_dict(hint))
            return AdaptedType(kind, (stored.key_type, stored.value_type))
        return self._object(kind) if is_plain_object(kind) else info

    def _of(self, hint: Any) -> Any:
        return self.described(inspect.type_info(hint), hint)

    def _object(self, kind: Any) -> Any:
        if kind in self._known:
            return self._known[kind]
        found = self._known[kind] = AdaptedType(kind)
        hints = _field_hints(kind)
        fields = tuple(inspect.Field(name, name, self._of(part)) for name, part in hints.items())
        msgspec.structs.force_setattr(found, "fields", fields)
        return found

    def _record(self, info: Any, hint: Any) -> Any:
        if info.cls in self._known:
            return self._known[info.cls]
        found = self._known[info.cls] = msgspec.structs.replace(info)
        try:
            hints = typing.get_type_hints(get_origin(hint) or info.cls, include_extras=True)
        except UNRESOLVED:
            return found
        fields = tuple(
            msgspec.structs.replace(field, type=self.described(field.type, _without_mark(hints.get(field.name))))
            for field in info.fields
        )
        msgspec.structs.force_setattr(found, "fields", fields)
        return found


def _without_mark(hint: Any) -> Any:
    """Return the type of a field of a TypedDict, without `Required` and `NotRequired`."""
    marked = get_origin(hint) in (typing.Required, typing.NotRequired)
    return get_args(hint)[0] if marked else hint
