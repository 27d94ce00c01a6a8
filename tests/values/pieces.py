"""What programs about shared objects are made of: forms of expressions and statements, each with the feature it shows.

A form has holes: `<L>` is an expression of that kind, `<L!>` a variable of it or else a new object, `<v>` a number,
`<k>` a key. Kinds are L list[int], N list[list[int]], D dict[str, list[int]], S set[int], C Customer, O Order, P Pair.
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


class Box:
    def __init__(self, inside):
        self.inside = inside


def same(x):
    return x


def put(into, x):
    into.append(x)

"""

OUTSIDE = {
    "BASE": "BASE = [1, 2]\n",
    "TABLE": 'TABLE = {"x": [3], "y": []}\n',
    "HOUSE": 'HOUSE = Customer("house", [4])\n',
    "grades": "@lru_cache(maxsize=None)\ndef grades(number):\n    return [number, 7]\n",
}
"""What lies outside of rows, by the name that needs it."""

BUILTINS = {
    "enumerate": "def enumerate(items):\n    return [(item, item + 100) for item in items]\n",
    "zip": "def zip(left, right):\n    return [(item, 100) for item in left]\n",
    "reversed": "def reversed(items):\n    return [100, *items]\n",
    "sorted": "def sorted(items):\n    return [100, *items]\n",
    "filter": "def filter(test, items):\n    return [item + 100 for item in items]\n",
    "range": "def range(end):\n    return [100, end]\n",
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
}
ELEMENTS = {"a": "L", "b": "L", "n": "N", "d": "D", "s": "S", "c": "C", "o": "O", "t": "P"}
NEW = {
    "L": "[<v>]",
    "N": "[[<v>]]",
    "D": '{"q": [<v>]}',
    "S": "{<v>}",
    "C": 'Customer("u", [<v>])',
    "O": 'Order(<v>, Customer("w", []))',
    "P": "Pair([<v>], [])",
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
        Form("module object", "BASE", 2),
        Form("module object", 'TABLE["x"]'),
        Form("module object", "HOUSE.tags"),
        Form("module object", 'TABLE.get("z", <L!>)'),
        Form("cached function", "grades(<v> % 3)", 2),
        Form("class object", "self.FIRST"),
        Form("default of parameter", "self._collect(<v>)", 0.7),
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
        Form("roundabout", "[x for x in <N>]"),
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
    "P": (Form("named tuple", "<P>.left.append(<v>)", 2), Form("named tuple", "<P>.right.extend(<P>.left)")),
}

LOOPS = (
    Form("own builtin", "for p, q in enumerate(<L>):\n    self.i[p % 3] = self.i.get(p % 3, 0) + q", 2),
    Form("own builtin", "for p, q in zip(<L>, [1, 2]):\n    self.i[p % 3] = self.i.get(p % 3, 0) + q"),
    Form("own builtin", "for p in reversed(<L>):\n    self.i[p % 3] = self.i.get(p % 3, 0) + 1"),
    Form("own builtin", "for p in sorted(<L>):\n    self.i[p % 3] = self.i.get(p % 3, 0) + p"),
    Form("own builtin", "for p in filter(None, <L>):\n    self.i[p % 3] = self.i.get(p % 3, 0) + p"),
    Form("own builtin", "for p in range(<v> % 3):\n    self.i[p % 3] = self.i.get(p % 3, 0) + p"),
)

RAISES = (
    Form("raising row", 'if <v> % 4 == 3:\n    raise ValueError("no")', 3),
    Form("raising row", "x = 10 // (<v> % 3)"),
    Form("raising row", 'x = {"a": 1}["b" if <v> % 5 == 1 else "a"]'),
)

OBSERVED = {
    "L": ("<L>",),
    "N": ("<N>",),
    "D": ("<D>",),
    "S": ("list(map(int, (<v> in <S>, len(<S>))))",),
    "C": ("<C>",),
    "O": ("<O>",),
    "P": ("<P>",),
}
CACHED_PROPERTY = Form("cached property", "<C>.total", 1)

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
    "cached property",
    "own builtin",
    "guard",
    "raising row",
    "list parameter",
    "default of parameter",
    "second place",
    "caller",
)
"""All that can be asked for."""
