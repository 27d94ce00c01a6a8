"""Rows of windows that wait for their turn, looked at when they are added: then what is wrong is told of that row.

In its turn a row is long committed, and an error would stop a job for good. So what windows and aggregates do with a
row is tried before, as far as it does not depend on rows that may still come before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, cast

from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.kinds.cuts import Cuts
from millpond.windowing.kinds.driven import Landmark, Session, Varying
from millpond.windowing.kinds.grids import SlicedGrid
from millpond.windowing.kinds.kinds import LAST_TIME, Moment, check_told
from millpond.windowing.kinds.periodic import TIME, Periodic
from millpond.windowing.kinds.userdefined import UserDefined, Viewed, asked_cut, asked_view

_TIME = itemgetter(0)

Look = Callable[[int, Any, Any], None]
"""Looks at the time of a row, the row, and the state of the windows that earlier ones left; raises what is wrong."""


class Judge:
    """Tries rows on windows and an aggregate. The functions of the user are called here, and again in a row's turn.

    `cuts` are those of windows over time, if there are some.
    """

    def __init__(self, windows: Mapping[str, Any], aggregate: Aggregate) -> None:
        self._aggregate = aggregate
        grids = {
            name: cast("SlicedGrid", window.grid)
            for name, window in windows.items()
            if isinstance(window, Periodic) and window.measure == TIME
        }
        self.cuts = Cuts(grids, {}) if grids else None
        looks = (_look(name, window) for name, window in windows.items())
        self._looks = [look for look in looks if look is not None]

    def look(self, time: int, record: Any, waiting: Sequence[tuple[int, Any]], state: Any) -> None:
        """Raise what is wrong with a row; `state` is what `SharedWindows` exported, if rows were taken already."""
        self._try_aggregate(time, record, waiting, state)
        if self.cuts is not None:
            self.cuts.place(time)
        for look in self._looks:
            look(time, record, state)

    def _try_aggregate(self, time: int, record: Any, waiting: Sequence[tuple[int, Any]], state: Any) -> None:
        """Lift a row, and combine it with what is before it: values that can't be added or compared show only then."""
        lift = self._aggregate.lift
        lifted = lift(record)
        place = bisect_right(waiting, time, key=_TIME)
        if place:
            self._aggregate.combine(lift(waiting[place - 1][1]), lifted)
        elif state is not None and state["running"]:
            self._aggregate.combine(state["running"][0], lifted)
        elif waiting:
            self._aggregate.combine(lifted, lift(waiting[0][1]))


def _look(name: str, window: Any) -> Look | None:
    """What is to be looked at for a window; None if nothing can be wrong, or all is known of its grid."""
    match window:
        case Session(gap=gap):
            return lambda time, _record, _state: _check(time, time, gap)
        case Landmark():
            return lambda time, record, _state: _look_at_landmark(window, time, record)
        case Varying():
            return lambda time, record, _state: _look_at_shape(window, time, record)
        case Periodic(measure=measure) if callable(measure):
            place = window.placing()
            return lambda _time, record, _state: _ignore(place(record))
        case UserDefined():
            return lambda time, record, state: _try_cut(name, window, time, record, state)
        case Viewed():
            return lambda time, record, state: _try_view(name, window, time, record, state)
        case _:
            return None


def _check(time: int, begin: int, length: int) -> None:
    if time < LAST_TIME:  # What handlers add at the end of time is not emitted.
        check_told(begin, time + length)


def _look_at_landmark(window: Landmark, time: int, record: Any) -> None:
    window.begins(record)
    if window.ends is not None:
        window.ends(record)
    if window.length is not None:
        _check(time, time, window.length)


def _look_at_shape(window: Varying, time: int, record: Any) -> None:
    wide, _ = window.shape_of(record)
    _check(time, time - wide + 1, wide)


def _try_cut(name: str, window: UserDefined, time: int, record: Any, state: Any) -> None:
    """How many windows are open in the row's turn is not known yet, but the function must be able to answer."""
    known = {} if state is None else state["discretiser"]["queries"]
    own = known[name]["state"][1] if name in known else window.initial
    asked_cut(window.cut, own, Moment(record, time, 0 if state is None else state["position"]))


def _try_view(name: str, window: Viewed, time: int, record: Any, state: Any) -> None:
    position = 0 if state is None else state["position"]
    known = {} if state is None else state["views"]["views"]
    head, own = known.get(name, (position, window.initial))
    asked_view(window.view, own, Moment(record, time, position), position - head)


def _ignore(_answer: Any) -> None:
    """Nothing to do with it: that there is one is all that counts."""
