"""Any number of windows over one pass: each record is combined once, into the slice that runs.

Slices begin only where a window begins (Cutty): ends do not cut, because a window that ends takes the running slice as
it is at that moment. A slice whose begin no open window needs any more is merged with the one before it as soon as
there would be more slices than open windows, so there never are. The order at a record is: windows that end are
computed, slices that no open window needs are purged (after all results, or other queries would miss them), the slice
is cut if a window begins and another one is open, and the record is combined into it.

Needs records in the order of their time. For rows in any order, and for many keys at once, see `vectorised`.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypedDict

from millpond.errors import WindowError
from millpond.windowing.aggregates.aggregates import Aggregate, must_be_aggregate
from millpond.windowing.discretiser import Cut, Discretiser, Ended, taken_name
from millpond.windowing.kinds.kinds import Bounds, Moment, Window, bad_window
from millpond.windowing.kinds.userdefined import Viewed, Views
from millpond.windowing.stores.counters import Counters
from millpond.windowing.stores.stores import (
    AUTO,
    ON_DEMAND,
    PREFIX,
    Store,
    choose_store,
    exported_kind,
    kind_exported,
    make_store,
)

RECONSIDERED_EVERY = 64
"""So many slices are added before the store is chosen anew; moving them to another costs a combination each."""

OWN = "own"
"""The kind of a store that the caller makes."""

StoreMaker = Callable[[Aggregate, Counters], Store]

Cutting = Callable[[Cut, Moment], bool]
"""Whether a slice ends before a record."""


@dataclass(frozen=True, slots=True)
class Result:
    """The value of a window that ended, its query, its id, and where it began and ended."""

    query: str
    window: int
    bounds: Bounds
    value: Any


def at_begins(cut: Cut, _moment: Moment) -> bool:
    """Cut where a window begins."""
    return bool(cut.begun)


class SharedWindows:
    """Computes one aggregate over the windows of many queries.

    `store` is `auto`, `on_demand`, `eager`, `prefix`, or a function that makes one; `check` looks after the invariant
    at every step.

    >>> from millpond.windowing import count_sliding, sum_of
    >>> windows = SharedWindows(sum_of(), {"w": count_sliding(3, 2)})
    >>> [result.value for number in range(6) for result in windows.add(number)]
    [3, 9]
    """

    def __init__(
        self,
        aggregate: Aggregate,
        queries: Mapping[str, Window | Viewed],
        *,
        store: str | StoreMaker = AUTO,
        check: bool = False,
        cutting: Cutting = at_begins,
    ) -> None:
        must_be_aggregate(aggregate)
        given: object = queries
        if not isinstance(given, Mapping):
            raise bad_window("windows by their names", repr(given)[:60])
        self.aggregate = aggregate
        self.counters = Counters()
        self._discretiser = Discretiser()
        self._views = Views(aggregate, self.counters)
        self._auto = store == AUTO
        own = OWN if callable(store) else store
        self._kind = (PREFIX if aggregate.inverse is not None else ON_DEMAND) if self._auto else own
        self._make = (lambda _kind, *given: store(*given)) if callable(store) else make_store
        self._store: Store = self._make(self._kind, aggregate, self.counters)
        self._check = check
        self._cutting = cutting
        self._partial = aggregate.identity
        self._begins: OrderedDict[int, int] = OrderedDict()
        self._needed: dict[int, int] = {}  # How many open windows begin at a record.
        self._position = 0
        self._considered = (0, 0)
        for name, window in queries.items():
            self.add_query(name, window)

    @property
    def store_kind(self) -> str:
        """The store that is used now."""
        return self._kind

    @property
    def open_windows(self) -> int:
        """How many windows have begun and not ended."""
        return len(self._begins)

    def add_query(self, name: str, window: Window | Viewed) -> None:
        """Add a query; it sees the records from the next one on."""
        if not isinstance(window, Viewed) and not hasattr(window, "start"):
            raise bad_window('a window such as tumbling("1 minute")', repr(window)[:60])
        if self._views.holds(name) or (isinstance(window, Viewed) and self._discretiser.holds(name)):
            raise taken_name(name)
        if isinstance(window, Viewed):
            self._views.add_query(name, window, self._position)
        else:
            self._discretiser.add_query(name, window)

    def remove_query(self, name: str) -> int:
        """Remove a query with the windows that it has open, whose number is emitted; the others go on."""
        if self._views.remove_query(name):
            return 0
        dropped = self._discretiser.remove_query(name)
        self._forget(dropped)
        return len(dropped)

    def add(self, record: Any, time: int | None = None) -> list[Result]:
        """Take a record in; the results of the windows that end before it."""
        moment = Moment(record, time, self._position)
        cut = self._discretiser.on_record(moment)
        results = self._results(cut.ended)
        results += [Result(name, -1, bounds, value) for name, bounds, value in self._views.add(moment)]
        if self._cutting(cut, moment):
            if self._begins:
                self._append_slice()
            self._partial = self.aggregate.identity
        for window in cut.begun:
            self._begins[window] = self._position
        if cut.begun:
            self._needed[self._position] = len(cut.begun)
        if self._begins:
            self._fold(record)
        self._position += 1
        self.counters.records += 1
        self._bound()
        return results

    def add_all(self, rows: Sequence[tuple[int, Any]]) -> list[Result]:
        """Take in times and records, sorted by time, as `add` does one by one; all results.

        Between two records that begin or end a window, records are only combined, and that is done at once.
        """
        times = [time for time, _ in rows]
        results: list[Result] = []
        place = 0
        while place < len(rows):
            results += self.add(rows[place][1], times[place])
            place += 1
            if self._views.asks or self._cutting is not at_begins:
                continue
            last = self._discretiser.pass_over(times, place, self._position)
            if place < last:
                if self._begins:
                    self._fold_all([record for _, record in rows[place:last]])
                self._position += last - place
                self.counters.records += last - place
                place = last
        return results

    def advance(self, now: int) -> list[Result]:
        """Say that no record before `now` (microseconds) will come; the results of the windows that end.

        Windows over records end if they are full: the next record is not theirs.
        """
        return self._between(self._discretiser.on_time(now, self._position))

    def ends_at(self) -> int | None:
        """Return the first time at which `advance` ends a window, if no record comes; None if there is none."""
        return self._discretiser.ends_at()

    def punctuate(self, mark: Any = None) -> list[Result]:
        """Put a punctuation between two records; the results of the windows that end."""
        return self._between(self._discretiser.on_mark(mark))

    def export(self) -> dict[str, Any]:
        """Return the whole state as plain values, of the type that `exported_type` gives."""
        running = [] if self._partial is self.aggregate.identity else [self._partial]
        return {
            "aggregate": self.aggregate.name,
            "discretiser": self._discretiser.export(),
            "views": self._views.export(),
            "position": self._position,
            "begins": [list(each) for each in self._begins.items()],
            "running": running,
            "slices": list(self._store.slices()),
            "store": exported_kind(self._kind),
            "layout": self._store.layout(),
            "considered": list(self._considered),
            "counters": self.counters.export(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up a state that was exported; queries of it that are not here are dropped, new ones begin now."""
        if state["aggregate"] != self.aggregate.name:
            raise WindowError(
                "MP625",
                "this state of windows was made for another aggregate",
                expected=state["aggregate"],
                found=self.aggregate.name,
                hint="aggregate as before, or begin with an empty state",
            )
        self._position = state["position"]
        self._considered = (state["considered"][0], state["considered"][1])
        kind = kind_exported(state["store"])
        if self._auto:
            self._kind = kind if kind != PREFIX or self.aggregate.inverse is not None else ON_DEMAND
        self._store = self._make(self._kind, self.aggregate, self.counters)
        self._store.arrange(state["slices"], state["layout"] if self._kind == kind else ())
        self._begins = OrderedDict((window, position) for window, position in state["begins"])
        self._needed = dict(Counter(self._begins.values()))
        self._partial = state["running"][0] if state["running"] else self.aggregate.identity
        gone = self._discretiser.restore(state["discretiser"])
        self._views.restore(state["views"], self._position)
        for name, value in state["counters"].items():
            setattr(self.counters, name, value)
        self._forget(gone)

    def _fold(self, record: Any) -> None:
        """Combine what runs with a record."""
        lifted = self.aggregate.lift(record)
        if self._partial is self.aggregate.identity:
            self._partial = lifted
        else:
            self.counters.fold_calls += 1
            self._partial = self.aggregate.combine(self._partial, lifted)

    def _fold_all(self, records: list[Any]) -> None:
        """Combine what runs, in which a record is already, with more of them."""
        parts = self.aggregate.parts
        if not parts:
            for record in records:
                self._fold(record)
            return
        self.counters.fold_calls += len(records)
        # Part by part, so that sums are added up without a call of Python for each record.
        self._partial = tuple(
            [
                reduce(part.combine, map(part.lift, records), running)
                for (_, part), running in zip(parts, self._partial, strict=True)
            ]
        )

    def _between(self, ended: list[Ended]) -> list[Result]:
        results = self._results(ended)
        self._bound()
        return results

    def _results(self, ended: list[Ended]) -> list[Result]:
        if not ended:
            return []
        results: list[Result] = []
        known: dict[int, Any] = {}
        for each in ended:
            begin = self._drop(each.window)
            if begin not in known:
                known[begin] = self._lookup(begin)
            # Lowered for each: a result that is a list belongs to one window alone.
            results.append(Result(each.query, each.window, each.bounds, self.aggregate.result(known[begin])))
        self.counters.windows += len(results)
        self._purge()
        return results

    def _lookup(self, begin: int) -> Any:
        self.counters.lookups += 1
        stored = self._store.lookup(begin)
        if stored is self.aggregate.identity:
            return self._partial
        if self._partial is self.aggregate.identity:
            return stored
        self.counters.merge_calls += 1
        return self.aggregate.combine(stored, self._partial)

    def _append_slice(self) -> None:
        self._store.add(self._position, self._partial)
        self.counters.partials += 1
        added, looked_up = self._considered
        if self._auto and self.counters.partials - added >= RECONSIDERED_EVERY:
            lookups = (self.counters.lookups - looked_up) / (self.counters.partials - added)
            self._considered = (self.counters.partials, self.counters.lookups)
            self._move(choose_store(self.aggregate, len(self._store), lookups))

    def _move(self, kind: str) -> None:
        if kind == self._kind:
            return
        store = make_store(kind, self.aggregate, self.counters)
        store.arrange(list(self._store.slices()), ())
        self._kind, self._store = kind, store

    def _forget(self, windows: list[int]) -> None:
        for window in windows:
            self._drop(window)
        self._purge()
        self._bound()

    def _drop(self, window: int) -> int:
        begin = self._begins.pop(window)
        self._needed[begin] -= 1
        if not self._needed[begin]:
            del self._needed[begin]
        return begin

    def _purge(self) -> None:
        if self._begins:
            # Begins grow with the ids of windows, so the oldest open window has the first.
            self._store.purge(next(iter(self._begins.values())))
        else:
            self._store.purge(self._position)
            self._partial = self.aggregate.identity

    def _bound(self) -> None:
        """Merge what no window tells apart any more, if slices are more than windows."""
        if len(self._store) > len(self._begins) and self._cutting is at_begins:
            # The newest slice borders on the running one. At least two are not needed, so one of the others is not.
            ids = [slice_id for slice_id, _ in self._store.slices()]
            self._store.merge([slice_id for slice_id in ids[:-1] if slice_id not in self._needed])
        self.counters.keep(len(self._store))
        if self._check:
            assert len(self._store) <= len(self._begins), f"{len(self._store)} slices, {len(self._begins)} windows"


def exported_type(aggregate: Aggregate) -> Any:
    """Return the type of an exported state, as a state element declares it."""
    partial = aggregate.partial_type
    slices = list[tuple[int, partial]]  # type: ignore[valid-type]
    viewed = {"views": dict[str, Any], "records": slices, "layout": list[int]}
    fields = {
        "aggregate": str,
        "discretiser": dict[str, Any],
        "views": TypedDict("ViewsState", viewed),  # type: ignore[operator]
        "position": int,
        "begins": list[list[int]],
        "running": list[partial],  # type: ignore[valid-type]
        "slices": slices,
        "store": str,
        "layout": list[int],
        "considered": list[int],
        "counters": dict[str, int],
    }
    return TypedDict("SharedWindowsState", fields)  # type: ignore[operator]
