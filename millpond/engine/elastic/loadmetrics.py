"""What epochs cost, by key group and task element: counted by tasks, told in control rows, put together here.

Counts follow from the rows alone, so they may cross a shuffle. Times may not: a task of an earlier step notes its time
in the store of its partition, and the task of the last step tells all of them.

Heavy hitters: the keys that most rows go to, in a fixed number of counters.

Space-Saving with weights: a key without a counter takes over the smallest one, and what that had counted is noted as
the error of the new count. So a key's count is never too low, and too high by at most its error. The same additions in
the same order give the same counters: of equal ones, the key that sorts last goes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.engine.elastic.observed import Floats, HotKey, Observed, TaskLoad
from millpond.engine.gathered.keysets import TouchedKeys, store_keys
from millpond.engine.gathered.partitionedview import groups_of
from millpond.engine.messages import Control, Load
from millpond.engine.plan import ProgramPlan
from millpond.engine.task.intake import Work
from millpond.graph.model import Dispatch
from millpond.ids import InstanceId, PartitionId
from millpond.keygroups import Layout

HOT_SHARE = 1 / 16
"""A key with this share of a task's rows is told; so there are at most as many as that divides one."""

HOT_ROWS_MIN = 64
"""Of fewer rows, any key has a large share."""

KEY_CHARS_MAX = 80
"""So much of a hot key is told."""

HOT_FADE = 0.7
"""What an epoch counts less with every epoch that follows, where keys are hot over time."""

Ints = npt.NDArray[np.int64]


def keyed_load(task: str, units: Sequence[Any] | Ints, groups: Ints, codes: Ints) -> Load:
    """Return the rows of a task by key group, from the distinct keys and which of them each row has."""
    counts = np.bincount(codes, minlength=len(units))
    enough = max(HOT_ROWS_MIN, HOT_SHARE * len(codes))
    hot = [(_text(units[at]), int(counts[at])) for at in np.flatnonzero(counts >= enough).tolist()]
    # The order of keys is that in which rows arrived, which another attempt may do otherwise.
    return _load(task, groups, counts, tuple(sorted(hot, key=lambda one: (-one[1], one[0]))))


def gathered_load(plan: ProgramPlan, task: str, found: TouchedKeys) -> Load:
    """Return the keys of an element that gathered rows of a task touch, by key group: a row counts for each of them."""
    groups = groups_of(pa.array(store_keys(plan, found), pa.binary()))
    if plan.program.elements[found.element].type.single:
        # Everybody meets the only key: no program is the wiser for hearing that it is hot.
        return _load(task, groups[found.codes])
    return keyed_load(task, found.units, groups, found.codes)


def _text(unit: Any) -> str:
    return repr(unit.item() if isinstance(unit, np.generic) else unit)[:KEY_CHARS_MAX]


def work_load(work: Work, layout: Layout, partition: PartitionId) -> Load:
    """Return the rows of a task without keys; one that is for all instances counts for each that is here."""
    if work.task.dispatch is Dispatch.ONE_TO_ALL:
        homes = [layout.home_of(InstanceId(number)) for number in layout.instances_of(partition)]
        return _load(work.task.name, np.array(homes, dtype=np.int64), np.full(len(homes), len(work)))
    groups = np.zeros(len(work), dtype=np.int64) if work.groups is None else work.groups
    return _load(work.task.name, groups)


def _load(
    task: str,
    groups: Ints | npt.NDArray[np.int32],
    counts: Ints | None = None,
    hot: tuple[tuple[str, int], ...] = (),
) -> Load:
    """Rows of some key groups: so many for each, or one."""
    rows = np.bincount(groups, weights=counts)
    met = np.flatnonzero(rows)
    return Load(task, met.astype("<u2").tobytes(), rows[met].astype("<u4").tobytes(), hot)


@dataclass(slots=True)
class _Sums:
    """What one task element had to do, while it is put together."""

    rows: Ints
    seconds: Floats
    worked: Ints
    group_seconds: Floats
    group_bytes: Floats

    @classmethod
    def of(cls, layout: Layout) -> _Sums:
        groups, partitions = layout.key_groups, layout.partitions
        rows, worked = np.zeros(groups, np.int64), np.zeros(partitions, np.int64)
        return cls(rows, np.zeros(partitions), worked, np.zeros(groups), np.zeros(groups))

    def add(self, partition: int, groups: npt.NDArray[np.uint16], counts: Ints, row_s: float, row_bytes: float) -> None:
        total = int(counts.sum())
        self.rows[groups] += counts
        self.seconds[partition] += total * row_s
        self.worked[partition] += total
        self.group_seconds[groups] += counts * row_s
        self.group_bytes[groups] += counts * row_bytes


def task_loads(layout: Layout, controls: Sequence[Control], free: Collection[str] = ()) -> tuple[TaskLoad, ...]:
    """Return what each task element had to do, over all partitions; some are `free` to run anywhere."""
    sums: dict[str, _Sums] = defaultdict(lambda: _Sums.of(layout))
    times = _times(controls)
    for control in controls:
        counted = [(load, np.frombuffer(load.rows, dtype="<u4").astype(np.int64)) for load in control.loads]
        total = sum(int(counts.sum()) for _, counts in counted) or 1
        row_s, row_bytes = times.get((control.partition, control.step), 0.0) / total, control.size_bytes / total
        for load, counts in counted:
            groups = np.frombuffer(load.groups, dtype="<u2")
            sums[load.task].add(control.partition, groups, counts, row_s, row_bytes)
    return tuple(
        TaskLoad(
            task,
            tuple(found.rows.tolist()),
            tuple(found.seconds.tolist()),
            round(float(found.group_bytes.sum())),
            tuple(found.worked.tolist()),
            task in free,
            tuple(found.group_seconds.tolist()),
            tuple(found.group_bytes.tolist()),
        )
        for task, found in sorted(sums.items())
    )


def _rows(load: Load) -> int:
    return int(np.frombuffer(load.rows, dtype="<u4").sum(dtype=np.int64))


def _times(controls: Sequence[Control]) -> dict[tuple[int, int], float]:
    """Say how long the task of each partition and step was at work, as far as that is known."""
    return {(control.partition, step): took for control in controls for step, took in control.busy.items()}


def observed(
    epoch: int,
    layout: Layout,
    controls: Sequence[Control],
    interval_s: float,
    hot_keys: tuple[HotKey, ...] = (),
    free: Collection[str] = (),
    epoch_s: float = 0.0,
    fed_rows: int = 0,
    queued_rows: int | None = None,
) -> Observed:
    """Return an epoch as policies see it; some tasks are `free` to run anywhere."""
    seconds, places = [0.0] * layout.partitions, [""] * layout.partitions
    for (partition, _), took in _times(controls).items():
        seconds[partition] += took
    for control in controls:
        places[control.partition] = control.seen.where or places[control.partition]
    return Observed(
        epoch=epoch,
        owners=tuple(layout.owners()),
        partitions=layout.partitions,
        atoms=layout.atoms,
        tasks=task_loads(layout, controls, free),
        seconds=tuple(seconds),
        interval_s=interval_s,
        places=tuple(places),
        carriers=layout.spread or (),
        hot_keys=hot_keys,
        epoch_s=epoch_s,
        fed_rows=fed_rows,
        queued_rows=queued_rows,
    )


class HotKeys:
    """The keys that many rows of late were for, by task element."""

    def __init__(self) -> None:
        self._sketches: dict[str, Sketch] = {}

    def add(self, controls: Sequence[Control]) -> tuple[HotKey, ...]:
        """Take what the tasks of an epoch told, and return what is hot now, the hottest first."""
        for task, sketch in list(self._sketches.items()):
            sketch.fade(HOT_FADE)
            if sketch.total < HOT_ROWS_MIN:
                # Counts and their sum fade alike, so shares would stay as they were for ever.
                del self._sketches[task]
        for load in (load for control in controls for load in control.loads):
            sketch = self._sketches.setdefault(load.task, Sketch())
            for key, rows in load.hot:
                sketch.add(key, rows)
            named = sum(rows for _, rows in load.hot)
            sketch.add_others(float(_rows(load) - named))
        found = [
            HotKey(task, key, share)
            for task, sketch in self._sketches.items()
            for key, share in sketch.heaviest(HOT_SHARE)
        ]
        return tuple(sorted(found, key=lambda hot: (-hot.share, hot.task, hot.key)))


COUNTERS = 64


@dataclass(slots=True)
class _Count:
    rows: float
    error: float


@dataclass(slots=True)
class Sketch:
    """Counts of keys, of which the heaviest are right within their errors; `total` is of all rows."""

    counters: int = COUNTERS
    total: float = 0.0
    _counts: dict[str, _Count] = field(default_factory=dict)

    def add(self, key: str, rows: float) -> None:
        """Count rows of a key."""
        self.total += rows
        held = self._counts.get(key)
        if held is not None:
            held.rows += rows
        elif len(self._counts) < self.counters:
            self._counts[key] = _Count(rows, 0.0)
        else:
            lightest = max(self._counts, key=lambda one: (-self._counts[one].rows, one))
            least = self._counts.pop(lightest).rows
            self._counts[key] = _Count(least + rows, least)

    def add_others(self, rows: float) -> None:
        """Count rows of keys that nobody names."""
        self.total += rows

    def fade(self, factor: float) -> None:
        """Let what was counted so far weigh less than what comes."""
        self.total *= factor
        for held in self._counts.values():
            held.rows *= factor
            held.error *= factor

    def heaviest(self, share: float) -> list[tuple[str, float]]:
        """Keys that surely have at least this share of all rows, and their share, the heaviest first."""
        sure = ((key, (held.rows - held.error) / self.total) for key, held in self._counts.items() if self.total)
        return sorted(((key, part) for key, part in sure if part >= share), key=lambda one: (-one[1], one[0]))

    @classmethod
    def of(cls, keys: Iterable[tuple[str, float]], counters: int = COUNTERS) -> Sketch:
        """Return the sketch of some additions."""
        sketch = cls(counters)
        for key, rows in keys:
            sketch.add(key, rows)
        return sketch
