"""Graphs: PageRank and components beside the DataFrame loop that users write and beside scipy; rounds; warm starts."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from scipy import sparse
from scipy.sparse import csgraph

import millpond
from benchmarks.options import add_seed, positive
from benchmarks.report import BenchmarkError, Figures, Teller, timed
from millpond.loops import Vertex, connected_components, pagerank, rounds
from millpond.loops.vertices import ranks
from millpond.loops.vertices.compressed import Compressed
from millpond.spark.frames.graphframes import GraphFrame

ROUNDS = 20
DAMPING = 0.85
RING = 300
RING_ROUNDS = 200


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes: edges of the graph, and of the large one, 0 for none; rounds of the loop over DataFrames."""

    edges: int = 1_000_000
    large: int = 10_000_000
    frame_rounds: int = 5
    partitions: int = 2
    repeat: int = 3
    seed: int = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    known = Options()
    parser.add_argument("--edges", type=positive, default=known.edges, help="edges (default: %(default)s)")
    parser.add_argument("--large", type=int, default=known.large, help="edges of the large graph, 0 for none")
    parser.add_argument(
        "--frame-rounds", type=positive, default=known.frame_rounds, help="rounds of the DataFrame loop"
    )
    parser.add_argument("--partitions", type=positive, default=known.partitions, help="cores (default: %(default)s)")
    parser.add_argument("--repeat", type=positive, default=known.repeat, help="turns; the fastest counts")
    add_seed(parser)


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    return Options(args.edges, args.large, args.frame_rounds, args.partitions, args.repeat, args.seed)


def power_law(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return edges of a graph in which few vertices have many: a tenth as many vertices as edges."""
    draw = np.random.default_rng(seed)
    size = max(2, count // 10)
    heads = (draw.pareto(1.2, count) * 3).astype(np.int64) % size
    return draw.permutation(size)[heads], draw.integers(0, size, count)


class Around(Vertex):
    """A token that goes round a ring."""

    def compute(self, messages: list[int]) -> None:
        """Pass it on."""
        if messages or self.id == 0:
            self.send_out(1)

    def finalize(self) -> int:
        """Say how far it went."""
        return self.round


def run(options: Options, spark: SparkSession, teller: Teller) -> Figures:
    """Measure and check all contestants."""
    folder = Path(tempfile.mkdtemp(prefix="millpond-graphs-"))
    try:
        small = _contest(spark, teller, folder / "small", options.edges, options)
        large = _contest(spark, teller, folder / "large", options.large, options) if options.large else None
        frames = _frame_seconds(spark, teller, folder / "small", options)
        figures: Figures = {
            "benchmark": "graphs",
            "vs_dataframes": round(frames["pagerank"] / small["pagerank"], 2),
            "vs_dataframes_components": round(frames["components"] / small["components"], 2),
            "vs_scipy": round(
                min(small["scipy"] / small["pagerank"], small["scipy_components"] / small["components"]), 3
            ),
            "superstep_s": _superstep(spark, teller),
            **_warm_start(options),
        }
        if large is not None:
            one = [
                large[name] / large[f"scipy{part}"] for name, part in (("pagerank", ""), ("components", "_components"))
            ]
            figures["vs_scipy_10m"] = round(1 / max(one), 3)
            growth = (large["pagerank"] / options.large) / (small["pagerank"] / options.edges)
            figures["cost_per_edge_growth"] = round(growth, 3)
    finally:
        shutil.rmtree(folder)
    seconds = {"small": small, "large": large, "dataframes": frames}
    return {**figures, "seconds": seconds, "checked": True, "unit": "ratios of seconds", "settings": asdict(options)}


def _contest(spark: SparkSession, teller: Teller, folder: Path, count: int, options: Options) -> dict[str, float]:
    """Measure Millpond and scipy over one graph, both from files to files, and compare what they wrote."""
    folder.mkdir(parents=True)
    heads, tails = power_law(count, options.seed)
    pq.write_table(pa.table({"src": heads, "dst": tails}), folder / "edges.parquet")
    edges = spark.read.parquet(str(folder / "edges.parquet"))
    graph = millpond.graph(edges, source="src", target="dst")
    works: dict[str, Callable[[], object]] = {
        "pagerank": lambda: _written(graph.run(pagerank(rounds=ROUNDS, tolerance=0.0)), folder / "ranks"),
        "components": lambda: _written(graph.run(connected_components()), folder / "parts"),
        "scipy": lambda: _scipy_ranks(folder),
        "scipy_components": lambda: _scipy_components(folder),
    }
    found = dict.fromkeys(works, np.inf)
    for _ in range(options.repeat):
        for name, work in works.items():
            with teller.doing(f"{name} over {count:,} edges"):
                found[name] = min(found[name], timed(work)[0])
    for name, seconds in found.items():
        teller.done(name, count, "edges", seconds)
    _check(folder)
    return {name: round(float(one), 3) for name, one in found.items()}


def _written(frame: DataFrame, path: Path) -> None:
    frame.write.mode("overwrite").parquet(str(path))


def _matrix(folder: Path) -> tuple[np.ndarray, sparse.csr_matrix]:
    table = pq.read_table(folder / "edges.parquet")
    heads, tails = table["src"].to_numpy(), table["dst"].to_numpy()
    ids, places = np.unique(np.concatenate([heads, tails]), return_inverse=True)
    size = len(ids)
    ends = places[: len(heads)], places[len(heads) :]
    return ids, sparse.csr_matrix((np.ones(len(heads)), ends), shape=(size, size))


def _scipy_ranks(folder: Path) -> None:
    ids, matrix = _matrix(folder)
    size = len(ids)
    out = np.asarray(matrix.sum(axis=1)).ravel()
    hanging = out == 0
    incoming = (sparse.diags(np.divide(1.0, out, out=np.zeros(size), where=~hanging)) @ matrix).T.tocsr()
    values = np.full(size, 1.0 / size)
    for _ in range(ROUNDS):
        values = DAMPING * (incoming @ values + values[hanging].sum() / size) + (1 - DAMPING) / size
    pq.write_table(pa.table({"vertex": ids, "rank": values}), folder / "scipy_ranks.parquet")


def _scipy_components(folder: Path) -> None:
    ids, matrix = _matrix(folder)
    _, labels = csgraph.connected_components(matrix, directed=False)
    pq.write_table(pa.table({"vertex": ids, "component": labels}), folder / "scipy_parts.parquet")


def _check(folder: Path) -> None:
    ours = pq.read_table(folder / "ranks").sort_by("vertex")
    theirs = pq.read_table(folder / "scipy_ranks.parquet")
    if not np.allclose(ours["rank"].to_numpy(), theirs["rank"].to_numpy(), rtol=1e-9, atol=1e-15):
        raise BenchmarkError("ranks differ from those of scipy")
    parts = pq.read_table(folder / "parts").sort_by("vertex")
    pairs = np.stack(
        [parts["component"].to_numpy(), pq.read_table(folder / "scipy_parts.parquet")["component"].to_numpy()]
    )
    if not len(np.unique(pairs[0])) == len(np.unique(pairs[1])) == len(np.unique(pairs, axis=1).T):
        raise BenchmarkError("components differ from those of scipy")


def _frame_seconds(spark: SparkSession, teller: Teller, folder: Path, options: Options) -> dict[str, float]:
    """Return the seconds of loops over DataFrames, scaled up from some rounds: a later round costs no less."""
    edges = spark.read.parquet(str(folder / "edges.parquet")).cache()
    size = edges.selectExpr("src as id").union(edges.selectExpr("dst as id")).distinct().count()
    out = edges.groupBy("src").agg(F.count("*").alias("out")).cache()
    links = edges.join(out, "src").cache()
    links.count()

    def ranks_loop() -> None:
        known = edges.selectExpr("src as id").union(edges.selectExpr("dst as id")).distinct()
        known = known.withColumn("rank", F.lit(1.0 / size))
        for _ in range(options.frame_rounds):
            given = links.join(known, links["src"] == known["id"]).selectExpr("dst as id", "rank / out as given")
            pulled = given.groupBy("id").agg(F.sum("given").alias("given"))
            known = known.select("id").join(pulled, "id", "left")
            known = known.select(
                "id", (F.lit((1 - DAMPING) / size) + DAMPING * F.coalesce("given", F.lit(0.0))).alias("rank")
            )
            known = known.localCheckpoint()
        _written(known, folder / "frame_ranks")

    both = edges.union(edges.selectExpr("dst as src", "src as dst")).cache()

    def parts_loop() -> int:
        known = both.selectExpr("src as id", "src as part").distinct().localCheckpoint()
        count = 0
        while True:
            count += 1
            heard = both.join(known, both["src"] == known["id"]).groupBy("dst").agg(F.min("part").alias("heard"))
            fresh = known.join(heard, known["id"] == heard["dst"]).select("id", F.least("part", "heard").alias("part"))
            fresh = fresh.localCheckpoint()
            if fresh.join(known.withColumnRenamed("part", "old"), "id").where("part < old").isEmpty():
                return count
            known = fresh

    with teller.doing("PageRank by DataFrames"):
        ranked = timed(ranks_loop)[0] * ROUNDS / options.frame_rounds
    with teller.doing("components by DataFrames"):
        joined = timed(parts_loop)[0]
    for frame in (edges, out, links, both):
        frame.unpersist()
    teller.say(f"DataFrames: PageRank {ranked:.1f} s, components {joined:.1f} s")
    return {"pagerank": round(ranked, 3), "components": round(joined, 3)}


def _around(graph: GraphFrame, count: int) -> list[Row]:
    return graph.run(Around, until=rounds(count)).collect()


def _superstep(spark: SparkSession, teller: Teller) -> float:
    """Return the seconds of one small round on Spark: many rounds less one, divided by their number."""
    ring = spark.createDataFrame([(one, (one + 1) % RING) for one in range(RING)], "src bigint, dst bigint")
    graph = millpond.graph(ring, source="src", target="dst")
    seconds = {}
    for count in (1, RING_ROUNDS + 1):
        work = partial(_around, graph, count)
        found = [timed(work) for _ in range(3)]
        if {row.value for _, rows in found for row in rows} != {count}:
            raise BenchmarkError("the token did not go as far as it should")
        seconds[count] = min(one for one, _ in found)
    each = max(0.0, seconds[RING_ROUNDS + 1] - seconds[1]) / RING_ROUNDS
    teller.say(f"a round of a ring: {each * 1000:.2f} ms, and {seconds[1]:.2f} s for all that is around rounds")
    return round(each, 6)


def _warm_start(options: Options) -> Figures:
    """Compare rounds from scratch with rounds from the ranks of a snapshot that slid on by a hundredth."""
    heads, tails = power_law(options.edges, options.seed)
    more = power_law(options.edges // 100, options.seed + 1)
    size = options.edges // 10
    before = Compressed.of(heads, tails, vertices=np.arange(size))
    after = Compressed.of(
        np.concatenate([heads[len(more[0]) :], more[0] % size]),
        np.concatenate([tails[len(more[0]) :], more[1] % size]),
        vertices=np.arange(size),
    )
    old = ranks.pagerank(before, tolerance=1e-10, rounds=200)
    cold = ranks.pagerank(after, tolerance=1e-10, rounds=200)
    warm = ranks.pagerank(after, tolerance=1e-10, rounds=200, start=old.ranks)
    if not np.allclose(cold.ranks, warm.ranks, atol=1e-8):
        raise BenchmarkError("a warm start came to other ranks")
    return {"warm_rounds": warm.rounds, "cold_rounds": cold.rounds}
