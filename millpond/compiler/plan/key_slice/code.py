"""Small pieces of syntax, found or made, for the slices that note keys."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from millpond.compiler.front.scope import Names
from millpond.compiler.plan.key_slice.notes import Env

Code = list[ast.stmt]
"""Statements of a slice."""

After = Env | None
"""What is unknown after some statements; None if no run comes out of them."""


def is_of_names(target: ast.AST) -> bool:
    """Whether an assignment target is names and nothing else."""
    match target:
        case ast.Name():
            return True
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return all(map(is_of_names, parts))
        case ast.Starred(value=inner):
            return is_of_names(inner)
    return False


def stored(target: ast.AST) -> list[str]:
    """The names that a target binds."""
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)]


def named(node: ast.AST) -> list[str]:
    """The names that a piece of syntax binds by `:=`."""
    return [part.target.id for part in ast.walk(node) if isinstance(part, ast.NamedExpr)]


def bound_in(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The names of the method that some syntax binds or unbinds."""
    names = Names.of(*nodes)
    return names.binds | names.unbinds


def joined(*ways: After) -> After:
    """What is unknown where several ways meet."""
    going = [way for way in ways if way is not None]
    return {name: taint for way in going for name, taint in way.items()} if going else None


def expressions(notes: Iterable[ast.expr]) -> Code:
    """Expressions as statements."""
    return [ast.Expr(note) for note in notes]


def assigned(name: str, value: ast.expr) -> ast.stmt:
    """An assignment to a variable."""
    return ast.Assign([ast.Name(name, ast.Store())], value)


def raised(leave: str) -> ast.stmt:
    """The end of a part that may not be run."""
    return ast.Raise(ast.Name(leave, ast.Load()), None)


def caught(code: Code, anything: str) -> ast.stmt:
    """Statements that may raise in peace."""
    return ast.Try(code, [ast.ExceptHandler(ast.Name(anything, ast.Load()), None, [ast.Pass()])], [], [])
