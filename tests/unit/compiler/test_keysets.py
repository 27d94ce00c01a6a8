"""Every key that a plain run touches is among those that the compiler finds without state."""

from __future__ import annotations

import copy
import random
import textwrap
from typing import Any

import pytest

from millpond.compiler import compile_program, survey
from millpond.compiler.compiled import KeySets
from millpond.errors import MillpondError, ProgramError, RowError
from millpond.program.semantics.epoch_time import epoch_time
from tests.golden.programs import load, program_in
from tests.sizes import some_of
from tests.unit.compiler.keyprograms import (
    HEAD,
    TookTooLong,
    Writer,
    a_while,
    arguments,
    known_keys,
    touched,
)

PROGRAMS = some_of(100)
ROWS = 6


@pytest.mark.parametrize("first", range(0, PROGRAMS, 20))
def test_generated_methods_touch_no_other_key(first, tmp_path):
    taken = 0
    for seed in range(first, first + 20):
        text = Writer(seed).body()
        program = program_in(load(text, tmp_path, head=HEAD))
        try:
            task = compile_program(program).entries["go"].tasks[0]
        except ProgramError:
            continue
        if task.keys is None:
            continue
        taken += 1
        dice = random.Random(seed)
        for _ in range(ROWS):
            given = arguments(dice)
            try:
                with a_while():
                    known = known_keys(task, given)
                    for _ in range(3):
                        missing = touched(program, given, dice) - known
                        assert not missing, f"seed {seed}, {given}: {missing} of\n{text}"
            except TookTooLong:
                break
    assert taken


TEMPLATE = """
from itertools import count

def grow(items):
    items.append("grown")

def tail(text: str) -> str:
    return text[1:]

class Node:
    def __init__(self, items):
        self.items = items

class P(Program):
    m = Partitioned(Map[str, int])
    lists = Partitioned(Map[str, list[str]])
    pairs = Partitioned(Map[tuple[str, int], int])
    rows = Partitioned(Matrix[str, int, int])
    total = Partitioned(Value[int])
    LIMITS = {"a": 3}

    def _key(self, name: str) -> str:
        return f"<{name}>"

    @entry
    def go(self, a: str, b: str, n: int, names: list[str]) -> object:
"""


def program_of(body: str, tmp_path, asks: str = "") -> Any:
    forced = 'if n < -9:\n    self.abort("never")\n'
    head = TEMPLATE.replace("@entry", f"@entry{asks}")
    return program_in(load(head + textwrap.indent(forced + textwrap.dedent(body), "        ") + "\n", tmp_path))


def keys_of(body: str, tmp_path, *given: Any) -> str:
    """The keys of m that a row may touch, sorted."""
    (task,) = compile_program(program_of(body, tmp_path)).entries["go"].tasks
    assert task.keys is not None
    if task.keys.function is None:
        found = [(element, dict(zip(task.inputs, given, strict=True))[name]) for element, (name,) in task.keys.columns]
    else:
        out: list[Any] = []
        task.keys.function(out, *([copy.deepcopy(one)] for one in given))
        (found,) = out
    return " ".join(sorted({str(key) for element, key in found if element == "m"}))


GIVEN = ("a", "b", 2, ["x", "y"])
HANDLED = """
key = b
try:
    self.lists[(key := key + "!")] = list(names)
    self.m[key] = 1
except KeyError:
    for key in names:
        self.m[key] = 1
"""
BEST = """
stock = {name: self.m[name] for name in names}
best = max(names, key=lambda name: stock[name])
for name in names:
    self.m[name + '!'] = 1
"""


@pytest.mark.parametrize(
    ("body", "keys"),
    [
        ("return self.m[a] + self.m[b]", "a b"),
        ("return self.m[a + b]", "ab"),
        ("return self.m[self._key(a)]", "<a>"),
        ("return self.m[tail(a + b)]", "b"),
        ("key = a if n > 1 else b\nreturn self.m[key]", "a"),
        ("key = a if n > 9 else b\nreturn self.m[key]", "b"),
        ("return self.m[a + '!'] if n > 1 else self.m[b]", "a!"),
        ("return self.m[a] if self.m['t'] else self.m[b]", "a b t"),
        ("return n > 9 and self.m[a + '!']", ""),
        ("return n > 9 or self.m[a + '!']", "a!"),
        ("return self.m[a] and self.m[b]", "a b"),
        ("return 0 < self.m[a] < self.m[b]", "a b"),
        ("return [self.m[name] for name in names]", "x y"),
        ("return {name: self.m[name] for name in names if name > 'x'}", "y"),
        ("return {self.m[one + other] for one in names for other in (a, b)}", "xa xb ya yb"),
        ("return [self.m[name] for name in names if name in self.m]", "x y"),
        ("return [[self.m[one + other] for other in names] for one in names]", "xx xy yx yy"),
        ("return [name for name in self.lists[a] if self.m[b]]", "b"),
        ("return sum(self.m[name] for name in names) + max((self.m[a] for _ in names), default=0)", "a x y"),
        ("if (key := a + '!') in self.m:\n    return self.m[key]", "a!"),
        ("while (rest := names.pop() if names else '') and n > 0:\n    self.m[rest] = 1", "x y"),
        ("for place, name in enumerate(names):\n    self.m[f'{name}{place}'] = 1", "x0 y1"),
        ("for name in names:\n    if name == 'y':\n        break\n    self.m[name] = 1", "x"),
        ("for name in names:\n    if name == 'x':\n        continue\n    self.m[name] = 1", "y"),
        ("for name in names:\n    if self.m[name]:\n        break\nself.m[a] = 1", "a x y"),
        ("for name in names:\n    if name in self.m:\n        continue\n    self.m[name * 2] = 1", "x xx y yy"),
        ("for name in names:\n    if self.m[name]:\n        return name\nelse:\n    self.m[b] = 1", "b x y"),
        ("todo = [a]\nwhile todo:\n    key = todo.pop()\n    self.m[key] = 1\n    todo += [b][key != a :]", "a b"),
        ("turn = 0\nwhile turn < n:\n    turn += 1\n    if self.m[str(turn)]:\n        return 0", "1 2"),
        ("while self.m[a] > 0:\n    self.m[a] -= 1\nreturn self.m[b]", "a b"),
        ("while True:\n    if self.m[a] > 3:\n        break\n    self.m[a] += 1\nself.m[b] = 1", "a b"),
        ("for _ in self.lists[a]:\n    key = b + '?'\n    self.m[key] = 1", "b?"),
        ("try:\n    self.m[a] = 1 // n\nexcept ZeroDivisionError:\n    self.m[b] = 1", "a b"),
        ("try:\n    n = 1 // 0\nexcept ZeroDivisionError:\n    self.m[b] = 1\nself.m[a] = 1", "a b"),
        ("try:\n    n = 1 // 1\nexcept ZeroDivisionError:\n    self.m[b] = 1\nself.m[a + '!'] = 1", "a!"),
        ("try:\n    self.m[a] += 1\nexcept KeyError:\n    self.abort('no')\nself.m[names[0]] = 1", "a x"),
        ("len(names[9])\nself.m[a + '!'] = 1", ""),
        ("self.m[a + '!'] = 1\nlen(names[9])\nself.m[b] = 1", "a!"),
        ("if self.m[a]:\n    self.m[names[9]] = 1\nself.m[b] = 1", "a b"),
        ("match n:\n    case 2:\n        self.m[a + '!'] = 1\n    case _:\n        self.m[b] = 1", "a!"),
        ("match self.m['t']:\n    case 2:\n        self.m[a] = 1\n    case _:\n        self.m[b] = 1", "a b t"),
        ("match names:\n    case [first, *rest] if self.m[first]:\n        self.m[rest[0]] = 1", "x y"),
        ("self.m[a], self.m[b] = self.m[b], self.m[a]", "a b"),
        ("one, (self.m[a], *rest) = 1, (2, names[0])\nself.m[rest[0]] = 1", "a x"),
        ("x = self.m[b] = len(names)\nself.m[str(x)] = 1", "2 b"),
        ("self.m[a] += self.m[b]", "a b"),
        ("self.m.setdefault(a, self.m.pop(b, 0))", "a b"),
        ("del self.m[a], self.m[b]", "a b"),
        ("f = lambda text: text + '!'\nself.m[f(a)] = self.m.get(b, 0)", "a! b"),
        ("if self.m[a]:\n    return 0\nkey = b\nself.m[key] = 1", "a b"),
        ("key = a\nif self.m[a]:\n    key = b\n    self.m[key] = 1\nelse:\n    self.m[key + '?'] = 1", "a a? b"),
        ("found = []\nif self.m[a]:\n    found.append(a)\nfor name in names:\n    self.m[name] = len(found)", "a x y"),
        ("self.lists[a] = names\nnames.append('z')\nfor name in names:\n    self.m[name] = 1", "x y z"),
        ("self.rows[a, n] += self.m[b]", "b"),
        ("assert self.m[a], self.m[b]", "a b"),
        ("assert n > 1\nreturn self.m[a + '!']", "a!"),
        ("assert n > 9\nreturn self.m[a + '!']", ""),
        ("if n > 1:\n    key = a\nreturn self.m[key]", "a"),
        ("if n > 9:\n    key = a\nreturn self.m[key]", ""),
        ("key = a\ndel key\nreturn self.m[key]", ""),
        ("limit = self.LIMITS.get(a, 0)\nreturn self.m[f'{a}{limit}']", "a3"),
        ("return self.m[self.random.choice(['k', 'k'])] + self.m[str(self.now.year)]", "2024 k"),
        ("limits = self.LIMITS\nbest = max(names, key=lambda x: limits.get(x, 0))\nself.m[best] += self.m[a]", "a x"),
        (BEST, "x x! y y!"),
        (HANDLED, "b! x y"),
    ],
)  # fmt: skip
def test_keys_that_follow_from_the_arguments(body, keys, tmp_path):
    with epoch_time(1_704_110_400_000_000):
        assert keys_of(body, tmp_path, *GIVEN) == keys


@pytest.mark.parametrize(
    "body",
    [
        "return self.m[str(self.m[a])]",
        "key = str(self.m[a])\nreturn self.m[key]",
        "key = a\nif self.m[a]:\n    key = b\nreturn self.m[key]",
        "key = b if self.m[a] else a\nreturn self.m[key]",
        "for name in self.lists[a]:\n    self.m[name] = 1",
        "return [self.m[name] for name in self.lists[a]]",
        "while self.m[a]:\n    a = a + '!'",
        "for name in names:\n    if self.m[name]:\n        break\nself.m[name] = 1",
        "for name in names:\n    if self.m[name]:\n        continue\n    a = name\nself.m[a] = 1",
        "if self.m[a]:\n    names.append(b)\nfor name in names:\n    self.m[name] = 1",
        "if self.m[a]:\n    grow(names)\nfor name in names:\n    self.m[name] = 1",
        "other = names\nif self.m[a]:\n    other.append(b)\nfor name in names:\n    self.m[name] = 1",
        "node = Node(names)\nif self.m[a]:\n    node.items.append(b)\nfor name in names:\n    self.m[name] = 1",
        "self.lists[a] = names\nself.lists[a].append(b)\nfor name in names:\n    self.m[name] = 1",
        "other = self.lists.get(a, names)\nother.append(b)\nfor name in names:\n    self.m[name] = 1",
        "names.append(str(self.m[a]))\nfor name in names:\n    self.m[name] = 1",
        "names[0] = str(self.m[a])\nreturn self.m[names[0]]",
        "limit = self.m[a]\nnames.sort(key=lambda name: len(name) > limit)\nreturn self.m[names[0]]",
        "items = iter(names)\nif self.m[a]:\n    next(items)\nreturn self.m[next(items)]",
        "try:\n    self.m[a] += 1\n    key = a\nexcept KeyError:\n    key = b\nreturn self.m[key]",
        "f = lambda: key\nkey = a\nif self.m[a]:\n    key = b\nreturn self.m[f()]",
        "total = 0\nfor name in names:\n    total += self.m[name]\nreturn self.m[str(total)]",
        "return self.m[a] and (key := b) and self.m[a + '?'] or self.m[key]",
        "if self.m[a]:\n    self.random.random()\nreturn self.m[str(self.random.random())]",
        "match self.m[a]:\n    case key:\n        return self.m[str(key)]",
        "return self.m[a] and names.pop() and self.m[names[0]]",
    ],
)  # fmt: skip
def test_a_key_that_depends_on_state_is_refused(body, tmp_path):
    assert "go" in dict(compile_program(program_of(body, tmp_path)).graph.sequence)
    with pytest.raises(ProgramError) as refused:
        compile_program(program_of(body, tmp_path, asks='(way="gathered")'))
    assert refused.value.code == "MP181"


def sets_of(body: str, tmp_path) -> KeySets:
    (task,) = compile_program(program_of(body, tmp_path)).entries["go"].tasks
    assert task.keys is not None
    return task.keys


def test_keys_that_are_parameters_need_no_code(tmp_path):
    found = sets_of("self.total.set(n)\nif a in self.m:\n    return self.pairs[a, n] + self.m[b]", tmp_path)
    assert found == KeySets((("m", ("a",)), ("pairs", ("a", "n")), ("m", ("b",))), None, ("total",))


@pytest.mark.parametrize("body", ["b = a\nreturn self.m[b]", "return [self.m[a] for a in names]", "return self.m['k']"])
def test_a_parameter_that_gets_another_value_is_no_column(body, tmp_path):
    found = sets_of(body, tmp_path)
    assert found.columns == ()
    assert found.function is not None


def test_a_method_without_parameters_has_keys_too(tmp_path):
    text = """
class P(Program):
    m = Partitioned(Counter[str])

    @entry
    def tick(self) -> None:
        self.m["a"] += 1
        self.m["b"] += 1
        if self.m["a"] > 3:
            self.abort("enough")
"""
    (task,) = compile_program(program_in(load(text, tmp_path))).entries["tick"].tasks
    out: list[Any] = []
    assert task.keys is not None
    assert task.keys.function is not None
    task.keys.function(out, [None, None])
    assert [sorted(set(row)) for row in out] == [[("m", "a"), ("m", "b")]] * 2


def test_a_row_of_too_many_keys_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(survey, "KEYS_MAX", 3)
    function = sets_of("for name in names:\n    self.m[name] = 1", tmp_path).function
    assert function is not None
    out: list[Any] = []
    function(out, ["a"], ["b"], [1], [["x", "y", "z"] * 2])
    with pytest.raises(RowError) as refused:
        function(out, ["a"] * 2, ["b"] * 2, [1] * 2, [["x"], ["x", "y", "z", "w"]])
    assert refused.value.code == "MP607"
    assert len(out) == 2, "the row at fault is the next one"


@pytest.mark.parametrize(
    "body",
    [
        "for place in count():\n    if str(place) not in self.m:\n        return place",
        "at = 0\nwhile at >= 0:\n    at += 1\n    if self.m[a] < at:\n        return self.m[str(at % 2)]",
    ],
)
def test_a_loop_that_only_state_ends_is_no_endless_loop(body, tmp_path, monkeypatch):
    monkeypatch.setattr(survey, "TURNS_MAX", 1000)
    function = sets_of(body, tmp_path).function
    assert function is not None
    with pytest.raises(MillpondError) as refused:
        function([], ["a"], ["b"], [1], [[]])
    assert refused.value.code == "MP607"


def test_what_a_row_raises_ends_its_keys_and_not_the_survey(tmp_path):
    function = sets_of("self.m[a] = 1\nself.m[str(1 // n)] = 1", tmp_path).function
    assert function is not None
    out: list[Any] = []
    function(out, ["a", "b"], ["", ""], [0, 1], [[], []])
    assert out == [[("m", "a")], [("m", "b"), ("m", "1")]]
