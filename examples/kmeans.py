"""Online k-means: every copy of the centroids moves towards the points it meets; a question is answered by their mean.

The centroids are partial state. A copy that sees a share of the points finds nearly the centroids that one copy would
find, which is what partial state is for; how near depends on the number of copies. All entry points are exact in the
sense of partial state: with one copy a run equals plain Python, with many it equals that many copies.
"""

from __future__ import annotations

import math
import random
import sys
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from examples.rows import Row, play
from millpond import Partial, Program, Value, each, entry, merged

SEED = 21
ROWS = 4_000
HEARTS = ((2.0, 2.0), (8.0, 3.0), (5.0, 9.0))
"""The centres that points are drawn around; the program does not know them."""


@dataclass
class Cluster:
    """A centroid, and how many points moved it."""

    x: float
    y: float
    points: int


def start() -> list[Cluster]:
    """Place the centroids before any point is known."""
    return [Cluster(0.0, 0.0, 0), Cluster(10.0, 0.0, 0), Cluster(5.0, 10.0, 0)]


def nearest(clusters: list[Cluster], x: float, y: float) -> int:
    """Choose the cluster whose centroid is nearest; the lower number wins a tie."""
    distances = [math.dist((x, y), (cluster.x, cluster.y)) for cluster in clusters]
    return distances.index(min(distances))


def weighted(copies: list[list[Cluster]]) -> list[Cluster]:
    """Make one set of centroids of all copies: means, weighted by the points that each copy saw."""
    return [mean(list(same)) for same in zip(start(), *filter(None, copies), strict=True)]


def mean(clusters: list[Cluster]) -> Cluster:
    """Weigh centroids by their points; the first stays where it is if there are none."""
    points = sum(cluster.points for cluster in clusters)
    if points == 0:
        return clusters[0]
    x = sum(cluster.x * cluster.points for cluster in clusters) / points
    y = sum(cluster.y * cluster.points for cluster in clusters) / points
    return Cluster(x, y, points)


class KMeans(Program):
    """Learns centroids from a stream of points."""

    model = Partial(Value[list[Cluster]])

    @entry
    def learn(self, x: float, y: float) -> None:
        """Move the nearest centroid towards a point."""
        if not self.model.is_set():
            self.model.set(start())
        clusters = self.model.get([])
        cluster = clusters[nearest(clusters, x, y)]
        cluster.points += 1
        cluster.x += (x - cluster.x) / cluster.points
        cluster.y += (y - cluster.y) / cluster.points

    @entry
    def assign(self, x: float, y: float) -> int:
        """Answer with the cluster of a point."""
        return nearest(merged(each(self.model).get([]), weighted), x, y)

    @entry
    def centroids(self) -> list[Cluster]:
        """Answer with all centroids."""
        return merged(each(self.model).get([]), weighted)


def make_rows(seed: int, count: int) -> list[Row]:
    """Make up points around the hearts, most of them around the first, and questions."""
    chance = random.Random(seed)
    rows: list[Row] = []
    for _ in range(count):
        ((x, y),) = chance.choices(HEARTS, (3, 2, 1))
        point = (chance.gauss(x, 0.8), chance.gauss(y, 0.8))
        (kind,) = chance.choices(("learn", "assign", "centroids"), (20, 4, 1))
        rows.append((kind, () if kind == "centroids" else point))
    return rows


def main() -> int:
    """Run the class as plain Python, and show what it found."""
    model = KMeans()
    play(model, make_rows(SEED, ROWS))
    console = Console(highlight=False)
    table = Table("cluster", "points", "found", "drawn around", title="Centroids", title_justify="left")
    for number, cluster in enumerate(model.centroids()):
        heart = min(HEARTS, key=lambda heart: math.dist(heart, (cluster.x, cluster.y)))
        found = f"{cluster.x:.2f}, {cluster.y:.2f}"
        table.add_row(str(number), f"{cluster.points:,}", found, f"{heart[0]:.2f}, {heart[1]:.2f}")
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
