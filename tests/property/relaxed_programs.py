"""Relaxed programs out of numbers: reads and writes of one key in loops, branches, comprehensions and helpers.

What was read goes on into later statements, so that a row shows it if another came in between. Half of the loops carry
nothing from turn to turn: those may be sent away all at once.
"""

from __future__ import annotations

import random
from typing import Final

HEAD: Final = """from millpond import Counter, Map, Matrix, Partitioned, Program, Set, Value, entry


class Made(Program):
    a = Partitioned(Map[int, int])
    b = Partitioned(Map[int, int])
    names = Partitioned(Map[str, int])
    count = Partitioned(Counter[int])
    seen = Partitioned(Set[int])
    grid = Partitioned(Matrix[int, int, int], by="row")
    last = Partitioned(Value[int])

    def _bump(self, key: int, by: int) -> int:
        was = self.a.get(key, 0)
        self.a[key] = was + by
        return was

    def _take(self, key: int) -> bool:
        if key in self.seen:
            return False
        self.seen.add(key)
        return True
"""

KEYS: Final = ("x", "y", "x % 2", "(x + y) % 3", "min(x, y)", "abs(y)", "max(xs, default=0)", "(xs[0] if xs else x)")
IN_LOOP: Final = ("i", "i", "i", "i", "(i + x) % 3", "abs(i)", "x")


class Maker:
    """Writes one program; the same seed writes the same."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._lines: list[str] = []
        self._loops = 0
        self._whiles = 0

    def text(self) -> str:
        """The program."""
        methods = []
        for number in range(self._dice.choice((1, 1, 2))):
            self._lines, self._loops, self._whiles = [], 0, 0
            self._block(2, self._dice.randint(2, 4), "")
            head = ["    @entry(relaxed=True)", f"    def go{number}(self, x: int, y: int, xs: list[int]) -> int:"]
            methods.append("\n".join([*head, "        t = 0", *self._lines, "        return t"]))
        return HEAD + "\n" + "\n\n".join(methods) + "\n"

    def rows(self) -> list[tuple[str, tuple[int, int, list[int]]]]:
        """Rows for it: few, over few keys, so that they meet."""
        entries = 2 if "def go1" in self._written else 1
        rows = []
        for _ in range(self._dice.choice((2, 2, 3))):
            xs = [self._dice.randint(0, 2) for _ in range(self._dice.randint(0, 3))]
            entry = f"go{self._dice.randrange(entries)}"
            rows.append((entry, (self._dice.randint(0, 2), self._dice.randint(0, 2), xs)))
        return rows

    def made(self) -> tuple[str, list[tuple[str, tuple[int, int, list[int]]]]]:
        """A program and its rows."""
        self._written = self.text()
        return self._written, self.rows()

    def _key(self, loop: str) -> str:
        return self._dice.choice(IN_LOOP).replace("i", loop) if loop else self._dice.choice(KEYS)

    def _block(self, depth: int, statements: int, loop: str) -> None:
        for _ in range(statements):
            self._statement(depth, loop)

    def _put(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text)

    def _statement(self, depth: int, loop: str) -> None:
        kind = self._dice.randrange(20)
        key = self._key(loop)
        if kind < 4:
            self._put(depth, f"v = self.a.get({key}, 0)")
            if self._dice.random() < 0.3:
                self._put(depth, "t += v")
            if self._dice.random() < 0.2:
                self._put(depth, f"w = self.b.get({key}, 0)")
                self._put(depth, "v += w")
            self._put(depth, f"self.a[{key}] = v + 1")
        elif kind == 4:
            self._put(depth, f"self.b[{key}] = self.b.get({key}, 0) + self.a.get({self._key(loop)}, 0) + 1")
        elif kind == 5:
            self._put(depth, f"self.count[{key}] += 1")
        elif kind == 6:
            self._put(depth, f"if {key} not in self.seen:")
            self._put(depth + 1, f"self.seen.add({key})")
            self._put(depth + 1, "t += 1")
        elif kind == 7:
            self._put(depth, f"t += self._bump({key}, 1)")
        elif kind == 8:
            self._put(depth, f"if self._take({key}):")
            self._put(depth + 1, "t += 1")
        elif kind == 9:
            self._put(depth, f"cell = self.grid[{key}, 0]")
            self._put(depth, f"self.grid[{key}, 1] = cell + 1")
            self._put(depth, f"self.grid[{key}, 0] = self.grid[{key}, 1]")
        elif kind == 10:
            self._put(depth, f"n = self.names.get(f'n{{{key}}}', 0)")
            self._put(depth, f"self.names[f'n{{{key}}}'] = n + 1")
        elif kind == 11:
            self._put(depth, "old = self.last.get(0)")
            self._put(depth, "self.last.set(old + 1)")
        else:
            self._compound(kind, depth, key, loop)

    def _compound(self, kind: int, depth: int, key: str, loop: str) -> None:
        if kind == 12 and self._loops < 2:
            self._put(depth, f"t += sum([self.b.get(j, 0) for j in xs if j != {key}])")
        elif kind == 13:
            self._put(depth, f"if self.a.get({key}, 0) % 2 == 0:")
            self._block(depth + 1, 1, loop)
            self._put(depth, "else:")
            self._block(depth + 1, 1, loop)
        elif kind == 14:
            self._put(depth, f"t += self.{self._dice.choice('ab')}.get({key}, 0) + 1")
        elif kind == 15 and self._loops < 2:
            self._read_before(depth)
        elif kind in (16, 17) and self._loops < 2:
            self._sent_away(depth)
        elif self._loops < 2:
            self._loop(depth)
        else:
            self._put(depth, f"self.b[{key}] = self.b.get({key}, 0) + 1")

    def _read_before(self, depth: int) -> None:
        """All keys are read, then all are written."""
        self._loops += 1
        if self._dice.random() < 0.5:
            self._put(depth, "held = [self.a.get(j, 0) for j in xs]")
            self._put(depth, f"for k{self._loops}, was in zip(xs, held):")
        else:
            self._put(depth, "held = {j: self.a.get(j, 0) for j in xs if self.b.get(j, 0) < 2}")
            self._put(depth, f"for k{self._loops}, was in held.items():")
        self._put(depth + 1, f"self.{self._dice.choice('aab')}[k{self._loops}] = was + 1")

    def _sent_away(self, depth: int) -> None:
        """A loop whose turns do not depend on each other, but on what was read before."""
        self._loops += 1
        name = f"k{self._loops}"
        self._put(depth, f"for {name} in {self._dice.choice(('xs', 'xs', '(x, y)', '[x, *xs]'))}:")
        for _ in range(self._dice.choice((1, 1, 2))):
            match self._dice.randrange(5):
                case 0:
                    self._put(depth + 1, f"self.a[{name}] = t + 1")
                case 1:
                    self._put(depth + 1, f"self.b[{name}] = self.b.get({name}, 0) * 2 + t")
                case 2:
                    self._put(depth + 1, f"self.count[{name}] += t + 1")
                case 3:
                    self._put(depth + 1, f"if {name} == y or {name} not in self.seen:")
                    self._put(depth + 2, f"self.seen.add({name})")
                    self._put(depth + 2, f"self.a[{name}] = t")
                case _:
                    self._put(depth + 1, f"if {name} != y:")
                    self._put(depth + 2, "continue")
                    self._put(depth + 1, f"self.a[{name}] = self.a.get({name}, 0) + 1")

    def _loop(self, depth: int) -> None:
        self._loops += 1
        name = f"k{self._loops}"
        if self._dice.random() < 0.3:
            self._whiles += 1
            self._put(depth, f"{name} = {self._whiles}")
            self._put(depth, f"while {name} < 3:")
            self._block(depth + 1, self._dice.randint(1, 2), name)
            self._put(depth + 1, f"{name} += 1")
            return
        self._put(depth, f"for {name} in {self._dice.choice(('xs', 'xs', 'sorted(xs)', '(x, y)'))}:")
        self._block(depth + 1, self._dice.randint(1, 2), name)
        if self._dice.random() < 0.2:
            self._put(depth + 1, f"if {name} == y:")
            self._put(depth + 2, self._dice.choice(("break", "continue", "return t")))
            self._put(depth + 1, "t += 1")
