"""An epoch as one Spark job: route, then one exchange and one pass over local state per step, and a single action.

Rows over several keys are gathered: a first look at their keys says where their components run.

Of batches on their way to Python workers, Spark need not measure what can't grow large. It sums up the buffers of a
batch after each row to keep it under a limit of bytes: a third of what the JVM does in an epoch of small rows. Rows
whose widths are fixed reach their limit of rows first, so for them the other is lifted.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from millpond.engine.compute import Reported
from millpond.engine.gathered.gatheredplacement import Placement, decode_survey, place_surveyed, survey
from millpond.engine.gathered.keysets import survey_parameters
from millpond.engine.messages import Control, decode_control
from millpond.engine.plan import EpochPlan, ProgramPlan
from millpond.engine.sequence.portions import place_columns
from millpond.engine.task.intake import feed_column
from millpond.engine.time.laterows import TIME
from millpond.errors import EpochError
from millpond.program.semantics.epoch_time import epoch_time
from millpond.spark.exchange.collecting import collect, running
from millpond.spark.exchange.route import Shape, exchange, place
from millpond.spark.exchange.worker import (
    CONTROL_DDL,
    MESSAGE_DDL,
    by_task,
    epoch_function,
    place_function,
    sequence_function,
    step_function,
    survey_function,
)
from millpond.spark.placement.placement import Anchor
from millpond.spark.ship import Shipment, pack


@dataclass(frozen=True, slots=True)
class Packed:
    """A plan, what is shipped of it to workers, and what its rows carry."""

    plan: ProgramPlan
    shipment: Shipment
    shape: Shape

    @classmethod
    def of(cls, plan: ProgramPlan, shape: Shape) -> Packed:
        """Pack a plan."""
        return cls(plan, pack(plan, plan.program.made_of), shape)


_SHIPMENTS_MAX = 4
_shipments: list[tuple[ProgramPlan, Shipment]] = []


def _packed(plan: ProgramPlan) -> Shipment:
    """Return the shipment of a plan that is not the one of all epochs; those of the last few are remembered."""
    known = next((shipment for other, shipment in _shipments if other is plan), None)
    if known is None:
        known = pack(plan, plan.program.made_of)
        _shipments.append((plan, known))
        del _shipments[:-_SHIPMENTS_MAX]
    return known


@dataclass(frozen=True, slots=True)
class EpochJob:
    """The routed rows of an epoch, on their way to where they run, as often as the epoch is run.

    An epoch of at most `one_task_rows` runs in one task, without any shuffle; on one host so does any whose rows all
    run in one partition. With an `anchor`, partitions run where it holds them.
    """

    rows: DataFrame
    packed: Packed
    one_task_rows: int
    one_host: bool
    anchor: Anchor | None
    placements: dict[int, Placement] = field(default_factory=dict)
    """Where gathered rows go, by plan: that is found out once for each."""

    def run(self, plan: ProgramPlan, epoch: EpochPlan) -> Reported:
        """Run the epoch by a plan: its own, or one that leaves something out."""
        packed = self.packed
        shipment = packed.shipment if plan is packed.plan else _packed(plan)
        if plan.in_sequence and self.one_host:
            controls = self._in_sequence(plan, shipment, epoch)
        else:
            controls = self._in_one_task(plan, shipment, epoch, self.one_task_rows) if self.one_task_rows else []
        if not controls:
            controls = self._in_steps(plan, shipment, epoch)
        # Adaptive execution drops the steps of an epoch without rows: then there is nothing to report.
        if not controls and not self.rows.isEmpty():
            raise EpochError(
                "MP433",
                "no task of the epoch reported, though it has rows",
                expected=f"{plan.layout.partitions} reports per step",
                found="none",
                hint="nothing was committed; please report it with the settings of the Spark session",
            )
        found = self.placements.get(id(plan))
        return Reported(controls, {} if found is None else found.counters())

    def _in_one_task(
        self,
        plan: ProgramPlan,
        shipment: Shipment,
        epoch: EpochPlan,
        rows_max: float,
        placement: Placement | None = None,
    ) -> list[Control]:
        """Run all partitions and steps in one task, if there are no more rows than that."""
        whole = epoch_function(shipment, epoch, rows_max, placement)
        rows = place(self.rows, plan, self.packed.shape)
        controls = rows.coalesce(1).mapInArrow(whole, CONTROL_DDL)
        if rows_max < math.inf:
            # Asking for what Spark's limits are takes longer than measuring a few rows.
            return _controls(controls)
        with unmeasured(rows):
            return _controls(controls)

    def _in_sequence(self, plan: ProgramPlan, shipment: Shipment, epoch: EpochPlan) -> list[Control]:
        """Run all rows in one task, in which they come in order: as a file has them, or as Spark sorts them."""
        rows = place(self.rows, plan, self.packed.shape).coalesce(1)
        columns = place_columns(rows.columns)
        # Rows of one file mostly come as they stand in it, which the task looks at.
        for sorts in (False, True) if set(columns) <= {"pos"} else (True,):
            ordered = rows.sortWithinPartitions(*(F.col(name).asc_nulls_first() for name in columns)) if sorts else rows
            with unmeasured(ordered):
                controls = _controls(ordered.mapInArrow(sequence_function(shipment, epoch), CONTROL_DDL))
            if controls or not columns:
                return controls
        return []

    def _in_steps(self, plan: ProgramPlan, shipment: Shipment, epoch: EpochPlan) -> list[Control]:
        """Run each step by an exchange."""
        if plan.gathered_feeds:
            return self._gathered(plan, shipment, epoch)
        if self.anchor is not None:
            return _anchored_steps(place(self.rows, plan, self.packed.shape), plan, shipment, epoch, self.anchor)
        return _all_steps(exchange(self.rows, plan, self.packed.shape), plan, shipment, epoch)

    def _gathered(self, plan: ProgramPlan, shipment: Shipment, epoch: EpochPlan) -> list[Control]:
        now_us, floor_us = epoch.now_us, epoch.watermark.floor_us
        placement = self.placements.get(id(plan))
        if placement is None:
            placement = self.placements[id(plan)] = find_placement(self.rows, plan, shipment, now_us, floor_us)
        if self.one_host and placement.one is not None and len(plan.gathered_feeds) == len(plan.feeds):
            return self._in_one_task(plan, shipment, epoch, math.inf, placement)
        rows = place_gathered(self.rows, plan, self.packed.shape, shipment, placement, now_us, floor_us)
        return _by_part(rows, plan, shipment, epoch, self.anchor)


def run_messages(
    left: DataFrame, packed: Packed, epoch: EpochPlan, one_task_rows: int, anchor: Anchor | None
) -> Reported:
    """Run the steps of an epoch over the messages that the one before left; few of them in one task."""
    if not one_task_rows:
        return Reported(_by_part(left, packed.plan, packed.shipment, epoch, anchor), {})
    whole = epoch_function(packed.shipment, epoch, one_task_rows)
    return Reported(_controls(left.coalesce(1).mapInArrow(whole, CONTROL_DDL)), {})


def _by_part(
    rows: DataFrame, plan: ProgramPlan, shipment: Shipment, epoch: EpochPlan, anchor: Anchor | None
) -> list[Control]:
    """Return the steps of an epoch over rows that say by `part` which partition they are for."""
    if anchor is not None:
        return _anchored_steps(rows, plan, shipment, epoch, anchor)
    return _all_steps(rows.repartitionById(plan.layout.partitions, F.col("part")), plan, shipment, epoch)


def _all_steps(rows: DataFrame, plan: ProgramPlan, shipment: Shipment, epoch: EpochPlan) -> list[Control]:
    """Return the steps of an epoch, one exchange and one pass over local state each, as one job."""
    told = rows.mapInArrow(by_task(step_function(shipment, epoch, 0)), MESSAGE_DDL)
    for step in range(1, plan.steps):
        here = told.repartitionById(plan.layout.partitions, F.col("part"))
        told = here.mapInArrow(by_task(step_function(shipment, epoch, step)), MESSAGE_DDL)
    controls = told.select("body")
    if plan.steps > 1:
        # What steps send each other can be of any size.
        return _controls(controls)
    with unmeasured(rows):
        return _controls(controls)


def _anchored_steps(
    rows: DataFrame, plan: ProgramPlan, shipment: Shipment, epoch: EpochPlan, anchor: Anchor
) -> list[Control]:
    """Return the steps of an epoch, each partition on the executor where the anchor holds it."""
    told = rows
    for step in range(plan.steps):
        told = anchor.run(told, step_function(shipment, epoch, step), MESSAGE_DDL)
    return _controls(told.select("body"))


def _controls(rows: DataFrame) -> list[Control]:
    """Run the job: its one action collects what the tasks of the last step tell."""
    return [decode_control(bytes(row.body)) for row in collect(rows)]


SAMPLE_ROWS = 100_000
"""So many rows tell in a moment whether there is one component that holds most of them: with random keys there is one
as soon as there are about as many rows as keys. Twice as many took twice as long, a tenth of an epoch of a million."""


def find_placement(frame: DataFrame, plan: ProgramPlan, shipment: Shipment, now_us: int, floor_us: int) -> Placement:
    """Choose a partition for every component of an epoch's rows, by a job that reads what their keys follow from.

    A few rows are looked at first. If they hang together, so do all, since more rows only join components. No row with
    an event time goes by a time before `floor_us`.
    """
    if plan.layout.partitions == 1:
        return place_surveyed(plan, [])
    columns = _key_columns(frame, plan)
    sample = running(columns.limit(SAMPLE_ROWS).toArrow)
    with epoch_time(now_us):
        sampled = place_surveyed(plan, [survey(plan, sample, floor_us)])
    if sampled.one is not None or sample.num_rows < SAMPLE_ROWS:
        return sampled
    with unmeasured(columns):
        surveys = collect(columns.mapInArrow(survey_function(shipment, now_us, floor_us), CONTROL_DDL))
    return place_surveyed(plan, [decode_survey(bytes(row.body)) for row in surveys])


def place_gathered(
    frame: DataFrame,
    plan: ProgramPlan,
    shape: Shape,
    shipment: Shipment,
    placement: Placement,
    now_us: int,
    floor_us: int,
) -> DataFrame:
    """Write into each row which partition it is for, by its component if it is gathered."""
    gathered = plan.gathered_feeds
    if placement.one is not None and len(gathered) == len(plan.feeds):
        return frame.withColumn("part", F.lit(int(placement.one)))
    rows = place(frame, plan, shape)
    if placement.one is None:
        rows = rows.mapInArrow(place_function(shipment, placement, now_us, floor_us), rows.schema)
    else:
        part = F.when(F.col("feed").isin(gathered), F.lit(int(placement.one))).otherwise(F.col("part"))
        rows = rows.withColumn("part", part)
    return rows


def _key_columns(frame: DataFrame, plan: ProgramPlan) -> DataFrame:
    gathered = plan.gathered_feeds
    names = [feed_column(feed, name) for feed in gathered for name in survey_parameters(plan.entry_of(feed).tasks[0])]
    names += [TIME] if TIME in frame.columns else []
    if "feed" not in frame.columns:
        # Rows of an entry point without any parameter are only counted.
        return frame.select(*names) if names else frame
    return frame.filter(F.col("feed").isin(gathered)).select("feed", *names)


_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_UNMEASURED = str(2**31 - 1)
"""The limit for which Spark does not measure."""

_WIDTHS: dict[type[T.DataType], int] = {
    T.BooleanType: 1,
    T.ByteType: 1,
    T.ShortType: 2,
    T.IntegerType: 4,
    T.FloatType: 4,
    T.DateType: 4,
    T.LongType: 8,
    T.DoubleType: 8,
    T.TimestampType: 8,
    T.TimestampNTZType: 8,
    T.DecimalType: 16,
}
_SOURCE = "src"
_SOURCE_WIDTH = 256
"""Names of source files come without what they have in common, and no user chooses them row by row."""

_VALIDITY = 1


@dataclass(slots=True)
class _Lifted:
    """A session whose limit is lifted, by how many jobs, and what it was before."""

    session: SparkSession
    before: str
    jobs: int = 0


_lifted: dict[int, _Lifted] = {}
_changing = threading.Lock()


@contextmanager
def unmeasured(rows: DataFrame) -> Iterator[None]:
    """While a job hands these rows to Python workers, leave out measuring batches that are small anyway."""
    session = rows.sparkSession
    width = row_width(rows.schema)
    if width is None:
        yield
        return
    with _changing:
        lifted = _lift(session, width)
    try:
        yield
    finally:
        if lifted is not None:
            with _changing:
                _put_back(lifted)


def row_width(schema: T.StructType) -> int | None:
    """Return the most bytes that a row takes in a batch; None if that is not known."""
    total = 0
    for column in schema.fields:
        width = _SOURCE_WIDTH if column.name == _SOURCE else _WIDTHS.get(type(column.dataType))
        if width is None:
            return None
        total += width + _VALIDITY
    return total


def _lift(session: SparkSession, width: int) -> _Lifted | None:
    lifted = _lifted.get(id(session))
    if lifted is None:
        before, rows_max = session.conf.get(_BYTES), session.conf.get(_ROWS)
        assert before is not None, "Spark has a default for both"
        assert rows_max is not None, "Spark has a default for both"
        if not 0 < int(rows_max) * width < _bytes(before):
            return None
        lifted = _lifted[id(session)] = _Lifted(session, before)
        session.conf.set(_BYTES, _UNMEASURED)
    lifted.jobs += 1
    return lifted


def _put_back(lifted: _Lifted) -> None:
    lifted.jobs -= 1
    if not lifted.jobs:
        del _lifted[id(lifted.session)]
        lifted.session.conf.set(_BYTES, lifted.before)


def _bytes(limit: str) -> int:
    """Get what Spark shows of a limit: a number and `b`; anything else counts as no limit that is known to be high."""
    number = limit.removesuffix("b")
    return int(number) if number.isdecimal() else 0
