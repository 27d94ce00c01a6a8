"""Placement: partitions stay on the executor that has their state, as long as it lives and is not overloaded.

Spark runs a task where a cached partition lies that it reads. So there is an anchor, a small cached table with one row
for each partition, and the rows of every step are cogrouped with it. It comes first, since Spark looks at the first
table that lies somewhere. Which row of the anchor stands for which partition is ours to say: when an anchor is built
anew, because executors came or went, partitions keep their executor where that is possible, and only the others move.
If an executor has far more to do than others, partitions change rows, and the anchor stays.

Nothing depends on it but time: a partition that runs elsewhere restores its state there.

Rows say what a partition has to do wherever it is; the seconds that it takes also depend on the executor. So partitions
change places by their rows, and only if seconds say the same of the executor: one that is slow has few rows on purpose,
or has as many as others and would keep them.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from millpond.engine.elastic.observed import Floats, Observed
from millpond.engine.elastic.speeds import usual_rows
from millpond.engine.messages import Control
from millpond.ids import PartitionId
from millpond.spark.exchange.collecting import running
from millpond.spark.exchange.worker import PartitionFunction
from millpond.spark.interpreter import check_interpreter
from millpond.spark.placement.executor import ON_EXECUTOR
from millpond.spark.placement.forgetting import forget_stores, spread_tasks, telling
from millpond.spark.streaming.connect import over_connect

SLOT = "millpond_slot"
"""The column that rows are cogrouped by: a number that Spark's own hash takes to the wanted place."""

LOOK_EPOCHS_MAX = 32
"""How many epochs go by between two looks for new executors when nothing happens; a look is a small job."""

BUILDS_MAX = 3
"""How often an anchor is built in the hope that Spark deals it out evenly."""

BUSY_SUMS = 50_000
"""What a task of an anchor adds up for the same reason."""

CLOSE_SECONDS_MAX = 10
"""How long a start waits for what is left to do for the query before it."""

_SLOTS_LOOKED_AT = 64
"""Numbers per place among which one is found that belongs there: all places are met with certainty, near enough."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A cached table with a row per partition: the slot of each partition, and the executor that its row lies on."""

    frame: DataFrame
    slots: tuple[int, ...]
    places: tuple[str, ...]

    def taking(self, chosen: Sequence[int]) -> Anchor:
        """Return the same table with other rows for partitions: for each the number of the one whose row it takes."""
        return Anchor(self.frame, tuple(self.slots[at] for at in chosen), tuple(self.places[at] for at in chosen))

    def run(self, rows: DataFrame, function: PartitionFunction, ddl: str) -> DataFrame:
        """Bring rows to the partition that their `part` names, and run a function on each, where its row lies."""
        slot = f"array({', '.join(map(str, self.slots))})[part]"
        placed = rows.selectExpr(f"{slot} {SLOT}", "*").repartition(len(self.slots), F.col(SLOT))
        anchored = self.frame.select(SLOT).groupBy(SLOT).cogroup(placed.groupBy(SLOT))
        return anchored.applyInArrow(_at_slot(function, self.slots), ddl)


class Anchors:
    """The anchor of a job, which is built anew when executors come or go, or have too many partitions."""

    def __init__(self, spark: SparkSession, local_root: str, *, holding: bool) -> None:
        self._spark = spark
        self._holding = holding
        self._local_root = local_root
        self._anchor: Anchor | None = None
        self._partitions = 0
        self._places: dict[int, str] = {}
        self._loads = PartitionLoads()
        self._look_in = 0
        self._gap = 1
        self._closing: threading.Thread | None = None

    def prepare(self, partitions: int, *, last: bool = False) -> Anchor | None:
        """Return the anchor for the next epoch; None if none is wanted, or all partitions are on one executor anyway.

        Nor is one built for the `last` epoch, since no other one gains by it.
        """
        if not self._holding or last:
            self._partitions = partitions
            return None
        if partitions != self._partitions:
            self._partitions = partitions
            # Those that stay keep their executor if they can: it has their state.
            self._places = {number: place for number, place in self._places.items() if number < partitions}
            self._drop()
            self._look_in = 0
        if self._look_in <= 0:
            self._look()
            self._look_in = self._gap
            self._gap = min(2 * self._gap, LOOK_EPOCHS_MAX)
        self._look_in -= 1
        return self._anchor

    def note(self, controls: Iterable[Control], seen: Observed | None = None) -> None:
        """Learn from an epoch where its partitions ran; if some have moved, look soon whether executors changed.

        What was `seen` of its cost may be a reason to give partitions another executor, at a later look.
        """
        if seen is not None:
            self._loads.learn(seen)
        places = {control.partition: control.seen.where for control in controls if control.seen.where}
        if any(self._places.get(partition, place) != place for partition, place in places.items()):
            self._look_in, self._gap = 0, 1
        self._places |= places

    def forget_loads(self) -> None:
        """Begin anew with what partitions have to do, since they own other key groups."""
        self._loads = PartitionLoads()

    def close(self) -> None:
        """Let go of the anchor, and remove the job's stores from the executors."""
        # Whatever is in the way, a session that ends or an executor that dies: Spark removes the stores then itself.
        with suppress(Exception):
            forget_stores(self._spark, self._local_root, 2 * self._partitions)
            self._drop()
        self._anchor, self._partitions = None, 0

    def close_after(self, ended: Callable[[], object]) -> None:
        """Close when something has ended, in a thread that waits for it."""
        if not self._local_root.startswith(ON_EXECUTOR):
            return

        def wait() -> None:
            with suppress(Exception):
                ended()
            self.close()

        self._closing = threading.Thread(target=wait, name="millpond-closing", daemon=True)
        self._closing.start()

    def wait_closed(self) -> None:
        """Wait a while for what `close_after` does, if that is under way."""
        if self._closing is not None:
            self._closing.join(CLOSE_SECONDS_MAX)
            self._closing = None

    def _drop(self) -> None:
        if self._anchor is not None:
            self._anchor.frame.unpersist()
            self._anchor = None

    def _look(self) -> None:
        executors = self._executors()
        if len(executors) < 2:
            self._drop()
            return
        loads = self._loads.of_late(self._partitions)
        anchor = self._anchor
        if anchor is None or uneven(self._places.values(), executors):
            slots = self._slots()
            frame, lies = self._build_even(slots, executors)
            built = Anchor(frame, tuple(slots), tuple(lies[slot] for slot in slots))
            wanted = [self._places.get(number, "") for number in range(self._partitions)]
            anchor = built.taking(keep_places(wanted, built.places, loads.rows if loads else [1.0] * len(wanted)))
            self._drop()
        if loads:
            anchor = anchor.taking(relieved(anchor.places, loads))
        if anchor != self._anchor:
            self._anchor = anchor
            self._places = dict(enumerate(anchor.places))

    def _executors(self) -> set[str]:
        """Return the executors that tasks are given to now."""
        frame = spread_tasks(self._spark, 2 * self._partitions)
        return {row.place for row in running(frame.collect)}

    def _slots(self) -> list[int]:
        """For each place of a table in so many parts, a number that Spark takes there."""
        count = self._partitions
        frame = self._spark.range(0, _SLOTS_LOOKED_AT * count, 1, 1).selectExpr("int(id) slot")
        found = frame.groupBy(F.expr(f"pmod(hash(slot), {count})").alias("at")).agg(F.min("slot").alias("slot"))
        by_place = {row.at: row.slot for row in running(found.collect)}
        return [by_place[at] for at in range(count)]

    def _build_even(self, slots: Sequence[int], executors: set[str]) -> tuple[DataFrame, dict[int, str]]:
        """Build an anchor until Spark has dealt it out evenly, a few times at most; the best one stays."""
        built: list[tuple[DataFrame, dict[int, str]]] = []
        while len(built) < BUILDS_MAX and not (built and not uneven(built[-1][1].values(), executors)):
            built.append(self._build(slots, BUSY_SUMS * 4 ** len(built)))
        best = min(built, key=lambda one: _spread(one[1].values(), executors))
        for one in built:
            if one is not best:
                one[0].unpersist()
        return best

    def _build(self, slots: Sequence[int], busy_sums: int) -> tuple[DataFrame, dict[int, str]]:
        count = len(slots)
        slot = f"array({', '.join(map(str, slots))})[int(id)]"
        # Spark takes two equal plans for one, also when it drops what is cached of them.
        numbers = self._spark.range(0, count, 1, count).selectExpr(f"{slot} {SLOT}", f"'{uuid.uuid4().hex}' token")
        # In SQL, since Spark forgets behind a Python function how a table is divided, and would divide it anew.
        busy = F.expr(f"aggregate(sequence(0, {busy_sums} + {SLOT} * 0), 0L, (sum, x) -> sum + x)")
        frame = numbers.repartition(count, F.col(SLOT)).withColumn("busy", busy).cache()
        running(frame.count)
        told = frame.select(SLOT, telling(0.0)(F.col(SLOT)).alias("place"))
        return frame, {row[0]: row[1] for row in running(told.collect)}


def uneven(places: Iterable[str], executors: Iterable[str]) -> bool:
    """Say whether one executor has at least two partitions more than another one."""
    return _spread(places, executors) > 1


def _spread(places: Iterable[str], executors: Iterable[str]) -> int:
    counts = Counter(places)
    numbers = [counts[executor] for executor in {*counts, *executors}]
    return max(numbers, default=0) - min(numbers, default=0)


def _at_slot(function: PartitionFunction, slots: tuple[int, ...]) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """Return a partition's function, for Spark's cogroup of its row of the anchor with its rows."""

    def run(anchor: pa.Table, rows: pa.Table) -> pa.Table:
        assert anchor.num_rows == 1, "each slot has its row in the anchor, and rows have no other slots"
        partition = PartitionId(slots.index(anchor.column(SLOT)[0].as_py()))
        return pa.Table.from_batches(list(function(partition, rows.drop_columns([SLOT]).to_batches())))

    return run


def one_host(spark: SparkSession) -> bool:
    """Say whether all workers of a session run on the host of its driver.

    Where a client of Connect is, nobody knows.
    """
    if over_connect(spark):
        return False
    master = spark.conf.get("spark.master", "") or ""
    return master == "local" or master.startswith("local[")


def checked_host(spark: SparkSession) -> bool:
    """Like `one_host`, once it is known that workers on this host can import Millpond (MP703)."""
    here = one_host(spark)
    if here:
        check_interpreter(spark)
    return here


def parallelism(spark: SparkSession) -> int:
    """Say how many partitions a session asks for.

    Partitions near the number of cores are best, and the session's own setting is the public word for that.
    """
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 2)


REPORTS = 3
"""The median of so many epochs is what partitions have to do: one that is out of line does not change it."""

IGNORED_S = 0.05
"""Epochs whose longest task is shorter than this are not looked at."""

UNEVEN = 1.4
"""Partitions change places if an executor has so many times as much to do as others, on average."""

WORTH = 0.9
"""And if the highest load of an executor becomes this much of what it was, or less."""

STEP = 0.05
"""A change of places takes this much of the mean load from the executor: for less, no state moves."""


class Loads(NamedTuple):
    """What partitions have to do, of late: rows, and seconds where they are."""

    rows: Sequence[float]
    seconds: Sequence[float]


@dataclass(slots=True)
class PartitionLoads:
    """Learns from epochs what partitions have to do, as long as their key groups stay the same."""

    _recent: deque[tuple[Floats, Floats]] = field(default_factory=lambda: deque(maxlen=REPORTS))

    def learn(self, seen: Observed) -> None:
        """Take an epoch."""
        if max(seen.seconds, default=0.0) >= IGNORED_S:
            self._recent.append((usual_rows(seen), np.array(seen.seconds)))

    def of_late(self, partitions: int) -> Loads | None:
        """Return what so many partitions have to do; None if too few epochs have shown it."""
        if len(self._recent) < REPORTS or any(len(rows) != partitions for rows, _ in self._recent):
            return None
        rows, seconds = np.median(np.array(self._recent), axis=0).tolist()
        return Loads(rows, seconds)


def keep_places(wanted: Sequence[str], offered: Sequence[str], rows: Sequence[float]) -> list[int]:
    """For each partition one of the places that are offered, on the executor that it wants wherever there is one left.

    The others are dealt out, those with the most rows first, each to the executor that has the fewest then.
    """
    assert len(wanted) == len(offered), (len(wanted), len(offered))
    free: dict[str, list[int]] = {}
    for at, place in enumerate(offered):
        free.setdefault(place, []).append(at)
    chosen: dict[int, int] = {}
    held: dict[str, float] = defaultdict(float)
    for number, place in enumerate(wanted):
        if free.get(place):
            chosen[number] = free[place].pop(0)
            held[place] += rows[number]
    for number in sorted(set(range(len(wanted))) - set(chosen), key=lambda number: (-rows[number], number)):
        place = min((place for place, left in free.items() if left), key=lambda place: (held[place], place))
        chosen[number] = free[place].pop(0)
        held[place] += rows[number]
    return [chosen[number] for number in range(len(wanted))]


def relieved(places: Sequence[str], loads: Loads) -> list[int]:
    """For each partition the one whose place it takes: its own, unless an executor has far too much to do.

    Two partitions change places at a time, so every executor has as many as before.
    """
    stay = list(range(len(places)))
    before = _held(places, loads.rows)
    fullest = max(before, key=lambda place: (before[place], place))
    if min(_share(before, fullest), _share(_held(places, loads.seconds), fullest)) <= UNEVEN:
        return stay
    now, order = list(places), list(stay)
    while (swap := _swap(now, loads.rows)) is not None:
        one, other = swap
        now[one], now[other] = now[other], now[one]
        order[one], order[other] = order[other], order[one]
    return order if max(_held(now, loads.rows).values()) <= WORTH * before[fullest] else stay


def _held(places: Sequence[str], loads: Sequence[float]) -> Mapping[str, float]:
    held: dict[str, float] = defaultdict(float)
    for place, load in zip(places, loads, strict=True):
        held[place] += load
    return held


def _share(held: Mapping[str, float], place: str) -> float:
    total = sum(held.values())
    return held[place] * len(held) / total if total else 1.0


def _swap(places: Sequence[str], rows: Sequence[float]) -> tuple[int, int] | None:
    """Find a partition of the fullest executor and one of another whose exchange makes these two the most even."""
    held = _held(places, rows)
    donor = max(held, key=lambda place: (held[place], place))
    step = STEP * sum(held.values()) / len(held)
    for receiver in sorted(held, key=lambda place: (held[place], place)):
        gap = held[donor] - held[receiver]
        pairs = [
            (abs(gap - 2 * (rows[one] - rows[other])), one, other)
            for one in range(len(places))
            for other in range(len(places))
            if places[one] == donor and places[other] == receiver and step < rows[one] - rows[other] < gap - step
        ]
        if pairs:
            return min(pairs)[1:]
    return None
