"""What programs about shared objects are made of: forms of expressions and statements, each with the feature it shows.

A form has holes: `<L>` is an expression of that kind, `<L!>` a variable of it or else a new object, `<v>` a number,
`<k>` a key. Kinds are L list[int], N list[list[int]], D dict[str, list[int]], S set[int], T tuple[int, list[int]],
C Customer, O Order, P Pair, B Badge.
"""

from __future__ import annotations

from typing import NamedTuple

HEAD = """\
from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import operator
from dataclasses import dataclass
from dataclasses import field
from functools import cached_property
from functools import lru_cache
from typing import NamedTuple

from millpond import Counter, Map, Partial, Partitioned, Program, entry

"""

CLASSES = """\
@dataclass
class Customer:
    name: str
    tags: list[int]

    @cached_property
    def total(self) -> int:
        return sum(self.tags)


@dataclass
class Order:
    number: int
    customer: Customer


class Pair(NamedTuple):
    left: list[int]
    right: list[int]


@dataclass(frozen=True)
class Badge:
    owner: Customer
    marks: list[int] = field(default_factory=list)


class Box:
    def __init__(self, inside):
        self.inside = inside

    def open(self):
        return self.inside


def same(x):
    return x


def put(into, x):
    into.append(x)


def merge(left, *others, extra=()):
    for other in others:
        left.extend(other)
    left.extend(extra)
    return left


def each(items):
    for item in items:
        yield item


def deep(items, left=2):
    return deep(items, left - 1) if left else items


def sure(value):
    if value % 4 == 3:
        raise LookupError(value)
    return value

"""

OUTSIDE = {
    "BASE": "BASE = [1, 2]\n",
    "TABLE": 'TABLE = {"x": [3], "y": []}\n',
    "HOUSE": 'HOUSE = Customer("house", [4])\n',
    "grades": "@lru_cache(maxsize=None)\ndef grades(number):\n    return [number, 7]\n",
    "Tray": """
class Tray:
    def __init__(self, first):
        self.rows = [first]

    def own(self, number):
        self.rows.append(number)
        return self.rows

    @property
    def shown(self):
        return self.rows

    def __sub__(self, number):
        return [*self.rows, number]
""",
    "Desk": """
NOTED = []


def noted(function):
    def wrapper(*given):
        NOTED.append(len(given))
        return function(*given)

    return wrapper


class Desk:
    def __init__(self, first):
        self.rows = [first]

    def book(self, number):
        NOTED.append(number)
        return self.rows

    @property
    def asked(self):
        NOTED.append(1)
        return self.rows

    def __add__(self, number):
        NOTED.append(number)
        return [number]

    def __getitem__(self, number):
        NOTED.insert(0, number)
        return [number]

    def __call__(self):
        del NOTED[:1]
        NOTED.append(7)
        return self.rows

    @noted
    def wrapped(self, number):
        return [number]

    @staticmethod
    def book_of():
        return NOTED
""",
}
"""What lies outside of rows, by the name that needs it."""

BUILTINS = {
    "enumerate": "def enumerate(items):\n    return [(item, item + 100) for item in items]\n",
    "zip": "def zip(left, right):\n    return [(item, 100) for item in left]\n",
    "reversed": "def reversed(items):\n    return [*items, *items]\n",
    "sorted": "def sorted(items):\n    return [*items, *items]\n",
    "filter": "def filter(test, items):\n    return [item + 100 for item in items]\n",
    "range": "def range(end):\n    return [100, end]\n",
    "len": "def len(items):\n    return 100\n",
    "sum": "def sum(items):\n    return 100\n",
    "max": "def max(items, key=None):\n    return items[-1]\n",
    "map": "def map(test, items):\n    return [test(item) for item in items][::-1]\n",
    "next": "def next(items):\n    return [*items][-1]\n",
    "any": "def any(items):\n    return False\n",
}
"""Functions of the program's own under the names of Python's."""

KINDS = {
    "L": "list[int]",
    "N": "list[list[int]]",
    "D": "dict[str, list[int]]",
    "S": "set[int]",
    "C": "Customer",
    "O": "Order",
    "P": "Pair",
    "T": "tuple[int, list[int]]",
    "B": "Badge",
}
ELEMENTS = {
    "a": "L",
    "b": "L",
    "n": "N",
    "d": "D",
    "s": "S",
    "c": "C",
    "o": "O",
    "p": "P",
    "t": "T",
    "g": "B",
}
NEW = {
    "L": "[<v>]",
    "N": "[[<v>]]",
    "D": '{"q": [<v>]}',
    "S": "{<v>}",
    "C": 'Customer("u", [<v>])',
    "O": 'Order(<v>, Customer("w", []))',
    "P": "Pair([<v>], [])",
    "T": "(<v>, [<v>])",
    "B": 'Badge(Customer("z", [<v>]))',
}


class Form(NamedTuple):
    """A form, what it shows, and how often it is taken."""

    feature: str
    text: str
    weight: float = 1.0


EXPRESSIONS: dict[str, tuple[Form, ...]] = {
    "L": (
        Form("", "[<v>, <v>]", 2),
        Form("", "<L!>", 6),
        Form("state", "<self L>.setdefault(<k>, [])", 5),
        Form("state", "<self L>.pop(<k>, [<v>])"),
        Form("default of get", "<self L>.get(<k>, <L!>)", 3),
        Form("default of setdefault", "<self L>.setdefault(<k>, <L!>)", 2),
        Form("default of get", '<D>.get("z", <L!>)'),
        Form("part", "(<N> or [[<v>]])[0]", 2),
        Form("part", '<D>.setdefault("q", [])', 2),
        Form("part", "<C>.tags", 2),
        Form("part", "<O>.customer.tags", 2),
        Form("part", "<P>.left", 2),
        Form("copy", "<L>.copy()"),
        Form("copy", "list(<L>)"),
        Form("copy", "<L>[:]"),
        Form("copy", "[*<L>, <v>]"),
        Form("copy", "copy.copy(<L>)"),
        Form("roundabout", "same(<L>)"),
        Form("roundabout", "next(iter([<L>]))"),
        Form("roundabout", "[<L>][0]"),
        Form("roundabout", "(lambda x: x)(<L>)"),
        Form("roundabout", "max([<L>], key=len)"),
        Form("roundabout", "list(map(same, [<L>]))[0]"),
        Form("roundabout", "next(itertools.chain([<L>]))"),
        Form("roundabout", "[x for x in [<L>]][0]"),
        Form("roundabout", "operator.itemgetter(0)([<L>])"),
        Form("roundabout", "functools.reduce(lambda one, two: two, [<L>, <L>])"),
        Form("roundabout", "Box(<L>).inside"),
        Form("roundabout", "(<L> if <v> % 2 else <L>)"),
        Form("roundabout", "(<L> or <L>)"),
        Form("part", "<T>[1]", 2),
        Form("part", "<B>.marks"),
        Form("part", "<B>.owner.tags"),
        Form("copy", "sorted(<L>)"),
        Form("copy", "(<L> + <L>)"),
        Form("copy", "[*reversed(<L>)]"),
        Form("copy", "copy.deepcopy(<L>)"),
        Form("comprehension", "[x + <v> for x in <L> if x != <v>]"),
        Form("comprehension", "[y for x in <N> for y in x]"),
        Form("comprehension", "[len(x) for x in <D>.values()]"),
        Form("comprehension", "list(filter(None, <L>))"),
        Form("set", "sorted(<S>)"),
        Form("helper", "merge(<L>, <L>)", 2),
        Form("helper", "merge([], <L>, extra=<L!>)"),
        Form("helper", "next(each([<L>, <L>]))"),
        Form("helper", "deep(<L>)"),
        Form("helper", "Box(<L>).open()"),
        Form("helper", "self._mine(<k>)", 3),
        Form("helper", "self._other(<L>)"),
        Form("module object", "BASE", 2),
        Form("module object", 'TABLE["x"]'),
        Form("module object", "HOUSE.tags"),
        Form("module object", 'TABLE.get("z", <L!>)'),
        Form("cached function", "grades(<v> % 3)", 5),
        Form("class object", "self.FIRST", 6),
        Form("default of parameter", "self._collect(<v>)", 0.7),
        Form("method", "Tray(<v>).own(<v>)"),
        Form("method", "Tray(<v>).shown"),
        Form("method", "(Tray(<v>) - <v>)"),
        Form("method outside", "Desk(<v>).book(<v>)", 2),
        Form("method outside", "Desk(<v>).asked", 2),
        Form("method outside", "(Desk(<v>) + <v>)", 2),
        Form("method outside", "Desk(<v>)[<v>]", 2),
        Form("method outside", "Desk(<v>)()", 2),
        Form("method outside", "Desk(<v>).wrapped(<v>)", 2),
        Form("method outside", "Desk.book_of()", 2),
        Form("method outside", 'operator.methodcaller("book", <v>)(Desk(<v>))', 2),
        Form("method outside", "[x.book(<v>) for x in [Desk(<v>)]][0]", 2),
    ),
    "N": (
        Form("", "<N!>", 4),
        Form("twice in one value", "[<L!>, <L!>]", 3),
        Form("", "[<L>]", 2),
        Form("state", "<self N>.setdefault(<k>, [[<v>]])", 5),
        Form("default of get", "<self N>.get(<k>, <N!>)"),
        Form("copy", "<N>.copy()", 2),
        Form("copy", "list(<N>)", 2),
        Form("copy", "<N>[:2]"),
        Form("copy", "copy.copy(<N>)"),
        Form("twice in one value", "([<L!>] * 2)"),
        Form("roundabout", "list(map(same, <N>))"),
        Form("roundabout", "list(itertools.islice(<N>, 2))"),
        Form("comprehension", "[x for x in <N>]"),
        Form("comprehension", "[list(x) for x in <N>]"),
        Form("comprehension", "[x for x in <D>.values() if x]"),
        Form("copy", "sorted(<N>)"),
        Form("copy", "copy.deepcopy(<N>)"),
        Form("roundabout", "[[*x] for x in zip(<L>, <L>)]"),
        Form("helper", "list(each(<N>))"),
        Form("module object", "list(TABLE.values())"),
    ),
    "D": (
        Form("", "<D!>", 3),
        Form("", '{"q": <L>}', 2),
        Form("twice in one value", '{"q": <L!>, "r": <L!>}', 2),
        Form("state", "<self D>.setdefault(<k>, {})", 5),
        Form("default of get", "<self D>.get(<k>, <D!>)"),
        Form("copy", "<D>.copy()", 2),
        Form("copy", "dict(<D>)"),
        Form("copy", '{**<D>, "s": <L>}'),
        Form("twice in one value", 'dict.fromkeys("qr", <L>)'),
        Form("copy", '(<D> | {"q": <L>})'),
        Form("copy", "copy.deepcopy(<D>)"),
        Form("comprehension", "{str(y): x for y, x in zip(range(2), <N>)}"),
        Form("comprehension", "{y: x for y, x in <D>.items() if x}"),
        Form("copy", "dict(sorted(<D>.items()))"),
        Form("module object", "TABLE", 1),
    ),
    "S": (
        Form("set", "<S!>", 3),
        Form("set", "{<v>, <v>}", 2),
        Form("set", "<self S>.setdefault(<k>, set())", 5),
        Form("set", "<self S>.get(<k>, <S!>)"),
        Form("set", "<S>.copy()"),
        Form("set", "set(<L>)"),
        Form("set", "(<S> | {<v>})"),
        Form("set", "(<S> & <S>)"),
        Form("set", "(<S> - {<v>})"),
        Form("set", "{x for x in <L> if x}"),
        Form("set", "{x + 1 for x in <S>}", 0.2),
    ),
    "C": (
        Form("", "<C!>", 3),
        Form("constructor", 'Customer("n", <L>)', 5),
        Form("constructor", 'Customer(tags=<L!>, name="m")', 2),
        Form("state", '<self C>.setdefault(<k>, Customer("s", []))', 5),
        Form("part", "<O>.customer", 3),
        Form("replace", 'dataclasses.replace(<C>, name="r")', 3),
        Form("copy", "copy.copy(<C>)"),
        Form("roundabout", "same(<C>)"),
        Form("part", "<B>.owner"),
        Form("copy", "copy.deepcopy(<C>)"),
        Form("constructor", 'Customer(**{"name": "k", "tags": <L>})'),
        Form("module object", "HOUSE"),
    ),
    "O": (
        Form("", "<O!>", 3),
        Form("constructor", "Order(<v>, <C>)", 5),
        Form("constructor", "Order(<v>, customer=<C!>)", 2),
        Form("state", '<self O>.setdefault(<k>, Order(0, Customer("t", [])))', 4),
        Form("second place", "<self O>.setdefault(<k>, Order(0, <C>))", 2),
        Form("replace", "dataclasses.replace(<O>, number=<v>)", 2),
        Form("replace", "dataclasses.replace(<O>, customer=<C>)"),
    ),
    "P": (
        Form("", "<P!>", 3),
        Form("named tuple", "Pair(<L>, <L>)", 5),
        Form("named tuple", "Pair(<L!>, <L!>)", 2),
        Form("named tuple", "<self P>.setdefault(<k>, Pair([], [<v>]))", 4),
        Form("named tuple", "<P>._replace(left=<L>)", 2),
        Form("named tuple", "Pair(*[<L>, <L>])"),
        Form("named tuple", "Pair._make([<L!>, <L!>])"),
    ),
    "T": (
        Form("tuple", "<T!>", 3),
        Form("tuple", "(<v>, <L>)", 5),
        Form("tuple", "<self T>.setdefault(<k>, (0, []))", 4),
        Form("tuple", "<self T>.get(<k>, <T!>)"),
        Form("tuple", "(<T>[0], *[<L>])"),
    ),
    "B": (
        Form("frozen", "<B!>", 3),
        Form("frozen", "Badge(<C>)", 3),
        Form("frozen", "Badge(<C>, <L>)", 4),
        Form("frozen", '<self B>.setdefault(<k>, Badge(Customer("b", [])))', 4),
        Form("frozen", "dataclasses.replace(<B>, marks=<L>)", 2),
        Form("frozen", "copy.copy(<B>)"),
    ),
}

CHANGES: dict[str, tuple[Form, ...]] = {
    "L": (
        Form("", "<L>.append(<v>)", 5),
        Form("", "<L>.extend([<v>])"),
        Form("", "<L>.insert(0, <v>)"),
        Form("", "<L>.clear()"),
        Form("state", "x = <self L>.get(<k>)\nif x is not None:\n    x.append(<v>)", 2),
        Form("state", "if k in <self L>:\n    del <self L>[k]"),
        Form("roundabout", "x, y = <L>, <L>\nx.append(-<v>)\ny += x[-1:]"),
        Form("roundabout", "put(<L>, <v>)"),
        Form("roundabout", "for x in [<L>]:\n    x.append(<v>)"),
        Form("", "x = <L>\nx += [<v>]"),
        Form("", "x = <L>\nif x:\n    x[0] += <v>", 2),
        Form("", "x = <L>\nif x:\n    del x[-1]"),
        Form("", "<L>.sort()"),
        Form("state", "<self L>[<k>] = <self L>.get(<k>, []) + [<v>]", 2),
        Form("walrus", "if (x := <L>) and len(x) > 1:\n    x.pop()", 2),
        Form("walrus", "x = (y := <L>) + [<v>]\ny.append(len(x))"),
        Form("unpacking", "x, *y = [<L>, <L>]\ny[0].append(len(x))"),
        Form("unpacking", "for y, x in enumerate([<L>, <L>]):\n    x.append(y)"),
        Form("helper", "merge(<L>, <L>)"),
        Form("helper", "def add(into, by=<v>):\n    into.append(by)\n\nadd(<L>)"),
        Form("helper", "x = lambda into: into.append(<v>)\nx(<L>)"),
        Form("helper", "self._mine(<k>).append(<v>)"),
    ),
    "N": (
        Form("", "<N>.append(<L>)", 3),
        Form("", "for x in <N>:\n    x.append(<v>)", 2),
        Form("roundabout", "put(<N>, <L!>)"),
        Form("twice in one value", "x = <self N>.setdefault(<k>, [[<v>]])\nx.append((x or [[<v>]])[0])", 2),
        Form("twice in one value", "x = <self N>.get(<k>)\nif x:\n    x.append(x[0])\n    x[0].append(<v>)", 2),
        Form("state", "if k in <self N>:\n    <self N>[k].append(<L>)", 2),
        Form("twice in one value", "if k in <self N>:\n    x = <self N>[k]\n    x.extend(x[:1])", 2),
        Form("state", "x = <self N>.get(<k>)\nif x:\n    x[-1].append(<v>)", 3),
        Form("", "for x in <N>:\n    if not x:\n        break\n    x.append(<v>)\nelse:\n    <L>.append(<v>)"),
    ),
    "D": (
        Form("", '<D>["q"] = <L>', 3),
        Form("default of setdefault", '<D>.setdefault("z", <L!>).append(<v>)', 2),
        Form("", "<D>.update(u=<L>)"),
        Form("unpacking", "for y, x in <D>.items():\n    x.append(<v>)"),
        Form("", '<D>.pop("q", <L!>).append(<v>)'),
        Form("walrus", 'if x := <D>.get("q"):\n    x.append(<v>)'),
        Form("twice in one value", 'x = <self D>.setdefault(<k>, {})\nx["q"] = x["r"] = <L>', 2),
        Form("state", 'x = <self D>.get(<k>)\nif x is not None and "q" in x:\n    x["q"].append(<v>)', 3),
    ),
    "S": (Form("set", "<S>.add(<v>)", 3), Form("set", "<S>.discard(<v>)"), Form("set", "<S>.update(<L>)")),
    "C": (
        Form("", "<C>.tags.append(<v>)", 4),
        Form("", '<C>.name = "x"', 2),
        Form("", "<C>.tags = <L>", 2),
        Form("state", "x = <self C>.get(<k>)\nif x is not None:\n    x.tags.append(x.total)", 2),
        Form("state", "if k in <self C>:\n    x = <self C>[k]\n    x.tags.append(x.total)", 2),
    ),
    "O": (
        Form("", "<O>.customer.tags.append(<v>)", 3),
        Form("", '<O>.customer.name = "y"', 2),
        Form("", "<O>.number += <v>"),
        Form("", "<O>.customer = <C>", 2),
    ),
    "P": (
        Form("named tuple", "<P>.left.append(<v>)", 2),
        Form("named tuple", "<P>.right.extend(<P>.left)"),
        Form("named tuple", "x, y = <P>\nx.append(len(y))"),
    ),
    "T": (Form("tuple", "<T>[1].append(<v>)", 2), Form("tuple", "y, x = <T>\nx.append(y)")),
    "B": (
        Form("frozen", "<B>.marks.append(<v>)", 2),
        Form("frozen", '<B>.owner.name = "v"'),
        Form("frozen", "<B>.owner.tags.extend(<B>.marks)"),
    ),
}

LOOPS = (
    Form("own builtin", "for p, q in enumerate(<L>):\n    self.i[p % 3] = self.i.get(p % 3, 0) + q", 2),
    Form("own builtin", "for p, q in zip(<L>, [1, 2]):\n    self.i[p % 3] = self.i.get(p % 3, 0) + q"),
    Form("own builtin", "for p in reversed(<L>):\n    self.i[p % 3] = self.i.get(p % 3, 0) + 1"),
    Form("own builtin", "for p in sorted(<L>):\n    self.i[p % 3] = self.i.get(p % 3, 0) + p"),
    Form("own builtin", "for p in filter(None, <L>):\n    self.i[p % 3] = self.i.get(p % 3, 0) + p"),
    Form("own builtin", "for p in range(<v> % 3):\n    self.i[p % 3] = self.i.get(p % 3, 0) + p"),
    Form("own builtin", "x = len(<L>)\nself.i[x % 3] = self.i.get(x % 3, 0) + 1"),
    Form("own builtin", "x = sum(<L>)\nself.i[x % 3] = self.i.get(x % 3, 0) + 1"),
    Form("own builtin", "x = max([<v>, 2])\nself.i[x % 3] = self.i.get(x % 3, 0) + x"),
    Form("own builtin", "for p in map(same, [<v>, 2]):\n    self.i[p % 3] = self.i.get(p % 3, 0) + p"),
    Form("own builtin", "if not any([1, <v>]):\n    self.i[0] = self.i.get(0, 0) + 1"),
)

GUARDED = (
    Form("guard", "if j is not None and j in <self L>:\n    <self L>[j].append(<v>)", 2),
    Form("guard", "x = -1 if j is None else len(<self L>.get(j, []))\nv += x"),
    Form("guard", "x = j is None or <self L>.setdefault(j, []).append(<v>)"),
    Form("guard", "if j:\n    <self L>[j] = [*<self L>.get(j, []), <v>]", 2),
    Form("guard", "x = j is not None and <self L>.get(j)\nif x:\n    x.append(<v>)", 2),
    Form("guard", "if j is None:\n    v += 1\nelse:\n    <self L>.setdefault(j, []).append(<v>)", 2),
    Form(
        "guard", "for x in (j, None):\n    if x is None:\n        continue\n    <self L>.setdefault(x, []).append(<v>)"
    ),
    Form("guard", "match j:\n    case None:\n        v += 2\n    case x:\n        <self L>[x] = [<v>]"),
)
"""Accesses under a key that may be None, behind what asks for it."""

RAISES = (
    Form("raising row", 'if <v> % 4 == 3:\n    raise ValueError("no")', 3),
    Form("raising row", "x = 10 // (<v> % 3)"),
    Form("raising row", 'x = {"a": 1}["b" if <v> % 5 == 1 else "a"]'),
    Form("raising row", "assert <v> % 5, <L>"),
    Form("raising row", "v = sure(<v>)"),
    Form("raising row", "if <v> > 6:\n    raise LookupError(k)"),
    Form("raising row", "x = <self L>[<k>]", 2),
)

_SURE = "except (LookupError, ValueError) as error:\n    v = len(error.args)\nelse:\n    <body>"
_NUMBERS = "case 0:\n        v += 1\n    case 1 | 2 as x if x > k:\n        <body>"
_BOTH = "case []:\n        <body>\n    case [x, *y]:\n        y.append(x)\n        <body>"
_NAMED = 'case Customer(name="n", tags=x):\n        x.append(<v>)'
AROUND = (
    Form("try", "try:\n    x = 6 // (<v> % 3)\nexcept ZeroDivisionError:\n    <body>", 2),
    Form("try", f"try:\n    x = sure(<v>)\n{_SURE}"),
    Form("try", "try:\n    v = sure(<v>)\nfinally:\n    <body>"),
    Form("match", f"match <v> % 3:\n    {_NUMBERS}\n    case _:\n        <body>", 2),
    Form("match", f"match <L>:\n    {_BOTH}", 2),
    Form("match", f"match <C>:\n    {_NAMED}\n    case _:\n        <body>"),
    Form("loop", "for x in range(2):\n    <body>", 2),
    Form("loop", "x = 0\nwhile x < <v> % 3:\n    x += 1\n    <body>"),
    Form("loop", "for x in <L>:\n    if x > 6:\n        break\n    v = x\nelse:\n    <body>"),
)
"""What stands around other statements, whose place is a line with `<body>` alone."""

OBSERVED = {
    "L": ("<L>",),
    "N": ("<N>",),
    "D": ("<D>",),
    "S": ("list(map(int, (<v> in <S>, len(<S>))))",),
    "C": ("<C>",),
    "O": ("<O>",),
    "P": ("<P>",),
    "T": ("<T>",),
    "B": ("<B>",),
}
CACHED_PROPERTY = Form("cached property", "<C>.total", 1)

OUTSIDE_OF_ROWS = frozenset({"module object", "cached function", "class object", "method outside"})
"""Features that meet what lies outside of rows: most programs do not, and those that change it must be refused."""

FEATURES = (
    "shared",
    "cut",
    "state",
    "part",
    "copy",
    "replace",
    "constructor",
    "named tuple",
    "set",
    "default of get",
    "default of setdefault",
    "twice in one value",
    "roundabout",
    "module object",
    "cached function",
    "class object",
    "method",
    "method outside",
    "cached property",
    "own builtin",
    "guard",
    "raising row",
    "list parameter",
    "default of parameter",
    "second place",
    "caller",
    "tuple",
    "frozen",
    "comprehension",
    "helper",
    "walrus",
    "unpacking",
    "try",
    "match",
    "loop",
)
"""All that can be asked for."""
