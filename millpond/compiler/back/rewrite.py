"""From a method's syntax to a task's: state as arguments, constants and helpers as globals, returns as results."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millpond.compiler.front.scope import Scope
from millpond.compiler.ir.patterns import is_each, is_merged


@dataclass(frozen=True, slots=True)
class Renames:
    """What the generated code calls the elements, constants and helpers that the method calls `self.name`.

    `maps` are the elements whose container is a dict.
    """

    self_name: str
    names: Mapping[str, str]
    maps: frozenset[str] = frozenset()


class Rewrite(ast.NodeTransformer):
    """Takes `self`, `each` and `merged` out of a piece of a method."""

    def __init__(self, renames: Renames, scope: Scope) -> None:
        self._renames = renames
        self._scope = scope

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Turn `self.name` into a name."""
        if isinstance(node.value, ast.Name) and node.value.id == self._renames.self_name:
            return ast.copy_location(ast.Name(self._renames.names[node.attr], node.ctx), node)
        return self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> list[ast.stmt]:
        """Turn `del self.m[k]` into `m.pop(k)`, which containers that load on demand understand too."""
        return [self._deletion(target, node) for target in node.targets]

    def _deletion(self, target: ast.expr, node: ast.Delete) -> ast.stmt:
        if isinstance(target, ast.Subscript) and self._is_map(target.value):
            pop = ast.Attribute(self.visit(target.value), "pop", ast.Load())
            removal: ast.stmt = ast.Expr(ast.Call(pop, [self.visit(target.slice)], []))
        else:
            removal = ast.Delete([self.visit(target)])
        for part in ast.walk(removal):
            if isinstance(part, ast.expr | ast.stmt) and not hasattr(part, "lineno"):
                ast.copy_location(part, node)
        return removal

    def _is_map(self, value: ast.expr) -> bool:
        match value:
            case ast.Attribute(ast.Name(name), attribute):
                return name == self._renames.self_name and attribute in self._renames.maps
        return False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Turn `each(x)` into `x` and `merged(x, f)` into `f(x)`."""
        if is_each(node, self._scope):
            inner: ast.AST = self.visit(node.args[0])
            return inner
        if is_merged(node, self._scope):
            values, function = node.args
            return self.generic_visit(ast.copy_location(ast.Call(function, [values], []), node))
        return self.generic_visit(node)


class Returns(ast.NodeTransformer):
    """Turns `return x` into the task's way to give a result.

    In a loop over rows, that is an append and a `continue`; in a function per row, it stays a return. A value that may
    be an object of state is copied: later rows may change the object before the results of a batch are read.
    """

    def __init__(
        self, *, append: str, reply: str, per_row: bool, copied: frozenset[tuple[int, int]], copy: str
    ) -> None:
        self._copied = copied
        self._copy = copy
        self._append = append
        self._reply = reply
        self._per_row = per_row

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        """Replace one return."""
        value = node.value or ast.copy_location(ast.Constant(None), node)
        if (node.lineno, node.col_offset) in self._copied:
            value = called(self._copy, value)
        if self._reply:
            value = called(self._reply, value)
        return give(value, node, append=self._append, per_row=self._per_row)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Leave a nested function's own returns alone."""
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """Leave lambdas alone."""
        return node


_AS_IT_IS = "as_it_is"


def as_it_is(name: str) -> ast.Name:
    """A variable that is put aside, though it may have no value."""
    node = ast.Name(name, ast.Load())
    setattr(node, _AS_IT_IS, True)
    return node


class Loose(ast.NodeTransformer):
    """Lets variables that may have no value say so where they are read, as Python would."""

    def __init__(self, names: frozenset[str], made: Mapping[str, str]) -> None:
        self._names = names
        self._made = made

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Check a variable that is read."""
        if node.id not in self._names or not isinstance(node.ctx, ast.Load) or hasattr(node, _AS_IT_IS):
            return node
        text = ast.copy_location(ast.Constant(node.id), node)
        check = ast.copy_location(ast.Name(self._made["bound"], ast.Load()), node)
        return ast.copy_location(ast.Call(check, [node, text], []), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.stmt]:
        """Check a variable that is changed."""
        if not isinstance(node.target, ast.Name) or node.target.id not in self._names:
            return self.generic_visit(node)
        node.value = self.visit(node.value)
        return [self._checked(node.target), node]

    def visit_Delete(self, node: ast.Delete) -> ast.AST | list[ast.stmt]:
        """Take a variable its value."""
        gone = [target for target in node.targets if isinstance(target, ast.Name) and target.id in self._names]
        if not gone:
            return self.generic_visit(node)
        out: list[ast.stmt] = []
        for target in node.targets:
            if target in gone and isinstance(target, ast.Name):
                marked = ast.copy_location(ast.Name(self._made["UNBOUND"], ast.Load()), target)
                name = ast.copy_location(ast.Name(target.id, ast.Store()), target)
                out += [self._checked(target), ast.copy_location(ast.Assign([name], marked), target)]
            else:
                out.append(ast.copy_location(ast.Delete([self.visit(target)]), target))
        return out

    def _checked(self, target: ast.Name) -> ast.stmt:
        read = self.visit_Name(ast.copy_location(ast.Name(target.id, ast.Load()), target))
        assert isinstance(read, ast.expr)
        name = ast.copy_location(ast.Name(target.id, ast.Store()), target)
        return ast.copy_location(ast.Assign([name], read), target)


def copied_tree(node: ast.AST) -> Any:
    """A copy of a tree, marks and places included; what it holds besides nodes is shared."""
    new = type(node).__new__(type(node))
    for name, part in vars(node).items():
        if isinstance(part, ast.AST):
            part = copied_tree(part)  # noqa: PLW2901
        elif isinstance(part, list):
            part = [copied_tree(one) if isinstance(one, ast.AST) else one for one in part]  # noqa: PLW2901
        setattr(new, name, part)
    return new


def called(function: str, value: ast.expr) -> ast.expr:
    """The call of a function on a value, at the value's place."""
    return ast.copy_location(ast.Call(ast.Name(function, ast.Load()), [value], []), value)


def give(value: ast.expr, at: ast.AST, *, append: str, per_row: bool) -> list[ast.stmt]:
    """The statements that leave a row with its result."""
    if per_row:
        return [ast.copy_location(ast.Return(value), at)]
    call = ast.copy_location(ast.Call(ast.Name(append, ast.Load()), [value], []), at)
    return [ast.copy_location(ast.Expr(call), at), ast.copy_location(ast.Continue(), at)]
