"""Timers on Spark: those that are due as a batch of rows for their handlers, and ticks while no feed has rows.

Spark does not call `foreachBatch` for a source that is idle. So a thread of the driver looks at the clock, and offers
an epoch of its own when a timer may be due. Nothing is written while none is.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from millpond.checkpoint.records.work import Parent
from millpond.compiler.compiled import CompiledProgram
from millpond.engine.arrowtypes import arrow_type, to_arrow
from millpond.engine.plan import FeedPlan, ProgramPlan
from millpond.engine.task.intake import feed_column
from millpond.engine.time.eventtime import FeedTime
from millpond.engine.time.laterows import TIME
from millpond.engine.time.timers import Due, Look, handlers_of
from millpond.errors import EpochError, MillpondError
from millpond.graph.model import Dispatch
from millpond.ids import PartitionId
from millpond.lengths import Length, length_us
from millpond.program.entries import EntryPoint
from millpond.sinks.protocol import Sink
from millpond.spark.exchange.collecting import collect
from millpond.spark.exchange.compute import Packed
from millpond.spark.exchange.route import Shape
from millpond.spark.exchange.tables import frame_of
from millpond.spark.exchange.worker import CONTROL_DDL, by_task
from millpond.spark.feeds.feeds import Feed, make_feed
from millpond.spark.placement.placement import Anchor
from millpond.spark.ship import unpack
from millpond.state.codec.wire import decode_values, encode_values
from millpond.storage.open import open_storage

TICK: Final = datetime.timedelta(seconds=1)
"""How often the clock is looked at by default: looking costs nothing, and few timers need to be more exact."""

_DUE: Final = ("timers", "next_us")
TIMER_SHAPE: Final = Shape(feed=True, group=True, order=True, source=False)
"""What rows of handlers carry."""


class TimerFeeds:
    """The handlers of a program as feeds: what they take, and where their replies go."""

    def __init__(self, program: CompiledProgram, handlers: tuple[str, ...]) -> None:
        self._program = program
        self.handlers = handlers
        self._sinks: dict[str, Sink] = {}
        self._rows: dict[str, pa.Schema | None] = {}

    def check_feed(self, entry: str, name: str) -> None:
        """Refuse rows for a handler, and a feed with the name of one."""
        if entry in self.handlers or name in self.handlers:
            raise EpochError(
                "MP461",
                f"`{entry if entry in self.handlers else name}` is called by timers, not by rows",
                expected="an entry point, and a feed name that no handler has",
                found=f'job.feed("{entry}", ...)',
                hint="to send what it replies to a sink: job.on_timer(name, to=...)",
            )

    def send(self, handler: str, to: Sink, rows: pa.Schema | None) -> None:
        """Let the replies of a handler go to a sink; with `rows`, each is a list of rows with these columns."""
        if handler not in self.handlers or handler in self._sinks:
            raise EpochError(
                "MP462",
                f"`{handler}` has its sink already" if handler in self._sinks else f"there is no handler `{handler}`",
                expected=", ".join(self.handlers) or "a program with methods marked @on_timer or @on_window",
                found=f'job.on_timer("{handler}", ...)',
            )
        self._sinks[handler] = to
        self._rows[handler] = rows

    def feeds(self, spark: SparkSession, outputs: Path, *, by_event: bool = False) -> list[Feed]:
        """Return a feed for each handler, in their order, without rows."""
        made = [
            make_feed(
                self._program,
                number,
                handler,
                frame_of(spark, timer_table(self._program.entries[handler].point, [])),
                to=self._sinks.get(handler),
                keep=self._kept(handler),
                order_by=_place_column(self._program.entries[handler].point),
                on_bad_row="fail",
                name=handler,
                outputs=outputs,
                unfolds=self._rows.get(handler) is not None,
            )
            for number, handler in enumerate(self.handlers)
        ]
        # By event time, timers have a time, and are never late.
        time = FeedTime(lateness_us=None) if by_event else None
        return [replace(feed, plan=replace(self._unfolding(feed.plan), time=time)) for feed in made]

    def _unfolding(self, plan: FeedPlan) -> FeedPlan:
        rows = self._rows.get(plan.entry)
        return plan if rows is None or plan.replies is None else replace(plan, replies=replace(plan.replies, rows=rows))

    def _kept(self, handler: str) -> list[str] | None:
        """Choose what goes along with replies: all that a handler takes, or the key alone if times are several."""
        point = self._program.entries[handler].point
        many = point.windows or self._rows.get(handler) is not None
        return [point.parameters[0][0]] if many else None


def timer_table(point: EntryPoint, rows: Sequence[tuple[Any, datetime.datetime, int]]) -> pa.Table:
    """Timers of a handler as the columns that it takes, and their places in the order in which all fire."""
    columns = {
        name: to_arrow([row[at] for row in rows], hint).cast(arrow_type(hint))
        for at, (name, hint) in enumerate(point.parameters)
    }
    return pa.table({**columns, _place_column(point): pa.array([row[2] for row in rows], pa.int64())})


def _place_column(point: EntryPoint) -> str:
    """Return the column of places, under a name that the handler does not take."""
    taken = {name for name, _ in point.parameters}
    return next(name for name in ("place", "place_", "place__") if name not in taken)


def timer_rows(plan: ProgramPlan, feeds: Sequence[Feed], due: Due, until: int | None, floor_us: int) -> pa.Table:
    """Make rows of all handlers of timers, as `route` would make them: their key groups are known here."""
    rows: dict[str, list[tuple[Any, datetime.datetime, int]]] = {}
    for place, (handler, (key, at)) in enumerate(due.rows(handlers_of(plan), until)):
        rows.setdefault(handler, []).append((key, at, place))
    times = due.times(floor_us)
    tables = [_routed(plan, feed, rows[feed.plan.entry], times) for feed in feeds if feed.plan.entry in rows]
    return pa.concat_tables(tables, promote_options="default")


def _routed(
    plan: ProgramPlan, feed: Feed, rows: list[tuple[Any, datetime.datetime, int]], times: list[int]
) -> pa.Table:
    table = timer_table(feed.entry.point, rows)
    names = [feed_column(feed.number, name) for name, _ in feed.entry.point.parameters]
    by_key = feed.entry.tasks[0].dispatch is Dispatch.BY_KEY
    groups = [plan.layout.group_of(key) if by_key else 0 for key, _, _ in rows]
    columns = [pa.array(groups, pa.int32()), pa.array([feed.number] * len(rows), pa.int32()), *table.columns]
    routed = pa.table(columns, names=["grp", "feed", *names, "ord"])
    if feed.plan.time is None:
        return routed
    return routed.append_column(TIME, pa.array([times[place] for _, _, place in rows], pa.int64()))


def look_on_hosts(spark: SparkSession, packed: Packed, parent: Parent, anchor: Anchor | None, look: Look) -> list[Due]:
    """Look into the stores of all partitions where they are."""
    count, shipment = packed.plan.layout.partitions, packed.shipment

    def run(partition: PartitionId, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        plan = unpack(shipment)
        found = look(plan, open_storage(plan.storage_url), parent, partition)
        yield pa.RecordBatch.from_arrays([pa.array([encode_values(tuple(found), _DUE)], pa.binary())], names=["body"])

    numbers = spark.range(0, count, 1, count).select(F.col("id").cast("int").alias("part"))
    if anchor is not None:
        rows = collect(anchor.run(numbers, run, CONTROL_DDL))
    else:
        rows = collect(numbers.repartitionById(count, F.col("part")).mapInArrow(by_task(run), CONTROL_DDL))
    found = (decode_values(bytes(row.body)) for row in rows)
    return [Due([(at, number, key) for at, number, key in timers], next_us) for timers, next_us in found]


def tick_seconds(tick: Length) -> float:
    """Say how many seconds are between two looks at the clock; 0 for none at all."""
    return length_us(tick, "tick", _no_tick) / 1_000_000


def _no_tick(expected: str, found: str) -> EpochError:
    return EpochError(
        "MP463",
        "tick= is not a length of time",
        expected=expected,
        found=found,
        hint='tick="0 s" is for no ticks at all',
    )


class Ticker:
    """A thread that ticks as long as a query is alive; if a tick fails, it tells so and ends.

    A tick gets to know what says whether the query is alive: it may have to wait for its turn.
    """

    def __init__(
        self,
        seconds: float,
        tick: Callable[[Callable[[], bool]], object],
        alive: Callable[[], bool],
        failed: Callable[[MillpondError], None],
    ) -> None:
        self._seconds = seconds
        self._tick = tick
        self._alive = alive
        self._failed = failed
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="millpond-ticks", daemon=True)

    def start(self) -> None:
        """Begin to tick."""
        self._thread.start()

    def end(self) -> None:
        """Tick no more, and wait for a tick that is under way."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds) and self._alive():
            try:
                self._tick(self._alive)
            except MillpondError as error:
                self._failed(error)
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, nobody else would hear of it
                if self._alive():
                    self._failed(_broken(error))
                return


def _broken(error: Exception) -> EpochError:
    broken = EpochError(
        "MP464",
        "an epoch without rows could not be run",
        found=f"{type(error).__name__}: {str(error)[:300]}",
        hint="nothing of it was committed; timers that are due fire when the job is started again",
    )
    broken.__cause__ = error
    return broken
