"""What aggregates make of the rows of many cells at once: what each cell holds then is as if they came one by one.

A cell is a slice or a session of a key. It is the same to the last bit, and to the types of numbers: a sum of floats
goes on from what a cell holds, row by row in the order of arrival. A cell with NaN, with sums that are not finite or
might not fit 64 bits, with a negative zero where one of both zeros is to be chosen, or that holds numbers of another
type than come, is left to the functions of the aggregate, which define it all; other cells are not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.columns.columnar import Array, CountForm, ExtremeForm, MeanForm, SumForm, VarianceForm

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

Columns = Mapping[str | None, Array]
"""Values by the names of their columns; without a name, if they are the records themselves."""

Keyed = tuple[int | None, tuple[Any, ...]]
"""The moment at which a key has something to do, and what it holds: see `keyslices.Slices` and `keyrows.Waiting`."""

Numbers = tuple[Array | None, ...]
"""What each aggregate reads of rows; None if it reads nothing."""

_FORMS: Final = (CountForm, SumForm, MeanForm, ExtremeForm, VarianceForm)
_WHOLE_MAX: Final = 2.0**62
"""Magnitudes of integers whose sum is below that, though computed in floats, are far from wrapping around."""


class OneByOneError(Exception):
    """These rows must be taken one by one."""


class ByColumns(ABC):
    """Takes in rows of many keys at once, if it is `_known` how: what keys hold then is as if rows came one by one."""

    _known: bool

    def add(self, keyed: Sequence[Keyed], places: Ints, times: Ints, columns: Columns) -> list[int | None] | None:
        """Take rows in, each into the key at its place; the moments of the keys then, of which each has rows.

        None if rows must be taken one by one; nothing is changed then.
        """
        try:
            return self._add(keyed, places, times, columns) if self._known else None
        except OneByOneError:
            return None

    @abstractmethod
    def _add(self, keyed: Sequence[Keyed], places: Ints, times: Ints, columns: Columns) -> list[int | None]:
        """Take rows in, or raise before anything is changed."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells in which rows lie, each has some.

    `of_rows` is the cell of each row, `rows` how many a cell has. `order` are the rows by their cells, and those of a
    cell begin there at `first`. `old` are the cells that held something before, which are `partials`.
    """

    of_rows: Ints
    rows: Ints
    order: Ints
    first: Ints
    old: list[int]
    partials: list[Any]


class Folding:
    """An aggregate of several parts, for many cells at once, if it `can`."""

    def __init__(self, aggregate: Aggregate) -> None:
        self.combine = aggregate.combine
        self._parts = [part for _, part in aggregate.parts]
        self.can = bool(self._parts) and all(type(part.columns) in _FORMS for part in self._parts)

    def numbers(self, columns: Columns) -> Numbers:
        """What the parts read of rows."""
        return tuple(None if isinstance(part.columns, CountForm) else _read(part, columns) for part in self._parts)

    def folded(self, cells: Cells, numbers: Numbers) -> list[Any]:
        """The partials of cells after their rows."""
        if not len(cells.first):
            return []
        each = (
            _of_part(part, [partial[place] for partial in cells.partials], cells, values)
            for place, (part, values) in enumerate(zip(self._parts, numbers, strict=True))
        )
        return list(zip(*each, strict=True))

    def lifted(self, count: int, numbers: Numbers) -> list[Any]:
        """The partials of so many rows, each by itself."""
        each = (
            [1] * count if values is None else [part.lift(_record(part, value)) for value in values.tolist()]
            for part, values in zip(self._parts, numbers, strict=True)
        )
        return list(zip(*each, strict=True))


@contextmanager
def refusing() -> Iterator[None]:
    """What can't be combined is told of the row that it shows at, when rows go one by one."""
    try:
        yield
    except (TypeError, OverflowError) as error:
        raise OneByOneError from error


def _column(part: Aggregate) -> str | None:
    assert isinstance(part.columns, SumForm | ExtremeForm | VarianceForm)
    return part.columns.column


def _read(part: Aggregate, columns: Columns) -> Array:
    """The numbers that an aggregate reads."""
    column = _column(part)
    values = columns.get(column) if column is not None or part.itself else None
    if values is None or values.dtype.kind not in "if":
        raise OneByOneError
    return values.astype(np.int64 if values.dtype.kind == "i" else np.float64, copy=False)


def _record(part: Aggregate, value: Any) -> Any:
    column = _column(part)
    return value if column is None else {column: value}


def _of_part(part: Aggregate, before: list[Any], cells: Cells, values: Array | None) -> list[Any]:
    """What cells hold of an aggregate after their rows; `before` is what the old ones held."""
    if values is None:
        return _counts(cells, before)
    odd = np.zeros(len(cells.first), np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        found = _FOLDS[type(part.columns)](part, before, cells, values, odd)
    held = dict(zip(cells.old, before, strict=True)) if odd.any() else {}
    for cell in np.flatnonzero(odd).tolist():
        found[cell] = _one_by_one(part, held.get(cell), values[_rows_of(cells, cell)])
    return found


def _rows_of(cells: Cells, cell: int) -> Ints:
    first = cells.first[cell]
    return cells.order[first : first + cells.rows[cell]]


def _one_by_one(part: Aggregate, partial: Any, values: Array) -> Any:
    """Row by row, as a key does it; `partial` is None if nothing was held."""
    with refusing():
        for value in values.tolist():
            lifted = part.lift(_record(part, value))
            partial = lifted if partial is None else part.combine(partial, lifted)
    return partial


# --- the kinds of aggregates; cells that can't be told from columns are marked in `odd`


def _counts(cells: Cells, before: list[int]) -> list[int]:
    counts = cells.rows.copy()
    counts[cells.old] += np.array(before, np.int64)
    found: list[int] = counts.tolist()
    return found


def _sums(cells: Cells, values: Array, before: list[Any], odd: Bools) -> list[Any]:
    """Sums that go on from what was held, row by row."""
    whole = values.dtype.kind == "i"
    # Added to the negative zero, every float stays as it is, the negative zero too.
    sums = np.full(len(cells.first), 0 if whole else -0.0, values.dtype)
    sums[cells.old] = _as_held(before, cells, values.dtype, odd)
    if whole and _largest(sums) + len(values) * _largest(values) >= 2**63:
        magnitudes = np.add.reduceat(np.abs(values.astype(np.float64))[cells.order], cells.first)
        odd |= magnitudes + np.abs(sums.astype(np.float64)) >= _WHOLE_MAX
    np.add.at(sums, cells.of_rows, values)
    if not whole:
        odd |= ~np.isfinite(sums)
    found: list[Any] = sums.tolist()
    return found


def _sum(_part: Aggregate, before: list[Any], cells: Cells, values: Array, odd: Bools) -> list[Any]:
    return _sums(cells, values, before, odd)


def _mean(_part: Aggregate, before: list[Any], cells: Cells, values: Array, odd: Bools) -> list[Any]:
    counts = _counts(cells, [count for count, _ in before])
    return list(zip(counts, _sums(cells, values, [total for _, total in before], odd), strict=True))


def _extreme(part: Aggregate, before: list[Any], cells: Cells, values: Array, odd: Bools) -> list[Any]:
    """The smallest or largest numbers; of equal ones it can't be seen which it is."""
    assert isinstance(part.columns, ExtremeForm)
    held = _as_held([value for (value,) in before], cells, values.dtype, odd)
    strange = _strange(values)
    if strange.any():
        odd |= np.logical_or.reduceat(strange[cells.order], cells.first)
    odd[cells.old] |= _strange(held)
    choose = np.maximum if part.columns.largest else np.minimum
    chosen = choose.reduceat(values[cells.order], cells.first)
    chosen[cells.old] = choose(chosen[cells.old], held)
    return list(zip(chosen.tolist(), strict=True))


def _strange(values: Array) -> Bools:
    """Where it depends on order which of two numbers is chosen, or on whether there are others."""
    if values.dtype.kind == "i":
        return np.zeros(len(values), np.bool_)
    strange: Bools = np.isnan(values) | (np.signbit(values) & (values == 0))
    return strange


def _moments(_part: Aggregate, before: list[Any], cells: Cells, values: Array, odd: Bools) -> list[Any]:
    """Moments as `combine_moments` makes them: one row is no distance from itself, so its own sums are zeros."""
    values = values.astype(np.float64, copy=False)
    counts = _counts(cells, [count for count, *_ in before])
    held = np.array([moments for _, *moments in before], np.float64).reshape(-1, 3)
    base = values[cells.order[cells.first]]
    apart, squares = np.zeros(len(base)), np.zeros(len(base))
    base[cells.old], apart[cells.old], squares[cells.old] = held.T
    moved = values - base[cells.of_rows]
    np.add.at(apart, cells.of_rows, moved)
    np.add.at(squares, cells.of_rows, moved * moved)
    odd |= ~(np.isfinite(apart) & np.isfinite(squares))
    return list(zip(counts, base.tolist(), apart.tolist(), squares.tolist(), strict=True))


_FOLDS: Final[Mapping[type, Callable[[Aggregate, list[Any], Cells, Array, Bools], list[Any]]]] = {
    SumForm: _sum,
    MeanForm: _mean,
    ExtremeForm: _extreme,
    VarianceForm: _moments,
}


def _as_held(before: Sequence[Any], cells: Cells, dtype: np.dtype[Any], odd: Bools) -> Array:
    """Numbers that old cells held, as those of a column to which they are added; of another type, they are odd."""
    kind = int if dtype.kind == "i" else float
    like = [type(value) is kind and (kind is float or abs(value) < 2**63) for value in before]
    if not all(like):
        odd[[cell for cell, fits in zip(cells.old, like, strict=True) if not fits]] = True
        before = [value if fits else kind() for value, fits in zip(before, like, strict=True)]
    return np.array(before, dtype)


def _largest(values: Array) -> int:
    return max(abs(int(values.max())), abs(int(values.min()))) if len(values) else 0
