"""The forms that a program's text is made of: kinds of statements, expressions and calls."""

from __future__ import annotations

import ast
import builtins

UNIMPORTANT = (ast.expr_context, ast.Module, ast.ImportFrom, ast.Import, ast.alias, ast.arguments, ast.arg, ast.keyword)


def shapes(text: str) -> set[str]:
    """What the methods of a program's text show."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    parts = [part for method in functions if _is_entry(method) for part in method.body]
    # How a program calls its own methods is its own affair.
    return {shape for part in parts for node in ast.walk(part) for shape in _of(node)} - {
        f".{one.name}()" for one in functions
    }


def _is_entry(node: ast.FunctionDef) -> bool:
    return any(isinstance(one, ast.Name | ast.Call) and "entry" in ast.unparse(one) for one in node.decorator_list)


def _of(node: ast.AST) -> list[str]:
    if isinstance(node, UNIMPORTANT):
        return []
    found = [type(node).__name__]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        found.append(f".{node.func.attr}()")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and hasattr(builtins, node.func.id):
        found.append(f"{node.func.id}()")
    if isinstance(node, ast.For | ast.While) and node.orelse:
        found.append("else of a loop")
    if isinstance(node, ast.Assign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        found += [f"{type(node).__name__} to {type(target).__name__}" for target in targets]
    return found
