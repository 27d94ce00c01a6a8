"""What a test feeds to a program: rows, and what happens between them.

>>> steps = [("add", "mill"), ("add", "pond"), KILL, ("add", "mill"), pause("1 minute"), ("add", "mill")]
>>> [(turn.number, len(turn.rows), turn.kills) for turn in turns_of(steps, epochs=[1])]
[(1, 1, ()), (2, 2, (1,)), (3, 1, ())]
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from millpond.engine import simulated
from millpond.engine.arrowtypes import to_arrow
from millpond.errors import FeedError
from millpond.lengths import Length, length_us
from millpond.program import ProgramBase
from millpond.program.semantics.epoch_time import us_of
from millpond.state.codec.typenames import type_text

Row: TypeAlias = tuple[Any, ...]
"""A call as a tuple: the name of the entry point, then its arguments."""


class Mark(enum.Enum):
    """What a test puts between rows: `EOF` or `KILL`."""

    EOF = "EOF"
    KILL = "KILL"


EOF: Final = Mark.EOF
"""The input ends here, and the run with it, after the commit of what came before; a new start goes on behind it."""

KILL: Final = Mark.KILL
"""The process dies here, before the epoch is committed: what it did since the last commit is lost, its rows come again.
"""


@dataclass(frozen=True, slots=True)
class Pause:
    """No rows come for so long; see `pause`."""

    length: datetime.timedelta


@dataclass(frozen=True, slots=True)
class TimedRow:
    """A row that happened at a moment; see `at`."""

    moment: datetime.datetime
    row: Row


Step: TypeAlias = Row | TimedRow | Pause | Mark
"""What `simulate` takes a sequence of."""


def pause(length: Length) -> Pause:
    """Let the epoch end here, and time pass on the clock: timers that are due by then fire, entries expire.

    >>> pause("1 hour")
    Pause(length=datetime.timedelta(seconds=3600))
    """
    passing = datetime.timedelta(microseconds=length_us(length, "pause", _bad_step))
    if passing < datetime.timedelta(milliseconds=1):
        raise _bad_step("a length of time, a millisecond at least", f"pause({length!r})")
    return Pause(passing)


def at(moment: datetime.datetime, row: Row) -> TimedRow:
    """Give a row its event time, a moment with a zone; in a run, all rows have one, or none.

    >>> at(datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC), ("add", "mill")).row
    ('add', 'mill')
    """
    if moment.tzinfo is None:
        raise _bad_step("a moment with a zone, e.g. datetime(..., tzinfo=UTC)", repr(moment))
    return TimedRow(moment, row)


@dataclass(slots=True)
class Turn:
    """The rows of an epoch, numbered from 1, and what follows it; without rows, only what follows.

    `first` is the number of its first row among all, from 0. Before it is committed, the process dies after each of
    `kills` rows. `times_us` are there if rows have event time.
    """

    number: int
    first: int
    rows: list[simulated.Row] = field(default_factory=list)
    times_us: list[int] = field(default_factory=list)
    kills: tuple[int, ...] = ()
    then: Pause | Mark | None = None


def turns_of(steps: Iterable[Step], epochs: int | Sequence[int]) -> list[Turn]:
    """Cut steps into epochs: so many of about equal size, or before each of some numbers of rows; also at marks."""
    listed = [_checked(step) for step in steps]
    timed = [isinstance(step, TimedRow) for step in listed if not isinstance(step, Pause | Mark)]
    if not timed:
        raise FeedError("MP580", "the simulated run has no rows", expected="rows", found=f"{len(listed)} step(s)")
    if any(timed) and not all(timed):
        raise FeedError(
            "MP583",
            "some rows have event time, and others do not",
            expected="at(moment, row) for all rows, or for none",
            found=f"{sum(timed)} of {len(timed)} with event time",
        )
    return _cut(listed, _cuts(epochs, len(timed)))


def _cut(steps: list[Step], cuts: frozenset[int]) -> list[Turn]:
    turns, count = [Turn(1, 0)], 0
    for step in steps:
        last = turns[-1]
        if step is KILL:
            last.kills = (*last.kills, len(last.rows))
        elif isinstance(step, Pause | Mark):
            last.then = step
            turns.append(_next(last, count))
        else:
            if last.rows and count in cuts:
                turns.append(last := _next(last, count))
            row = step.row if isinstance(step, TimedRow) else step
            last.rows.append((row[0], row[1:]))
            last.times_us += [us_of(step.moment)] if isinstance(step, TimedRow) else []
            count += 1
    return turns


def _next(turn: Turn, first: int) -> Turn:
    return Turn(turn.number + bool(turn.rows), first)


def _cuts(epochs: int | Sequence[int], rows: int) -> frozenset[int]:
    if isinstance(epochs, int):
        cuts = [rows * number // max(epochs, 1) for number in range(1, epochs)]
        fits = 1 <= epochs <= rows
    else:
        cuts = list(epochs)
        fits = cuts == sorted(set(cuts)) and all(0 < cut < rows for cut in cuts)
    if not fits:
        raise FeedError(
            "MP581",
            "rows can't be cut into epochs like this",
            expected=f"a number of epochs from 1 to {rows}, or numbers of rows between 0 and {rows}, ascending",
            found=repr(epochs)[:80],
        )
    return frozenset(cuts)


def _checked(step: Step) -> Step:
    row: object = step.row if isinstance(step, TimedRow) else step
    if isinstance(row, Pause | Mark) or (isinstance(row, tuple) and row and isinstance(row[0], str)):
        return step
    raise _bad_step('("entry", argument, ...), at(moment, row), pause(length), EOF or KILL', repr(row)[:80])


def _bad_step(expected: str, found: str) -> FeedError:
    return FeedError("MP582", "this is not a step of a simulated run", expected=expected, found=found)


def check_rows(program: type[ProgramBase], turns: Iterable[Turn]) -> None:
    """Refuse rows that name no entry point, or whose arguments are not its columns."""
    points = {name: point for name, point in program.entries().items() if not point.timer}
    for turn in turns:
        for number, (name, arguments) in enumerate(turn.rows, turn.first):
            if name not in points:
                raise FeedError(
                    "MP510",
                    f"row {number} names no entry point of {program.__name__}",
                    expected=", ".join(points) or "a method marked @entry",
                    found=name,
                )
            parameters, given = points[name].parameters, points[name].filled(arguments)
            if len(given) != len(parameters):
                raise FeedError(
                    "MP503",
                    f"the arguments of row {number} are not the columns of {name}",
                    expected=", ".join(f"{column}: {type_text(hint)}" for column, hint in parameters) or "none",
                    found=f"{len(arguments)} value(s): {arguments!r}"[:120],
                )
            for (column, hint), value in zip(parameters, given, strict=True):
                _check_value(f"column `{column}` of row {number} has the wrong type for {name}", hint, value)


def _check_value(summary: str, hint: Any, value: Any) -> None:
    try:
        to_arrow([value], hint)
    except Exception:  # noqa: BLE001 - whatever Arrow or a class of the user's says: this can't be a column
        found = f"{type_text(type(value))}: {value!r}"[:120]
        raise FeedError("MP504", summary, expected=type_text(hint), found=found) from None
