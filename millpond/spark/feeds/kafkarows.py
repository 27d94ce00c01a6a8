"""Records of Kafka as rows for an entry point: parsed into the types of its parameters, with their place and bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from millpond.engine.arrowtypes import arrow_type, bare_hint
from millpond.engine.task.intake import UNPARSED
from millpond.errors import SourceError
from millpond.program.columntypes import optional
from millpond.program.entries import EntryPoint, entry_of
from millpond.spark.feeds.columntypes import spark_of

PLACE = ("topic", "partition", "offset")
_BESIDE = ("key", "headers", "timestamp")
_JSON = "millpond_json"


def kafka_frame(
    spark: SparkSession,
    servers: str,
    topic: str,
    entry: Callable[..., Any],
    format: str,  # noqa: A002 - as Spark calls it
    options: Mapping[str, str],
    *,
    streaming: bool,
) -> DataFrame:
    """Return a topic's records as rows for an entry point."""
    point = entry_of(entry)
    reader: Any = spark.readStream if streaming else spark.read
    settings = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        **options,
    }
    try:
        records: DataFrame = reader.format("kafka").options(**settings).load()
    except AnalysisException as error:
        if "kafka" in str(error).lower():
            raise _no_connector(spark) from error
        raise
    return rows_of_records(records, point, format)


def rows_of_records(records: DataFrame, point: EntryPoint, format: str) -> DataFrame:  # noqa: A002
    """Return records as rows for an entry point; they have the columns of Spark's source, `value` among them."""
    if format == "json":
        return _parsed(records, point)
    if format == "raw":
        return _raw(records, point)
    raise SourceError(
        "MP810",
        "records of Kafka can't be read in this format",
        expected='"json" or "raw"',
        found=repr(format)[:60],
        hint="parse others with Spark, as from_avro does it, and keep topic, partition and offset (docs/SOURCES.md)",
    )


def _parsed(records: DataFrame, point: EntryPoint) -> DataFrame:
    hints = {name: hint for name, hint in point.parameters if name not in PLACE}
    fields = [T.StructField(name, spark_of(arrow_type(hint))) for name, hint in hints.items()]
    schema = T.StructType([*fields, T.StructField(UNPARSED, T.StringType())])
    text = F.col("value").cast("string")
    json = F.from_json(text, schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": UNPARSED})
    parsed = records.withColumn(_JSON, json)
    found = {name: F.col(f"{_JSON}.`{name}`") for name in hints}
    defaults = dict(point.defaults)
    needed = [found[name] for name, hint in hints.items() if not optional(hint) and name not in defaults]
    wrong = F.col(_JSON).isNull() | F.col(f"{_JSON}.`{UNPARSED}`").isNotNull() | ~F.is_valid_utf8(text)
    for column in needed:
        wrong |= column.isNull()
    return _with_place(parsed, {name: column.alias(name) for name, column in found.items()}, wrong)


def _raw(records: DataFrame, point: EntryPoint) -> DataFrame:
    columns: dict[str, Column] = {}
    wrong = F.lit(False)
    for name, hint in point.parameters:
        if name in PLACE or name in {"headers", "timestamp"}:
            continue
        if name not in {"key", "value"} or bare_hint(hint) not in (bytes, str):
            raise SourceError(
                "MP811",
                f"parameter `{name}` of `{point.name}` can't be given a raw record",
                expected="parameters named value and key, of bytes or str, or topic, partition, offset, timestamp",
                found=f"{name}: {getattr(hint, '__name__', hint)}",
                hint='name them so, or parse records with format="json"',
            )
        column = F.col(name)
        if bare_hint(hint) is str:
            column = column.cast("string")
            wrong |= column.isNotNull() & ~F.is_valid_utf8(column)
        if not optional(hint) and name not in dict(point.defaults):
            wrong |= column.isNull()
        columns[name] = column.alias(name)
    return _with_place(records, columns, wrong)


def _with_place(records: DataFrame, columns: Mapping[str, Column], wrong: Column) -> DataFrame:
    """Return the parameters, what a record has beside its value, and its bytes if something is wrong with them."""
    beside = [name for name in (*_BESIDE, *PLACE) if name not in columns and name in records.columns]
    # A record without a value has no bytes, and is no less wrong for that.
    bytes_ = F.when(wrong, F.coalesce(F.col("value"), F.lit(b""))).alias(UNPARSED)
    return records.select(*columns.values(), *beside, bytes_)


def _no_connector(spark: SparkSession) -> SourceError:
    return SourceError(
        "MP812",
        "this Spark has no connector for Kafka",
        expected=f"spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}, set before the "
        "session starts",
        hint="docs/SOURCES.md says for which versions of Spark there is one",
    )
