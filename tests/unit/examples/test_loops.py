"""The examples of loops: π and Fourier against the library, ranks against networkx, clusters and weights by hand."""

from __future__ import annotations

import cmath
import math
import random
from collections import namedtuple

import networkx
import pytest

from examples.iterations import fft, pi
from examples.learning import KMeans, Logistic
from examples.web_ranks import CarriedRank
from millpond.loops import rounds, run_loop, run_vertices, stale, strict, within
from millpond.loops.contexts import Context
from millpond.loops.vertices.edges import Edges
from millpond.loops.vertices.vertex import vertex_rows

PI_100 = "3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170679"


def test_pi():
    assert str(pi(16)) == "3.141592653589793"
    assert str(pi(100))[:100] == PI_100[:100]


@pytest.mark.parametrize("bits", range(7))
def test_a_fourier_transform(bits):
    draw = random.Random(bits)
    values = [complex(draw.uniform(-1, 1), draw.uniform(-1, 1)) for _ in range(1 << bits)]
    size = len(values)
    slow = [sum(v * cmath.exp(-2j * cmath.pi * k * n / size) for n, v in enumerate(values)) for k in range(size)]
    assert all(abs(a - b) < 1e-9 for a, b in zip(fft(list(values)), slow, strict=True))


def test_a_transform_of_three_values_is_refused():
    with pytest.raises(ValueError, match="3"):
        fft([0j, 0j, 0j])


def test_ranks_are_carried_on():
    draw = random.Random(4)
    edges = [(draw.randrange(30), draw.randrange(30)) for _ in range(90)]
    edges += [(one, (one + 1) % 30) for one in range(30)]
    until = within(1e-9, of="change") | rounds(500)
    cold = run_vertices(CarriedRank, edges, until=until)
    expected = networkx.pagerank(networkx.MultiDiGraph(edges), tol=1e-13, max_iter=500)
    assert {key: one.rank / 30 for key, one in cold.items()} == pytest.approx(expected, abs=1e-8)
    first = Context(CarriedRank, until)
    first.enter(vertex_rows(Edges.of([(a, 0, (b, None, None)) for a, b in edges]), directed=True))
    first.advance()
    changed = [*edges[1:], (3, 4)]
    warm = Context(CarriedRank, until, carried=first.persisted())
    warm.enter(vertex_rows(Edges.of([(a, 0, (b, None, None)) for a, b in changed]), directed=True))
    warm.advance()
    again = run_vertices(CarriedRank, changed, until=until)
    for key, one in warm.results().items():
        assert one.rank == pytest.approx(again[key].rank, abs=1e-6)
    assert warm.round < again[0].rounds


Point = namedtuple("Point", "x y")  # noqa: PYI024
Sample = namedtuple("Sample", "x label")  # noqa: PYI024


def test_clusters_settle():
    draw = random.Random(2)
    around = [(0.0, 0.0), (10.0, 5.0)]
    points = [Point(x + draw.gauss(0, 1), y + draw.gauss(0, 1)) for _ in range(40) for x, y in around]
    rows = {worker: points[worker::4] for worker in range(4)}
    (centres,) = run_loop(KMeans, rows, until=within(1e-9, of="moved") | rounds(200)).values()
    assert sorted(one.points for one in centres) == [40, 40]
    for one, (x, y) in zip(sorted(centres), around, strict=True):
        assert math.dist(one[:2], (x, y)) < 1
    means = [sum(p.x for p in points[place::2]) / 40 for place in range(2)]
    assert sorted(one.x for one in centres) == pytest.approx(means)


@pytest.mark.parametrize("synchrony", [strict, stale(2), stale(5)])
def test_stale_gradients_learn_the_same(synchrony):
    draw = random.Random(9)
    samples = []
    for _ in range(300):
        x = draw.uniform(-3, 3)
        samples.append(Sample(x, float(draw.random() < 1 / (1 + math.exp(-(1 + 2 * x))))))
    rows = {worker: samples[worker::6] for worker in range(6)}
    (found,) = run_loop(Logistic, rows, until=rounds(1200), synchrony=synchrony).values()
    slopes = [
        sum((1 / (1 + math.exp(-(found.bias + found.slope * x))) - label) * f for x, label in samples) / 300
        for f in (1.0,)
    ]
    assert abs(slopes[0]) < 0.01, "the gradient is gone"
    assert found.slope == pytest.approx(2, abs=0.6)
    assert found.bias == pytest.approx(1, abs=0.6)
