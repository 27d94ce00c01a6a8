"""Rows as records of Kafka: keys, values and headers of a table's columns.

>>> import pyarrow as pa
>>> rows = pa.table({"user": ["a", None], "reply": [1.5, 2.0]})
>>> [(record.key, record.value) for record in Records(key="user").of(rows)]
[(b'a', b'{"user":"a","reply":1.5}'), (None, b'{"user":null,"reply":2.0}')]
>>> [record.value for record in Records(value="user").of(rows)]
[b'a', None]
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


class Record(NamedTuple):
    """A record of Kafka that is about to be sent."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None


@dataclass(frozen=True, slots=True)
class Records:
    """Which columns make the key, the value and the headers.

    One column as the value goes out raw, if it holds bytes or text; several, or all if there are none, are one JSON
    object. Keys and headers are columns, too. A null is no key, no value, or a header without a value.
    """

    key: str | None = None
    value: str | tuple[str, ...] | None = None
    headers: tuple[tuple[str, str], ...] = ()

    def of(self, table: pa.Table) -> Iterator[Record]:
        """Return a record for each row, in their order."""
        self._check(table.column_names)
        encode = msgspec.json.Encoder(decimal_format="string").encode
        for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
            keys = [None] * batch.num_rows if self.key is None else _raw(_column(batch, self.key))
            headers = [(name, _raw(_column(batch, column))) for name, column in self.headers]
            if isinstance(self.value, str):
                values: Sequence[bytes | None] = _raw(_column(batch, self.value))
            else:
                values = _objects(batch, self.value or batch.schema.names, encode)
            for at, (key, value) in enumerate(zip(keys, values, strict=True)):
                yield Record(key, value, [(name, column[at]) for name, column in headers] or None)

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


def _column(batch: pa.RecordBatch, name: str) -> list[Any]:
    return batch.column(name).to_pylist()  # type: ignore[no-any-return]


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

    if pa.types.is_integer(column.type):
        return pc.fill_null(column.cast(pa.string()), "null")
    return pa.array([encode(value) for value in column.to_pylist()], pa.binary()).cast(pa.string())


def _raw(values: Sequence[Any]) -> list[bytes | None]:
    """Return bytes as they are and text in UTF-8; all else as JSON."""
    encode = msgspec.json.Encoder(decimal_format="string").encode
    return [
        value
        if value is None or isinstance(value, bytes)
        else value.encode()
        if isinstance(value, str)
        else encode(value)
        for value in values
    ]
