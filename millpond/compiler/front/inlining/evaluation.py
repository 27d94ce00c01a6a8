"""Calls taken out of statements: what is evaluated before them goes into variables, what may be skipped into branches.

The order of evaluation is Python's own, whatever a call changes.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from millpond.compiler.ir.order import Keeping, get_slot, named_in, put_slot, single, slots

_Node = TypeVar("_Node", bound=ast.expr)
_FUNCTIONS: Final = (ast.Lambda, ast.FunctionDef)


@dataclass(frozen=True)
class Calls:
    """Which calls are taken out and what happens to them.

    `write` gives the expression of a call's result after it has added what comes before, by `Evaluation.add`; it is
    told whether anybody wants the result. `refused` builds the error for a place where a call can't be taken out.
    """

    chosen: Callable[[ast.AST], bool]
    write: Callable[[ast.Call, bool], ast.expr]
    fresh: Callable[[str], str]
    is_fixed: Callable[[ast.AST], bool]
    refused: Callable[[ast.AST, str, str], Exception]


class Evaluation:
    """Writes statements anew, without the chosen calls; `loops` counts the loops around the current place."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._out: list[ast.stmt] = []
        self._named: frozenset[str] = frozenset()
        self._keeping = Keeping(self._bind, calls.is_fixed, self.is_named, _is_constant)
        self.loops = 0

    def block(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        """The statements that do what some statements do."""
        outer, self._out = self._out, []
        for statement in statements:
            self.add(statement)
        written, self._out = self._out, outer
        return written

    def add(self, statement: ast.stmt) -> None:
        """Write a statement at the current place."""
        outer, self._named = self._named, named_in(statement)
        self._statement(statement)
        self._named = outer

    def result(self, value: ast.expr) -> ast.expr:
        """What stands for an expression that is evaluated at the current place."""
        outer, self._named = self._named, self._named | named_in(value)
        value = self.value(value)
        self._named = outer
        return value

    def assign(self, name: str, value: ast.expr, at: ast.AST) -> None:
        """Write an assignment at the current place."""
        self._emit(ast.Assign([_at(ast.Name(name, ast.Store()), at)], value), at)

    def unbind(self, name: str, at: ast.AST) -> None:
        """Leave a variable without a value from here on."""
        self.assign(name, _constant(None, at), at)
        self._emit(ast.Delete([_at(ast.Name(name, ast.Del()), at)]), at)

    def is_named(self, name: str) -> bool:
        """Whether the current statement binds a name by `:=`."""
        return name in self._named

    def _emit(self, statement: ast.stmt, at: ast.AST) -> None:
        self._out.append(ast.copy_location(statement, at))

    def _filled(self, statements: Sequence[ast.stmt], at: ast.AST) -> list[ast.stmt]:
        return self.block(statements) or [ast.copy_location(ast.Pass(), at)]

    def _turns(self, statements: Sequence[ast.stmt], at: ast.AST) -> list[ast.stmt]:
        self.loops += 1
        written = self._filled(statements, at)
        self.loops -= 1
        return written

    def _holds(self, node: ast.AST | None) -> bool:
        if node is None or isinstance(node, _FUNCTIONS):
            return False
        return self._calls.chosen(node) or any(map(self._holds, ast.iter_child_nodes(node)))

    # --- statements

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.If():
                statement.test = self.value(statement.test)
                statement.body = self._filled(statement.body, statement)
                statement.orelse = self.block(statement.orelse)
            case ast.While() if self._holds(statement.test):
                self._while(statement)
                return
            case ast.While():
                statement.body = self._turns(statement.body, statement)
                statement.orelse = self.block(statement.orelse)
            case ast.For():
                self._for(statement)
            case ast.With():
                self._with(statement)
            case ast.Match():
                statement.subject = self.value(statement.subject)
                for case in statement.cases:
                    self._check_free(case.guard, "in a guard", "call it in the case's body, or before the match")
                    case.body = self._filled(case.body, statement)
            case ast.Try():
                self._try(statement)
            case _ if self._holds(statement):
                self._simple(statement)
                return
        self._out.append(statement)

    def _while(self, statement: ast.While) -> None:
        """Turn `while test:` into `while True:` with a test inside."""
        ended = self._calls.fresh("ended") if statement.orelse else ""
        stop: list[ast.stmt] = [ast.copy_location(ast.Break(), statement.test)]
        if ended:
            self.assign(ended, _constant(False, statement), statement)
            done = ast.Assign([_at(ast.Name(ended, ast.Store()), statement)], _constant(True, statement))
            stop.insert(0, ast.copy_location(done, statement))
        negated = _at(ast.UnaryOp(ast.Not(), statement.test), statement.test)
        leave = ast.copy_location(ast.If(negated, stop, []), statement.test)
        body = self._turns([leave, *statement.body], statement)
        self._emit(ast.While(_constant(True, statement), body, []), statement)
        if ended:
            # Not in an `else` of the loop: its own `break` must not skip it.
            self._emit(ast.If(_load(ended, statement), self._filled(statement.orelse, statement), []), statement)

    def _for(self, statement: ast.For) -> None:
        statement.iter = self.value(statement.iter)
        if self._holds(statement.target):
            statement.body.insert(0, self._through(statement, "target", statement.target))
        statement.body = self._turns(statement.body, statement)
        statement.orelse = self.block(statement.orelse)

    def _with(self, statement: ast.With) -> None:
        first, *rest = statement.items
        if any(self._holds(item) for item in rest):
            inner = ast.copy_location(ast.With(rest, statement.body), statement)
            statement.items, statement.body = [first], [inner]
        first.context_expr = self.value(first.context_expr)
        if first.optional_vars is not None and self._holds(first.optional_vars):
            statement.body.insert(0, self._through(first, "optional_vars", first.optional_vars))
        statement.body = self._filled(statement.body, statement)

    def _through(self, owner: ast.AST, field: str, target: ast.expr) -> ast.stmt:
        """Bind a variable in the place of a target, and return the assignment of it to the target."""
        name = self._calls.fresh("value")
        setattr(owner, field, _at(ast.Name(name, ast.Store()), target))
        return ast.copy_location(ast.Assign([target], _load(name, target)), target)

    def _try(self, statement: ast.Try) -> None:
        statement.body = self._filled(statement.body, statement)
        for handler in statement.handlers:
            self._check_free(handler.type, "in an except clause", "name the exceptions")
            handler.body = self._filled(handler.body, statement)
        statement.orelse = self.block(statement.orelse)
        statement.finalbody = self.block(statement.finalbody)

    def _check_free(self, node: ast.AST | None, where: str, hint: str) -> None:
        for part in ast.walk(node) if node is not None and self._holds(node) else ():
            if self._calls.chosen(part):
                raise self._calls.refused(part, where, hint)

    def _simple(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Expr(value=ast.Call() as call) if self._calls.chosen(call):
                left = self._calls.write(call, False)
                if not isinstance(left, ast.Constant):
                    self._emit(ast.Expr(left), statement)
            case ast.Assign(targets=targets, value=value):
                self._assign(targets, self.value(value), statement)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign([target], self.value(value), statement)
            case ast.AugAssign():
                self._augmented(statement)
            case ast.Delete(targets=targets):
                for removed in single(targets):
                    self._children(removed)
                    self._emit(ast.Delete([removed]), statement)
            case ast.Assert():
                self._assert(statement)
            case _:
                self._children(statement)
                self._out.append(statement)

    def _assign(self, targets: list[ast.expr], value: ast.expr, at: ast.stmt) -> None:
        if not any(map(self._holds, targets)):
            self._emit(ast.Assign(targets, value), at)
            return
        value = self.kept(value)
        if len(targets) > 1 and not isinstance(value, ast.Name | ast.Constant):
            value = self._bind(value, value)
        for target in targets:
            self._assign_one(target, copy.deepcopy(value), at)

    def _assign_one(self, target: ast.expr, value: ast.expr, at: ast.stmt) -> None:
        if isinstance(target, ast.Tuple | ast.List) and self._holds(target):
            # All is unpacked before anything is stored; then each target is evaluated in turn.
            pairs = [(self._calls.fresh("value"), part) for part in target.elts]
            target.elts = [_in_place_of(part, name) for name, part in pairs]
            self._emit(ast.Assign([target], value), at)
            for name, part in pairs:
                inner = part.value if isinstance(part, ast.Starred) else part
                self._assign_one(inner, _load(name, part), at)
            return
        self._children(target)
        self._emit(ast.Assign([target], value), at)

    def _augmented(self, statement: ast.AugAssign) -> None:
        target = statement.target
        self._children(target)
        rebinds = isinstance(target, ast.Name) and target.id not in self._named
        if rebinds or not self._holds(statement.value):
            statement.value = self.value(statement.value)
            self._out.append(statement)
            return
        # The old value is read before the right side is evaluated.
        for slot in slots(target):
            put_slot(slot, self.kept(get_slot(slot)))
        read = copy.deepcopy(target)
        read.ctx = ast.Load()
        name = self._calls.fresh("value")
        self.assign(name, read, target)
        value = self.value(statement.value)
        self._emit(ast.AugAssign(_at(ast.Name(name, ast.Store()), target), statement.op, value), statement)
        self._emit(ast.Assign([target], _load(name, target)), statement)

    def _assert(self, statement: ast.Assert) -> None:
        if not __debug__:
            return
        test = self.value(statement.test)
        if not self._holds(statement.msg):
            self._emit(ast.Assert(test, statement.msg), statement)
            return
        assert statement.msg is not None
        outer, self._out = self._out, []
        message = self.value(statement.msg)
        self._emit(ast.Assert(_constant(False, statement), message), statement)
        body, self._out = self._out, outer
        negated = _at(ast.UnaryOp(ast.Not(), test), statement.test)
        self._emit(ast.If(negated, body, []), statement)

    # --- expressions

    def value(self, node: ast.expr) -> ast.expr:
        """What stands for an expression after what it needs was written at the current place."""
        if not self._holds(node):
            return node
        match node:
            case ast.Call() if self._calls.chosen(node):
                return self._calls.write(node, True)
            case ast.BoolOp(values=[_, *others]) if any(map(self._holds, others)):
                return self._bool(node)
            case ast.IfExp() if self._holds(node.body) or self._holds(node.orelse):
                return self._choice(node)
            case ast.Compare(comparators=[_, *others]) if any(map(self._holds, others)):
                return self._chain(node)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                first = node.generators[0]
                first.iter = self.value(first.iter)
                self._check_free(node, "in a comprehension", "write the comprehension as a loop")
                return node
        self._children(node)
        return node

    def _children(self, node: ast.AST) -> None:
        places = slots(node)
        holding = [number for number, slot in enumerate(places) if self._holds(get_slot(slot))]
        last = holding[-1] if holding else -1
        for number, slot in enumerate(places[: last + 1]):
            part = get_slot(slot)
            if isinstance(part, ast.expr) and not isinstance(part, ast.Starred | ast.Slice | ast.FormattedValue):
                part = self.value(part)
            else:
                self._children(part)
            put_slot(slot, part)
            if number < last:
                put_slot(slot, self._keeping.in_slot(slot))

    def kept(self, node: Any) -> Any:
        """A node that means later what it means now."""
        return self._keeping.kept(node)

    def _bind(self, value: ast.expr, at: ast.AST) -> ast.expr:
        name = self._calls.fresh("value")
        self.assign(name, _at(value, at), at)
        return _load(name, at)

    def _bool(self, node: ast.BoolOp) -> ast.expr:
        name = self._calls.fresh("value")
        # What holds no call stays together.
        plain = next(number for number, value in enumerate(node.values[1:], 1) if self._holds(value))
        start = node.values[0] if plain == 1 else _at(ast.BoolOp(node.op, node.values[:plain]), node)
        self.assign(name, self.value(start), start)
        self._bool_rest(name, node, node.values[plain:])
        return _load(name, node)

    def _bool_rest(self, name: str, node: ast.BoolOp, values: list[ast.expr]) -> None:
        if not values:
            return
        so_far = _load(name, values[0])
        test = so_far if isinstance(node.op, ast.And) else _at(ast.UnaryOp(ast.Not(), so_far), values[0])
        outer, self._out = self._out, []
        self.assign(name, self.value(values[0]), values[0])
        self._bool_rest(name, node, values[1:])
        body, self._out = self._out, outer
        self._emit(ast.If(test, body, []), values[0])

    def _choice(self, node: ast.IfExp) -> ast.expr:
        name = self._calls.fresh("value")
        test = self.value(node.test)
        arms = []
        for part in (node.body, node.orelse):
            outer, self._out = self._out, []
            self.assign(name, self.value(part), part)
            arm, self._out = self._out, outer
            arms.append(arm)
        self._emit(ast.If(test, arms[0], arms[1]), node)
        return _load(name, node)

    def _chain(self, node: ast.Compare) -> ast.expr:
        name = self._calls.fresh("value")
        left = self.kept(self.value(node.left))
        self._links(name, left, list(zip(node.ops, node.comparators, strict=True)), node)
        return _load(name, node)

    def _links(self, name: str, left: ast.expr, links: list[tuple[ast.cmpop, ast.expr]], node: ast.Compare) -> None:
        (operator, part), *rest = links
        right = self.value(part)
        if rest:
            right = self.kept(right)
        self.assign(name, _at(ast.Compare(left, [operator], [right]), node), node)
        if rest:
            outer, self._out = self._out, []
            self._links(name, copy.deepcopy(right), rest, node)
            body, self._out = self._out, outer
            self._emit(ast.If(_load(name, node), body, []), node)


def _is_constant(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant)


def _in_place_of(target: ast.expr, name: str) -> ast.expr:
    stored = _at(ast.Name(name, ast.Store()), target)
    return _at(ast.Starred(stored, ast.Store()), target) if isinstance(target, ast.Starred) else stored


def _load(name: str, at: ast.AST) -> ast.expr:
    return _at(ast.Name(name, ast.Load()), at)


def _constant(value: bool | None, at: ast.AST) -> ast.expr:
    return _at(ast.Constant(value), at)


def _at(node: _Node, at: ast.AST) -> _Node:
    return ast.copy_location(node, at)
