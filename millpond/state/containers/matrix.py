"""The sparse matrix: cells by row and column, stored by row or by column.

>>> ratings = Matrix()
>>> ratings["ann", "dune"] = 5
>>> ratings["bob", "dune"] = 3
>>> ratings.column("dune"), ratings["ann", "solaris"]
(Vector({'ann': 5, 'bob': 3}), 0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from millpond.state.codec.keyforms import in_key_order
from millpond.state.containers.access import Operation
from millpond.state.containers.map import Map
from millpond.state.containers.vector import Vector

R = TypeVar("R")
C = TypeVar("C")
V = TypeVar("V")

_CELL_READ = Operation(keyed=True, writes=False)
_CELL_WRITE = Operation(keyed=True, writes=True)
_READ_ALL = Operation(keyed=False, writes=False)


class Matrix(Generic[R, C, V]):
    """A sparse matrix: `self.m[r, c] += 1`, `.row(r)`, `.column(c)`, `.multiply(vector)`; missing cells read as 0.

    `row` and `column` return copies. A matrix partitioned by row is accessed by row; one by column, by column.
    """

    kind: ClassVar[str] = "matrix"
    OPERATIONS: ClassVar[dict[str, Operation]] = {
        "__getitem__": _CELL_READ,
        "__setitem__": _CELL_WRITE,
        "__delitem__": _CELL_WRITE,
        "__contains__": _CELL_READ,
        "row": Operation(keyed=True, writes=False, axis="row"),
        "column": Operation(keyed=True, writes=False, axis="column"),
        "multiply": _READ_ALL,
        "items": _READ_ALL,
        "__len__": _READ_ALL,
        "clear": Operation(keyed=False, writes=True),
    }

    __slots__ = ("_by_row", "_check", "_lines", "_zero")

    def __init__(
        self,
        *,
        by: str = "row",
        zero: Any = 0,
        entries: Map[Any, dict[Any, V]] | None = None,
        check: Callable[[dict[Any, V]], None] | None = None,
    ) -> None:
        self._check = check
        self._by_row = by == "row"
        self._lines: Map[Any, dict[Any, V]] = Map() if entries is None else entries
        self._zero: V = zero

    def _place(self, cell: tuple[R, C]) -> tuple[Any, Any]:
        row, column = cell
        return (row, column) if self._by_row else (column, row)

    def __getitem__(self, cell: tuple[R, C]) -> V:
        line, at = self._place(cell)
        cells = self._lines.get(line)
        return self._zero if cells is None else cells.get(at, self._zero)

    def __setitem__(self, cell: tuple[R, C], value: V) -> None:
        line, at = self._place(cell)
        if self._check is not None:
            self._check({at: value})
        cells = self._lines.get(line)
        if cells is None:
            self._lines[line] = {at: value}
        else:
            cells[at] = value

    def __delitem__(self, cell: tuple[R, C]) -> None:
        line, at = self._place(cell)
        cells = self._lines.get(line)
        if cells is None or at not in cells:
            raise KeyError(cell)
        del cells[at]
        if not cells:
            self._lines.pop(line)

    def __contains__(self, cell: tuple[R, C]) -> bool:
        line, at = self._place(cell)
        cells = self._lines.get(line)
        return cells is not None and at in cells

    def __len__(self) -> int:
        return sum(len(cells) for cells in self._lines.values())

    def _line(self, line: Any) -> dict[Any, Any]:
        return dict(self._lines.get(line) or {})

    def _across(self, at: Any) -> dict[Any, Any]:
        return {line: cells[at] for line, cells in self._lines.items() if at in cells}

    def row(self, row: R) -> Vector[C]:
        """Return the cells of a row, copied into a vector."""
        return Vector(self._line(row) if self._by_row else self._across(row))

    def column(self, column: C) -> Vector[R]:
        """Return the cells of a column, copied into a vector."""
        return Vector(self._across(column) if self._by_row else self._line(column))

    def items(self) -> Iterator[tuple[tuple[R, C], V]]:
        """Yield all cells, in the order of the lines and of the places in them."""
        for line, cells in self._lines.items():
            for at in in_key_order(cells):
                yield ((line, at) if self._by_row else (at, line)), cells[at]

    def multiply(self, vector: Mapping[Any, Any]) -> Vector[R]:
        """Return the product with a column vector; of a matrix stored by column, only needed columns are touched."""
        product: Vector[R] = Vector()
        if self._by_row:
            for line, cells in self._lines.items():
                for at in in_key_order(at for at in vector if at in cells):
                    product[line] += float(cells[at] * vector[at])
            return product
        for at in in_key_order(vector):
            factor = vector[at]
            cells = self._lines.get(at) or {}
            for row in in_key_order(cells):
                product[row] += float(cells[row] * factor)
        return product

    def clear(self) -> None:
        """Remove all cells."""
        self._lines.clear()

    def __repr__(self) -> str:
        return f"Matrix({dict(self.items())!r})"
