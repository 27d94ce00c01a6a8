"""The types of columns that aggregates read and give."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from millpond.engine.arrowtypes import arrow_type, to_arrow
from millpond.errors import FeedError, WindowError
from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.columns.columnar import (
    NUMBER,
    CountForm,
    ExtremeForm,
    MeanForm,
    PickForm,
    SumForm,
    VarianceForm,
)

Kinds = Mapping[str, pa.DataType]

DECIMAL_DIGITS = 38
"""The longest decimals that Spark has."""


@dataclass(frozen=True, slots=True)
class ResultType:
    """The type of a column of results, and the hint that it was made of, if there was one."""

    kind: pa.DataType
    hint: Any = None

    def column(self, name: str, values: Sequence[Any]) -> pa.Array:
        """Values as a column."""
        try:
            return pa.array(values, self.kind) if self.hint is None else to_arrow(values, self.hint)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise WindowError(
                "MP646",
                f"a result does not fit the column `{name}`",
                expected=str(self.kind),
                found=str(error).partition("\n")[0][:200],
                hint=f"tell its type: aggregate(..., types={{{name!r}: float}})",
            ) from error


def is_columnar(aggregate: Aggregate, kinds: Kinds) -> bool:
    """Whether an aggregate has a form over columns of these types."""
    form = aggregate.columns
    if form is None or named_columns(aggregate) is None:
        return False
    return all(need != NUMBER or _is_number(kinds[column]) for column, need in form.needs.items())


def named_columns(aggregate: Aggregate) -> set[str] | None:
    """The columns that an aggregate reads; None if it may read any."""
    match aggregate.columns:
        case PickForm(by_column=False):
            return None
        case SumForm(column=str()) | VarianceForm(column=str()) | ExtremeForm(column=str()) | PickForm(of=str()):
            return set(aggregate.columns.needs)
        case CountForm():
            return set()
        case _:
            return None


def result_type(name: str, aggregate: Aggregate, kinds: Kinds, hint: Any) -> ResultType:
    """The type of an aggregate's results: as told, as follows from its column, or as its `lower` is annotated.

    `kinds` are the types of the columns that it may read.
    """
    if hint is not None:
        return ResultType(arrow_type(hint), hint)
    kind = _of_form(name, aggregate, kinds)
    return ResultType(kind) if kind is not None else _annotated(name, aggregate)


def _of_form(name: str, aggregate: Aggregate, kinds: Kinds) -> pa.DataType | None:
    match aggregate.columns:
        case CountForm():
            return pa.int64()
        case VarianceForm():
            return pa.float64()
        case MeanForm(column=str(column)):
            _require_number(name, aggregate, column, kinds)
            return pa.float64()
        case SumForm(column=str(column)):
            if pa.types.is_decimal(kinds[column]):
                return pa.decimal128(DECIMAL_DIGITS, kinds[column].scale)
            _require_number(name, aggregate, column, kinds)
            return pa.float64() if pa.types.is_floating(kinds[column]) else pa.int64()
        case ExtremeForm(column=str(column)) | PickForm(of=str(column)):
            return kinds[column]
        case PickForm(of=None):
            return pa.struct([pa.field(column, kind) for column, kind in kinds.items()])
        case _:
            return None


def _annotated(name: str, aggregate: Aggregate) -> ResultType:
    try:
        hint = typing.get_type_hints(aggregate.lower)["return"]
        return ResultType(arrow_type(hint), hint)
    except (KeyError, NameError, TypeError, FeedError) as error:
        raise WindowError(
            "MP643",
            f"the type of the column `{name}` is not known",
            expected=f"a type: aggregate(..., types={{{name!r}: float}})",
            found=f"the aggregate `{aggregate.name}`, whose results may be of any",
            hint="or annotate what its `lower` returns",
        ) from error


def _require_number(name: str, aggregate: Aggregate, column: str, kinds: Kinds) -> None:
    if not _is_number(kinds[column]):
        raise WindowError(
            "MP642",
            f"`{name}` can't be computed of the column `{column}`",
            expected=f"numbers for {aggregate.name}",
            found=str(kinds[column]),
            hint="cast the column to double or bigint first",
        )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))
