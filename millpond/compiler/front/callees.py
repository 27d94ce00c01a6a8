"""What a method may use of its class besides state: constants, and helpers that touch no state.

Helpers that touch state are written out where they are called (see `inline`), so that none is left here.
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, Final

from millpond.compiler.back.rewrite import Renames, Rewrite
from millpond.compiler.diagnostics import refuse
from millpond.compiler.draft import Method
from millpond.compiler.front.source import parse_function, scope_of
from millpond.program import Element, EntryPoint, ProgramBase
from millpond.program.semantics.ambient import as_written
from millpond.program.semantics.rows import ABORT, abort, with_own_defaults

MakeFunction = Callable[[ast.FunctionDef, Method, Mapping[str, Any]], types.FunctionType]

OURS: Final = frozenset((ProgramBase.__module__, "millpond.front.program"))
"""Where the classes are written that every program has."""


def helper_function(program: type, name: str) -> types.FunctionType | None:
    """The function of a method, static or class method of a class, or None if the name is anything else."""
    member = inspect.getattr_static(program, name, None)
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    function = as_written(member) if isinstance(member, types.FunctionType) else None
    return function if isinstance(function, types.FunctionType) else None


def is_entry(program: type, name: str) -> bool:
    """Whether a name is an entry point."""
    return hasattr(inspect.getattr_static(program, name, None), "__millpond_entry__")


def is_helper(program: type[ProgramBase], name: str) -> bool:
    """Whether a name is a method of the user's own that rows are not fed to."""
    if helper_function(program, name) is None or hasattr(ProgramBase, name) or is_entry(program, name):
        return False
    owner = next(base for base in program.__mro__ if name in vars(base))
    return owner.__module__ not in OURS


def read_helper(program: type, name: str) -> Method:
    """Parse a helper as if it were an entry point without columns."""
    function = helper_function(program, name)
    assert function is not None
    source, tree = parse_function(function, f"{program.__name__}.{name}")
    if isinstance(tree, ast.AsyncFunctionDef):
        raise refuse("MP111", "a helper can't be async", source, tree, expected="def", found="async def")
    if tree.args.posonlyargs and not is_static(program, name):
        # `def f(self, /, x)`: the program is looked for, and taken off, where it mostly stands.
        tree.args.args.insert(0, tree.args.posonlyargs.pop(0))
    if not tree.args.args and not is_static(program, name):
        raise refuse(
            "MP115",
            f"`{name}` has no parameter `self`",
            source,
            tree,
            expected="def name(self, ...), or @staticmethod",
            found="def ()",
        )
    return Method(EntryPoint(name, function, (), None), tree, source, scope_of(function, tree))


def is_static(program: type, name: str) -> bool:
    """Whether a member is a static method."""
    return isinstance(inspect.getattr_static(program, name, None), staticmethod)


def is_class_method(program: type, name: str) -> bool:
    """Whether a member is a class method."""
    return isinstance(inspect.getattr_static(program, name, None), classmethod)


class Callees:
    """Makes the global values that stand for `self.NAME` in generated code; a helper is made once."""

    def __init__(self, program: type, elements: Mapping[str, Element], make: MakeFunction) -> None:
        self._program = program
        self._elements = elements
        self._make = make
        self._made: dict[str, Any] = {}

    def value(self, name: str) -> Any:
        """The constant, or the compiled helper."""
        if name == ABORT:
            return abort
        if name not in self._made:
            function = helper_function(self._program, name)
            if function is None:
                self._made[name] = getattr(self._program, name)
            else:
                self._made[name] = self._helper(name, function)
        return self._made[name]

    def _helper(self, name: str, function: types.FunctionType) -> types.FunctionType:
        method = read_helper(self._program, name)
        tree = method.tree
        self_name = "" if is_static(self._program, name) else method.self_name
        if self_name:
            tree.args.args.pop(0)
        _strip(tree)
        own = _own_names(tree, self_name)
        renames = {attribute: f"{attribute}__{number}" for number, attribute in enumerate(own)}
        written = Rewrite(Renames(self_name, renames), method.scope).visit(tree)
        # Helpers may call each other in a circle, so each is known before what it calls is made.
        made = self._make(written, method, dict.fromkeys(renames.values()))
        made.__defaults__ = function.__defaults__
        made.__kwdefaults__ = function.__kwdefaults__
        called = self._made[name] = with_own_defaults(made)
        for attribute, renamed in renames.items():
            made.__globals__[renamed] = self.value(attribute)
        return called


def _own_names(tree: ast.AST, self_name: str) -> list[str]:
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return list(dict.fromkeys(n.attr for n in nodes if isinstance(n.value, ast.Name) and n.value.id == self_name))


def _strip(tree: ast.FunctionDef) -> None:
    """Remove what was evaluated when the helper was defined: decorators, hints and defaults."""
    tree.decorator_list = []
    tree.returns = None
    tree.args.defaults = []
    tree.args.kw_defaults = [None] * len(tree.args.kwonlyargs)
    for argument in ast.walk(tree.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
