"""Columns of a DataFrame against the parameters of an entry point, by name and type, before the query starts."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any, get_args, get_origin

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from millpond.engine.arrowtypes import arrow_type, bare_hint, struct_fields
from millpond.engine.task.intake import default_array
from millpond.errors import FeedError
from millpond.program.columntypes import enum_values
from millpond.program.entries import EntryPoint
from millpond.spark.feeds.columntypes import spark_of
from millpond.state.codec.typenames import type_text
from millpond.state.containers.vector import Vector

_ACCEPTED: dict[Any, tuple[type[T.DataType], ...]] = {
    int: (T.ByteType, T.ShortType, T.IntegerType, T.LongType),
    float: (T.FloatType, T.DoubleType),
    str: (T.StringType, T.VarcharType, T.CharType),
    bytes: (T.BinaryType,),
    bool: (T.BooleanType,),
    datetime.date: (T.DateType,),
    datetime.datetime: (T.TimestampType,),
    decimal.Decimal: (T.DecimalType,),
    uuid.UUID: (T.StringType, T.VarcharType, T.CharType),
}
_CASTS: dict[Any, str] = {int: "bigint", float: "double"}


def check_columns(point: EntryPoint, frame: DataFrame, feed: str) -> dict[str, str | None]:
    """Check that every parameter has its column; returns the cast that each column needs, or None."""
    fields = {field.name: field.dataType for field in frame.schema.fields}
    twice = sorted({name for name in frame.columns if frame.columns.count(name) > 1})
    if twice:
        raise FeedError(
            "MP516",
            f"the DataFrame of feed `{feed}` has columns of the same name",
            expected="each name once",
            found=", ".join(twice),
            hint="rename or drop one of them, so that it is clear which one is meant",
        )
    defaults = dict(point.defaults)
    missing = [name for name, _ in point.parameters if name not in fields and name not in defaults]
    if missing:
        raise FeedError(
            "MP503",
            f"feed `{feed}` lacks columns of entry point `{point.name}`",
            expected=", ".join(f"{name}: {type_text(hint)}" for name, hint in point.parameters),
            found=", ".join(f"{name}: {kind.simpleString()}" for name, kind in fields.items()) or "no columns",
            hint=f"select or rename columns so that the DataFrame has {', '.join(f'`{name}`' for name in missing)}",
        )
    casts: dict[str, str | None] = {}
    for name, hint in point.parameters:
        kind = arrow_type(hint)
        if name in defaults and defaults[name] is not None:
            default_array(point, name, defaults[name], hint)
        if name not in fields:
            casts[name] = spark_of(kind).simpleString()
            continue
        if not _fits(fields[name], hint):
            raise FeedError(
                "MP504",
                f"column `{name}` of feed `{feed}` has the wrong type for entry point `{point.name}`",
                expected=_wanted(hint),
                found=fields[name].simpleString(),
                hint=f'cast it: df.withColumn("{name}", col("{name}").cast(...)), or change the hint',
            )
        casts[name] = _CASTS.get(_held(hint))
    return casts


def _held(hint: Any) -> Any:
    """Return the type that a column has of a hint: of an enum that of its values."""
    bare = bare_hint(hint)
    return enum_values(bare) or bare


def _fits(kind: T.DataType, hint: Any) -> bool:
    bare = _held(hint)
    accepted = _ACCEPTED.get(bare)
    if accepted is not None:
        return isinstance(kind, accepted)
    fields = struct_fields(bare)
    if fields is not None:
        if not isinstance(kind, T.StructType) or [field.name for field in kind.fields] != [name for name, _ in fields]:
            return False
        return all(_fits_exactly(own.dataType, part) for own, (_, part) in zip(kind.fields, fields, strict=True))
    origin, arguments = get_origin(bare), get_args(bare)
    if origin in (list, set, frozenset, tuple):
        return isinstance(kind, T.ArrayType) and _fits_exactly(kind.elementType, arguments[0])
    if origin in (dict, Vector) and isinstance(kind, T.MapType):
        value = float if origin is Vector else arguments[1]
        return _fits_exactly(kind.keyType, arguments[0]) and _fits_exactly(kind.valueType, value)
    return False


def _fits_exactly(kind: T.DataType, hint: Any) -> bool:
    # Inside nested types nothing is cast, so narrow integers and floats stay what they are in Python: that is fine.
    return _fits(kind, hint)


def _wanted(hint: Any) -> str:
    names = _ACCEPTED.get(_held(hint), ())
    shown = " or ".join(kind.__name__.removesuffix("Type").lower() for kind in names)
    return f"{type_text(bare_hint(hint))}" + (f" (column type {shown})" if shown else "")
