"""The types of Spark's columns as Arrow types, and back: as Spark hands columns to Python workers, moments in UTC."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812

from millpond.errors import FeedError

_ZONE: Final = "UTC"
_PLAIN: Final[tuple[tuple[type[T.DataType], pa.DataType], ...]] = (
    (T.BooleanType, pa.bool_()),
    (T.ByteType, pa.int8()),
    (T.ShortType, pa.int16()),
    (T.IntegerType, pa.int32()),
    (T.LongType, pa.int64()),
    (T.FloatType, pa.float32()),
    (T.DoubleType, pa.float64()),
    (T.StringType, pa.string()),
    (T.BinaryType, pa.binary()),
    (T.DateType, pa.date32()),
    (T.TimestampType, pa.timestamp("us", tz=_ZONE)),
    (T.TimestampNTZType, pa.timestamp("us")),
    (T.DayTimeIntervalType, pa.duration("us")),
    (T.TimeType, pa.time64("ns")),
    (T.NullType, pa.null()),
)
_VARIANT: Final = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)

_PLACE: Final = pa.struct([pa.field("srid", pa.int32(), nullable=False), pa.field("wkb", pa.binary(), nullable=False)])


def arrow_of(kind: T.DataType) -> pa.DataType:
    """Return the Arrow type of a column as Python workers get it; MP501 for a type that they do not get."""
    for known, plain in _PLAIN:
        if isinstance(kind, known):
            return plain
    match kind:
        case T.VarcharType() | T.CharType():
            return pa.string()
        case T.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case T.ArrayType():
            return pa.list_(pa.field("element", arrow_of(kind.elementType), nullable=kind.containsNull))
        case T.MapType():
            value = pa.field("value", arrow_of(kind.valueType), nullable=kind.valueContainsNull)
            return pa.map_(pa.field("key", arrow_of(kind.keyType), nullable=False), value)
        case T.StructType():
            return pa.struct([pa.field(each.name, arrow_of(each.dataType), each.nullable) for each in kind.fields])
        case T.UserDefinedType():
            return arrow_of(kind.sqlType())
        case T.VariantType():
            return _VARIANT
        case T.GeometryType() | T.GeographyType():
            return _PLACE
    raise _unknown(kind.simpleString())


def spark_of(kind: pa.DataType) -> T.DataType:
    """Return the type of the column that Spark makes of an Arrow column; MP501 if it makes none."""
    for known, plain in _PLAIN:
        if kind.equals(plain):
            return known()
    is_a = pa.types
    if is_a.is_decimal(kind):
        return T.DecimalType(kind.precision, kind.scale)
    if is_a.is_timestamp(kind):
        return T.TimestampNTZType() if kind.tz is None else T.TimestampType()
    if is_a.is_large_string(kind) or is_a.is_string_view(kind):
        return T.StringType()
    if is_a.is_large_binary(kind) or is_a.is_fixed_size_binary(kind):
        return T.BinaryType()
    if is_a.is_list(kind) or is_a.is_large_list(kind) or is_a.is_fixed_size_list(kind):
        return T.ArrayType(spark_of(kind.value_type), kind.value_field.nullable)
    if is_a.is_map(kind):
        return T.MapType(spark_of(kind.key_type), spark_of(kind.item_type), kind.item_field.nullable)
    if is_a.is_struct(kind):
        return T.VariantType() if _is_variant(kind) else spark_schema(pa.schema(list(kind)))
    if is_a.is_dictionary(kind):
        return spark_of(kind.value_type)
    raise _unknown(str(kind))


def spark_schema(schema: pa.Schema) -> T.StructType:
    """Return the schema of the DataFrame that Spark makes of an Arrow table."""
    return T.StructType([T.StructField(each.name, spark_of(each.type), each.nullable) for each in schema])


def _is_variant(kind: Any) -> bool:
    # Types are equal whatever their metadata says, and another struct may have fields of these names.
    return bool(kind.equals(_VARIANT)) and (kind.field("metadata").metadata or {}).get(b"variant") == b"true"


def _unknown(found: str) -> FeedError:
    return FeedError(
        "MP501",
        "no column can hold this type",
        expected="a column of a type that Spark hands to Python workers",
        found=found,
        hint="cast the column, or leave it out",
    )
