"""A context: the iteration of one window, or of one step of an outer loop, from its rows to its results.

All that a context is between two rounds are plain values (`frozen`), so a checkpoint can hold it: the attributes of its
keys, the messages under way, its round and the aggregates of that. `advance` runs rounds up to a budget.

>>> from millpond.loops import Loop, fixpoint, state
>>> class Least(Loop):
...     combine = min
...     near: list[int] = state(factory=list)
...     least: int = state(0)
...
...     def entry(self, rows: list[int]) -> None:
...         self.near, self.least = rows, self.key
...         self.send_all(rows, self.key)
...
...     def step(self, messages: list[int]) -> None:
...         if messages[0] < self.least:
...             self.least = messages[0]
...             self.send_all(self.near, self.least)
...
...     def finalize(self) -> int:
...         return self.least
>>> run_loop(Least, {1: [2], 2: [1, 3], 3: [2], 7: []}, until=fixpoint())
{1: 1, 2: 1, 3: 1, 7: 7}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from millpond.errors import LoopError
from millpond.keygroups import plain_key
from millpond.loops.combining import Combined, Combiner, key_order, shard_of
from millpond.loops.loop import Loop, LoopShape, LoopWindow
from millpond.loops.synchrony import Synchrony, strict
from millpond.loops.termination import Condition, RoundReport, must_be_condition


class Frozen(NamedTuple):
    """A context between two rounds, as plain values; attributes are in the order of their names.

    `ended` says that only `finalize` is left. `quiet` are keys that have persistent attributes alone: they were not
    entered, and have no result.
    """

    round: int
    ended: bool
    keys: dict[Any, tuple[Any, ...]]
    quiet: list[Any]
    inbox: dict[Any, list[Any]]
    aggregated: dict[str, Any]


class Box:
    """Messages under way to keys: in the order of the senders, or combined."""

    __slots__ = ("_combined", "_lists")

    def __init__(self, combine: Combiner | None) -> None:
        self._combined = None if combine is None else Combined(combine)
        self._lists: dict[Any, list[Any]] = {}

    def add(self, shard: int, key: Any, message: Any) -> None:
        """Take a message of a sender of a shard."""
        if self._combined is not None:
            self._combined.add(shard, key, message)
        elif key in self._lists:
            self._lists[key].append(message)
        else:
            self._lists[key] = [message]

    def take(self) -> dict[Any, list[Any]]:
        """Return the messages by key, and be empty."""
        if self._combined is not None:
            return {key: [message] for key, message in self._combined.take().items()}
        lists, self._lists = self._lists, {}
        return lists


class Context:
    """The iteration of a loop over the keys of one window; `carried` are persistent attributes of keys, by key."""

    def __init__(
        self,
        loop: type[Loop],
        until: Condition,
        synchrony: Synchrony = strict,
        *,
        window: LoopWindow | None = None,
        carried: Mapping[Any, tuple[Any, ...]] | None = None,
        enclosing: tuple[int, ...] = (),
    ) -> None:
        self._shape = LoopShape.of(loop)
        self._until = must_be_condition(until)
        unknown = sorted(self._until.reads() - self._shape.aggregators.keys())
        if unknown:
            raise LoopError(
                "MP857",
                "a condition reads an aggregate that the loop does not have",
                expected=f"aggregators = {{{unknown[0]!r}: sum}} in {loop.__name__}",
                found=self._until.text,
            )
        self._synchrony = synchrony
        self.window = window
        self.enclosing = enclosing
        self._carried = carried or {}
        self._keys: dict[Any, Loop] = {}
        self._quiet: set[Any] = set()
        self._inbox: dict[Any, list[Any]] = {}
        self.aggregated: Mapping[str, Any] = {}
        self.round = 0
        self.global_round = 0
        self.ended = False
        self.steps = 0
        self._shard = -1
        self._outbox = Box(self._shape.combine)
        self._home: Box | None = None
        self._votes: list[Any] = []
        self._reports = {name: Combined(one) for name, one in self._shape.aggregators.items()}

    @classmethod
    def thawed(
        cls,
        frozen: Frozen,
        loop: type[Loop],
        until: Condition,
        synchrony: Synchrony = strict,
        *,
        window: LoopWindow | None = None,
        carried: Mapping[Any, tuple[Any, ...]] | None = None,
    ) -> Self:
        """Return a context that goes on where it was frozen."""
        made = cls(loop, until, synchrony, window=window, carried=carried)
        made.round = made.global_round = frozen.round
        made.ended = frozen.ended
        made.aggregated = dict(frozen.aggregated)
        made._quiet = set(frozen.quiet)
        made._inbox = {key: list(messages) for key, messages in frozen.inbox.items()}
        names = made._shape.attributes
        for key, values in frozen.keys.items():
            one = loop(key, made)
            vars(one).update(zip(names, values, strict=True))
            made._keys[key] = one
        return made

    def frozen(self) -> Frozen:
        """Return all that the context is, as plain values."""
        keys = {key: self._shape.values(one) for key, one in self._keys.items()}
        quiet = sorted(self._quiet, key=key_order)
        return Frozen(self.round, self.ended, keys, quiet, dict(self._inbox), dict(self.aggregated))

    @property
    def frontier(self) -> int:
        """The number of keys that have messages."""
        return len(self._inbox)

    def enter(self, rows: Iterable[tuple[Any, list[Any]]]) -> None:
        """Call `entry` for keys with their rows."""
        self._enter(rows)
        self._inbox = self._outbox.take()
        self._judge(sum(map(len, self._inbox.values())))

    def _enter(self, rows: Iterable[tuple[Any, list[Any]]]) -> None:
        for key, own in sorted(rows, key=lambda one: key_order(one[0])):
            one = self._keys.get(key) or self._made(key)
            self._keys[key] = one
            self._shard = shard_of(key)
            one.entry(own)

    def advance(self, budget: int | None = None) -> int:
        """Run rounds until the loop is over or the budget is spent, and return how many there were.

        A turn of a stale loop is not cut: the budget may be exceeded by the rounds of one turn less one.
        """
        before = self.round
        while not self.ended and (budget is None or self.round - before < budget):
            self._turn()
            self._inbox = self._outbox.take()
            self._judge(sum(map(len, self._inbox.values())))
        return self.round - before

    def results(self) -> dict[Any, Any]:
        """Call `finalize` for all keys, in their order; return what is not None by key."""
        self._inbox = {}
        found = {}
        for key in sorted(self._keys.keys() - self._quiet, key=plain_key):
            result = self._keys[key].finalize()
            self._shape.values(self._keys[key])
            if result is not None:
                found[key] = result
        return found

    def persisted(self) -> dict[Any, tuple[Any, ...]]:
        """Return the persistent attributes of all keys, those of earlier windows included."""
        names = self._shape.persistent
        own = {key: tuple([getattr(one, name) for name in names]) for key, one in self._keys.items()}
        return {**self._carried, **own}

    def send(self, key: Any, message: Any) -> None:
        """Send a message to a key: to one of the same shard in a stale loop it comes in the next round already."""
        if self._home is not None and shard_of(key) == self._shard:
            self._home.add(self._shard, key, message)
        else:
            self._outbox.add(self._shard, key, message)

    def vote(self, value: Any) -> None:
        """Cast a vote in this round; it counts if all keys meet after it."""
        if self._home is None:
            self._votes.append(value)

    def report(self, name: str, value: Any) -> None:
        """Give a value to an aggregate of this round."""
        into = self._reports.get(name)
        if into is None:
            raise LoopError(
                "MP857",
                "a loop reports to an aggregate that it does not have",
                expected=f"aggregators = {{{name!r}: sum}} in {self._shape.loop.__name__}",
                found=f"self.report({name!r}, ...)",
            )
        if self._home is None:
            into.add(self._shard, name, value)

    def inner(
        self, loop: type[Loop], rows: Mapping[Any, list[Any]], until: Condition, synchrony: Synchrony
    ) -> dict[Any, Any]:
        """Run a loop inside of this round; its context is the window and the rounds around it."""
        around = (self.round, *self.enclosing)
        made = Context(loop, until, synchrony, window=self.window, enclosing=around)
        made.enter((key, list(own)) for key, own in rows.items())
        made.advance()
        return made.results()

    def _made(self, key: Any) -> Loop:
        one = self._shape.loop(key, self)
        carried = self._carried.get(key)
        if carried is not None:
            vars(one).update(zip(self._shape.persistent, carried, strict=True))
        return one

    def _judge(self, messages: int) -> None:
        """Say whether the loop is over, by what the round that all keys have behind them did, and nothing else."""
        self.global_round = self.round
        aggregates: dict[str, Any] = {}
        for one in self._reports.values():
            aggregates.update(one.take())
        self.aggregated = aggregates
        votes, self._votes = tuple(self._votes), []
        # Without a message no step is called ever again, whatever the condition waits for.
        self.ended = messages == 0 or self._until.over(RoundReport(self.round, messages, votes, aggregates))

    def _turn(self) -> None:
        """Run the rounds of one turn: one, or as many as shards may be ahead."""
        limit = self._until.limit()
        rounds = self._synchrony.rounds
        if limit is not None:
            rounds = max(1, min(rounds, limit - self.global_round))
        inbox, self._inbox = self._inbox, {}
        ordered = sorted(inbox, key=key_order)
        if rounds == 1:
            self.round = self.global_round + 1
            for key in ordered:
                self._shard = shard_of(key)
                self._step(key, inbox[key])
        else:
            by_shard: dict[int, dict[Any, list[Any]]] = {}
            for key in ordered:
                by_shard.setdefault(shard_of(key), {})[key] = inbox[key]
            for shard, own in by_shard.items():
                self._turn_of(shard, own, rounds)
            self.round = self.global_round + rounds

    def _turn_of(self, shard: int, inbox: dict[Any, list[Any]], rounds: int) -> None:
        """Let one shard run rounds by itself; what it sends to itself in the last one waits as all else does."""
        self._shard = shard
        for ahead in range(1, rounds + 1):
            self._home = Box(self._shape.combine) if ahead < rounds else None
            self.round = self.global_round + ahead
            for key in sorted(inbox, key=key_order):
                self._step(key, inbox[key])
            if self._home is None:
                break
            inbox = self._home.take()
            if not inbox:
                break
        self._home = None

    def _step(self, key: Any, messages: list[Any]) -> None:
        one = self._keys.get(key)
        known = one is not None and key not in self._quiet
        if one is None:
            one = self._made(key)
        one.step(messages)
        self.steps += 1
        if not known and vars(one):
            self._keys[key] = one
            if self._shape.has_state(one):
                self._quiet.discard(key)
            else:
                self._quiet.add(key)


def run_loop(
    loop: type[Loop],
    rows: Mapping[Any, Iterable[Any]],
    *,
    until: Condition,
    synchrony: Synchrony = strict,
) -> dict[Any, Any]:
    """Run a loop over keys with their rows, and return its results by key, in the order of the keys.

    >>> from millpond.loops import Loop, rounds
    >>> class Count(Loop):
    ...     def entry(self, rows: list[int]) -> None:
    ...         self.send(self.key, 1)
    ...
    ...     def step(self, messages: list[int]) -> None:
    ...         self.send(self.key, messages[0] + 1)
    ...
    ...     def finalize(self) -> int:
    ...         return self.round
    >>> run_loop(Count, {"a": [0]}, until=rounds(5))
    {'a': 5}
    """
    made = Context(loop, until, synchrony)
    made.enter((key, list(own)) for key, own in rows.items())
    made.advance()
    return made.results()
