"""Where no row can see the order of a set in state, none is asked for; everywhere else there is one."""

from __future__ import annotations

import textwrap

import pytest

from millpond.compiler.analysis.sets.sights import find_set_sights
from millpond.compiler.compile import compile_program, draft_program
from tests.golden.programs import load, program_in

FRAME = """
from dataclasses import dataclass
import functools

joined = functools.partial(str.join, ",")

class Bag:
    def __init__(self, held):
        self.held = held

def shown(bag):
    return joined(bag.held)

class P(Program):
    tags = Partitioned(Map[str, set[str]])
    deep = Partitioned(Map[str, dict[str, set[int]]])
    kept = Partitioned(Map[str, frozenset[str]])
    plain = Partitioned(Map[str, list[str]])

    @entry
    def go(self, key: str, word: str, words: list[str]) -> object:
{body}

    def _size(self, found: set[str]) -> int:
        return len(found)
"""


def drafted(tmp_path, body):
    text = FRAME.format(body=textwrap.indent(textwrap.dedent(body), " " * 8))
    return draft_program(program_in(load(text, tmp_path)), until=find_set_sights)


UNSEEN = [
    "self.tags[key].add(word)",
    "self.tags.setdefault(key, set()).add(word)\nreturn len(self.tags[key])",
    "tags = self.tags.get(key, set())\nif word in tags:\n    return 1\ntags.add(word)\nself.tags[key] = tags",
    "self.tags[key] = self.tags.get(key, set()) | set(words)\nreturn sorted(self.tags[key])",
    "self.tags[key] |= {word}\nreturn word in self.tags[key] and max(self.tags[key])",
    "self.kept[key] = self.kept.get(key, frozenset()) | {word}\nreturn self.kept[key]",
    "for name, numbers in self.deep[key].items():\n    numbers.discard(3)\nreturn len(self.deep[key])",
    "self.deep.setdefault(key, {}).setdefault(word, set()).add(len(words))",
    "both = self.tags[key] & self.kept[key]\nboth.clear()\nreturn bool(both)",
    "del self.tags[key]\nreturn [w for w in words if w in self.tags.get(word, set())]",
    "self.plain[key] = list(words)\nreturn joined(self.plain[key])",
]
SEEN = [
    "return shown(Bag(self.tags[key]))",
    "tags = self.tags[key]\nreturn shown(Bag(tags))",
    "return Bag(self.tags[key] | {word}).held",
    "return self._size(self.tags[key])",
    "tags = set(self.tags[key])\nbag = Bag(tags)\nreturn shown(bag)",
    "for numbers in self.deep[key].values():\n    return Bag(numbers).held",
    "a, b = self.tags[key], word\nreturn Bag(a).held",
    "return shown(self)",
    "return (lambda: self.tags[key])()",
    "return Bag(held=self.kept[key])",
    "return sorted(self.tags[key], key=lambda w: (len(w), w))",
]


@pytest.mark.parametrize("body", UNSEEN)
def test_what_can_not_see_an_order_is_known(body, tmp_path):
    assert not drafted(tmp_path, body).sees_sets


@pytest.mark.parametrize("body", SEEN)
def test_what_might_see_one_is_taken_to(body, tmp_path):
    assert drafted(tmp_path, body).sees_sets


def test_only_a_program_that_might_see_an_order_pays_for_one(tmp_path):
    for body, renews in ((UNSEEN[0], set()), (f"{UNSEEN[0]}\n{SEEN[0]}", {"tags"})):
        text = FRAME.format(body=textwrap.indent(body, " " * 8).replace("object:", "str:"))
        program = compile_program(program_in(load(text.replace("-> object", "-> str"), tmp_path)))
        assert program.entries["go"].tasks[0].renews == renews
