"""Rows of one or more works in one order, run at full speed; one that raises is undone, and the others go on.

Rows run in long stretches as if none of them raised. If one does, all that it may have touched is brought back to the
last known point, and the rows since then that touched it too run again. If these become too many, or any row may touch
anything, there are known points as often as rows raise. So rows that do not raise cost next to nothing more.

Whether what rows give can be handed over is seen when many of them have run: a reply of another type than the declared
one is found then. That row has raised, too, and all rows after it run again, since they may have met what it did. From
then on it is looked at every few rows.

Rows that an earlier try of the epoch found to raise at some step are run for what they raise alone: whatever they do is
undone at once.

To undo a row, nothing is kept until a row raises: what entries were first is what the parent holds. From then on it is
known what they were at one row. Where rows touch entries by their keys, only those are brought back that the row to
undo has to do with. Where they may touch anything, all of it is.

Rows of a task that only adds them to windows are added at once instead of one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isqrt
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from millpond.compiler.compiled import CompiledTask
from millpond.engine.failures import UnfitError
from millpond.engine.gathered.links import Entry, Links, Reach
from millpond.engine.messages import Failure
from millpond.engine.task.columns import Rows, numbers_of
from millpond.engine.task.delivery import Delivery, NoParcel
from millpond.engine.task.intake import Work
from millpond.engine.task.rowbatch import LEFT_OUT, RowBatch
from millpond.errors import EpochError, Passing
from millpond.program.semantics.epoch_time import added_from_us
from millpond.state.overlay import KeyedOverlay

CHUNK_ROWS: Final = 8192
"""Small enough for a cache, large enough that a chunk costs nothing by itself."""

KNOW_ROWS: Final = 32
"""About so many rows cost what it costs to know entries anew."""

AGAIN_MAX: Final = 0.25
"""If more of the rows since a known point have run again, that point lies too far back."""

Containers = Callable[[CompiledTask], list[Any]]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Raised:
    """A row on which the user's code raised, by its place among those that were prepared with it."""

    error: BaseException
    prepared: RowBatch
    at: int
    tried: bool = False


@dataclass(frozen=True, slots=True)
class Left:
    """What becomes of a row that raised: its result, and how it is told, once it is sure that it has raised."""

    result: Any
    tell: Callable[[], None] | None = None


Judge = Callable[[Raised], Failure | Left]
"""Decides what becomes of a row that raised: a Failure stops the run."""


@dataclass(slots=True)
class _Chunk:
    """Rows that are handed over together."""

    start: int
    end: int
    prepared: list[RowBatch]
    left: dict[int, Left] = field(default_factory=dict)


class InOrder:
    """The rows of some works: `owners` says of which work each is, `rows` which one there; `tried` rows leave nothing.

    If there is one work and its rows are in order, they are taken `as_they_are`.
    """

    def __init__(
        self,
        work: Sequence[Work],
        owners: Rows,
        rows: Rows,
        *,
        as_they_are: bool,
        containers: Containers,
        reach: Callable[[Work], Reach],
        delivery: Delivery,
        judge: Judge,
        lane: int | None = None,
        tried: Mask | None = None,
    ) -> None:
        self._work = list(work)
        self._owners = owners
        self._rows = rows
        self._as_they_are = as_they_are
        self._containers = containers
        self._reach = reach
        self._delivery = delivery
        self._judge = judge
        self._lane = lane
        self._tried = tried
        self._memory: Memory | None = None
        # Rows that are out did nothing; so many, with these, were looked at again since entries were known last.
        self._again = 0
        self._dense = False
        self._out = np.zeros(len(owners), dtype=bool)
        self._stretch = CHUNK_ROWS
        # The row that raised last, and about how many rows lie between two such.
        self._last = -1
        self._gap = 0
        # Whether some row gave what can't be handed over.
        self._careful = False

    def run(self) -> Failure | None:
        """Run all rows and deliver what they give; the failure of one that may not fail, if there is one."""
        start = 0
        while start < len(self._owners):
            end = self._end_of_row(min(start + CHUNK_ROWS, len(self._owners)) - 1)
            chunk = _Chunk(start, end, self._row_batches(slice(start, end)))
            at = start
            while True:
                failure = self._run_chunk(at, chunk)
                if failure is not None:
                    return failure
                try:
                    parcels = [parcel for one in chunk.prepared for parcel in one.pack(self._lane)]
                    break
                except NoParcel:
                    unfit = self._unfit(chunk)
                    assert unfit is not None
                    again = self._leave_unfit(unfit, end, chunk)
                    if isinstance(again, Failure):
                        return again
                    at = again
            for parcel in parcels:
                self._delivery.hand_over(parcel)
            for at in sorted(chunk.left):
                if (tell := chunk.left[at].tell) is not None:
                    tell()
            start = end
        return None

    def _run_chunk(self, at: int, chunk: _Chunk) -> Failure | None:
        """Run the rows of a chunk from one on; the failure of one that may not fail, if there is one."""
        while at < chunk.end:
            if self._tried is not None and self._tried[at]:
                # Before anything is known anew, rows before it must be sure.
                unfit = None if self._known().apart else self._unfit(chunk)
                if unfit is None:
                    at = self._try(at, chunk)
                    continue
            else:
                stop = min(at + self._stretch, chunk.end, self._next_tried(at, chunk.end))
                raised = self._run_fast(at, stop, chunk.prepared)
                if raised is None:
                    at, unfit = stop, None
                    if self._stretch < CHUNK_ROWS:
                        unfit = self._unfit(chunk) if self._dense or self._careful else None
                        if unfit is None and self._dense:
                            self._know(at)
                        self._stretch = min(2 * self._stretch, CHUNK_ROWS)
                else:
                    at, why = raised
                    left = self._judge(why)
                    # It may have raised because of a row whose result does not fit.
                    unfit = self._unfit(chunk) if isinstance(left, Failure) else None
                    if unfit is None:
                        if isinstance(left, Failure):
                            return left
                        self._undo(at, at + 1)
                        self._leave(at, why.prepared, left, chunk)
                        at += 1
                        # More has run again by now than it costs to know better.
                        late = self._dense and self._again >= KNOW_ROWS
                        unfit = self._unfit(chunk) if late else None
                        if unfit is None and late:
                            self._know(at)
            if unfit is not None:
                again = self._leave_unfit(unfit, at, chunk)
                if isinstance(again, Failure):
                    return again
                at = again
        return None

    def _leave(self, at: int, one: RowBatch, left: Left, chunk: _Chunk) -> None:
        """Take what becomes of the row at a position, which raised; the next one is about as far away."""
        one.take(left.result)
        chunk.left[at] = left
        self._gap = max((self._gap + at - self._last) // 2, 1)
        self._last = at
        # So long that knowing entries anew costs about as much as running rows again does.
        self._stretch = min(isqrt(2 * KNOW_ROWS * self._gap), CHUNK_ROWS - 1)

    # --- results that can't be handed over

    def _unfit(self, chunk: _Chunk) -> tuple[int, Raised] | None:
        """Return the position of the first row that has run whose result can't be handed over."""
        found: list[tuple[int, Raised]] = []
        for own, one in enumerate(chunk.prepared):
            try:
                one.check(one.checked, self._lane)
                one.checked = len(one.results)
            except NoParcel as unfit:
                place = np.flatnonzero(self._owners[chunk.start : chunk.end] == own)[unfit.at]
                found.append((chunk.start + int(place), Raised(unfit.error, one, unfit.at)))
        return min(found, key=lambda told: told[0], default=None)

    def _leave_unfit(self, unfit: tuple[int, Raised], end: int, chunk: _Chunk) -> Failure | int:
        """Undo all rows from one that raised to a position; return the next one that is to run then."""
        at, why = unfit
        left = self._judge(why)
        if isinstance(left, Failure):
            return left
        self._undo(at, end)
        self._out[at + 1 : end] = False
        for own, one in enumerate(chunk.prepared):
            one.go_back(int(np.count_nonzero(self._owners[chunk.start : at] == own)))
        chunk.left = {place: told for place, told in chunk.left.items() if place < at}
        self._leave(at, why.prepared, left, chunk)
        self._careful = True
        if self._dense:
            self._know(at + 1)
        return at + 1

    # --- running

    def _of(self, positions: Rows | slice) -> list[Rows]:
        """Return the rows of each work among those at some positions."""
        owners, rows = self._owners[positions], self._rows[positions]
        if len(self._work) == 1:
            return [rows]
        return [rows[owners == at] for at in range(len(self._work))]

    def _row_batches(self, positions: Rows | slice, *, again: bool = False) -> list[RowBatch]:
        rows = [positions] if self._as_they_are else self._of(positions)
        return [RowBatch(one, own, self._delivery, again=again) for one, own in zip(self._work, rows, strict=True)]

    def _run_fast(self, start: int, end: int, prepared: list[RowBatch]) -> tuple[int, Raised] | None:
        """Run rows; the position of the first one that raises."""
        for first, last in self._runs(self._owners[start:end]):
            one = prepared[int(self._owners[start + first])]
            before = len(one.results)
            error = self._call(one, last - first)
            if error is not None:
                return start + first + len(one.results) - before, Raised(error, one, len(one.results))
        return None

    def _runs(self, owners: Rows) -> Iterator[tuple[int, int]]:
        """Return the stretches of rows of one work."""
        if len(self._work) == 1:
            return iter([(0, len(owners))])
        ends = (np.flatnonzero(np.diff(owners)) + 1).tolist()
        return zip([0, *ends], [*ends, len(owners)], strict=True)

    def _call(self, one: RowBatch, count: int) -> BaseException | None:
        task, before = one.work.task, len(one.results)
        try:
            containers = self._containers(task)
            if not added_at_once(one, count, containers):
                columns = one.next_columns(count)
                with one.timed():
                    task.function(one.results, *containers, *columns)
        except (EpochError, KeyboardInterrupt, Passing):
            # A fault of ours, or somebody wants the end: no row's.
            raise
        except BaseException as error:  # noqa: BLE001 - whatever the user's code raises is told with its row
            return error
        assert len(one.results) == before + count, (task.name, len(one.results) - before, count)
        return None

    # --- undoing

    def _known(self) -> Memory:
        if self._memory is None:
            self._memory = Memory([self._reach(one) for one in self._work], self._owners, self._rows)
        return self._memory

    def _undo(self, first: int, last: int) -> None:
        """Undo the rows from one position to another, which ran last."""
        memory = self._known()
        found = memory.go_back(first, last)
        ran = found[~self._out[found]]
        if len(ran):
            again, owners = self._row_batches(ran, again=True), self._owners[ran]
            for start, end in self._runs(owners):
                error = self._call(again[int(owners[start])], end - start)
                assert error is None, "rows that ran before run again in the same way"
        self._out[first:last] = True
        self._again += len(found)
        # Rows of a few keys, or that may touch anything: then there is little to know, or it costs nothing.
        self._dense = not memory.apart or self._again > AGAIN_MAX * (last - memory.since)

    def _know(self, at: int) -> None:
        """Know entries as they are now, before the row at a position."""
        self._known().learn(at)
        self._again = 0

    # --- rows that are tried

    def _next_tried(self, start: int, end: int) -> int:
        if self._tried is None:
            return end
        found = np.flatnonzero(self._tried[start:end])
        return start + int(found[0]) if len(found) else end

    def _try(self, at: int, chunk: _Chunk) -> int:
        """Run what there is of one row to see what it raises, and undo it; return the position after it."""
        end = self._end_of_row(at)
        if not self._known().apart:
            self._know(at)
        raised = False
        for position in range(at, end):
            one = chunk.prepared[int(self._owners[position])]
            error = None if raised else self._call(one, 1) or self._result_error(one)
            if error is not None:
                del one.results[len(one.results) - bool(isinstance(error, UnfitError)) :]
                left = self._judge(Raised(error, one, len(one.results), tried=True))
                assert isinstance(left, Left)
                chunk.left[position] = left
                raised = True
            if raised:
                one.take(LEFT_OUT)
            else:
                one.try_only(len(one.results) - 1)
        self._undo(at, end)
        return end

    def _result_error(self, one: RowBatch) -> BaseException | None:
        """Say why the last result can't be handed over, if it can't."""
        try:
            one.check(len(one.results) - 1, self._lane)
        except NoParcel as unfit:
            return unfit.error
        return None

    def _end_of_row(self, at: int) -> int:
        """Say where what one row of the input has to do here ends: turns of its loops lie side by side."""
        end = at + 1
        if self._tried is None or not self._tried[at]:
            return end
        place = self._place(at)
        while end < len(self._owners) and self._tried[end] and self._place(end) == place:
            end += 1
        return end

    def _place(self, position: int) -> tuple[int, ...]:
        places, row = self._work[int(self._owners[position])].places, int(self._rows[position])
        columns = (places.order, places.feed, places.source, places.position, places.tie, places.duplicate)
        return tuple(int(column[row]) for column in columns)


class Memory:
    """The entries of all that some works may touch, as they were before the row at the position `since`.

    Rows are `apart` if they touch entries by their keys alone.
    """

    def __init__(self, reaches: Sequence[Reach], owners: Rows, rows: Rows) -> None:
        self._links = Links(reaches, owners, rows)
        self._whole = {id(overlay): overlay for reach in reaches for overlay in reach.whole}
        self._known: dict[int, dict[Any, bytes | None]] = {}
        self.apart = not self._whole
        self.since = 0

    def learn(self, at: int) -> None:
        """Know entries as they are now, before the row at a position."""
        for overlay, units in _by_element(self._links.needed_again(self.since, at)):
            self._known_of(overlay).update(overlay.remember(units))
        for whole in self._whole.values():
            whole.begin()
        self.since = at

    def go_back(self, first: int, last: int) -> Rows:
        """Undo the rows from `first` to `last`, which ran last: return those since the known point that must run again.

        Whatever these touch is as it was then.
        """
        if self.apart:
            entries, rows = self._links.joined(self.since, first, last)
        else:
            entries, rows = self._links.touched(self.since, last), list(range(self.since, first))
        for overlay, units in _by_element(entries):
            known = self._known_of(overlay)
            overlay.restore({unit: known[unit] for unit in units})
        for whole in self._whole.values():
            whole.undo()
        return np.array(rows, dtype=np.intp)

    def _known_of(self, overlay: KeyedOverlay) -> dict[Any, bytes | None]:
        known = self._known.get(id(overlay))
        if known is None:
            known = self._known[id(overlay)] = overlay.committed()
        return known


def _by_element(entries: Iterable[Entry]) -> Iterable[tuple[KeyedOverlay, list[Any]]]:
    found: dict[int, tuple[KeyedOverlay, list[Any]]] = {}
    for overlay, unit in entries:
        found.setdefault(id(overlay), (overlay, []))[1].append(unit)
    return found.values()


ROWS_MIN: Final = 64
"""So many more rows than keys there must be: others are added as fast one by one."""


def added_at_once(prepared: RowBatch, count: int, containers: Sequence[Any]) -> bool:
    """Add the next rows to windows, if all they do is that, and it can't be seen that they did it together.

    If not, nothing is changed: they run one by one, which also tells what is wrong with one of them.
    """
    work = prepared.work
    adds = work.task.adds
    if adds is None or count <= ROWS_MIN:
        return False
    found = {one.column: numbers_of(work.variables[one.input], one.part) for one in adds.values}
    rows = prepared.next_rows(count)
    columns = {column: values[rows] for column, values in found.items() if values is not None}
    if len(columns) < len(found):
        return False
    (windows,) = containers
    distinct, codes = work.coded_keys()
    here, places = np.unique(codes[rows], return_inverse=True)
    if count < ROWS_MIN + len(here):
        return False
    keys = distinct[here].tolist() if isinstance(distinct, np.ndarray) else [distinct[code] for code in here.tolist()]
    if work.times is None:
        times = np.full(count, windows.clock(), np.int64)
    else:
        told = added_from_us(windows.place)
        times = work.times[rows] if told is None else np.maximum(work.times[rows], told)
    if not windows.add_columns(keys, places, times, columns):
        return False
    prepared.ran([None] * count)
    return True
