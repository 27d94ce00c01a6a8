"""Windows that data drives: sessions, punctuations, landmarks, and shapes that change with the records.

At most one window of a session, punctuation or landmark is open at a time.

>>> run = session("5 us").start()
>>> [run.on_record(Moment("record", time, 0)).begun for time in (1, 3, 9)]
[1, 0, 1]
>>> run.on_time(14)
((9, 14),)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from millpond.lengths import Length
from millpond.windowing.kinds.kinds import (
    Attentive,
    Bounds,
    Moment,
    Step,
    bad_window,
    function,
    span,
    timed,
)

Test = Callable[[Any], bool]

SHAPE_WINDOWS_MAX = 1 << 20
"""So many windows may a varying shape have open at once: a record that asks for more would hold up all others."""


@dataclass(frozen=True, slots=True)
class Session:
    """Records less than `gap` apart are one window; it ends `gap` after its last record."""

    gap: int
    needs_time: bool = True

    def start(self) -> SessionRun:
        """Begin to work on a stream."""
        return SessionRun(self.gap)

    def describe(self) -> str:
        """Return the gap."""
        return f"session with gap {self.gap}"


class SessionRun(Attentive):
    """Knows the first and the last time of the open session."""

    def __init__(self, gap: int) -> None:
        self._gap = gap
        self._first: int | None = None
        self._last = 0

    def on_record(self, moment: Moment) -> Step:
        """Go on with the session, or begin one."""
        time = timed(moment)
        ended = self.on_time(time)
        begun = self._first is None
        self._first = time if self._first is None else self._first
        self._last = time
        return Step(ended, int(begun))

    def on_time(self, now: int) -> tuple[Bounds, ...]:
        """End the session if its gap is over."""
        if self._first is None or now < self._last + self._gap:
            return ()
        bounds = (self._first, self._last + self._gap)
        self._first = None
        return (bounds,)

    def on_mark(self, mark: Any) -> tuple[Bounds, ...]:  # noqa: ARG002
        """Nothing ends at a punctuation."""
        return ()

    def calm(self, times: Sequence[int], first: int, last: int) -> int:
        """Records go on with the session until one is a gap after the one before it."""
        if self._first is None:
            return first
        before = self._last
        for place in range(first, last):
            if times[place] - before >= self._gap:
                return place
            before = times[place]
        return last

    def pass_over(self, time: int) -> None:
        """Go on with the session up to there."""
        self._last = time

    def ends_at(self) -> int | None:
        """Return a gap after the last record."""
        return None if self._first is None else self._last + self._gap

    def export(self) -> list[Any]:
        """Return the first and the last time."""
        return [self._first, self._last]

    def restore(self, state: Any) -> None:
        """Take up a state that was exported."""
        self._first, self._last = state


@dataclass(frozen=True, slots=True)
class Landmark:
    """A window from each record that `begins` accepts until one that `ends` accepts, a punctuation, or a time after it.

    Bounds are numbers of records, or times if there is a length. A record that ends a window may begin the next.
    """

    begins: Test
    ends: Test | None
    length: int | None

    @property
    def needs_time(self) -> bool:
        """Whether records must have a time."""
        return self.length is not None

    def start(self) -> LandmarkRun:
        """Begin to work on a stream."""
        return LandmarkRun(self)

    def describe(self) -> str:
        """Return what ends a window."""
        return f"landmark, {'ended by records, ' if self.ends else ''}length {self.length}"


class LandmarkRun(Attentive):
    """Knows where the open window began, and which record came last."""

    def __init__(self, window: Landmark) -> None:
        self._window = window
        self._begun: int | None = None
        self._position = -1

    def on_record(self, moment: Moment) -> Step:
        """End the open window if it is time or the record says so, then begin one if there is none."""
        self._position = moment.position
        here = moment.position if self._window.length is None else timed(moment)
        ended = () if self._window.length is None else self.on_time(here)
        if self._begun is not None and self._window.ends is not None and self._window.ends(moment.record):
            ended = self._close(here)
        if self._begun is None and self._window.begins(moment.record):
            self._begun = here
            return Step(ended, 1)
        return Step(ended)

    def on_time(self, now: int) -> tuple[Bounds, ...]:
        """End the window if its length is over."""
        length_us = self._window.length
        if length_us is None or self._begun is None or now < self._begun + length_us:
            return ()
        return self._close(self._begun + length_us)

    def on_mark(self, mark: Any) -> tuple[Bounds, ...]:  # noqa: ARG002
        """End the window; one that is `length` long keeps to it."""
        if self._begun is None or self._window.length is not None:
            return ()
        return self._close(self._position + 1)

    def ends_at(self) -> int | None:
        """Return when the length of the open window is over."""
        length_us = self._window.length
        return None if length_us is None or self._begun is None else self._begun + length_us

    def export(self) -> list[Any]:
        """Return where the open window began, and the last record's number."""
        return [self._begun, self._position]

    def restore(self, state: Any) -> None:
        """Take up a state that was exported."""
        self._begun, self._position = state

    def _close(self, end: int) -> tuple[Bounds, ...]:
        bounds = (self._begun, end)
        self._begun = None
        return (bounds,)


@dataclass(frozen=True, slots=True)
class Varying:
    """Windows over time whose range and slide are chosen by the record at which a window is due."""

    shape: Callable[[Any], tuple[Length, Length]]
    needs_time: bool = True

    def start(self) -> VaryingRun:
        """Begin to work on a stream."""
        return VaryingRun(self)

    def describe(self) -> str:
        """Say all that is known of a function."""
        return "windows of varying shape"

    def shape_of(self, record: Any) -> tuple[int, int]:
        """Return the range and the slide that a record asks for."""
        found: Any = self.shape(record)
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise bad_window("a range and a slide as the shape of a record", repr(found)[:60])
        if any(type(value) is int for value in found):
            raise bad_window('lengths of time as a shape: timedeltas, or texts such as "10 s"', repr(found)[:60])
        wide, slide = (span(value, "length in a varying shape") for value in found)
        if wide > slide * SHAPE_WINDOWS_MAX:
            raise bad_window(f"a shape with at most {SHAPE_WINDOWS_MAX} windows at once", repr(found)[:60])
        return wide, slide


class VaryingRun(Attentive):
    """Knows the open windows' bounds, and when the next one is due."""

    def __init__(self, window: Varying) -> None:
        self._shape_of = window.shape_of
        self._open: deque[tuple[int, int]] = deque()
        self._due: int | None = None
        self._end = 0

    def on_record(self, moment: Moment) -> Step:
        """End what is over; begin what is due, in the shape that this record asks for."""
        time = timed(moment)
        ended = self.on_time(time)
        wide, slide = self._shape_of(moment.record)
        due = (time - wide) // slide * slide + slide if self._due is None else self._due
        if due + wide <= time:
            due += (time - wide - due) // slide * slide  # Windows without a record are passed over.
        begun = 0
        while due <= time:
            if due + wide > time:
                # No window ends before an older one: what began under a wider shape holds the next one open.
                self._end = max(self._end, due + wide) if self._open else due + wide
                self._open.append((due, self._end))
                begun += 1
            due += slide
        self._due = due
        return Step(ended, begun)

    def on_time(self, now: int) -> tuple[Bounds, ...]:
        """End what is over."""
        ended: list[Bounds] = []
        while self._open and self._open[0][1] <= now:
            ended.append(self._open.popleft())
        return tuple(ended)

    def on_mark(self, mark: Any) -> tuple[Bounds, ...]:  # noqa: ARG002
        """Nothing ends at a punctuation."""
        return ()

    def ends_at(self) -> int | None:
        """Return when the oldest window ends."""
        return self._open[0][1] if self._open else None

    def export(self) -> list[Any]:
        """Return the open windows, when the next is due, and the newest end."""
        return [[list(bounds) for bounds in self._open], self._due, self._end]

    def restore(self, state: Any) -> None:
        """Take up a state that was exported."""
        bounds, self._due, self._end = state
        self._open = deque((begin, end) for begin, end in bounds)


def session(gap: Length) -> Session:
    """Make windows of activity: records less than `gap` apart belong together."""
    return Session(span(gap, "gap"))


def punctuation(mark: Test | None = None) -> Landmark:
    """Cut at marks: a record that `mark` accepts begins a new window; so does the one after `punctuate()`."""
    if mark is not None:
        function(mark, "mark")
    return Landmark(_always, mark, None)


def landmark(begins: Test, ends: Test | None = None, *, length: Length | None = None) -> Landmark:
    """Make windows from each landmark until a record that ends it, `punctuate()`, or a length of time."""
    function(begins, "begins")
    if ends is not None:
        function(ends, "ends")
    return Landmark(begins, ends, None if length is None else span(length, "length"))


def varying(shape: Callable[[Any], tuple[Length, Length]]) -> Varying:
    """Make windows over time whose `(range, slide)` follows the data, as `shape` of a record says.

    A window that is due takes the shape of the first record at or after its begin; the first record of all gives it to
    every window that holds that record. Windows end in the order of their begins: one that would end before an older
    one ends with it.
    """
    function(shape, "shape")
    return Varying(shape)


def _always(_record: Any) -> bool:
    return True
