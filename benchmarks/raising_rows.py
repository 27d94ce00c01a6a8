"""Raising rows: what 1 % of rows that raise cost beside none, in one step, gathered and after a move; no Spark."""

from __future__ import annotations

import argparse
import gc
import random
import resource
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.data import OUT, work_folder
from benchmarks.options import add_seed, positive
from benchmarks.report import BenchmarkError, Figures, Teller
from millpond import Map, Partitioned, Program, entry
from millpond.compiler.compile import compile_program
from millpond.engine.plan import BadRows
from millpond.engine.simulated import Simulated

NEEDS_SPARK = False

ROWS = 20_000
KEYS = 2_000
EVERY = 100
"""One row in so many raises."""

Row = tuple[str, tuple[int, int]]
Baskets = dict[int, list[int]]


class OneStep(Program):
    """A row changes a value in place, and may raise when that is done."""

    baskets = Partitioned(Map[int, list[int]])

    @entry
    def put(self, key: int, item: int) -> int:
        """Put an item into a basket."""
        basket = self.baskets.setdefault(key, [])
        basket.append(item)
        if len(basket) > 64:
            basket.pop(0)
        if item < 0:
            raise ValueError("no such item")
        return len(basket)


class Gathered(Program):
    """A row changes two values in place, and may raise when that is done."""

    baskets = Partitioned(Map[int, list[int]])

    @entry
    def put(self, key: int, item: int) -> int:
        """Put an item into a basket, and into the one beside it."""
        basket = self.baskets.setdefault(key, [])
        basket.append(item)
        if len(basket) > 64:
            basket.pop(0)
        other = self.baskets.setdefault(key ^ 1, [])
        other.append(item)
        if len(other) > 64:
            other.pop(0)
        if item < 0:
            raise ValueError("no such item")
        return len(basket) + len(other)


class Moved(Program):
    """A row changes a value in place, moves on, and may raise then."""

    baskets = Partitioned(Map[int, list[int]])
    sizes = Partitioned(Map[int, int])

    @entry
    def put(self, key: int, item: int) -> int:
        """Put an item into a basket, and count baskets by size."""
        basket = self.baskets.setdefault(key, [])
        basket.append(item)
        if len(basket) > 64:
            basket.pop(0)
        size = len(basket)
        self.sizes[size] = self.sizes.get(size, 0) + 1
        if item < 0:
            raise ValueError("no such item")
        return self.sizes[size]


CONTESTANTS: Mapping[str, type[Program]] = {"one_step": OneStep, "gathered": Gathered, "moved": Moved}


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes of a run."""

    rows: int = ROWS
    keys: int = KEYS
    partitions: int = 2
    repeat: int = 5
    seed: int = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    parser.add_argument("--rows", type=positive, default=ROWS, help="rows of an epoch (default: %(default)s)")
    parser.add_argument("--keys", type=positive, default=KEYS, help="keys of the rows (default: %(default)s)")
    parser.add_argument("--partitions", type=positive, default=2, help="partitions (default: %(default)s)")
    parser.add_argument("--repeat", type=positive, default=5, help="turns; the cheapest counts (default: %(default)s)")
    add_seed(parser)


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    return Options(args.rows, args.keys, args.partitions, args.repeat, args.seed)


def make_rows(options: Options, every: int) -> list[Row]:
    """Rows over keys, of which one in `every` raises; 0 for none."""
    dice = random.Random(options.seed)
    raising = set(range(every - 1, options.rows, every)) if every else set()
    drawn = [(dice.randrange(options.keys), dice.randrange(1, 2**62)) for _ in range(options.rows)]
    return [("put", (key, -item if at in raising else item)) for at, (key, item) in enumerate(drawn)]


def plain_loop(program: type[Program], rows: Sequence[Row]) -> dict[int, int]:
    """The replies of rows that do not raise, worked on by hand: those that raise are known by their items."""
    plain: Any = program()
    good = [(at, arguments) for at, (_, arguments) in enumerate(rows) if arguments[1] > 0]
    return {at: plain.put(*arguments) for at, arguments in good}


def cpu_seconds() -> float:
    """What this process has spent so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run(options: Options, _spark: SparkSession | None, teller: Teller, out: Path = OUT) -> Figures:
    """Measure and check every way to run rows, with rows that raise and without."""
    figures: Figures = {"benchmark": "raising_rows"}
    with work_folder("raising_rows", out) as folder:
        for name, program in CONTESTANTS.items():
            with teller.doing(f"{name}: {options.rows:,} rows"):
                none, some = measure(program, options, folder / name)
            figures |= {f"{name}_ratio": round(some / none, 3), f"{name}_cpu_s": [round(none, 3), round(some, 3)]}
    return figures | {
        "raising": 1 / EVERY,
        "checked": True,
        "unit": "CPU seconds of an epoch with rows that raise by that of one without, cheapest turn of each",
        "settings": asdict(options),
    }


def measure(program: type[Program], options: Options, folder: Path) -> tuple[float, float]:
    """The least CPU seconds of an epoch without rows that raise, and with them."""
    compiled = compile_program(program)
    shares = {every: make_rows(options, every) for every in (0, EVERY)}
    wanted = {every: plain_loop(program, rows) for every, rows in shares.items()}
    least: dict[int, float] = {}
    for turn in range(options.repeat + 1):
        # One after the other in each turn, so that a slow minute of the machine meets both; the first turn warms up.
        for every, rows in shares.items():
            with suppress(FileNotFoundError):
                shutil.rmtree(folder)
            simulated = Simulated(compiled, folder, options.partitions, bad_rows=BadRows.DEAD_LETTER)
            gc.collect()
            begun = cpu_seconds()
            simulated.epoch(rows)
            spent = cpu_seconds() - begun
            check(simulated, wanted[every], len(rows))
            if turn:
                least[every] = min(spent, least.get(every, spent))
    return least[0], least[EVERY]


def check(simulated: Simulated, wanted: Mapping[int, int], rows: int) -> None:
    """Refuse a run unless it replied what the loop replied, and every other row is a dead letter."""
    if simulated.replies() != wanted:
        raise BenchmarkError("Millpond did not reply what the loop replied")
    if len(simulated.dead_letters["put"].rows()) != rows - len(wanted):
        raise BenchmarkError("Millpond did not make a dead letter of every row that raised")
