"""What a type looks like on disk, written down so that a checkpoint can carry it: records field by field.

A shape says what the stored bytes say, and nothing of the code: two classes with the same fields have equal shapes but
for their names. It is made of a live type by `shape_of`, and of a checkpoint's record by reading it.

>>> shape = shape_of(dict[str, list[int] | None])
>>> shape_text(shape.root)
'dict[str, list[int] | None]'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import inspect

from millpond.state.codec.adapted import AdaptedType, type_info
from millpond.state.codec.typenames import type_text

_SCALARS: dict[type, str] = {
    inspect.AnyType: "Any",
    inspect.NoneType: "None",
    inspect.BoolType: "bool",
    inspect.IntType: "int",
    inspect.FloatType: "float",
    inspect.StrType: "str",
    inspect.BytesType: "bytes",
    inspect.ByteArrayType: "bytearray",
    inspect.MemoryViewType: "memoryview",
    inspect.DateTimeType: "datetime",
    inspect.TimeType: "time",
    inspect.DateType: "date",
    inspect.TimeDeltaType: "timedelta",
    inspect.UUIDType: "UUID",
    inspect.DecimalType: "Decimal",
    inspect.RawType: "Raw",
    inspect.ExtType: "Ext",
}
_ITEMS: dict[type, str] = {
    inspect.ListType: "list",
    inspect.VarTupleType: "tuple...",
    inspect.SetType: "set",
    inspect.FrozenSetType: "frozenset",
}
_RECORDS: dict[type, str] = {
    inspect.DataclassType: "dataclass",
    inspect.StructType: "struct",
    inspect.TypedDictType: "typed dict",
    inspect.NamedTupleType: "named tuple",
    AdaptedType: "object",
}
_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "tz")
_EMPTY_MADE_BY = (list, dict, set)
"""Factories whose empty results msgspec leaves out, if a struct leaves defaults out."""


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One type: its kind, the types it is made of, the name of its class, its limits, its values if it is a Literal."""

    kind: str
    parts: tuple[Shape, ...] = ()
    name: str = ""
    limits: tuple[str, ...] = ()
    values: tuple[bool | int | str | None, ...] = ()


class FieldShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A field of a record: `wire` is its stored name if that is another one, `optional` if it may be missing there.

    `default` is what a missing one stands for, as MessagePack, if the class leaves defaults out.
    """

    name: str
    type: Shape
    wire: str = ""
    optional: bool = False
    default: bytes | None = None

    @property
    def stored(self) -> str:
        """The name in stored records."""
        return self.wire or self.name


class ClassShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A class: a record with its fields (`positional` if stored as an array), or an enum with its members."""

    name: str
    kind: str
    fields: tuple[FieldShape, ...] = ()
    positional: bool = False
    tag_field: str = ""
    tag: int | str | None = None
    members: tuple[tuple[str, int | str], ...] = ()


class TypeShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A whole type: the shape of a value, and the classes that it mentions."""

    root: Shape
    classes: tuple[ClassShape, ...] = ()

    def of_class(self, name: str) -> ClassShape:
        """Return a class that some shape in here mentions."""
        return next(known for known in self.classes if known.name == name)


Fillable = frozenset[tuple[str, str]]
"""Fields that their class fills if they are missing: the name of the class, and of the field."""


def shape_of(hint: Any) -> TypeShape:
    """Return the shape of a live type."""
    return described(hint)[0]


def described(hint: Any) -> tuple[TypeShape, Fillable]:
    """Return the shape of a live type, and which of its fields have defaults."""
    scribe = _Scribe()
    root = scribe.shape(type_info(hint))
    return TypeShape(root, tuple(scribe.classes.values())), frozenset(scribe.fillable)


class _Scribe:
    """Writes classes down once each, whatever mentions them; a class may mention itself."""

    def __init__(self) -> None:
        self.classes: dict[str, ClassShape] = {}
        self.fillable: set[tuple[str, str]] = set()
        self._names: dict[Any, str] = {}

    def shape(self, info: Any) -> Shape:
        if isinstance(info, inspect.Metadata):
            return self.shape(info.type)
        limits = tuple(f"{name}={getattr(info, name)!r}" for name in _LIMITS if getattr(info, name, None) is not None)
        kind = type(info)
        if kind in _SCALARS:
            return Shape(_SCALARS[kind], limits=limits)
        if kind in _ITEMS:
            return Shape(_ITEMS[kind], (self.shape(info.item_type),), limits=limits)
        if kind is AdaptedType and not info.fields:
            return Shape(info.cls.__name__, tuple(map(self.shape, info.parts)))
        if kind in _RECORDS:
            return Shape("record", name=self._named(info, self._record))
        if kind is inspect.EnumType:
            return Shape("enum", name=self._named(info, self._enum))
        if kind is inspect.TupleType:
            return Shape("tuple", tuple(map(self.shape, info.item_types)))
        if kind is inspect.DictType:
            return Shape("dict", (self.shape(info.key_type), self.shape(info.value_type)), limits=limits)
        if kind is inspect.UnionType:
            return Shape("union", tuple(map(self.shape, info.types)))
        assert kind is inspect.LiteralType, info
        return Shape("Literal", values=info.values)

    def _named(self, info: Any, describe: Callable[[Any, str], ClassShape]) -> str:
        known = self._names.get(info.cls)
        if known is not None:
            return known
        text = name = type_text(info.cls)
        count = 1
        while name in self.classes:
            count += 1
            name = f"{text} ({count})"
        self._names[info.cls] = name
        # Its place first: what it mentions comes after it, and may mention it.
        self.classes[name] = ClassShape(name, "")
        self.classes[name] = describe(info, name)
        return name

    def _enum(self, info: Any, name: str) -> ClassShape:
        members = tuple((member.name, member.value) for member in info.cls)
        return ClassShape(name, "enum", members=members)

    def _record(self, info: Any, name: str) -> ClassShape:
        kind = _RECORDS[type(info)]
        leaves_out = kind == "struct" and bool(_struct_config(info.cls).omit_defaults)
        fields = []
        for field in info.fields:
            if not field.required:
                self.fillable.add((name, field.name))
            missing = not field.required and (kind == "typed dict" or leaves_out or _unset(info.cls, field))
            fields.append(
                FieldShape(
                    name=field.name,
                    type=self.shape(field.type),
                    wire="" if field.encode_name == field.name else field.encode_name,
                    optional=missing,
                    default=_default(field) if leaves_out else None,
                )
            )
        return ClassShape(
            name=name,
            kind=kind,
            fields=tuple(fields),
            positional=kind == "named tuple" or bool(getattr(info, "array_like", False)),
            tag_field=getattr(info, "tag_field", None) or "",
            tag=getattr(info, "tag", None),
        )


def _struct_config(cls: Any) -> Any:
    return cls.__struct_config__ if hasattr(cls, "__struct_config__") else cls.__origin__.__struct_config__


def _unset(cls: Any, field: inspect.Field) -> bool:
    """Return whether a field of a struct may be UNSET, which is stored by leaving it out; what it says hides that."""
    names = getattr(cls, "__struct_fields__", ())
    defaults = getattr(cls, "__struct_defaults__", ())
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    return given.get(field.name) is msgspec.UNSET


def _default(field: inspect.Field) -> bytes | None:
    if field.default is not msgspec.NODEFAULT:
        return msgspec.msgpack.encode(field.default)
    if field.default_factory in _EMPTY_MADE_BY:
        return msgspec.msgpack.encode(field.default_factory())
    return None


def shape_text(shape: Shape) -> str:
    """Return a shape as types are written: `dict[int, Basket | None]`."""
    if shape.kind in ("record", "enum"):
        return shape.name
    if shape.kind == "union":
        return " | ".join(map(shape_text, shape.parts))
    if shape.kind == "Literal":
        return f"Literal[{', '.join(map(repr, shape.values))}]"
    parts = list(map(shape_text, shape.parts))
    if shape.kind == "tuple...":
        text = f"tuple[{parts[0]}, ...]"
    else:
        text = f"{shape.kind}[{', '.join(parts) or '()'}]" if parts or shape.kind == "tuple" else shape.kind
    return f"Annotated[{text}, {', '.join(shape.limits)}]" if shape.limits else text


def class_text(known: ClassShape) -> str:
    """Return a class as it is declared, on one line: `Basket(item: str, price: float)`."""
    if known.kind == "enum":
        return f"{known.name}({', '.join(f'{name} = {value!r}' for name, value in known.members)})"
    fields = ", ".join(
        f"{field.name}: {shape_text(field.type)}{' (may be missing)' if field.optional else ''}"
        for field in known.fields
    )
    return f"{known.name}({fields})"
