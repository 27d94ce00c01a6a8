"""What an entry point costs: how often its rows change place, and where that depends on data.

>>> from millpond.graph.model import TaskNode
>>> edges = Edge(None, "a", Dispatch.BY_KEY, "k", (), ""), Edge("a", "b", Dispatch.BY_KEY, "k", (), "")
>>> tasks = TaskNode("a", "go", 0, (), ()), TaskNode("b", "go", 1, (), ())
>>> cost_of(Graph("P", (), tasks, edges), "go").exchanges
2
"""

from __future__ import annotations

from dataclasses import dataclass

from millpond.graph.model import Dispatch, Edge, Graph


@dataclass(frozen=True, slots=True)
class Cost:
    """The exchanges on an entry point's longest way, the feed's included, and the loops that add to them.

    A loop is the tasks of one turn, in order: each turn costs as many exchanges as it has tasks.
    """

    path: tuple[Edge, ...]
    loops: tuple[tuple[str, ...], ...]

    @property
    def exchanges(self) -> int:
        """How many exchanges a row takes at most, each loop gone through once."""
        return sum(1 for edge in self.path if edge.source is not None or edge.dispatch is not Dispatch.ANY)


def entries_of(graph: Graph) -> tuple[str, ...]:
    """Return the names of a graph's entry points, in order."""
    return tuple(dict.fromkeys(task.entry for task in graph.tasks))


def cost_of(graph: Graph, entry: str) -> Cost:
    """Find the longest way through an entry point, and the loops on it."""
    names = {task.name for task in graph.tasks if task.entry == entry}
    moves = [edge for edge in graph.edges if edge.source in names and edge.target in names]
    feeds = [edge for edge in graph.edges if edge.source is None and edge.target in names]
    back = _back_edges(feeds, moves)
    forward = [edge for edge in moves if edge not in back]
    known: dict[str, tuple[Edge, ...]] = {}
    path = max((_longest(feed, forward, known) for feed in feeds), key=len, default=())
    return Cost(path, tuple(_turn(edge, forward) for edge in back))


def _longest(edge: Edge, forward: list[Edge], known: dict[str, tuple[Edge, ...]]) -> tuple[Edge, ...]:
    """Return the longest way that begins with an edge."""
    assert edge.target is not None
    if edge.target not in known:
        ways = [_longest(after, forward, known) for after in forward if after.source == edge.target]
        known[edge.target] = max(ways, key=len, default=())
    return (edge, *known[edge.target])


def _back_edges(feeds: list[Edge], moves: list[Edge]) -> list[Edge]:
    """Return the edges that lead to a task on the way to them: without them there is no cycle."""
    back: list[Edge] = []
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        for edge in moves:
            if edge.source != name or edge.target is None:
                continue
            if edge.target in trail:
                back.append(edge)
            elif edge.target not in done:
                visit(edge.target, (*trail, edge.target))
        done.add(name)

    for feed in feeds:
        if feed.target is not None:
            visit(feed.target, (feed.target,))
    return back


def _turn(back: Edge, forward: list[Edge]) -> tuple[str, ...]:
    """Return the shortest way from where a back edge leads to where it starts."""
    assert back.source is not None
    assert back.target is not None
    ways: list[tuple[str, ...]] = [(back.target,)]
    for way in ways:
        if way[-1] == back.source:
            return way
        ways += [
            (*way, edge.target)
            for edge in forward
            if edge.source == way[-1] and edge.target is not None and edge.target not in way
        ]
    raise AssertionError(back)
