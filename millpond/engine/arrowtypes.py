"""Type hints as Arrow types, and columns of Python values to and from Arrow.

The mapping is one way and total for what it supports: a hint has one Arrow type, and any other is refused before a row
is read.

>>> to_arrow([{"mill": 2}, None], dict[str, int] | None).to_pylist()
[[('mill', 2)], None]
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import inspect
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any, get_args, get_origin

import numpy as np
import pyarrow as pa

from millpond.errors import FeedError
from millpond.program.columntypes import LISTS, bare_hint, enum_values, optional, struct_fields
from millpond.state.codec.canonical import canonical_set, in_canonical_order
from millpond.state.codec.typenames import type_text
from millpond.state.codec.valuecodec import has_nan
from millpond.state.containers.vector import Vector
from millpond.state.copying import copied

_SCALARS: dict[Any, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    bool: pa.bool_(),
    datetime.date: pa.date32(),
    datetime.datetime: pa.timestamp("us", tz="UTC"),
    decimal.Decimal: pa.decimal128(38, 18),
    uuid.UUID: pa.string(),
}
_EXACT: dict[Any, tuple[type, ...]] = {int: (int, np.integer), str: (str,)}
_MAPS = (dict, Vector)


def arrow_type(hint: Any) -> pa.DataType:
    """Return the Arrow type of a hint."""
    if type(hint) is not type:
        hint = bare_hint(hint)
    if hint in _SCALARS:
        return _SCALARS[hint]
    if hint is None or hint is type(None):
        return pa.null()
    values = enum_values(hint)
    if values is not None:
        return _SCALARS[values]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in LISTS and len(arguments) == 1:
        return pa.list_(arrow_type(arguments[0]))
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return pa.list_(arrow_type(arguments[0]))
    if origin is dict and len(arguments) == 2:
        return pa.map_(arrow_type(arguments[0]), arrow_type(arguments[1]))
    if origin is Vector:
        return pa.map_(arrow_type(arguments[0]), pa.float64())
    fields = struct_fields(hint)
    if fields is not None:
        return pa.struct([pa.field(name, arrow_type(part)) for name, part in fields])
    raise FeedError(
        "MP501",
        "no column can hold this type",
        expected="numbers, str, bytes, bool, date, datetime, Decimal, UUID, Enum, list, set, dict, tuple, dataclass, "
        "or `| None`",
        found=type_text(hint),
    )


def to_arrow(values: Sequence[Any], hint: Any) -> pa.Array:
    """Return a column of Python values as Arrow, by the hint; a value that does not fit raises."""
    bare = hint if type(hint) is type else bare_hint(hint)
    kind = arrow_type(bare)
    if pa.types.is_map(kind):
        return _map_array(values, bare, kind)
    if pa.types.is_list(kind):
        return _list_array(values, bare)
    fields = struct_fields(bare)
    if fields is None:
        return pa.array(_plain(values, bare), type=kind, from_pandas=False)
    present = values if None not in values else [value for value in values if value is not None]
    if get_origin(bare) is tuple or hasattr(bare, "_fields"):
        if not {len(fields)}.issuperset(map(len, present)):
            raise ValueError(f"a tuple has other than {len(fields)} parts")
        columns = [list(map(itemgetter(place), present)) for place in range(len(fields))]
    else:
        columns = [[getattr(value, name) for value in present] for name, _ in fields]
    arrays = [to_arrow(column, part) for column, (_, part) in zip(columns, fields, strict=True)]
    struct = pa.StructArray.from_arrays(arrays, fields=list(kind))
    return struct if len(present) == len(values) else _spread(struct, values)


def _plain(values: Sequence[Any], hint: Any) -> Sequence[Any]:
    """Return what a column holds of values of a scalar type."""
    if hint is uuid.UUID or (hint not in _SCALARS and enum_values(hint) is not None):
        if not {hint, type(None)}.issuperset(map(type, values)):
            raise TypeError(f"other values where {hint.__name__} is declared")
        return [value if value is None else _plain_one(value) for value in values]
    _check_exact(values, hint)
    return values


def _plain_one(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else str(value)


def _check_exact(values: Sequence[Any], hint: Any) -> None:
    """Refuse what Arrow would take and bend: it cuts 1.5 to the integer 1, and reads bytes as text."""
    wanted = _EXACT.get(hint)
    if wanted is not None:
        for kind in set(map(type, values)):
            if not issubclass(kind, (*wanted, type(None))):
                raise TypeError(f"{kind.__name__} where {hint.__name__} is declared")


def _list_array(values: Sequence[Any], hint: Any) -> pa.Array:
    item = get_args(hint)[0]
    unordered = get_origin(hint) in (set, frozenset)
    present = [_in_order(value) if unordered else value for value in values if value is not None]
    flat = to_arrow([part for value in present for part in value], item)
    array = pa.ListArray.from_arrays(_offsets(present), flat)
    return array if len(present) == len(values) else _spread(array, values)


def _in_order(members: Collection[Any]) -> list[Any]:
    """Order the members of a set as readers expect them; those that can't be compared, in their canonical order.

    Sets compare by what they hold, and NaN with nothing: sorting leaves these in the order in which they came.
    """
    if all(map(_compares, members)):
        with suppress(TypeError):
            return sorted(members)
    return in_canonical_order(members)


def _compares(member: Any) -> bool:
    if isinstance(member, tuple):
        return all(map(_compares, member))
    return isinstance(member, (*_SCALARS, np.generic)) and not has_nan(member)


def _map_array(values: Sequence[Any], hint: Any, kind: pa.DataType) -> pa.Array:
    arguments = get_args(hint)
    value_hint = float if get_origin(hint) is Vector else arguments[1]
    present = [value for value in values if value is not None]
    keys = to_arrow([key for value in present for key in value], arguments[0])
    items = to_arrow([value[key] for value in present for key in value], value_hint)
    array = pa.MapArray.from_arrays(_offsets(present), keys, items).cast(kind)
    return array if len(present) == len(values) else _spread(array, values)


def _offsets(values: Sequence[Any]) -> pa.Array:
    lengths = np.fromiter((len(value) for value in values), dtype=np.int32, count=len(values))
    return pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))


def _spread(array: pa.Array, values: Sequence[Any]) -> pa.Array:
    places = iter(range(len(array)))
    return array.take(pa.array([None if value is None else next(places) for value in values], type=pa.int64()))


def in_utc(table: pa.Table) -> pa.Table:
    """Bring moments to UTC, also inside of structs, lists and maps: Spark sends them in the zone of its session."""
    if not any(map(_zoned, table.schema.types)):
        return table
    columns = [column.cast(utc_type(column.type)) if _zoned(column.type) else column for column in table.columns]
    return pa.table(columns, names=table.column_names)


def _zoned(kind: pa.DataType) -> bool:
    """Say whether a type has moments of another zone than UTC in it."""
    if pa.types.is_timestamp(kind):
        return kind.tz not in (None, "UTC")
    return any(_zoned(kind.field(place).type) for place in range(kind.num_fields))


def utc_type(kind: pa.DataType) -> pa.DataType:
    """Return a type with its moments in UTC, whose parts may be null."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, utc_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        key, item = (pa.field(part.name, utc_type(part.type)) for part in (kind.key_field, kind.item_field))
        return pa.map_(key.with_nullable(False), item, keys_sorted=kind.keys_sorted)
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, utc_type(kind.value_type)))
    return kind


def reader(hint: Any) -> Callable[[pa.Array], list[Any]]:
    """Make a function that turns an Arrow column into Python values of the hint; None stays None."""
    bare = bare_hint(hint)
    if bare in (int, float):
        return _read_numbers
    if bare is str:
        return _read_text
    if bare in _SCALARS and bare is not uuid.UUID:
        return _read_plain
    convert = _converter(bare)
    return lambda column: [None if value is None else convert(value) for value in column.to_pylist()]


def _read_plain(column: pa.Array) -> list[Any]:
    return list(column.to_pylist())


def _read_numbers(column: pa.Array) -> list[Any]:
    if column.null_count:
        return list(column.to_pylist())
    values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    return values


def _read_text(column: pa.Array) -> list[Any]:
    # Equal strings become one object: fewer allocations, and dict look-ups that hit by identity.
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    if coded.null_count:
        return list(column.to_pylist())
    words = np.array([*coded.dictionary.to_pylist(), None], dtype=object)
    values: list[Any] = words[coded.indices.to_numpy(zero_copy_only=False)].tolist()
    return values


def _read_uuid(text: str) -> uuid.UUID:
    """Read the one form that Spark can hash as we do: 36 characters, in lower or upper case."""
    found = uuid.UUID(text)
    if str(found) != text.lower():
        raise ValueError(text)
    return found


def _maker(kind: type) -> Callable[..., Any]:
    """Return what makes a record of its fields; its class may refuse them, but what completes it changes none."""
    if not dataclasses.is_dataclass(kind):
        return kind
    made_of: Callable[..., Any] = kind
    given = [field.name for field in dataclasses.fields(kind) if field.init]
    if not hasattr(kind, "__post_init__") and len(given) == len(dataclasses.fields(kind)):
        return made_of
    # What else it is made of is not in a column.
    asks = set(inspect.signature(made_of).parameters) == set(given)

    def made(**fields: Any) -> Any:
        record = made_of(**{name: copied(fields[name]) for name in given}) if asks else object.__new__(kind)
        for name, value in fields.items():
            object.__setattr__(record, name, value)
        return record

    return made


def _converter(hint: Any) -> Callable[[Any], Any]:
    hint_bare = bare_hint(hint)
    origin, arguments = get_origin(hint_bare), get_args(hint_bare)
    if hint_bare is uuid.UUID:
        return _read_uuid
    if enum_values(hint_bare) is not None:
        member: Callable[[Any], Any] = hint_bare
        return member
    if hint_bare in _SCALARS or hint_bare is None or hint_bare is type(None):
        return lambda value: value
    if origin in _MAPS:
        key, item = _converter(arguments[0]), _converter(arguments[-1]) if origin is dict else float
        make: Callable[..., Any] = dict if origin is dict else Vector
        return lambda pairs: make((key(k), None if v is None else item(v)) for k, v in pairs)
    fields = struct_fields(hint_bare)
    if fields is not None:
        parts = [(name, _converter(part)) for name, part in fields]
        if origin is tuple:
            return lambda row: tuple(None if row[n] is None else convert(row[n]) for n, convert in parts)
        maker = _maker(hint_bare)
        return lambda row: maker(**{n: None if row[n] is None else convert(row[n]) for n, convert in parts})
    item = _converter(arguments[0])
    make_list: Callable[[Any], Any] = tuple if origin is tuple else origin
    if origin in (set, frozenset):
        # Spark's `collect_set` gives another order whenever it is computed again.
        return lambda values: canonical_set(origin(None if value is None else item(value) for value in values))
    return lambda values: make_list(None if value is None else item(value) for value in values)


__all__ = ["arrow_type", "bare_hint", "in_utc", "optional", "reader", "struct_fields", "to_arrow", "utc_type"]
