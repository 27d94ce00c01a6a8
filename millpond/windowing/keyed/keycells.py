"""What aggregates make of the rows of many cells at once: what each cell holds then is as if they came one by one.

A cell is a slice or a session of a key. It is the same to the last bit, and to the types of numbers: a sum of floats
goes on from what a cell holds, row by row in the order of arrival. A cell with NaN, with sums that are not finite or
might not fit 64 bits, with a negative zero where one of both zeros is to be chosen, or that holds numbers of another
type than come, is left to the functions of the aggregate, which define it all; other cells are not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.aggregates.forms import Array, Cells, FoldedForm, Ints

Columns = Mapping[str | None, Array]
"""Values by the names of their columns; without a name, if they are the records themselves."""

Keyed = tuple[int | None, tuple[Any, ...]]
"""The moment at which a key has something to do, and what it holds: see `keyslices.Slices` and `keyrows.Waiting`."""

Numbers = tuple[Array | None, ...]
"""What each aggregate reads of rows; None if it reads nothing."""


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


class Folding:
    """An aggregate of several parts, for many cells at once, if it `can`."""

    def __init__(self, aggregate: Aggregate) -> None:
        self.combine = aggregate.combine
        self._parts = [part for _, part in aggregate.parts]
        self.can = bool(self._parts) and all(isinstance(part.columns, FoldedForm) for part in self._parts)

    def numbers(self, columns: Columns) -> Numbers:
        """Return what the parts read of rows."""
        return tuple(_read(part, columns) for part in self._parts)

    def folded(self, cells: Cells, numbers: Numbers) -> list[Any]:
        """Return the partials of cells after their rows."""
        if not len(cells.first):
            return []
        each = (
            _folded(part, [partial[place] for partial in cells.partials], cells, values)
            for place, (part, values) in enumerate(zip(self._parts, numbers, strict=True))
        )
        return list(zip(*each, strict=True))

    def lifted(self, count: int, numbers: Numbers) -> list[Any]:
        """Return the partials of so many rows, each by itself."""
        each = (
            [part.lift(None)] * count if values is None else _lifted(part, values)
            for part, values in zip(self._parts, numbers, strict=True)
        )
        return list(zip(*each, strict=True))


@contextmanager
def refusing() -> Iterator[None]:
    """Let rows go one by one where some can't be combined: then it is reported of the row that it shows at."""
    try:
        yield
    except (TypeError, OverflowError) as error:
        raise OneByOneError from error


def _read(part: Aggregate, columns: Columns) -> Array | None:
    """Return the numbers that an aggregate reads; None if it reads none."""
    assert part.columns is not None
    column = part.columns.column
    if column is None and not part.itself:
        if part.reads:
            raise OneByOneError
        return None
    values = columns.get(column)
    if values is None or values.dtype.kind not in "if":
        raise OneByOneError
    return values.astype(np.int64 if values.dtype.kind == "i" else np.float64, copy=False)


def _lifted(part: Aggregate, values: Array) -> Iterator[Any]:
    """Return the partials of rows, each by itself."""
    assert part.columns is not None
    column = part.columns.column
    for value in values.tolist():
        yield part.lift(value if column is None else {column: value})


def _folded(part: Aggregate, before: list[Any], cells: Cells, values: Array | None) -> list[Any]:
    """Return what cells hold of an aggregate after their rows; `before` is what the old ones held."""
    assert isinstance(part.columns, FoldedForm)
    odd = np.zeros(len(cells.first), np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        found = part.columns.fold(before, cells, values, odd)
    if values is None or not odd.any():
        return found
    held = dict(zip(cells.old, before, strict=True))
    for cell in np.flatnonzero(odd).tolist():
        found[cell] = _one_by_one(part, held.get(cell), values[cells.rows_of(cell)])
    return found


def _one_by_one(part: Aggregate, partial: Any, values: Array) -> Any:
    """Row by row, as a key does it; `partial` is None if nothing was held."""
    with refusing():
        for lifted in _lifted(part, values):
            partial = lifted if partial is None else part.combine(partial, lifted)
    return partial
