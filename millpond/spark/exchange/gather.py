"""Rows over several keys: a first look at their keys, and the way to where their components run."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from millpond.engine.gathered.gatheredplacement import Placement, decode_survey, gathered_feeds, place_surveyed, survey
from millpond.engine.gathered.keysets import survey_parameters
from millpond.engine.plan import ProgramPlan
from millpond.engine.task.intake import feed_column
from millpond.engine.time.laterows import TIME
from millpond.program.semantics.epoch_time import epoch_time
from millpond.spark.exchange.batching import unmeasured
from millpond.spark.exchange.collecting import collect, running
from millpond.spark.exchange.route import Shape, place
from millpond.spark.exchange.worker import CONTROL_DDL, place_function, survey_function
from millpond.spark.ship import Shipment

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
    gathered = gathered_feeds(plan)
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
    gathered = gathered_feeds(plan)
    names = [feed_column(feed, name) for feed in gathered for name in survey_parameters(plan.entry_of(feed).tasks[0])]
    names += [TIME] if TIME in frame.columns else []
    if "feed" not in frame.columns:
        # Rows of an entry point without any parameter are only counted.
        return frame.select(*names) if names else frame
    return frame.filter(F.col("feed").isin(gathered)).select("feed", *names)
