"""No sharing: every record is combined into every window that is open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.discretiser import Discretiser, Ended
from millpond.windowing.kinds.kinds import Moment, Window
from millpond.windowing.shared import Result
from millpond.windowing.stores.counters import Counters


class Naive:
    """A partial per open window."""

    def __init__(self, aggregate: Aggregate, queries: Mapping[str, Window]) -> None:
        self.aggregate = aggregate
        self.counters = Counters()
        self._discretiser = Discretiser()
        self._open: dict[int, Any] = {}
        self._position = 0
        for name, window in queries.items():
            self._discretiser.add_query(name, window)

    def add(self, record: Any, time: int | None = None) -> list[Result]:
        """Take a record in; the results of the windows that end before it."""
        cut = self._discretiser.on_record(Moment(record, time, self._position))
        results = self._results(cut.ended)
        lifted = self.aggregate.lift(record)
        for window, partial in self._open.items():
            self._open[window] = self.aggregate.combine(partial, lifted)
        self.counters.update_calls += len(self._open)
        self._open.update(dict.fromkeys(cut.begun, lifted))
        self.counters.partials += len(cut.begun)
        self.counters.keep(len(self._open))
        self._position += 1
        self.counters.records += 1
        return results

    def advance(self, now: int) -> list[Result]:
        """Say that no record before `now` will come."""
        return self._results(self._discretiser.on_time(now, self._position))

    def punctuate(self, mark: Any = None) -> list[Result]:
        """Put a punctuation between two records."""
        return self._results(self._discretiser.on_mark(mark))

    def _results(self, ended: list[Ended]) -> list[Result]:
        self.counters.windows += len(ended)
        return [
            Result(each.query, each.window, each.bounds, self.aggregate.result(self._open.pop(each.window)))
            for each in ended
        ]
