"""Methods of classes that are run beside programs: what is not the same every time is refused at its line."""

from __future__ import annotations

import os
import time
from datetime import datetime
from typing import Any

import pytest

from examples.learning import KMeans, Logistic
from millpond.compiler.front.methods import check_methods
from millpond.errors import ProgramError
from millpond.loops import Loop, Vertex, state


def chosen(rows: list[Any]) -> Any:
    return rows[os.getpid() % len(rows)]


class Base(Loop):
    near: list[int] = state(factory=list)

    def entry(self, rows: list[Any]) -> None:
        begun: datetime = rows[0].at
        self.near = [begun.year]


class Clock(Base):
    def step(self, messages: list[float]) -> None:
        self.near = [int(time.time())]


class Chance(Base):
    def finalize(self) -> int:
        return chosen(self.near)


class Renamed(Base):
    def step(self, messages: list[float]) -> None:
        now = datetime.now
        self.near = [now().year]


class Hashed(Vertex):
    @staticmethod
    def place(name: str) -> int:
        return hash(name)

    def compute(self, messages: list[int]) -> None:
        self.send_out(self.place(self.id))


class Below(Clock):
    def finalize(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("kind", "base", "line"),
    [
        (Clock, Loop, "time.time()"),
        (Chance, Loop, "chosen(self.near)"),
        (Renamed, Loop, "datetime.now"),
        (Hashed, Vertex, "hash(name)"),
        (Below, Loop, "time.time()"),
    ],
)
def test_a_method_that_is_not_the_same_every_time_is_refused_at_its_line(kind, base, line):
    with pytest.raises(ProgramError, match="MP117") as caught:
        check_methods(kind, base)
    assert line in str(caught.value)


@pytest.mark.parametrize("kind", [Base, KMeans, Logistic])
def test_methods_that_are_deterministic_pass(kind):
    check_methods(kind, Loop)
