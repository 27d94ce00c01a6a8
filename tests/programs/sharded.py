"""Loops for tests in shards that post to each other, in any order, and in one place."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from typing import ClassVar

from millpond.keygroups import microseconds
from millpond.loops import Loop, Vertex, fixpoint, rounds, run_loop, stale, state, strict, when, within
from millpond.loops.combining import SHARDS
from millpond.loops.kinds import LoopKind
from millpond.loops.shards import Shards
from millpond.loops.vertices.kinds import VertexKind

WINDOW = (microseconds(datetime(2024, 1, 1, tzinfo=UTC)), microseconds(datetime(2024, 1, 2, tzinfo=UTC)))


class Shares(Loop):
    """Floats whose sums depend on their order, an aggregate of them, and votes."""

    combine = sum
    aggregators: ClassVar = {"change": sum, "most": max, "both": lambda one, other: (one[0] + other[0], other[1])}
    near: list[int] = state(factory=list)
    share: float = state(0.0)
    seen: float = state(0.0)

    def entry(self, rows: list) -> None:
        self.near = [row.target for row in rows]
        self.share = 1.0 / (1 + self.key)
        self.send_all(self.near, self.share / len(rows))

    def step(self, messages: list[float]) -> None:
        before, self.share = self.share, 0.15 + 0.85 * messages[0]
        self.seen = self.aggregated("change", -1.0) + self.aggregated("both", (0.0, ""))[0]
        self.report("change", abs(self.share - before))
        self.report("most", self.share)
        self.report("both", (self.share, str(self.key)))
        self.vote(self.share < 0.9)
        if self.near:
            self.send_all(self.near, self.share / len(self.near))

    def finalize(self) -> list[float]:
        return [self.share, self.seen, float(self.round)]


class Heard(Loop):
    """Messages that are not combined: their order is kept."""

    near: list[int] = state(factory=list)
    heard: list[int] = state(factory=list)

    def entry(self, rows: list) -> None:
        self.near = [row.target for row in rows]
        for place, target in enumerate(self.near):
            self.send(target, 100 * self.key + place)

    def step(self, messages: list[int]) -> None:
        self.heard.extend(messages)
        for message in messages:
            if message % 3 and self.near:
                self.send(self.near[message % len(self.near)], message // 2)

    def finalize(self) -> list[int]:
        return self.heard or [-1]


def graph(seed, keys, edges):
    draw = random.Random(seed)
    rows = {}
    for _ in range(edges):
        rows.setdefault(draw.randrange(keys), []).append(draw.randrange(keys))
    return rows


def exchanged(loop, rows, until, synchrony, draw):
    """Let shards post to each other, each going on as soon as it has all posts of a turn, in any order."""
    kind = LoopKind(loop, until, synchrony, key=int, columns={"target": int})
    return posted(kind, [(key, at, (target,)) for key, own in rows.items() for at, target in enumerate(own)], draw)


def posted(kind, rows, draw):
    """Let the shards of a kind post to each other."""
    shards, packed = Shards(kind), {}
    for row in rows:
        for shard in kind.shards(row[0], row[2]):
            packed.setdefault(shard, []).append(row)
    desks = {shard: {sender: [] for sender in range(SHARDS)} for shard in range(SHARDS)}
    stored, found = {}, []
    for shard in draw.sample(range(SHARDS), SHARDS):
        own = packed.get(shard)
        step = shards.begin(WINDOW, shard, None if own is None else kind.pack(own), {})
        stored[shard] = step.stored
        for to, post in step.posts.items():
            desks[to][shard].append(post)
    while ready := [shard for shard in stored if all(desks[shard].values())]:
        shard = draw.choice(ready)
        posts = {sender: came.pop(0) for sender, came in desks[shard].items()}
        step = shards.turn(WINDOW, shard, stored.pop(shard), posts, {})
        found += step.rows
        if step.stored is not None:
            stored[shard] = step.stored
            for to, post in step.posts.items():
                desks[to][shard].append(post)
    assert not stored, "some shard waits for ever"
    assert not any(came for desk in desks.values() for came in desk.values()), "posts were left"
    return sorted(found)


class Reached(Vertex):
    """How many edges come to a vertex and leave it, and the least sum of weights on a way from vertex 0."""

    combine = min
    far: float = state(math.inf)

    def compute(self, messages: list[float]) -> None:
        nearer = 0.0 if self.id == 0 else min(messages, default=math.inf)
        if nearer < self.far:
            self.far = nearer
            for target, weight in self.edges:
                self.send(target, nearer + (1.0 if weight is None else weight))

    def finalize(self) -> list[float]:
        return [self.far, float(self.in_degree), float(len(self.edges))]


def alone(loop, rows, until, synchrony):
    kind = LoopKind(loop, until, synchrony, key=int, columns={"target": int})
    named = {key: [kind._row(target) for target in targets] for key, targets in rows.items()}
    found = run_loop(loop, named, until=until, synchrony=synchrony)
    return sorted(row for key, result in found.items() for row in kind.keyed(key, result))


CONDITIONS = [
    fixpoint(),
    rounds(7),
    rounds(0),
    within(0.5, of="change") | rounds(30),
    when(all) | rounds(9),
    when(any) & within(2.0, of="most") | rounds(12),
]


def check_shards(seed: int) -> None:
    """Check that a generated loop comes to the same bits in shards as in one place."""
    draw = random.Random(seed)
    loop = draw.choice([Shares, Heard])
    until = rounds(8) | draw.choice(CONDITIONS) if loop is Shares else draw.choice([rounds(5), rounds(9) | fixpoint()])
    synchrony = draw.choice([strict, strict, stale(1), stale(3)])
    keys = draw.choice([1, 4, 60])
    rows = graph(seed, keys, draw.choice([1, 9, 150]))
    assert exchanged(loop, rows, until, synchrony, draw) == alone(loop, rows, until, synchrony), seed


def check_vertices(seed: int) -> None:
    """Check that a program of vertices gives the same in shards as in one place; some edges are removed again."""
    draw = random.Random(seed)
    size, directed = draw.choice([1, 5, 40]), draw.random() < 0.5
    rows = [(draw.randrange(size), at, (draw.randrange(size), float(draw.randrange(9)), None)) for at in range(60)]
    rows += [(one, 60, (other[0], None, True)) for one, _, other in draw.sample(rows, 9)]
    kind = VertexKind(Reached, fixpoint(), draw.choice([strict, stale(2)]), vertex=int, directed=directed)
    shard = {0: kind.pack(rows)}
    one = kind.begin(WINDOW, shard, {})
    one.advance(None)
    assert posted(kind, rows, draw) == sorted(one.rows()), seed
