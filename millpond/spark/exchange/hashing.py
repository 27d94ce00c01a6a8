"""The stable hash of `millpond.keygroups` as Spark SQL; a test compares the two.

As text, since building the same expression from column objects takes tens of calls into the JVM at every epoch.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Sequence
from typing import Any

from millpond.engine.arrowtypes import bare_hint, struct_fields
from millpond.keygroups import CHAIN_FACTOR, HIGH_FACTOR, LOW_FACTOR, PRIME, SHIFT
from millpond.program.columntypes import enum_values


def hash_column(name: str, hint: Any) -> str:
    """Return the hash of a column of one type; null where the column is null."""
    return _hash(f"`{name}`", hint)


def hash_columns(names: Sequence[str], hints: Sequence[Any]) -> str:
    """Return the hash of a tuple of columns."""
    return _chain([hash_column(name, hint) for name, hint in zip(names, hints, strict=True)])


def _hash(column: str, hint: Any) -> str:
    bare = bare_hint(hint)
    kind = enum_values(bare) or bare
    fields = struct_fields(kind)
    if fields is not None:
        return _chain([_hash(f"{column}.`{name}`", part) for name, part in fields])
    if kind in (str, bytes):
        return f"((crc32({column}) * {LOW_FACTOR}L + {SHIFT}L) % {PRIME}L)"
    if kind is uuid.UUID:
        return _hash(f"lower({column})", str)
    if kind is datetime.datetime:
        return _hash_long(f"unix_micros({column})")
    if kind is datetime.date:
        return _hash_long(f"bigint(unix_date({column}))")
    if kind in (int, bool):
        return _hash_long(f"bigint({column})")
    raise AssertionError(kind)


def _chain(hashes: Sequence[str]) -> str:
    chain = f"{len(hashes)}L"
    for one in hashes:
        chain = f"(({chain} * {CHAIN_FACTOR}L + {one} + {SHIFT}L) % {PRIME}L)"
    return chain


def _hash_long(column: str) -> str:
    low = f"({column} & {0xFFFFFFFF}L) * {LOW_FACTOR}L"
    high = f"(shiftrightunsigned({column}, 32) % {PRIME}L) * {HIGH_FACTOR}L % {PRIME}L"
    return f"(({low} + {high} + {SHIFT}L) % {PRIME}L)"
