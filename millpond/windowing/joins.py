"""Joins over time of the rows of one key, as plain values: what a key holds, and what a watermark lets be emitted.

A program keeps what a key holds as state, adds rows to it as they come, and calls `close` when the watermark has come
to the moment that was said to be the next one. What is emitted then does not depend on the order in which rows came.

>>> join = key_intervals("0 s", "10 s", alone=(True, False))
>>> held = [(1_000_000, 0, "ad")], [(8_000_000, 0, "click")], [], []
>>> closed = join.close(held, until=20_000_000)
>>> [(pair.left, pair.right) for pair in closed.emitted]
[('ad', 'click')]
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, NamedTuple, Protocol

from millpond.errors import WindowError
from millpond.lengths import Length, length_us
from millpond.spelling import check_unit
from millpond.windowing.kinds.driven import Session
from millpond.windowing.kinds.grids import Grid
from millpond.windowing.kinds.kinds import SPAN_MAX, Window, described
from millpond.windowing.kinds.periodic import TIME, Periodic

LEFT, RIGHT = 0, 1

Row = tuple[int, int, Any]
"""The time of a row, a mark, and its columns."""

Held = tuple[list[Row], ...]
"""What a key holds: rows that came since the last close, left and right ones, and whatever else there is."""

_AT: Final = itemgetter(0)
_LIST: Any = list
_TUPLE: Any = tuple


class Pair(NamedTuple):
    """The columns of two rows that belong together, None for a row alone; and the window that they share."""

    left: Any
    right: Any
    begin: int = 0
    end: int = 0


class Closed(NamedTuple):
    """What a watermark lets be emitted, what is held then, and when there is more to do; None if nothing is held."""

    emitted: list[Pair]
    held: Held
    due: int | None


class KeyJoin(Protocol):
    """How the rows of a key are joined."""

    @property
    def lists(self) -> int:
        """How many lists of rows a key holds."""
        ...

    @property
    def described(self) -> str:
        """The join in words: what is held is taken up under the same ones only."""
        ...

    def mark(self, at: int, now: int) -> int:
        """Return the mark of a row that comes; if it is late, `now` is the least time that a row could have had."""
        ...

    def due(self, at: int) -> int:
        """Return when something may have to be done because a row has come."""
        ...

    def close(self, held: Held, until: int) -> Closed:
        """Emit what no row can change that happened at a watermark or later, and forget what none can need."""
        ...


def nothing_held(join: KeyJoin) -> Held:
    """Return what a key holds before its first row."""
    return tuple([] for _ in range(join.lists))


def stored_type(join: KeyJoin, left: Any, right: Any) -> Any:
    """Return the type of what a key holds, by those of the columns of its rows."""
    rows = [_LIST[_TUPLE[int, int, side]] for side in (left, right)]
    return _TUPLE[tuple(rows[place % 2] for place in range(join.lists))]


@dataclass(frozen=True, slots=True)
class KeyIntervals:
    """Right rows between two distances from a left row; pairs are emitted when the watermark has passed both rows.

    Rows wait in the first two lists until the watermark has passed them, and then are in the others, by time. Those
    with a mark are not to be emitted as rows alone: they have a partner, or came too late to know. `alone` says for
    left and right whether rows alone are emitted. What happened up to `lateness` before a watermark may still come.
    """

    low: int
    high: int
    alone: tuple[bool, bool]
    lateness: int = 0

    @property
    def lists(self) -> int:
        """Rows that wait and rows that were met, of both sides."""
        return 4

    @property
    def described(self) -> str:
        """The distances, and which rows are emitted alone."""
        return f"within {self.low} to {self.high} us, alone {_sides(self.alone)}"

    def mark(self, at: int, now: int) -> int:
        """Mark a row that comes later than it may: its partners may be gone."""
        return int(at < now)

    def due(self, at: int) -> int:
        """Right after a row."""
        return at + 1

    def close(self, held: Held, until: int) -> Closed:
        """Let rows that the watermark has passed meet those that are held, and emit rows alone that stay so."""
        lefts, rights = list(held[2]), list(held[3])
        fresh = [_sorted(row for row in rows if row[0] < until) for rows in held[:2]]
        waiting = [[row for row in rows if row[0] >= until] for rows in held[:2]]
        emitted: list[Pair] = []
        self._meet(emitted, fresh[LEFT], rights, LEFT)
        self._meet(emitted, fresh[LEFT], fresh[RIGHT], LEFT)
        self._meet(emitted, fresh[RIGHT], lefts, RIGHT)
        lefts, rights = _sorted([*lefts, *fresh[LEFT]]), _sorted([*rights, *fresh[RIGHT]])
        # Rows that come from now on did not happen before this.
        final = until - self.lateness
        gone = bisect_left(lefts, final - self.high, key=_AT), bisect_left(rights, final + self.low, key=_AT)
        if self.alone[LEFT]:
            emitted += [Pair(row, None) for _, mark, row in lefts[: gone[LEFT]] if not mark]
        if self.alone[RIGHT]:
            emitted += [Pair(None, row) for _, mark, row in rights[: gone[RIGHT]] if not mark]
        lefts, rights = lefts[gone[LEFT] :], rights[gone[RIGHT] :]
        dues = [self.due(min(map(_AT, rows))) for rows in waiting if rows]
        dues += [row[0] + self.high + self.lateness + 1 for row in lefts[:1]]
        dues += [row[0] - self.low + self.lateness + 1 for row in rights[:1]]
        return Closed(emitted, (*waiting, lefts, rights), min(dues, default=None))

    def _meet(self, emitted: list[Pair], rows: list[Row], others: list[Row], side: int) -> None:
        """Emit the pairs of rows of a side with rows of the other one, and mark both."""
        low, high = (self.low, self.high) if side == LEFT else (-self.high, -self.low)
        for place, (at, mark, row) in enumerate(rows):
            first = bisect_left(others, at + low, key=_AT)
            last = bisect_right(others, at + high, lo=first, key=_AT)
            if first == last:
                continue
            partners = others[first:last]
            if side == LEFT:
                emitted += [Pair(row, other[2]) for other in partners]
            else:
                emitted += [Pair(other[2], row) for other in partners]
            if self.alone[side] and not mark:
                rows[place] = (at, 1, row)
            if self.alone[not side]:
                others[first:last] = [(then, 1, other) for then, _, other in partners]


class _Windowed:
    """Rows of both sides in common windows, emitted when these are over."""

    __slots__ = ()

    alone: tuple[bool, bool]

    @property
    def lists(self) -> int:
        """Rows of both sides."""
        return 2

    def mark(self, at: int, now: int) -> int:
        """Mark a row by the time up to which its windows are over."""
        return max(at, now)

    def _emitted(self, sides: tuple[list[Any], list[Any]], begin: int, end: int) -> Iterator[Pair]:
        lefts, rights = sides
        if lefts and rights:
            yield from (Pair(left, right, begin, end) for left in lefts for right in rights)
        elif self.alone[LEFT if lefts else RIGHT]:
            yield from (Pair(left, None, begin, end) for left in lefts)
            yield from (Pair(None, right, begin, end) for right in rights)


@dataclass(frozen=True, slots=True)
class KeyWindows(_Windowed):
    """Rows in windows whose places are known: tumbling, sliding, calendar.

    Of a row that is held, the windows that end at its mark or before are emitted.
    """

    grid: Grid
    alone: tuple[bool, bool]
    lateness: int = 0

    @property
    def described(self) -> str:
        """The windows, and which rows are emitted alone."""
        return f"{self.grid}, alone {_sides(self.alone)}"

    def due(self, at: int) -> int:
        """Return when the first window of a row is over."""
        return int(self.grid.end(self.grid.oldest(at))) + self.lateness

    def close(self, held: Held, until: int) -> Closed:
        """Emit the windows that are over, and forget rows that are in no other one."""
        grid, final = self.grid, until - self.lateness
        windows: dict[int, tuple[list[Any], list[Any]]] = {}
        staying: tuple[list[Row], list[Row]] = ([], [])
        for side, rows in enumerate(map(_sorted, held)):
            for place, (at, mark, row) in enumerate(rows):
                number, newest = grid.oldest(at), grid.newest(at)
                if grid.end(number) > final:
                    # None of the windows of this row and those after it is over.
                    staying[side].extend(rows[place:])
                    break
                while number <= newest and (end := grid.end(number)) <= final:
                    if end > mark:
                        windows.setdefault(number, ([], []))[side].append(row)
                    number += 1
                if number <= newest:
                    staying[side].append((at, max(mark, final), row))
        emitted: list[Pair] = []
        for number, sides in sorted(windows.items(), key=_AT):
            emitted += self._emitted(sides, grid.begin(number), grid.end(number))
        dues = [self.due(max(rows[0][:2])) for rows in staying if rows]
        return Closed(emitted, staying, min(dues, default=None))


@dataclass(frozen=True, slots=True)
class KeySessions(_Windowed):
    """Rows in sessions, which are made of the rows of both sides."""

    gap: int
    alone: tuple[bool, bool]
    lateness: int = 0

    @property
    def described(self) -> str:
        """The gap, and which rows are emitted alone."""
        return f"sessions with gap {self.gap} us, alone {_sides(self.alone)}"

    def due(self, at: int) -> int:
        """Return when a session is over in which no later row lies."""
        return at + self.gap + self.lateness

    def close(self, held: Held, until: int) -> Closed:
        """Emit the sessions that are over, and forget their rows."""
        final = until - self.lateness
        emitted: list[Pair] = []
        staying: tuple[list[Row], list[Row]] = ([], [])
        dues: list[int] = []
        for begin, end, known, sides in self._sessions(held):
            if end > final:
                for kept, rows in zip(staying, sides, strict=True):
                    kept.extend(rows)
                dues.append(end + self.lateness)
            elif end > known:
                columns = [[row for _, _, row in rows] for rows in sides]
                emitted += self._emitted((columns[LEFT], columns[RIGHT]), begin, end)
        return Closed(emitted, staying, min(dues, default=None))

    def _sessions(self, held: Held) -> Iterator[tuple[int, int, int, tuple[list[Row], list[Row]]]]:
        """Return the begin and end of each session, up to when sessions were over as its rows came, and its rows."""
        rows = sorted(((row, side) for side in (LEFT, RIGHT) for row in held[side]), key=lambda one: one[0][0])
        first = 0
        for place, (row, _) in enumerate(rows, 1):
            if place < len(rows) and rows[place][0][0] - row[0] < self.gap:
                continue
            own: tuple[list[Row], list[Row]] = ([], [])
            for one, side in rows[first:place]:
                own[side].append(one)
            yield rows[first][0][0], row[0] + self.gap, max(one[1] for one, _ in rows[first:place]), own
            first = place


def key_windows(window: Window, alone: tuple[bool, bool], lateness: int = 0) -> KeyWindows | KeySessions:
    """Return how the rows of a key are joined in windows, of those that joins know."""
    if isinstance(window, Session):
        return KeySessions(window.gap, alone, lateness)
    if isinstance(window, Periodic) and window.measure == TIME:
        return KeyWindows(window.grid, alone, lateness)
    raise bad_join("tumbling, sliding, calendar or session windows over time", described(window))


def key_intervals(low: Length, high: Length, alone: tuple[bool, bool], lateness: int = 0) -> KeyIntervals:
    """Return how the rows of a key are joined within two distances in time."""
    for each in (low, high):
        check_unit(each, "distance")
    near, far = (length_us(each, "distance", bad_join, least=None) for each in (low, high))
    if max(abs(near), abs(far)) > SPAN_MAX:
        raise bad_join("distances of at most 2**61 microseconds", f"{low!r} and {high!r}"[:80])
    if near > far:
        raise bad_join("a low distance that is not above the high one", f"{low!r} and {high!r}"[:80])
    return KeyIntervals(near, far, alone, lateness)


def bad_join(expected: str, found: str) -> WindowError:
    """Return the error for a join that makes no sense."""
    return WindowError(
        "MP651", "this can't be a join", expected=expected, found=found, hint="see docs/WINDOWS.md, Joins"
    )


def _sides(alone: tuple[bool, bool]) -> str:
    return " and ".join(name for name, emitted in zip(("left", "right"), alone, strict=True) if emitted) or "none"


def _sorted(rows: Any) -> list[Row]:
    """Rows by time; those of one time as they came."""
    return sorted(rows, key=_AT)
