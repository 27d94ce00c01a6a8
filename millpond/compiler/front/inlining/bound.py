"""Variables that may be read while they have no value."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from millpond.compiler.front.scope import Names
from millpond.compiler.ir.jumps import takes_all
from millpond.compiler.ir.patterns import certain_parts

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

Bound = frozenset[str] | None
"""The variables that surely have a value at a place; None where no run comes by."""


def loosely_bound(
    body: Sequence[ast.stmt], variables: frozenset[str], parameters: frozenset[str] | set[str]
) -> frozenset[str]:
    """The variables of a function that may be read, or lose their value, without surely having one; rather too many."""
    unbound = Names.of(*body).unbinds
    handlers = {
        n.name for statement in body for n in ast.walk(statement) if isinstance(n, ast.ExceptHandler) and n.name
    }
    walk = _Walk(variables)
    walk.block(body, frozenset(parameters))
    return frozenset(walk.loose | unbound | handlers) & variables


class _Walk:
    def __init__(self, variables: frozenset[str]) -> None:
        self._variables = variables
        self.loose: set[str] = set()

    def block(self, statements: Sequence[ast.stmt], have: Bound) -> Bound:
        """What has a value after some statements."""
        for statement in statements:
            if have is None:
                return None
            have = self._statement(statement, have)
        return have

    def _statement(self, statement: ast.stmt, have: frozenset[str]) -> Bound:
        match statement:
            case ast.If(test=test, body=body, orelse=orelse):
                have = self._read(have, test)
                return _meet(self.block(body, have), self.block(orelse, have))
            case ast.While(test=test, body=body, orelse=orelse):
                have = self._read(have, test)
                self.block(body, have)
                self.block(orelse, have)
                return have
            case ast.For(target=target, iter=walked, body=body, orelse=orelse):
                have = self._read(have, walked)
                self.block(body, self._read(have, target) | Names.of(target).binds)
                self.block(orelse, have)
                return have
            case ast.With(items=items, body=body):
                for item in items:
                    have = self._read(have, item.context_expr)
                    have = self._read(have, item.optional_vars) | Names.of(item.optional_vars).binds
                # What its body binds may be skipped: the manager may swallow what the body raises.
                self.block(body, have)
                return have
            case ast.Match(subject=subject, cases=cases):
                have = self._read(have, subject)
                ends = [self._case(case, have) for case in cases]
                return _meet(*ends) if takes_all(cases[-1]) else _meet(have, *ends)
            case ast.Try():
                return self._try(statement, have)
            case ast.Return() | ast.Raise():
                self._read(have, statement)
                return None
            case ast.Break() | ast.Continue():
                return None
        return self._read(have, statement) | _stored(statement)

    def _case(self, case: ast.match_case, have: frozenset[str]) -> Bound:
        have = self._read(have, case.pattern) | Names.of(case.pattern).binds
        return self.block(case.body, self._read(have, case.guard))

    def _try(self, statement: ast.Try, have: frozenset[str]) -> Bound:
        ends = [self.block(statement.orelse, self.block(statement.body, have))]
        for handler in statement.handlers:
            caught = self._read(have, handler.type)
            ends.append(self.block(handler.body, caught | ({handler.name} if handler.name else frozenset())))
        end, last = _meet(*ends), self.block(statement.finalbody, have)
        return None if end is None or last is None else end | last

    def _read(self, have: frozenset[str], *nodes: ast.AST | None) -> frozenset[str]:
        """Note what is read without a value, and add what a `:=` that is always evaluated binds."""
        reads = set(Names.of(*nodes).reads)
        named = set()
        for node in nodes:
            for part in ast.walk(node) if node is not None else ():
                if isinstance(part, _COMPREHENSIONS):
                    # `[x for x in x]` reads an outer x.
                    reads |= Names.of(part.generators[0].iter).reads
            for part in certain_parts(node) if node is not None else ():
                if isinstance(part, ast.NamedExpr):
                    named.add(part.target.id)
        self.loose |= (reads & self._variables) - have
        return have | named


def _stored(statement: ast.stmt) -> frozenset[str]:
    named = {part.target.id for part in ast.walk(statement) if isinstance(part, ast.NamedExpr)}
    return Names.of(statement).binds - named


def _meet(*ends: Bound) -> Bound:
    met: Bound = None
    for end in ends:
        if end is not None:
            met = end if met is None else met & end
    return met
