"""Value copies: what it costs a task's loop that state holds values, beside the same loop without that rule."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.options import positive
from benchmarks.report import BenchmarkError, Figures, Teller
from millpond import Map, Partitioned, Program, entry
from millpond.compiler.analysis.owned import find_owned
from millpond.compiler.back.codegen import generate
from millpond.compiler.compile import draft_program
from millpond.compiler.compiled import CompiledProgram
from millpond.state.rowentries import RowEntries

NEEDS_SPARK = False
TARGET = 1.02
KEYS = 50
EVENTS = 1_000
REPEAT = 9


@dataclass
class Event:
    """What a key keeps many of; it could be changed."""

    amount: int
    tags: list[str]


class Sums(Program):
    """Values that can't be changed."""

    state = Partitioned(Map[str, int])

    @entry
    def add(self, key: str, amount: int) -> None:
        """Add to a sum."""
        self.state[key] = self.state.get(key, 0) + amount


class Amounts(Program):
    """Lists of values that can't be changed."""

    state = Partitioned(Map[str, list[int]])

    @entry
    def add(self, key: str, amount: int) -> None:
        """Append to a list."""
        self.state.setdefault(key, []).append(amount)


class Events(Program):
    """Lists of objects that could be changed."""

    state = Partitioned(Map[str, list[Event]])

    @entry
    def add(self, key: str, amount: int) -> None:
        """Append a new object to a list."""
        event = Event(amount, [key])
        self.state.setdefault(key, []).append(event)


PROGRAMS: dict[str, type[Program]] = {
    "Map[str, int]": Sums,
    "Map[str, list[int]]": Amounts,
    "Map[str, list[Event]]": Events,
}


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes of a run, and how often each loop is run; the median counts."""

    keys: int = KEYS
    events: int = EVENTS
    repeat: int = REPEAT


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    parser.add_argument("--keys", type=positive, default=KEYS, help="number of keys")
    parser.add_argument("--events", type=positive, default=EVENTS, help="rows of each key")
    parser.add_argument("--repeat", type=positive, default=REPEAT, help="turns of each loop; the median counts")


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    return Options(args.keys, args.events, args.repeat)


def compiled_pair(program: type[Program]) -> tuple[CompiledProgram, CompiledProgram]:
    """Compile a program as it is, and as if nobody asked for values."""
    draft = draft_program(program, find_owned)
    without = replace(draft, methods=tuple(replace(method, renews={}) for method in draft.methods))
    ruled, bare = generate(draft).compiled, generate(without).compiled
    assert ruled is not None
    assert bare is not None
    return ruled, bare


def loop(compiled: CompiledProgram, columns: Sequence[list[Any]]) -> tuple[float, dict[Any, Any]]:
    """Run all rows of a task on a container of its own; the seconds of CPU, and what is in state then."""
    (task,) = compiled.entries["add"].tasks
    kind = compiled.elements["state"].type
    held: dict[Any, Any] = kind.bare()
    container = RowEntries(held, kind.values) if "state" in task.renews else held
    out: list[Any] = []
    start = time.process_time()
    task.function(out, container, *columns)
    return time.process_time() - start, held


def measure(program: type[Program], options: Options) -> dict[str, float | bool]:
    """Run a program's loop with the rule and without it, in turns."""
    rows = [(f"key {row % options.keys}", row) for row in range(options.keys * options.events)]
    columns = [list(column) for column in zip(*rows, strict=True)]
    ruled, bare = compiled_pair(program)
    plain = program()
    for key, amount in rows[: 10 * options.keys]:
        plain.add(key, amount)  # type: ignore[attr-defined]
    _, held = loop(ruled, [column[: 10 * options.keys] for column in columns])
    if held != dict(plain.state.items()):  # type: ignore[attr-defined]
        raise BenchmarkError(f"{program.__name__} leaves other state than its class")
    with_rule, without = [], []
    for _ in range(options.repeat):
        without.append(loop(bare, columns)[0])
        with_rule.append(loop(ruled, columns)[0])
    looked = bool(ruled.entries["add"].tasks[0].renews)
    ratio = statistics.median(with_rule) / statistics.median(without)
    return {"ratio": round(ratio, 4), "seconds": round(statistics.median(with_rule), 4), "looks_at_row_ends": looked}


def run(options: Options, _spark: SparkSession | None, teller: Teller) -> Figures:
    """Measure and check all programs."""
    found = {}
    for name, program in PROGRAMS.items():
        with teller.doing(f"running {name}"):
            found[name] = measure(program, options)
        teller.say(f"{name}: {found[name]['ratio']:.3f} of the loop without the rule")
    largest = max(figures["ratio"] for figures in found.values())
    return {
        "benchmark": "value_copies",
        "largest_ratio": largest,
        "target_ratio": TARGET,
        "within_target": largest <= TARGET,
        "checked": True,
        "by_type": found,
        "unit": "CPU seconds of a task's loop, median of the turns",
        "settings": asdict(options),
    }
