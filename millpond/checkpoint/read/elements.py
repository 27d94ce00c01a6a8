"""One state element as a reader sees it: its keys, its values, and where each entry lies."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import date
from functools import cached_property
from typing import Any, NamedTuple, get_args, get_origin

import msgspec
import numpy as np

from millpond.checkpoint.read.loose import decode_loosely
from millpond.checkpoint.read.typetexts import TypeText, read_type
from millpond.checkpoint.records.manifest import ElementSchema
from millpond.errors import StateError
from millpond.ids import InstanceId, KeyGroup
from millpond.keygroups import Layout
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.containers.value import THE_KEY
from millpond.state.local.storekey import group_of, store_key, unit_of

_SINGLE = ("value", "list")
_SIGN = np.uint64(1 << 63)
_WIDTHS = {int: 8, bool: 1, date: 4}


class Entry(NamedTuple):
    """One entry of an element; `instance` is None unless the element is partial."""

    instance: int | None
    key: Any
    value: Any


class ElementReader:
    """Finds and decodes the entries of one element at one point; classes of the program show as plain values."""

    def __init__(self, index: int, schema: ElementSchema, key_groups: int, instances: int) -> None:
        self.index = index
        self.schema = schema
        self.layout = Layout(key_groups, 1, instances, aligned=False)
        self.key_type: TypeText = read_type(schema.key)
        self.value_type: TypeText = read_type(schema.value)

    @cached_property
    def partial(self) -> bool:
        """Whether the element has instances."""
        return self.schema.distribution == "partial"

    @cached_property
    def keyed(self) -> bool:
        """Whether the key of an entry says under which key group it lies."""
        return not self.partial and self.schema.kind not in _SINGLE

    @cached_property
    def has_keys(self) -> bool:
        """Whether entries have a key: a `Value` is one thing."""
        return self.schema.kind != "value"

    @cached_property
    def has_values(self) -> bool:
        """Whether entries have a value: a member of a `Set` is all there is."""
        return self.schema.kind != "set"

    @cached_property
    def codec(self) -> KeyCodec:
        """The codec of the keys."""
        try:
            return KeyCodec(self.key_type.hint)
        except StateError as error:
            raise StateError(
                "MP245",
                f"the keys of `{self.schema.name}` are of a type that this version of Millpond does not know",
                expected=error.expected,
                found=ascii(self.schema.key)[:80],
                hint="run the version of Millpond that wrote the checkpoint, or a newer one",
            ) from None

    @cached_property
    def _values(self) -> ValueCodec:
        try:
            return ValueCodec(self.value_type.hint)
        except StateError:
            return ValueCodec(Any)

    @cached_property
    def homes(self) -> dict[int, int]:
        """The instance that is stored under each key group; empty unless the element is partial."""
        if not self.partial:
            return {}
        return {self.layout.home_of(InstanceId(number)): number for number in range(self.layout.instances)}

    def groups(self) -> list[tuple[int | None, int]]:
        """Say where entries may lie: each instance and its key group, or None and each key group."""
        if self.partial:
            return [(number, group) for group, number in self.homes.items()]
        if self.keyed:
            return [(None, group) for group in range(self.layout.key_groups)]
        return [(None, self.layout.group_of(THE_KEY))]

    def store_key(self, key: Any, instance: int | None = None) -> bytes:
        """Say where an entry is stored; a key of another type than declared is refused."""
        unit = self.codec.encode(key)
        if self.partial:
            assert instance is not None
            group = self.layout.home_of(InstanceId(instance))
        else:
            group = self.layout.group_of(key if self.keyed else THE_KEY)
        return store_key(self.index, group, unit)

    def decode(self, instance: int | None, entries: Sequence[tuple[bytes, bytes]]) -> list[Entry]:
        """Decode entries of one instance, or of one key group."""
        keys = self.decode_keys([unit_of(key) for key, _ in entries])
        values = self.decode_values([value for _, value in entries])
        return [Entry(instance, key, value) for key, value in zip(keys, values, strict=True)]

    def decode_keys(self, units: list[bytes]) -> list[Any]:
        """Decode keys in order."""
        if self.codec.hint is int and units and set(map(len, units)) == {8}:
            flat = np.frombuffer(b"".join(units), dtype=">u8").astype(np.uint64) ^ _SIGN
            numbers: list[Any] = flat.view(np.int64).tolist()
            return numbers
        return [self.decode_key(unit) for unit in units]

    def decode_key(self, unit: bytes) -> Any:
        """Decode the key of one entry; bytes that are no such key are refused."""
        try:
            # Before decoding: the codec trusts that each text in a tuple has its end.
            if self._is_whole(unit):
                return self.codec.decode(unit)
        except (StateError, ValueError, OverflowError, IndexError, struct.error):
            pass
        raise self.damaged("a key", unit, self.schema.key)

    def _is_whole(self, unit: bytes) -> bool:
        if self.codec.hint in (str, bytes):
            return True
        parts = get_args(self.codec.hint) if get_origin(self.codec.hint) is tuple else (self.codec.hint,)
        at = 0
        for part in parts:
            at = at + _WIDTHS[part] if part in _WIDTHS else _end_of_text(unit, at)
        return at == len(unit)

    def decode_values(self, values: Sequence[bytes]) -> list[Any]:
        """Decode values in order."""
        try:
            return self._values.decode_many(values)
        except (StateError, ValueError, TypeError):
            return [self.decode_value(value) for value in values]

    def decode_value(self, data: bytes) -> Any:
        """Decode one value: by its type if that is known, else as what it is made of."""
        try:
            return self._values.decode(data)
        except (StateError, ValueError, TypeError):
            pass
        try:
            return msgspec.msgpack.decode(data)
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
            pass
        try:
            return decode_loosely(data)
        except ValueError:
            raise self.damaged("a value", data, self.schema.value) from None

    def check_value(self, data: bytes) -> None:
        """Refuse bytes that are no value, or of another type than declared, as far as that is told for certain."""
        if not self.value_type.certain:
            self.decode_value(data)
            return
        try:
            self._values.decode(data)
        except (StateError, ValueError):
            raise self.damaged("a value", data, self.schema.value) from None

    def instance_at(self, key: bytes) -> int | None:
        """Return the instance that a store key is of; None unless the element is partial."""
        return self.homes.get(KeyGroup(group_of(key)))

    def damaged(self, what: str, data: bytes, expected: str) -> StateError:
        """Return the error for bytes in state that are not what the element holds."""
        return StateError(
            "MP244",
            f"{what} in the state of `{self.schema.name}` can't be decoded",
            expected=expected,
            found=f"{len(data)} bytes: {data[:32].hex(' ')}",
            hint="the checkpoint was not written by Millpond, or not with these types: restore it from a copy",
        )


def _end_of_text(unit: bytes, at: int) -> int:
    """Say where a text inside a tuple ends: after two zeros; a zero of its own is followed by 0xff."""
    while at + 1 < len(unit):
        if unit[at] == 0:
            if unit[at + 1] == 0:
                return at + 2
            at += 1
        at += 1
    return -1
