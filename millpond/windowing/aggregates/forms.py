"""Aggregates over whole columns: what a family of aggregates says of itself beside lift, combine and lower.

A form works on the partials of many slices as arrays, one entry per slice. Rows are applied to their slices in the
order in which they come, as if one by one, so that it can't be seen how rows were cut into batches, down to the last
bit of a float. It keeps a tuple of arrays; how many rows a slice has is kept for all forms together and handed to them.
Records of a batch may come in any order, so `first`, `last` and ties go by time, and only then by arrival.

>>> from millpond.windowing import sum_of
>>> form = sum_of("v").columns
>>> state = form.start(2, {"v": np.dtype(np.int64)})
>>> form.update(state, Rows(np.array([0, 1, 0]), np.array([7, 8, 9]), {"v": np.array([1, 20, 3])}))
>>> form.lower(state, np.array([2, 1])).tolist()
[4, 20]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.errors import WindowError

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

State = tuple[Array, ...]
"""The partials of one aggregate for many slices."""

Kinds = Mapping[str, pa.DataType]
"""The types of the columns that an aggregate may read."""

NUMBER = "number"
ANYTHING = "anything"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in the order of their arrival: their slices' places in the state, their times, and their columns."""

    slots: Ints
    times: Ints
    columns: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells in which rows lie, each has some; a cell is a slice or a session of a key.

    `of_rows` is the cell of each row, `rows` how many a cell has. `order` are the rows by their cells, and those of a
    cell begin there at `first`. `old` are the cells that held something before, which are `partials`.
    """

    of_rows: Ints
    rows: Ints
    order: Ints
    first: Ints
    old: list[int]
    partials: list[Any]

    def rows_of(self, cell: int) -> Ints:
        """Find the rows of a cell."""
        first = self.first[cell]
        return self.order[first : first + self.rows[cell]]

    def counts(self, before: Sequence[int]) -> list[int]:
        """Count the rows of cells, with those that old ones held."""
        counts = self.rows.copy()
        counts[self.old] += np.array(before, np.int64)
        found: list[int] = counts.tolist()
        return found

    def held(self, before: Sequence[Any], dtype: np.dtype[Any], odd: Bools) -> Array:
        """Make a column of what old cells held, as rows are added to it; where it is of another type, they are odd."""
        kind = int if dtype.kind == "i" else float
        like = [type(value) is kind and (kind is float or abs(value) < 2**63) for value in before]
        if not all(like):
            odd[[cell for cell, fits in zip(self.old, like, strict=True) if not fits]] = True
            before = [value if fits else kind() for value, fits in zip(before, like, strict=True)]
        return np.array(before, dtype)


@dataclass(frozen=True)
class ColumnForm(ABC):
    """An aggregate that works on a column, which is None if it reads records by a function, or themselves."""

    column: str | None

    what: ClassVar[str]
    """The aggregate, as errors name it."""

    exact: ClassVar[bool] = False
    """Whether nothing is rounded, whatever numbers come: it can't be seen in which order partials were combined."""

    ordered: ClassVar[bool] = False
    """Whether rows of one time must come in an order that depends on nothing but their values."""

    @property
    def name(self) -> str:
        """The name of its column, or the error that there is none."""
        if self.column is None:
            raise no_column(self.what)
        return self.column

    @property
    def needs(self) -> Mapping[str, str]:
        """Its columns, and whether each must be numbers."""
        return {self.name: NUMBER}

    @property
    def named(self) -> set[str] | None:
        """The columns that it reads; None if it may read any."""
        return None if self.column is None else set(self.needs)

    def fits(self, kinds: Kinds) -> bool:
        """Say whether it can be computed of columns of these types."""
        if self.named is None:
            return False
        return all(need != NUMBER or is_number(kinds[name]) for name, need in self.needs.items())

    @abstractmethod
    def result_type(self, name: str, kinds: Kinds) -> pa.DataType | None:
        """Return the type of results, which have a name; None if it does not follow from the columns."""

    @abstractmethod
    def start(self, size: int, dtypes: Mapping[str, np.dtype[Any]]) -> State:
        """Make partials of so many slices without rows."""

    @abstractmethod
    def update(self, state: State, rows: Rows) -> None:
        """Apply rows in their order, in place."""

    @abstractmethod
    def combine(self, left: State, right: State, left_rows: Array, right_rows: Array) -> State:
        """Combine entry by entry; left is earlier. An entry without rows is identity."""

    def accumulate(self, state: State, rows: Array) -> State | None:  # noqa: ARG002
        """Combine along the first axis at once, each entry with all before it; None if that must go step by step."""
        return None

    @abstractmethod
    def lower(self, state: State, rows: Array) -> Array:
        """Return the results; every entry has rows."""

    def absent(self, rows: Array) -> Bools | None:  # noqa: ARG002
        """Mark the results that are null, by how many rows they have; None if none is."""
        return None

    def require_number(self, name: str, kinds: Kinds) -> None:
        """Refuse a column that is no numbers, as that of results of this name."""
        if not is_number(kinds[self.name]):
            raise WindowError(
                "MP642",
                f"`{name}` can't be computed of the column `{self.column}`",
                expected=f"numbers for {self.what}",
                found=str(kinds[self.name]),
                hint="cast the column to double or bigint first",
            )


class FoldedForm(ColumnForm):
    """An aggregate of numbers whose partials, as keys hold them, take in many rows at once."""

    @abstractmethod
    def fold(self, before: list[Any], cells: Cells, values: Any, odd: Bools) -> list[Any]:
        """Return the partials of cells after rows of these values, as if these came one by one.

        `before` is what the old cells held. Cells of which that can't be said by columns are marked as `odd`.
        """


def is_number(kind: pa.DataType) -> bool:
    """Say whether a column can be added up."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def column_of(of: str | Callable[[Any], Any] | None) -> str | None:
    """Return the column that an aggregate reads, if it is given by a name; else it has no form over columns."""
    return of if isinstance(of, str) else None


def no_column(what: str) -> WindowError:
    """Return the error for an aggregate over columns that reads none by its name."""
    return WindowError(
        "MP613",
        f"{what} over columns needs the name of its column",
        expected="a name: the function would have to be called for every row",
        found="a function of the record, or nothing",
        hint="compute a column first and name it: `sum_of('amount')`",
    )


def magnitude(values: Array) -> int:
    """Return the largest magnitude of integers; 0 if there are none."""
    return max(abs(int(values.max())), abs(int(values.min()))) if len(values) else 0


def worst(dtype: np.dtype[Any], *, largest: bool) -> Any:
    """Return the number that every other one of a type beats."""
    if dtype.kind == "f":
        return -np.inf if largest else np.inf
    return np.iinfo(dtype).min if largest else np.iinfo(dtype).max
