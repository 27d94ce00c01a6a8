"""What all sinks that write to tables share: modes, the last row of each key, and what is nested as JSON.

>>> import pyarrow as pa
>>> last_of_each(pa.table({"k": [1, 2, 1], "v": ["a", "b", "c"]}), ["k"]).to_pylist()
[{'k': 2, 'v': 'b'}, {'k': 1, 'v': 'c'}]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from millpond.errors import SinkError

if TYPE_CHECKING:
    import pyarrow as pa

Mode = Literal["append", "upsert"]
"""Whether rows are added, or take the place of those with their key."""

_AT = "millpond_at"


def check_mode(mode: str, key: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of the key; MP804 if mode and key do not go together."""
    fits = (mode == "append" and not key) or (mode == "upsert" and bool(key))
    if not fits or len(set(key)) != len(key) or isinstance(key, str):
        raise SinkError(
            "MP804",
            "a table sink needs a mode, and a key if it has to find rows by it",
            expected='mode="append" without a key, or mode="upsert" with key=["column", ...]',
            found=f"mode={mode!r}, key={key!r}",
        )
    return tuple(key)


def check_key(table: pa.Table, key: Sequence[str]) -> None:
    """Refuse rows without the columns of the key, or with a null in one: no row could be found by it."""
    missing = [name for name in key if name not in table.column_names]
    if missing:
        raise SinkError(
            "MP803",
            "a sink names columns that its rows do not have",
            expected=f"some of {', '.join(table.column_names)}",
            found=", ".join(missing),
            hint="`keep` of feed() says which columns stay beside the reply",
        )
    if nulls := [name for name in key if table.column(name).null_count]:
        raise SinkError(
            "MP805",
            "a row has no value in a column of the key by which it would be found",
            expected=f"a value in each of {', '.join(key)}",
            found=f"nulls in {', '.join(nulls)}",
            hint="append these rows, or choose another key; the epoch is committed, and waits",
        )


def last_of_each(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the last row of each key, in the order in which these came."""
    import pyarrow as pa

    check_key(table, key)
    numbered = table.select(list(key)).append_column(_AT, pa.array(range(table.num_rows), pa.int64()))
    last = numbered.group_by(list(key)).aggregate([(_AT, "max")]).column(f"{_AT}_max")
    return table.take(last.combine_chunks().sort())


def nested_as_json(table: pa.Table) -> pa.Table:
    """Return the table with lists, structs and maps as JSON text."""
    import pyarrow as pa

    encode = msgspec.json.Encoder(decimal_format="string").encode
    for at, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            texts = [None if value is None else _text(encode, value) for value in table.column(at).to_pylist()]
            table = table.set_column(at, field.name, pa.array(texts, pa.string()))
    return table


def _text(encode: Any, value: Any) -> str:
    return str(encode(value), "utf-8")
