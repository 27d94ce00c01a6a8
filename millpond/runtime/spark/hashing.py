"""The stable hash of `millpond.keygroups` as Spark SQL expressions; a test compares the two."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, get_args, get_origin

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from millpond.keygroups import CHAIN_FACTOR, HIGH_FACTOR, LOW_FACTOR, PRIME, SHIFT
from millpond.runtime.arrowtypes import bare_hint


def hash_column(column: Column, hint: Any) -> Column:
    """The hash of a column of one type; null where the column is null."""
    kind = bare_hint(hint)
    if kind in (str, bytes):
        return (F.crc32(column) * F.lit(LOW_FACTOR) + F.lit(SHIFT)) % F.lit(PRIME)
    if kind is datetime.date:
        return _hash_long(F.unix_date(column).cast("long"))
    if kind in (int, bool):
        return _hash_long(column.cast("long"))
    raise AssertionError(kind)


def hash_columns(columns: Sequence[Column], hints: Sequence[Any]) -> Column:
    """The hash of a tuple of columns."""
    chain = F.lit(len(columns)).cast("long")
    for column, hint in zip(columns, hints, strict=True):
        chain = (chain * F.lit(CHAIN_FACTOR) + hash_column(column, hint) + F.lit(SHIFT)) % F.lit(PRIME)
    return chain


def _hash_long(column: Column) -> Column:
    low = column.bitwiseAND(F.lit(0xFFFFFFFF))
    high = F.shiftrightunsigned(column, 32)
    mixed = low * F.lit(LOW_FACTOR) + (high % F.lit(PRIME)) * F.lit(HIGH_FACTOR) % F.lit(PRIME) + F.lit(SHIFT)
    return mixed % F.lit(PRIME)


def key_hints(hint: Any) -> tuple[Any, ...]:
    """The types of the components of a key."""
    return get_args(hint) if get_origin(hint) is tuple else (hint,)
