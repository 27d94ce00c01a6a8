"""Jumps between the statements of a body: what is left of branches and loops whose parts run at different places."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


class Branch(ast.stmt):
    """Goes on to the next statement if `test` holds, else to statement `target` of the body."""

    _fields = ("test",)
    test: ast.expr
    target: int

    @classmethod
    def on(cls, test: ast.expr, target: int, at: ast.AST) -> Branch:
        """A branch on a test, at the place of a node."""
        branch: Branch = ast.copy_location(cls(), at)
        branch.test = test
        branch.target = target
        return branch


class Jump(ast.stmt):
    """Goes on to statement `target` of the body."""

    _fields = ()
    target: int

    @classmethod
    def to(cls, target: int, at: ast.AST) -> Jump:
        """A jump to a statement, at the place of a node."""
        jump = ast.copy_location(cls(), at)
        jump.target = target
        return jump


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop that became jumps: each turn begins at `head` and ends at `last`, which jumps back."""

    head: int
    last: int
    node: ast.stmt

    def __contains__(self, top: object) -> bool:
        return isinstance(top, int) and self.head <= top <= self.last


def takes_all(case: ast.match_case) -> bool:
    """Whether a case matches whatever comes to it."""
    return case.guard is None and _matches_all(case.pattern)


def _matches_all(pattern: ast.pattern) -> bool:
    match pattern:
        case ast.MatchAs(pattern=inner):
            return inner is None or _matches_all(inner)
        case ast.MatchOr(patterns=patterns):
            return any(map(_matches_all, patterns))
    return False


def successors(body: Sequence[ast.stmt], top: int) -> tuple[int, ...]:
    """The statements that may follow a statement; none after the last."""
    statement = body[top]
    match statement:
        case Jump():
            return (statement.target,)
        case ast.Return() | ast.Raise():
            return ()
    after = (top + 1,) if top + 1 < len(body) else ()
    return (*after, statement.target) if isinstance(statement, Branch) else after


def targets(body: Sequence[ast.stmt]) -> frozenset[int]:
    """The statements that are jumped to."""
    return frozenset(statement.target for statement in body if isinstance(statement, Branch | Jump))


def reached(body: Sequence[ast.stmt], starts: Sequence[int], without: int = -1) -> frozenset[int]:
    """The statements that may run from some starts on, the starts included; `without` is where it ends."""
    seen: set[int] = set()
    waiting = [top for top in starts if top != without]
    while waiting:
        top = waiting.pop()
        if top not in seen:
            seen.add(top)
            waiting += (after for after in successors(body, top) if after != without)
    return frozenset(seen)


def leading_to(body: Sequence[ast.stmt], top: int) -> frozenset[int]:
    """The statements after which a statement may still run."""
    before: dict[int, list[int]] = {}
    for other in range(len(body)):
        for after in successors(body, other):
            before.setdefault(after, []).append(other)
    seen: set[int] = set()
    waiting = list(before.get(top, ()))
    while waiting:
        other = waiting.pop()
        if other not in seen:
            seen.add(other)
            waiting += before.get(other, ())
    return frozenset(seen)


def text_lines(body: Sequence[ast.stmt]) -> Iterator[str]:
    """A body as text, for people and golden files."""
    aims = targets(body)
    for top, statement in enumerate(body):
        mark = f"@{top}: " if top in aims else ""
        yield mark + text(statement)


def text(node: ast.AST) -> str:
    """A statement as text; jumps say where they go."""
    match node:
        case Branch():
            return f"unless {ast.unparse(node.test)}: go to @{node.target}"
        case Jump():
            return f"go to @{node.target}"
    return ast.unparse(node)
