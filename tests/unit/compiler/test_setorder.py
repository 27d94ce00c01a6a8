"""The order of a set is not to be seen: refused where it would be, and nowhere else."""

from __future__ import annotations

import textwrap

import pytest

from millpond.compiler.analysis.sets.order import check_set_order
from millpond.compiler.compile import draft_program
from millpond.errors import ProgramError
from tests.golden.programs import load, program_in

FRAME = """
import operator
from dataclasses import dataclass
from collections import deque

@dataclass
class Card:
    tags: set[str]

class P(Program):
    groups = Partitioned(Map[str, set[str]])
    cards = Partitioned(Map[str, Card])
    owned = Partitioned(Value[frozenset[int]])
    names = Partial(Set[str])
    deep = Partitioned(Map[str, dict[str, set[int]]])

    @entry
    def go(self, key: str, given: set[str], numbers: set[int], maybe: set[int] | None, words: list[str]) -> object:
{body}

    def _help(self, items: set[str]) -> list[str]:
        return {helper} + self._none()

    @staticmethod
    def _none() -> list[str]:
        return []
"""


def check(tmp_path, body, helper="sorted(items)"):
    text = FRAME.format(body=textwrap.indent(textwrap.dedent(body), " " * 8), helper=helper)
    draft_program(program_in(load(text, tmp_path)), until=check_set_order)


SEEN = [
    "return operator.sub(*numbers)",
    "return set.difference(*({x} for x in given))",
    "return words.index(*(x for x in given))",
    "for x in given:\n    words.append(x)",
    "for x in {1, 2}:\n    words.append(x)",
    "for x in set(words):\n    pass",
    "for x in frozenset(words) | given:\n    pass",
    "for x in given - {key}:\n    pass",
    "for x in given.union(words):\n    pass",
    "for x in self.groups[key]:\n    pass",
    "for x in self.groups.get(key, set()):\n    pass",
    "for x in self.groups.setdefault(key, set()):\n    pass",
    "for x in self.cards[key].tags:\n    pass",
    "for x in self.owned.get(frozenset()):\n    pass",
    "for x in self.deep[key][key]:\n    pass",
    "for name, inner in self.deep[key].items():\n    for x in inner:\n        pass",
    "for inner in self.deep[key].values():\n    words += [x for x in inner]",
    "for x in maybe or ():\n    pass",
    "both = {1: 2}.keys() & {1: 3}.keys()\nfor x in both:\n    pass",
    "s = set()\nfor w in words:\n    s.add(w)\nreturn [w for w in s]",
    "s = words\nif key:\n    s = given\nreturn list(s)",
    "s = []\nwhile key:\n    for x in s:\n        pass\n    s = given",
    "try:\n    s = words\nexcept ValueError:\n    s = given\nreturn tuple(s)",
    "return list(given)",
    "return [x for x in given]",
    "return {x: 1 for x in given}",
    "return [x for w in words for x in given if x != w]",
    "return [*given]",
    "return (*words, *given)",
    "return divmod(*given)",
    "a, b = given\nreturn a",
    "return given.pop()",
    "return next(iter(given))",
    "return ','.join(given)",
    "return ','.join(x for x in given)",
    "return str(given)",
    "return f'{given}'",
    "return list(enumerate(given))",
    "return list(zip(given, words))",
    "return list(map(len, given))",
    "return dict.fromkeys(given)",
    "return deque(given)",
    "words.extend(given)",
    "words += given",
    "return sorted(given, key=len)",
    "return max(given, key=len)",
    "return min(given, key=lambda w: (len(w), 1))",
    "return sum(given)",
    "return sum(float(x) for x in given)",
    "return sum(x / 2 for x in numbers)",
    "if (s := set(words)):\n    return list(s)",
    "match key:\n    case 'a':\n        s = given\n    case _:\n        s = words\nreturn list(s)",
    "def inner():\n    return list(given)\nreturn inner()",
    "with open(key):\n    return list(given)",
]
UNSEEN = [
    "return {key}.union(*({x, key} for x in given))",
    "return set(words).difference(*([x] for x in given))",
    "return set.union(*(set(words) | {x} for x in given))",
    "return max(*numbers), min(*(x + 1 for x in numbers))",
    "return {key}.union(*given)",
    "for x in sorted(given):\n    words.append(x)",
    "for x in sorted(set(words) | given):\n    pass",
    "for x in sorted([w.lower() for w in given]):\n    pass",
    "for x in sorted(w.lower() for w in given if w):\n    pass",
    "for x in sorted(map(len, given)):\n    pass",
    "s = set(words)\ns = sorted(s)\nreturn [x for x in s]",
    "s = words\nfor x in s:\n    s = [x]",
    "return len(given), key in given, given == set(words), given <= {key}",
    "return {w.lower() for w in given}",
    "return {*given, *words}",
    "return set(w for w in given), frozenset(list(given))",
    "return any(w == key for w in given) and all(given)",
    "return sum(1 for w in given), sum(len(w) for w in given), sum(numbers), sum(n * n for n in numbers)",
    "return sum(n in numbers for n in numbers), sum([-n for n in numbers])",
    "return max(given), min(numbers), max(*given)",
    "return sorted(given, key=lambda w: (len(w), w)), max(given, key=lambda w: w)",
    "given.update(words, given)\ngiven |= set(words)\ngiven.discard(key)",
    "self.groups[key] = given | self.groups.get(key, set())",
    "for x in self.deep[key]:\n    pass",
    "for x in words:\n    pass",
    "words.pop()\nreturn given.difference(words)",
    "return f'{len(given)}', str(words)",
    "return given",
    "return self._help(given)",
    "for x, y in zip(sorted(given), words):\n    pass",
    "return words[0] - 1 if False else [x for x in words if x in given]",
]


@pytest.mark.parametrize("body", SEEN)
def test_an_order_that_is_seen_is_refused(body, tmp_path):
    with pytest.raises(ProgramError) as caught:
        check(tmp_path, body)
    assert caught.value.code == "MP177"
    assert caught.value.places


@pytest.mark.parametrize("body", UNSEEN)
def test_a_set_whose_order_is_not_seen_is_fine(body, tmp_path):
    check(tmp_path, body)


def test_helpers_are_looked_into(tmp_path):
    with pytest.raises(ProgramError) as caught:
        check(tmp_path, "return self._help(given)", helper="list(items)")
    assert caught.value.code == "MP177"


def test_a_set_in_state_has_an_order(tmp_path):
    check(tmp_path, "for name in self.names:\n    words.append(name)")
