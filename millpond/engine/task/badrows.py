"""Rows that do not fit their entry point: found by column, before any user code sees them."""

from __future__ import annotations

import types
import typing
import uuid
from collections.abc import Callable
from typing import Any, get_args, get_origin

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.engine.arrowtypes import arrow_type, reader
from millpond.engine.publish.deadletters import as_python
from millpond.keygroups import plain_key
from millpond.program.columntypes import SCALARS, bare_hint, choices, enum_values, optional, struct_fields

Mask = npt.NDArray[np.bool_]


def bad_rows(columns: dict[str, pa.Array], hints: dict[str, Any], keys: frozenset[str]) -> tuple[Mask, list[str]]:
    """Say which rows are bad, and for each of them, in order, the reason."""
    rows = len(next(iter(columns.values()))) if columns else 0
    bad = np.zeros(rows, dtype=bool)
    reasons: dict[int, str] = {}
    for name, hint in hints.items():
        column = columns[name]
        for mask, reason in _faults(name, column, hint, is_key=name in keys):
            for row in np.flatnonzero(mask & ~bad).tolist():
                reasons[row] = reason if "{}" not in reason else reason.format(_shown(column, row))
            bad |= mask
    return bad, [reasons[row] for row in sorted(reasons)]


def _faults(name: str, column: pa.Array, hint: Any, *, is_key: bool) -> list[tuple[Mask, str]]:
    faults: list[tuple[Mask, str]] = []
    if column.null_count and (is_key or not optional(hint)):
        what = "the key" if is_key else "a required value"
        faults.append((_mask(column.is_null()), f"`{name}` is null, and it is {what}"))
    garbled = _garbled(column)
    if garbled is not None:
        faults.append((garbled, f"`{name}` is not UTF-8: {{}}"))
    if type(hint) is type and hint in SCALARS and hint is not uuid.UUID:
        return faults  # A bare type has no limits, and the column has what it holds.
    for limits in _limits(hint):
        faults += _range_faults(name, column, limits)
    chosen = choices(hint)
    if chosen is not None:
        known = pc.is_in(column, value_set=pa.array(sorted(chosen), column.type))
        known = pc.or_(known, column.is_null())
        faults.append((~_mask(known), f"`{name}` is none of the values of its type: {{}}"))
    if pa.types.is_nested(arrow_type(bare_hint(hint))):
        faults += _nested_faults(name, column, hint)
    elif any(_limits_more(limits) for limits in _limits(hint)) or (_is_made(hint) and chosen is None):
        faults += _value_faults(name, column, hint)
    return faults


def _limits(hint: Any) -> list[msgspec.Meta]:
    """Return what `Annotated` says of a value itself, also within `| None`."""
    if get_origin(hint) is typing.Annotated:
        inner, *metadata = get_args(hint)
        return [*_limits(inner), *(part for part in metadata if isinstance(part, msgspec.Meta))]
    if get_origin(hint) in (typing.Union, types.UnionType):
        return [limits for member in get_args(hint) for limits in _limits(member)]
    return []


def _limits_more(limits: msgspec.Meta) -> bool:
    return any(getattr(limits, name) is not None for name in ("multiple_of", "pattern", "min_length", "max_length"))


def _garbled(column: pa.Array) -> Mask | None:
    """Return the rows with text that is not UTF-8, at any depth; None if there are none."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return np.array([not _is_valid(column.take(pa.array([row]))) for row in range(len(column))], dtype=bool)
    return None


def _is_valid(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _range_faults(name: str, column: pa.Array, metadata: msgspec.Meta) -> list[tuple[Mask, str]]:
    tests = (
        ("ge", pc.less, "at least"),
        ("gt", pc.less_equal, "more than"),
        ("le", pc.greater, "at most"),
        ("lt", pc.greater_equal, "less than"),
    )
    faults = []
    for bound, misses, words in tests:
        limit = getattr(metadata, bound)
        if limit is not None:
            outside = _mask(misses(column, pa.scalar(limit)))
            if pa.types.is_floating(column.type):
                outside |= _mask(pc.is_nan(column))
            faults.append((outside, f"`{name}` is out of range: {words} {limit}, found {{}}"))
    return faults


def _nested_faults(name: str, column: pa.Array, hint: Any) -> list[tuple[Mask, str]]:
    if not (_nulls_inside(column) or _asks_more(hint)):
        return []
    return _value_faults(name, column, hint)


def _value_faults(name: str, column: pa.Array, hint: Any) -> list[tuple[Mask, str]]:
    read = reader(hint)
    try:
        fits = [value is None or _fits(value, hint) for value in read(column)]
    except Exception:  # noqa: BLE001 - a class of the user may refuse a row with whatever it likes
        fits = [_reads_and_fits(column.slice(row, 1), read, hint) for row in range(len(column))]
    return [(~np.array(fits, dtype=bool), f"`{name}` is not of its type: {{}}")]


def _reads_and_fits(column: pa.Array, read: Callable[[pa.Array], list[Any]], hint: Any) -> bool:
    try:
        (value,) = read(column)
    except Exception:  # noqa: BLE001 - likewise
        return False
    return value is None or _fits(value, hint)


def _nulls_inside(column: pa.Array) -> bool:
    if pa.types.is_struct(column.type):
        parts = [column.field(at) for at in range(column.type.num_fields)]
    elif pa.types.is_map(column.type):
        parts = [column.keys, column.items]
    elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        parts = [column.values]
    else:
        return False
    return any(part.null_count or _nulls_inside(part) for part in parts)


def _asks_more(hint: Any) -> bool:
    """Say whether more than nulls can be wrong with a value: limits, or a class that checks itself."""
    bare = bare_hint(hint)
    is_class = get_origin(bare) is None and struct_fields(bare) is not None
    return (
        is_class
        or _is_made(hint)
        or choices(hint) is not None
        or bool(_limits(hint))
        or any(map(_asks_more, get_args(bare)))
    )


def _is_made(hint: Any) -> bool:
    """Say whether values are made of what the column holds, which may fail."""
    return bare_hint(hint) is uuid.UUID or enum_values(bare_hint(hint)) is not None


def _fits(value: Any, hint: Any) -> bool:
    """Say whether a value read from Arrow is one of the hint: nulls where they may be, and within the limits."""
    if value is None:
        return optional(hint)
    bare = bare_hint(hint)
    chosen = choices(hint)
    if chosen is not None and plain_key(value) not in chosen:
        return False
    for limits in _limits(hint):
        try:
            msgspec.convert(value, typing.Annotated[bare, limits], strict=True)
        except msgspec.ValidationError:
            return False
    fields = struct_fields(bare)
    if fields is not None:
        values = value if isinstance(value, tuple) else [getattr(value, name) for name, _ in fields]
        return all(_fits(part, part_hint) for part, (_, part_hint) in zip(values, fields, strict=True))
    arguments = get_args(bare)
    if isinstance(value, dict):
        item = arguments[1] if len(arguments) == 2 else float
        return all(_fits(key, arguments[0]) and _fits(part, item) for key, part in value.items())
    return not arguments or all(_fits(part, arguments[0]) for part in value)


def _mask(array: pa.Array) -> Mask:
    filled = pc.fill_null(array, False)
    mask: Mask = filled.to_numpy(zero_copy_only=False).astype(bool)
    return mask


def _shown(column: pa.Array, row: int) -> str:
    return repr(as_python(column, row))[:80]
