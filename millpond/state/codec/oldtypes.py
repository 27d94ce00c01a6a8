"""Reading values of a type that is known by its shape alone: the class that wrote them may be gone.

Records are read into stand-ins, one struct per class with fields `f0`, `f1`, ...; whoever gets values from here has
the shape beside them. A field whose type leads back to its own class is read when it is asked for.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import functools
import operator
import uuid
from typing import Any, Literal

import msgspec

from millpond.state.codec.shapes import ClassShape, FieldShape, Shape, TypeShape

SCALARS: dict[str, type] = {
    "None": type(None),
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "bytes": bytes,
    "bytearray": bytearray,
    "datetime": datetime.datetime,
    "time": datetime.time,
    "date": datetime.date,
    "timedelta": datetime.timedelta,
    "UUID": uuid.UUID,
    "Decimal": decimal.Decimal,
}
"""The types without parts, by the names that shapes have for them."""


_GENERIC: dict[str, Any] = {"list": list, "set": set, "frozenset": frozenset, "dict": dict, "tuple": tuple}


class UnknownShapeError(Exception):
    """A shape that this version does not know: a newer one wrote it."""


class OldType:
    """Decodes values of a shape, and takes their records apart."""

    def __init__(self, shape: TypeShape) -> None:
        self.shape = shape
        self._classes: dict[str, Any] = {}
        self._names: dict[type, str] = {}
        self._later: dict[tuple[str, int], Shape] = {}
        self._decoders: dict[Shape, msgspec.msgpack.Decoder[Any]] = {}
        self.decoder = self._decoder(shape.root)

    def decode(self, data: bytes) -> Any:
        """Return one value; bytes that are none raise a `msgspec.MsgspecError`."""
        return self.decoder.decode(data)

    def standin(self, name: str) -> type:
        """Return the class that stands for a class of the shape."""
        kind = "enum" if self.shape.of_class(name).kind == "enum" else "record"
        found: type = self._hint(Shape(kind, name=name), ())
        return found

    def fields(self, record: Any) -> dict[str, Any]:
        """Return what a stand-in holds, by the names of the fields, without those that are missing."""
        name = self._names[type(record)]
        held: dict[str, Any] = {}
        for place, field in enumerate(self.shape.of_class(name).fields):
            value = self._held(record, name, place, field)
            if value is not msgspec.UNSET:
                held[field.name] = value
        return held

    def _held(self, record: Any, name: str, place: int, field: FieldShape) -> Any:
        value = getattr(record, f"f{place}")
        if value is msgspec.UNSET:
            return value if field.default is None else self._decoder(field.type).decode(field.default)
        later = self._later.get((name, place))
        return value if later is None else self._decoder(later).decode(value)

    def plain(self, value: Any) -> Any:
        """Return a value without stand-ins: records are dicts, and members of enums their values; all else as it is."""
        if type(value) in self._names:
            return {name: self.plain(held) for name, held in self.fields(value).items()}
        if isinstance(value, enum.Enum):
            return value.value
        if isinstance(value, dict):
            return {_hashable(self.plain(key)): self.plain(held) for key, held in value.items()}
        if isinstance(value, set | frozenset):
            return type(value)(_hashable(self.plain(held)) for held in value)
        return type(value)(map(self.plain, value)) if isinstance(value, list | tuple) else value

    def _decoder(self, shape: Shape) -> msgspec.msgpack.Decoder[Any]:
        if shape not in self._decoders:
            self._decoders[shape] = msgspec.msgpack.Decoder(self._hint(shape, ()))
        return self._decoders[shape]

    def _hint(self, shape: Shape, within: tuple[str, ...]) -> Any:
        if shape.kind == "Any":
            return Any
        if shape.kind in SCALARS:
            return SCALARS[shape.kind]
        if shape.kind in ("record", "enum"):
            if shape.name not in self._classes:
                known = self.shape.of_class(shape.name)
                made = _enum(known) if shape.kind == "enum" else self._struct(known, within)
                self._classes[shape.name] = made
            return self._classes[shape.name]
        if shape.kind == "Literal":
            return Literal[shape.values]
        parts = tuple(self._hint(part, within) for part in shape.parts)
        match shape.kind:
            case "union":
                return functools.reduce(operator.or_, parts)
            case "tuple":
                return _GENERIC["tuple"][parts]
            case "tuple...":
                return _GENERIC["tuple"][(*parts, ...)]
            case "list" | "set" | "frozenset" | "dict":
                return _GENERIC[shape.kind][parts]
        raise UnknownShapeError(shape.kind)

    def _struct(self, known: ClassShape, within: tuple[str, ...]) -> Any:
        inside = (*within, known.name)
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for place, field in enumerate(known.fields):
            if self._leads_to(field.type, inside):
                hint: Any = msgspec.Raw
                self._later[known.name, place] = field.type
            else:
                hint = self._hint(field.type, inside)
            own = f"f{place}"
            # Raw has no union; a missing one keeps its default all the same.
            optional = hint if hint is msgspec.Raw else hint | msgspec.UnsetType
            fields.append((own, optional, msgspec.UNSET) if field.optional else (own, hint))
        struct = msgspec.defstruct(
            "StandIn",
            fields,
            frozen=True,
            kw_only=True,
            array_like=known.positional,
            tag=known.tag,
            tag_field=known.tag_field or None,
            rename={f"f{place}": field.stored for place, field in enumerate(known.fields)},
        )
        self._names[struct] = known.name
        return struct

    def _leads_to(self, shape: Shape, names: tuple[str, ...]) -> bool:
        """Return whether a shape mentions one of some classes, directly or through others."""
        seen: set[str] = set()
        waiting = [shape]
        while waiting:
            part = waiting.pop()
            waiting += part.parts
            if part.name in names:
                return True
            if part.name and part.name not in seen:
                seen.add(part.name)
                waiting += (field.type for field in self.shape.of_class(part.name).fields)
        return False


def _enum(known: ClassShape) -> Any:
    return enum.Enum(known.name, known.members)


def _hashable(value: Any) -> Any:
    """Return a record as a key or a member, where a dict can't be one: the pairs of its names and values."""
    if isinstance(value, dict):
        return tuple((name, _hashable(held)) for name, held in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value
