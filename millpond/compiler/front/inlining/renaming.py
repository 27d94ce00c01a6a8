"""Other names for the variables of a function: scopes inside it keep their own."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from millpond.compiler.front.scope import Names

_Scoped = TypeVar("_Scoped", ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Renaming(ast.NodeTransformer):
    """Gives every name that belongs to a function, or to what is around it, the name that `rename` wants for it.

    `rename` gets the name and the node that bears it. Names in `values` are replaced by constants. Hints are taken off:
    inside a function they mean nothing.
    """

    def __init__(self, rename: Callable[[str, ast.AST], str], values: Mapping[str, ast.expr]) -> None:
        self._rename = rename
        self._values = values
        self._hidden: list[frozenset[str]] = []

    def _new(self, name: str, node: ast.AST) -> str:
        return name if self._is_hidden(name) else self._rename(name, node)

    def _is_hidden(self, name: str) -> bool:
        return any(name in names for names in self._hidden)

    @contextmanager
    def _hiding(self, names: frozenset[str]) -> Iterator[None]:
        self._hidden.append(names)
        yield
        self._hidden.pop()

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Rename a variable, or write its value."""
        value = self._values.get(node.id)
        if value is not None and not self._is_hidden(node.id):
            return _moved(value, node)
        node.id = self._new(node.id, node)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        """Rename the variable of a handler."""
        node.name = node.name and self._new(node.name, node)
        return self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> ast.AST:
        """Rename what a pattern captures."""
        node.name = node.name and self._new(node.name, node)
        return self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> ast.AST:
        """Rename what a pattern captures."""
        node.name = node.name and self._new(node.name, node)
        return node

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        """Rename what a pattern captures."""
        node.rest = node.rest and self._new(node.rest, node)
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Take the hint off an assignment."""
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        target, value = self.visit(node.target), self.visit(node.value)
        return ast.copy_location(ast.Assign([target], value), node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """Rename in a lambda what is not its own."""
        self._defaults(node.args)
        with self._hiding(_arguments(node.args)):
            node.body = self.visit(node.body)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Rename in a function what is not its own, and the function itself."""
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        self._defaults(node.args)
        node.name = self._new(node.name, node)
        node.returns = None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        with self._hiding(_arguments(node.args) | Names.of(*node.body).binds):
            node.body = [self.visit(statement) for statement in node.body]
        return node

    def _defaults(self, arguments: ast.arguments) -> None:
        arguments.defaults = [self.visit(default) for default in arguments.defaults]
        arguments.kw_defaults = [default and self.visit(default) for default in arguments.kw_defaults]

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        """Rename in a comprehension what is not its own."""
        return self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        """Rename in a comprehension what is not its own."""
        return self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        """Rename in a comprehension what is not its own."""
        return self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        """Rename in a generator what is not its own."""
        return self._comprehension(node)

    def _comprehension(self, node: _Scoped) -> ast.AST:
        # The first iterable is evaluated outside; it is put aside so that it is renamed once.
        first = node.generators[0]
        walked, first.iter = self.visit(first.iter), ast.Constant(None)
        with self._hiding(comprehension_names(node)):
            self.generic_visit(node)
        first.iter = walked
        return node


def comprehension_names(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> frozenset[str]:
    """The names that a comprehension has for itself."""
    return frozenset(name for generator in node.generators for name in Names.of(generator.target).binds)


def _moved(value: ast.expr, at: ast.AST) -> ast.expr:
    moved = copy.deepcopy(value)
    for part in ast.walk(moved):
        ast.copy_location(part, at)
    return moved


def _arguments(arguments: ast.arguments) -> frozenset[str]:
    return frozenset(node.arg for node in ast.walk(arguments) if isinstance(node, ast.arg))
