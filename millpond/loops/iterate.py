"""Iterate a value inside a method or anywhere else: a plain function, nested freely.

Newton's root of two, and a loop in a loop that knows both rounds:

>>> from millpond.loops import iterate, rounds, within
>>> iterate(1.0, lambda x: (x + 2 / x) / 2, until=within(1e-12))
1.414213562373095
>>> def outer(total, progress):
...     return progress.iterate(total, lambda x, inner: x + inner.round * inner.enclosing[0], until=rounds(3))
>>> iterate(0, outer, until=rounds(2))
18
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from millpond.loops.termination import Condition, ValueReport, must_be_condition

V = TypeVar("V")

_ROUND_ZERO = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a loop is: the number of its round, from 1, and the rounds of the loops around it, innermost first."""

    round: int
    enclosing: tuple[int, ...] = ()

    def iterate(self, value: V, step: Callable[..., V], *, until: Condition) -> V:
        """Iterate a value inside of this round; the inner progress has this round among its `enclosing` ones."""
        return _iterated(value, step, until, (self.round, *self.enclosing))


def iterate(value: V, step: Callable[..., V], *, until: Condition) -> V:
    """Apply `step` to a value until a condition holds, and return the last value.

    `step(value)` gives the next value, and is called once a round; if it takes two arguments, the second one is the
    `Progress`. The condition is asked after each round with the value before and after it: `rounds(0)` alone gives the
    value back.
    """
    return _iterated(value, step, until, ())


def _iterated(value: V, step: Callable[..., V], until: Condition, enclosing: tuple[int, ...]) -> V:
    condition = must_be_condition(until)
    call = _with_progress(step)
    limit = condition.limit()
    number = _ROUND_ZERO
    while limit is None or number < limit:
        number += 1
        before, value = value, call(value, Progress(number, enclosing))
        if condition.settled(ValueReport(number, before, value)):
            break
    return value


def _with_progress(step: Callable[..., V]) -> Callable[[Any, Progress], V]:
    """Return a step as one that takes the progress, too."""
    try:
        parameters = list(inspect.signature(step).parameters.values())
    except (TypeError, ValueError):  # Of some functions in C nothing is known.
        parameters = []
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = [one for one in places if one.default is one.empty]
    if len(needed) == 2:
        return cast("Callable[[Any, Progress], V]", step)
    return lambda value, _: step(value)
