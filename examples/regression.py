"""Online logistic regression: will a visitor buy? Every copy of the weights learns from its share of the visitors.

The weights are partial state, and a question is answered by their mean. The features of a row are a dict, a column of
Spark's type map. All entry points are exact in the sense of partial state: with one copy a run equals plain Python,
with many it equals that many copies.
"""

from __future__ import annotations

import math
import random
import sys

from rich.console import Console
from rich.table import Table

from examples.rows import Row, play
from millpond import Partial, Program, Vector, each, entry, merged

SEED = 34
ROWS = 6_000
HABITS = {"returning": 1.5, "coupon": 2.0, "night": -1.0, "mobile": 0.0, "bias": -1.5}
"""How visitors decide; the program does not know it."""


def sigmoid(margin: float) -> float:
    """Turn a margin into a probability."""
    return 1 / (1 + math.exp(-margin)) if margin >= 0 else 1 - sigmoid(-margin)


def mean_of_trained(copies: list[Vector[str]]) -> Vector[str]:
    """Average the weights of the copies that learnt something."""
    trained = [copy for copy in copies if copy]
    whole: Vector[str] = Vector()
    for copy in trained:
        whole = whole.add(copy)
    return whole.scaled(1 / max(1, len(trained)))


class Regression(Program):
    """Learns weights by gradient descent, one row at a time."""

    weights = Partial(Vector[str])

    RATE = 0.1

    @entry
    def train(self, features: dict[str, float], bought: bool) -> None:
        """Learn from a visitor."""
        guess = sigmoid(sum(self.weights[name] * value for name, value in features.items()))
        error = float(bought) - guess
        for name, value in features.items():
            self.weights[name] += self.RATE * error * value

    @entry
    def predict(self, features: dict[str, float]) -> float:
        """Answer with the probability that a visitor buys."""
        weights = merged(each(self.weights).scaled(1.0), mean_of_trained)
        return sigmoid(weights.dot(features))


def make_rows(seed: int, count: int) -> list[Row]:
    """Make up visitors who decide by their habits and some chance, and questions."""
    chance = random.Random(seed)
    rows: list[Row] = []
    for _ in range(count):
        features = {name: float(chance.random() < 0.4) for name in HABITS} | {"bias": 1.0}
        bought = chance.random() < sigmoid(sum(HABITS[name] * value for name, value in features.items()))
        rows.append(("predict", (features,)) if chance.random() < 0.2 else ("train", (features, bought)))
    return rows


def main() -> int:
    """Run the class as plain Python, and show what it learnt."""
    model = Regression()
    play(model, make_rows(SEED, ROWS))
    console = Console(highlight=False)
    table = Table("feature", "learnt", "true", title="Weights", title_justify="left")
    for name, weight in HABITS.items():
        table.add_row(name, f"{model.weights[name]:+.2f}", f"{weight:+.2f}")
    console.print(table)
    keen = model.predict({"returning": 1.0, "coupon": 1.0, "bias": 1.0})
    idle = model.predict({"night": 1.0, "bias": 1.0})
    console.print(f"A returning visitor with a coupon buys with {keen:.0%}, one at night without with {idle:.0%}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
