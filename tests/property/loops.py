"""Generated loops and graphs, each against an oracle that shares no code with the room (`-m tests.property.loops`).

A case is a number: it says what is iterated, which rows there are and in which order they come, how the stream is cut,
how many rounds an epoch may run, and after which turns everything goes through bytes, as a checkpoint has it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from datetime import timedelta

import networkx
import numpy as np
import pytest

from millpond.keygroups import microseconds
from millpond.loops import fixpoint, run_loop, stale
from millpond.loops.combining import shard_of
from millpond.loops.kinds import LoopKind
from millpond.loops.lanes import Lane, entered, turn
from millpond.loops.vertices.components import connected_components
from millpond.loops.vertices.compressed import Compressed
from millpond.loops.vertices.cores import core_numbers, triangles
from millpond.loops.vertices.paths import shortest_paths
from millpond.loops.vertices.ranks import pagerank
from millpond.state.codec.valuecodec import ValueCodec
from tests.programs.looped import LENGTH, START, Spread, carried_kind, carried_of, made_up, spread_kind, spread_of
from tests.programs.sharded import check_shards

WINDOW = LENGTH * 1_000_000
KINDS = ((spread_kind, spread_of), (carried_kind, carried_of))
ZERO = microseconds(START)


class Stream:
    """Rows that come in epochs to the lane of a loop, as a program has it; late ones let windows begin anew."""

    def __init__(self, kind: LoopKind, draw: random.Random, lateness: int) -> None:
        self.kind, self.draw, self.lateness = kind, draw, lateness
        self.budget = draw.choice([None, 1, 2, 5])
        self.held, self.lane, self.table = {}, None, {}
        self.rows, self.told, self.leaving = {}, {}, []
        self.codec = ValueCodec(
            tuple[
                dict[tuple[int, int], kind.stored_type], dict[tuple[int, int], int],
                dict[tuple[int, int], list[tuple[kind.result_hints]]], kind.carried_type,
                dict[tuple[int, int], kind.carried_type],
            ]
        )  # fmt: skip

    def epoch(self, rows, watermark):
        """Take rows in, and close what the watermark has passed."""
        for moment, key, target in rows:
            at = microseconds(moment)
            begin = ZERO + (at - ZERO) // WINDOW * WINDOW
            own = self.rows.setdefault((begin, begin + WINDOW), {}).setdefault(shard_of(key), [])
            own.append((key, at, (target,)))
        for window, shards in self.rows.items():
            for shard, own in shards.items():
                if window[1] <= watermark and self.told.get((window, shard)) != len(own):
                    self.told[window, shard] = len(own)
                    mixed = self.draw.sample(own, len(own))
                    self.held = entered(self.held, window, shard, self.kind.pack(mixed))
        return self.go_on(watermark)

    def go_on(self, watermark):
        """Take a turn; say whether there is more to do."""
        done = turn(self.kind, self.held, self.lane, self.budget, until=watermark, lateness=self.lateness, shares=True)
        self.held, self.lane = done.entered, done.lane
        if self.draw.random() < 0.5:
            self.lane = Lane(*self.codec.decode(self.codec.encode(tuple(done.lane))))
        fresh = {}
        for window, change, row in done.rows:
            fresh.setdefault((window, change), []).append(row)
        for (window, change), own in fresh.items():
            assert change == ("correct" if window in self.table else "tell"), (window, change)
            if change == "tell":
                self.leaving.append(window)
            self.table[window] = own
        return done.more

    def results(self):
        """Return what a table of results holds."""
        return sorted(((window[0] - ZERO) // WINDOW, *row) for window, own in self.table.items() for row in own)


def windows_case(seed: int) -> None:
    """Check a loop over windows on some cut of its rows."""
    draw = random.Random(seed)
    make, oracle = draw.choice(KINDS)
    late = draw.choice([0, 0, 25])
    rows = made_up(draw.randrange(10**6), draw.randrange(2, 70), keys=draw.choice([2, 5, 12, 40]), disorder=late)
    stream = Stream(make(), draw, 10**12 if late else 0)
    place, highest = 0, rows[0][0] if rows else START
    while place < len(rows):
        many = draw.randrange(1, 1 + max(1, len(rows) // 3))
        part = rows[place : place + many]
        place += many
        highest = max(highest, *(moment for moment, _, _ in part))
        stream.epoch(part, microseconds(highest))
    end = microseconds(START + timedelta(hours=1))
    more = stream.epoch([], end)
    while more:
        more = stream.go_on(end)
    assert stream.results() == oracle(rows), seed
    if not late:
        assert stream.leaving == sorted(stream.leaving), seed


def stale_case(seed: int) -> None:
    """Check that a monotone loop comes to its fixpoint however stale it is."""
    draw = random.Random(seed)
    moved = made_up(seed, draw.randrange(1, 90), keys=draw.choice([3, 20, 60]), seconds=10)
    rows: dict[int, list[int]] = {}
    for _, key, target in moved:
        rows.setdefault(key, []).append(target)
    kind = spread_kind()
    named = {key: [kind._row(target) for target in own] for key, own in rows.items()}
    found = run_loop(Spread, named, until=fixpoint(), synchrony=stale(draw.randrange(1, 9)))
    assert {key: one.least for key, one in found.items()} == {key: least for _, key, least, _ in spread_of(moved)}, seed


def graph_case(seed: int) -> None:
    """Check what is ready made on a graph with loops, parallel edges and isolated vertices."""
    draw = random.Random(seed)
    size = draw.choice([1, 3, 12, 40])
    edges = [(draw.randrange(size), draw.randrange(size), float(draw.randrange(5))) for _ in range(draw.randrange(90))]
    columns = [np.array([one[place] for one in edges], dtype=kind) for place, kind in enumerate((int, int, float))]
    graph = Compressed.of(*columns, vertices=np.arange(size))
    other = networkx.MultiDiGraph()
    other.add_nodes_from(range(size))
    other.add_weighted_edges_from(edges)
    plain = networkx.Graph(other)
    plain.remove_edges_from(list(networkx.selfloop_edges(plain)))
    parts = {one: min(group) for group in networkx.connected_components(plain) for one in group}
    assert dict(enumerate(connected_components(graph).tolist())) == parts, seed
    assert dict(enumerate(triangles(graph).tolist())) == networkx.triangles(plain), seed
    assert dict(enumerate(core_numbers(graph).tolist())) == networkx.core_number(plain), seed
    far = networkx.single_source_dijkstra_path_length(other, 0)
    found = {key: one for key, one in enumerate(shortest_paths(graph, [0]).tolist()) if one < np.inf}
    assert found == far, seed
    ranks = networkx.pagerank(other, tol=1e-12, max_iter=1000)
    assert dict(enumerate(pagerank(graph, tolerance=1e-13, rounds=1000).ranks)) == pytest.approx(ranks, abs=1e-8), seed


def check(seed: int) -> None:
    """Check one case: mostly windows."""
    (windows_case, windows_case, windows_case, stale_case, graph_case, check_shards)[seed % 6](seed)


def main() -> int:
    """Check cases, and print how many differ from their oracle as JSON."""
    parser = argparse.ArgumentParser(description="generated loops and graphs, against oracles")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    wrong = []
    for number in range(options.count):
        seed = options.seed * 1_000_000 + number
        try:
            check(seed)
        except AssertionError:
            wrong.append(seed)
    sys.stdout.write(json.dumps({"cases": options.count, "mismatches": len(wrong), "seeds": wrong[:10]}) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
