"""One context over several partitions: each shard of its keys by itself, and what shards post to each other.

After each turn a shard posts to every other one, and to itself: its messages for the keys there, and what it has to say
about the turn. A shard that has the posts of all shards for one and the same turn judges whether the loop is over, as
every other shard does then, by the same posts. So there is no centre, and votes of different rounds never meet.

Posts are merged in the order of the shards, as a context in one place merges them: the bits of floats are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from millpond.loops.combining import SHARDS, shard_of
from millpond.loops.contexts import Box, Context, Frozen
from millpond.loops.kinds import LoopKind, bounds_of
from millpond.loops.lanes import Bounds
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.codec.wire import decode_values, encode_values

_TUPLE: Any = tuple


class Post(NamedTuple):
    """What a shard tells another one after a turn.

    That is whether it sent anything to anybody, its votes and aggregates, and the messages for keys of the other one.
    """

    sent: bool
    votes: list[Any]
    reports: dict[str, Any]
    messages: dict[Any, list[Any]]


class ShardContext(Context):
    """A shard of a context between two exchanges; `posts` is what it has to tell after its last turn."""

    def begin(self, shard: int, rows: Iterable[tuple[Any, list[Any]]]) -> None:
        """Call `entry` for the keys of the shard."""
        self._open(shard)
        self._enter(rows)

    def take_turn(self, shard: int, posts: Mapping[int, Post]) -> None:
        """Take what all shards posted, and unless the loop is over run the rounds of a turn."""
        inbox = Box(self._shape.combine)
        for sender in sorted(posts):
            post = posts[sender]
            self._votes += post.votes
            for name, value in post.reports.items():
                self._reports[name].add(sender, name, value)
            for key, messages in post.messages.items():
                for message in messages:
                    inbox.add(sender, key, message)
        self._inbox = inbox.take()
        self._judge(sum(post.sent for post in posts.values()))
        self._open(shard)
        if not self.ended:
            self._turn()

    def send(self, key: Any, message: Any) -> None:
        """Send a message to a key: it is posted to the shard of that."""
        to = shard_of(key)
        box = self._home if self._home is not None and to == self._shard else self._boxes[to]
        box.add(self._shard, key, message)

    def posts(self) -> dict[int, Post]:
        """Return what is to be told after the last turn, by shard."""
        reports: dict[str, Any] = {}
        for one in self._reports.values():
            reports.update(one.take())
        messages = {to: box.take() for to, box in enumerate(self._boxes)}
        sent = any(messages.values())
        return {to: Post(sent, self._votes, reports, own) for to, own in messages.items()}

    def _open(self, shard: int) -> None:
        self._shard = shard
        self._boxes = [Box(self._shape.combine) for _ in range(SHARDS)]


class Step(NamedTuple):
    """What came of a step of a shard: the shard as plain values, and its posts.

    If the loop is over, there are its rows instead, and what the next window begins with.
    """

    stored: tuple[Any, ...] | None
    posts: dict[int, bytes]
    rows: list[tuple[Any, ...]]
    persisted: Any


class Shards:
    """Takes the steps of shards of a kind of loops, over plain values."""

    def __init__(self, kind: LoopKind) -> None:
        self.kind = kind
        self._codec = ValueCodec(_TUPLE[bool, bytes, kind.inbox_type])

    def __reduce__(self) -> tuple[Any, ...]:
        return Shards, (self.kind,)

    def begin(self, window: Bounds, shard: int, packed: bytes | None, carried: Any) -> Step:
        """Begin a window with the rows of a shard; None if it has none."""
        kind = self.kind
        rows = {} if packed is None else kind.entered(shard, packed)
        made = ShardContext(kind.loop, kind.until, kind.synchrony, window=bounds_of(window), carried=carried)
        made.begin(shard, rows.items())
        return self._step(made, carried)

    def turn(self, window: Bounds, shard: int, stored: Any, posts: Mapping[int, bytes], carried: Any) -> Step:
        """Take the posts of all shards, and run a turn, or end."""
        kind = self.kind
        made = ShardContext.thawed(
            Frozen(*stored), kind.loop, kind.until, kind.synchrony, window=bounds_of(window), carried=carried
        )
        made.take_turn(shard, {sender: self._unpacked(post) for sender, post in posts.items()})
        if not made.ended:
            return self._step(made, carried)
        rows = [row for key, result in made.results().items() for row in kind.keyed(key, result)]
        return Step(None, {}, rows, made.persisted() if kind.persists else carried)

    def _step(self, made: ShardContext, carried: Any) -> Step:
        posts = made.posts()
        said = encode_values((posts[0].votes, posts[0].reports))
        packed = {to: self._codec.encode((post.sent, said, post.messages)) for to, post in posts.items()}
        # What all shards reported is known again from the posts of the next turn.
        return Step(tuple(made.frozen()._replace(aggregated={})), packed, [], carried)

    def _unpacked(self, post: bytes) -> Post:
        sent, said, messages = self._codec.decode(post)
        votes, reports = decode_values(said)
        return Post(sent, votes, reports, messages)
