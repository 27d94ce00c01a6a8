"""Random programs whose handlers feed each other, and what a brute force over raw rows says that they are told.

The brute force knows windows by their definition: it looks at all rows that an element ever got, finds the earliest
thing that nobody was told yet, tells it, and begins anew. It has no watermarks, no epochs and no stages.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND
KEYS = ("ann", "alf", "bob", "bea")

HEAD = """from datetime import UTC, datetime, timedelta

from millpond import Counter, Partitioned, Program, entry, on_timer, on_window
from millpond.windowing import ClosedWindow, collect, count, count_tumbling, session, sliding, sum_of, tumbling

ZERO = datetime(1970, 1, 1, tzinfo=UTC)


def us(bound: datetime | int) -> int:
    return (bound - ZERO) // timedelta(microseconds=1) if isinstance(bound, datetime) else bound


class Chained(Program):
    seen = Partitioned(Counter[str])
"""


@dataclass(frozen=True)
class Node:
    """Windows of a shape or timers, the nodes that the handler feeds, and what else it does."""

    name: str
    shape: tuple[Any, ...]
    feeds: tuple[str, ...] = ()
    lateness: int = 0
    narrows: bool = False
    shares: bool = False
    asks: bool = False
    by_rows: bool = False
    moves: bool = False
    """Of timers: whether handlers move them, and not rows, which all come before anything fires."""

    @property
    def timers(self) -> bool:
        return self.shape[0] == "timers"

    @property
    def ordered(self) -> bool:
        return self.shape[0] in ("count", "collected")


@dataclass(frozen=True)
class Spec:
    nodes: tuple[Node, ...]
    disorder: int = 0
    lateness: int = 0

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def corrected(self, node: Node) -> bool:
        """Whether late rows may correct what was told: what others are fed with is told for good."""
        return bool(node.by_rows and self.lateness and not node.feeds)

    def timely(self, node: Node) -> bool:
        """Whether the handler is called once for each moment, and not with all that is over."""
        fed = any(node.name in other.feeds for other in self.nodes)
        return bool(node.feeds or node.asks or node.shares or node.timers or fed)

    @property
    def cyclic(self) -> bool:
        return any(node.name in node.feeds for node in self.nodes)


SHAPES = {
    "tumbling": lambda size: f"tumbling(timedelta(seconds={size}))",
    "sliding": lambda size, slide: f"sliding(timedelta(seconds={size}), timedelta(seconds={slide}))",
    "session": lambda gap: f"session(timedelta(seconds={gap}))",
    "count": lambda size: f"count_tumbling({size})",
    "collected": lambda size: f"tumbling(timedelta(seconds={size}))",
}


def text_of(spec: Spec) -> str:
    """The program that a specification means."""
    parts = [HEAD, "    @entry", "    def put(self, key: str, n: int) -> None:"]
    parts += [f"        {added(spec, name, 'key', 'n')}" for name in (one.name for one in spec.nodes if one.by_rows)]
    for node in spec.nodes:
        parts += ["", *handler(spec, node)]
    return "\n".join(parts) + "\n"


def added(spec: Spec, name: str, key: str, value: str) -> str:
    if spec.node(name).timers:
        wait, own = spec.node(name).shape[1], "" if spec.node(name).moves else " + str(us(self.now))"
        return f"self.{name}.set({key}{own}, self.now + timedelta(seconds={wait}))"
    return f"self.{name}.add({key}, n={value})"


def handler(spec: Spec, node: Node) -> list[str]:
    key = "key[:1]" if node.narrows else "key"
    if node.timers:
        lines = ["    @on_timer", f"    def {node.name}(self, key: str, at: datetime) -> str:"]
        lines += ["        told = [us(at)]"]
        lines += [f"        {added(spec, name, key, 'at.second % 5')}" for name in node.feeds]
    else:
        late = f"lateness=timedelta(seconds={node.lateness}), " if node.lateness else ""
        values = 'all=collect("n")' if node.ordered else 'total=sum_of("n"), many=count()'
        lines = [f"    @on_window({SHAPES[node.shape[0]](*node.shape[1:])}, {late}{values})"]
        lines += [f"    def {node.name}(self, key: str, closed: list[ClosedWindow]) -> str:"]
        lines += [
            "        told = [[us(one.begin), us(one.end), list(one.values.values()), one.change] for one in closed]"
        ]
        value = 'sum(one["all"])' if node.ordered else 'one["total"]'
        others = [name for name in node.feeds if name != node.name]
        if others:
            lines += ["        for one in closed:"]
            lines += [f"            {added(spec, name, key, f'{value} % 7 + 1')}" for name in others]
        if node.name in node.feeds:
            lines += ["        for one in closed:", f"            if {value} > 1:"]
            lines += [f"                {added(spec, node.name, 'key', f'{value} // 2')}"]
    if node.shares:
        lines += ["        self.seen[key[:1]] += 1"]
    said = ["key", "told"]
    said += ["us(self.now)"] if node.asks else []
    said += ["self.seen[key[:1]]"] if node.shares else []
    return [*lines, f"        return repr([{', '.join(said)}])"]


@dataclass
class Brute:
    """What handlers are told, by the definition of windows alone."""

    spec: Spec
    rows: dict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=dict)
    set_to: dict[tuple[str, str], int] = field(default_factory=dict)
    told: set[Any] = field(default_factory=set)
    seen: dict[str, int] = field(default_factory=dict)
    replies: dict[str, list[list[Any]]] = field(default_factory=dict)

    def add(self, name: str, key: str, time: int, n: int) -> None:
        node = self.spec.node(name)
        if node.timers:
            self.set_to[name, key if node.moves else key + str(time)] = time + node.shape[1] * SECOND
        else:
            self.rows.setdefault((name, key), []).append((time, n))

    def put(self, time: int, key: str, n: int) -> None:
        for node in self.spec.nodes:
            if node.by_rows:
                self.add(node.name, key, time, n)

    def run(self, natural: int) -> None:
        """Tell what is over as far as rows say, then all; what feeds itself is then told once, and no more of it."""
        while (found := min(self.open(), default=None)) is not None:
            if self.spec.cyclic and found[0] > natural:
                break
            self.tell(found)
        for node in self.spec.nodes if self.spec.cyclic else ():
            while found := sorted(one for one in self.open() if one[4] == node.name):
                for one in found:
                    self.tell(one, itself=False)

    def open(self) -> list[Any]:
        """All that nobody was told yet: when it is due, where it stands among what is due then, and windows."""
        found: dict[Any, list[Any]] = {}
        for (name, key), rows in self.rows.items():
            for moment, *window in windows(self.spec.node(name).shape, rows):
                if (name, key, *window[:2]) not in self.told:
                    found.setdefault((*self.place(name, moment), key, name, moment), []).append(window)
        for (name, key), at in self.set_to.items():
            found[(*self.place(name, at), key, name, at)] = []
        return [(*where, told) for where, told in found.items()]

    def place(self, name: str, moment: int) -> tuple[int, int, int]:
        names = [node.name for node in self.spec.nodes]
        return moment + self.lag(name), self.level(name), names.index(name)

    def level(self, name: str) -> int:
        before = [node.name for node in self.spec.nodes if name in node.feeds and node.name != name]
        return max((self.level(one) + 1 for one in before), default=0)

    def lag(self, name: str) -> int:
        """Microseconds; windows that end with a row wait until no other row of its time can come."""
        before = [node.name for node in self.spec.nodes if name in node.feeds and node.name != name]
        own = self.spec.node(name).lateness * SECOND if self.spec.node(name).feeds else 0
        own += self.spec.node(name).shape[0] == "count" and self.spec.timely(self.spec.node(name))
        return max((self.lag(one) for one in before), default=0) + own

    def tell(self, found: Any, *, itself: bool = True) -> None:
        _, _, _, key, name, moment, closed = found
        node = self.spec.node(name)
        told: list[Any] = [moment] if node.timers else []
        totals = [moment // SECOND % 60 % 5] if node.timers else [sum(values) for *_, values in closed]
        self.set_to.pop((name, key), None)
        for begin, end, values in closed:
            self.told.add((name, key, begin, end))
            told.append([begin, end, [values] if node.ordered else [sum(values), len(values)], "tell"])
        for total in totals:
            for other in node.feeds:
                if other != name:
                    n = total if node.timers else total % 7 + 1
                    self.add(other, key[:1] if node.narrows else key, moment, n)
                elif itself and total > 1:
                    self.add(other, key, moment, total // 2)
        reply = [key, told]
        reply += [moment] if node.asks else []
        if node.shares:
            self.seen[key[:1]] = self.seen.get(key[:1], 0) + 1
            reply.append(self.seen[key[:1]])
        self.replies.setdefault(name, []).append(reply)


def windows(shape: tuple[Any, ...], rows: list[tuple[int, int]]) -> list[tuple[int, int, int, list[int]]]:
    """By definition: the moment at which each is over, its bounds, and the values of its rows in order."""
    kind, *sizes = shape
    ordered = sorted(rows, key=lambda row: row[0])
    if kind == "count":
        parts = [ordered[at : at + sizes[0]] for at in range(0, len(ordered), sizes[0])]
        full = [(number * sizes[0], part) for number, part in enumerate(parts) if len(part) == sizes[0]]
        return [(part[-1][0], at, at + sizes[0], [n for _, n in part]) for at, part in full]
    lengths = [size * SECOND for size in sizes]
    if kind == "session":
        bounds = []
        for time, _ in ordered:
            if bounds and time - bounds[-1][1] < lengths[0]:
                bounds[-1][1] = time
            else:
                bounds.append([time, time])
        spans = {(first, last + lengths[0]) for first, last in bounds}
    else:
        size, slide = lengths[0], lengths[-1]
        spans = {(at, at + size) for time, _ in rows for at in range(time // slide * slide, time - size, -slide)}
    return [(end, begin, end, [n for time, n in ordered if begin <= time < end]) for begin, end in sorted(spans)]


def spec_of(chance: Any) -> Spec:
    """A random specification: two to four nodes, each feeds some of those behind it."""
    many = chance.randint(2, 4)
    lateness = chance.choice((0, 0, 2, 5))
    names = [f"n{number}" for number in range(many)]
    shares, cyclic = chance.random() < 0.3, chance.random() < 0.15
    nodes: list[Node] = []
    for number, name in enumerate(names):
        by_handlers = any(name in node.feeds for node in nodes)
        by_rows = not by_handlers or chance.random() < 0.15
        later = names[number + 1 :]
        feeds = [one for one in later if chance.random() < 0.6]
        if number == 0 and later and not feeds:
            feeds = [later[0]]
        node = Node(
            name,
            shape_of(chance, corrected=by_rows and lateness > 0, mixed=by_rows and by_handlers),
            tuple(feeds),
            narrows=chance.random() < 0.4,
            shares=shares and not cyclic and not lateness and chance.random() < 0.7,
            asks=chance.random() < 0.4,
            by_rows=by_rows,
        )
        if node.timers and not by_rows:
            node = replace(node, moves=chance.random() < 0.5)
        if not (node.timers or node.ordered):
            # Those that rows come to must bear late ones; of others it is a wish that changes nothing.
            late = lateness if by_rows else chance.choice((0, 0, 3))
            node = replace(node, lateness=late)
            if cyclic and number == 0:
                node = replace(node, feeds=(*node.feeds, name))
        nodes.append(node)
    return Spec(tuple(nodes), chance.choice((0, 3, 8)), lateness)


def shape_of(chance: Any, *, corrected: bool, mixed: bool) -> tuple[Any, ...]:
    shapes: list[tuple[Any, ...]] = [
        ("tumbling", chance.choice((2, 3, 10))),
        ("sliding", *chance.choice(((4, 2), (10, 5), (3, 7)))),
        ("session", chance.choice((2, 4))),
    ]
    if not corrected:
        shapes.append(("timers", chance.choice((1, 6))))
        if not mixed:
            # Of rows and handlers that add at one time nobody says who comes first.
            shapes += [("count", chance.choice((2, 3))), ("collected", chance.choice((3, 8)))]
    return chance.choice(shapes)


def rows_of(chance: Any, spec: Spec, many: int) -> list[tuple[int, str, int]]:
    """Rows with times, out of order by no more than feeds are said to be, late ones included."""
    found, time, highest = [], BEGIN, BEGIN
    for _ in range(many):
        time += chance.choice((0, 0, 1, 1, 2, 9)) * SECOND // chance.choice((1, 2))
        back = chance.randint(0, spec.disorder + spec.lateness) * SECOND if found else 0
        happened = max(time - back, highest - (spec.disorder + spec.lateness) * SECOND)
        highest = max(highest, happened)
        found.append((happened, chance.choice(KEYS), chance.randint(0, 9)))
    return found
