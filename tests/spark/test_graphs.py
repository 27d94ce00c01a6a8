"""Graphs over DataFrames: a batch as a whole, snapshots of it, and a stream with a restart."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import networkx
import pyarrow as pa
import pytest

import millpond
from millpond import EventTime, parquet
from millpond.errors import LoopError
from millpond.loops import Vertex, connected_components, degrees, fixpoint, pagerank, shortest_paths, state
from tests.spark.feeding import stream_of, write_part

pytestmark = pytest.mark.usefixtures("in_utc")

START = datetime(2024, 1, 1, tzinfo=UTC)


class Least(Vertex):
    combine = min
    least: int = state(10**9)

    def compute(self, messages: list[int]) -> None:
        heard = min([*messages, self.id])
        if heard < self.least:
            self.least = heard
            self.send_out(heard)

    def finalize(self) -> int:
        return self.least


def made_up(count=200, keys=60):
    draw = random.Random(8)
    return [
        (START + timedelta(seconds=40 * n / count), draw.randrange(keys), draw.randrange(keys), 1.0 + n % 3)
        for n in range(count)
    ]


def table(rows):
    at, source, target, weight = zip(*rows, strict=True)
    whole = pa.array(source, pa.int32()), pa.array(target, pa.int64())
    return pa.table({"at": pa.array(at, pa.timestamp("us", tz="UTC")), "src": whole[0], "dst": whole[1], "km": weight})


def components(rows):
    made = networkx.Graph([(a, b) for _, a, b, _ in rows])
    return {one: min(group) for group in networkx.connected_components(made) for one in group}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rows = made_up()
    made = tmp_path_factory.mktemp("edges")
    for number in range(2):
        write_part(made, number, table(rows[number * 100 : number * 100 + 100]))
    return made


def test_a_whole_batch(spark, folder):
    edges = spark.read.parquet(str(folder))
    graph = millpond.graph(
        edges, source="src", target="dst", weight="km", vertices=spark.createDataFrame([(99,)], ["id"])
    )
    found = graph.run(pagerank(tolerance=1e-13, rounds=500))
    assert found.columns == ["vertex", "rank"]
    other = networkx.MultiDiGraph()
    other.add_node(99)
    other.add_weighted_edges_from([(a, b, km) for _, a, b, km in made_up()])
    assert dict(found.collect()) == pytest.approx(networkx.pagerank(other, tol=1e-13, max_iter=500), abs=1e-9)
    least = graph.run(Least, until=fixpoint(), directed=False)
    assert dict(least.collect()) == {**components(made_up()), 99: 99}


def test_snapshots_of_a_batch_and_of_a_stream_are_the_same(spark, folder, tmp_path):
    edges = spark.read.parquet(str(folder))
    source = {"source": "src", "target": "dst", "weight": "km"}
    batch = millpond.graph(edges, **source, time="at").snapshots("10 seconds", growing=True)
    expected = sorted(batch.run(connected_components()).collect())
    seconds = {row.window_begin: {} for row in expected}
    for row in expected:
        seconds[row.window_begin][row.vertex] = row.component
    for place, found in enumerate(seconds[begin] for begin in sorted(seconds)):
        assert found == components(made_up()[: 50 * (place + 1)])
    for last in (False, True):
        stream = millpond.graph(
            stream_of(spark, folder), **source, time=EventTime("at"), partitions=4 if last else 2
        ).snapshots("10 seconds", growing=True)
        stream.job(
            connected_components(), to=parquet(tmp_path / "out"), checkpoint=tmp_path / "ck",
            local_root=tmp_path / "local",
        ).run(close=last)  # fmt: skip
    assert sorted(spark.read.parquet(str(tmp_path / "out")).collect()) == expected


def test_sliding_snapshots(spark, folder):
    edges = spark.read.parquet(str(folder))
    graph = millpond.graph(edges, source="src", target="dst", time="at")
    found = graph.snapshots("20 seconds", sliding="10 seconds", directed=False).run(degrees()).collect()
    assert len({row.window_begin for row in found}) == 5
    assert sum(row.out_degree for row in found) == 2 * sum(2 - (a == b) for _, a, b, _ in made_up())


@pytest.mark.parametrize(
    "call",
    [
        lambda graph: graph(source="src", target="at"),
        lambda graph: graph(source="src", target="nowhere"),
        lambda graph: graph(source="src", target="dst").snapshots("1 s"),
        lambda graph: graph(source="src", target="dst").run(Least),
        lambda graph: graph(source="src", target="dst").run(pagerank(), until=fixpoint()),
        lambda graph: graph(source="src", target="dst", removed="km").run(pagerank()),
        lambda graph: graph(source="src", target="dst", time="at").snapshots("1 s", sliding="1 s", growing=True),
    ],
)
def test_what_can_not_be_a_graph_is_refused(spark, folder, call):
    edges = spark.read.parquet(str(folder))
    with pytest.raises(LoopError, match="MP867"):
        call(lambda **columns: millpond.graph(edges, **columns))


def test_a_source_that_is_not_there_is_far_from_all(spark, folder):
    edges = spark.read.parquet(str(folder))
    found = millpond.graph(edges, source="src", target="dst").run(shortest_paths([10**6])).collect()
    assert {row.distance for row in found} == {float("inf")}
