"""Options that benchmarks share, and how their values are read."""

from __future__ import annotations

import argparse

TWS_SECONDS = 60.0


def add_common(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the benchmarks that read files."""
    parser.add_argument("--partitions", type=positive, default=2, help="partitions and cores (default: %(default)s)")
    parser.add_argument(
        "--repeat", type=positive, default=5, help="turns of loop and Millpond; the fastest counts (default: 5)"
    )
    parser.add_argument("--no-tws", action="store_true", help="leave transformWithState out")
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=TWS_SECONDS,
        help="how long transformWithState may take, about (default: %(default)s)",
    )
    add_seed(parser)


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Declare the seed of the input."""
    parser.add_argument("--seed", type=int, default=1, help="seed of the input (default: %(default)s)")


def positive(text: str) -> int:
    """Read a whole number of at least one; `2_000_000` is fine."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, found {number}")
    return number


def positives(text: str) -> tuple[int, ...]:
    """Read numbers of at least one, separated by commas, each once."""
    numbers = tuple(positive(part) for part in text.split(","))
    if len(set(numbers)) != len(numbers):
        raise argparse.ArgumentTypeError(f"expected each number once, found {text}")
    return numbers


def seconds(text: str) -> float:
    """Read a time above zero."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a time above zero, found {text}")
    return number
