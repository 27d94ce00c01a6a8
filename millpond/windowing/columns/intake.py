"""Columns as they come, from NumPy or Arrow, made into arrays that aggregates work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millpond.errors import WindowError
from millpond.windowing.aggregates.aggregates import Aggregate, several
from millpond.windowing.aggregates.forms import NUMBER, Array, Bools, ColumnForm, Ints, State
from millpond.windowing.kinds.grids import SlicedGrid

NANOSECONDS = 1000
"""So many are a microsecond."""

TIME_MAX = 2**62
"""Some 146,000 years from 1970 either way: the edges of windows around a time fit 64 bits too."""

NUMBER_MAX = 2**61
"""No window has a larger number: a slice is twice that, and at the end of time it must still fit 64 bits."""

INTEGER_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Late:
    """Rows of a batch whose windows were all closed: their numbers in it, and by how many microseconds they were late.

    `outside` are the rows that lie between windows, where windows are shorter than their slide.
    """

    rows: Ints
    late_by: Ints
    outside: Ints


@dataclass(frozen=True, slots=True)
class Closed:
    """Windows that closed, by key and begin: a row of each array is a window, `values` holds a column per aggregate.

    With an allowed lateness, `corrected` marks those that were emitted before and have changed since, and `retracted`
    are the results that no longer hold, if they are to be taken back one by one.
    """

    keys: Ints
    begins: Ints
    ends: Ints
    rows: Ints
    values: dict[str, Array]
    corrected: Bools | None = None
    retracted: Closed | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def where(self, chosen: Any) -> Closed:
        """Return some of the windows, by a mask or by their places."""
        values = {name: column[chosen] for name, column in self.values.items()}
        return Closed(self.keys[chosen], self.begins[chosen], self.ends[chosen], self.rows[chosen], values)

    def sorted(self) -> Closed:
        """Return the windows by key and begin."""
        return self.where(np.lexsort((self.begins, self.keys)))

    def changes(self) -> pa.Table:
        """List changes to a table of results: first `retract` rows, then `tell` rows and, `correct`, emitted before."""
        marks = np.zeros(len(self), np.bool_) if self.corrected is None else self.corrected
        new = self.to_arrow().append_column(
            "change", pa.array(np.where(marks, "correct", "tell").astype(object), "string")
        )
        if self.retracted is None or not len(self.retracted):
            return new
        old = self.retracted.to_arrow()
        old = old.append_column("change", pa.array(["retract"] * len(old), "string"))
        return pa.concat_tables([old, new] if len(new) else [old])

    def to_arrow(self) -> pa.Table:
        """Return the windows as a table; begins and ends are timestamps."""
        bounds = {"window_begin": self.begins, "window_end": self.ends}
        return pa.table(
            {
                "key": self.keys,
                **{name: pa.array(points).cast(pa.timestamp("us")) for name, points in bounds.items()},
                **{name: pa.array(column) for name, column in self.values.items()},
            }
        )


def forms_of(aggregates: Mapping[str, Aggregate]) -> dict[str, ColumnForm]:
    """Return the forms over columns, or the error that names an aggregate without one."""
    forms: dict[str, ColumnForm] = {}
    for name, aggregate in several(aggregates).parts:
        if aggregate.columns is None:
            raise not_columnar(f"sum, count, mean, variance, min, max, first, last, argmin, argmax as {name!r}",
                               aggregate.name)  # fmt: skip
        aggregate.columns.needs  # noqa: B018 - refuses an aggregate without a column's name
        forms[name] = aggregate.columns
    return forms


def not_columnar(expected: str, found: str) -> WindowError:
    """Return the error for what can't be computed over columns."""
    return WindowError(
        "MP629",
        "this can't be computed over whole columns",
        expected=expected,
        found=found,
        hint="use `SharedWindows`, which takes records one by one",
    )


class Intake:
    """Checks the columns of batches; a column keeps the type that its first rows had."""

    def __init__(self, forms: Mapping[str, ColumnForm]) -> None:
        self._needs: dict[str, str] = {}
        for form in forms.values():
            for column, need in form.needs.items():
                # Whoever wants numbers decides: others take numbers too.
                self._needs[column] = need if self._needs.get(column) != NUMBER else NUMBER
        self.dtypes: dict[str, np.dtype[Any]] = {}

    def take(self, keys: Any, times: Any, columns: Mapping[str, Any]) -> tuple[Ints, Ints, dict[str, Array]]:
        """Return the columns of a batch as arrays of one length."""
        codes, points = keyed(keys, times)
        taken = {name: self._column(name, columns, need) for name, need in self._needs.items()}
        check_lengths(taken, len(codes))
        return codes, points, taken

    def exported(
        self, watermark: int | None, own: Mapping[str, Array], states: Mapping[str, State] | None
    ) -> dict[str, Any]:
        """Return a state: the watermark, the types of columns, and arrays, those of partials behind the `own` ones."""
        parts = {f"{name}.{i}": part for name, state in (states or {}).items() for i, part in enumerate(state)}
        dtypes = {name: dtype.str for name, dtype in self.dtypes.items()}
        return {"watermark": watermark, "dtypes": dtypes, "arrays": {**own, **parts}}

    def restored(self, forms: Mapping[str, ColumnForm], state: Mapping[str, Any]) -> dict[str, State] | None:
        """Return the partials of an exported state; None if no row had come."""
        arrays = state["arrays"]
        self.dtypes = {name: np.dtype(text) for name, text in state["dtypes"].items()}
        if not self.dtypes and self._needs:
            return None
        sizes = {name: len(parts) for name, parts in start_states(forms, 0, self.dtypes).items()}
        return {name: tuple(arrays[f"{name}.{i}"] for i in range(size)) for name, size in sizes.items()}

    def _column(self, name: str, columns: Mapping[str, Any], need: str) -> Array:
        if name not in columns:
            raise unfit(name, "a column of this name", ", ".join(columns) or "no column")
        column = _flat(name, columns[name])
        if not len(column):
            return column  # What has no rows has no type.
        if column.dtype.kind in "US":
            column = column.astype(object)  # Or the longest text so far would cut the next.
        if need == NUMBER:
            if column.dtype.kind not in "biuf":
                raise unfit(name, "numbers", str(column.dtype))
            column = column.astype(np.float64, copy=False) if column.dtype.kind == "f" else _signed(name, column)
        known = self.dtypes.setdefault(name, column.dtype)
        if not np.can_cast(column.dtype, known, "safe"):
            raise unfit(name, f"{known}, as in earlier batches", str(column.dtype))
        return column.astype(known, copy=False)


def start_states(forms: Mapping[str, ColumnForm], size: int, dtypes: Mapping[str, np.dtype[Any]]) -> dict[str, State]:
    """Make partials of so many slices without rows, for each aggregate."""
    return {name: form.start(size, dtypes) for name, form in forms.items()}


def chosen_of(states: Mapping[str, State], chosen: Any) -> dict[str, State]:
    """Take some entries of partials, by a mask, places or a slice."""
    return {name: tuple(part[chosen] for part in state) for name, state in states.items()}


def pack(keys: Array, points: Array) -> tuple[Array, int, int] | None:
    """Keys and points as one number each, `key * width + point - low`, with width and low; None if it does not fit."""
    if not len(keys):
        return np.zeros(0, np.int64), 1, 0
    low = int(points.min())
    width = int(points.max()) - low + 1
    if (int(keys.max()) + 1) * width >= 2**63:
        return None
    return keys * width + (points - low), width, low


def keyed(keys: Any, times: Any) -> tuple[Ints, Ints]:
    """Return the keys and times of a batch, checked."""
    codes, points = integers("keys", keys), integers("times", times)
    check_lengths({"times": points}, len(codes))
    if len(points) and not -TIME_MAX <= int(points.min()) <= int(points.max()) <= TIME_MAX:
        raise unfit("times", f"microseconds since 1970 between -{TIME_MAX} and {TIME_MAX}", "one beyond")
    if len(codes) and int(codes.min()) < 0:
        raise unfit("keys", "codes of keys: 0, 1, 2, …", str(int(codes.min())))
    return codes, points


def sliced(grid: SlicedGrid, times: Ints) -> tuple[Ints, Bools]:
    """Find the slices of times, and whether each lies behind an end inside it; refuse times beyond all numbers."""
    numbers, behind = grid.slices(times)
    if len(times) and not grid.whole - NUMBER_MAX < int(numbers.min()) <= int(numbers.max()) < NUMBER_MAX:
        raise unfit("times", f"times within {NUMBER_MAX} slides from 1970", "one beyond")
    return numbers, behind


def check_lengths(columns: Mapping[str, Array], size: int) -> None:
    """Refuse columns that have not as many rows as there are keys."""
    for name, column in columns.items():
        if len(column) != size:
            raise unfit(name, f"{size} rows, as there are keys", f"{len(column)} rows")


def to_numpy(name: str, column: Any) -> Array:
    """Return a column without nulls as an array; timestamps as microseconds."""
    if isinstance(column, pa.Array | pa.ChunkedArray):
        if column.null_count:
            raise unfit(name, "no nulls", f"{column.null_count} nulls")
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            # A cast would refuse parts of a microsecond, or cut them off towards 1970.
            return np.asarray(column.cast(pa.int64()).to_numpy() // NANOSECONDS)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        converted: Array = column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
        return converted
    return np.asarray(column)


def _flat(name: str, column: Any) -> Array:
    """Take a column of values as they are, without nulls; text beside numbers stays text, and lists are no values."""
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return to_numpy(name, column)
    try:
        found = np.asarray(column)
    except ValueError as error:
        raise unfit(name, "one value per row", "lists of several lengths") from error
    if found.ndim != 1:
        raise unfit(name, "one value per row", f"{found.ndim} dimensions")
    given = column if isinstance(column, list | tuple) else ()
    if found.dtype.kind in "US" and not all(isinstance(value, str | bytes) for value in given):
        found = np.empty(len(given), object)
        found[:] = given
    if found.dtype.kind == "f" and given and all(type(value) is int for value in given):
        raise unfit(name, "integers that fit 64 bits", "one beyond")
    if found.dtype.kind == "O" and any(value is None for value in found.tolist()):
        raise unfit(name, "no nulls", "None")
    return found


def _signed(name: str, column: Array) -> Ints:
    """Integers of any kind as signed ones; what would wrap around is refused."""
    if column.dtype.kind == "u" and len(column) and int(column.max()) > INTEGER_MAX:
        raise unfit(name, f"integers up to {INTEGER_MAX}", str(int(column.max())))
    return column.astype(np.int64, copy=False)


def integers(name: str, column: Any) -> Ints:
    """Return a column of integers or moments as 64-bit integers."""
    found = to_numpy(name, column)
    if found.ndim != 1:
        raise unfit(name, "a column", f"{found.ndim} dimensions")
    if found.dtype.kind == "M":
        if np.isnat(found).any():
            raise unfit(name, "no nulls", "NaT")
        found = found.astype("datetime64[us]").astype(np.int64)
    if found.dtype.kind not in "iu" and len(found):
        raise unfit(name, "integers", str(found.dtype))
    return _signed(name, found)


def unfit(column: str, expected: str, found: str) -> WindowError:
    """Return the error for a column that can't be taken."""
    return WindowError(
        "MP628",
        f"the column {column!r} does not fit the windows",
        expected=expected,
        found=found,
        hint="convert it before it is added",
    )
