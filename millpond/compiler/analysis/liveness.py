"""Live variables: which names each statement of a body, and what follows it, may still read.

Needs: Method.cfg.
Leaves: Method.live, the names alive before each statement of the body, and after the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from millpond.compiler.draft import Block, Cfg, Draft, Method


def find_live(draft: Draft) -> Draft:
    """Compute the live variables of every method."""
    return draft.each(lambda method: replace(method, live=live_before(method.cfg, len(method.body))))


def live_until(method: Method, top: int, ends: int) -> frozenset[str]:
    """The names that are live before a statement if nothing runs from the statement `ends` on (-1: all runs)."""
    if ends < 0:
        return method.live[top]
    blocks = method.cfg.blocks
    closed = {number for number, block in enumerate(blocks) if block.points and block.points[0].top == ends}
    parted = tuple(
        replace(block, successors=tuple(after for after in block.successors if after not in closed)) for block in blocks
    )
    return live_before(Cfg(parted), len(method.body))[top]


def live_before(cfg: Cfg, statements: int) -> tuple[frozenset[str], ...]:
    """Compute the names that are live before each statement of the body."""
    entering: list[frozenset[str]] = [frozenset()] * len(cfg.blocks)
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(cfg.blocks))):
            block = cfg.blocks[number]
            *_, live = _backwards(block, _leaving(block, entering))
            if live != entering[number]:
                entering[number] = live
                changed = True
    before: list[frozenset[str]] = [frozenset()] * (statements + 1)
    seen: set[int] = set()
    for block in cfg.blocks:
        states = list(_backwards(block, _leaving(block, entering)))[::-1]
        for point, live in zip(block.points, states, strict=False):
            if point.top not in seen:
                seen.add(point.top)
                before[point.top] = live
    return tuple(before)


def _leaving(block: Block, entering: list[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*(entering[successor] for successor in block.successors))


def _backwards(block: Block, live: frozenset[str]) -> Iterator[frozenset[str]]:
    """The names live after the last point, then before each point, backwards."""
    yield live
    for point in reversed(block.points):
        live = (live - point.binds - point.unbinds) | point.reads
        yield live
