"""What a window computes: lift a record, combine partials in order, lower the last one to a result.

Only associativity is asked for, and order is kept. An aggregate that says more about itself is computed faster:
`commutative` if the order does not matter, `inverse` if the oldest part of a partial can be taken out again. Partials
are plain values (numbers, tuples, bytes), never changed in place, so that state can hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from millpond.errors import WindowError
from millpond.state.codec.canonical import canonical_value
from millpond.windowing.aggregates.forms import ColumnForm

ANY = "*"
"""Stands for what is read of a record by a function, or for the record itself: of that nothing more is known."""

Field = str | Callable[[Any], Any] | None
"""What of a record counts: the name of a column or key, a function of the record, or the record itself."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Lift, combine and lower with their identity, and what may be made use of.

    `inverse(whole, oldest)` takes a partial that stands at the front of another out of it. `partial_type` is the type
    that a state element declares for partials. `columns` is the form that works on whole columns, if there is one;
    `parts` are the aggregates that this one computes in one pass. `reads` are the columns that it reads by their names,
    and `options` what else it was given. One that takes a record `itself` reads no column.
    """

    name: str
    lift: Callable[[Any], Any]
    combine: Callable[[Any, Any], Any]
    lower: Callable[[Any], Any]
    identity: Any
    commutative: bool = False
    inverse: Callable[[Any, Any], Any] | None = None
    partial_type: Any = Any
    columns: ColumnForm | None = field(default=None, compare=False)
    parts: tuple[tuple[str, Aggregate], ...] = ()
    reads: tuple[str, ...] = (ANY,)
    options: tuple[str, ...] = ()
    itself: bool = False

    @property
    def named(self) -> set[str] | None:
        """The columns that it reads by their names; None if it may read any."""
        return None if self.columns is None else self.columns.named

    def result(self, partial: Any) -> Any:
        """Return the result of a partial; how its records were put together is not seen in the order of its sets."""
        return self.lower(canonical_value(partial))

    @property
    def text(self) -> str:
        """All that is known of it, in words: partials of one text may be combined."""
        return f"{self.name}({', '.join((*self.reads, *self.options))})"


def aggregate(
    *,
    lift: Callable[[Any], Any],
    combine: Callable[[Any, Any], Any],
    lower: Callable[[Any], Any],
    identity: Any,
    commutative: bool = False,
    invertible: Callable[[Any, Any], Any] | None = None,
    partial_type: Any = Any,
    name: str = "aggregate",
) -> Aggregate:
    """Make an aggregate of your own functions; `combine` must be associative and leave its arguments as they are.

    >>> longest = aggregate(lift=len, combine=max, lower=int, identity=0, commutative=True)
    >>> longest.lower(longest.combine(longest.lift("ab"), longest.lift("abc")))
    3
    """
    for what, function in (("lift", lift), ("combine", combine), ("lower", lower)):
        if not callable(function):
            raise bad_aggregate(f"`{what}` of an aggregate is a function", type(function).__name__)
    if invertible is not None and not callable(invertible):
        raise bad_aggregate("`invertible` is the function that takes the oldest part out", type(invertible).__name__)
    options = (f"from {_plain(identity)}", *(("in any order",) if commutative else ()))
    return Aggregate(name, lift, combine, lower, identity, commutative, invertible, partial_type, options=options)


def several(aggregates: Mapping[str, Aggregate] | None = None, /, **named: Aggregate) -> Aggregate:
    """Compute several aggregates in one pass; the result is a dict by name, the partial a tuple.

    >>> from millpond.windowing import count, sum_of
    >>> both = several(n=count(), total=sum_of())
    >>> both.lower(both.combine(both.lift(3), both.lift(4)))
    {'n': 2, 'total': 7}
    """
    given: object = aggregates
    if given is not None and not isinstance(given, Mapping):
        raise bad_aggregate("aggregates by their names", repr(given)[:60])
    parts = {**(aggregates or {}), **named}
    if not parts:
        raise bad_aggregate("at least one aggregate", "none")
    for name, part in parts.items():
        must_be_aggregate(part, f" as {name!r}")
    names = tuple(parts)
    lifts = tuple(part.lift for part in parts.values())
    combines = tuple(part.combine for part in parts.values())
    lowers = tuple(part.lower for part in parts.values())
    inverses = tuple(part.inverse for part in parts.values() if part.inverse is not None)

    def lift(record: Any) -> tuple[Any, ...]:
        return tuple([one(record) for one in lifts])  # A list is made faster than a generator runs.

    def combine(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([one(a, b) for one, a, b in zip(combines, left, right, strict=True)])

    def lower(partial: tuple[Any, ...]) -> dict[str, Any]:
        return {name: one(part) for name, one, part in zip(names, lowers, partial, strict=True)}

    def inverse(whole: tuple[Any, ...], oldest: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(one(a, b) for one, a, b in zip(inverses, whole, oldest, strict=True))

    return Aggregate(
        f"several({', '.join(f'{name}={part.name}' for name, part in parts.items())})",
        lift,
        combine,
        lower,
        tuple(part.identity for part in parts.values()),
        all(part.commutative for part in parts.values()),
        inverse if len(inverses) == len(parts) else None,
        tuple[tuple(part.partial_type for part in parts.values())],  # type: ignore[misc]
        parts=tuple(parts.items()),
    )


def boxed(
    name: str,
    of: Field,
    choose: Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]],
    columns: ColumnForm,
    *,
    commutative: bool = False,
) -> Aggregate:
    """Make an aggregate whose partial is an empty tuple, or one of the one value that was chosen."""
    read = reader(of)

    def lift(record: Any) -> tuple[Any, ...]:
        return (read(record),)

    return Aggregate(
        name, lift, choose, _unbox, (), commutative=commutative, partial_type=tuple[Any, ...], columns=columns,
        reads=read_by(of), itself=of is None,
    )  # fmt: skip


def must_be_aggregate(given: object, where: str = "") -> None:
    """Refuse what is no aggregate."""
    if not isinstance(given, Aggregate):
        raise bad_aggregate(f"an aggregate such as count(){where}", repr(given)[:60])


def read_by(*fields: Field) -> tuple[str, ...]:
    """Return the columns that are read, each once, as the text of an aggregate names them."""
    return tuple(dict.fromkeys(of if isinstance(of, str) else ANY for of in fields))


def reader(of: Field) -> Callable[[Any], Any]:
    """Return the function that reads what counts out of a record, which is never None: that is an error, as in columns.

    Skipping it, as SQL does, would let a mean be that of other rows than are counted beside it, and nobody would see.
    """
    if of is None:
        return _present_itself
    if isinstance(of, str):
        return _present(itemgetter(of), f"`{of}`")
    if callable(of):
        return _present(of, "what is aggregated")
    raise bad_aggregate("the name of a column, a function of the record, or nothing", repr(of)[:60])


def numbers_reader(of: Field) -> Callable[[Any], Any]:
    """Return the function that reads a number out of a record: True and False count as 1 and 0, as they do in sums."""
    read = reader(of)

    def number(record: Any) -> Any:
        value = read(record)
        return int(value) if value is True or value is False else value

    return number


def bad_aggregate(expected: str, found: str) -> WindowError:
    """Return the error for an aggregate that is not described as it must be."""
    return WindowError(
        "MP610",
        "this can't be an aggregate",
        expected=expected,
        found=found,
        hint="see docs/WINDOWS.md, Aggregates",
    )


def _unbox(partial: tuple[Any, ...]) -> Any:
    return partial[0] if partial else None


def _plain(value: Any) -> str:
    """Return a value as text that is the same in every process: of what is no plain value, the type."""
    match value:
        case tuple() | list():
            return f"({', '.join(map(_plain, value))})"
        case None | bool() | int() | float() | str() | bytes():
            return repr(value)
        case _:
            return type(value).__name__


def _present(read: Callable[[Any], Any], what: str) -> Callable[[Any], Any]:
    def present(record: Any) -> Any:
        value = read(record)
        if value is None:
            raise _absent(what)
        return value

    return present


def _present_itself(record: Any) -> Any:
    if record is None:
        raise _absent("the record")
    return record


def _absent(what: str) -> WindowError:
    return WindowError(
        "MP608",
        f"{what} is None, and can't be aggregated",
        expected="a value in every record; `count()` alone counts records without looking at them",
        found="None",
        hint="leave such records out, or say what counts instead: `sum_of(lambda record: record['v'] or 0)`",
    )
