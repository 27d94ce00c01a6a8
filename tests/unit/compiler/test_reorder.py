"""Hints that save an exchange: given where the move is sound, and kept back where it is not."""

from __future__ import annotations

import itertools
import re

import pytest

from millpond.compiler.compile import compile_program
from millpond.compiler.explain import explain
from millpond.graph.cost import cost_of
from tests.golden.programs import load, program_in

STATES = """
class P(Program):
    a = Partitioned(Counter[int])
    b = Partitioned(Counter[int])
    c = Partitioned(Counter[int])
    d = Partitioned(Map[int, list[int]])

    @entry
    def go(self, k: int, j: int, n: int) -> int:
"""

SAVES = {
    "plain": ("self.a[k] += n", "self.b[j] += n", "self.c[k] += n", "return n"),
    "what is left behind may use both": ("x = self.a[k]", "y = self.b[j] + x", "z = self.c[k] * 2", "return y + z"),
    "two statements": ("self.a[k] += n", "self.b[j] += n", "self.c[k] += n", "self.c[k] += 1", "return n"),
}

KEPT_BACK = {
    "what it needs is made in between": ("x = self.a[k]", "y = self.b[j]", "self.c[k] += y", "return x"),
    "what it needs is rebound in between": (
        "self.a[k] += n",
        "self.b[j] += n",
        "n = n + 1",
        "self.c[k] += n",
        "return n",
    ),
    "what it makes is used in between": ("x = n", "self.a[k] += x", "self.b[j] += x", "x = self.c[k]", "return x"),
    "the method ends in between": ("self.a[k] += n", "if self.b[j] > 3: return 0", "self.c[k] += n", "return n"),
    "it ends the method": ("self.a[k] += n", "self.b[j] += n", "return self.c[k]"),
    "another key": ("self.a[k] += n", "self.b[j] += n", "self.c[n] += 1", "return n"),
    "nothing in between": ("self.a[k] += n", "self.c[k] += n", "self.b[j] += n", "return n"),
    "perhaps changed in between": (
        "l = [n]",
        "self.a[k] += n",
        "self.b[j] += n",
        "l.append(self.b[j])",
        "self.c[k] += l[-1]",
        "return n",
    ),
}


def program(statements, folder, more: str = ""):
    body = "".join(f"        {statement}\n" for statement in statements)
    return program_in(load(STATES + body + more, folder))


def hints(program) -> list[str]:
    return re.findall(r"^  hint: (.*)$", explain(program), flags=re.MULTILINE)


def outcome(program) -> list:
    made = program()
    replies = [made.go(k, j, n) for k, j, n in itertools.product((1, 2), (1, 3), (0, 5))]
    return [replies, *(dict(getattr(made, name)) for name in "abc")]


@pytest.mark.parametrize("statements", SAVES.values(), ids=SAVES)
def test_a_move_that_is_hinted_at_saves_an_exchange_and_changes_nothing(statements, tmp_path):
    before = program(statements, tmp_path)
    (hint,) = hints(before)
    assert "both are under the key k" in hint
    moved = [statement for statement in statements if "self.c" in statement]
    rest = [statement for statement in statements if "self.c" not in statement]
    after = program([rest[0], *moved, *rest[1:]], tmp_path)
    assert (
        cost_of(compile_program(after).graph, "go").exchanges
        == cost_of(compile_program(before).graph, "go").exchanges - 1
    )
    assert outcome(after) == outcome(before)
    assert hints(after) == []


@pytest.mark.parametrize("statements", KEPT_BACK.values(), ids=KEPT_BACK)
def test_no_hint_is_given_where_a_move_might_change_something(statements, tmp_path):
    # What a row may store that does not fit is told, too, and is no hint about moves.
    assert [told for told in hints(program(statements, tmp_path)) if "may store what is no" not in told] == []


def test_no_hint_is_given_where_another_entry_point_keeps_the_levels_apart(tmp_path):
    other = """
    @entry
    def other(self, k: int) -> int:
        x = self.b[k]
        return self.c[x]
"""
    assert len(hints(program(SAVES["plain"], tmp_path))) == 1
    assert hints(program(SAVES["plain"], tmp_path, other)) == []
