"""Iterations over windows as a program: rows are gathered by shard, and a handler of timers runs what is over.

The program is an ordinary one, so its state, messages under way included, is checkpointed, moved, forked and shown like
any other. An epoch that moves the watermark past the end of windows gathers their rows in the lanes of these; lanes
have timers, which fire in the same turn. A handler that has rounds left sets its timer again: it goes on with the next
epoch, so a long iteration does not stop the stream.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any, Final

from millpond.errors import LoopError
from millpond.keygroups import microseconds
from millpond.lengths import Length, length_us
from millpond.loops.combining import shard_of
from millpond.loops.kinds import bounds_of
from millpond.loops.lanes import SHARED, Bounds, Entered, Kind, Lane, entered, next_turn, turn
from millpond.program.declare import Partitioned
from millpond.program.entries import HANDLER, entry
from millpond.program.program import ProgramBase
from millpond.program.timers import going_on, on_timer
from millpond.program.windows import correcting, on_window
from millpond.state.containers.map import Map
from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.element import ClosedWindow

TURNS: Final = "turns"
"""The handler whose replies are the results. Its name, and those of the elements, are in checkpoints."""

_TUPLE: Any = tuple
_LIST: Any = list
_DICT: Any = dict
_NO_TIME: Final = datetime.timedelta()


def gathered_rows(row_type: Any) -> Aggregate:
    """Gather rows in any order: chunks that double, so that a row costs the logarithm of their number."""

    def lift(record: Any) -> tuple[Any, ...]:
        return ((record["row"],),)

    def combine(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
        chunks = list(left)
        for chunk in right:
            while chunks and len(chunks[-1]) <= len(chunk):
                chunk = chunks.pop() + chunk  # noqa: PLW2901
            chunks.append(chunk)
        return tuple(chunks)

    def lower(partial: tuple[Any, ...]) -> list[Any]:
        return [row for chunk in partial for row in chunk]

    kind = _TUPLE[_TUPLE[row_type, ...], ...]
    return Aggregate("gathered_rows", lift, combine, lower, (), commutative=True, partial_type=kind, reads=("row",))


@dataclass(frozen=True)
class _Intake:
    """Puts the rows of a window that is over into its lane."""

    kind: Kind
    shares: bool

    def lane(self, one: ClosedWindow) -> Bounds:
        """Return the lane of a window."""
        return SHARED if self.shares else bounds(one)

    def __call__(self, held: Entered | None, shard: int, one: ClosedWindow) -> Entered:
        return entered(held, bounds(one), shard, self.kind.pack(one["rows"]))


@dataclass(frozen=True)
class _Work:
    """Takes the turn of a lane: what it holds then, the rows that leave, and when its next turn is."""

    kind: Kind
    budget: int | None
    late_us: int
    shares: bool

    def __call__(
        self, held: Entered, lane: tuple[Any, ...] | None, at: datetime.datetime
    ) -> tuple[Entered, tuple[Any, ...], list[tuple[Any, ...]], datetime.datetime | None]:
        last = None if lane is None else Lane(*lane)
        until = microseconds(at)
        done = turn(self.kind, held, last, self.budget, until=until, lateness=self.late_us, shares=self.shares)
        rows = [(*bounds_of(window), *row, *((change,) if self.late_us else ())) for window, change, row in done.rows]
        following = at if done.more else _moment(next_turn(done.entered, self.late_us), at)
        return done.entered, tuple(done.lane), rows, following


def bounds(one: ClosedWindow) -> Bounds:
    """Return the begin and end of a window, in microseconds."""
    return microseconds(one.begin), microseconds(one.end)


def checked_budget(budget: int | None) -> int | None:
    """Return how many rounds an epoch may run, or refuse what is no number of rounds."""
    if budget is not None and (type(budget) is not int or budget < 1):
        raise LoopError(
            "MP858",
            "this is no budget of rounds",
            expected="a whole number of rounds in an epoch, at least 1, or None",
            found=repr(budget)[:60],
        )
    return budget


def loop_program(
    kind: Kind, window: Any, *, lateness: Length = _NO_TIME, budget: int | None = None
) -> type[ProgramBase]:
    """Make the program of iterations over windows; its entry point is `add(loop_key, loop_row)`.

    With a `budget`, an epoch runs at most so many rounds of each window; with persistent state, or a budget, all
    windows share a lane.
    """
    checked_budget(budget)
    late_us = length_us(lateness, "lateness", _bad_lateness)
    shares = kind.persists or budget is not None

    intake, work = _Intake(kind, shares), _Work(kind, budget, late_us, shares)

    class Looped(ProgramBase):
        entered = Partitioned(Map[_TUPLE[int, int], _DICT[_TUPLE[int, int], _TUPLE[bool, _DICT[int, bytes]]]])
        lanes = Partitioned(
            Map[
                _TUPLE[int, int],
                _TUPLE[
                    _DICT[_TUPLE[int, int], kind.stored_type],
                    _DICT[_TUPLE[int, int], int],
                    _DICT[_TUPLE[int, int], _LIST[_TUPLE[kind.result_hints]]],
                    kind.carried_type,
                    _DICT[_TUPLE[int, int], kind.carried_type],
                ],
            ]
        )

        @entry
        def add(self, loop_key: Any, loop_row: Any) -> None:
            self.gathered.add(shard_of(loop_key), row=(loop_key, microseconds(self.now), loop_row))

        @on_window(window, lateness=lateness, rows=gathered_rows(kind.row_type))
        def gathered(self, shard: int, closed: list[ClosedWindow]) -> None:
            for one in closed:
                lane = intake.lane(one)
                self.entered[lane] = intake(self.entered.get(lane), shard, one)
                self.turns.set(lane, one.end)

        correcting(gathered)

        @on_timer
        def turns(self, lane: tuple[int, int], at: datetime.datetime) -> Any:
            held, state, rows, following = work(self.entered.get(lane, {}), self.lanes.get(lane), at)
            if held or shares:
                self.entered[lane] = held
                self.lanes[lane] = state
            else:
                self.entered.pop(lane, None)
                self.lanes.pop(lane, None)
            if following is not None:
                self.turns.set(lane, following)
            return rows

        going_on(turns)

    # The program is of the package of what it iterates: of its own code, the compiler looks into every function.
    Looped.__module__ = kind.module
    parts = (datetime.datetime, datetime.datetime, *kind.result_hints, *((str,) if late_us else ()))
    key, _, row = kind.row_type.__args__
    Looped.add.__annotations__.update(loop_key=key, loop_row=row)
    getattr(vars(Looped)[TURNS], HANDLER).__annotations__.update({"return": _LIST[_TUPLE[parts]]})
    return Looped


def _moment(us: int | None, at: datetime.datetime) -> datetime.datetime | None:
    """Return the moment of the next turn; one that is over is nothing to wait for."""
    if us is None or us <= microseconds(at):
        return None
    return bounds_of((us, us)).end


def _bad_lateness(expected: str, found: str) -> LoopError:
    return LoopError("MP858", "this is no lateness of windows", expected=expected, found=found)
