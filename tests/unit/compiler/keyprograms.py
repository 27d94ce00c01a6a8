"""Random methods that touch state under many keys, and plain runs that record which."""

from __future__ import annotations

import copy
import random
import re
import signal
import textwrap
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from millpond.compiler.compiled import CompiledTask
from millpond.program import ProgramBase
from millpond.program.semantics.ambient import as_written
from millpond.state.containers.matrix import Matrix
from millpond.state.containers.set import Set
from millpond.state.containers.value import Value

HEAD = """\
from __future__ import annotations
from contextlib import suppress
from millpond.program import Partial, Partitioned, ProgramBase as Program, entry
from millpond.state.containers.counter import Counter
from millpond.state.containers.map import Map
from millpond.state.containers.matrix import Matrix
from millpond.state.containers.set import Set
from millpond.state.containers.value import Value

def grow(items: list[int]) -> int:
    items.append(7)
    return len(items)

def size(items: list[int]) -> int:
    return len(items)

def wrap(items):
    return [items]

class P(Program):
    m = Partitioned(Map[int, int])
    q = Partitioned(Map[int, list[int]])
    c = Partitioned(Counter[int])
    s = Partitioned(Set[int])
    g = Partitioned(Matrix[int, int, int])
    v = Partitioned(Value[int])
    LIMIT = 3

    @entry
    def go(self, a: int, b: int, xs: list[int], ps: list[tuple[int, int]]) -> int:
        if a < -99:
            self.abort("never")
"""

# Templates: N is a number, K a key, T a test, L the name of a list, I something to walk through, V a variable, X a
# variable that is often known, M a list that may be changed. They are filled in after one was chosen.
NUMBER = (
    *("X", "X", "X", "X", "V", "V", "self.LIMIT", "2", "5", "-1"),
    *("(N + N)", "(N % 4)", "abs(N)", "len(I)", "size(L)", "(N if T else N)", "(N and N)", "(N or N)", "max(N, N)"),
    *("sum(I)", "(n2 := N)", "L[0]", "L.pop()", "grow(L)", "(lambda z: z + V)(N)", "R", "R"),
)
KEY = ("X", "X", "X", "X", "X + 1", "X % 3", "abs(X)", "L[0]", "len(L)", "L.pop()", "(k1 := X + 2)", "N")
READ = (
    *("self.m.get(K, 0)", "self.m[K]", "self.c[K]", "len(self.q.get(K, []))", "int(K in self.s)", "self.g[K, V]"),
    *("self.m.pop(K, 1)", "self.m.setdefault(K, V)", "self.v.get(0)", "sum(self.m.get(z, 0) for z in I)"),
    *(
        "sum(self.m.get(k0 + z, 0) for z in I)",
        "sum([self.c[z] for z in I if z > 1])",
        "sum([self.c[z] for z in I if T])",
    ),
    *("sum([self.c[z] for z in I if z in self.s])", "int(any(self.m[z] > y for z, y in ps))"),
    "len({z: self.m.get(z + y, 0) for z in I for y in L})",
)
ITEMS = (
    *(
        "L",
        "L",
        "L",
        "list(L)",
        "L[:2]",
        "sorted(L)",
        "range(X % 4)",
        "[z + 1 for z in L]",
        "self.q.get(X, L)",
        "(X, 1)",
    ),
)
TEST = (
    "N > 2",
    "N < V",
    "X in self.s",
    "L",
    "not N",
    "a > 1 and N > 1",
    "self.m.get(a, 0) > 1 or N > 1",
    "X % 2",
    "X % 2",
)
SIMPLE = (
    *("V = N", "V = N", "V += N", "V, k1 = N, N", "self.m[K] = N", "self.m[K] += N", "self.c[K] += 1", "self.s.add(K)"),
    *("self.q.setdefault(K, []).append(N)", "self.q[K] = M", "self.q[K] = list(M)", "self.q[K] = wrap(M)[0]"),
    *("self.g[K, 1] += 1", "self.v.set(N)", "self.m.pop(K, None)", "M.append(N)", "M = I", "M = list(I)"),
    *("M = self.q.get(K, M)", "M.extend(I)", "M.clear()", "M[0] = N", "M += I", "del M[0]", "l0 = l1", "grow(M)"),
    *("it = iter(I); V = next(it, 0)", "f = lambda: V + 1; k0 = f()", "assert T, N", "self.m[K] = V = N"),
    *("V = self.m[a]", "V = self.m.get(b, 0)", "self.m[K] = 1", "self.c[K] -= 1", "k0 = X % 3", "k1 = X + 1"),
)
LEAVING = ("return 1", "raise ValueError(V)", "self.abort('no')")
COMPOUND = ("if", "if", "if", "else", "elif", "for", "for", "for", "while", "try", "match", "with", "endless")
FILL = {"R": READ, "K": KEY, "T": TEST, "I": ITEMS, "N": NUMBER}
NAMES = {
    "X": ("a", "b", "k0", "k1"),
    "V": ("n0", "n1", "n2", "k0", "k1"),
    "L": ("xs", "l0", "l1"),
    "M": ("l0", "l1"),
}
FIRST = ["n0, n1, n2 = a, b, a + b", "k0 = a", "k1 = b % 5", "l0 = [a, b]", "l1 = list(xs)"]
DEEP = {"R": "self.c[a]", "K": "b", "T": "a > 1", "I": "xs", "N": "a"}


class Writer:
    """Writes a method body, statement by statement."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._loops = 0
        self._loose = self._dice.random() < 0.1

    def _of(self, *choices: Any) -> Any:
        return self._dice.choice(choices)

    def body(self) -> str:
        """The lines of a method."""
        lines = [*([] if self._loose else FIRST), *self._block(self._dice.randint(3, 7), 0), "return 0"]
        return textwrap.indent("\n".join(lines), " " * 8) + "\n"

    def fill(self, template: str, depth: int = 0) -> str:
        """Put something for each capital letter that stands alone."""

        def put(found: re.Match[str]) -> str:
            letter = found.group()
            if letter in NAMES:
                return str(self._of(*NAMES[letter]))
            return DEEP[letter] if depth > 2 else self.fill(self._of(*FILL[letter]), depth + 1)

        return re.sub(r"\b[A-Z]\b", put, template)

    def _block(self, count: int, depth: int) -> list[str]:
        return [line for _ in range(count) for line in self.statement(depth)]

    def _inner(self, depth: int) -> list[str]:
        return textwrap.indent("\n".join(self._block(self._dice.randint(1, 3), depth + 1)), "    ").splitlines()

    def statement(self, depth: int) -> list[str]:
        """One statement."""
        if depth < 3 and self._dice.random() < 0.42:
            return self.compound(depth)
        jumps = ("break", "continue") * 2 if self._loops else ()
        leaving = (*jumps, *LEAVING) if depth else ()
        return [self.fill(self._of(*SIMPLE, *leaving))]

    def compound(self, depth: int) -> list[str]:
        """A statement with statements inside."""
        kind, inner, fill = self._of(*COMPOUND), self._inner, self.fill
        if kind in ("if", "else", "elif"):
            lines = [fill("if T:"), *inner(depth)]
            lines += [fill("elif T:"), *inner(depth)] if kind == "elif" else []
            return lines if kind == "if" else [*lines, "else:", *inner(depth)]
        if kind == "try":
            tail = self._of([], ["else:", *inner(depth)], ["finally:", *inner(depth)])
            caught = self._of("except KeyError:", "except Exception:", "except (IndexError, KeyError) as e:", "except:")
            return ["try:", *inner(depth), caught, *inner(depth), *tail]
        if kind == "match":
            first = fill(self._of("case 0:", "case 1 | 2:", "case k1 if T:", "case 0 | 1 if T:"))
            parts = [first, *inner(depth), "case _:", *inner(depth)]
            return [fill("match N:"), *("    " + line for line in parts)]
        if kind == "with":
            return [f"with suppress({self._of('KeyError', 'Exception')}):", *inner(depth)]
        return self.loop(kind, depth)

    def loop(self, kind: str, depth: int) -> list[str]:
        """A loop."""
        self._loops += 1
        body = self._inner(depth)
        self._loops -= 1
        tail = self._of([], [], ["else:", *self._inner(depth)])
        counter = f"w{depth}"
        if kind == "while":
            head = self.fill(f"while {counter} < {self._of('3', 'a % 4', 'len(xs)')}{self._of('', ' and T')}:")
            return [f"{counter} = 0", head, f"    {counter} += 1", *body, *tail]
        if kind == "endless":
            test = f"    if {counter} > {self._of('3', 'self.m.get(a, 2)')}:"
            return [f"{counter} = 0", "while True:", f"    {counter} += 1", test, "        break", *body, *tail]
        head = self._of(
            *("for k0 in I:", "for k1 in I:", "for n0, k0 in ps:", "for n1, k1 in enumerate(I):", "for k0 in it0:"),
            "for k0, n0 in zip(xs, L):",
        )
        first = [self.fill("it0 = iter(I)")] if "it0" in head else []
        return [*first, self.fill(head), *body, *tail]


class Recorded(dict[Any, Any]):
    """Entries that note every key that is asked for."""

    def __init__(self, name: str, found: set[tuple[str, Any]], entries: dict[Any, Any], missing: Any = None) -> None:
        super().__init__(entries)
        self._found = found
        self._name = name
        self._missing = missing

    def _note(self, key: Any) -> None:
        self._found.add((self._name, key))

    def __getitem__(self, key: Any) -> Any:
        self._note(key)
        if self._missing is not None and not dict.__contains__(self, key):
            return self._missing
        return dict.__getitem__(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._note(key)
        dict.__setitem__(self, key, value)

    def __delitem__(self, key: Any) -> None:
        self._note(key)
        dict.__delitem__(self, key)

    def __contains__(self, key: Any) -> bool:
        self._note(key)
        return dict.__contains__(self, key)

    def get(self, key: Any, default: Any = None) -> Any:
        self._note(key)
        return dict.get(self, key, default)

    def pop(self, key: Any, *default: Any) -> Any:
        self._note(key)
        return dict.pop(self, key, *default)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        self._note(key)
        return dict.setdefault(self, key, default)


Arguments = tuple[int, int, list[int], list[tuple[int, int]]]
TIME_S = 2.0


class TookTooLong(BaseException):
    """A generated method that may go on for ever did."""


@contextmanager
def a_while() -> Iterator[None]:
    """Give up after some time: a generated loop may walk through a list that it lets grow."""

    def give_up(*_: object) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, TIME_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def numbers(dice: random.Random, most: int) -> list[int]:
    """A few small numbers."""
    return [dice.randint(-2, 5) for _ in range(dice.randint(0, most))]


def arguments(dice: random.Random) -> Arguments:
    """Arguments of a generated method."""
    pairs = [(dice.randint(-2, 5), dice.randint(-2, 5)) for _ in range(dice.randint(0, 3))]
    return dice.randint(-2, 5), dice.randint(-2, 5), numbers(dice, 4), pairs


def touched(program: type[ProgramBase], given: Arguments, dice: random.Random) -> set[tuple[str, Any]]:
    """The keys that a plain run touches, over some state."""
    found: set[tuple[str, Any]] = set()

    def entries() -> dict[int, int]:
        return {key: dice.randint(-2, 5) for key in numbers(dice, 5)}

    instance = program()
    vars(instance).update(
        m=Recorded("m", found, entries()),
        c=Recorded("c", found, entries(), 0),
        q=Recorded("q", found, {key: numbers(dice, 3) for key in entries()}),
        s=Set(entries=Recorded("s", found, dict.fromkeys(entries()))),  # type: ignore[arg-type]
        g=Matrix(entries=Recorded("g", found, {key: {1: value} for key, value in entries().items()})),  # type: ignore[arg-type]
        v=Value(entries={(): dice.randint(-2, 5)}),  # type: ignore[arg-type]
    )
    method = as_written(vars(program)["go"])
    with suppress(Exception):
        method(instance, *copy.deepcopy(given))
    return found


def known_keys(task: CompiledTask, given: Arguments) -> set[tuple[str, Any]]:
    """The keys that the compiler says a row may touch."""
    assert task.keys is not None
    if task.keys.function is None:
        columns = dict(zip(task.inputs, given, strict=True))
        parts = [(element, tuple(columns[name] for name in names)) for element, names in task.keys.columns]
        return {(element, key[0] if len(key) == 1 else key) for element, key in parts}
    out: list[list[tuple[str, Any]]] = []
    task.keys.function(out, *([copy.deepcopy(one)] for one in given))
    return {pair for pair in out[0] if isinstance(pair[1], Hashable)}
