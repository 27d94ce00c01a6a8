"""Classes that are run beside programs, such as loops over keys: what their methods do must be the same every time."""

from __future__ import annotations

import ast
import types

from millpond.compiler.draft import Source
from millpond.compiler.front.meanings import Meanings
from millpond.compiler.front.restrict import check_determined
from millpond.compiler.front.scope import Scope
from millpond.compiler.front.source import parse_function, scope_of


def check_methods(kind: type, base: type) -> None:
    """Refuse a class derived from `base` if a method of its own would give another result when it is run again."""
    for owner in kind.__mro__[: kind.__mro__.index(base)]:
        for name, member in vars(owner).items():
            function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
            function = function.fget if isinstance(function, property) else function
            if isinstance(function, types.FunctionType) and function.__module__ == owner.__module__:
                _check(function, f"{owner.__name__}.{name}")


def _check(function: types.FunctionType, where: str) -> None:
    source, tree = parse_function(function, where)
    assert isinstance(tree, ast.FunctionDef), where
    scope = scope_of(function, tree)
    checked = _Checked(source, scope, Meanings(tree, scope))
    for part in (tree.args, *tree.body):
        checked.visit(part)


class _Checked(ast.NodeVisitor):
    """Looks at every expression of a method but annotations, of which no value is needed."""

    def __init__(self, source: Source, scope: Scope, meanings: Meanings) -> None:
        self._source, self._scope, self._meanings = source, scope, meanings

    def visit_arg(self, node: ast.arg) -> None:
        """Leave the annotation of a parameter as it is."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Look at what is assigned."""
        if node.value is not None:
            self.visit(node.value)

    def generic_visit(self, node: ast.AST) -> None:
        """Look at an expression, then at those in it."""
        if isinstance(node, ast.Name | ast.Attribute | ast.Call):
            check_determined(node, self._source, self._scope, self._meanings)
        super().generic_visit(node)
