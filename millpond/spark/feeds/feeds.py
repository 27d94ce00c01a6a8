"""Feeds: a DataFrame for an entry point, checked against it before any query starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pyspark.sql import Column, DataFrame

from millpond.compiler.compiled import CompiledEntry, CompiledProgram
from millpond.engine.arrowtypes import arrow_type
from millpond.engine.plan import DEAD_LETTERS, BadRows, FeedPlan, SinkPlan
from millpond.engine.publish.replies import ABORTED, REPLY
from millpond.engine.time.eventtime import FeedTime
from millpond.errors import FeedError
from millpond.keygroups import Layout
from millpond.sinks.protocol import Sink
from millpond.spark.exchange.route import RowOrder, Shape, feed_frame, row_order
from millpond.spark.feeds.columntypes import arrow_of
from millpond.spark.feeds.matching import check_columns
from millpond.state.codec.typenames import type_text

OnBadRow = Literal["fail", "skip"] | Sink
"""What happens to a bad row: fail, skip and count, or a dead-letter sink."""

_ARROW = " -> "


def feed_name(signature: str) -> str:
    """The name of the feed that a signature belongs to, wherever it was declared."""
    return signature.partition(" ")[2].partition(_ARROW)[0]


@dataclass(frozen=True, slots=True)
class Feed:
    """One feed of a job."""

    number: int
    frame: DataFrame
    entry: CompiledEntry
    plan: FeedPlan
    casts: dict[str, str | None]
    order: RowOrder
    to: Sink | None
    dead_letters: Sink | None
    time: Column | None = None
    late: Sink | None = None

    def timed(self, known: FeedTime, time: Column, late: Sink | None, late_plan: SinkPlan | None) -> Feed:
        """The same feed with event time."""
        return replace(self, plan=self.plan.timed(known, late_plan), time=time, late=late)

    @property
    def signature(self) -> str:
        """What identifies the feed between restarts: a changed signature is another source."""
        parameters = ", ".join(f"{name}: {type_text(hint)}" for name, hint in self.entry.point.parameters)
        return f"{self.number} {self.plan.name}{_ARROW}{self.plan.entry}({parameters})"

    def routed(self, layout: Layout, shape: Shape) -> DataFrame:
        """The feed's rows with their key group and their place in the order."""
        return feed_frame(
            self.frame, self.number, self.plan, self.entry, self.casts, self.order, layout, shape, self.time
        )


def make_feed(
    program: CompiledProgram,
    number: int,
    entry: str,
    frame: DataFrame,
    *,
    to: Sink | None,
    keep: Sequence[str] | None,
    order_by: str | None,
    on_bad_row: OnBadRow,
    name: str | None,
    outputs: Path,
    unfolds: bool = False,
) -> Feed:
    """Check a feed and describe it; replies that it `unfolds` are lists of rows, whose columns are told elsewhere."""
    compiled = program.entries.get(entry)
    if compiled is None:
        raise FeedError(
            "MP510",
            f"{program.name} has no entry point `{entry}`",
            expected=", ".join(program.entries) or "a method marked @entry",
            found=entry,
        )
    feed = name or entry
    casts = check_columns(compiled.point, frame, feed)
    if to is not None and not (compiled.point.replies or compiled.aborts):
        raise FeedError(
            "MP511",
            f"entry point `{entry}` gives no replies, so feed `{feed}` has nothing to send to a sink",
            expected="an entry point with a return type",
            found="-> None",
            hint="leave `to` out, or return something",
        )
    if to is not None and not unfolds:
        # `-> Any` and `-> object` are for replies that nobody sends anywhere.
        arrow_type(compiled.point.returns)
    dead = None if isinstance(on_bad_row, str) else on_bad_row
    for sink in (to, dead):
        if sink is not None:
            check_sink(sink)
    plan = FeedPlan(
        name=feed,
        entry=entry,
        keep=_kept(compiled, frame, feed, keep) if to is not None or (dead is not None and keep is not None) else (),
        order=(order := row_order(frame, compiled, feed, order_by)).kind,
        bad_rows=_policy(on_bad_row),
        replies=None
        if (replies := sink_plan(f"{feed}.replies", to, outputs)) is None
        else replace(replies, apart=compiled.point.yields),
        dead_letters=sink_plan(f"{feed}.{DEAD_LETTERS}", dead, outputs),
    )
    return Feed(number, frame, compiled, plan, casts, order, to, dead)


def _policy(on_bad_row: OnBadRow) -> BadRows:
    if not isinstance(on_bad_row, str):
        return BadRows.DEAD_LETTER
    if on_bad_row not in ("fail", "skip"):
        raise FeedError(
            "MP512", "no such policy for bad rows", expected='"fail", "skip", or a sink', found=repr(on_bad_row)
        )
    return BadRows(on_bad_row)


def _kept(
    compiled: CompiledEntry, frame: DataFrame, feed: str, keep: Sequence[str] | None
) -> tuple[tuple[str, object], ...]:
    parameters = dict(compiled.point.parameters)
    # A parameter whose column is missing has its default, which replies need not repeat.
    names = [name for name in parameters if name in frame.columns] if keep is None else list(keep)
    missing = [name for name in names if name not in frame.columns]
    own = (REPLY, ABORTED) if compiled.aborts else (REPLY,)
    if missing or not set(own).isdisjoint(names) or len(set(names)) != len(names):
        raise FeedError(
            "MP513",
            f"feed `{feed}` can't keep these columns",
            expected=f"columns of the DataFrame, each once, none named {' or '.join(f'`{name}`' for name in own)}: "
            f"{', '.join(frame.columns)}",
            found=", ".join(names),
        )
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    return tuple(
        (name, arrow_type(parameters[name]) if name in parameters else arrow_of(kinds[name])) for name in names
    )


def sink_plan(name: str, sink: Sink | None, outputs: Path) -> SinkPlan | None:
    """Where the files of a sink are staged, if there is one."""
    return None if sink is None else SinkPlan.of(name, sink, outputs)


def check_sink(given: object) -> None:
    """Refuse what is no sink."""
    if not isinstance(given, Sink):
        raise FeedError(
            "MP514",
            "this is no sink",
            expected="parquet(path), memory(), console(), foreach_epoch(function), or a sink of your own kind",
            found=repr(given)[:80],
            hint="a class of your own derives from millpond.sinks.Sink (docs/SINKS.md)",
        )
