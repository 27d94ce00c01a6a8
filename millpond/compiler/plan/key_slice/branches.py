"""Branches in a slice: `if`, `match`, `try` and `with`, as they are where they are known, and all sides where not."""

from __future__ import annotations

import ast

from millpond.compiler.front.scope import Names
from millpond.compiler.plan.key_slice.code import After, Code, assigned, expressions, is_of_names, joined, named, stored
from millpond.compiler.plan.key_slice.notes import BRANCH, Env, Taint
from millpond.compiler.plan.key_slice.straight import Straight


class Branches(Straight):
    """Writes branches."""

    def _if(self, node: ast.If, env: Env) -> tuple[Code, After]:
        taint = self._notes.taint(node.test, env)
        if taint is not None:
            code = expressions(self._notes.notes(node.test, env))
            sides, after = self._sides([node.body, node.orelse], env, Taint(taint.node, BRANCH))
            return code + sides, after
        self._notes.bind(env, named(node.test))
        body, one = self._block(node.body, dict(env))
        orelse, other = self._block(node.orelse, dict(env))
        return [ast.If(node.test, body or [ast.Pass()], orelse)], joined(one, other)

    def _match(self, node: ast.Match, env: Env) -> tuple[Code, After]:
        taint = self._notes.taint(node.subject, env)
        guards = [case.guard for case in node.cases if case.guard is not None]
        captured = {name for case in node.cases for name in Names.of(case.pattern).binds}
        inside = {name: known for name, known in env.items() if name not in captured}
        unsure = next((found for guard in guards if (found := self._notes.taint(guard, inside))), None)
        if taint is None and unsure is None:
            return self._known_match(node, env)
        code: Code = []
        held = ast.Name(self.names.fresh("subject"), ast.Load())
        if taint is None:
            self._notes.bind(env, named(node.subject))
            code.append(assigned(held.id, node.subject))
        else:
            code += expressions(self._notes.notes(node.subject, env))
        doubt = Taint((taint or unsure or Taint(node, "")).node, BRANCH)
        after = dict(env)
        for case in node.cases:
            inner = dict(env)
            own = Names.of(case.pattern).binds
            if taint is None:
                self._notes.bind(inner, own)
            else:
                self._notes.spoil(inner, own, doubt)
            statements = [*([ast.Expr(case.guard)] if case.guard is not None else []), *case.body]
            side, _ = self._guarded(statements, inner, doubt)
            if side and taint is None:
                side = self._fenced([ast.Match(held, [ast.match_case(case.pattern, None, side)])], own)
            code += side
            self._doubt([*statements, case.pattern], after, doubt)
        return code, after

    def _known_match(self, node: ast.Match, env: Env) -> tuple[Code, After]:
        self._notes.bind(env, named(node.subject))
        cases = []
        ends: list[After] = [env]
        for case in node.cases:
            inner = dict(env)
            self._notes.bind(inner, [*Names.of(case.pattern).binds, *(named(case.guard) if case.guard else [])])
            body, after = self._block(case.body, inner)
            cases.append(ast.match_case(case.pattern, case.guard, body or [ast.Pass()]))
            ends.append(after)
        return [ast.Match(node.subject, cases)], joined(*ends)

    def _try(self, node: ast.Try, env: Env) -> tuple[Code, After]:
        unsure = next((found for part in node.body if (found := self._notes.taint(part, env))), None)
        if unsure is None:
            return self._known_try(node, env)
        doubt = Taint(unsure.node, BRANCH)
        between = dict(env)
        self._doubt(node.body, between, doubt)
        out: Code = []
        after = dict(env)
        self._doubt([*node.body, *node.orelse, *node.handlers], after, doubt)
        skipped = self._loops[-1].skipped if self._loops else None
        for handler in node.handlers:
            inner = dict(between)
            self._notes.spoil(inner, [handler.name] if handler.name else [], doubt)
            kinds = [ast.Expr(handler.type)] if handler.type is not None else []
            out += self._guarded([*kinds, *handler.body], inner, doubt)[0]
        sure = all(self._ends(handler.body) for handler in node.handlers)
        body = [*node.body, *node.orelse]
        if sure and (not self._loops or self._loops[-1].skipped is skipped) and not node.finalbody:
            # A run that comes out of this went through the body to its end.
            code, end = self._block(body, env)
            return out + code, end
        out += self._guarded(body, env, doubt)[0]
        last, end = self._block(node.finalbody, after)
        gone = self._ends(body) and sure
        return out + last, None if gone else end

    def _known_try(self, node: ast.Try, env: Env) -> tuple[Code, After]:
        body, done = self._block(node.body, dict(env))
        between = joined(env, done) or {}
        ends: list[After] = []
        handlers = []
        for handler in node.handlers:
            inner = dict(between)
            self._notes.bind(inner, [handler.name] if handler.name else [])
            code, after = self._block(handler.body, inner)
            handlers.append(ast.ExceptHandler(handler.type, handler.name, code or [ast.Pass()]))
            ends.append(after)
        orelse, after = self._block(node.orelse, dict(done)) if done is not None else ([], None)
        ends.append(after)
        every = joined(between, *ends) or {}
        final, last = self._block(node.finalbody, every)
        after = joined(*ends)
        code = [ast.Try(body or [ast.Pass()], handlers, orelse, final)] if handlers or final else body
        return code, None if after is None or last is None else last if node.finalbody else after

    def _with(self, node: ast.With, env: Env) -> tuple[Code, After]:
        unsure = self._notes.taint(node, env)
        targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
        if unsure is None:
            inner = dict(env)
            self._notes.bind(inner, [name for item in node.items for name in (*named(item), *stored(item))])
            body, after = self._block(node.body, inner)
            return [ast.With(node.items, body or [ast.Pass()])], joined(env, after)
        doubt = Taint(unsure.node, BRANCH)
        code: Code = []
        known = all(self._notes.taint(item, env) is None for item in node.items) and all(map(is_of_names, targets))
        if known:
            self._notes.bind(env, [name for target in targets for name in stored(target)])
        else:
            for item in node.items:
                code += expressions(self._notes.notes(item.context_expr, env))
                code += self._store(item.optional_vars, doubt, env) if item.optional_vars is not None else []
        # A manager may swallow what the body raises.
        body, _ = self._guarded(node.body, env, doubt)
        self._doubt(node.body, env, doubt)
        return [*code, ast.With(node.items, body or [ast.Pass()])] if known else code + body, env
