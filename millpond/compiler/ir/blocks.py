"""The statements of a piece as blocks: each is entered at its first statement only, and left after its last."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from millpond.compiler.draft import Piece
from millpond.compiler.ir.jumps import Branch, Jump, successors


def straight(body: Sequence[ast.stmt], piece: Piece) -> list[int] | None:
    """The statements of a piece in the order in which they run, if there is only one; None if there are branches."""
    order: list[int] = []
    ways = {way.top for way in piece.exits} | {piece.ends}
    top = piece.start
    while top in piece.tops and top not in order:
        order.append(top)
        after = successors(body, top)
        if len(after) != 1:
            break
        (top,) = after
        if top in ways:
            break
    branches = any(isinstance(body[top], Branch) for top in order) or any(way.fan_out for way in piece.exits)
    branches = branches or bool(piece.checked)
    return None if branches or len(order) < len(piece.tops) or len(piece.exits) > 1 else order


def follows(body: Sequence[ast.stmt], top: int) -> int:
    """What follows a statement that does not branch: -1 for the end of the method."""
    return next(iter(successors(body, top)), -1)


def blocks_of(body: Sequence[ast.stmt], piece: Piece) -> list[list[int]]:
    """Part the statements of a piece into blocks."""
    own = set(piece.tops)
    ways = {way.top for way in piece.exits} | {piece.ends}
    starts = {piece.start}
    for top in piece.tops:
        after = successors(body, top)
        if isinstance(body[top], Branch | Jump) or ways.intersection(after):
            starts.update(after)
        if ways.intersection(after) and top + 1 in own:
            starts.add(top + 1)
    # Where a turn is sent away, the row goes on at the head of its loop.
    starts |= {top for top in piece.tops if top - 1 not in own}
    starts |= _jumped_to(body, piece)
    blocks: list[list[int]] = []
    for top in piece.tops:
        if top in starts or not blocks:
            blocks.append([])
        blocks[-1].append(top)
    return blocks


def _jumped_to(body: Sequence[ast.stmt], piece: Piece) -> set[int]:
    aims = {statement.target for statement in body if isinstance(statement, Branch | Jump)}
    return aims & set(piece.tops)
