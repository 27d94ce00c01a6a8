"""Any method: union-find in sequence, whose keys follow from state, beside a plain Python loop that does the same."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.data import OUT, ROW_GROUP_ROWS, work_folder
from benchmarks.memory import WorkerMemory
from benchmarks.options import add_seed, positive
from benchmarks.report import EXCLUDED, BenchmarkError, Figures, Teller, rate, ratio, rounded, timed
from benchmarks.stage import Stage
from millpond import Map, Partitioned, Program, entry, parquet
from millpond.checkpoint.recovery import last_manifest, read_genesis, read_state
from millpond.engine.sequence.rows import IN_SEQUENCE
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.local.storekey import unit_of
from millpond.storage.open import open_storage

UNIONS = 1_000_000
NODES = 200_000
WARM_UP_UNIONS = 20_000

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

    unions: int = UNIONS
    nodes: int = NODES
    partitions: int = 2
    repeat: int = 5
    seed: int = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    parser.add_argument("--unions", type=positive, default=UNIONS, help="how many (default: %(default)s)")
    parser.add_argument("--nodes", type=positive, default=NODES, help="how many (default: %(default)s)")
    parser.add_argument("--partitions", type=positive, default=2, help="partitions and cores (default: %(default)s)")
    parser.add_argument(
        "--repeat", type=positive, default=5, help="turns of loop and Millpond; the fastest counts (default: 5)"
    )
    add_seed(parser)


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    return Options(args.unions, args.nodes, args.partitions, args.repeat, args.seed)


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


def millpond_run(stage: Stage, file: Path, folder: Path) -> None:
    """Run the program over the file to its end, checkpointed, replies into a Parquet sink."""
    job = UnionFind.on(
        stage.spark,
        checkpoint=folder / "checkpoint",
        partitions=stage.partitions,
        local_root=folder / "local",
        progress=False,
    )
    job.feed("union", stage.spark.read.parquet(str(file)), to=parquet(folder / "replies"), keep=["number"])
    job.run()


def check(folder: Path, parents: Parents, emitted: Sequence[bool]) -> None:
    """Refuse a run unless every row ran in sequence and got the loop's reply, and the state is the loop's."""
    replies = pq.read_table(folder / "replies")
    number, reply = replies["number"].to_numpy(), replies["reply"].to_numpy()
    if not np.array_equal(np.sort(number), np.arange(len(emitted))):
        raise BenchmarkError("Millpond did not emit one reply for each union")
    if not np.array_equal(reply[np.argsort(number)], np.array(emitted, dtype=bool)):
        raise BenchmarkError("Millpond did not emit what the loop emitted")
    storage = open_storage(str(folder / "checkpoint"))
    keys, values = KeyCodec(int), ValueCodec(int)
    found = {keys.decode(unit_of(key)): values.decode(value) for key, value in read_state(storage).items()}
    if found != parents:
        raise BenchmarkError("Millpond's checkpoint does not hold the loop's parents")
    genesis = read_genesis(storage)
    last = None if genesis is None else last_manifest(storage, genesis[1])
    if last is None or last[0].counters.get(IN_SEQUENCE) != len(emitted):
        raise BenchmarkError("the rows did not run in sequence")


def run(options: Options, spark: SparkSession, teller: Teller, out: Path = OUT) -> Figures:
    """Measure and check both contestants."""
    loop: list[float] = []
    ours: list[float] = []
    memory = WorkerMemory()
    with work_folder("any_method", out) as folder:
        stage = Stage(spark, teller, folder, out, options.partitions)
        with teller.doing("loop and Millpond: warm-up"):
            count = min(WARM_UP_UNIONS, options.unions)
            file = write_unions(folder / "warm-up.parquet", count, options.nodes, options.seed)
            plain_loop(file)
            millpond_run(stage, file, folder / "warm-up")
        with teller.doing(f"writing {options.unions:,} unions over {options.nodes:,} nodes"):
            file = write_unions(folder / "unions.parquet", options.unions, options.nodes, options.seed)
        for turn in range(1, options.repeat + 1):
            own = folder / f"turn-{turn}"
            with teller.doing(f"loop, turn {turn}"):
                seconds, (parents, emitted) = timed(partial(plain_loop, file))
            teller.done(f"loop, turn {turn}", options.unions, "unions", seconds)
            loop.append(seconds)
            with teller.doing(f"Millpond, turn {turn}"), memory.watching():
                seconds, _ = timed(partial(millpond_run, stage, file, own))
            teller.done(f"Millpond, turn {turn}", options.unions, "unions", seconds)
            ours.append(seconds)
            with teller.doing("checking Millpond's replies and parents"):
                check(own, parents, emitted)
            shutil.rmtree(own)
    millpond, python = rate(options.unions, ours), rate(options.unions, loop)
    return {
        "benchmark": "any_method",
        "millpond_sequence": millpond,
        "python_loop": python,
        "vs_python_loop_sequence": ratio(millpond, python),
        "way": "in sequence",
        "peak_worker_mb": memory.peak_mb,
        "millpond_seconds": rounded(ours),
        "python_loop_seconds": rounded(loop),
        "checked": True,
        "unit": "unions/s, fastest turn of each",
        "excluded": EXCLUDED,
        "settings": asdict(options),
    }
