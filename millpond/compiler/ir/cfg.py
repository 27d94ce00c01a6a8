"""The control-flow graph of a method, as basic blocks of statements.

Needs: Method.body.
Leaves: Method.cfg. Every statement has a point; the head of a compound statement is one too.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from millpond.compiler.draft import Block, Cfg, Draft, Point
from millpond.compiler.front.scope import Names
from millpond.compiler.ir.jumps import Branch, Jump, takes_all, targets

EXIT = "exit"


def build_cfgs(draft: Draft) -> Draft:
    """Build the control-flow graph of every method."""
    return draft.each(lambda method: replace(method, cfg=build_cfg(method.body)))


def build_cfg(body: Sequence[ast.stmt]) -> Cfg:
    """Build the control-flow graph of a body."""
    builder = _Builder()
    aims = targets(body)
    for top, statement in enumerate(body):
        if top in aims:
            builder.arrive(top)
        builder.top = top
        builder.add(statement)
    return Cfg(tuple(Block(tuple(b.points), tuple(sorted(b.successors))) for b in builder.blocks))


@dataclass
class _Open:
    points: list[Point] = field(default_factory=list)
    successors: set[int] = field(default_factory=set)


@dataclass
class _Frame:
    """What a jump meets on its way out: a loop (`onward`, `again`) or a finally (`last`)."""

    onward: int = -1
    again: int = -1
    last: int = -1
    passing: set[str] = field(default_factory=set)


class _Builder:
    def __init__(self) -> None:
        self.blocks = [_Open()]
        self.top = 0
        self._here = 0
        self._frames: list[_Frame] = []
        self._handlers: list[list[int]] = []
        self._aims: dict[int, int] = {}

    def _aim(self, top: int) -> int:
        """The block that starts with a statement that is jumped to."""
        if top not in self._aims:
            self._aims[top] = self._new()
        return self._aims[top]

    def arrive(self, top: int) -> None:
        """Begin a block for a statement that is jumped to."""
        block = self._aim(top)
        self.blocks[self._here].successors.add(block)
        self._here = block

    def _new(self, *sources: int) -> int:
        self.blocks.append(_Open())
        number = len(self.blocks) - 1
        for source in sources:
            self.blocks[source].successors.add(number)
        self._may_raise(number)
        return number

    def _may_raise(self, number: int) -> None:
        if self._handlers:
            self.blocks[number].successors.update(start for starts in self._handlers for start in starts)

    def _point(self, node: ast.AST, *parts: ast.AST | None) -> None:
        names = Names.of(*parts)
        self.blocks[self._here].points.append(Point(node, self.top, names.reads, names.binds, names.unbinds))
        if self._handlers:
            # Inside a try each statement is a block of its own, so that handlers see what was bound before it raised.
            self._here = self._new(self._here)

    def add(self, statement: ast.stmt) -> None:
        """Append a statement; what follows starts at the current block."""
        match statement:
            case ast.If():
                self._if(statement)
            case ast.While() | ast.For():
                self._loop(statement)
            case ast.Try():
                self._try(statement)
            case ast.With():
                self._with(statement)
            case ast.Match():
                self._match(statement)
            case Branch():
                self._point(statement, statement.test)
                self.blocks[self._here].successors.add(self._aim(statement.target))
                self._here = self._new(self._here)
            case Jump():
                self._point(statement)
                self.blocks[self._here].successors.add(self._aim(statement.target))
                self._here = self._new()
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                self._point(statement, statement)
                self._jump(statement)
            case _:
                self._point(statement, statement)

    def _all(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self.add(statement)

    def _arm(self, source: int, statements: Sequence[ast.stmt]) -> int:
        self._here = self._new(source)
        self._all(statements)
        return self._here

    def _if(self, statement: ast.If) -> None:
        self._point(statement, statement.test)
        head = self._here
        ends = [self._arm(head, statement.body)]
        ends.append(self._arm(head, statement.orelse) if statement.orelse else head)
        self._here = self._new(*ends)

    def _loop(self, statement: ast.While | ast.For) -> None:
        head = self._here = self._new(self._here)
        self._point(statement, statement.iter if isinstance(statement, ast.For) else statement.test)
        test = self._here
        after = self._new()
        self._frames.append(_Frame(onward=after, again=head))
        self._here = self._new(test)
        if isinstance(statement, ast.For):
            # Bound on the way into the body only: a loop that does not turn binds nothing.
            self._point(statement.target, statement.target)
        self._all(statement.body)
        self.blocks[self._here].successors.add(head)
        self._frames.pop()
        self.blocks[self._arm(test, statement.orelse)].successors.add(after)
        self._here = after

    def _with(self, statement: ast.With) -> None:
        self._point(statement, *statement.items)
        # A context manager may swallow what its body raises, so that any part of the body may be skipped.
        after = self._new()
        self._handlers.append([after])
        self._here = self._new(self._new(self._here))
        self._all(statement.body)
        self._handlers.pop()
        self.blocks[self._here].successors.add(after)
        self._here = after

    def _match(self, statement: ast.Match) -> None:
        self._point(statement, statement.subject)
        ends: list[int] = []
        test = self._here
        for case in statement.cases:
            self._here = self._new(test)
            self._point(case.pattern, case.pattern)
            if case.guard is not None:
                # It reads what the pattern has bound.
                self._point(case.guard, case.guard)
            guard = self._here
            ends.append(self._arm(guard, case.body))
            test = self._new(test, guard) if case.guard is not None else self._new(test)
        missed = [] if takes_all(statement.cases[-1]) else [test]
        self._here = self._new(*ends, *missed)

    def _try(self, statement: ast.Try) -> None:
        self._point(statement)
        frame = _Frame(last=self._new()) if statement.finalbody else None
        starts = [self._new() for _ in statement.handlers]
        if frame is not None:
            self._frames.append(frame)
            self._handlers.append([frame.last])
        self._handlers.append(starts)
        # Two blocks: the first statement may raise before it has bound anything.
        self._here = self._new(self._new(self._here))
        self._all(statement.body)
        self._handlers.pop()
        ends = [self._arm(self._here, statement.orelse)]
        for start, handler in zip(starts, statement.handlers, strict=True):
            self._here = start
            ends.append(self._handle(handler))
        if frame is None:
            self._here = self._new(*ends)
            return
        self._frames.pop()
        self._handlers.pop()
        for end in ends:
            self.blocks[end].successors.add(frame.last)
        self._here = frame.last
        self._all(statement.finalbody)
        self._leave_finally(frame)

    def _handle(self, handler: ast.ExceptHandler) -> int:
        name = handler.name
        self._point(handler, handler.type, ast.Name(name, ast.Store()) if name else None)
        self._all(handler.body)
        if name:
            self._point(handler, ast.Name(name, ast.Del()))
        return self._here

    def _leave_finally(self, frame: _Frame) -> None:
        end = self._here
        for kind in sorted(frame.passing):
            self._send(end, kind)
        self._here = self._new(end)

    def _jump(self, statement: ast.stmt) -> None:
        end = self._here
        if not isinstance(statement, ast.Raise):
            self._send(end, {ast.Break: "break", ast.Continue: "continue"}.get(type(statement), EXIT))
        # What follows a jump is dead: it hangs on no block.
        self._here = self._new()

    def _send(self, source: int, kind: str) -> None:
        """Let a jump run outwards to its loop, or to the nearest finally, which sends it on."""
        for frame in reversed(self._frames):
            if frame.last >= 0:
                frame.passing.add(kind)
                self.blocks[source].successors.add(frame.last)
                return
            if kind != EXIT:
                self.blocks[source].successors.add(frame.onward if kind == "break" else frame.again)
                return
