"""Transfers: per row, move an amount between two accounts if it is there, and emit whether it was."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from benchmarks.data import OUT, ROW_GROUP_ROWS, work_folder
from benchmarks.memory import WorkerMemory
from benchmarks.options import add_seed, positive
from benchmarks.options import seconds as above_zero
from benchmarks.report import EXCLUDED, BenchmarkError, Figures, Teller, rate, ratio, rounded, timed
from benchmarks.stage import Stage
from millpond import Map, Partitioned, Program, entry, parquet
from millpond.checkpoint.recovery import read_state
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.local.storekey import unit_of
from millpond.storage.open import open_storage

TRANSFERS = 1_000_000
ACCOUNTS = 100_000
SKEW = 0.99
WARM_UP_TRANSFERS = 20_000

OPENING = 1_000
"""What an account has before its first transfer."""
AMOUNT_MAX = 500

Balances = dict[int, int]


class Bank(Program):
    """The contestant: two keys of one element in a method."""

    balances = Partitioned(Map[int, int])

    @entry
    def transfer(self, source: int, target: int, amount: int) -> bool:
        """Move an amount, if it is there; answers whether it was."""
        left = self.balances.get(source, 1_000) - amount
        if left < 0:
            return False
        self.balances[source] = left
        self.balances[target] = self.balances.get(target, 1_000) + amount
        return True


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes of a run."""

    transfers: int = TRANSFERS
    accounts: int = ACCOUNTS
    skew: float = SKEW
    partitions: int = 2
    repeat: int = 5
    seed: int = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    parser.add_argument("--transfers", type=positive, default=TRANSFERS, help="how many (default: %(default)s)")
    parser.add_argument("--accounts", type=positive, default=ACCOUNTS, help="how many (default: %(default)s)")
    parser.add_argument(
        "--skew", type=above_zero, default=SKEW, help="exponent of Zipf's law in the skewed run (default: %(default)s)"
    )
    parser.add_argument("--partitions", type=positive, default=2, help="partitions and cores (default: %(default)s)")
    parser.add_argument(
        "--repeat", type=positive, default=5, help="turns of loop and Millpond; the fastest counts (default: 5)"
    )
    add_seed(parser)


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    return Options(args.transfers, args.accounts, args.skew, args.partitions, args.repeat, args.seed)


def write_transfers(path: Path, count: int, accounts: int, skew: float | None, seed: int) -> Path:
    """Write one file of transfers, numbered; accounts are uniform, or by Zipf's law with an exponent."""
    rng = np.random.default_rng(seed)
    table = pa.table(
        {
            "number": np.arange(count, dtype=np.int64),
            "source": _drawn(rng, count, accounts, skew),
            "target": _drawn(rng, count, accounts, skew),
            "amount": rng.integers(1, AMOUNT_MAX, count),
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=ROW_GROUP_ROWS)
    return path


def _drawn(rng: np.random.Generator, count: int, accounts: int, skew: float | None) -> NDArray[Any]:
    if skew is None:
        return rng.integers(0, accounts, count)
    shares = np.arange(1, accounts + 1, dtype=np.float64) ** -skew
    bounds = np.cumsum(shares / shares.sum())
    ranks = np.minimum(np.searchsorted(bounds, rng.random(count), side="right"), accounts - 1)
    # The most frequent accounts are the first ones: as bad as it gets for whoever splits numbers by range.
    return ranks.astype(np.int64)


def plain_loop(file: Path) -> tuple[Balances, list[bool]]:
    """Do it by hand: one thread, a dict, and a list of what is emitted."""
    balances: Balances = {}
    emitted: list[bool] = []
    table = pq.read_table(file, columns=["source", "target", "amount"])
    columns = (table[name].to_numpy().tolist() for name in ("source", "target", "amount"))
    for source, target, amount in zip(*columns, strict=True):
        left = balances.get(source, 1_000) - amount
        if left < 0:
            emitted.append(False)
            continue
        balances[source] = left
        balances[target] = balances.get(target, 1_000) + amount
        emitted.append(True)
    return balances, emitted


def millpond_run(stage: Stage, file: Path, folder: Path) -> None:
    """Run the program over the file to its end, checkpointed, replies into a Parquet sink."""
    job = Bank.on(
        stage.spark,
        checkpoint=folder / "checkpoint",
        partitions=stage.partitions,
        local_root=folder / "local",
        progress=False,
    )
    job.feed("transfer", stage.spark.read.parquet(str(file)), to=parquet(folder / "replies"), keep=["number"])
    job.run()


def check_replies(replies: Path, want: Sequence[bool]) -> None:
    """Refuse a run unless every transfer got the loop's reply, once."""
    table = pq.read_table(replies)
    number, reply = table["number"].to_numpy(), table["reply"].to_numpy()
    if len(number) != len(want) or not np.array_equal(np.sort(number), np.arange(len(want))):
        raise BenchmarkError("Millpond did not emit one reply for each transfer")
    if not np.array_equal(reply[np.argsort(number)], np.array(want, dtype=bool)):
        raise BenchmarkError("Millpond did not emit what the loop emitted")


def check_state(checkpoint: Path, want: Balances) -> None:
    """Refuse a run unless the whole committed state is the loop's."""
    keys, values = KeyCodec(int), ValueCodec(int)
    state = read_state(open_storage(str(checkpoint)))
    if {keys.decode(unit_of(key)): values.decode(value) for key, value in state.items()} != want:
        raise BenchmarkError("Millpond's checkpoint does not hold the loop's balances")


@dataclass(slots=True)
class Contest:
    """Loop and Millpond over the same file, turn by turn."""

    file: Path
    name: str
    made: float = 0.0
    loop_seconds: list[float] = field(default_factory=list)
    millpond_seconds: list[float] = field(default_factory=list)
    memory: WorkerMemory = field(default_factory=WorkerMemory)


def run(options: Options, spark: SparkSession, teller: Teller, out: Path = OUT) -> Figures:
    """Measure and check both contestants, uniform and skewed."""
    with work_folder("transfers", out) as folder:
        stage = Stage(spark, teller, folder, out, options.partitions)
        _warm_up(stage, options)
        uniform = _contest(stage, options, "uniform", None)
        zipf = _contest(stage, options, f"Zipf {options.skew}", options.skew)
    count = options.transfers
    figures: Figures = {"benchmark": "transfers"}
    for suffix, contest in (("", uniform), ("_zipf", zipf)):
        ours, loop = rate(count, contest.millpond_seconds), rate(count, contest.loop_seconds)
        figures |= {
            f"millpond{suffix}": ours,
            f"python_loop{suffix}": loop,
            f"vs_python_loop{suffix}": ratio(ours, loop),
            f"peak_worker_mb{suffix}": contest.memory.peak_mb,
            f"peak_worker_mb_each{suffix}": contest.memory.peak_each_mb,
            f"made{suffix}": contest.made,
            f"millpond_seconds{suffix}": rounded(contest.millpond_seconds),
            f"python_loop_seconds{suffix}": rounded(contest.loop_seconds),
        }
    return figures | {
        "checked": True,
        "unit": "transfers/s, fastest turn of each",
        "excluded": EXCLUDED,
        "settings": asdict(options),
    }


def _warm_up(stage: Stage, options: Options) -> None:
    count = min(WARM_UP_TRANSFERS, options.transfers)
    file = write_transfers(stage.folder / "warm-up.parquet", count, options.accounts, None, options.seed)
    with stage.teller.doing("loop and Millpond: warm-up"):
        plain_loop(file)
        millpond_run(stage, file, stage.folder / "warm-up")


def _contest(stage: Stage, options: Options, name: str, skew: float | None) -> Contest:
    with stage.teller.doing(f"writing {options.transfers:,} transfers over {options.accounts:,} accounts, {name}"):
        path = stage.folder / f"{'uniform' if skew is None else 'zipf'}.parquet"
        file = write_transfers(path, options.transfers, options.accounts, skew, options.seed)
    contest = Contest(file, name)
    for turn in range(options.repeat):
        # One after the other in each turn, so that a slow minute of the machine meets both.
        _turn(stage, contest, options.transfers, turn + 1)
    return contest


def _turn(stage: Stage, contest: Contest, count: int, turn: int) -> None:
    name, folder = f"{contest.name}, turn {turn}", stage.folder / f"{contest.file.stem}-{turn}"
    with stage.teller.doing(f"loop, {name}"):
        seconds, (balances, emitted) = timed(partial(plain_loop, contest.file))
    stage.teller.done(f"loop, {name}", count, "transfers", seconds)
    contest.loop_seconds.append(seconds)
    contest.made = round(sum(emitted) / count, 4)
    with stage.teller.doing(f"Millpond, {name}"), contest.memory.watching():
        seconds, _ = timed(partial(millpond_run, stage, contest.file, folder))
    stage.teller.done(f"Millpond, {name}", count, "transfers", seconds)
    contest.millpond_seconds.append(seconds)
    with stage.teller.doing("checking Millpond's replies and balances"):
        check_replies(folder / "replies", emitted)
        check_state(folder / "checkpoint", balances)
    shutil.rmtree(folder)
