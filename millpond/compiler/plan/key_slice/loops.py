"""Loops in a slice: as they are where their turns are known, and one turn where not."""

from __future__ import annotations

import ast
from typing import Final

from millpond.compiler.plan.key_slice.branches import Branches
from millpond.compiler.plan.key_slice.code import (
    After,
    Code,
    assigned,
    caught,
    expressions,
    is_of_names,
    joined,
    named,
    stored,
)
from millpond.compiler.plan.key_slice.notes import LOOP, Env, Taint
from millpond.compiler.plan.key_slice.straight import Loop

_ROUNDS_MAX: Final = 50


class Slice(Branches):
    """Writes the statements that note the keys of a row."""

    def run(self) -> Code:
        """All statements of the method, sliced."""
        code, _ = self._block(self._statements, {})
        return code or [ast.Pass()]

    def _statement(self, node: ast.stmt, env: Env) -> tuple[Code, After]:
        match node:
            case ast.If():
                return self._if(node, env)
            case ast.For():
                return self._for(node, env)
            case ast.While():
                return self._while(node, env)
            case ast.Try():
                return self._try(node, env)
            case ast.With():
                return self._with(node, env)
            case ast.Match():
                return self._match(node, env)
            case ast.Return() | ast.Raise():
                return self._leave(node, env)
            case ast.Break() | ast.Continue():
                return self._jump(node, env)
        return self._simple(node, env)

    def _for(self, node: ast.For, env: Env) -> tuple[Code, After]:
        if not is_of_names(node.target):
            held = self.names.fresh("item")
            first = ast.copy_location(ast.Assign([node.target], ast.Name(held, ast.Load())), node)
            body = [first, *node.body]
            return self._for_names(ast.For(ast.Name(held, ast.Store()), node.iter, body, node.orelse), env)
        return self._for_names(node, env)

    def _for_names(self, node: ast.For, env: Env) -> tuple[Code, After]:
        if self._notes.taint(node.iter, env) is None:
            self._notes.bind(env, named(node.iter))
            head = self._settled(node, env)
            if self._notes.taint(node.iter, head) is None:
                return self._known_loop(node, head)
        walked = self._notes.taint(node.iter, env)
        first = expressions(self._notes.notes(node.iter, env))
        doubt = self._first_doubt(node, env) if walked is None else Taint(walked.node, LOOP)
        code, after = self._unknown_loop(node, env, doubt)
        return first + code, after

    def _while(self, node: ast.While, env: Env) -> tuple[Code, After]:
        head = self._settled(node, env)
        taint = self._notes.taint(node.test, head)
        if taint is None:
            loop, _, _ = self._turn(node, dict(head))
            endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
            if loop.ends or not endless:
                return self._known_loop(node, head)
            taint = loop.broken or self._first_doubt(node, env)
        return self._unknown_loop(node, env, Taint(taint.node, LOOP))

    def _first_doubt(self, node: ast.For | ast.While, env: Env) -> Taint:
        """The first thing in a loop that depends on state."""
        found = (self._notes.taint(part, env) for part in node.body)
        return Taint(next((taint.node for taint in found if taint is not None), node), LOOP)

    def _turn(self, node: ast.For | ast.While, env: Env) -> tuple[Loop, Code, After]:
        """One turn of a loop whose turns are known."""
        loop = Loop(self._depth)
        if isinstance(node, ast.For):
            self._notes.bind(env, stored(node.target))
        else:
            self._notes.bind(env, named(node.test))
        self._loops.append(loop)
        code, after = self._block(node.body, env)
        self._loops.pop()
        return loop, code, after

    def _settled(self, node: ast.For | ast.While, env: Env) -> Env:
        """What is unknown at the head of a loop, however often it has turned."""
        head = dict(env)
        for _ in range(_ROUNDS_MAX):
            loop, _, after = self._turn(node, dict(head))
            found = joined(head, after, *loop.again) or {}
            if found.keys() == head.keys():
                return head
            head = {**found, **head}
        raise AssertionError("every round adds a variable, and there are not so many")

    def _known_loop(self, node: ast.For | ast.While, head: Env) -> tuple[Code, After]:
        loop, body, _ = self._turn(node, dict(head))
        if loop.broken is not None:
            # A return ends no more than the loop: the real run may have left it before.
            self._depth += 1
            loop, body, _ = self._turn(node, dict(head))
            self._depth -= 1
        after = dict(head)
        code, whole = self._turning(node, body or [ast.Pass()])
        if loop.broken is None:
            whole.orelse, end = self._block(node.orelse, after)
            return [*code, whole], joined(end, *loop.breaks)
        code.append(caught([whole], self.tools.anything))
        self._doubt([node], after, loop.broken)
        if node.orelse:
            rest, end = self._sides([node.orelse, []], after, loop.broken)
            return code + rest, end
        return code, after

    def _turning(self, node: ast.For | ast.While, body: Code) -> tuple[Code, ast.For | ast.While]:
        """A loop with another body; with an end of its own where only state may end it."""
        endless = any(id(part) in self._notes.sites for inner in node.body for part in ast.walk(inner))
        if isinstance(node, ast.For):
            endless = endless and not self._notes.kinds.is_finite(node.iter)
            walked = ast.Call(ast.Name(self.tools.limited, ast.Load()), [node.iter], []) if endless else node.iter
            return [], ast.For(node.target, walked, body, [])
        if not endless:
            return [], ast.While(node.test, body, [])
        tick = self.names.fresh("tick")
        begin = assigned(tick, ast.Call(ast.Name(self.tools.ticking, ast.Load()), [], []))
        test = ast.BoolOp(ast.And(), [ast.Call(ast.Name(tick, ast.Load()), [], []), node.test])
        return [begin], ast.While(test, body, [])

    def _unknown_loop(self, node: ast.For | ast.While, env: Env, taint: Taint) -> tuple[Code, After]:
        """A loop of which nobody knows how often it turns: one turn, with nothing known that a turn may change."""
        self._doubt([node], env, taint)
        outer, self._loops = self._loops, [*self._loops, Loop(-1)]
        head = [ast.Expr(node.test)] if isinstance(node, ast.While) else []
        body, _ = self._guarded([*head, *node.body], env, taint)
        self._loops = outer
        rest, after = self._sides([node.orelse, []], env, taint) if node.orelse else ([], env)
        return body + rest, after
