"""One stream, many queries: which windows end before a record and which begin with it, each under an id of its own.

>>> from millpond.windowing import tumbling
>>> queries = Discretiser()
>>> queries.add_query("tens", tumbling("10 us"))
>>> cuts = [queries.on_record(Moment("record", time, position)) for position, time in enumerate((3, 7, 12))]
>>> [(cut.begun, [ended.bounds for ended in cut.ended]) for cut in cuts]
[([0], []), ([], []), ([1], [(0, 10)])]
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from millpond.errors import WindowError
from millpond.windowing.kinds.kinds import Bounds, Moment, Quiet, Window, Windowing, backwards, no_time


@dataclass(frozen=True, slots=True)
class Ended:
    """A window that ends, and whose it is."""

    query: str
    window: int
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class Cut:
    """What happens to windows at one point of the stream."""

    ended: list[Ended]
    begun: list[int]


class Discretiser:
    """Asks the queries' windows about records; keeps ids of open windows per query, first in, first out.

    A query that knows when its next window begins or ends is asked no sooner: a record costs the same for any number of
    periodic queries.
    """

    def __init__(self) -> None:
        self._windows: dict[str, Window] = {}
        self._runs: dict[str, Windowing] = {}
        self._open: dict[str, deque[int]] = {}
        self._order: dict[str, int] = {}
        self._alert: set[str] = set()  # Queries that see every record; the others wait for a position or a time.
        self._waiting: dict[str, Quiet] = {}
        self._heaps: dict[str, list[tuple[Any, int, str]]] = {"position": [], "time": []}
        self._next_id = 0
        self._next_order = 0
        self._last_time: int | None = None

    def add_query(self, name: str, window: Window) -> None:
        """Let a query see the records from the next one on."""
        if name in self._runs:
            raise taken_name(name)
        self._windows[name] = window
        self._runs[name] = window.start()
        self._open[name] = deque()
        self._order[name] = self._next_order
        self._next_order += 1
        self._alert.add(name)

    def holds(self, name: str) -> bool:
        """Say whether there is a query of this name."""
        return name in self._runs

    def remove_query(self, name: str) -> list[int]:
        """Forget a query; the ids of its open windows."""
        if name not in self._runs:
            raise unknown_query(name, self._runs)
        del self._windows[name], self._runs[name], self._order[name]
        self._alert.discard(name)
        self._waiting.pop(name, None)
        return list(self._open.pop(name))

    def on_record(self, moment: Moment) -> Cut:
        """Ask all queries about a record."""
        if moment.time is not None:
            self._pass_time(moment.time)
        ended: list[Ended] = []
        begun: list[int] = []
        for name in self._due({"position": moment.position, "time": moment.time}):
            step = self._runs[name].on_record(moment)
            self._rest(name)
            if step.ended:
                self._close(name, step.ended, ended)
            for _ in range(step.begun):
                self._open[name].append(self._next_id)
                begun.append(self._next_id)
                self._next_id += 1
        return Cut(ended, begun)

    def pass_over(self, times: Sequence[int], first: int, position: int) -> int:
        """Take records that begin and end nothing; `times`, which never fall, are theirs from `first` on.

        The place of the first record that is not taken; of the first of all, `position` is the number.
        """
        last = len(times)
        if self._heaps["position"]:
            last = max(min(last, first + self._heaps["position"][0][0] - position), first)
        if self._heaps["time"]:
            last = bisect_left(times, self._heaps["time"][0][0], first, last)
        for name in self._alert:
            last = self._runs[name].calm(times, first, last)
        if first < last:
            self._pass_time(times[first])
            self._pass_time(times[last - 1])
            for name in self._alert:
                self._runs[name].pass_over(times[last - 1])
        return last

    def on_time(self, now: int, position: int) -> list[Ended]:
        """Tell all queries that no record before `now` will come; the next one has the number `position`."""
        self._pass_time(now)
        ended: list[Ended] = []
        for name in self._due({"position": position, "time": now}):
            self._close(name, self._runs[name].on_time(now), ended)
            self._close(name, self._runs[name].filled(position), ended)
            self._rest(name)
        return ended

    def on_mark(self, mark: Any) -> list[Ended]:
        """Tell all queries of a punctuation."""
        ended: list[Ended] = []
        for name, run in self._runs.items():
            self._close(name, run.on_mark(mark), ended)
        return ended

    def ends_at(self) -> int | None:
        """Return the first time at which a window ends, if no record comes; None if there is none."""
        ends = (run.ends_at() for run in self._runs.values())
        return min((end for end in ends if end is not None), default=None)

    def export(self) -> dict[str, Any]:
        """Return the whole state as plain values."""
        queries = {
            name: {"window": self._windows[name].describe(), "state": run.export(), "open": list(self._open[name])}
            for name, run in self._runs.items()
        }
        return {"queries": queries, "next_id": self._next_id, "last_time": self._last_time}

    def restore(self, state: Mapping[str, Any]) -> list[int]:
        """Take up the state of the queries that are still here; the ids of windows whose query is gone."""
        gone: list[int] = []
        self._next_id, self._last_time = state["next_id"], state["last_time"]
        for name, query in state["queries"].items():
            if name not in self._runs:
                gone += query["open"]
                continue
            if query["window"] != self._windows[name].describe():
                raise WindowError(
                    "MP623",
                    "a query's windows are not those that its state was made for",
                    expected=query["window"],
                    found=self._windows[name].describe(),
                    hint="give the new windows another name; the old query goes when its name does",
                )
            self._runs[name].restore(query["state"])
            self._open[name] = deque(query["open"])
            self._rest(name)
        return gone

    def _due(self, points: Mapping[str, Any]) -> list[str]:
        """Return the queries that must be asked at a point of the stream, in the order in which they were added."""
        if points["time"] is None and points["position"] is not None and self._heaps["time"]:
            return list(self._runs)  # A record without a time: those that need one must say so.
        due = self._alert
        for kind, point in points.items():
            heap = self._heaps[kind]
            while heap and point is not None and heap[0][0] <= point:
                at, _, name = heappop(heap)
                if self._waiting.get(name) == (kind, at):
                    del self._waiting[name]
                    due = due | {name}
        return sorted(due, key=self._order.__getitem__) if len(due) > 1 else list(due)

    def _rest(self, name: str) -> None:
        """Let a query wait until something may happen to it."""
        quiet = self._runs[name].quiet_until()
        if quiet == self._waiting.get(name):
            return  # It was asked before its point came, or is attentive as ever.
        self._alert.discard(name)
        self._waiting.pop(name, None)
        if quiet is None:
            self._alert.add(name)
        else:
            self._waiting[name] = quiet
            heappush(self._heaps[quiet[0]], (quiet[1], self._order[name], name))

    def _close(self, name: str, bounds: tuple[Bounds, ...], ended: list[Ended]) -> None:
        opened = self._open[name]
        ended += [Ended(name, opened.popleft(), each) for each in bounds]

    def _pass_time(self, time: int) -> None:
        if type(time) is not int:
            raise no_time(time)
        if self._last_time is not None and time < self._last_time:
            raise backwards("time", self._last_time, time)
        self._last_time = time


def taken_name(name: str) -> WindowError:
    """Return the error for a name that two queries would have."""
    return WindowError(
        "MP622",
        "there is a query of this name already",
        expected="a name of its own for each query",
        found=name,
    )


def unknown_query(name: str, names: Mapping[str, Any]) -> WindowError:
    """Return the error for a name that no query has."""
    return WindowError(
        "MP624",
        "there is no query of this name",
        expected=", ".join(names) or "a query",
        found=name,
        hint="check the spelling",
    )
