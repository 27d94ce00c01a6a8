"""Small programs that gathered execution may get wrong, each with rows that would show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Row = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Trap:
    """A program's body, its rows, and whether it can't be gathered and runs in sequence."""

    name: str
    body: str
    rows: tuple[Row, ...]
    in_sequence: bool = False


def calls(*arguments: tuple[Any, ...], name: str = "go") -> tuple[Row, ...]:
    return tuple((name, given) for given in arguments)


PAIRS = calls((1, 2), (2, 3), (3, 1), (1, 1), (4, 5), (2, 1), (5, 6), (6, 4))
LISTS = calls(([1, 2],), ([2, 3, 2],), ([],), ([9],), ([3, 1],), ([9, 8, 7],))

TRAPS = (
    Trap(
        "a reply that is a state object does not change later",
        """
        m = Partitioned(Map[int, list[int]])

        @entry
        def go(self, a: int, b: int) -> list[int]:
            self.m.setdefault(a, []).append(b)
            self.m.setdefault(b, []).append(-a)
            return self.m[a]
        """,
        PAIRS,
    ),
    Trap(
        "a value that only get touches is changed in place",
        """
        m = Partitioned(Map[int, list[int]])

        @entry
        def go(self, a: int, b: int) -> int:
            self.m.setdefault(b, [])
            held = self.m.get(a, [])
            held.append(b)
            held.sort()
            return len(held)
        """,
        PAIRS,
    ),
    Trap(
        "an object that moved is changed after it moved",
        """
        m = Partitioned(Map[int, list[int]])

        @entry
        def go(self, a: int, b: int) -> int:
            held = self.m.pop(a, [])
            self.m[b] = held
            held.append(a)
            return len(held)
        """,
        PAIRS,
    ),
    Trap(
        "values change places",
        """
        m = Partitioned(Map[int, list[int]])

        @entry
        def go(self, a: int, b: int) -> int:
            self.m.setdefault(a, [a])
            self.m.setdefault(b, [b])
            self.m[a], self.m[b] = self.m[b], self.m[a]
            self.m[a].append(b)
            return len(self.m[b])
        """,
        PAIRS,
    ),
    Trap(
        "one object under two keys is one within an epoch and two after it",
        """
        m = Partitioned(Map[int, list[int]])

        @entry
        def go(self, a: int, b: int) -> int:
            held = self.m.setdefault(a, [])
            self.m[b] = held
            held.append(b)
            return len(self.m[b])
        """,
        PAIRS,
    ),
    Trap(
        "a part of one value becomes a part of another",
        """
        m = Partitioned(Map[int, list[list[int]]])

        @entry
        def go(self, a: int, b: int) -> int:
            row = [a]
            self.m.setdefault(a, []).append(row)
            self.m.setdefault(b, []).append(row)
            self.m[a][0].append(b)
            return len(self.m[b][0])
        """,
        PAIRS,
    ),
    Trap(
        "an argument that is kept as state is changed by nobody else",
        """
        m = Partitioned(Map[int, list[int]])

        @entry
        def go(self, keys: list[int]) -> int:
            seen = 0
            for key in keys:
                seen += len(self.m.get(key, []))
                self.m[key] = list(keys)
            keys.append(0)
            return len(keys) * 100 + seen
        """,
        LISTS,
    ),
    Trap(
        "a list argument that the method empties is whole when the method begins",
        """
        m = Partitioned(Map[int, int])

        @entry
        def go(self, keys: list[int]) -> int:
            seen = 0
            while keys:
                key = keys.pop()
                self.m[key] = self.m.get(key, 0) + 1
                seen += self.m[key]
            return seen
        """,
        LISTS,
    ),
    Trap(
        "a list argument that the method sorts keeps its order until then",
        """
        m = Partitioned(Map[int, int])

        @entry
        def go(self, keys: list[int]) -> list[int]:
            first = keys[:1]
            keys.sort()
            seen = 0
            for key in keys:
                self.m[key] = self.m.get(key, 0) + len(keys)
                seen = seen * 3 + self.m[key]
            return first + keys + [seen]
        """,
        LISTS,
    ),
    Trap(
        "keys come from a dictionary",
        """
        m = Partitioned(Map[str, int])

        @entry
        def go(self, basket: dict[str, int]) -> int:
            for item, pieces in basket.items():
                if self.m.get(item, 5) < pieces:
                    self.abort(f"no {item}")
                self.m[item] = self.m.get(item, 5) - pieces
            return len(basket)
        """,
        calls(({"a": 1, "b": 2},), ({"b": 2, "c": 9},), ({},), ({"b": 1, "a": 4},), ({"a": 1},)),
    ),
    Trap(
        "keys come from pairs",
        """
        m = Partitioned(Map[tuple[int, str], int])

        @entry
        def go(self, pairs: list[tuple[int, str]]) -> int:
            for number, text in pairs:
                self.m[number, text] = self.m.get((number, text), 0) + 1
            return sum(self.m[pair] for pair in pairs)
        """,
        calls(([(1, "a"), (2, "b")],), ([(2, "b"), (3, "c"), (2, "b")],), ([],), ([(3, "c")],)),
    ),
    Trap(
        "a key that may be None is used only when it is not",
        """
        m = Partitioned(Map[str, int])

        @entry
        def go(self, source: str, target: str | None) -> int:
            self.m[source] = self.m.get(source, 0) + 1
            if target is not None:
                self.m[target] = self.m.get(target, 0) + self.m[source]
            return self.m[source]
        """,
        calls(("a", "b"), ("b", None), ("b", "c"), ("c", None), ("a", "a")),
    ),
    Trap(
        "a key is computed only after a check that the row fails",
        """
        m = Partitioned(Map[int, int])

        @entry
        def go(self, keys: list[int]) -> int:
            self.m[0] = self.m.get(0, 0) + 1
            if not keys:
                return self.m[0]
            first = keys[0]
            last = 100 // first
            self.m[last] = self.m.get(last, 0) + self.m[0]
            return self.m[last]
        """,
        calls(([],), ([4],), ([0],), ([25, 1],), ([],), ([4],)),
    ),
    Trap(
        "an exception in the middle of a list keeps nothing of the row",
        """
        m = Partitioned(Map[int, list[int]])

        @entry
        def go(self, keys: list[int]) -> int:
            seen = 0
            for place, key in enumerate(keys):
                self.m.setdefault(key, []).append(place + seen)
                seen += len(self.m[key])
                if len(self.m[key]) == 3:
                    raise ValueError("three")
            return seen
        """,
        LISTS + LISTS + LISTS,
    ),
    Trap(
        "what a caught exception left behind stays",
        """
        m = Partitioned(Map[int, int])

        @entry
        def go(self, a: int, b: int) -> int:
            try:
                self.m[a] = self.m.get(a, 0) + 1
                self.m[b] += 1
            except KeyError:
                self.m[b] = 10
            finally:
                self.m[0] = self.m.get(0, 0) + 1
            return self.m[a] * 100 + self.m[b]
        """,
        PAIRS,
    ),
    Trap(
        "a refusal that the program catches is none",
        """
        m = Partitioned(Map[int, int])

        def _take(self, key: int) -> None:
            self.m[key] = self.m.get(key, 2) - 1
            if self.m[key] < 0:
                self.abort("none left")

        @entry
        def go(self, a: int, b: int) -> int:
            try:
                self._take(a)
            except Exception:
                self.m[b] = self.m.get(b, 0) + 5
            self._take(b)
            return self.m[b]
        """,
        PAIRS + PAIRS + PAIRS,
    ),
    Trap(
        "a refusal undoes what a row did deep inside",
        """
        m = Partitioned(Map[int, dict[str, list[int]]])

        @entry
        def go(self, a: int, b: int) -> int:
            for key in (a, b):
                self.m.setdefault(key, {}).setdefault("x", []).append(b)
            if len(self.m[a]["x"]) > 3:
                self.abort(f"too long: {len(self.m[a]['x'])}")
            return len(self.m[a]["x"])
        """,
        PAIRS + PAIRS,
    ),
    Trap(
        "a refusal brings back what was removed",
        """
        m = Partitioned(Map[int, int])
        n = Partitioned(Set[int])

        @entry
        def go(self, a: int, b: int) -> int:
            self.n.add(a)
            rest = self.m.pop(a, 7)
            self.n.discard(b)
            self.m[b] = self.m.get(b, 0) + rest
            if self.m[b] % 3 == 0:
                self.abort("a multiple of three")
            return self.m[b]
        """,
        PAIRS + PAIRS,
    ),
    Trap(
        "a refusal without a reply is told",
        """
        m = Partitioned(Map[int, int])

        @entry
        def go(self, a: int, b: int) -> None:
            self.m[a] = self.m.get(a, 0) + 1
            if self.m[a] > 2:
                self.abort("enough")
            self.m[b] = self.m.get(b, 0) + 1
        """,
        PAIRS + PAIRS,
    ),
    Trap(
        "a refusal under one key",
        """
        m = Partitioned(Map[int, int])

        @entry
        def go(self, a: int, b: int) -> int:
            self.m[a] = self.m.get(a, 0) + b
            if self.m[a] > 4:
                self.abort("")
            return self.m[a]
        """,
        PAIRS + PAIRS,
    ),
    Trap(
        "cells of a matrix are under their row",
        """
        m = Partitioned(Matrix[int, int, int])

        @entry
        def go(self, a: int, b: int) -> int:
            self.m[a, b] += 1
            self.m[b, a] += 2
            return sum(self.m.row(a).values()) * 100 + self.m[b, a]
        """,
        PAIRS,
    ),
    Trap(
        "cells of a matrix are under their column",
        """
        m = Partitioned(Matrix[int, int, int], by="column")

        @entry
        def go(self, a: int, b: int) -> int:
            self.m[a, b] += 1
            self.m[b, a] += 2
            return sum(self.m.column(a).values()) * 100 + self.m[b, a]
        """,
        PAIRS,
    ),
    Trap(
        "a value for all and keys of one's own",
        """
        m = Partitioned(Map[int, int])
        total = Partitioned(Value[int])
        log = Partitioned(List[str])

        @entry
        def go(self, a: int, b: int) -> int:
            self.total.set(self.total.get(0) + a)
            self.m[a] = self.total.get(0)
            self.log.append(f"{a}-{b}")
            if self.total.get(0) % 4 == 3:
                self.abort(f"after {len(self.log)}")
            self.m[b] = self.m.get(b, 0) - len(self.log)
            return self.m[b]
        """,
        PAIRS + PAIRS,
    ),
    Trap(
        "missing keys stay missing when they are only looked for",
        """
        c = Partitioned(Counter[int])
        m = Partitioned(Map[int, int])

        @entry
        def go(self, a: int, b: int) -> bool:
            found = self.c[a] == self.c[b] and a not in self.m and self.m.get(b) is None
            if a == 1:
                self.c[b] += 0
            return found
        """,
        PAIRS,
    ),
    Trap(
        "numbers that are equal are one key",
        """
        m = Partitioned(Map[int, int])

        @entry
        def go(self, a: int, b: int) -> int:
            for key in (a, a + 0, -(-a), int(b)):
                self.m[key] = self.m.get(key, 0) + 1
            return self.m[a]
        """,
        calls((0, 0), (2**63 - 1, -(2**63) + 1), (-1, 1), (2**53, 2**53 + 1)),
    ),
    Trap(
        "texts that look alike are different keys",
        """
        m = Partitioned(Map[str, int])

        @entry
        def go(self, a: str, b: str) -> int:
            self.m[a] = self.m.get(a, 0) + 1
            self.m[b] = self.m.get(b, 0) + 1
            return self.m[a]
        """,
        calls(("é", "e\u0301"), ("", "\x00"), ("a", "a "), ("x" * 600, "x" * 601), ("日本", "日本"), ("", " ")),
    ),
    Trap(
        "keys from a comprehension in a comprehension",
        """
        m = Partitioned(Map[int, int])

        @entry
        def go(self, keys: list[int]) -> list[int]:
            found = [self.m.get(one * 10 + other, 0) for one in keys for other in keys if one <= other]
            for one in keys:
                for other in keys:
                    if one <= other:
                        self.m[one * 10 + other] = self.m.get(one * 10 + other, 0) + 1
            return found
        """,
        LISTS,
    ),
    Trap(
        "state decides which of two known keys is used",
        """
        m = Partitioned(Map[int, int])

        @entry
        def go(self, a: int, b: int) -> int:
            if self.m.get(a, 0) > self.m.get(b, 0):
                self.m[b] = self.m.get(b, 0) + 2
            elif self.m.get(a + 1, 0):
                self.m[a + 1] -= 1
            else:
                self.m[a] = self.m.get(a, 0) + 1
                for key in (a + 1, b + 1):
                    self.m[key] = self.m.get(key, 0) + 1
                    if self.m[key] > 2:
                        break
            return self.m.get(b, -1)
        """,
        PAIRS + PAIRS,
    ),
    Trap(
        "a loop ends where state says",
        """
        m = Partitioned(Map[int, int])

        @entry
        def go(self, keys: list[int]) -> int:
            for key in keys:
                if self.m.get(key, 0) > 1:
                    return key
                self.m[key] = self.m.get(key, 0) + 1
            else:
                self.m[100] = self.m.get(100, 0) + 1
            return -1
        """,
        LISTS + LISTS + LISTS,
    ),
    Trap(
        "a loop runs as long as state says, under one key",
        """
        m = Partitioned(Map[int, int])

        @entry
        def go(self, a: int, b: int) -> int:
            self.m[a] = self.m.get(a, 0) + 5
            turns = 0
            while self.m[a] > self.m.get(b, 0) and turns < 9:
                self.m[a] -= 1
                self.m[b] = self.m.get(b, 0) + 1
                turns += 1
            return turns
        """,
        PAIRS,
    ),
    Trap(
        "a key that state tells",
        """
        m = Partitioned(Map[int, int])

        @entry
        def go(self, a: int, b: int) -> int:
            self.m[a] = b
            return self.m.get(self.m[a], 0)
        """,
        PAIRS,
        in_sequence=True,
    ),
    Trap(
        "a variable that is a key only on one way",
        """
        m = Partitioned(Map[int, int])

        @entry
        def go(self, a: int, b: int) -> int:
            key = a
            if b > 2:
                key = b
            self.m[key] = self.m.get(key, 0) + 1
            self.m[a] = self.m.get(a, 0) + 10
            return self.m[key]
        """,
        PAIRS,
    ),
    Trap(
        "random numbers that follow from the row",
        """
        m = Partitioned(Map[int, int])

        @entry
        def go(self, a: int, b: int) -> int:
            gift = self.random.randrange(100)
            self.m[a] = self.m.get(a, 0) + gift
            self.m[b] = self.m.get(b, 0) - gift
            return self.m[a]
        """,
        PAIRS,
    ),
    Trap(
        "a match chooses the keys",
        """
        m = Partitioned(Map[int, int])

        @entry
        def go(self, keys: list[int]) -> int:
            match keys:
                case []: return 0
                case [one]:
                    self.m[one] = self.m.get(one, 0) + 1
                    return self.m[one]
                case [one, *others] if self.m.get(one, 0) > 1:
                    for other in others:
                        self.m[other] = self.m.get(other, 0) + 3
                case [one, two, *_]:
                    self.m[one], self.m[two] = self.m.get(two, 1), self.m.get(one, 2)
            return sum(self.m.get(key, 0) for key in keys)
        """,
        LISTS + LISTS,
        in_sequence=True,
    ),
    Trap(
        "other entry points join because of the element",
        """
        m = Partitioned(Map[int, int])
        n = Partitioned(Map[int, int])

        @entry
        def go(self, a: int, b: int) -> int:
            self.m[a] = self.m.get(a, 0) + 1
            self.m[b] = self.m.get(b, 0) + self.m[a]
            return self.m[b]

        @entry
        def one(self, a: int) -> int:
            self.n[a] = self.m.get(a, 0)
            return self.n[a]

        @entry
        def other(self, a: int) -> int | None:
            return self.n.get(a)
        """,
        tuple(row for a, b in [(1, 2), (2, 3), (3, 1)] * 2 for row in (("go", (a, b)), ("one", (b,)), ("other", (a,)))),
    ),
    Trap(
        "many keys in one row",
        """
        m = Partitioned(Map[int, int])

        @entry
        def go(self, count: int) -> int:
            for key in range(count):
                self.m[key] = self.m.get(key, 0) + 1
            return sum(self.m[key] for key in range(0, count, 7))
        """,
        calls((800,), (1,), (0,), (799,)),
    ),
)
