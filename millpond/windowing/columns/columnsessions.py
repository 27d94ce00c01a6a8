"""Sessions of many keys at once, on columns, whose rows come in any order: a late row may join two sessions to one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from millpond.lengths import Length
from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.aggregates.forms import Array, Bools, Ints, Rows, State
from millpond.windowing.columns.corrections import RETRACT, OverColumns, joined
from millpond.windowing.columns.intake import (
    Closed,
    Late,
    chosen_of,
    not_columnar,
    pack,
    start_states,
)
from millpond.windowing.kinds.driven import Session
from millpond.windowing.kinds.kinds import Window, described
from millpond.windowing.kinds.periodic import NO_TIME


class ColumnSessions(OverColumns):
    """Open sessions of many keys; the state is a few arrays, sorted by key and begin.

    Rows less than `gap` apart belong together, as in `session`. A row is late if it belongs to no open session and its
    own would have ended at the watermark or before. A sum of floats is taken in the order of arrival; where sessions
    become one, their sums are added.

    >>> from millpond.windowing import count, session
    >>> sessions = ColumnSessions(session("10 us"), {"n": count()})
    >>> late = sessions.add([0, 0, 0], [30, 0, 9], {})
    >>> closed = sessions.close(20)
    >>> [closed.begins.tolist(), closed.ends.tolist(), closed.values["n"].tolist()]
    [[0], [19], [2]]

    With `lateness` sessions that were emitted are kept for longer, and may grow or be joined. The next `close` takes
    back what was emitted of them, and the new session is emitted, marked as corrected, when it ends. With
    `corrections="replace"` nothing is taken back: a corrected session covers all those that it replaces.
    """

    def __init__(
        self,
        window: Window,
        aggregates: Mapping[str, Aggregate],
        *,
        lateness: Length = NO_TIME,
        corrections: str = RETRACT,
    ) -> None:
        super().__init__(aggregates, lateness, corrections)
        if not isinstance(window, Session):
            raise not_columnar("sessions; other windows over time by `ColumnWindows`", described(window))
        self._gap = window.gap
        self._first = self._last = self._rows = np.zeros(0, np.int64)
        self._emitted = self._replaces = np.zeros(0, np.bool_)  # Emitted as they are; replacing emitted ones.

    def add(self, keys: Any, times: Any, columns: Mapping[str, Any]) -> Late:
        """Add rows: codes of their keys (0, 1, 2, …), times in microseconds, columns by name; return the late ones."""
        codes, points, taken = self._intake.take(keys, times, columns)
        if not len(codes):
            return Late(codes, points, codes)
        old = len(self._keys)
        group, begins = self._groups(codes, points)
        size = len(begins)
        ends = np.full(size, np.iinfo(np.int64).min)
        np.maximum.at(ends, group, np.concatenate((self._last, points)))
        late = np.zeros(size, np.bool_)
        if self._horizon is not None:
            late = ends + self._gap <= self._horizon
            late[group[:old]] = False
        rows = np.flatnonzero(late[group[old:]])
        self._apply(group, begins, ends, ~late, points, taken, codes)
        return Late(rows, (self._watermark or 0) - points[rows], np.zeros(0, np.int64))

    def close(self, watermark: int) -> Closed:
        """Close the sessions that end at the watermark or before; each is emitted once, sorted by key and begin."""
        self._check_forward(watermark)
        self._watermark, self._horizon = watermark, self._allowed.horizon(self._horizon, watermark)
        ends = self._last + self._gap
        done = (ends <= watermark) & ~self._emitted
        closed = self._results_of(done)
        if self._allowed.lateness or self._replaced:
            old = joined(self._replaced, self._forms)
            closed, self._replaced = self._allowed.settle(old, closed, self._replaces[done]), []
        self._emitted = self._emitted | done
        self._keep(ends > self._horizon)
        return closed

    def export(self) -> dict[str, Any]:
        """Return the whole state: the watermark, and arrays by name; with a lateness also what is to be corrected."""
        state = self._exported({"first": self._first, "last": self._last, "rows": self._rows})
        if self._allowed.lateness:
            state["arrays"] |= {"told": self._emitted, "replaces": self._replaces}
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up a state that was exported, or the part of one that belongs to some keys."""
        self._restore(state)
        arrays = state["arrays"]
        self._first, self._last, self._rows = arrays["first"], arrays["last"], arrays["rows"]
        none = np.zeros(len(self._keys), np.bool_)
        self._emitted, self._replaces = arrays.get("told", none), arrays.get("replaces", none)
        if self._horizon is not None:
            self._keep(~self._emitted | (self._last + self._gap > self._horizon))

    def last_end(self, time: int) -> int:
        """Return the end of a session whose last row has this time."""
        return time + self._gap

    def closing(self, arrays: Mapping[str, Array]) -> Ints:
        """Return 1 for each session."""
        return np.ones(len(arrays["keys"]), np.int64)

    def _keep(self, kept: Bools) -> None:
        self._emitted, self._replaces = self._emitted[kept], self._replaces[kept]
        self._keys, self._first = self._keys[kept], self._first[kept]
        self._last, self._rows = self._last[kept], self._rows[kept]
        if self._states is not None:
            self._states = chosen_of(self._states, kept)

    def _results_of(self, chosen: Bools) -> Closed:
        """Return what is to be said of some sessions."""
        rows = self._rows[chosen]
        values: dict[str, Array] = {name: np.zeros(0) for name in self._forms}
        if self._states is not None:
            found = chosen_of(self._states, chosen)
            values = {name: form.lower(found[name], rows) for name, form in self._forms.items()}
        return Closed(self._keys[chosen], self._first[chosen], self._last[chosen] + self._gap, rows, values)

    def _groups(self, codes: Ints, points: Ints) -> tuple[Array, Array]:
        """Find the session of each open one and each row, in the order of key and begin; and where each begins."""
        keys = np.concatenate((self._keys, codes))
        begins = np.concatenate((self._first, points))
        packed = pack(keys, begins)
        # Stable, and open sessions stand first: at equal times they come before rows.
        order = np.lexsort((begins, keys)) if packed is None else np.argsort(packed[0], kind="stable")
        keys, begins = keys[order], begins[order]
        reached = begins.copy()
        opened = order < len(self._keys)
        if opened.any():
            # Open sessions of a key do not overlap, so the last one before a row reaches farthest.
            recent = np.maximum.accumulate(np.where(opened, np.arange(len(order)), -1))
            known = (recent >= 0) & (keys[recent] == keys)
            ends = np.where(opened, self._last[np.minimum(order, max(len(self._last) - 1, 0))], 0)
            reached = np.where(known, np.maximum(begins, ends[recent]), begins)
        new = np.ones(len(order), np.bool_)
        new[1:] = (keys[1:] != keys[:-1]) | (begins[1:] - reached[:-1] >= self._gap)
        group = np.empty(len(order), np.int64)
        group[order] = np.cumsum(new) - 1
        return group, begins[new]

    def _apply(
        self,
        group: Array,
        begins: Array,
        ends: Array,
        kept: Array,
        points: Ints,
        taken: Mapping[str, Array],
        codes: Ints,
    ) -> None:
        old = len(self._keys)
        place = np.cumsum(kept) - 1
        size = int(kept.sum())
        mine = place[group[:old]]
        fresh = np.flatnonzero(kept[group[old:]])
        slots = place[group[old:][fresh]]
        keys = np.empty(size, np.int64)
        keys[slots] = codes[fresh]
        keys[mine] = self._keys
        counts, states = self._joined(mine, size)
        rows = Rows(slots, points[fresh], {name: column[fresh] for name, column in taken.items()})
        for name, form in self._forms.items():
            form.update(states[name], rows)
        arrived = np.bincount(slots, minlength=size)
        self._mark(mine, arrived > 0)
        counts += arrived
        self._keys, self._first, self._last = keys, begins[kept], ends[kept]
        self._rows, self._states = counts, states

    def _mark(self, places: Array, changed: Bools) -> None:
        """Note what was emitted of sessions that change; two become one only by a row between them."""
        emitted, replaces = np.zeros(len(changed), np.bool_), np.zeros(len(changed), np.bool_)
        if self._emitted.any() or self._replaces.any():
            gone = self._emitted & changed[places]
            if gone.any():
                self._replaced.append(self._results_of(gone))
            emitted[places[self._emitted & ~gone]] = True
            replaces[places[self._replaces | gone]] = True
        self._emitted, self._replaces = emitted, replaces

    def _joined(self, places: Array, size: int) -> tuple[Array, dict[str, State]]:
        """Return the open sessions in their new places; those that share one are joined, the earlier on the left."""
        counts = np.zeros(size, np.int64)
        states = start_states(self._forms, size, self._intake.dtypes)
        left = np.arange(len(places))
        while len(left) and self._states is not None:
            _, which = np.unique(places[left], return_index=True)
            now, at = left[which], places[left[which]]
            for name, form in self._forms.items():
                held = tuple(part[now] for part in self._states[name])
                there = tuple(part[at] for part in states[name])
                both = form.combine(there, held, counts[at], self._rows[now])
                for part, new in zip(states[name], both, strict=True):
                    part[at] = new
            counts[at] += self._rows[now]
            left = np.delete(left, which)
        return counts, states
