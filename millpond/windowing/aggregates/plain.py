"""Aggregates of numbers and of single records: sum, count, mean, variance, min, max, first, last, argmin, argmax.

NaN spreads through all of them, so that the order of combining can't be seen. Where two records tie, the earlier one
wins, for `last_of` the later one.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import add, sub
from typing import Any

from millpond.windowing.aggregates.aggregates import Aggregate, Field, numbers_reader, read_by, reader
from millpond.windowing.columns.columnar import (
    CountForm,
    ExtremeForm,
    MeanForm,
    PickForm,
    SumForm,
    VarianceForm,
    column_of,
)

Number = int | float
Moments = tuple[int, float, float, float]
"""How many, one number to measure from, the sum of distances from it, and the sum of their squares."""


def sum_of(of: Field = None, *, integers: bool = False) -> Aggregate:
    """Add numbers up; say `integers` if they are, and old slices can be subtracted without loss."""
    return Aggregate(
        "sum", numbers_reader(of), add, _same, 0, commutative=True, inverse=sub if integers else None,
        partial_type=int if integers else int | float, columns=SumForm(column_of(of)),
        reads=read_by(of), options=("integers",) if integers else (), itself=of is None,
    )  # fmt: skip


def count() -> Aggregate:
    """Count records."""
    return Aggregate(
        "count", _one, add, _same, 0, commutative=True, inverse=sub, partial_type=int, columns=CountForm(), reads=()
    )


def mean_of(of: Field = None) -> Aggregate:
    """The arithmetic mean; None of nothing."""
    read = numbers_reader(of)

    def lift(record: Any) -> tuple[int, Number]:
        return 1, read(record)

    return Aggregate(
        "mean", lift, _add_pairs, _mean, (0, 0), commutative=True,
        partial_type=tuple[int, int | float], columns=MeanForm(column_of(of)), reads=read_by(of), itself=of is None,
    )  # fmt: skip


def variance_of(of: Field = None, *, sample: bool = False) -> Aggregate:
    """The variance (if so asked, of a sample), by distances from the first value; None if there is too little."""
    read = reader(of)
    less = 1 if sample else 0

    def lift(record: Any) -> Moments:
        value = float(read(record))
        nothing = value - value  # But NaN is as far from itself as from all others, and so is what is infinite.
        return 1, value, nothing, nothing

    def lower(partial: Moments) -> float | None:
        many, _, apart, squares = partial
        return max(squares - apart * apart / many, 0.0) / (many - less) if many > less else None

    return Aggregate(
        "variance", lift, combine_moments, lower, (0, 0.0, 0.0, 0.0), commutative=True,
        partial_type=tuple[int, float, float, float], columns=VarianceForm(column_of(of), less),
        reads=read_by(of), options=("of a sample" if sample else "of all",), itself=of is None,
    )  # fmt: skip


def min_of(of: Field = None) -> Aggregate:
    """The smallest value; None of nothing."""
    return _box("min", of, _smaller, ExtremeForm(column_of(of), largest=False), commutative=True)


def max_of(of: Field = None) -> Aggregate:
    """The largest value; None of nothing."""
    return _box("max", of, _larger, ExtremeForm(column_of(of), largest=True), commutative=True)


def first_of(of: Field = None) -> Aggregate:
    """The value of the first record; None of nothing."""
    return _box("first", of, _earlier, PickForm(None, column_of(of), last=False))


def last_of(of: Field = None) -> Aggregate:
    """The value of the last record; None of nothing."""
    return _box("last", of, _later, PickForm(None, column_of(of), last=True))


def argmin(by: Field, of: Field = None) -> Aggregate:
    """`of` of the record whose `by` is smallest; None of nothing."""
    return _arg("argmin", by, of, lambda a, b: a <= b or a != a, largest=False)  # noqa: PLR0124 - NaN


def argmax(by: Field, of: Field = None) -> Aggregate:
    """`of` of the record whose `by` is largest; None of nothing."""
    return _arg("argmax", by, of, lambda a, b: a >= b or a != a, largest=True)  # noqa: PLR0124 - NaN


def combine_moments(left: Moments, right: Moments) -> Moments:
    """Measure the right one's distances from the left one's number, as `VarianceForm` does.

    That number is one of the values, so squares exceed what is wanted at most by a factor of about their number,
    however far from zero all of them lie.
    """
    if not left[0]:
        return right
    if not right[0]:
        return left
    many, moved = right[0], right[1] - left[1]
    squares = right[3] + 2 * moved * right[2] + many * moved * moved
    return left[0] + many, left[1], left[2] + right[2] + many * moved, left[3] + squares


def _box(
    name: str,
    of: Field,
    choose: Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]],
    columns: ExtremeForm | PickForm,
    *,
    commutative: bool = False,
) -> Aggregate:
    """An aggregate whose partial is an empty tuple, or one of the one value that was chosen."""
    read = reader(of)

    def lift(record: Any) -> tuple[Any, ...]:
        return (read(record),)

    return Aggregate(
        name, lift, choose, _unbox, (), commutative=commutative, partial_type=tuple[Any, ...], columns=columns,
        reads=read_by(of), itself=of is None,
    )  # fmt: skip


def _arg(name: str, by: Field, of: Field, keeps: Callable[[Any, Any], bool], *, largest: bool) -> Aggregate:
    rank, read = reader(by), reader(of)

    def lift(record: Any) -> tuple[Any, ...]:
        return rank(record), read(record)

    def choose(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
        if not left or not right:
            return left or right
        return left if keeps(left[0], right[0]) else right

    return Aggregate(
        name, lift, choose, _second, (), partial_type=tuple[Any, ...],
        columns=PickForm(column_of(by), column_of(of), last=largest, by_column=isinstance(by, str)),
        reads=read_by(of, by),
    )  # fmt: skip


def _smaller(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    if not left or not right:
        return left or right
    return left if left[0] <= right[0] or left[0] != left[0] else right


def _larger(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    if not left or not right:
        return left or right
    return left if left[0] >= right[0] or left[0] != left[0] else right


def _earlier(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    return left or right


def _later(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    return right or left


def _add_pairs(left: tuple[int, Number], right: tuple[int, Number]) -> tuple[int, Number]:
    return left[0] + right[0], left[1] + right[1]


def _mean(partial: tuple[int, Number]) -> float | None:
    return partial[1] / partial[0] if partial[0] else None


def _one(_record: Any) -> int:
    return 1


def _same(partial: Any) -> Any:
    return partial


def _unbox(partial: tuple[Any, ...]) -> Any:
    return partial[0] if partial else None


def _second(partial: tuple[Any, ...]) -> Any:
    return partial[1] if partial else None
