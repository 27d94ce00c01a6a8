"""Methods as people write them that use sets: those that let an order be seen, and those that do not.

Run as a script it tells of each whether it is refused, and what it replies else; with other hash seeds the replies of
those that are accepted must be the same.
"""

from __future__ import annotations

import json
import sys
import tempfile
import textwrap
from pathlib import Path

from millpond.compiler.compile import compile_program
from millpond.engine.sequential import Sequential
from millpond.errors import ProgramError
from tests.golden.programs import load, program_in

FRAME = """
import collections, copy, functools, heapq, itertools, json, math, operator, reprlib, string, pprint
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import reduce
from itertools import chain, combinations
from operator import methodcaller
from types import SimpleNamespace
from typing import NamedTuple, cast

LEVELS = {{"low", "mid", "high", "top"}}
BY_KIND = {{"a": {{"x", "y", "z"}}, "b": {{"u", "v", "w"}}}}
take = methodcaller("pop")
joined = functools.partial(str.join, "-")

@dataclass
class Card:
    name: str
    tags: set[str] = field(default_factory=set)

    def all_tags(self) -> set[str]:
        return self.tags | {{self.name}}

class Pair(NamedTuple):
    name: str
    tags: frozenset[str]

class Labelled:
    def __init__(self, tags: set[str]) -> None:
        self.tags = tags

class Basket:
    def __init__(self, items: set[str]) -> None:
        self.first = next(iter(items))

@dataclass
class Order:
    items: set[str]
    text: str = ""

    def __post_init__(self) -> None:
        self.text = ",".join(self.items)

@dataclass
class Shelf:
    items: set[str]

    @property
    def label(self) -> str:
        return "/".join(self.items)

    def __str__(self) -> str:
        return " ".join(self.items)

    def size(self) -> int:
        return len(self.items)

class Tags(set):
    def both(self, others):
        return len(self) + len(others)

    def line(self) -> str:
        return ",".join(self)

class Names(frozenset[str]):
    pass

@dataclass
class Box:
    card: Card
    shelves: list[Shelf] = field(default_factory=list)

    def __str__(self) -> str:
        return "box"

ALL_TAGS = Tags(("p", "q", "r"))

def unique(words: list[str]) -> list[str]:
    return list(set(words))

def longest(words):
    return max(set(words), key=len)

def first(items):
    return next(iter(items))

def as_text(items: set[str]) -> str:
    return ",".join(items)

def count(items):
    return len(items) + sum(1 for item in items)

def known(words: list[str]) -> set[str]:
    return {{word.lower() for word in words}}

class P(Program):
    groups = Partitioned(Map[str, set[str]])
    cards = Partitioned(Map[str, Card])
    SIDES = frozenset(("left", "right", "top", "bottom"))

    @entry
    def go(self, key: str, given: set[str], words: list[str]) -> str:
{body}
"""

SEEN = [
    "return '%s' % given",
    "return '%s' % (given,)",
    "return '%s and %r' % (key, given)",
    "return 'tags: %(tags)s' % {'tags': given}",
    "return '{}'.format(given)",
    "return 'a {x}'.format(x=given)",
    "return 'a {x}'.format_map({'x': given})",
    "return repr([given])",
    "return str((key, given))",
    "return str({'tags': given})",
    "return f'{[given, words]}'",
    "return f'{Card(key, given)}'",
    "return str(Pair(key, frozenset(given)))",
    "card = Card(key, set(words))\nreturn repr(card)",
    "return reduce(lambda a, b: a + b, given)",
    "return functools.reduce(operator.add, given, '')",
    "return ''.join(chain(given, words))",
    "return ''.join(itertools.chain.from_iterable([given, given]))",
    "return ''.join(chain(*[set(words), given]))",
    "return str(list(itertools.islice(given, 2)))",
    "return str([a + b for a, b in combinations(given, 2)])",
    "return str(list(itertools.accumulate(given)))",
    "return str(Counter(given))",
    "return str(Counter(given).most_common(1))",
    "c = Counter()\nc.update(given)\nreturn str(list(c))",
    "return str(list(OrderedDict.fromkeys(given)))",
    "return methodcaller('pop')(set(given))",
    "return take(set(given))",
    "return operator.methodcaller('__iter__')(given).__next__()",
    "return joined(given)",
    "return str.join(',', given)",
    "return set.pop(set(given))",
    "p = given.pop\nreturn p()",
    "f = list\nreturn str(f(given))",
    "f = lambda s: next(iter(s))\nreturn f(given)",
    "def pick(s):\n    for x in s:\n        return x\nreturn pick(given)",
    "return first(given)",
    "return as_text(set(words))",
    "return first(known(words))",
    "return ','.join(LEVELS)",
    "return [x for x in self.SIDES][0]",
    "return ','.join(BY_KIND.get(key, LEVELS))",
    "for kind, names in BY_KIND.items():\n    return kind + ''.join(names)\nreturn ''",
    "d = defaultdict(set)\nfor w in words:\n    d[w[0]].add(w)\nreturn str([list(d[k]) for k in sorted(d)])",
    "d = {}\nfor w in words:\n    d.setdefault(w[0], set()).add(w)\nreturn str(dict(d))",
    "return json.dumps({'tags': given}, default=list)",
    "return str(heapq.nsmallest(2, given, key=len))",
    "return str(sorted(given, key=len))",
    "return str(sorted({frozenset(w) for w in words}, key=list))",
    "return str(list(map(list, [given])))",
    "return str([*map(''.join, [given, given])])",
    "return max([given, set(words)], key=str).pop()",
    "return ''.join(Card(key, given).all_tags())",
    "return next(x for x in given if x)",
    "if any((hit := x) > 'a' for x in given):\n    return hit\nreturn ''",
    "out = []\nany(out.append(x) for x in given)\nreturn str(out)",
    "out = [key]\nout[1:] = given\nreturn str(out)",
    "out = [key]\nout += given\nreturn str(out)",
    "return self.random.choice(list(given))",
    "return string.Template('$x').substitute(x=given)",
    "return pprint.pformat(given)",
    "return reprlib.repr(given)",
    "s: set[str] = set()\ns.update(words)\nreturn ''.join(s)",
    "a, *rest = given\nreturn a",
    "return ' '.join(w for w in copy.copy(given))",
    "both = given & set(words) or given\nreturn min(both, key=lambda w: len(w))",
    "tags = self.groups.get(key, set())\nreturn tags.copy().pop() if tags else ''",
    "self.cards[key] = Card(key, given)\nreturn str(self.cards[key])",
    "return Basket(given).first",
    "return Order(given).text",
    "return Shelf(given).label",
    "return str(Shelf(given))",
    "return f'{Shelf(given).label}'",
    "return unique(words)[0]",
    "return longest(words)",
    "return str(unique([w.upper() for w in words]))",
    "return str(bytes({len(w) * 3 for w in given} | {9, 17, 1}))",
    "out = []\nfor w in words:\n    out.append({w, key, w * 2})\nreturn str(out)",
    "by = {}\nby[key] = given\nreturn str(by)",
    "return str(list(enumerate(given, 1)))",
    "return dict(zip(given, words, strict=False)).popitem()[0]",
    "it = iter(given)\nreturn next(it)",
    "return str([x for x in {**dict.fromkeys(given)}])",
    "match sorted(words):\n    case [*_]:\n        return ''.join(given)\nreturn ''",
    "return ''.join(x for x in (given if key else words))",
    "return (lambda s: ''.join(s))(given)",
    "return ''.join(filter(None, given))",
    "return str(deque(given, maxlen=1))",
    "return key.join(set(words) - {key})",
    "try:\n    return ''.join(given)\nfinally:\n    pass",
    "return str(asdict(Card(key, given)))",
    "return f'{asdict(Shelf(given))}'",
    "return repr(astuple(Card(key, given)))",
    "return str(vars(Card(key, given)))",
    "return str(Card(key, given).__dict__)",
    "return str(Pair(key, frozenset(given))._asdict())",
    "return json.dumps(asdict(Card(key, given)), default=list)",
    "return str(asdict(Box(Card(key, given))))",
    "return str(asdict(Box(Card(key), [Shelf(given)])))",
    "return ','.join(asdict(Card(key, given))['tags'])",
    "d = asdict(Card(key, given))\nreturn str(d)",
    "return str([list(v) for k, v in vars(Card(key, given)).items() if k == 'tags'])",
    "return str(replace(Card(key, given), name='x'))",
    "return str(SimpleNamespace(tags=given))",
    "ns = SimpleNamespace(tags=given)\nreturn ','.join(ns.tags)",
    "return str(cast(object, given))",
    "self.cards[key] = Card(key, given)\nreturn str(asdict(self.cards[key]))",
    "return str(Tags(given))",
    "return ','.join(Tags(words))",
    "return Tags(words).line()",
    "tags = Tags(words)\nfor tag in tags:\n    return tag\nreturn ''",
    "return list(Names(given))[0]",
    "return f'{[Names(given)]}'",
    "return Tags(words).pop()",
    "return ','.join(ALL_TAGS)",
    "return ','.join(Tags(words) | given)",
]
FINE = [
    "return str(sorted(given))",
    "return ','.join(sorted(given | set(words)))",
    "return f'{len(given)} of {key in given}'",
    "return '%d' % len(given)",
    "return str(sum(len(w) for w in given))",
    "return str(count(given))",
    "return str(sorted(chain(given, words)))",
    "return str(sorted(known(words) - given))",
    "return str(sorted(set().union(*[given, set(words)])))",
    "return str(sorted(reduce(operator.or_, [given, set(words)])))",
    "return str(sorted(functools.reduce(lambda a, b: a & b, [given, set(words)])))",
    "d = defaultdict(set)\nfor w in words:\n    d[w[0]].add(w)\nreturn str([sorted(d[k]) for k in sorted(d)])",
    "return str(max(given, default=''))",
    "return max(given, key=lambda w: (len(w), w), default='')",
    "self.groups[key] = self.groups.get(key, set()) | given\nreturn str(len(self.groups[key]))",
    "self.cards[key] = Card(key, set(given))\nreturn str(sorted(self.cards[key].all_tags()))",
    "return str(any(x in LEVELS for x in given) or given <= LEVELS)",
    "return str(sorted(map(str.upper, given)))",
    "seen = set()\nout = [w for w in words if not (w in seen or seen.add(w))]\nreturn str(out)",
    "return str(Labelled(given).tags == given)",
    "return str(sorted([len(s) for s in [given, set(words)]]))",
    "return str(sorted([sorted(s) for s in map(set, [words, words])]))",
    "return str(math.fsum(len(w) for w in given))",
    "f = lambda s: len(s)\nreturn str(f(given))",
    "return max([given, set(words)], key=len) and 'x'",
    "copied = copy.deepcopy(given)\ncopied.discard(key)\nreturn str(copied.isdisjoint(words))",
    "return str(sorted(frozenset(words).symmetric_difference(given)))",
    "return str(heapq.nlargest(2, given))",
    "return str(Shelf(given).size())",
    "return str(sorted(unique(words)))",
    "return str(len(set(words)) if key else 0)",
    "return str(sorted(x for s in (given, set(words)) for x in s))",
    "by = {}\nby[key] = given\nreturn str(sorted(by[key]))",
    "return str(sorted(given)[0] if given else None)",
    "return str({w: len(w) for w in sorted(given)})",
    "return str(sorted(asdict(Card(key, given))['tags']))",
    "return ','.join(asdict(Card(key, given))['name'])",
    "return str(len(asdict(Card(key, given))))",
    "return str(Box(Card(key, given)))",
    "return replace(Card(key, given), name='x').name",
    "return SimpleNamespace(tags=given, name=key).name",
    "return str(sorted(Tags(words)))",
    "return str(Tags(words).both(given))",
    "return str(len(Names(given) & Tags(words)) + len(ALL_TAGS))",
]
ROWS = [
    ("a", {"ape", "bee", "cat", "dog"}, ["one", "two", "three", "ape"]),
    ("b", {f"w{number}" for number in range(30)}, ["b", "bb", "bee"]),
    ("a", {"x"}, ["y", "x", "z", "q"]),
]


def told(body: str, folder: str) -> object:
    """The code of a refusal, or the replies."""
    text = FRAME.format(body=textwrap.indent(body, " " * 8))
    try:
        program = compile_program(program_in(load(text, Path(folder))))
    except ProgramError as error:
        return error.code
    run = Sequential(program)
    return [run.call("go", key, set(given), list(words)) for key, given, words in ROWS]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        found = [told(body, scratch) for body in (*SEEN, *FINE)]
    sys.stdout.write(json.dumps(found))
