"""Keyed state: per event, update the count and the running sum of its key, and emit the new value."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.data import OUT, keyed_events, work_folder
from benchmarks.emitted import Emitted, by_loop, by_millpond, by_peer, check_every, check_final
from benchmarks.memory import WorkerMemory
from benchmarks.options import TWS_SECONDS, add_common, positive, positives
from benchmarks.report import EXCLUDED, BenchmarkError, Figures, Teller, rate, ratio, rounded, timed
from benchmarks.spark import stream
from benchmarks.stage import Stage
from benchmarks.transform_with_state import (
    KeyedTotals,
    PeerResult,
    largest_sample,
    require_protobuf,
    run_to_end,
    state_store,
    transformed,
)
from millpond import Map, Partitioned, Program, entry, parquet
from millpond.checkpoint.recovery import read_state
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.local.storekey import unit_of
from millpond.storage.open import open_storage

EVENTS = 2_000_000
KEYS = 200_000
WARM_UP_EVENTS = 20_000

Totals = dict[int, tuple[int, float]]
"""Count and sum by key."""


class RunningTotals(Program):
    """The contestant."""

    totals = Partitioned(Map[int, tuple[int, float]])

    @entry
    def add(self, key: int, amount: float) -> tuple[int, float]:
        """Count an event and answer with the new value of its key."""
        count, total = self.totals.get(key, (0, 0.0))
        count += 1
        total += amount
        self.totals[key] = (count, total)
        return count, total


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes of a run; `tws_seconds` is None when the peer is left out."""

    events: int = EVENTS
    keys: tuple[int, ...] = (KEYS,)
    epochs: int = 4
    partitions: int = 2
    repeat: int = 5
    tws_seconds: float | None = TWS_SECONDS
    seed: int = 1

    def __post_init__(self) -> None:
        if self.epochs > self.events:
            raise BenchmarkError(f"{self.events} events can't fill {self.epochs} epochs")

    @property
    def events_each(self) -> int:
        """Events of every run: with several numbers of keys, enough for each key of the largest to occur."""
        return self.events if len(self.keys) == 1 else max(self.events, *self.keys)

    @property
    def keys_compared(self) -> int:
        """The number of keys at which all contestants meet: the default one if it is listed, else the middle one."""
        return KEYS if KEYS in self.keys else sorted(self.keys)[len(self.keys) // 2]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    parser.add_argument("--events", type=positive, default=EVENTS, help="how many events (default: %(default)s)")
    parser.add_argument(
        "--keys",
        type=positives,
        default=(KEYS,),
        help="distinct keys; a list (10000,200000,5000000) measures Millpond at each (default: 200000)",
    )
    parser.add_argument(
        "--epochs",
        type=positive,
        default=4,
        help="epochs in which the events are streamed to Millpond and to transformWithState (default: %(default)s)",
    )
    add_common(parser)


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    tws_seconds = None if args.no_tws else args.seconds
    return Options(args.events, args.keys, args.epochs, args.partitions, args.repeat, tws_seconds, args.seed)


def plain_loop(files: Sequence[Path]) -> tuple[Totals, list[tuple[int, float]]]:
    """Do it by hand: one thread, a dict, and a list of what is emitted."""
    totals: Totals = {}
    emitted: list[tuple[int, float]] = []
    for file in files:
        table = pq.read_table(file)
        for key, amount in zip(table["key"].to_numpy().tolist(), table["amount"].to_numpy().tolist(), strict=True):
            count, total = totals.get(key, (0, 0.0))
            totals[key] = value = (count + 1, total + amount)
            emitted.append(value)
    return totals, emitted


def millpond_run(stage: Stage, events: Callable[[], DataFrame], folder: Path) -> None:
    """Run the program over events to their end, checkpointed, replies into a Parquet sink."""
    job = RunningTotals.on(
        stage.spark,
        checkpoint=folder / "checkpoint",
        partitions=stage.partitions,
        local_root=folder / "local",
        progress=False,
    )
    job.feed("add", events(), to=parquet(folder / "replies"))
    job.run()


def check_state(checkpoint: Path, want: Totals) -> None:
    """Refuse a run unless the whole committed state is the loop's."""
    keys, values = KeyCodec(int), ValueCodec(tuple[int, float])
    state = read_state(open_storage(str(checkpoint)))
    if {keys.decode(unit_of(key)): values.decode(value) for key, value in state.items()} != want:
        raise BenchmarkError("Millpond's checkpoint does not hold the loop's state")


@dataclass(slots=True)
class Contest:
    """Loop and Millpond over the same events, turn by turn: in one file, and in files that are an epoch each."""

    file: Path
    streamed: list[Path]
    want: Emitted | None = None
    loop_seconds: list[float] = field(default_factory=list)
    millpond_seconds: list[float] = field(default_factory=list)
    streaming_seconds: list[float] = field(default_factory=list)
    memory: WorkerMemory = field(default_factory=WorkerMemory)


def run(options: Options, spark: SparkSession, teller: Teller, out: Path = OUT) -> Figures:
    """Measure and check all contestants."""
    if options.tws_seconds is not None:
        require_protobuf()
    with work_folder("keyed-state", out) as folder:
        stage = Stage(spark, teller, folder, out, options.partitions)
        _warm_up(stage, options)
        contests = {keys: _contest(stage, options, keys) for keys in options.keys}
        main = contests[options.keys_compared]
        peer = None if options.tws_seconds is None else _peer(stage, options, main, options.tws_seconds)
    events = options.events_each
    theirs = None if peer is None else peer.rate
    ours, loop = rate(events, main.millpond_seconds), rate(events, main.loop_seconds)
    streaming = rate(events, main.streaming_seconds)
    figures: Figures = {
        "benchmark": "keyed_state",
        "millpond": ours,
        "millpond_streaming": streaming,
        "python_loop": loop,
        "transform_with_state": theirs,
        "vs_python_loop": ratio(ours, loop),
        "vs_python_loop_streaming": ratio(streaming, loop),
        "vs_transform_with_state": ratio(streaming, theirs),
        "peak_worker_mb": main.memory.peak_mb,
        "peak_worker_mb_each": main.memory.peak_each_mb,
    }
    if len(contests) > 1:
        rates = {str(keys): rate(events, contest.millpond_seconds) for keys, contest in contests.items()}
        figures |= {"rates_by_keys": rates, "spread_by_keys": ratio(max(rates.values()), min(rates.values()))}
    return figures | {
        "checked": True,
        "unit": "events/s, fastest turn of each",
        "excluded": EXCLUDED,
        "millpond_seconds": rounded(main.millpond_seconds),
        "millpond_streaming_seconds": rounded(main.streaming_seconds),
        "python_loop_seconds": rounded(main.loop_seconds),
        "transform_with_state_sample": peer and asdict(peer),
        "settings": asdict(options) | {"events": events, "keys_compared": options.keys_compared},
    }


def _warm_up(stage: Stage, options: Options) -> None:
    events = max(options.epochs, min(WARM_UP_EVENTS, options.events))
    files = keyed_events(events, min(events, KEYS), options.epochs, options.seed, stage.out)
    with stage.teller.doing("loop and Millpond: warm-up"):
        plain_loop(files)
        millpond_run(stage, lambda: stage.spark.read.parquet(str(files[0])), stage.folder / "warm-up")
        millpond_run(stage, lambda: stream(stage.spark, files), stage.folder / "warm-up-streaming")


def _contest(stage: Stage, options: Options, keys: int) -> Contest:
    with stage.teller.doing(f"writing {options.events_each:,} events over {keys:,} keys"):
        (file,) = keyed_events(options.events_each, keys, 1, options.seed, stage.out)
        contest = Contest(file, keyed_events(options.events_each, keys, options.epochs, options.seed, stage.out))
    for turn in range(options.repeat):
        # One after the other in each turn, so that a slow minute of the machine meets both.
        name = f"{keys:,} keys, turn {turn + 1}"
        _turn(stage, contest, options.events_each, stage.folder / f"{keys}-keys-{turn}", name)
    return contest


def _turn(stage: Stage, contest: Contest, events: int, folder: Path, name: str) -> None:
    with stage.teller.doing(f"loop, {name}"):
        seconds, (totals, emitted) = timed(partial(plain_loop, [contest.file]))
    stage.teller.done(f"loop, {name}", events, "events", seconds)
    contest.loop_seconds.append(seconds)
    contest.want = contest.want or by_loop([contest.file], emitted)
    del emitted  # Millions of objects: not while the next one runs.

    ways: tuple[tuple[str, list[float], Callable[[], DataFrame]], ...] = (
        ("Millpond", contest.millpond_seconds, lambda: stage.spark.read.parquet(str(contest.file))),
        ("Millpond, streaming", contest.streaming_seconds, lambda: stream(stage.spark, contest.streamed)),
    )
    for who, took, source in ways:
        with stage.teller.doing(f"{who}, {name}"), contest.memory.watching():
            seconds, _ = timed(partial(millpond_run, stage, source, folder))
        stage.teller.done(f"{who}, {name}", events, "events", seconds)
        took.append(seconds)
        with stage.teller.doing("checking Millpond's replies and state"):
            check_every(by_millpond(folder / "replies"), contest.want, who)
            check_state(folder / "checkpoint", totals)
        shutil.rmtree(folder)


def _peer(stage: Stage, options: Options, contest: Contest, seconds: float) -> PeerResult:
    runs = iter(range(1_000))

    def run_sample(keys: int) -> Path:
        events = stream(stage.spark, contest.streamed).where(F.col("key") < keys)
        return run_to_end(transformed(events, "key", KeyedTotals()), stage.folder / f"peer-{next(runs)}")

    with state_store(stage.spark, stage.partitions):
        sample = largest_sample(run_sample, options.keys_compared, seconds, stage.teller)
    assert contest.want is not None, "the loop ran before"
    want = contest.want.below(sample.keys)
    events = len(want.key)
    stage.teller.done(f"transformWithState, {sample.keys:,} keys", events, "events", sample.seconds)
    with stage.teller.doing("checking transformWithState's values"):
        check_final(by_peer(sample.rows), want, "transformWithState")
    return PeerResult(rate(events, [sample.seconds]), sample.keys, events, round(sample.seconds, 3))
