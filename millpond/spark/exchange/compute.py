"""An epoch as one Spark job: route, then one exchange and one pass over local state per step, and a single action."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from millpond.checkpoint.records.work import EpochWork, Parent
from millpond.engine.assemble import assemble
from millpond.engine.durability.inputlog import with_input
from millpond.engine.failures import leaving_out
from millpond.engine.gathered.gatheredplacement import Placement, gathered_feeds
from millpond.engine.gathered.uncut import uncut_plan
from millpond.engine.messages import Control, decode_control
from millpond.engine.plan import EpochPlan, Excluded, ProgramPlan
from millpond.engine.sequence.ways import plan_for, sequence_feeds
from millpond.engine.time.eventtime import Judged
from millpond.errors import EpochError
from millpond.spark.exchange.batching import unmeasured
from millpond.spark.exchange.collecting import collect
from millpond.spark.exchange.gather import find_placement, place_gathered
from millpond.spark.exchange.route import Shape, exchange, place, shorten_sources
from millpond.spark.exchange.worker import CONTROL_DDL, MESSAGE_DDL, by_task, epoch_function, step_function
from millpond.spark.placement.placement import Anchor
from millpond.spark.ship import Shipment, pack


def compute_epoch(
    plan: ProgramPlan,
    shipment: Shipment,
    shape: Shape,
    batch: DataFrame,
    parent: Parent,
    before: dict[str, int],
    *,
    one_task_rows: int,
    one_host: bool,
    only_file: str | None,
    now_us: int,
    anchor: Anchor | None = None,
    judged: Judged | None = None,
) -> tuple[EpochWork, list[Control]]:
    """Run the steps of an epoch over a batch of routed rows; with an `anchor`, partitions run where it holds them.

    An epoch of at most `one_task_rows` runs in one task, without any shuffle; on one host so does any whose rows all
    run in one partition. One with rows of an entry point that has to run in sequence runs in sequence. `only_file` is
    the file that all rows come from, if that is known. Rows with event times are `judged` by the watermark of the
    parent.
    """
    named, prefix = shorten_sources(batch, shape, only_file)
    by = judged or Judged()
    routed = _Routed(named, shape, one_host, now_us, by, anchor)
    placements: dict[int, Placement] = {}

    def run(
        used: ProgramPlan, excluded: tuple[Excluded, ...], until: Excluded | None
    ) -> tuple[EpochWork, list[Control]]:
        sent = shipment if used is plan else _packed(used)
        epoch = EpochPlan(parent.epoch + 1, parent, prefix, now_us=now_us, excluded=excluded, until=until, judged=by)
        rows_max = math.inf if used.in_sequence and one_host else one_task_rows
        controls = routed.in_one_task(used, sent, epoch, rows_max) if rows_max else []
        if not controls:
            controls = routed.in_steps(used, sent, epoch, placements)
        if not controls and not _empty(batch):
            raise EpochError(
                "MP433",
                "no task of the epoch reported, though it has rows",
                expected=f"{used.layout.partitions} reports per step",
                found="none",
                hint="nothing was committed; please report it with the settings of the Spark session",
            )
        found = placements.get(id(used))
        work = assemble(used, controls, before, {} if found is None else found.counters(), tried=excluded)
        return with_input(used, epoch, work), controls

    return leaving_out(_plan_for(plan, batch), run, uncut_plan)


def _plan_for(plan: ProgramPlan, batch: DataFrame) -> ProgramPlan:
    """The plan of an epoch, by which feeds it has rows of; only those that decide it are looked at."""
    slow = sequence_feeds(plan)
    if not slow:
        return plan
    if len(slow) < len(plan.feeds) and batch.filter(F.col("feed").isin(slow)).isEmpty():
        return plan
    return plan_for(plan, slow)


_SHIPMENTS_MAX = 4
_shipments: list[tuple[ProgramPlan, Shipment]] = []


def _packed(plan: ProgramPlan) -> Shipment:
    """The shipment of a plan that is not the one of all epochs; those of the last few are remembered."""
    known = next((shipment for other, shipment in _shipments if other is plan), None)
    if known is None:
        known = pack(plan, plan.program.made_of)
        _shipments.append((plan, known))
        del _shipments[:-_SHIPMENTS_MAX]
    return known


@dataclass(frozen=True, slots=True)
class _Routed:
    """The rows of an epoch on their way to where they run."""

    rows: DataFrame
    shape: Shape
    one_host: bool
    now_us: int
    judged: Judged
    anchor: Anchor | None

    def in_one_task(
        self,
        plan: ProgramPlan,
        shipment: Shipment,
        epoch: EpochPlan,
        rows_max: float,
        placement: Placement | None = None,
    ) -> list[Control]:
        """Run all partitions and steps in one task, if there are no more rows than that."""
        whole = epoch_function(shipment, epoch, rows_max, placement)
        rows = place(self.rows, plan, self.shape)
        controls = rows.coalesce(1).mapInArrow(whole, CONTROL_DDL)
        if rows_max < math.inf:
            # Asking for what Spark's limits are takes longer than measuring a few rows.
            return _controls(controls)
        with unmeasured(rows):
            return _controls(controls)

    def in_steps(
        self, plan: ProgramPlan, shipment: Shipment, epoch: EpochPlan, placements: dict[int, Placement]
    ) -> list[Control]:
        """Run each step by an exchange; where gathered rows go is found out once for each plan."""
        if gathered_feeds(plan):
            return self._gathered(plan, shipment, epoch, placements)
        if self.anchor is not None:
            return _anchored_steps(place(self.rows, plan, self.shape), plan, shipment, epoch, self.anchor)
        return _all_steps(exchange(self.rows, plan, self.shape), plan, shipment, epoch)

    def _gathered(
        self, plan: ProgramPlan, shipment: Shipment, epoch: EpochPlan, placements: dict[int, Placement]
    ) -> list[Control]:
        floor_us = self.judged.floor_us
        placement = placements.get(id(plan))
        if placement is None:
            placement = placements[id(plan)] = find_placement(self.rows, plan, shipment, self.now_us, floor_us)
        if self.one_host and placement.one is not None and len(gathered_feeds(plan)) == len(plan.feeds):
            return self.in_one_task(plan, shipment, epoch, math.inf, placement)
        rows = place_gathered(self.rows, plan, self.shape, shipment, placement, self.now_us, floor_us)
        if self.anchor is not None:
            return _anchored_steps(rows, plan, shipment, epoch, self.anchor)
        return _all_steps(rows.repartitionById(plan.layout.partitions, F.col("part")), plan, shipment, epoch)


def continue_epoch(
    plan: ProgramPlan,
    shipment: Shipment,
    left: DataFrame,
    parent: Parent,
    before: dict[str, int],
    *,
    one_task_rows: int,
    now_us: int,
    anchor: Anchor | None = None,
    judged: Judged | None = None,
) -> tuple[EpochWork, list[Control]]:
    """Run the steps of an epoch over the messages that the one before left; few of them in one task."""
    epoch = EpochPlan(parent.epoch + 1, parent, continues=True, now_us=now_us, judged=judged or Judged())
    if one_task_rows:
        whole = epoch_function(shipment, epoch, one_task_rows)
        controls = _controls(left.coalesce(1).mapInArrow(whole, CONTROL_DDL))
    elif anchor is not None:
        controls = _anchored_steps(left, plan, shipment, epoch, anchor)
    else:
        controls = _all_steps(left.repartitionById(plan.layout.partitions, F.col("part")), plan, shipment, epoch)
    return with_input(plan, epoch, assemble(plan, controls, before)), controls


def _all_steps(rows: DataFrame, plan: ProgramPlan, shipment: Shipment, epoch: EpochPlan) -> list[Control]:
    """The steps of an epoch, one exchange and one pass over local state each, as one job."""
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
    """The steps of an epoch, each partition on the executor where the anchor holds it."""
    told = rows
    for step in range(plan.steps):
        told = anchor.run(told, step_function(shipment, epoch, step), MESSAGE_DDL)
    return _controls(told.select("body"))


def _controls(rows: DataFrame) -> list[Control]:
    """Run the job: its one action collects what the tasks of the last step tell."""
    return [decode_control(bytes(row.body)) for row in collect(rows)]


def _empty(batch: DataFrame) -> bool:
    # Adaptive execution drops the steps of an epoch without rows: then there is nothing to report.
    return batch.isEmpty()
