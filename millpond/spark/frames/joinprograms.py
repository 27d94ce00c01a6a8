"""The program that joins two streams over time: what a key holds, two entry points, and a handler that tells.

It is an ordinary program. Its class is made here, since the types of keys and rows follow from what is joined.
"""

from __future__ import annotations

import datetime
from typing import Any, Final, Literal

from millpond.engine.time.eventtime import LAST_US
from millpond.program.declare import Partitioned
from millpond.program.entries import HANDLER, entry
from millpond.program.program import ProgramBase
from millpond.program.semantics.epoch_time import moment_of, reached_us, us_of
from millpond.program.timers import on_timer
from millpond.state.containers.map import Map
from millpond.windowing.joins import KeyJoin, Pair, nothing_held, stored_type

KEY, TIME, ROW = "join_key", "join_time", "join_row"
"""What entry points take: the key, the time in microseconds, and the columns of a row."""

ENTRIES: Final = ("left", "right")
TOLD: Final = "told"
ENDLESS: Final = 2**80
"""Later than any time that a row or a window can have: where the end of event time lies for what is told."""

_LIST: Any = list
_TUPLE: Any = tuple
_MAP: Any = Map
_LITERAL: Any = Literal


def join_program(
    join: KeyJoin, key: Any, left: tuple[Any, ...], right: tuple[Any, ...], *, bounds: bool
) -> type[ProgramBase]:
    """A program with entry points `left` and `right`, and the handler `told`, whose replies are lists of joined rows.

    `key` is the type of keys, `left` and `right` are those of columns. A joined row has the bounds of its window, if
    there are such `bounds`, and the columns of both sides, all of them None for a row that is not there.
    """
    widths = len(left), len(right)
    described = join.described
    stored = _TUPLE[_LITERAL[described], stored_type(join, _row(left), _row(right))]

    def told_of(pair: Pair) -> tuple[Any, ...]:
        sides = zip((pair.left, pair.right), widths, strict=True)
        columns = [one for row, width in sides for one in ((None,) * width if row is None else row[:width])]
        return (moment_of(pair.begin), moment_of(pair.end), *columns) if bounds else tuple(columns)

    class Joined(ProgramBase):
        held = Partitioned(_MAP[key, stored])

        @entry
        def left(self, join_key: Any, join_time: int, join_row: Any) -> None:
            self._add(0, join_key, join_time, join_row)

        @entry
        def right(self, join_key: Any, join_time: int, join_row: Any) -> None:
            self._add(1, join_key, join_time, join_row)

        @on_timer
        def told(self, join_key: Any, at: datetime.datetime) -> Any:  # noqa: ARG002 - by now there may be more to tell
            reached = reached_us()
            closed = join.close(self.held[join_key][1], ENDLESS if reached >= LAST_US else reached)
            if closed.due is None:
                del self.held[join_key]
            else:
                self.held[join_key] = (described, closed.held)
                self.told.set(join_key, moment_of(min(closed.due, LAST_US)))
            return [told_of(pair) for pair in closed.emitted]

        def _add(self, side: int, join_key: Any, join_time: int, join_row: Any) -> None:
            lists = self.held.setdefault(join_key, (described, nothing_held(join)))[1]
            lists[side].append((join_time, join.mark(join_time, us_of(self.now)), join_row))
            due = moment_of(min(join.due(join_time), LAST_US))
            known = self.told.at(join_key)
            if known is None or due < known:
                self.told.set(join_key, due)

    rows: Any = [_row(hints) for hints in (left, right)]
    for name, row in zip(ENTRIES, rows, strict=True):
        getattr(Joined, name).__annotations__.update({KEY: key, ROW: row})
    parts = (*((datetime.datetime, datetime.datetime) if bounds else ()), *left, *right)
    reply = _LIST[_TUPLE[tuple(part | None for part in parts)]]
    getattr(vars(Joined)[TOLD], HANDLER).__annotations__.update({KEY: key, "return": reply})
    return Joined


def _row(hints: tuple[Any, ...]) -> Any:
    """The type of the columns of a row, any of which may be null; a program takes no empty tuple."""
    return _TUPLE[tuple(hint | None for hint in hints) or (bool,)]
