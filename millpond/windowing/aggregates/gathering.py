"""Aggregates that keep records: the k best, and all of them."""

from __future__ import annotations

from typing import Any

from millpond.windowing.aggregates.aggregates import Aggregate, Field, bad_aggregate, read_by, reader


def top_k(k: int, by: Field = None, of: Field = None) -> Aggregate:
    """Find the `of` of the k records with the largest `by`, best first; of equal ones the earlier comes first.

    >>> best = top_k(2)
    >>> best.lower(best.combine(best.combine(best.lift(1), best.lift(5)), best.lift(3)))
    [5, 3]
    """
    if type(k) is not int or k < 1:
        raise bad_aggregate("a k of at least 1", repr(k)[:60])
    rank, read = reader(by), reader(of)

    def lift(record: Any) -> tuple[Any, ...]:
        return ((rank(record), read(record)),)

    def combine(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
        if not left or not right:
            return left or right
        if len(left) == k and not right[0][0] > left[-1][0]:
            return left  # The common case: nothing of what is new is among the best.
        merged: list[Any] = []
        i = j = 0
        while len(merged) < k and (i < len(left) or j < len(right)):
            if j == len(right) or (i < len(left) and not right[j][0] > left[i][0]):
                merged.append(left[i])
                i += 1
            else:
                merged.append(right[j])
                j += 1
        return tuple(merged)

    def lower(partial: tuple[Any, ...]) -> list[Any]:
        return [value for _, value in partial]

    return Aggregate(
        f"top_{k}", lift, combine, lower, (), partial_type=tuple[tuple[Any, Any], ...],
        reads=read_by(of, by), itself=of is None and by is None,
    )  # fmt: skip


def collect(of: Field = None) -> Aggregate:
    """Collect all values, in order, as a list. A slice then is as large as its records: there is nothing to save."""
    read = reader(of)

    def lift(record: Any) -> tuple[Any, ...]:
        return (read(record),)

    def combine(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
        return left + right

    return Aggregate(
        "collect", lift, combine, list, (), partial_type=tuple[Any, ...], reads=read_by(of), itself=of is None
    )
