"""What a join tells: pairs of rows, and left rows that found no partner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millpond.errors import WindowError
from millpond.windowing.columns.columnar import Array
from millpond.windowing.columns.intake import Bools, Ints
from millpond.windowing.joins.sides import Kept

INNER = "inner"
LEFT = "left"


@dataclass(frozen=True, slots=True)
class Joined:
    """Pairs by key, then window, then the times of left and right rows, then arrival.

    Where `matched` is false there is a left row alone, and what is on the right means nothing. `begins` and `ends` are
    those of the common window, if there is one. Columns of a side that never had a row are not known.
    """

    keys: Ints
    left_times: Ints
    right_times: Ints
    matched: Bools
    left: dict[str, Array]
    right: dict[str, Array]
    begins: Ints | None = None
    ends: Ints | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def to_arrow(self) -> pa.Table:
        """The pairs as a table: the columns of a side are a struct, which is null on the right of a left row alone."""
        bounds = {} if self.begins is None else {"window_begin": self.begins, "window_end": self.ends}
        times = {**bounds, "left_time": self.left_times, "right_time": self.right_times}
        absent = {"right_time": ~self.matched}
        table = {name: pa.array(at, mask=absent.get(name)).cast(pa.timestamp("us")) for name, at in times.items()}
        sides = {"left": (self.left, np.zeros(len(self), np.bool_)), "right": (self.right, ~self.matched)}
        for side, (columns, missing) in sides.items():
            if columns:
                parts = [pa.array(column, mask=missing) for column in columns.values()]
                table[side] = pa.StructArray.from_arrays(parts, list(columns), mask=pa.array(missing))
        return pa.table({"key": self.keys, **table})


def joined(
    left: Kept, right: Kept, lefts: Ints, rights: Ints, begins: Ints | None = None, ends: Ints | None = None
) -> Joined:
    """Pairs by the places of their rows; -1 on the right is a left row alone."""
    matched = rights >= 0
    return Joined(
        left.keys[lefts],
        left.times[lefts],
        _taken(right.times, rights, matched),
        matched,
        {name: column[lefts] for name, column in left.columns.items()},
        {name: _taken(column, rights, matched) for name, column in right.columns.items()},
        begins,
        ends,
    )


def check_how(how: str) -> str:
    """The kind of join, if there is such a one."""
    if how not in (INNER, LEFT):
        raise bad_join(f"how={INNER!r} or {LEFT!r}", repr(how)[:60])
    return how


def bad_join(expected: str, found: str) -> WindowError:
    """Return the error for a join that makes no sense."""
    return WindowError(
        "MP651", "this can't be a join", expected=expected, found=found, hint="see docs/WINDOWS.md, Joins"
    )


def _taken(column: Array, places: Ints, there: Bools) -> Array:
    found = np.empty(len(places), column.dtype) if column.dtype.kind == "O" else np.zeros(len(places), column.dtype)
    found[there] = column[places[there]]
    return found
