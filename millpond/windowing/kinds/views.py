"""Windows whose begin is not known ahead: every record is a slice, and a record goes when no view holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millpond.errors import WindowError
from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.kinds.kinds import Bounds, Moment, timed
from millpond.windowing.kinds.userdefined import Viewed, asked_view
from millpond.windowing.stores.counters import Counters
from millpond.windowing.stores.flatfat import FlatFat


class Views:
    """All views of a stream over one tree of records; it holds nothing while there are none."""

    def __init__(self, aggregate: Aggregate, counters: Counters) -> None:
        self._aggregate = aggregate
        self._records = FlatFat(aggregate, counters)
        self._views: dict[str, Viewed] = {}
        self._heads: dict[str, int] = {}
        self._states: dict[str, Any] = {}

    def add_query(self, name: str, view: Viewed, position: int) -> None:
        """Add a view that begins with the next record."""
        self._views[name] = view
        self._heads[name] = position
        self._states[name] = view.initial

    @property
    def asks(self) -> bool:
        """Whether there are views, which are asked about every record."""
        return bool(self._views)

    def holds(self, name: str) -> bool:
        """Whether there is a view of this name."""
        return name in self._views

    def remove_query(self, name: str) -> bool:
        """Remove a view; False if there is none of this name."""
        if name not in self._views:
            return False
        del self._views[name], self._heads[name], self._states[name]
        self._purge()
        return True

    def add(self, moment: Moment) -> list[tuple[str, Bounds, Any]]:
        """Ask all views about a record, then add it; the views that are emitted, with their bounds."""
        if not self._views:
            return []
        emitted: list[tuple[str, Bounds, Any]] = []
        for name, view in self._views.items():
            if view.needs_time:
                timed(moment)
            held = moment.position - self._heads[name]
            leaving, emit, state = asked_view(view.view, self._states[name], moment, held)
            leaving = min(max(leaving, 0), held) if view.lenient else leaving
            if not 0 <= leaving <= held:
                raise WindowError(
                    "MP626",
                    "a view evicts more records than it holds",
                    expected=f"between 0 and {held}",
                    found=repr(leaving)[:60],
                    hint="it is given the number of records it holds",
                )
            self._states[name] = state
            self._heads[name] += leaving
            if emit and leaving < held:
                value = self._aggregate.result(self._records.lookup(self._heads[name] - 1))
                emitted.append((name, (self._heads[name], moment.position), value))
        self._purge()
        self._records.add(moment.position, self._aggregate.lift(moment.record))
        return emitted

    def export(self) -> dict[str, Any]:
        """The views' heads and states, and the records they hold, with their places: floats are added in that order."""
        return {
            "views": {name: [self._heads[name], self._states[name]] for name in self._views},
            "records": list(self._records.slices()),
            "layout": self._records.layout(),
        }

    def restore(self, state: Mapping[str, Any], position: int) -> None:
        """Take up a state that was exported; new views begin with the next record."""
        for name in self._views:
            self._heads[name], self._states[name] = state["views"].get(name, [position, self._views[name].initial])
        self._records.arrange(state["records"], state["layout"])
        self._purge()

    def _purge(self) -> None:
        if self._views:
            self._records.purge(min(self._heads.values()) - 1)
        else:
            self._records.purge(2**63)
