"""Many programs about shared objects, judged by the oracle of values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tests.campaigns import Made, Program, parser_of, run
from tests.fuzz.compare import Outcome
from tests.values.compare import compare
from tests.values.grammar import generate
from tests.values.pieces import FEATURES


class Values(Program):
    """A case that is judged by the oracle of values."""

    def run(self) -> Outcome:
        """Compare."""
        return compare(self.text, self.rows, self.seed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign."""
    parser = parser_of("tests.values", "Random programs about shared objects.")
    parser.add_argument("--features", default="", help="with commas; without it, all")
    options = parser.parse_args(arguments)
    features = tuple(options.features.split(",")) if options.features else FEATURES
    words = "" if features == FEATURES else f" --features '{options.features}'"
    return run(options, partial(case_of, features=features), f"python -m tests.values{words}")


def case_of(seed: int, number: int, features: Sequence[str]) -> Made:
    """The program of a number, and the features that it shows."""
    made = generate(seed, number, features)
    return Made(Values(made.text, made.rows, made.seed), made.features)
