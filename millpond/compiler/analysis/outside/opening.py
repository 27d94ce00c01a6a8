"""Functions that the look at changes of outside goes into: of the program's own package, and its helpers."""

from __future__ import annotations

import ast
import types
from typing import Any

from millpond.compiler.analysis.outside.things import bare
from millpond.compiler.draft import Source
from millpond.compiler.front.callees import is_static, read_helper
from millpond.compiler.front.scope import Scope
from millpond.compiler.front.source import parse_function, parse_lambda, scope_of
from millpond.errors import ProgramError
from millpond.program import ProgramBase


def is_home(module: str, program: type) -> bool:
    """Return whether a module is of the program's own package."""
    return module.partition(".")[0] == program.__module__.partition(".")[0]


def is_own_class(meaning: Any, program: type) -> bool:
    """Return whether it is a class of the program's own package that values may be of."""
    home = isinstance(meaning, type) and is_home(meaning.__module__, program)
    return home and not issubclass(meaning, ProgramBase)


def own_function(meaning: Any, program: type) -> Any:
    """Return the function that can be looked into: of the program's own package, or a helper; None if there is none."""
    if isinstance(meaning, ast.Attribute):
        return meaning
    function = getattr(meaning, "__func__", meaning)
    while isinstance(function, types.FunctionType) and hasattr(function, "__wrapped__"):
        if is_home(str(function.__globals__.get("__name__")), program):
            return bare(function)
        function = function.__wrapped__
    if isinstance(function, types.FunctionType) and is_home(function.__module__, program):
        return function
    return None


def opened_function(function: Any, program: Any) -> tuple[ast.FunctionDef, Scope, Source, str] | None:
    """Return the tree of a function, what its names stand for, where it is written, and what it calls the program.

    None stands for one that can't be read, and so can't be looked into.
    """
    try:
        if isinstance(function, ast.Attribute):
            helper = read_helper(program, function.attr)
            return helper.tree, helper.scope, helper.source, helper.self_name * (not is_static(program, function.attr))
        parse = parse_lambda if function.__name__ == "<lambda>" else parse_function
        source, tree = parse(function, function.__qualname__)
    except (ProgramError, OSError, TypeError):
        return None
    return None if isinstance(tree, ast.AsyncFunctionDef) else (tree, scope_of(function, tree), source, "")
