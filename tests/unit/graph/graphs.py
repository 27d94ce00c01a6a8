"""Graphs made by hand: with ways that part and meet, loops, and one message for each turn."""

from __future__ import annotations

from millpond.graph.model import Access, Dispatch, Edge, Graph, Mode, StateNode, TaskNode

BY_KEY, ANY = Dispatch.BY_KEY, Dispatch.ANY


def touches(*names: str, writes: bool = True) -> tuple[Access, ...]:
    return tuple(Access(name, Mode.KEYED, writes=writes) for name in names)


PARTED = Graph(
    "Parted",
    (
        StateNode("users", "Map[int, str]", "partitioned", "", 0),
        StateNode("carts", "Map[int, float]", "partitioned", "", 1),
        StateNode("gifts", "Map[str, int]", "partitioned", "", 1),
        StateNode("sales", "Counter[str]", "partitioned", "", 2),
    ),
    (
        TaskNode("buy.0", "buy", 0, touches("users", writes=False), (1, 2)),
        TaskNode("buy.1", "buy", 1, touches("carts"), (3,)),
        TaskNode("buy.2", "buy", 1, touches("gifts"), (5,)),
        TaskNode("buy.3", "buy", 2, touches("sales"), (6,)),
    ),
    (
        Edge(None, "buy.0", BY_KEY, "user", ("user", "cart", "gift", "day"), "the feed"),
        Edge("buy.0", "buy.1", BY_KEY, "cart", ("cart", "day"), "self.carts is under another key"),
        Edge("buy.0", "buy.2", BY_KEY, "gift", ("day", "gift"), "self.gifts is under another key"),
        Edge("buy.0", "buy.3", BY_KEY, "day", ("day",), "self.sales is under another key"),
        Edge("buy.1", "buy.3", BY_KEY, "day", ("day", "price"), "self.sales is under another key"),
        Edge("buy.2", "buy.3", BY_KEY, "day", ("day", "price"), "self.sales is under another key"),
        Edge("buy.0", None, ANY, "", (), "the reply"),
        Edge("buy.3", None, ANY, "", (), "the reply"),
    ),
)

LOOPING = Graph(
    "Looping",
    (
        StateNode("nodes", "Map[int, list[int]]", "partitioned", "", 0),
        StateNode("seen", "Set[int]", "partitioned", "", 1),
        StateNode("feeds", "Map[str, list[str]]", "partitioned", "", 1),
    ),
    (
        TaskNode("walk.0", "walk", 0, touches("nodes", writes=False), (1, 2)),
        TaskNode("walk.1", "walk", 1, touches("seen"), (3,)),
        TaskNode("walk.2", "walk", 2, touches("nodes", writes=False), (4,)),
        TaskNode("post.0", "post", 0, (), (10,)),
        TaskNode("post.1", "post", 1, touches("feeds"), (11,)),
    ),
    (
        Edge(None, "walk.0", BY_KEY, "node", ("node",), "the feed"),
        Edge("walk.0", "walk.1", BY_KEY, "at", ("at", "path"), "self.seen is under another key"),
        Edge("walk.1", "walk.2", BY_KEY, "next", ("next", "path"), "self.nodes is under another key"),
        Edge("walk.2", "walk.1", BY_KEY, "at", ("at", "path"), "the loop goes on"),
        Edge("walk.1", "walk.1", BY_KEY, "at", ("at", "path"), "the inner loop goes on"),
        Edge("walk.1", None, ANY, "", (), "the reply"),
        Edge("walk.2", None, ANY, "", (), "the reply"),
        Edge(None, "post.0", ANY, "", ("text", "friends"), "the feed"),
        Edge("post.0", "post.1", BY_KEY, "friend", ("friend", "text"), "self.feeds is under another key", fan_out=True),
        Edge("post.0", None, ANY, "", (), "the reply"),
    ),
    frozenset(("walk",)),
)
