from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812

from millpond.errors import FeedError
from millpond.spark.feeds.columntypes import arrow_of, spark_of, spark_schema

BOTH_WAYS = [
    (T.BooleanType(), pa.bool_()),
    (T.ByteType(), pa.int8()),
    (T.ShortType(), pa.int16()),
    (T.IntegerType(), pa.int32()),
    (T.LongType(), pa.int64()),
    (T.FloatType(), pa.float32()),
    (T.DoubleType(), pa.float64()),
    (T.DecimalType(12, 3), pa.decimal128(12, 3)),
    (T.StringType(), pa.string()),
    (T.BinaryType(), pa.binary()),
    (T.DateType(), pa.date32()),
    (T.TimestampType(), pa.timestamp("us", "UTC")),
    (T.TimestampNTZType(), pa.timestamp("us")),
    (T.DayTimeIntervalType(), pa.duration("us")),
    (T.TimeType(), pa.time64("ns")),
    (T.NullType(), pa.null()),
    (T.ArrayType(T.LongType()), pa.list_(pa.field("element", pa.int64()))),
    (T.ArrayType(T.LongType(), False), pa.list_(pa.field("element", pa.int64(), nullable=False))),
    (T.MapType(T.StringType(), T.DoubleType()), pa.map_(pa.string(), pa.float64())),
    (
        T.StructType([T.StructField("a", T.LongType(), False), T.StructField("b", T.ArrayType(T.DateType()))]),
        pa.struct([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.list_(pa.date32()))]),
    ),
]


@pytest.mark.parametrize(("kind", "arrow"), BOTH_WAYS, ids=lambda each: str(each)[:40])
def test_a_type_goes_there_and_back(kind, arrow):
    assert arrow_of(kind) == arrow
    assert spark_of(arrow_of(kind)) == kind


@pytest.mark.parametrize("kind", [T.VarcharType(5), T.CharType(5)])
def test_text_of_a_length_is_text(kind):
    assert arrow_of(kind) == pa.string()


def test_a_variant_goes_there_and_back_and_a_struct_that_looks_like_it_stays_a_struct():
    assert spark_of(arrow_of(T.VariantType())) == T.VariantType()
    look_alike = pa.struct([pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False)])
    assert isinstance(spark_of(look_alike), T.StructType)


@pytest.mark.parametrize(
    ("arrow", "kind"),
    [
        (pa.large_string(), T.StringType()),
        (pa.large_binary(), T.BinaryType()),
        (pa.binary(16), T.BinaryType()),
        (pa.large_list(pa.int64()), T.ArrayType(T.LongType())),
        (pa.timestamp("ns", "Europe/Berlin"), T.TimestampType()),
        (pa.timestamp("ms"), T.TimestampNTZType()),
        (pa.dictionary(pa.int32(), pa.string()), T.StringType()),
    ],
    ids=str,
)
def test_other_forms_of_arrow_are_read_as_spark_reads_them(arrow, kind):
    assert spark_of(arrow) == kind


def test_a_schema_keeps_names_and_what_may_be_null():
    schema = spark_schema(pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())]))
    assert schema == T.StructType([T.StructField("a", T.LongType(), False), T.StructField("b", T.StringType())])


@pytest.mark.parametrize("kind", [T.YearMonthIntervalType(), T.CalendarIntervalType()])
def test_what_spark_does_not_hand_to_python_is_refused(kind):
    with pytest.raises(FeedError) as caught:
        arrow_of(kind)
    assert caught.value.code == "MP501"


def test_what_spark_can_not_read_is_refused():
    with pytest.raises(FeedError) as caught:
        spark_of(pa.uint64())
    assert caught.value.code == "MP501"
