"""Values as msgpack bytes of their declared type, checked; never pickle.

A value must come back exactly as it was: an `int` where `float` is declared, a NumPy scalar, or a tuple where a list
is declared would change its nature after a restart, so it is refused when it is saved. NaN may be a value, but neither
a key of a dict nor a member of a set: Python finds it there by identity alone, and it comes back as another object.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import types
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import inspect

from millpond.errors import StateError
from millpond.keygroups import INT_MAX, INT_MIN
from millpond.state.codec.adapted import decoder, encode, same_factory, type_info, types_within
from millpond.state.codec.canonical import UNFIT, canonical_set, encode_canonical
from millpond.state.codec.nesting import NESTED_MAX, field_names, nests_without_end, too_deep
from millpond.state.codec.shown import shown
from millpond.state.codec.typenames import type_text

_SCALARS = (int, float, str, bytes, bool)
_ARRAY32 = b"\xdd"
_TOO_DEEP = f"more than {NESTED_MAX} levels of collections and records"

_STRANGE = (msgspec.MsgspecError, *UNFIT)
"""What the decoder raises for bytes that it can't read; text that is none in UTF-8 has no class of its own."""


class ValueCodec:
    """Encodes, checks and decodes the values of one declared type.

    A value is a tree: an object that is in two places of it comes back as two.

    >>> row = [1]
    >>> codec = ValueCodec(list[list[int]])
    >>> first, second = codec.renew([row, row])
    >>> first == second, first is second
    (True, False)
    """

    def __init__(self, hint: Any) -> None:
        self.hint = hint
        try:
            info = type_info(hint)
            kinds = _kinds(info)
            self._one: msgspec.msgpack.Decoder[Any] = decoder(hint)
            self._many: msgspec.msgpack.Decoder[list[Any]] = decoder(list[hint])
        except (TypeError, NameError) as error:
            raise _unkept(hint, str(error)) from None
        if inspect.CustomType in kinds:
            raise _unkept(hint, "it holds a class that has no stored form")
        # Sets have no order of their own; sorting makes equal values equal bytes. Dicts keep theirs.
        self._holds_sets = not kinds.isdisjoint((inspect.SetType, inspect.FrozenSetType))
        # Dicts that were reordered keep the order of their history where msgspec looks.
        rebuilt = self._holds_sets or _holds_ordered(info)
        self._encode: Callable[[Any], bytes] = encode_canonical if rebuilt else encode
        self._set_of = _set_of(hint)
        self._nests = nests_without_end(info)
        self._scalars = _scalar_types(hint)
        self._columns = _column_types(hint)
        self._items = _item_types(hint)
        # One type per column is the common case, and comparing whole lists of types the cheapest check of it.
        single = self._columns is not None and all(len(allowed) == 1 for allowed in self._columns)
        self._pattern = [kind for allowed in self._columns or () for kind in allowed] if single else []

    def __reduce__(self) -> tuple[Any, ...]:
        # Made again where a copy of a program is made: what msgspec builds can't be copied.
        return type(self), (self.hint,)

    @property
    def immutable(self) -> bool:
        """Whether no value of this type can be changed in place."""
        return self._scalars is not None or self._columns is not None

    def kept(self, value: Any) -> Any:
        """Return what restores a value, whatever becomes of it: itself, a copy of its items, or its encoding."""
        if self.immutable:
            return value
        return self.encode(value) if self._items is None else value.copy()

    def restored(self, kept: Any) -> Any:
        """Return the value of which `kept` was taken."""
        return kept if self.immutable or self._items is not None else self.decode(kept)

    @property
    def scalars(self) -> frozenset[type] | None:
        """The types of the values, if these are numbers, texts and None alone."""
        return self._scalars

    @property
    def holds_sets(self) -> bool:
        """Whether values of this type are or hold sets, whose order is that of their history until they are stored."""
        return self._holds_sets

    def encode(self, value: Any) -> bytes:
        """Encode one value, checked."""
        return self.encode_many((value,))[0]

    def encode_many(self, values: Sequence[Any]) -> list[bytes]:
        """Encode values in order, each checked against the declared type."""
        encode = self._encode
        if self._scalars is not None:
            if not self._scalars.issuperset(map(type, values)):
                self._refuse(next(v for v in values if type(v) not in self._scalars))
        elif self._columns is not None and values:
            self._check_columns(values)
        try:
            encoded = list(map(encode, values))
        except UNFIT as error:
            why = _TOO_DEEP if isinstance(error, RecursionError) else str(error)
            raise self._misfit(self._first_failing(encode, values), why) from None
        if self._scalars is None and self._columns is None:
            for value, data in zip(values, encoded, strict=True):
                # Each level takes a byte at least.
                if self._nests and len(data) > NESTED_MAX and too_deep(value):
                    raise self._misfit(value, _TOO_DEEP)
                if self._items is None:
                    self._check_round_trip(value, data)
                elif not _has_items(value, self._items):
                    self._refuse(value)
        return encoded

    def decode(self, data: bytes) -> Any:
        """Decode one value."""
        try:
            return self._one.decode(data)
        except _STRANGE as error:
            raise self._foreign(error) from error

    def decode_many(self, values: Sequence[bytes]) -> list[Any]:
        """Decode values in order: one call for all of them."""
        try:
            return self._many.decode(_ARRAY32 + len(values).to_bytes(4, "big") + b"".join(values))
        except _STRANGE as error:
            raise self._foreign(error) from error

    def check(self, value: Any) -> None:
        """Refuse a value that would not come back as it is."""
        if type(value) is int and self._scalars is not None and int in self._scalars and INT_MIN <= value <= INT_MAX:
            return
        self.encode_many((value,))

    @property
    def flat(self) -> tuple[Callable[[Any], bytes], type, frozenset[type]] | None:
        """Of lists of scalars, what encodes one, what it must be, and what its items; None of other types.

        What encodes it raises one of `UNFIT` for what can't be stored, and `check` says what it is.
        """
        if self._items is None or len(self._items) != 1:
            return None
        return self._encode, list, self._items[0]

    def renew_coded(self, value: Any) -> tuple[Any, bytes]:
        """Return a value that can be changed as `renew` does, and its encoding."""
        data = self.encode(value)
        return (self.decode(data) if self._set_of is None else self.renew(value)), data

    def renew(self, value: Any) -> Any:
        """Return the value as it comes back from a checkpoint: checked, and made of objects that nobody else has.

        One that can't be changed is given back as it is.
        """
        if self.immutable:
            self.encode_many((value,))
            return value
        if self._set_of is None:
            return self.decode(self.encode(value))
        kind, allowed = self._set_of
        members: set[Any] | frozenset[Any] = value
        if type(value) is not kind or not allowed.issuperset(map(type, members)):
            self._refuse(value)
        if float in allowed and any(map(has_nan, members)):
            self._refuse(value)
        try:
            return canonical_set(members)
        except UNFIT as error:
            raise self._misfit(value, str(error)) from None

    def _check_columns(self, values: Sequence[Any]) -> None:
        assert self._columns is not None
        width = len(self._columns)
        if set(map(type, values)) != {tuple} or set(map(len, values)) != {width}:
            self._refuse(next(v for v in values if type(v) is not tuple or len(v) != width))
        if self._pattern and list(map(type, chain.from_iterable(values))) == self._pattern * len(values):
            return
        for place, allowed in enumerate(self._columns):
            if not allowed.issuperset(map(type, map(itemgetter(place), values))):
                self._refuse(next(v for v in values if type(v[place]) not in allowed))

    def _check_round_trip(self, value: Any, data: bytes) -> None:
        try:
            back = self._one.decode(data)
        except (msgspec.ValidationError, RecursionError) as error:
            raise self._misfit(value, _TOO_DEEP if isinstance(error, RecursionError) else str(error)) from None
        if self._encode(back) != data or not _alike(back, value):
            self._refuse(value)

    def _first_failing(self, encode: Callable[[Any], bytes], values: Iterable[Any]) -> Any:
        for value in values:
            try:
                encode(value)
            except UNFIT:
                return value
        raise AssertionError

    def _refuse(self, value: Any) -> None:
        raise self._misfit(value, None)

    def _misfit(self, value: Any, why: str | None) -> StateError:
        found = shown(value, 120)
        return StateError(
            "MP209",
            "a value does not fit the declared type of its state",
            expected=type_text(self.hint),
            found=f"{found} ({why})" if why else found,
            hint="convert it before you store it, e.g. float(x), int(x), list(x)",
        )

    def _foreign(self, cause: Exception) -> StateError:
        return StateError(
            "MP215",
            "a stored value is not of the declared type of its state",
            expected=type_text(self.hint),
            found=str(cause),
            hint="was a class changed since the checkpoint was made? run with the definition that wrote it",
        )


def _unkept(hint: Any, why: str) -> StateError:
    return StateError(
        "MP208",
        "this type can't be kept in state",
        expected="numbers, str, bytes, bool, None, dates, Decimal, UUID, collections, dataclasses, enums",
        found=f"{type_text(hint)} ({why})",
    )


def _members(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) in (Union, types.UnionType):
        return get_args(hint)
    return (hint,)


def _scalar_types(hint: Any) -> frozenset[type] | None:
    kinds = {type(None) if member is None else member for member in _members(hint)}
    if kinds <= {*_SCALARS, type(None)}:
        return frozenset(kinds)
    return None


def _column_types(hint: Any) -> tuple[frozenset[type], ...] | None:
    if get_origin(hint) is not tuple:
        return None
    columns = [_scalar_types(part) if part is not Ellipsis else None for part in get_args(hint)]
    if not columns or None in columns:
        return None
    return tuple(column for column in columns if column is not None)


def _item_types(hint: Any) -> tuple[frozenset[type], ...] | None:
    if get_origin(hint) not in (list, dict):
        return None
    items = [_scalar_types(part) for part in get_args(hint)]
    known = tuple(item for item in items if item is not None)
    return known if len(known) == len(items) else None


def _set_of(hint: Any) -> tuple[type, frozenset[type]] | None:
    """Return the type of a set and of its members, if these are scalars."""
    origin = get_origin(hint)
    if origin is not set and origin is not frozenset:
        return None
    members = _scalar_types(get_args(hint)[0])
    return None if members is None else (origin, members)


def _has_items(value: Any, allowed: tuple[frozenset[type], ...]) -> bool:
    """Return whether a value is a list or a dict of exactly these scalars: then it comes back as it is."""
    if len(allowed) == 1:
        return type(value) is list and allowed[0].issuperset(map(type, value))
    keys, items = allowed
    if type(value) is not dict or (float in keys and any(map(has_nan, value))):
        return False
    return keys.issuperset(map(type, value)) and items.issuperset(map(type, value.values()))


def _kinds(hint: inspect.Type) -> set[type]:
    """Return the kinds of all types that a type is made of; a class may mention itself."""
    return {type(part) for part in types_within(hint)}


def _holds_ordered(hint: inspect.Type) -> bool:
    return any(getattr(part, "cls", None) is collections.OrderedDict for part in types_within(hint))


def has_nan(key: Any) -> bool:
    """Return whether a key of a dict or a member of a set is, or holds, NaN: Python finds that by identity alone."""
    if isinstance(key, tuple | frozenset):
        return any(map(has_nan, key))
    return isinstance(key, float | complex | decimal.Decimal) and bool(key != key)  # noqa: PLR0124


def _alike(back: Any, value: Any) -> bool:
    """Return whether a decoded value is what was encoded: equal, of the same types, and in the same order."""
    if type(back) is not type(value):
        return False
    waiting: list[tuple[Any, Any]] = []
    if not _like_up_to_parts(back, value, waiting):
        return False
    while waiting:
        for one, other in zip(*waiting.pop(), strict=True):
            if type(one) is not type(other):
                return False
            if type(one) in _SCALARS:
                # Most of what is compared. NaN is not equal to itself, so the text decides there.
                if one != other and repr(one) != repr(other):
                    return False
            elif not _like_up_to_parts(one, other, waiting):
                return False
    return True


def _like_up_to_parts(back: Any, value: Any, waiting: list[tuple[Any, Any]]) -> bool:
    """Return whether two values of one type are alike if their parts are, which are left for later."""
    match back:
        case collections.deque() if back.maxlen != value.maxlen:
            return False
        case list() | tuple() | collections.deque():
            waiting.append((back, value))
            return len(back) == len(value)
        case dict():
            if type(back) is collections.defaultdict and not same_factory(back, value):
                return False
            waiting += (back.keys(), value.keys()), (back.values(), value.values())
            return len(back) == len(value) and not any(map(has_nan, value))
        case set() | frozenset():
            return bool(back == value) and set(map(type, back)) == set(map(type, value))
        case datetime.datetime() | datetime.time():
            # The stored form knows UTC and no other zone, and the same moment of another zone is equal to it.
            return bool(back == value) and back.fold == value.fold and str(back.tzinfo) == str(value.tzinfo)
        case decimal.Decimal():
            # A signalling NaN raises wherever it is compared.
            return not value.is_snan() and (bool(back == value) or repr(back) == repr(value))
    names = field_names(back)
    if names:
        waiting.append(([getattr(back, name) for name in names], [getattr(value, name) for name in names]))
        return True
    return bool(back == value) or repr(back) == repr(value)
