"""What `explain` says of ways: a line for each entry point, under any hash seed, and advice that can be taken."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from millpond import Map, Partial, Partitioned, Program, entry, on_timer, on_window
from millpond.program import ProgramBase
from millpond.windowing import ClosedWindow, sum_of, tumbling
from tests.programs import sequence_shops, sequence_structures
from tests.programs.test_world import CASES, name_of
from tests.programs.timed import Alarms, Pledges
from tests.sizes import compile_once

ROOT = Path(__file__).parents[2]
PROGRAMS: list[type[ProgramBase]] = [
    *dict.fromkeys(program for program, _ in CASES),
    *sequence_shops.PROGRAMS,
    *sequence_structures.PROGRAMS,
]
NOT_FOR_HANDLERS = re.compile(r"@entry|relaxed|entry point|feed|column|parameter|argument|abort")


def blocks(program: type[ProgramBase]) -> Iterator[tuple[str, list[str]]]:
    """The entry points of a text, each with what is said of it."""
    for block in program.explain().split("\n\n"):
        first, *lines = block.splitlines()
        if first.startswith("entry "):
            yield first.split()[1].rstrip(":"), [line.strip() for line in lines]


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_each_slower_way_has_a_line_with_its_reason(program):
    graph = compile_once(program).graph
    for name, lines in blocks(program):
        slower = {"in sequence": graph.why_sequence(name), "gathered": graph.why_gathered(name)}
        told = [f"{name}: {way}, because {why}" for way, why in slower.items() if why]
        assert [line for line in lines if line.startswith(f"{name}: ")] == told
        assert len(told) <= 1


def digest() -> str:
    """A hash of all that is said of all programs."""
    return hashlib.sha256("".join(program.explain() for program in PROGRAMS).encode()).hexdigest()


def test_no_text_depends_on_the_hash_seed():
    told = {
        subprocess.run(
            [sys.executable, "-c", "from tests.programs.test_explain import digest; print(digest())"],
            check=True,
            capture_output=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


class Follows(Program):
    """Handlers whose keys follow from state, which walk, visit twice, and meet partial state."""

    heirs = Partitioned(Map[str, str])
    cents = Partitioned(Map[str, int])
    near = Partial(Map[str, int])
    clicks = Partitioned(Map[str, int])

    @entry
    def open(self, name: str, heir: str) -> None:
        self.heirs[name] = heir
        self.dies.set(name, self.now)
        self.walks.set(name, self.now)
        self.visits.set(name, self.now)
        self.spans.add(name, cents=1)

    @on_timer
    def dies(self, name: str, at: datetime) -> None:
        self.cents[self.heirs[name]] = self.cents.pop(name, 0)

    @on_timer
    def walks(self, name: str, at: datetime) -> int:
        return sum(self.cents.values())

    @on_timer
    def visits(self, name: str, at: datetime) -> None:
        other = name.upper()
        self.cents[name] = self.cents.get(other, 0)
        self.near[name] = 1

    @on_window(tumbling("1 minute"), cents=sum_of("cents"))
    def spans(self, name: str, closed: list[ClosedWindow]) -> None:
        for window in closed:
            self.clicks[self.heirs[name]] = int(window["cents"])


@pytest.mark.parametrize("program", [Follows, Alarms, Pledges], ids=name_of)
def test_handlers_are_never_advised_what_they_can_not_have(program):
    handlers = {name for name, point in program.entries().items() if point.timer}
    told = {name: [line for line in lines if line.startswith("hint:")] for name, lines in blocks(program)}
    assert handlers
    for name in handlers:
        assert not [line for line in told[name] if NOT_FOR_HANDLERS.search(line)], name
    if program is Follows:
        assert all(told[name] for name in handlers - {"walks"})


def test_the_reason_names_what_is_followed_and_what_all_rows_share():
    why = dict(blocks(sequence_shops.Carts))["checkout"]
    assert any(
        line.startswith(
            "checkout: in sequence, because self.stock[line.item] follows from self.carts.pop(user, []), "
            "and all rows share self.stock (lines "
        )
        for line in why
    )
