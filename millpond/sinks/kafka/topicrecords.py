"""Rows as records of Kafka: keys, values and headers of a table's columns.

>>> import pyarrow as pa
>>> rows = pa.table({"user": ["a", None], "reply": [1.5, 2.0]})
>>> [some] = Records(key="user").of(rows)
>>> some.keys, some.values
([b'a', None], [b'{"user":"a","reply":1.5}', b'{"user":null,"reply":2.0}'])
>>> [some] = Records(value="user").of(rows)
>>> some.keys, some.values
(None, [b'a', None])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from millpond.errors import SinkError

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 10_000
"""Rows that are Python objects at a time."""


class RecordColumns(NamedTuple):
    """Records of Kafka that are about to be sent, as columns: an object for each record takes longer than its JSON."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None
    headers: Sequence[list[tuple[str, bytes | None]]] | None


@dataclass(frozen=True, slots=True)
class Records:
    """Which columns make the key, the value and the headers.

    One column as the value goes out raw, if it holds bytes or text; several, or all if there are none, are one JSON
    object. Keys and headers are columns, too. A null is no key, no value, or a header without a value.
    """

    key: str | None = None
    value: str | tuple[str, ...] | None = None
    headers: tuple[tuple[str, str], ...] = ()

    def of(self, table: pa.Table) -> Iterator[RecordColumns]:
        """Return the records of all rows, in their order, some thousands at a time."""
        self._check(table.column_names)
        encode = msgspec.json.Encoder(decimal_format="string").encode
        for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
            keys = None if self.key is None else _raw(batch.column(self.key), encode)
            if isinstance(self.value, str):
                values: Sequence[bytes | None] = _raw(batch.column(self.value), encode)
            else:
                values = _objects(batch, self.value or batch.schema.names, encode)
            yield RecordColumns(values, keys, self._headers(batch, encode))

    def _headers(self, batch: pa.RecordBatch, encode: Any) -> Sequence[list[tuple[str, bytes | None]]] | None:
        if not self.headers:
            return None
        named = [[(name, value) for value in _raw(batch.column(column), encode)] for name, column in self.headers]
        return [list(row) for row in zip(*named, strict=True)]

    def _check(self, columns: Sequence[str]) -> None:
        value = (self.value,) if isinstance(self.value, str) else self.value or ()
        named = [*value, *(column for _, column in self.headers), *(() if self.key is None else (self.key,))]
        if missing := sorted(set(named) - set(columns)):
            raise SinkError(
                "MP803",
                "a sink names columns that its rows do not have",
                expected=f"some of {', '.join(columns)}",
                found=", ".join(missing),
                hint="`keep` of feed() says which columns stay beside the reply",
            )


def _objects(batch: pa.RecordBatch, names: Sequence[str], encode: Any) -> list[bytes]:
    """Return each row as a JSON object: texts of columns, joined by Arrow."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts: list[Any] = []
    for at, name in enumerate(names):
        head = f"{',' if at else '{'}{encode(name).decode()}:"
        parts += [pa.scalar(head), _texts(batch.column(name), encode)]
    joined = pc.binary_join_element_wise(*parts, pa.scalar("}"), pa.scalar(""))
    return joined.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]


def _texts(column: pa.Array, encode: Any) -> pa.Array:
    """Return the values of a column as JSON."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_integer(kind):
        return pc.fill_null(column.cast(pa.string()), "null")
    of = pa.types
    if any(one(kind) for one in (of.is_floating, of.is_boolean, of.is_decimal, of.is_timestamp, of.is_date)):
        # No comma is in the JSON of any of them.
        texts = encode(column.to_pylist())[1:-1].split(b",") if len(column) else []
    else:
        texts = [encode(value) for value in column.to_pylist()]
    return pa.array(texts, pa.binary()).cast(pa.string())


def _raw(column: pa.Array, encode: Any) -> list[bytes | None]:
    """Return bytes as they are and text in UTF-8; all else as JSON."""
    import pyarrow as pa

    if pa.types.is_string(column.type) or pa.types.is_integer(column.type):
        return column.cast(pa.string()).cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]
    return [
        value
        if value is None or isinstance(value, bytes)
        else value.encode()
        if isinstance(value, str)
        else encode(value)
        for value in column.to_pylist()
    ]
