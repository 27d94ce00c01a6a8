"""Latency: from a socket at a steady rate, through keyed state, until the rows of the result are in the driver."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery

from benchmarks.data import OUT, work_folder
from benchmarks.generator import LOOPBACK, events, now_ns, sending
from benchmarks.keyed_state import RunningTotals
from benchmarks.options import add_seed, positive, seconds
from benchmarks.report import EXCLUDED, BenchmarkError, Figures, Teller, percentiles, ratio
from benchmarks.stage import Stage
from benchmarks.transform_with_state import OrderedTotals, require_protobuf, state_store, transformed
from millpond.sinks import Sink, SinkDescription, Staged, Token

PATIENCE_SECONDS = 120
"""How long after its last event a contestant may still be busy."""

WARM_UP_RUN_SECONDS = 5.0
"""Length of a run that is not measured at all: what a first run leaves behind would queue up in front of the second."""

POLL_SECONDS = 1.0
NS_PER_MS = 1_000_000

Value = tuple[int, float]
"""Count and sum of a key after an event."""


@dataclass(frozen=True, slots=True)
class Options:
    """Load and length of a run; `tws` is whether the peer runs too."""

    rate: int = 2_000
    keys: int = 1_000
    seconds: float = 30.0
    warm_up: float = 10.0
    partitions: int = 2
    tws: bool = True
    seed: int = 1

    @property
    def unmeasured(self) -> int:
        """Events of the warm-up."""
        return int(self.rate * self.warm_up)

    @property
    def count(self) -> int:
        """All events."""
        return self.unmeasured + max(2, int(self.rate * self.seconds))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    parser.add_argument("--rate", type=positive, default=2_000, help="events per second (default: %(default)s)")
    parser.add_argument("--keys", type=positive, default=1_000, help="distinct keys (default: %(default)s)")
    parser.add_argument("--seconds", type=seconds, default=30.0, help="measured time (default: %(default)s)")
    parser.add_argument("--warm-up", type=seconds, default=10.0, help="time before that (default: %(default)s)")
    parser.add_argument("--partitions", type=positive, default=2, help="partitions and cores (default: %(default)s)")
    parser.add_argument("--no-tws", action="store_true", help="leave transformWithState out")
    add_seed(parser)


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    return Options(args.rate, args.keys, args.seconds, args.warm_up, args.partitions, not args.no_tws, args.seed)


@dataclass(slots=True)
class Arrivals:
    """Results as they reach the driver: the value of each event, and how long it took."""

    values: dict[int, Value] = field(default_factory=dict)
    delays_ms: dict[int, float] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, rows: list[tuple[int, int, int, float]]) -> None:
        """Take (seq, sent_ns, count, total) rows of one batch, which all arrive now."""
        now = now_ns()
        with self.changed:
            for seq, sent_ns, count, total in rows:
                if seq in self.values:
                    raise BenchmarkError(f"event {seq} got two results")
                self.values[seq] = (count, total)
                self.delays_ms[seq] = (now - sent_ns) / NS_PER_MS
            self.changed.notify_all()

    def wait(self, count: int, query: StreamingQuery, seconds_max: float, who: str) -> None:
        """Wait until `count` results are there."""
        with self.changed:
            for _ in range(int(seconds_max / POLL_SECONDS) + 1):
                if self.changed.wait_for(lambda: len(self.values) >= count, POLL_SECONDS):
                    return
                if not query.isActive:
                    raise BenchmarkError(f"{who} stopped: {query.exception() or 'nobody knows why'}")
        raise BenchmarkError(f"{who} gave {len(self.values)} of {count} results within {seconds_max:.0f} s")


Start = Callable[[Stage, DataFrame, Arrivals], StreamingQuery]


class ArrivalSink(Sink):
    """A sink that has the values in the driver, and says when."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals

    def describe(self) -> SinkDescription:
        """Describe a place in this process."""
        return SinkDescription("arrivals")

    def publish(self, token: Token, staged: Staged) -> None:  # noqa: ARG002
        """Take the rows of an epoch."""
        rows = staged.table().to_pylist()
        self._arrivals.take([(row["seq"], row["sent_ns"], row["reply"]["_1"], row["reply"]["_2"]) for row in rows])


def start_millpond(stage: Stage, frame: DataFrame, arrivals: Arrivals) -> StreamingQuery:
    """Start Millpond over the stream, as fast as it goes."""
    job = RunningTotals.on(
        stage.spark,
        checkpoint=stage.folder / "checkpoint",
        partitions=stage.partitions,
        local_root=stage.folder / "local",
        progress=False,
    )
    job.feed("add", frame, order_by="seq", keep=["seq", "sent_ns"], to=ArrivalSink(arrivals))
    return job.start()


def start_peer(stage: Stage, frame: DataFrame, arrivals: Arrivals) -> StreamingQuery:
    """Start `transformWithState` over the stream, as fast as it goes."""

    def take(batch: DataFrame, number: int) -> None:  # noqa: ARG001
        rows = batch.select("seq", "sent_ns", "count", "total").collect()
        arrivals.take([(row[0], row[1], row[2], row[3]) for row in rows])

    writer = transformed(frame, "key", OrderedTotals()).writeStream.foreachBatch(take)
    return writer.option("checkpointLocation", str(stage.folder / "checkpoint")).start()


def from_socket(spark: SparkSession, port: int) -> DataFrame:
    """Read the generator's lines as columns."""
    lines = spark.readStream.format("socket").option("host", LOOPBACK).option("port", port).load()
    parts = F.split("value", ",")
    kinds = (("seq", "long"), ("key", "long"), ("amount", "double"), ("sent_ns", "long"))
    return lines.select(*(parts[place].cast(kind).alias(name) for place, (name, kind) in enumerate(kinds)))


def loop_values(options: Options) -> dict[int, Value]:
    """What a plain loop gives for each event."""
    totals: dict[int, Value] = {}
    values: dict[int, Value] = {}
    for seq, key, amount in events(options.count, options.keys, options.seed):
        count, total = totals.get(key, (0, 0.0))
        totals[key] = values[seq] = (count + 1, total + amount)
    return values


def measure(stage: Stage, options: Options, start: Start, who: str) -> Figures:
    """Run one contestant twice, the first time as a warm-up, and put the delays of the second into figures."""
    short = replace(options, seconds=min(options.seconds, WARM_UP_RUN_SECONDS), warm_up=0.0)
    with stage.teller.doing(f"{who}: warm-up"):
        delays_ms(replace(stage, folder=stage.folder / f"{who}-warm-up"), short, start, who)
    with stage.teller.doing(f"{who}: {options.count:,} events at {options.rate:,}/s"):
        return delay_figures(delays_ms(replace(stage, folder=stage.folder / who), options, start, who))


def delays_ms(stage: Stage, options: Options, start: Start, who: str) -> list[float]:
    """Run one contestant over its own generator, check all its values, and return the delays after the warm-up."""
    arrivals = Arrivals()
    with sending(options.count, options.rate, options.keys, options.seed) as port:
        query = start(stage, from_socket(stage.spark, port), arrivals)
        try:
            arrivals.wait(options.count, query, options.count / options.rate + PATIENCE_SECONDS, who)
        finally:
            query.stop()
    if arrivals.values != loop_values(options):
        raise BenchmarkError(f"{who} gave other values than the loop")
    return [arrivals.delays_ms[seq] for seq in range(options.unmeasured, options.count)]


def delay_figures(delays_ms: list[float]) -> Figures:
    """Percentiles of delays in the order of their events.

    `drift` is the median of the second half by that of the first: far above 1, the contestant can't keep up, and its
    percentiles say how long the run was.
    """
    half = len(delays_ms) // 2
    first, second = (percentiles(part, (50,))["p50"] for part in (delays_ms[:half], delays_ms[half:]))
    return {**percentiles(delays_ms), "drift": round(second / first, 2)}


def run(options: Options, spark: SparkSession, teller: Teller, out: Path = OUT) -> Figures:
    """Measure and check both contestants, one after the other."""
    if options.tws:
        require_protobuf()
    figures: Figures = {"benchmark": "latency"}
    with work_folder("latency", out) as folder:
        stage = Stage(spark, teller, folder, out, options.partitions)
        ours = measure(stage, options, start_millpond, "Millpond")
        theirs: Figures = dict.fromkeys(ours)
        if options.tws:
            with state_store(spark, options.partitions):
                theirs = measure(stage, options, start_peer, "transformWithState")
    for name, found in (("millpond", ours), ("transform_with_state", theirs)):
        figures |= {f"{name}_{part}": value for part, value in found.items()}
        teller.say(f"{name}: {', '.join(f'{part} {value}' for part, value in found.items())}")
    return figures | {
        "vs_transform_with_state_p50": _ratio(ours["p50"], theirs["p50"]),
        "checked": True,
        "unit": "ms from sending an event to having its value in the driver; the ratio is ours by theirs",
        "excluded": f"{EXCLUDED}, and the first {options.warm_up:g} s of the measured one",
        "settings": asdict(options),
    }


def _ratio(ours: object, theirs: object) -> float | None:
    assert isinstance(ours, float), ours
    assert theirs is None or isinstance(theirs, float), theirs
    return ratio(ours, theirs)
