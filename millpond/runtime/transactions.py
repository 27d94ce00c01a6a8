"""Rows of gathered entry points, run in input order as plain Python, each all or nothing.

A chunk of rows runs at full speed first. If the code of one of them raises or aborts, the state is brought back to
where the chunk began, and its rows run one by one, each with what it may touch remembered. Where values can't be
changed in place, remembering is keeping them. Elsewhere they are encoded, and only once a chunk fails: then the rows
since the last point at which all is known run again, so that no row runs more than three times.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from millpond.compiler.mutability import is_frozen
from millpond.errors import Aborted
from millpond.runtime.delivery import Delivery, Refused
from millpond.runtime.failures import BadKeysError
from millpond.runtime.intake import BadRow, Work
from millpond.runtime.loads import gathered_load
from millpond.runtime.merging import merge_order
from millpond.runtime.messages import Failure
from millpond.runtime.plan import BadRows, EpochPlan, ProgramPlan
from millpond.runtime.prepared import Prepared
from millpond.runtime.touched import RowKeysError, Touched, touched
from millpond.runtime.working import WorkingState
from millpond.state.overlay import KeyedOverlay, LazyOverlay, Remembered

CHUNK_ROWS = 8192
"""Few enough that running them one by one is soon done, many enough that a chunk costs nothing by itself."""

Ints = npt.NDArray[np.int64]
Undo = Callable[[], None]


class Transactions:
    """The gathered rows of one partition."""

    def __init__(
        self, plan: ProgramPlan, epoch: EpochPlan, work: Sequence[Work], state: WorkingState, delivery: Delivery
    ) -> None:
        self._plan = plan
        self._epoch = epoch
        self._work = list(work)
        self._state = state
        self._delivery = delivery
        self._forgiving = any(self._may_leave_out(one) for one in work)
        self._touched = [self._keys_of(one) for one in work]
        self._load()
        for one, found in zip(self._work, self._touched, strict=True):
            state.loads += [gathered_load(plan, one.task.name, keys) for keys in found]
        self._memory = _Memory(plan, self._touched, state)
        _, self._owners, self._rows = merge_order(plan, self._work)

    def _may_leave_out(self, work: Work) -> bool:
        """Whether rows of a work may be left out, so that what they did must be undone."""
        aborts = self._plan.program.entries[work.task.entry].aborts
        return aborts or self._plan.feeds[work.feed].bad_rows is not BadRows.FAIL

    def _keys_of(self, work: Work) -> list[Touched]:
        try:
            return touched(work.task, self._plan.program.elements, work.variables, len(work), work.times)
        except RowKeysError as error:
            raise BadKeysError(error, work, self._epoch) from error

    def _load(self) -> None:
        """Load all keys that the rows may touch, each element in one go."""
        units: dict[str, dict[Any, None]] = {}
        for found in (found for by_work in self._touched for found in by_work):
            if not self._plan.program.elements[found.element].type.single:
                units.setdefault(found.element, {}).update(dict.fromkeys(found.units))
        for element, distinct in units.items():
            self._state.keyed_overlay(element).prefetch(list(distinct))

    def run(self) -> Failure | None:
        """Run all rows; the failure of the first one that may not fail, if there is one."""
        failure = None
        for start in range(0, len(self._owners), CHUNK_ROWS):
            end = min(start + CHUNK_ROWS, len(self._owners))
            failure = self._run_chunk(start, end)
            if failure is not None:
                break
        return failure

    def _run_chunk(self, start: int, end: int) -> Failure | None:
        undo = self._memory.before_chunk(self._of(start, end)) if self._forgiving else None
        prepared = self._prepared(start, end)
        failed = self._run_fast(start, end, prepared)
        if failed is None:
            for one in prepared:
                one.deliver(None)
            return None
        if not self._forgiving:
            return failed
        if undo is not None:
            undo()
        else:
            self._return_to(start, end)
        failure = self._run_singly(start, end)
        self._memory.learn(self._of(start, end), end)
        return failure

    def _return_to(self, start: int, end: int) -> None:
        """Bring the state back to where a chunk began, from the last point that is known, and know this one."""
        since = self._memory.since
        self._memory.go_back(self._of(since, end))
        for first in range(since, start, CHUNK_ROWS):
            last = min(first + CHUNK_ROWS, start)
            failed = self._run_fast(first, last, self._prepared(first, last))
            assert failed is None, "rows that ran before run again in the same way"
        self._memory.learn(self._of(since, end), start)

    # --- running

    def _of(self, start: int, end: int) -> list[Ints]:
        """The rows of each work among those from `start` to `end`."""
        owners, rows = self._owners[start:end], self._rows[start:end]
        return [rows[owners == at] for at in range(len(self._work))]

    def _prepared(self, start: int, end: int) -> list[Prepared]:
        own = self._of(start, end)
        return [Prepared(one, rows, self._delivery) for one, rows in zip(self._work, own, strict=True)]

    def _run_fast(self, start: int, end: int, prepared: list[Prepared]) -> Failure | None:
        """Run rows in their order; the failure of the first one that raises."""
        owners = self._owners[start:end]
        ends = np.flatnonzero(np.diff(owners)) + 1
        for first, last in zip([0, *ends.tolist()], [*ends.tolist(), len(owners)], strict=True):
            one = prepared[int(owners[first])]
            task = one.work.task
            try:
                with one.timed():
                    task.function(one.results, *self._state.containers(task, None), *one.next_columns(last - first))
            except Exception as error:  # noqa: BLE001 - whatever the user's code raises is told with its row
                return one.failure(error, len(one.results), self._epoch)
        return None

    def _run_singly(self, start: int, end: int) -> Failure | None:
        """Run rows one by one, and leave no trace of those that raise or abort."""
        prepared = self._prepared(start, end)
        kept: list[list[int]] = [[] for _ in prepared]
        own = self._of(start, end)
        memories = [self._memory.by_row(at, rows) for at, rows in enumerate(own)]
        for owner in self._owners[start:end].tolist():
            one, undo = prepared[owner], next(memories[owner])
            at, task = len(one.results), one.work.task
            columns = one.next_columns(1)
            try:
                with one.timed():
                    task.function(one.results, *self._state.containers(task, None), *columns)
            except Exception as error:  # noqa: BLE001 - whatever the user's code raises is told with its row
                if isinstance(error, Aborted) and self._plan.program.entries[task.entry].aborts:
                    undo()
                    one.results.append(Refused(str(error.reason)))
                    kept[owner].append(at)
                    continue
                failure: Failure = one.failure(error, at, self._epoch)
                if self._plan.feeds[one.work.feed].bad_rows is BadRows.FAIL:
                    return failure
                undo()
                one.results.append(None)
                self._delivery.bad_row(self._left_out(one, columns, failure))
                continue
            kept[owner].append(at)
        for one, rows, places in zip(prepared, own, kept, strict=True):
            self._delivery.deliver(one.work, rows[places], [one.results[at] for at in places], None)
        return None

    def _left_out(self, one: Prepared, columns: list[list[Any]], failure: Failure) -> BadRow:
        values = {name: column[0] for name, column in zip(one.work.task.inputs, columns, strict=False)}
        order, feed, source, position = failure.place
        text = json.dumps(values, default=str, ensure_ascii=False)
        return BadRow(feed, failure.summary, text, order, source, position)


class _Memory:
    """What rows may touch, as it was before them."""

    def __init__(self, plan: ProgramPlan, found: Sequence[Sequence[Touched]], state: WorkingState) -> None:
        names = {one.element for by_work in found for one in by_work}
        types = {name: plan.program.elements[name].type for name in names}
        self._encoded = not all(is_frozen(kind.value_hint) for kind in types.values())
        self._keyed = [
            [(state.keyed_overlay(one.element), one) for one in by_work if not types[one.element].single]
            for by_work in found
        ]
        self._single = [
            [state.single_overlay(one.element) for one in by_work if types[one.element].single] for by_work in found
        ]
        # Where values are encoded: what is known of them, and from which row on it holds.
        self.since = 0
        self._known: dict[int, dict[Any, Any]] = {}
        self._known_single: dict[int, Remembered] = {}

    def before_chunk(self, rows: Sequence[Ints]) -> Undo | None:
        """Remember what rows may touch, if that costs little; None if it is to be found out when it is needed."""
        if self._encoded:
            return None
        return self._remember(list(self._touched_by(rows)))

    def by_row(self, work: int, rows: Ints) -> Iterator[Undo]:
        """Remember for each row of a work what it may touch, just before it runs."""
        single: list[tuple[KeyedOverlay | LazyOverlay, list[Any] | None]] = [
            (lazy, None) for lazy in self._single[work]
        ]
        for row in rows.tolist():
            keyed = [(overlay, one.units_of(row)) for overlay, one in self._keyed[work]]
            yield self._remember([*keyed, *single])

    def _remember(self, touched_now: list[tuple[KeyedOverlay | LazyOverlay, list[Any] | None]]) -> Undo:
        keyed: list[tuple[KeyedOverlay, dict[Any, Any]]] = []
        single: list[tuple[LazyOverlay, Remembered]] = []
        for overlay, units in touched_now:
            if isinstance(overlay, KeyedOverlay):
                keyed.append((overlay, overlay.remember(units or (), encoded=self._encoded)))
            else:
                single.append((overlay, overlay.remember()))

        def undo() -> None:
            for overlay, before in keyed:
                overlay.bring_back(before, encoded=self._encoded)
            for lazy, remembered in single:
                lazy.bring_back(remembered)

        return undo

    def go_back(self, rows: Sequence[Ints]) -> None:
        """Bring what rows may touch back to what is known of it."""
        for overlay, units in self._touched_by(rows):
            if isinstance(overlay, LazyOverlay):
                overlay.bring_back(self._known_single.get(id(overlay), Remembered({}, frozenset())))
                continue
            known = self._known_of(overlay)
            overlay.bring_back({unit: known[unit] for unit in units or ()}, encoded=True)

    def learn(self, rows: Sequence[Ints], since: int) -> None:
        """Note what rows may touch, as it is now: before the row `since`."""
        if not self._encoded:
            return
        self.since = since
        for overlay, units in self._touched_by(rows):
            if isinstance(overlay, LazyOverlay):
                self._known_single[id(overlay)] = overlay.remember()
            else:
                self._known_of(overlay).update(overlay.remember(units or (), encoded=True))

    def _known_of(self, overlay: KeyedOverlay) -> dict[Any, Any]:
        known = self._known.get(id(overlay))
        if known is None:
            known = self._known[id(overlay)] = overlay.committed()
        return known

    def _touched_by(self, rows: Sequence[Ints]) -> Iterator[tuple[KeyedOverlay | LazyOverlay, list[Any] | None]]:
        """The elements that rows touch, and under which keys."""
        for work, own in enumerate(rows):
            if not len(own):
                continue
            for overlay, one in self._keyed[work]:
                yield overlay, [one.units[code] for code in np.unique(_codes(one, own)).tolist()]
            for lazy in self._single[work]:
                yield lazy, None


def _codes(found: Touched, rows: Ints) -> Ints:
    """The places of the units that rows touch."""
    if found.one_each:
        return found.codes[rows]
    firsts, lasts = np.searchsorted(found.rows, rows, "left"), np.searchsorted(found.rows, rows, "right")
    parts = [found.codes[first:last] for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)]
    return np.concatenate(parts)
