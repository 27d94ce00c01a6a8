"""What random programs call besides state: functions of the module, constants and helper methods."""

from __future__ import annotations

import re
from typing import Final

HEAD: Final = """\
from __future__ import annotations

from dataclasses import dataclass

from millpond.program import Partial, Partitioned, ProgramBase as Program, each, entry, merged
from millpond.state.containers.counter import Counter
from millpond.state.containers.list import List
from millpond.state.containers.map import Map
from millpond.state.containers.matrix import Matrix
from millpond.state.containers.set import Set
from millpond.state.containers.value import Value
from millpond.state.containers.vector import Vector
"""

FUNCTIONS: Final[dict[str, str]] = {
    "Point": """\
@dataclass
class Point:
    x: int
    y: int

    def total(self) -> int:
        return self.x + self.y
""",
    "clip": "def clip(number: int) -> int:\n    return number % 7\n",
    "same": "def same(value):\n    return value\n",
    "swap": "def swap(pair: tuple[int, int]) -> tuple[int, int]:\n    first, second = pair\n    return second, first\n",
    "word": 'def word(number: int, text: str = "x") -> str:\n    return text[:2] + str(number % 3)\n',
    "deep": "def deep(number: int) -> int:\n    return 0 if number <= 0 else 1 + deep(number // 2)\n",
    "largest": "def largest(values: list[int]) -> int:\n    return sorted(values)[-1]\n",
    "fold": """\
def fold(items: list[int]) -> int:
    total = 0
    for item in items:
        if item == 5:
            continue
        total = (total * 3 + item) % 1009
    return total
""",
    "bump": """\
def bump(items: list[int]) -> int:
    items.append(len(items) % 5)
    return len(items) if len(items) < 7 else items.pop(0)
""",
    "grow": """\
def grow(table: dict[str, int]) -> int:
    table["z"] = table.get("z", 0) % 9 + 1
    return len(table)
""",
    "add_vectors": """\
def add_vectors(vectors: list[Vector[int]]) -> Vector[int]:
    total = Vector()
    for vector in vectors:
        total = total.add(vector)
    return total
""",
}
MEMBERS: Final[dict[str, str]] = {
    "LIMIT": "LIMIT = 6\n",
    "NAME": 'NAME = "b"\n',
    "_clip": """\
def _clip(self, number: int) -> int:
    if number > self.LIMIT:
        return number % self.LIMIT
    return number
""",
    "_mix": """\
@staticmethod
def _mix(left: int, right: int) -> int:
    return (left * 5 + right) % 103
""",
}


def used(pool: dict[str, str], text: str) -> list[str]:
    """The texts of a pool that a program needs, those that need others included, in the pool's order."""
    needed: set[str] = set()
    waiting = [text]
    while waiting:
        read = waiting.pop()
        for name in pool.keys() - needed:
            if re.search(rf"\b{name}\b", read):
                needed.add(name)
                waiting.append(pool[name])
    return [pool[name] for name in pool if name in needed]
