"""An element read by the program that declares it: keys and values are of the program's own classes.

Nothing is looked up by names of the checkpoint: the caller hands in the declaration, and what is stored must be exactly
what it declares.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from millpond.checkpoint.read.elements import ElementReader
from millpond.checkpoint.records.manifest import ElementSchema
from millpond.errors import StateError
from millpond.program.declare import Element
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.valuecodec import ValueCodec


class TypedReader(ElementReader):
    """Finds and decodes the entries of one element as a program declares it."""

    def __init__(self, index: int, schema: ElementSchema, key_groups: int, instances: int, element: Element) -> None:
        super().__init__(index, schema, key_groups, instances)
        self.element = element

    @cached_property
    def codec(self) -> KeyCodec:
        """The codec of the keys."""
        return self.element.type.keys

    @cached_property
    def _values(self) -> ValueCodec:
        return self.element.type.values

    def decode_key(self, unit: bytes) -> Any:
        """Decode the key of one entry; bytes that are no such key are refused."""
        try:
            return self.codec.decode(unit)
        except StateError:
            raise self.damaged("a key", unit, self.schema.key) from None

    def decode_value(self, data: bytes) -> Any:
        """Decode one value; bytes that are no such value are refused."""
        try:
            return self._values.decode(data)
        except (StateError, ValueError, TypeError):
            raise self.damaged("a value", data, self.schema.value) from None
