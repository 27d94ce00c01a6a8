"""Dead letters: rows that were left out, whole, with why and where they came from; and how they are read again.

A row is written as JSON that says all: bytes in base 64, moments in ISO 8601, decimals as text, maps as lists of pairs.
With the types of its columns it is read back as it was.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from millpond.engine.messages import Letter

DEAD_LETTER_SCHEMA: Final = pa.schema(
    [
        pa.field("feed", pa.string()),
        pa.field("entry", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("row", pa.string()),
        pa.field("source", pa.string()),
        pa.field("position", pa.int64()),
        pa.field("order_by", pa.int64()),
        pa.field("event_time", pa.timestamp("us", tz="UTC")),
        pa.field("epoch", pa.int64()),
        pa.field("exception", pa.string()),
        pa.field("lines", pa.list_(pa.string())),
    ]
)
"""The columns of a dead letter.

`row` is the row as JSON: its parameters, and the columns to keep. `order_by` is the value of that column as a number,
if the feed has one. `exception` and `lines`, the user's own, are of rows on which the program raised.
"""


_JSON: Final = json.JSONEncoder(default=str, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The columns of rows as they came in, by their names, and their event times in microseconds, if they have any."""

    columns: Mapping[str, pa.Array]
    times: pa.Array | None = None

    def row(self, at: int) -> str:
        """Return one row as JSON."""
        return row_text(self.columns, at)

    def time_us(self, at: int) -> int | None:
        """Say when one row happened."""
        return None if self.times is None else self.times[at].as_py()


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that is left out: why, what it was, when it happened, and where it came from."""

    feed: int
    reason: str
    row: str
    order: int
    source: str | None
    position: int
    time_us: int | None = None
    letter: Letter | None = None


def letter_table(letters: Sequence[BadRow], feed: str, entry: str, epoch: int, *, ordered: bool) -> pa.Table:
    """Return the dead letters of a feed in input order; rows of one place by what they say, so that retries agree."""
    told = sorted(letters, key=lambda bad: (bad.order, bad.source or "", bad.position, bad.row))
    columns: dict[str, list[Any]] = {
        "feed": [feed] * len(told),
        "entry": [entry] * len(told),
        "reason": [bad.reason for bad in told],
        "row": [bad.row for bad in told],
        "source": [bad.source for bad in told],
        "position": [bad.position for bad in told],
        "order_by": [bad.order if ordered else None for bad in told],
        "event_time": [bad.time_us for bad in told],
        "epoch": [epoch] * len(told),
        "exception": [None if bad.letter is None else bad.letter.exception for bad in told],
        "lines": [None if bad.letter is None else list(bad.letter.lines) for bad in told],
    }
    return pa.Table.from_pydict(columns, schema=DEAD_LETTER_SCHEMA)


# --- rows as text


def row_text(columns: Mapping[str, pa.Array], row: int) -> str:
    """Return a row as JSON, for people and for a second try."""
    values = {name: _plain(as_python(column, row), column.type) for name, column in columns.items()}
    return _JSON.encode(values)


def as_python(column: pa.Array, row: int) -> Any:
    """Return a value of a column, also if it is a text that is none."""
    try:
        return column[row].as_py()
    except UnicodeDecodeError:
        if pa.types.is_nested(column.type):
            return "(text that is not UTF-8)"
        return column[row].as_buffer().to_pybytes().decode("utf-8", "backslashreplace")


def columns_of(texts: Sequence[str], kinds: Mapping[str, pa.DataType]) -> dict[str, pa.Array]:
    """Rows that were written as JSON as columns of these types; a column that a row does not name is null there."""
    rows = [json.loads(text) for text in texts]
    return {name: pa.array([_value(row.get(name), kind) for row in rows], type=kind) for name, kind in kinds.items()}


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Return a value as JSON has it."""
    if value is None or isinstance(value, str):
        return value
    if pa.types.is_dictionary(kind):
        return _plain(value, kind.value_type)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(microseconds=1)
    if isinstance(value, decimal.Decimal):
        return str(value)
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return [[_plain(key, kind.key_type), _plain(part, kind.item_type)] for key, part in value]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_plain(part, kind.value_type) for part in value]
    return value


def _value(told: Any, kind: pa.DataType) -> Any:
    """Return what JSON has, as a value that Arrow takes for one of its type."""
    if told is None:
        return None
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return base64.b64decode(told)
    if pa.types.is_timestamp(kind):
        return datetime.datetime.fromisoformat(told)
    if pa.types.is_date(kind):
        return datetime.date.fromisoformat(told)
    if pa.types.is_time(kind):
        return datetime.time.fromisoformat(told)
    if pa.types.is_duration(kind):
        return datetime.timedelta(microseconds=told)
    if pa.types.is_decimal(kind):
        return decimal.Decimal(told)
    if pa.types.is_struct(kind):
        return {field.name: _value(told[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(_value(key, kind.key_type), _value(part, kind.item_type)) for key, part in told]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_value(part, kind.value_type) for part in told]
    return told
