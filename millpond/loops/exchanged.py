"""Iterations of large windows as a program: the shards of one window lie in all partitions, and exchange posts.

A window runs over all partitions, so windows run one after the other, in the order of event time. For each pair of
shards there is a token, a timer: it takes the post of its sender to its target, round after round, and whoever brings
the last post of a turn lets the target go on. Tokens move by messages of the steps of an epoch; after the rounds that
an epoch may run they are set for the next one. A token that finds no post yet waits, so nothing depends on who comes
first; and all that is between two rounds is state.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any, Final

from millpond.keygroups import microseconds
from millpond.loops.combining import SHARDS, shard_of
from millpond.loops.kinds import LoopKind, bounds_of
from millpond.loops.lanes import Bounds, order
from millpond.loops.program import bounds, checked_budget, gathered_rows
from millpond.loops.shards import Shards
from millpond.program.declare import Partitioned
from millpond.program.entries import HANDLER, entry
from millpond.program.program import ProgramBase
from millpond.program.semantics.reach import members_of
from millpond.program.timers import going_on, interleaved, on_timer
from millpond.program.windows import on_window
from millpond.state.containers.map import Map
from millpond.windowing.element import ClosedWindow

TOKENS: Final = "tokens"
"""The handler whose replies are the results. Its name, and those of the elements, are in checkpoints."""

ROUNDS: Final = 8
"""How many rounds an epoch runs if nobody says otherwise."""

PAIRS: Final = SHARDS * SHARDS

_GO, _WAIT, _END = "go", "wait", "end"
_QUEUE: Final = 0

_MAP: Any = Map
_TUPLE: Any = tuple
_LIST: Any = list
_DICT: Any = dict
_Desk = tuple[bool, dict[int, list[bytes]], dict[int, list[bytes]]]
"""The posts at a shard: whether it has begun; those that wait for tokens, by target; those that came, by sender.

A shard may be a turn ahead of others, so there may be posts of two turns, the earlier ones first.
"""

_Queue = tuple[int, list[Bounds]]
"""How many tokens of the first window have ended, -1 if it has not begun; and the windows that wait, in order."""

_EMPTY: Final[_Desk] = (False, {}, {})
_ENDED: Final = b""
"""What a token finds when the loop is over."""


@dataclass(frozen=True)
class _Work:
    """What handlers do with values of state."""

    shards: Shards

    def kept(self, held: dict[Bounds, bytes] | None, closed: list[ClosedWindow]) -> dict[Bounds, bytes]:
        """Return the rows that wait at a shard, with those of windows that are over."""
        return {**(held or {}), **{bounds(one): self.shards.kind.pack(one["rows"]) for one in closed}}

    def queued(self, queue: _Queue | None, closed: list[ClosedWindow]) -> _Queue:
        """Return the queue with windows that are over; one that has begun stays the first."""
        done, waiting = queue or (-1, [])
        first = waiting[:1] if done >= 0 else []
        later = dict.fromkeys([*waiting[len(first) :], *map(bounds, closed)])
        return done, first + sorted([one for one in later if one not in first], key=order)

    def begin(self, window: Bounds, shard: int, held: dict[Bounds, bytes], desk: _Desk, carried: Any) -> Any:
        """Begin a window at a shard: what it is then, its desk, and the rows that wait there still."""
        packed = held.get(window)
        step = self.shards.begin(window, shard, packed, carried or {})
        left = {one: rows for one, rows in held.items() if one != window}
        return step.stored, (True, _posted({}, step.posts), desk[2]), left

    def turn(self, window: Bounds, shard: int, stored: Any, desk: _Desk, carried: Any) -> Any:
        """Let a shard go on: what it is then, its desk, the rows that leave, and its persistent state."""
        _, waiting, came = desk
        step = self.shards.turn(window, shard, stored, {one: posts[0] for one, posts in came.items()}, carried or {})
        posts = step.posts if step.stored is not None else dict.fromkeys(range(SHARDS), _ENDED)
        left = {one: posts[1:] for one, posts in came.items() if len(posts) > 1}
        rows = [(*bounds_of(window), *row) for row in step.rows]
        return step.stored, (True, _posted(waiting, posts), left), rows, step.persisted


def _posted(waiting: dict[int, list[bytes]], posts: dict[int, bytes]) -> dict[int, list[bytes]]:
    """Return posts that wait for tokens, with those of another turn behind them."""
    return {to: [*waiting.get(to, ()), post] for to, post in posts.items()}


def _taken(desk: _Desk, target: int) -> tuple[_Desk, str, bytes]:
    """Take the post for a target from a desk: what is left of that, and what the token does then."""
    begun, posts, came = desk
    if target not in posts:
        return desk, _WAIT, b""
    post, *later = posts[target]
    left = {to: own for to, own in posts.items() if to != target}
    if later:
        left[target] = later
    if post != _ENDED:
        return (begun, left, came), _GO, post
    return ((begun, left, came) if left else _EMPTY), _END, b""


def _brought(desk: _Desk | None, sender: int, post: bytes) -> _Desk:
    """Put a post to those that came to a desk."""
    begun, posts, came = desk or _EMPTY
    return begun, posts, {**came, sender: [*came.get(sender, ()), post]}


def _counted(queue: _Queue) -> tuple[_Queue, bool]:
    """Count a token that has ended; with the last one the window is over, and another may begin."""
    done, waiting = queue
    if done + 1 < PAIRS:
        return (done + 1, waiting), False
    return (-1, waiting[1:]), True


def _tokens(queue: _Queue) -> tuple[_Queue, list[tuple[int, int, int, int]]]:
    """Return the tokens of the first window, if that has not begun, and the queue in which it has."""
    done, waiting = queue
    if done >= 0 or not waiting:
        return queue, []
    pairs = [(sender, target) for sender in range(SHARDS) for target in range(SHARDS)]
    return (0, waiting), [(*waiting[0], *pair) for pair in pairs]


def steps_of(budget: int | None) -> int:
    """Return how many steps an epoch takes: a token comes, visits senders and targets in turn, and is set again."""
    return 2 * (budget or ROUNDS) + 3


def exchanged_program(kind: LoopKind, window: Any, *, budget: int | None = None) -> type[ProgramBase]:
    """Make the program of iterations over large windows; its entry point is `add(loop_key, loop_row)`.

    An epoch runs at most `budget` turns, by default `ROUNDS`.
    """
    most = checked_budget(budget) or ROUNDS
    work = _Work(Shards(kind))

    class Rounds(ProgramBase):
        waiting = Partitioned(_MAP[int, _DICT[_TUPLE[int, int], bytes]])
        queue = Partitioned(_MAP[int, _TUPLE[int, _LIST[_TUPLE[int, int]]]])
        desks = Partitioned(_MAP[int, _TUPLE[bool, _DICT[int, _LIST[bytes]], _DICT[int, _LIST[bytes]]]])
        shards = Partitioned(_MAP[int, kind.stored_type])
        carried = Partitioned(_MAP[int, kind.carried_type])

        @on_window(window, rows=gathered_rows(kind.row_type))
        def gathered(self, shard: int, closed: list[ClosedWindow]) -> None:
            self.waiting[shard] = work.kept(self.waiting.get(shard), closed)
            self.queue[_QUEUE] = work.queued(self.queue.get(_QUEUE), closed)
            self.starts.set(_QUEUE, closed[-1].end)

        @on_timer
        def starts(self, lane: int, at: datetime.datetime) -> None:
            self.queue[lane], tokens = _tokens(self.queue[lane])
            for token in tokens:
                self.tokens.set(token, at)

        @on_timer
        def tokens(self, token: tuple[int, int, int, int], at: datetime.datetime) -> Any:
            begin, end, sender, target = token
            state, rounds = _GO, 0
            rows: Any = []
            while state == _GO and rounds < most:
                rounds += 1
                desk = self.desks.get(sender, _EMPTY)
                if not desk[0]:
                    held, carried = self.waiting.get(sender, {}), self.carried.get(sender)
                    stored, desk, left = work.begin((begin, end), sender, held, desk, carried)
                    self.shards[sender] = stored
                    self.waiting[sender] = left
                self.desks[sender], state, post = _taken(desk, target)
                if state == _GO:
                    there = _brought(self.desks.get(target), sender, post)
                    if len(there[2]) == SHARDS:
                        stored, carried = self.shards.get(target), self.carried.get(target)
                        stored, there, rows, carried = work.turn((begin, end), target, stored, there, carried)
                        if stored is None:
                            self.shards.pop(target, None)
                            if carried:
                                self.carried[target] = carried
                        else:
                            self.shards[target] = stored
                    self.desks[target] = there
            if state == _END:
                self.queue[_QUEUE], over = _counted(self.queue[_QUEUE])
                if over:
                    self.starts.set(_QUEUE, at)
            else:
                self.tokens.set(token, at)
            return rows

        going_on(starts)
        going_on(tokens)
        interleaved(tokens)

    return _typed(_wide(Rounds, kind) if kind.wide else _narrow(Rounds), kind)


def _narrow(program: Any) -> type[ProgramBase]:
    """Let a row come to the shard of its key."""

    class Exchanged(program):  # type: ignore[misc]
        @entry
        def add(self, loop_key: Any, loop_row: Any) -> None:
            self.gathered.add(shard_of(loop_key), row=(loop_key, microseconds(self.now), loop_row))

    return Exchanged


def _wide(program: Any, kind: LoopKind) -> type[ProgramBase]:
    """Let a row come to all shards that it belongs to."""

    class Exchanged(program):  # type: ignore[misc]
        @entry
        def add(self, loop_key: Any, loop_row: Any) -> None:
            for shard in kind.shards(loop_key, loop_row):
                self.gathered.add(shard, row=(loop_key, microseconds(self.now), loop_row))

    return Exchanged


def _typed(program: type[ProgramBase], kind: LoopKind) -> type[ProgramBase]:
    """Let the entry point and the results of a program have the types of what is iterated."""
    # The program is of the package of what it iterates: of its own code, the compiler looks into every function.
    program.__module__ = kind.module
    parts = (datetime.datetime, datetime.datetime, *kind.result_hints)
    key, _, row = kind.row_type.__args__
    vars(program)["add"].__annotations__.update(loop_key=key, loop_row=row)
    getattr(members_of(program)[TOKENS], HANDLER).__annotations__.update({"return": _LIST[_TUPLE[parts]]})
    return program
