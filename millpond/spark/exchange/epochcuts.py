"""What an epoch runs as: its rows by one plan, or cut around a few rows in sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from millpond.engine.compute import Reported
from millpond.engine.plan import ProgramPlan
from millpond.engine.sequence.cutting import CUT_ROWS_MAX, can_cut
from millpond.engine.sequence.portions import place_columns
from millpond.engine.sequence.ways import plan_for, sequence_feeds
from millpond.errors import EpochError
from millpond.spark.exchange.collecting import running


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of an epoch and the plan that they run by; of those that it is cut around, how many were `found`."""

    plan: ProgramPlan
    rows: DataFrame
    found: int | None = None

    def check(self, reported: Reported) -> Reported:
        """Return what tasks reported; refuse rows that are not those that were found when the epoch was cut."""
        received = sum(control.received for control in reported.controls)
        if self.found is not None and received != self.found:
            raise EpochError(
                "MP438",
                "a source gave other rows when it was read again",
                expected=f"{self.found} rows in sequence at a place where the epoch is cut",
                found=f"{received}",
                hint="nothing was committed; order rows by columns that stay the same, or write them down first",
            )
        return reported


def pieces_of(plan: ProgramPlan, rows: DataFrame, cut_above: int | None) -> list[Piece]:
    """Return what an epoch runs as: one piece, or if it is cut the pieces in their order, and last the whole.

    Only rows that decide it are looked at. It is cut if it has more than `cut_above` rows; with None it never is.
    """
    slow = sequence_feeds(plan)
    if not slow:
        return [Piece(plan, rows)]
    whole = Piece(plan_for(plan, slow), rows)
    if len(slow) == len(plan.feeds):
        return [whole]
    few = rows.filter(F.col("feed").isin(slow))
    if cut_above is None or not can_cut(plan):
        return [Piece(plan, rows) if few.isEmpty() else whole]
    columns = place_columns(rows.columns)
    found = few.select(*columns).limit(CUT_ROWS_MAX + 1).sort(*(F.col(name).asc_nulls_first() for name in columns))
    places = Counter(tuple(row) for row in running(found.collect))
    if not places:
        return [Piece(plan, rows)]
    wanted = cut_above + places.total()
    if places.total() > CUT_ROWS_MAX or running(rows.limit(wanted).count) < wanted:
        return [whole]
    return [*_pieces(plan, whole, columns, places), whole]


def _pieces(
    plan: ProgramPlan, whole: Piece, columns: Sequence[str], places: Mapping[tuple[Any, ...], int]
) -> list[Piece]:
    """Return the rows before, at, between and after some places."""
    rows, kinds = whole.rows, [whole.rows.schema[name].dataType for name in columns]
    # A struct with a null comes before one without, as rows are sorted for a run in sequence.
    at = F.struct(*columns)
    pieces: list[Piece] = []
    after = F.lit(True)
    for place, count in places.items():
        here = F.struct(*(F.lit(value).cast(kind) for value, kind in zip(place, kinds, strict=True)))
        pieces.append(Piece(plan, rows.filter(after & (at < here))))
        pieces.append(Piece(whole.plan, rows.filter(at.eqNullSafe(here)), count))
        after = at > here
    return [*pieces, Piece(plan, rows.filter(after))]
