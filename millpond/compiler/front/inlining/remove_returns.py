"""The body of a function without its returns: a variable holds the result, and tests skip what a return skips."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_LOOPS: Final = (ast.For, ast.While)
_LEAVES: Final = (ast.Return, ast.Raise, ast.Break, ast.Continue)


@dataclass(frozen=True, slots=True)
class WithoutReturns:
    """Statements that do what a body did, and the expression of its result, to be evaluated after them."""

    statements: list[ast.stmt]
    result: ast.expr


class LostReturnError(Exception):
    """A return that something around it may take back, so that it can't be told by a variable."""

    def __init__(self, node: ast.AST) -> None:
        super().__init__()
        self.node = node


def without_returns(
    body: list[ast.stmt],
    fresh: Callable[[str], str],
    is_idle: Callable[[ast.expr], bool],
    at: ast.AST,
    *,
    wanted: bool,
) -> WithoutReturns:
    """Take the returns out of a body; `wanted` says whether anybody needs the result, `at` where it is called.

    `is_idle` tells which expressions do nothing when they are evaluated.
    """
    nothing = ast.copy_location(ast.Constant(None), at)
    returns = [node for statement in body for node in _own_returns(statement)]
    if not returns:
        return WithoutReturns(body, nothing)
    if returns == [body[-1]]:
        return WithoutReturns(body[:-1], returns[0].value or nothing)
    _check_kept(body)
    result = fresh("result") if wanted else ""
    writer = _Writer(result, "", is_idle)
    try:
        statements = writer.block(copy.deepcopy(body), loop=False, last=True)
    except _NeedsFlagError:
        writer = _Writer(result, fresh("returned"), is_idle)
        statements = writer.block(body, loop=False, last=True)
        statements.insert(0, _assign(writer.flag, ast.Constant(False), at))
    if result and (writer.flag or not _ends(body)):
        statements.insert(0, _assign(result, ast.Constant(None), at))
    return WithoutReturns(statements, ast.copy_location(ast.Name(result, ast.Load()), at) if result else nothing)


class _NeedsFlagError(Exception):
    """Something has to be skipped after a return, so a variable must tell whether there was one."""


class _Writer:
    def __init__(self, result: str, flag: str, is_idle: Callable[[ast.expr], bool]) -> None:
        self._result = result
        self._is_idle = is_idle
        self.flag = flag

    def block(self, statements: Sequence[ast.stmt], *, loop: bool, last: bool) -> list[ast.stmt]:
        """Write a block; `loop` says that it is inside a loop, `last` that nothing of the body follows it."""
        out: list[ast.stmt] = []
        for number, statement in enumerate(statements):
            rest = statements[number + 1 :]
            if isinstance(statement, ast.Return):
                return out + self._leave(statement, loop=loop, last=last)
            if not _returns(statement):
                out.append(statement)
                if isinstance(statement, _LEAVES):
                    return out
                continue
            if not loop and rest and isinstance(statement, ast.If) and _one_ends(statement):
                # What follows is what the other branch goes on with.
                other = statement.orelse if _ends(statement.body) else statement.body
                if not (_ends(statement.body) and _ends(statement.orelse)):
                    other.extend(rest)
                self._parts(statement, loop=False, last=last)
                return [*out, statement]
            self._parts(statement, loop=loop, last=last and not rest)
            out.append(statement)
            if loop and isinstance(statement, _LOOPS):
                out.append(self._when_returned(statement))
            elif not loop and rest:
                out.append(self._unless_returned(self.block(rest, loop=False, last=last), rest[0]))
                return out
        return out

    def _leave(self, statement: ast.Return, *, loop: bool, last: bool) -> list[ast.stmt]:
        value = statement.value or ast.copy_location(ast.Constant(None), statement)
        out: list[ast.stmt] = []
        if self._result:
            out.append(_assign(self._result, value, statement))
        elif not self._is_idle(value):
            out.append(ast.copy_location(ast.Expr(value), statement))
        if self.flag and (loop or not last):
            out.append(_assign(self.flag, ast.Constant(True), statement))
        if loop:
            out.append(ast.copy_location(ast.Break(), statement))
        return out

    def _parts(self, statement: ast.stmt, *, loop: bool, last: bool) -> None:
        match statement:
            case ast.If():
                statement.body = self._filled(statement.body, loop=loop, last=last)
                statement.orelse = self.block(statement.orelse, loop=loop, last=last)
            case ast.For() | ast.While():
                statement.body = self._filled(statement.body, loop=True, last=False)
                statement.orelse = self.block(statement.orelse, loop=loop, last=last)
            case ast.With():
                statement.body = self._filled(statement.body, loop=loop, last=last)
            case ast.Match():
                for case in statement.cases:
                    case.body = self._filled(case.body, loop=loop, last=last)
            case ast.Try():
                self._try(statement, loop=loop, last=last)
            case _:
                raise AssertionError(f"a {type(statement).__name__} holds no return")

    def _try(self, statement: ast.Try, *, loop: bool, last: bool) -> None:
        skips = any(map(_returns, statement.body)) and bool(statement.orelse) and not loop
        statement.body = self._filled(statement.body, loop=loop, last=last and not skips)
        for handler in statement.handlers:
            handler.body = self._filled(handler.body, loop=loop, last=last)
        orelse = self.block(statement.orelse, loop=loop, last=last)
        # A return skips the `else`, but a variable that was set does not.
        statement.orelse = [self._unless_returned(orelse, statement.orelse[0])] if skips else orelse

    def _filled(self, statements: list[ast.stmt], *, loop: bool, last: bool) -> list[ast.stmt]:
        return self.block(statements, loop=loop, last=last) or [ast.copy_location(ast.Pass(), statements[0])]

    def _returned(self, at: ast.AST) -> ast.expr:
        if not self.flag:
            raise _NeedsFlagError
        return ast.copy_location(ast.Name(self.flag, ast.Load()), at)

    def _when_returned(self, at: ast.stmt) -> ast.stmt:
        leave = ast.copy_location(ast.Break(), at)
        return ast.copy_location(ast.If(self._returned(at), [leave], []), at)

    def _unless_returned(self, body: list[ast.stmt], at: ast.stmt) -> ast.stmt:
        test = ast.copy_location(ast.UnaryOp(ast.Not(), self._returned(at)), at)
        return ast.copy_location(ast.If(test, body or [ast.copy_location(ast.Pass(), at)], []), at)


def _own_returns(node: ast.AST) -> Iterator[ast.Return]:
    """The returns in a node, without those of functions inside it."""
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        return
    if isinstance(node, ast.Return):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _own_returns(child)


def _returns(node: ast.AST) -> bool:
    return next(_own_returns(node), None) is not None


def _ends(statements: Sequence[ast.stmt]) -> bool:
    """Whether a block surely ends by a return or a raise."""
    for statement in statements:
        match statement:
            case ast.Return() | ast.Raise():
                return True
            case ast.If(body=body, orelse=orelse) if _ends(body) and _ends(orelse):
                return True
    return False


def _one_ends(statement: ast.If) -> bool:
    return _ends(statement.body) or _ends(statement.orelse)


def _check_kept(body: Sequence[ast.stmt]) -> None:
    """Refuse returns that a `finally`, a `with` or a handler around them may take back."""
    for statement in body:
        for node in ast.walk(statement):
            inner = [part for child in ast.iter_child_nodes(node) for part in ast.walk(child)]
            catches = isinstance(node, ast.With) or (isinstance(node, ast.Try) and bool(node.handlers))
            if isinstance(node, ast.With) and len(node.items) > 1:
                inner.append(node)
            for part in inner if catches else ():
                if _may_raise_late(part) and _returns(part):
                    raise LostReturnError(next(_own_returns(part)))
            if isinstance(node, ast.Try) and node.finalbody and _returns(node):
                for last in node.finalbody:
                    if _returns(last) or _jumps_out(last):
                        raise LostReturnError(next(_own_returns(node)))


def _may_raise_late(node: ast.AST) -> bool:
    """Whether something of a statement runs after a return in it."""
    return isinstance(node, ast.With) or (isinstance(node, ast.Try) and bool(node.finalbody))


def _jumps_out(node: ast.AST) -> bool:
    """Whether a `break` or `continue` in a statement belongs to a loop around it."""
    if isinstance(node, ast.Break | ast.Continue):
        return True
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        return False
    inside = node.orelse if isinstance(node, _LOOPS) else ast.iter_child_nodes(node)
    return any(map(_jumps_out, inside))


def _assign(name: str, value: ast.expr, at: ast.AST) -> ast.stmt:
    target = ast.copy_location(ast.Name(name, ast.Store()), at)
    if not hasattr(value, "lineno"):
        ast.copy_location(value, at)
    return ast.copy_location(ast.Assign([target], value), at)
