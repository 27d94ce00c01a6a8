"""The canonical order of sets: by the bytes of their members, whatever was put in and taken out before.

A Python set is walked in the order of its table, which follows from the hashes of the members, from the order in which
they came, and from all that was ever in it. Stored bytes have the members in their canonical order, and a decoder puts
them into a new set one by one; so two sets with equal members that were both decoded are walked alike, popped alike,
and stay alike under the same changes, in every process with the same hash seed. `canonical_set` gives a live set that
nature without a round trip. Nothing short of a new set will do: `clear` leaves the place where `pop` looks next.

>>> encode_canonical({"b", "a"}) == encode_canonical({"a", "b"}), in_canonical_order({10, 9, -1})
(True, [9, 10, -1])
"""

from __future__ import annotations

import copy
import dataclasses
from collections import deque
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import msgspec

from millpond.state.codec.adapted import encode, object_parts
from millpond.state.codec.classes import is_plain_object

_Set = TypeVar("_Set", bound="set[Any] | frozenset[Any]")

UNFIT = (TypeError, OverflowError, ValueError, RecursionError)
"""What the encoder raises for a value that it can't write."""

_encode = encode
_FLAT = frozenset((int, float, str, bytes, bool, type(None)))


def encode_canonical(value: Any) -> bytes:
    """Encode a value so that equal ones are equal bytes: sets in their canonical order, all else in its own."""
    return _encode(_sorted_sets(value))


def in_canonical_order(members: Collection[Any]) -> list[Any]:
    """Return the members of a set in their canonical order; raises one of `UNFIT` if one has no stored form."""
    return sorted(members, key=_encoder_of(members))


def _encoder_of(members: Collection[Any]) -> Callable[[Any], bytes]:
    """Return what encodes members: numbers and text hold no sets, and need no look into them."""
    return _encode if _FLAT.issuperset(map(type, members)) else encode_canonical


def canonical_set(value: _Set) -> _Set:
    """Return a new set of the same members, as if encoded and decoded; its members must hold no sets."""
    return type(value)(in_canonical_order(value))


def canonical_value(value: Any) -> Any:
    """Return a value of no declared type with its sets built again, also those in lists, tuples and dicts.

    A set whose members have no stored form stays as it is, too.
    """
    kind = type(value)
    if kind is set or kind is frozenset:
        try:
            return kind(map(canonical_value, in_canonical_order(value)))
        except UNFIT:
            return value
    if kind is list or kind is tuple:
        return kind(map(canonical_value, value))
    return {key: canonical_value(item) for key, item in value.items()} if kind is dict else value


def _sorted_sets(value: Any) -> Any:
    """Return the value in a form that is encoded alike, each set a list in the order of its members' bytes."""
    if isinstance(value, set | frozenset):
        return [msgspec.Raw(data) for data in sorted(map(_encoder_of(value), value))]
    if isinstance(value, list | tuple):
        return [_sorted_sets(item) for item in value]
    if type(value) is deque:
        return [value.maxlen, [_sorted_sets(item) for item in value]]
    if isinstance(value, dict):
        if not _FLAT.issuperset(map(type, value)):
            return _sorted_pairs(value)
        return {key: _sorted_sets(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _sorted_sets(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if is_plain_object(type(value)):
        return _sorted_sets(object_parts(value))
    return _sorted_struct(value) if isinstance(value, msgspec.Struct) else value


def _sorted_pairs(value: dict[Any, Any]) -> msgspec.Raw:
    """Return a dict whose keys may hold sets: as lists they could not be keys, so the map is written here."""
    pairs = (encode_canonical(part) for pair in value.items() for part in pair)
    return msgspec.Raw(_map_head(len(value)) + b"".join(pairs))


def _map_head(count: int) -> bytes:
    if count < 16:
        return bytes((0x80 | count,))
    return b"\xde" + count.to_bytes(2, "big") if count < 2**16 else b"\xdf" + count.to_bytes(4, "big")


def _sorted_struct(value: msgspec.Struct) -> Any:
    """Return a copy of a struct with its sets sorted, for its own rules of names, tags and defaults to be kept.

    Fields that are left out because they hold their default stay as they are: they would be taken for others.
    """
    found = copy.copy(value)
    kind = type(value)
    given = dict(zip(reversed(kind.__struct_fields__), reversed(kind.__struct_defaults__), strict=False))
    left_out = given if kind.__struct_config__.omit_defaults else {}
    for name in kind.__struct_fields__:
        held = getattr(value, name)
        if (name not in left_out or held is not left_out[name]) and not _is_empty(held):
            msgspec.structs.force_setattr(found, name, _sorted_sets(held))
    return found


def _is_empty(value: Any) -> bool:
    return isinstance(value, set | frozenset | list | dict) and not value
