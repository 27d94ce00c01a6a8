"""The stable hash of `millpond.keygroups` as Spark SQL; a test compares the two.

As text, since building the same expression from column objects takes tens of calls into the JVM at every epoch.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from millpond.keygroups import CHAIN_FACTOR, HIGH_FACTOR, LOW_FACTOR, PRIME, SHIFT
from millpond.runtime.arrowtypes import bare_hint


def hash_column(name: str, hint: Any) -> str:
    """The hash of a column of one type; null where the column is null."""
    column = f"`{name}`"
    kind = bare_hint(hint)
    if kind in (str, bytes):
        return f"((crc32({column}) * {LOW_FACTOR}L + {SHIFT}L) % {PRIME}L)"
    if kind is datetime.date:
        return _hash_long(f"bigint(unix_date({column}))")
    if kind in (int, bool):
        return _hash_long(f"bigint({column})")
    raise AssertionError(kind)


def hash_columns(names: Sequence[str], hints: Sequence[Any]) -> str:
    """The hash of a tuple of columns."""
    chain = f"{len(names)}L"
    for name, hint in zip(names, hints, strict=True):
        chain = f"(({chain} * {CHAIN_FACTOR}L + {hash_column(name, hint)} + {SHIFT}L) % {PRIME}L)"
    return chain


def _hash_long(column: str) -> str:
    low = f"({column} & {0xFFFFFFFF}L) * {LOW_FACTOR}L"
    high = f"(shiftrightunsigned({column}, 32) % {PRIME}L) * {HIGH_FACTOR}L % {PRIME}L"
    return f"(({low} + {high} + {SHIFT}L) % {PRIME}L)"
