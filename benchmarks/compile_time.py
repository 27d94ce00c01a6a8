"""Compile time: ten programs as users write them, in milliseconds and as a multiple of parsing their files."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import linecache
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

from pyspark.sql import SparkSession

from benchmarks.options import positive
from benchmarks.report import BenchmarkError, Figures, Teller, timed
from millpond import Aborted, Program
from millpond.compiler.compile import compile_program
from millpond.compiler.compiled import CompiledProgram
from millpond.engine.sequential import Sequential

PROGRAMS = {
    "bank": "Bank",
    "sessions": "Sessions",
    "shop": "Shop",
    "kmeans": "KMeans",
    "regression": "Regression",
    "trending": "Trending",
    "rate_limiter": "RateLimiter",
    "search_index": "SearchIndex",
    "leaderboard": "Leaderboard",
    "social_feed": "SocialFeed",
}
"""Modules in `examples`, and their programs."""

NEEDS_SPARK = False

TARGET_MS = 100.0
REPEAT = 10
CHECKED_ROWS = 60

EXAMPLES = Path(__file__).parents[1] / "examples"


@dataclass(frozen=True, slots=True)
class Options:
    """How often each program is compiled; the fastest counts."""

    repeat: int = REPEAT


@dataclass(frozen=True, slots=True)
class Times:
    """The fastest times of one program."""

    compile_ms: float
    parse_ms: float

    @property
    def multiple(self) -> float:
        """How many times the file could be parsed while its program is compiled."""
        return round(self.compile_ms / self.parse_ms, 1)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    parser.add_argument(
        "--repeat", type=positive, default=REPEAT, help="turns of each program; the fastest counts (default: 10)"
    )


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    return Options(args.repeat)


@contextmanager
def fresh_module(name: str) -> Iterator[ModuleType]:
    """Load an example anew, under a name of its own: nothing that an earlier compilation left can help."""
    alias = f"fresh_examples_{name}"
    spec = importlib.util.spec_from_file_location(alias, EXAMPLES / f"{name}.py")
    if spec is None or spec.loader is None:
        raise BenchmarkError(f"there is no example {name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[alias] = module
    try:
        spec.loader.exec_module(module)
        linecache.clearcache()
        yield module
    finally:
        del sys.modules[alias]


def program_of(module: ModuleType, name: str) -> type[Program]:
    """Find the program of an example."""
    program: type[Program] = getattr(module, PROGRAMS[name])
    return program


def check_merge(compiled: CompiledProgram, module: ModuleType, name: str) -> None:
    """Refuse a program that is compiled fast and wrong: row by row it must answer as the plain class does."""
    plain, cut = program_of(module, name)(), Sequential(compiled, instances=1)
    for number, (entry, arguments) in enumerate(module.make_rows(1, CHECKED_ROWS)):
        want = answer(partial(getattr(plain, entry), *arguments))
        got = answer(partial(cut.call, entry, *arguments))
        if want != got:
            raise BenchmarkError(f"{name}, row {number}: {entry}{arguments} gives {got!r}, the class {want!r}")


def answer(call: Callable[[], object]) -> object:
    """The reply of a row, or why the program refused it."""
    try:
        return call()
    except Aborted as refusal:
        return f"aborted: {refusal.reason}"


def measure(name: str, options: Options) -> Times:
    """Compile a program and parse its file, some times each."""
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    compiling, parsing = [], []
    for turn in range(options.repeat):
        with fresh_module(name) as module:
            seconds, compiled = timed(partial(compile_program, program_of(module, name)))
            compiling.append(seconds)
            parsing.append(timed(partial(ast.parse, text))[0])
            if turn == 0:
                check_merge(compiled, module, name)
    return Times(round(min(compiling) * 1000, 2), round(min(parsing) * 1000, 3))


def report(times: dict[str, Times], options: Options) -> Figures:
    """Put the times of all programs together."""
    slowest = max(times, key=lambda name: times[name].compile_ms)
    return {
        "benchmark": "compile_time",
        "slowest_ms": times[slowest].compile_ms,
        "median_ms": round(statistics.median(each.compile_ms for each in times.values()), 2),
        "target_ms": TARGET_MS,
        "largest_multiple": max(each.multiple for each in times.values()),
        "slowest": slowest,
        "within_target": times[slowest].compile_ms < TARGET_MS,
        "checked": True,
        "compile_ms": {name: each.compile_ms for name, each in times.items()},
        "ast_parse_ms": {name: each.parse_ms for name, each in times.items()},
        "multiple_of_ast_parse": {name: each.multiple for name, each in times.items()},
        "unit": "milliseconds, fastest turn of each; reading the source is part of it, importing the module is not",
        "settings": asdict(options),
    }


def run(
    options: Options, _spark: SparkSession | None, teller: Teller, programs: Sequence[str] = tuple(PROGRAMS)
) -> Figures:
    """Measure and check all programs."""
    times: dict[str, Times] = {}
    for name in programs:
        with teller.doing(f"compiling {name}"):
            times[name] = measure(name, options)
        told = times[name]
        teller.say(f"{name}: {told.compile_ms:.1f} ms, {told.multiple:.0f} times ast.parse ({told.parse_ms:.2f} ms)")
    return report(times, options)
