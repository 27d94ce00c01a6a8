"""The rows of an epoch as they come, in portions: each is all before the next one in input order.

Rows of one place, whose order follows from their content, are never divided.

>>> rows = pa.table({"pos": [1, 2, 2, 3], "f0_n": [5, 6, 7, 8]})
>>> [portion["f0_n"].to_pylist() for portion in in_portions(rows.to_batches(), 2)]
[[5], [6, 7], [8]]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.engine.task.intake import column_array
from millpond.engine.task.ordering import source_ranks

PLACE: Final = ("ord", "feed", "src", "pos")
"""What says where a row stands, the most significant first; a column that all rows have alike is left out."""

PORTION_ROWS: Final = 1 << 17
"""So many rows are held at once, and so many can be undone."""


class UnorderedError(Exception):
    """Rows did not come in the order in which they were said to come."""


def place_columns(names: Iterable[str]) -> list[str]:
    """Return those columns that say where a row stands."""
    there = set(names)
    return [name for name in PLACE if name in there]


def put_in_order(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return rows that came in any order in that of their places."""
    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return []
    table = pa.Table.from_batches(held).combine_chunks()
    columns = place_columns(table.column_names)
    places = _places(table, columns)
    if columns and not _ascends(places):
        table = table.take(pa.array(np.lexsort(places[::-1]))).combine_chunks()
    ordered: list[pa.RecordBatch] = table.to_batches()
    return ordered


def in_portions(batches: Iterable[pa.RecordBatch], rows: int = PORTION_ROWS) -> Iterator[pa.Table]:
    """Return rows that come in order, about so many at a time; where one ends follows from the rows alone."""
    held: list[pa.RecordBatch] = []
    last: pa.Table | None = None
    wanted = rows
    for batch in batches:
        held += [batch] if batch.num_rows else []
        while sum(one.num_rows for one in held) > wanted:
            table = pa.Table.from_batches(held).combine_chunks()
            end = _end(last, table.slice(0, wanted + 1))
            if end:
                yield table.slice(0, end)
                last, wanted = table.slice(end - 1, 1), rows
                held = table.slice(end).to_batches()
            else:
                wanted *= 2
    if held:
        table = pa.Table.from_batches(held).combine_chunks()
        _end(last, table)
        yield table


def _end(last: pa.Table | None, table: pa.Table) -> int:
    """Return where the last place of some rows begins; `last` is the row before them."""
    columns = place_columns(table.column_names)
    if not columns:
        return 0
    whole = table if last is None else pa.concat_tables([last, table])
    places = _places(whole.select(columns).combine_chunks(), columns)
    if not _ascends(places):
        raise UnorderedError
    differs = np.zeros(len(places[0]) - 1, dtype=bool)
    for column in places:
        differs |= column[1:] != column[:-1]
    before = 0 if last is None else 1
    found = np.flatnonzero(differs[before:])
    return int(found[-1]) + 1 if len(found) else 0


def _places(table: pa.Table, columns: Iterable[str]) -> list[npt.NDArray[np.int64]]:
    arrays = [(name, column_array(table, name)) for name in columns]
    return [source_ranks(array) if name == "src" else array.to_numpy(zero_copy_only=False) for name, array in arrays]


def _ascends(columns: list[npt.NDArray[np.int64]]) -> bool:
    """Say whether no row comes before the one that it follows."""
    same = np.ones(max(len(columns[0]) - 1, 0), dtype=bool)
    for column in columns:
        if (same & (column[1:] < column[:-1])).any():
            return False
        same &= column[1:] == column[:-1]
    return True
