"""Any method: programs whose keys follow from state, beside plain Python loops that do the same.

Carts that are checked out against a stock that all share, with uniform and with skewed users, and union-find.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks import carts
from benchmarks.carts import SKEW
from benchmarks.data import OUT, ROW_GROUP_ROWS, work_folder
from benchmarks.memory import WorkerMemory
from benchmarks.options import add_seed, positive
from benchmarks.options import seconds as above_zero
from benchmarks.report import EXCLUDED, BenchmarkError, Figures, Teller, rate, ratio, rounded, timed
from benchmarks.stage import Stage
from millpond import Map, Partitioned, Program, entry, parquet
from millpond.checkpoint.recovery import last_manifest, read_genesis, read_state
from millpond.engine.sequence.rows import IN_SEQUENCE
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.local.storekey import unit_of
from millpond.storage.open import open_storage

ROWS = 1_000_000
NODES = 200_000
WARM_UP_ROWS = 20_000

Parents = dict[int, int]


class UnionFind(Program):
    """The contestant: which keys a row touches is known when it has read them."""

    parents = Partitioned(Map[int, int])

    @entry
    def union(self, one: int, other: int) -> bool:
        """Join the sets of two nodes; answers whether they were two."""
        while (above := self.parents.get(one, one)) != one:
            self.parents[one] = one = self.parents.get(above, above)
        while (above := self.parents.get(other, other)) != other:
            self.parents[other] = other = self.parents.get(above, above)
        if one == other:
            return False
        if one > other:
            one, other = other, one
        self.parents[other] = one
        return True


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes of a run."""

    rows: int = ROWS
    nodes: int = NODES
    skew: float = SKEW
    partitions: int = 2
    repeat: int = 5
    seed: int = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    parser.add_argument("--rows", type=positive, default=ROWS, help="of each program (default: %(default)s)")
    parser.add_argument("--nodes", type=positive, default=NODES, help="of union-find (default: %(default)s)")
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
    return Options(args.rows, args.nodes, args.skew, args.partitions, args.repeat, args.seed)


def write_unions(path: Path, count: int, nodes: int, seed: int) -> Path:
    """Write one file of unions, numbered, over uniform nodes."""
    rng = np.random.default_rng(seed)
    ends = {name: rng.integers(0, nodes, count) for name in ("one", "other")}
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"number": np.arange(count, dtype=np.int64), **ends})
    pq.write_table(table, path, row_group_size=ROW_GROUP_ROWS)
    return path


def plain_loop(file: Path) -> tuple[Parents, list[bool]]:
    """Do it by hand: one thread, a dict, and a list of what is emitted."""
    parents: Parents = {}
    emitted: list[bool] = []
    table = pq.read_table(file, columns=["one", "other"])
    columns = (table[name].to_numpy().tolist() for name in ("one", "other"))
    for first, second in zip(*columns, strict=True):
        one, other = first, second
        while (above := parents.get(one, one)) != one:
            parents[one] = one = parents.get(above, above)
        while (above := parents.get(other, other)) != other:
            parents[other] = other = parents.get(above, above)
        if one == other:
            emitted.append(False)
            continue
        if one > other:
            one, other = other, one
        parents[other] = one
        emitted.append(True)
    return parents, emitted


@dataclass(frozen=True, slots=True)
class Contest:
    """A program, the loop that does the same, and what checks the state that it leaves; keys end with the `suffix`."""

    name: str
    suffix: str
    program: type[Program]
    loop: Callable[[Path], tuple[Any, Sequence[Any]]]
    write: Callable[[Path, int], Path]
    check_state: Callable[[Path, Any], None]


def contests(options: Options) -> list[Contest]:
    """Return what is measured: the same rows each time."""

    def requests(skew: float | None) -> Callable[[Path, int], Path]:
        return lambda path, count: carts.write_requests(path, count, skew, options.seed)

    def unions(path: Path, count: int) -> Path:
        return write_unions(path, count, options.nodes, options.seed)

    return [
        Contest("carts", "", carts.Shop, carts.plain_loop, requests(None), carts.check_state),
        Contest("skewed carts", "_zipf", carts.Shop, carts.plain_loop, requests(options.skew), carts.check_state),
        Contest("union-find", "_sequence", UnionFind, plain_loop, unions, check_parents),
    ]


def millpond_run(stage: Stage, program: type[Program], file: Path, folder: Path) -> None:
    """Run a program over the file to its end, checkpointed, replies into a Parquet sink."""
    (name,) = program.entries()
    job = program.on(
        stage.spark,
        checkpoint=folder / "checkpoint",
        partitions=stage.partitions,
        local_root=folder / "local",
        progress=False,
    )
    job.feed(name, stage.spark.read.parquet(str(file)), to=parquet(folder / "replies"), keep=["number"])
    job.run()


def check(folder: Path, emitted: Sequence[Any]) -> None:
    """Refuse a run unless every row ran in sequence and got the loop's reply."""
    replies = pq.read_table(folder / "replies")
    number, reply = replies["number"].to_numpy(), replies["reply"].to_numpy()
    if not np.array_equal(np.sort(number), np.arange(len(emitted))):
        raise BenchmarkError("Millpond did not emit one reply for each row")
    if not np.array_equal(reply[np.argsort(number)], np.array(emitted)):
        raise BenchmarkError("Millpond did not emit what the loop emitted")
    storage = open_storage(str(folder / "checkpoint"))
    genesis = read_genesis(storage)
    last = None if genesis is None else last_manifest(storage, genesis[1])
    if last is None or last[0].counters.get(IN_SEQUENCE) != len(emitted):
        raise BenchmarkError("the rows did not run in sequence")


def check_parents(checkpoint: Path, parents: Parents) -> None:
    """Refuse a run unless the whole committed state is the loop's."""
    keys, values = KeyCodec(int), ValueCodec(int)
    state = read_state(open_storage(str(checkpoint)))
    if {keys.decode(unit_of(key)): values.decode(value) for key, value in state.items()} != parents:
        raise BenchmarkError("Millpond's checkpoint does not hold the loop's parents")


def run(options: Options, spark: SparkSession, teller: Teller, out: Path = OUT) -> Figures:
    """Measure and check both contestants, program by program."""
    figures: Figures = {"benchmark": "any_method"}
    with work_folder("any_method", out) as folder:
        stage = Stage(spark, teller, folder, out, options.partitions)
        for contest in contests(options):
            figures |= _measured(stage, contest, options)
    return figures | {
        "way": "in sequence",
        "checked": True,
        "unit": "rows/s, fastest turn of each",
        "excluded": EXCLUDED,
        "settings": asdict(options),
    }


def _measured(stage: Stage, contest: Contest, options: Options) -> Figures:
    loop: list[float] = []
    ours: list[float] = []
    memory = WorkerMemory()
    name, teller, rows = contest.name, stage.teller, options.rows
    folder = stage.folder / name.replace(" ", "-")
    with teller.doing(f"{name}: warm-up of loop and Millpond"):
        file = contest.write(folder / "warm-up.parquet", min(WARM_UP_ROWS, rows))
        contest.loop(file)
        millpond_run(stage, contest.program, file, folder / "warm-up")
    with teller.doing(f"{name}: writing {rows:,} rows"):
        file = contest.write(folder / "rows.parquet", rows)
    for turn in range(1, options.repeat + 1):
        own = folder / f"turn-{turn}"
        with teller.doing(f"{name}: loop, turn {turn}"):
            seconds, (state, emitted) = timed(partial(contest.loop, file))
        teller.done(f"{name}: loop, turn {turn}", rows, "rows", seconds)
        loop.append(seconds)
        with teller.doing(f"{name}: Millpond, turn {turn}"), memory.watching():
            seconds, _ = timed(partial(millpond_run, stage, contest.program, file, own))
        teller.done(f"{name}: Millpond, turn {turn}", rows, "rows", seconds)
        ours.append(seconds)
        with teller.doing(f"{name}: checking replies and state"):
            check(own, emitted)
            contest.check_state(own / "checkpoint", state)
        shutil.rmtree(own)
    millpond, python = rate(rows, ours), rate(rows, loop)
    return {
        f"millpond{contest.suffix}": millpond,
        f"python_loop{contest.suffix}": python,
        f"vs_python_loop{contest.suffix}": ratio(millpond, python),
        f"peak_worker_mb{contest.suffix}": memory.peak_mb,
        f"millpond_seconds{contest.suffix}": rounded(ours),
        f"python_loop_seconds{contest.suffix}": rounded(loop),
    }
