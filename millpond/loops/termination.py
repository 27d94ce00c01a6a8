"""When a loop is over: conditions over what one round did, and `|` and `&` of them.

All that a condition sees is of one and the same round: its number, the messages that it sent, the votes that were cast
in it, and the aggregates that keys reported in it. Votes of different rounds are never counted together.

>>> until = rounds(50) | within(1e-6, of="change")
>>> until.text
"rounds(50) | within(1e-06, of='change')"
>>> until.over(RoundReport(3, 7, (), {"change": 1e-7})), until.over(RoundReport(3, 7, (), {"change": 0.5}))
(True, False)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millpond.errors import LoopError

Votes = Callable[[Sequence[Any]], bool]
Distance = Callable[[Any, Any], float]


@dataclass(frozen=True, slots=True)
class RoundReport:
    """What one round did: its number, the messages under way after it, its votes and its aggregates by name."""

    round: int
    messages: int
    votes: tuple[Any, ...]
    aggregates: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ValueReport:
    """What one round of `iterate` did: its number, the value before it, and the value after it."""

    round: int
    before: Any
    after: Any


class Condition(ABC):
    """Says after each round whether a loop is over. Conditions are combined with `|` and `&`."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The condition as it is written."""

    @abstractmethod
    def over(self, report: RoundReport) -> bool:
        """Say whether a loop over keys is over."""

    @abstractmethod
    def settled(self, report: ValueReport) -> bool:
        """Say whether the iteration of a value is over."""

    def limit(self) -> int | None:
        """Return the round after which it is over whatever happens; None if there is none."""
        return None

    def reads(self) -> frozenset[str]:
        """Return the names of the aggregates that it looks at."""
        return frozenset()

    def __or__(self, other: Condition) -> Condition:
        return _Any(self, must_be_condition(other))

    def __and__(self, other: Condition) -> Condition:
        return _All(self, must_be_condition(other))

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, repr=False)
class _Fixpoint(Condition):
    @property
    def text(self) -> str:
        return "fixpoint()"

    def over(self, report: RoundReport) -> bool:
        return report.messages == 0

    def settled(self, report: ValueReport) -> bool:
        return bool(report.before == report.after)


@dataclass(frozen=True, repr=False)
class _Rounds(Condition):
    count: int

    @property
    def text(self) -> str:
        return f"rounds({self.count})"

    def over(self, report: RoundReport) -> bool:
        return report.round >= self.count

    def settled(self, report: ValueReport) -> bool:
        return report.round >= self.count

    def limit(self) -> int | None:
        return self.count


@dataclass(frozen=True, repr=False)
class _Within(Condition):
    epsilon: float
    of: str | Distance | None

    @property
    def text(self) -> str:
        of = getattr(self.of, "__name__", None) or repr(self.of)
        return f"within({self.epsilon!r})" if self.of is None else f"within({self.epsilon!r}, of={of})"

    def over(self, report: RoundReport) -> bool:
        if not isinstance(self.of, str):
            raise _bad("within(epsilon, of='name of an aggregate') for a loop over keys", self.text)
        return self.of in report.aggregates and bool(report.aggregates[self.of] <= self.epsilon)

    def settled(self, report: ValueReport) -> bool:
        if isinstance(self.of, str):
            raise _bad("within(epsilon), or of=distance(before, after), for the iteration of a value", self.text)
        distance = _apart if self.of is None else self.of
        return distance(report.before, report.after) <= self.epsilon

    def reads(self) -> frozenset[str]:
        return frozenset((self.of,)) if isinstance(self.of, str) else frozenset()


@dataclass(frozen=True, repr=False)
class _When(Condition):
    votes: Callable[[Any], bool]

    @property
    def text(self) -> str:
        return f"when({getattr(self.votes, '__name__', 'votes')})"

    def over(self, report: RoundReport) -> bool:
        # Nobody's silence is a vote: `all` of none would end a loop whose keys say nothing.
        return bool(report.votes) and bool(self.votes(report.votes))

    def settled(self, report: ValueReport) -> bool:
        return bool(self.votes(report.after))


@dataclass(frozen=True, repr=False)
class _Any(Condition):
    left: Condition
    right: Condition

    @property
    def text(self) -> str:
        return f"{self.left.text} | {self.right.text}"

    def over(self, report: RoundReport) -> bool:
        return self.left.over(report) or self.right.over(report)

    def settled(self, report: ValueReport) -> bool:
        return self.left.settled(report) or self.right.settled(report)

    def limit(self) -> int | None:
        return min((at for at in (self.left.limit(), self.right.limit()) if at is not None), default=None)

    def reads(self) -> frozenset[str]:
        return self.left.reads() | self.right.reads()


@dataclass(frozen=True, repr=False)
class _All(Condition):
    left: Condition
    right: Condition

    @property
    def text(self) -> str:
        sides = (self.left, self.right)
        return " & ".join(f"({one.text})" if isinstance(one, _Any) else one.text for one in sides)

    def over(self, report: RoundReport) -> bool:
        return self.left.over(report) and self.right.over(report)

    def settled(self, report: ValueReport) -> bool:
        return self.left.settled(report) and self.right.settled(report)

    def limit(self) -> int | None:
        left, right = self.left.limit(), self.right.limit()
        return None if left is None or right is None else max(left, right)

    def reads(self) -> frozenset[str]:
        return self.left.reads() | self.right.reads()


def fixpoint() -> Condition:
    """End when nothing changes any more: no message is under way, or a value is equal to the one before it."""
    return _Fixpoint()


def rounds(count: int) -> Condition:
    """End after so many rounds."""
    if type(count) is not int or count < 0:
        raise _bad("rounds(n) with a whole number of at least 0", repr(count)[:60])
    return _Rounds(count)


def within(epsilon: float, of: str | Distance | None = None) -> Condition:
    """End when an aggregate over all keys is at most `epsilon`: `within(1e-6, of="change")`.

    In `iterate`, end when two values in a row are at most so far apart, by `of(before, after)` or as numbers are.
    """
    given: object = epsilon
    if type(given) not in (int, float) or math.isnan(epsilon) or epsilon < 0:
        raise _bad("within(epsilon) with a number of at least 0", repr(epsilon)[:60])
    if of is not None and not isinstance(of, str) and not callable(of):
        raise _bad("of= the name of an aggregate, or a distance of two values", repr(of)[:60])
    return _Within(float(epsilon), of)


def when(votes: Callable[[Any], bool]) -> Condition:
    """End when the votes that keys cast in one round are so: `when(all)`, `when(any)`, `when(lambda votes: ...)`.

    A round without votes does not end a loop. In `iterate` the function gets the value.
    """
    if not callable(votes):
        raise _bad("when(function of the votes), such as when(all)", repr(votes)[:60])
    return _When(votes)


def must_be_condition(given: object) -> Condition:
    """Return a condition, or refuse what is none."""
    if not isinstance(given, Condition):
        raise _bad(
            "fixpoint(), rounds(n), within(epsilon, of=...), when(votes), or these with | and &", repr(given)[:60]
        )
    return given


def _apart(before: Any, after: Any) -> float:
    try:
        return float(abs(after - before))
    except TypeError as error:
        raise _bad("of=distance(before, after) for values that are no numbers", type(after).__name__) from error


def _bad(expected: str, found: str) -> LoopError:
    return LoopError(
        "MP850",
        "this does not say when a loop is over",
        expected=expected,
        found=found,
        hint="see docs/LOOPS.md, When a loop is over",
    )
