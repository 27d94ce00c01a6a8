"""State as Arrow tables: which columns an element has, and batches of its entries or changes.

A type that columns have is a column of that type; any other is text that holds JSON. Nothing is bent to fit: a value
that its column can't hold is an error.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, get_args, get_origin

import pyarrow as pa

from millpond.checkpoint.read.elements import ElementReader, Entry
from millpond.checkpoint.read.entries import Change, Kind
from millpond.checkpoint.read.plain import as_json, json_text
from millpond.engine.arrowtypes import arrow_type, bare_hint, optional, to_arrow
from millpond.errors import StateError
from millpond.program.columntypes import without_column

BATCH_ROWS = 4096

_SCALARS = (int, float, str, bytes, bool, datetime.date, datetime.datetime, decimal.Decimal, uuid.UUID)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of keys or values; without a hint it holds JSON."""

    name: str
    hint: Any | None

    @classmethod
    def of(cls, name: str, hint: Any) -> Column:
        """Return the column of a type: one of its own, or JSON."""
        return _column(name, hint)

    @property
    def field(self) -> pa.Field:
        """The column as Arrow has it."""
        return pa.field(self.name, pa.string() if self.hint is None else arrow_type(self.hint))

    def array(self, values: Sequence[Any], present: Sequence[bool] | None = None) -> pa.Array:
        """Values as a column; those that are not `present` are null."""
        there = [True] * len(values) if present is None else present
        if self.hint is None:
            pairs = zip(values, there, strict=True)
            return pa.array([json_text(as_json(value)) if is_there else None for value, is_there in pairs], pa.string())
        try:
            return to_arrow(values, self.hint).cast(self.field.type)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise StateError(
                "MP247",
                "a value of the state does not fit a column",
                expected=f"what a column of type {self.field.type} holds, in `{self.name}`",
                found=str(error)[:200],
                hint="export the element as .jsonl, which holds any value",
            ) from error


def entry_columns(reader: ElementReader) -> tuple[pa.Schema, Column | None, Column | None]:
    """Return the schema of an element's table, and its columns of keys and of values if it has them."""
    key = _column("key", reader.key_type.hint) if reader.has_keys else None
    value = _column("value", reader.value_type.hint) if reader.has_values else None
    fields = [pa.field("instance", pa.int32())] if reader.partial else []
    return pa.schema([*fields, *(column.field for column in (key, value) if column is not None)]), key, value


def entry_batches(reader: ElementReader, entries: Iterable[Entry]) -> Iterator[pa.RecordBatch]:
    """Yield entries as batches of an element's table."""
    schema, key, value = entry_columns(reader)
    for some in _chunks(entries):
        arrays = [pa.array([entry.instance for entry in some], pa.int32())] if reader.partial else []
        arrays += [] if key is None else [key.array([entry.key for entry in some])]
        arrays += [] if value is None else [value.array([entry.value for entry in some])]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def change_columns(reader: ElementReader) -> tuple[pa.Schema, Column | None, tuple[Column, ...]]:
    """Return the schema of a table of changes, its column of keys, and those of old and new values."""
    key = _column("key", reader.key_type.hint) if reader.has_keys else None
    values = tuple(_column(name, reader.value_type.hint) for name in ("old", "new")) if reader.has_values else ()
    fields = [pa.field("epoch", pa.int64()), pa.field("change", pa.string())]
    fields += [pa.field("instance", pa.int32())] if reader.partial else []
    fields += [] if key is None else [key.field]
    return pa.schema([*fields, *(column.field for column in values)]), key, values


def change_batches(reader: ElementReader, changes: Iterable[Change]) -> Iterator[pa.RecordBatch]:
    """Make batches of a table of changes."""
    schema, key, values = change_columns(reader)
    for some in _chunks(changes):
        arrays = [
            pa.array([change.epoch for change in some], pa.int64()),
            pa.array([change.kind.value for change in some], pa.string()),
        ]
        arrays += [pa.array([change.instance for change in some], pa.int32())] if reader.partial else []
        arrays += [] if key is None else [key.array([change.key for change in some])]
        for column, absent in zip(values, (Kind.ADDED, Kind.REMOVED), strict=False):
            held = [change.old if column.name == "old" else change.new for change in some]
            arrays.append(column.array(held, [change.kind is not absent for change in some]))
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(items)
    while some := list(islice(rest, BATCH_ROWS)):
        yield some


def _column(name: str, hint: Any) -> Column:
    return Column(name, hint if _columnar(hint) else None)


def _columnar(hint: Any) -> bool:
    """Say whether every value of a type has its place in a column of its own type."""
    hint = bare_hint(hint)
    if hint in _SCALARS:
        return True
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (set, frozenset):
        # Members are put in order, which None and records do not have.
        return arguments[0] in _SCALARS
    if origin is dict:
        return _is_key(arguments[0]) and _columnar(arguments[1])
    if origin in (list, tuple):
        return bool(arguments) and all(part is Ellipsis or _columnar(part) for part in arguments)
    return False


def fits_column(hint: Any) -> bool:
    """Say whether values of a program's own type have a column: classes are structs."""
    return not any(True for _ in without_column(hint))


def _is_key(hint: Any) -> bool:
    if get_origin(hint) is tuple and Ellipsis not in get_args(hint):
        return bool(get_args(hint)) and all(map(_is_key, get_args(hint)))
    return not optional(hint) and hint in _SCALARS
