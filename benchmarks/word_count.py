"""Word count: words of many lines, counted by word in partitioned state, and by line in partial state."""

from __future__ import annotations

import argparse
import collections
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.data import OUT, WORDS_PER_LINE, word, word_lines, work_folder
from benchmarks.memory import WorkerMemory
from benchmarks.options import TWS_SECONDS, add_common, positive
from benchmarks.report import EXCLUDED, BenchmarkError, Figures, Teller, rate, ratio, rounded, timed
from benchmarks.spark import stream
from benchmarks.stage import Stage
from benchmarks.transform_with_state import (
    PeerResult,
    WordTotals,
    largest_sample,
    require_protobuf,
    run_to_end,
    state_store,
    transformed,
)
from millpond import Counter, Partial, Partitioned, Program, Tuning, each, entry, memory, merged
from millpond.checkpoint.recovery import read_state
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.local.storekey import unit_of
from millpond.storage.open import open_storage

LINES = 1_000_000
WORDS = 50_000
WARM_UP_LINES = 5_000
ASKED = 5
"""Words that are read through `merged` at the end of the timed run."""

Counts = dict[str, int]


class CountByWord(Program):
    """The contestant with partitioned counts: Spark splits lines before the feed."""

    counts = Partitioned(Counter[str])

    @entry
    def add(self, word: str) -> None:
        """Count a word."""
        self.counts[word] += 1


class CountByLine(Program):
    """The contestant with partial counts: each copy counts its share of the lines, a read adds them up."""

    counts = Partial(Counter[str])

    @entry
    def add(self, line: str) -> None:
        """Count the words of a line."""
        for each_word in line.split():
            self.counts[each_word] += 1

    @entry
    def count(self, word: str) -> int:
        """Answer with the count of a word over all copies."""
        return merged(each(self.counts).get(word, 0), sum)


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes of a run; `tws_seconds` is None when the peer is left out."""

    lines: int = LINES
    words: int = WORDS
    partitions: int = 2
    repeat: int = 5
    tws_seconds: float | None = TWS_SECONDS
    seed: int = 1

    @property
    def total(self) -> int:
        """Words in all lines."""
        return self.lines * WORDS_PER_LINE


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    parser.add_argument("--lines", type=positive, default=LINES, help="lines of eight words (default: %(default)s)")
    parser.add_argument("--words", type=positive, default=WORDS, help="distinct words (default: %(default)s)")
    add_common(parser)


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    tws_seconds = None if args.no_tws else args.seconds
    return Options(args.lines, args.words, args.partitions, args.repeat, tws_seconds, args.seed)


def plain_loop(file: Path) -> Counts:
    """Count by hand: one thread, a dict."""
    counts: Counts = collections.defaultdict(int)
    for line in pq.read_table(file)["line"].to_pylist():
        for each_word in line.split():
            counts[each_word] += 1
    return counts


def plain_counter(file: Path) -> Counts:
    """Count by hand with the standard library's counter, whose loop is in C."""
    return collections.Counter(chain.from_iterable(map(str.split, pq.read_table(file)["line"].to_pylist())))


def split_words(lines: DataFrame) -> DataFrame:
    """Let Spark split lines into words."""
    return lines.select(F.explode(F.split("line", " ")).alias("word"))


def count_by_word(stage: Stage, file: Path, folder: Path) -> None:
    """Run words into partitioned counts in one epoch."""
    job = CountByWord.on(
        stage.spark,
        checkpoint=folder / "checkpoint",
        partitions=stage.partitions,
        local_root=folder / "local",
        progress=False,
    )
    job.feed("add", split_words(stage.spark.read.parquet(str(file))))
    job.run()


def count_by_line(stage: Stage, file: Path, folder: Path) -> None:
    """Run lines into partial counts in one epoch, as many copies as partitions."""
    job = CountByLine.on(
        stage.spark,
        checkpoint=folder / "checkpoint",
        partitions=stage.partitions,
        tuning=Tuning(instances=stage.partitions),
        local_root=folder / "local",
        progress=False,
    )
    job.feed("add", stage.spark.read.parquet(str(file)))
    job.run()


def ask(stage: Stage, folder: Path, asked: Sequence[str], name: str) -> Counts:
    """Read words of partial counts through `merged`."""
    answers = memory()
    job = CountByLine.on(
        stage.spark,
        checkpoint=folder / "checkpoint",
        partitions=stage.partitions,
        local_root=folder / "local",
        progress=False,
    )
    job.feed("count", stage.spark.createDataFrame([(each_word,) for each_word in asked], "word string"), to=answers)
    job.run(name)
    return {row["word"]: row["reply"] for row in answers.rows()}


def committed_counts(checkpoint: Path) -> Counts:
    """Read partitioned counts out of a checkpoint."""
    keys, values = KeyCodec(str), ValueCodec(int)
    state = read_state(open_storage(str(checkpoint)))
    return {keys.decode(unit_of(key)): values.decode(value) for key, value in state.items()}


def peer_counts(rows: Path) -> Counts:
    """Read the output of `transformWithState`: the last count of a word is its largest."""
    counts: Counts = {}
    table = pq.read_table(rows)
    for each_word, count in zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True):
        counts[each_word] = max(count, counts.get(each_word, 0))
    return counts


def check_counts(got: Mapping[str, int], want: Mapping[str, int], who: str) -> None:
    """Refuse a run unless all its counts are the loop's."""
    if got != want:
        wrong = sorted(name for name in got.keys() | want.keys() if got.get(name) != want.get(name))
        raise BenchmarkError(f"{who} counted otherwise than the loop: {len(wrong)} words differ, such as {wrong[0]!r}")


@dataclass(slots=True)
class Contest:
    """Loops and Millpond over the same file, turn by turn; seconds by contestant."""

    file: Path
    want: Counts = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=lambda: collections.defaultdict(list))
    read_seconds: list[float] = field(default_factory=list)
    memory: WorkerMemory = field(default_factory=WorkerMemory)


def run(options: Options, spark: SparkSession, teller: Teller, out: Path = OUT) -> Figures:
    """Measure and check all contestants."""
    if options.tws_seconds is not None:
        require_protobuf()
    with work_folder("word-count", out) as folder:
        stage = Stage(spark, teller, folder, out, options.partitions)
        _warm_up(stage, options)
        contest = _contest(stage, options)
        peer = None if options.tws_seconds is None else _peer(stage, options, contest, options.tws_seconds)
    theirs = None if peer is None else peer.rate
    rates = {name: rate(options.total, seconds) for name, seconds in contest.seconds.items()}
    return {
        "benchmark": "word_count",
        **rates,
        "transform_with_state": theirs,
        "vs_python_loop": ratio(rates["millpond"], rates["python_loop"]),
        "vs_python_loop_partial": ratio(rates["millpond_partial"], rates["python_loop"]),
        "vs_transform_with_state": ratio(rates["millpond"], theirs),
        "peak_worker_mb": contest.memory.peak_mb,
        "peak_worker_mb_each": contest.memory.peak_each_mb,
        "checked": True,
        "unit": "words/s, fastest turn of each",
        "words": "drawn uniformly",
        "excluded": EXCLUDED,
        "merged_read": {"words": ASKED, "seconds": rounded(contest.read_seconds)},
        "seconds": {name: rounded(seconds) for name, seconds in contest.seconds.items()},
        "transform_with_state_sample": peer and asdict(peer),
        "settings": asdict(options),
    }


def _warm_up(stage: Stage, options: Options) -> None:
    (file,) = word_lines(min(WARM_UP_LINES, options.lines), options.words, 1, options.seed, stage.out)
    with stage.teller.doing("loop and Millpond: warm-up"):
        plain_loop(file)
        plain_counter(file)
        count_by_word(stage, file, stage.folder / "warm-up-by-word")
        count_by_line(stage, file, stage.folder / "warm-up-by-line")
        ask(stage, stage.folder / "warm-up-by-line", [word(0)], "warm-up")


def _contest(stage: Stage, options: Options) -> Contest:
    with stage.teller.doing(f"writing {options.lines:,} lines"):
        (file,) = word_lines(options.lines, options.words, 1, options.seed, stage.out)
    contest = Contest(file)
    for turn in range(options.repeat):
        # One after the other in each turn, so that a slow minute of the machine meets all.
        _turn(stage, options, contest, stage.folder / f"turn-{turn}")
    return contest


def _turn(stage: Stage, options: Options, contest: Contest, folder: Path) -> None:
    def tell(name: str, seconds: float) -> None:
        contest.seconds[name].append(seconds)
        stage.teller.done(name.replace("_", " "), options.total, "words", seconds)

    with stage.teller.doing("loops"):
        seconds, contest.want = timed(partial(plain_loop, contest.file))
        tell("python_loop", seconds)
        seconds, counted = timed(partial(plain_counter, contest.file))
        tell("python_counter", seconds)
    check_counts(counted, contest.want, "the Counter")

    by_word, by_line = folder / "by-word", folder / "by-line"
    with stage.teller.doing("Millpond, partitioned by word"), contest.memory.watching():
        seconds, _ = timed(partial(count_by_word, stage, contest.file, by_word))
    tell("millpond", seconds)
    check_counts(committed_counts(by_word / "checkpoint"), contest.want, "Millpond, partitioned,")

    words = sorted(contest.want)
    asked = words[:: max(1, len(words) // ASKED)][:ASKED]
    with stage.teller.doing("Millpond, partial by line"), contest.memory.watching():
        seconds, _ = timed(partial(count_by_line, stage, contest.file, by_line))
    tell("millpond_partial", seconds)
    with stage.teller.doing("Millpond, merged on read"):
        seconds, answers = timed(partial(ask, stage, by_line, asked, "timed"))
    contest.read_seconds.append(seconds)
    check_counts(answers, {name: contest.want[name] for name in asked}, "Millpond, partial,")
    with stage.teller.doing("checking the count of every word"):
        check_counts(ask(stage, by_line, words, "check"), contest.want, "Millpond, partial,")
    shutil.rmtree(folder)


def _peer(stage: Stage, options: Options, contest: Contest, seconds: float) -> PeerResult:
    runs = iter(range(1_000))

    def run_sample(words: int) -> Path:
        sampled = split_words(stream(stage.spark, [contest.file])).where(F.col("word") < word(words))
        return run_to_end(transformed(sampled, "word", WordTotals()), stage.folder / f"peer-{next(runs)}")

    with state_store(stage.spark, options.partitions):
        sample = largest_sample(run_sample, options.words, seconds, stage.teller)
    want = {name: count for name, count in contest.want.items() if name < word(sample.keys)}
    counted = sum(want.values())
    stage.teller.done(f"transformWithState, {sample.keys:,} words", counted, "words", sample.seconds)
    check_counts(peer_counts(sample.rows), want, "transformWithState")
    return PeerResult(rate(counted, [sample.seconds]), sample.keys, counted, round(sample.seconds, 3))
