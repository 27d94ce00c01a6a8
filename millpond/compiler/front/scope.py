"""Names: what a method's names mean outside it, and which names a piece of syntax reads and binds."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

MISSING: Final = object()
"""Says that a name has no value where it was looked for; None may be one."""

_SCOPED = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.Lambda)


_INNER: Final = "bound_inside"
"""Marks a name that a comprehension or function within a method binds for itself, whatever it means outside."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What the free names of a function stand for: its closure, its module, the builtins."""

    module: Mapping[str, Any]
    closure: Mapping[str, Any]
    locals: frozenset[str]

    @classmethod
    def of(cls, function: Callable[..., Any], local_names: Iterable[str]) -> Scope:
        """The scope of a function object; an empty cell of its closure counts as missing."""
        assert isinstance(function, types.FunctionType)
        closure = {}
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                closure[name] = cell.cell_contents
            except ValueError:
                continue
        return cls(function.__globals__, closure, frozenset(local_names))

    def lookup(self, name: str) -> Any:
        """The object behind a free name, or MISSING for a local or unknown one."""
        if name in self.locals:
            return MISSING
        for where in (self.closure, self.module, vars(builtins)):
            if name in where:
                return where[name]
        return MISSING

    def resolve(self, node: ast.AST) -> Any:
        """The object behind `name` or `module.name`, or MISSING; instances are not looked into."""
        if isinstance(node, ast.Name):
            return MISSING if hasattr(node, _INNER) else self.lookup(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.resolve(node.value)
            if isinstance(owner, types.ModuleType | type):
                return getattr(owner, node.attr, MISSING)
        return MISSING


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a piece of syntax reads, binds and unbinds, in the method's own scope."""

    reads: frozenset[str]
    binds: frozenset[str]
    unbinds: frozenset[str]

    @classmethod
    def of(cls, *nodes: ast.AST | None) -> Names:
        """The names of some nodes taken together."""
        finder = _Finder()
        for node in nodes:
            if node is not None:
                finder.visit(node)
        return cls(frozenset(finder.reads), frozenset(finder.binds), frozenset(finder.unbinds))


class _Finder(ast.NodeVisitor):
    def __init__(self) -> None:
        self.reads: set[str] = set()
        self.binds: set[str] = set()
        self.unbinds: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.binds.add(node.id)
            return
        # Unbinding needs a value, as reading does.
        self.reads.add(node.id)
        if isinstance(node.ctx, ast.Del):
            self.unbinds.add(node.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.reads.add(node.target.id)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self.binds.add(node.name)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self.binds.add(node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.binds.add(node.rest)
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.binds.add(node.name)
        self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, _SCOPED):
            self._visit_scoped(node, {n for g in node.generators for n in Names.of(g.target).binds})
        elif isinstance(node, _FUNCTIONS):
            arguments = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
            body = node.body if isinstance(node.body, list) else [node.body]
            own = arguments | set(Names.of(*body).binds)
            self._visit_scoped(node, own)
            if isinstance(node, ast.FunctionDef):
                self.binds.add(node.name)
        else:
            super().generic_visit(node)

    def _visit_scoped(self, node: ast.AST, own: set[str]) -> None:
        inner = _Finder()
        for child in ast.iter_child_nodes(node):
            inner.visit(child)
        self.reads |= inner.reads - own
        # A walrus inside a comprehension binds in the method; the comprehension's own targets do not.
        if isinstance(node, _SCOPED):
            self.binds |= inner.binds - own


def mark_inner(tree: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Mark the names of a method that scopes within it bind, so that nobody takes them for the method's or module's."""
    for statement in tree.body:
        _mark(statement, frozenset())


def _mark(node: ast.AST, inner: frozenset[str]) -> None:
    match node:
        case ast.Name(id=name):
            if name in inner:
                setattr(node, _INNER, True)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            first = node.generators[0].iter
            own = inner | {name for part in node.generators for name in Names.of(part.target).binds}
            _mark(first, inner)
            for child in ast.iter_child_nodes(node):
                for part in ast.iter_child_nodes(child) if isinstance(child, ast.comprehension) else (child,):
                    if part is not first:
                        _mark(part, own)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else [*node.body]
            given = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
            parts = [part for one in body for part in ast.walk(one)]
            shared = {name for part in parts if isinstance(part, ast.Global | ast.Nonlocal) for name in part.names}
            own = inner | given | (Names.of(*body).binds - shared)
            for child in ast.iter_child_nodes(node):
                _mark(child, own if any(child is part for part in body) else inner)
        case _:
            for child in ast.iter_child_nodes(node):
                _mark(child, inner)


def outer_names(node: ast.stmt, inside: bool = False) -> Iterator[str]:
    """Names that a statement says are of the module, or of a function around that which it stands in."""
    if isinstance(node, ast.Global) or (isinstance(node, ast.Nonlocal) and not inside):
        yield from node.names
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from outer_names(child, inside or isinstance(node, ast.FunctionDef))  # type: ignore[arg-type]


def bound_by(node: ast.AST) -> Iterator[str]:
    """The name that a node by itself gives a value to, or takes one from."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name) | ast.FunctionDef(name=name):
            yield name
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
        case ast.ExceptHandler(name=str(name)):
            yield name


def arguments_of(arguments: ast.arguments) -> Iterator[ast.arg]:
    """All parameters of a function."""
    return (one for one in ast.walk(arguments) if isinstance(one, ast.arg))
