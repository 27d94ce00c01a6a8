"""Lanes: the windows of a stream that iterate one after the other, or each by itself, as state of one key.

Windows that have nothing to do with each other have a lane each, and run wherever their lane lies. Windows with
persistent state, and those whose iterations may take several epochs, share one lane: there they run, and their results
leave, in the order of event time.

A lane is plain values, as a checkpoint holds them. `turn` does what there is to do, up to a budget of rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

Bounds = tuple[int, int]
"""The begin and end of a window, in microseconds since 1970."""

Packed = dict[int, bytes]
"""Rows of a window, by the shard of their keys."""

Entered = dict[Bounds, tuple[bool, Packed]]
"""Windows with their rows, and whether these changed since the window was begun."""

SHARED: Bounds = (0, 0)
"""The lane that all windows share."""

TELL, CORRECT = "tell", "correct"
"""What a row does to a table of results by window: it is new, or all rows of its window take the place of others."""


class Iteration(Protocol):
    """The iteration of one window."""

    @property
    def ended(self) -> bool:
        """Whether only results are left."""

    def advance(self, budget: int | None) -> int:
        """Run rounds up to a budget, and return how many there were."""

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the results as rows."""

    def persisted(self) -> Any:
        """Return what the next window begins with."""

    def stored(self) -> Any:
        """Return all that it is, as plain values."""


class Kind(Protocol):
    """What is iterated: how rows are packed, how an iteration begins and how it goes on."""

    module: str
    """Where what is iterated comes from."""

    persists: bool
    row_type: Any
    """The type of what is gathered: a key, microseconds, and the columns of a row."""

    stored_type: Any
    carried_type: Any
    result_hints: tuple[Any, ...]

    def pack(self, rows: Iterable[tuple[Any, int, Any]]) -> bytes:
        """Return rows, each with its key and time, as bytes, in an order that does not depend on theirs."""

    def begin(self, window: Bounds, packed: Packed, carried: Any) -> Iteration:
        """Begin with the rows of a window, and with what the window before it left."""

    def thaw(self, window: Bounds, stored: Any, carried: Any) -> Iteration:
        """Go on with an iteration that was stored."""

    def nothing(self) -> Any:
        """Return what the first window begins with."""


class Lane(NamedTuple):
    """The iterations of a lane.

    `running` are those under way, `told` how often results of a window left, and `done` are results that wait for those
    of earlier windows. `carried` is what the next window begins with, and `before` what each kept window began with.
    """

    running: dict[Bounds, Any]
    told: dict[Bounds, int]
    done: dict[Bounds, list[tuple[Any, ...]]]
    carried: Any
    before: dict[Bounds, Any]


class Done(NamedTuple):
    """What a turn left: the rows and the lane, the results that leave, and whether there is more to do."""

    entered: Entered
    lane: Lane
    rows: list[tuple[Bounds, str, tuple[Any, ...]]]
    more: bool


def entered(held: Mapping[Bounds, tuple[bool, Packed]] | None, window: Bounds, shard: int, rows: bytes) -> Entered:
    """Return the rows of a lane with those of a shard: the first ones, or ones that take their place."""
    before = (held or {}).get(window, (False, {}))[1]
    return {**(held or {}), window: (True, {**before, shard: rows})}


def turn(
    kind: Kind, held: Entered, lane: Lane | None, budget: int | None, *, until: int, lateness: int, shares: bool
) -> Done:
    """Begin what is new, go on with what is under way, and let results go that are next.

    `until` is the time up to which windows are over. So long as `lateness` after their end, rows are kept: then others
    may come, and the window begins anew. If the lane `shares`, results leave in the order of event time.
    """
    lane = lane or Lane({}, {}, {}, kind.nothing(), {})
    held = dict(held)
    lane = _restarted(kind, held, lane)
    for window in _pending(held, lane):
        left = _iterated(kind, window, held, lane, budget)
        if left is None:
            continue
        lane = lane._replace(carried=left)
    rows = _leaving(held, lane, shares=shares)
    _forget(held, lane, until - lateness)
    return Done(held, lane, rows, bool(_pending(held, lane)))


def next_turn(held: Entered, lateness: int) -> int | None:
    """Return when there is something to forget."""
    return min((end + lateness for _, end in held), default=None)


def order(window: Bounds) -> tuple[int, int]:
    """Return what orders windows by event time."""
    return window[1], window[0]


def _pending(held: Entered, lane: Lane) -> list[Bounds]:
    changed = {window: True for window, (fresh, _) in held.items() if fresh}
    return sorted([*changed, *(window for window in lane.running if window not in changed)], key=order)


def _restarted(kind: Kind, held: Entered, lane: Lane) -> Lane:
    """Let windows whose rows changed begin anew, and with persistent state all windows after the first of these."""
    changed = [window for window, (fresh, _) in held.items() if fresh]
    if not changed:
        return lane
    first = min(changed, key=order)
    after = [window for window in held if kind.persists and order(window) >= order(first)]
    again = sorted(after or changed, key=order)
    carried = next((lane.before[window] for window in again if window in lane.before), lane.carried)
    for window in again:
        held[window] = (True, held[window][1])
    dropped = dict.fromkeys(again)
    return Lane(
        {window: one for window, one in lane.running.items() if window not in dropped},
        lane.told,
        {window: one for window, one in lane.done.items() if window not in dropped},
        carried,
        {window: one for window, one in lane.before.items() if window not in dropped},
    )


def _iterated(kind: Kind, window: Bounds, held: Entered, lane: Lane, budget: int | None) -> Any:
    """Run a window; return what the next one begins with if it is over, else None."""
    first = _pending(held, lane)[0]
    if kind.persists and window != first:
        return None
    if window in lane.running:
        one = kind.thaw(window, lane.running.pop(window), lane.carried)
    else:
        fresh, packed = held[window]
        assert fresh
        held[window] = (False, packed)
        if kind.persists:
            lane.before[window] = lane.carried
        one = kind.begin(window, packed, lane.carried)
    one.advance(budget)
    if not one.ended:
        lane.running[window] = one.stored()
        return None
    lane.done[window] = one.rows()
    return one.persisted() if kind.persists else None


def _leaving(held: Entered, lane: Lane, *, shares: bool) -> list[tuple[Bounds, str, tuple[Any, ...]]]:
    """Take out the results that no earlier window holds back."""
    waits = _pending(held, lane)
    found = []
    for window in sorted(lane.done, key=order):
        if shares and waits and order(waits[0]) < order(window):
            break
        change = CORRECT if lane.told.get(window) else TELL
        lane.told[window] = lane.told.get(window, 0) + 1
        found += [(window, change, row) for row in lane.done.pop(window)]
    return found


def _forget(held: Entered, lane: Lane, horizon: int) -> None:
    """Forget windows for which no row can come any more, and whose results have left."""
    pending = dict.fromkeys([*_pending(held, lane), *lane.done])
    for window in [one for one in held if one[1] <= horizon and one not in pending]:
        del held[window]
        lane.told.pop(window, None)
        lane.before.pop(window, None)
