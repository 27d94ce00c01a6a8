"""The source of every entry point as a syntax tree that keeps the user's lines and columns.

Needs: the program class.
Leaves: Method.tree, source and scope; private names are already mangled as Python mangles them. Entry points that run
in sequence are set apart, as Draft.whole.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from millpond.compiler.compiled import Done
from millpond.compiler.diagnostics import refuse
from millpond.compiler.draft import Draft, Method, Source
from millpond.compiler.front.scope import Names, Scope, mark_inner
from millpond.errors import ProgramError
from millpond.program import EntryPoint
from millpond.program.places import signature_place
from millpond.program.semantics.written import changed_file
from millpond.program.timers import handler_point, timer_elements

NOTHING_TOLD: Final = "nothing_told"
"""What a handler returns, by a name that begins so, if no window of its key is over: no reply at all."""


def read_sources(draft: Draft) -> Draft:
    """Parse all entry points."""
    changed = changed_file(draft.program)
    if changed is not None:
        raise ProgramError(
            "MP110",
            f"a file of {draft.program.__name__} was changed after the class was imported",
            expected="the text that the class was made of",
            found=f"{changed} as it is now",
            hint="restart Python, or reload the module: what is compiled must be what runs as plain Python",
        )
    points = draft.program.entries().values()
    if not points:
        raise ProgramError(
            "MP109",
            f"{draft.program.__name__} has no entry point",
            expected="at least one method marked @entry",
            found="none",
            hint="put @entry above the methods that rows are fed to",
        )
    for name in timer_elements(draft.program):
        handler_point(draft.program, name)
    methods = [_read(draft.program, point) for point in points]
    return replace(
        draft,
        methods=tuple(method for method in methods if method.name not in draft.sequence),
        whole=tuple(method for method in methods if method.name in draft.sequence),
    )


def _read(program: type, point: EntryPoint) -> Method:
    function = point.function
    where = f"{program.__name__}.{point.name}"
    if not isinstance(function, types.FunctionType) or hasattr(function, "__wrapped__"):
        raise ProgramError(
            "MP118",
            f"{where} is not a plain method",
            places=signature_place(function),
            expected="a method with no decorator but @entry",
            found=f"what another decorator made of it, a {type(function).__name__}",
            hint="call what the decorator does from the method's body",
        )
    source, tree = parse_function(function, where)
    if isinstance(tree, ast.AsyncFunctionDef):
        raise refuse("MP111", "an entry point can't be async", source, tree, expected="def", found="async def")
    if len(tree.decorator_list) != 1:
        raise refuse(
            "MP118",
            "an entry point has another decorator",
            source,
            # A decorator may have put another function in its place, which has none.
            (*tree.decorator_list, tree)[0],
            expected="@entry alone",
            hint="call what the decorator does from the method's body",
        )
    if point.yields:
        _give_all(tree, source)
    scope = scope_of(function, tree)
    if point.timer:
        scope = _tell_windows(tree, point, scope) if point.windows else _take_timer_away(tree, point, scope)
    return Method(point, tree, source, scope, program)


def _give_all(tree: ast.FunctionDef, source: Source) -> None:
    """Let a method that yields its replies gather and return them: it runs at the call."""
    taken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    replies = next(name for name in (f"replies__{n}" for n in itertools.count()) if name not in taken)
    _Gather(replies, source).visit(tree)
    _begin_with(tree, ast.Assign([ast.Name(replies, ast.Store())], ast.List([], ast.Load())))
    last = ast.copy_location(ast.Return(ast.Name(replies, ast.Load())), tree.body[-1])
    tree.body.append(ast.fix_missing_locations(last))


class _Gather(ast.NodeTransformer):
    """Makes `yield x` an addition to a list, and every return one of that list."""

    def __init__(self, replies: str, source: Source) -> None:
        self._replies = replies
        self._source = source
        self._outside = True

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        match node.value:
            case ast.Yield(value=value):
                return self._added(node, "append", value or ast.Constant(None))
            case ast.YieldFrom(value=value):
                return self._added(node, "extend", value)
        return self.generic_visit(node)

    def _added(self, node: ast.Expr, how: str, value: ast.expr) -> ast.AST:
        method = ast.Attribute(ast.Name(self._replies, ast.Load()), how, ast.Load())
        made = ast.Expr(ast.Call(method, [self.visit(value)], []))
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if node.value is not None:
            raise refuse(
                "MP111",
                "an entry point that yields its replies returns nothing else",
                self._source,
                node,
                expected="return, or yield before it",
            )
        node.value = ast.Name(self._replies, ast.Load())
        return ast.fix_missing_locations(ast.copy_location(node, node))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if not self._outside:
            return node
        self._outside = False
        return self.generic_visit(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node


def _take_timer_away(tree: ast.FunctionDef, point: EntryPoint, scope: Scope) -> Scope:
    """Let a handler begin by taking away the timer that called it, as a plain run does right before the call."""
    _begin_with(tree, ast.Expr(_fired(tree, point)))
    return scope


def _tell_windows(tree: ast.FunctionDef, point: EntryPoint, scope: Scope) -> Scope:
    """Let a handler begin by taking out the windows that are over; if there are none, it does nothing."""
    *_, told = (*tree.args.posonlyargs, *tree.args.args)
    closed = told.arg
    told.arg = point.parameters[1][0]
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {*scope.locals, *scope.module}
    nothing = next(name for name in (f"{NOTHING_TOLD}__{n}" for n in itertools.count()) if name not in names)
    end = ast.If(ast.UnaryOp(ast.Not(), ast.Name(closed, ast.Load())), [ast.Return(ast.Name(nothing, ast.Load()))], [])
    _begin_with(tree, ast.Assign([ast.Name(closed, ast.Store())], _fired(tree, point)), end)
    return replace(scope, closure={**scope.closure, nothing: Done}, locals=scope.locals | {told.arg})


def _fired(tree: ast.FunctionDef, point: EntryPoint) -> ast.Call:
    program, key, at = (ast.Name(argument.arg, ast.Load()) for argument in (*tree.args.posonlyargs, *tree.args.args))
    timers = ast.Attribute(program, point.name, ast.Load())
    return ast.Call(ast.Attribute(timers, "fired", ast.Load()), [key, at], [])


def _begin_with(tree: ast.FunctionDef, *statements: ast.stmt) -> None:
    first = int(ast.get_docstring(tree, clean=False) is not None)
    tree.body[first:first] = [ast.fix_missing_locations(ast.copy_location(one, tree)) for one in statements]


def scope_of(function: Callable[..., Any], tree: ast.FunctionDef) -> Scope:
    """What the free names of a parsed function stand for."""
    arguments = {node.arg for node in ast.walk(tree.args) if isinstance(node, ast.arg)}
    names = Names.of(*tree.body)
    return Scope.of(function, arguments | names.binds | names.unbinds)


def parse_function(function: types.FunctionType, where: str) -> tuple[Source, ast.FunctionDef | ast.AsyncFunctionDef]:
    """Parse a method's source, with the lines and columns of its file."""
    source, tree = _parse(function, where)
    if not isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef):
        raise ProgramError("MP110", f"the source of {where} is not a def", expected="def", found=ast.unparse(tree)[:60])
    owner = function.__qualname__.split(".")[-2] if "." in function.__qualname__ else ""
    _Mangle(owner).visit(tree)
    mark_inner(tree)
    return source, tree


def parse_lambda(function: types.FunctionType, where: str) -> tuple[Source, ast.FunctionDef]:
    """Parse a lambda of a module as a function that returns its body, if it is the only one of its statement."""
    source, tree = _parse(function, where)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
    if len(found) != 1:
        # Which of several it is can't be told.
        raise OSError(where)
    (written,) = found
    result = ast.copy_location(ast.Return(written.body), written.body)
    whole = ast.FunctionDef(name="lambda_", args=written.args, body=[result], decorator_list=[])
    ast.copy_location(whole, written)
    mark_inner(whole)
    return source, whole


def _parse(function: types.FunctionType, where: str) -> tuple[Source, ast.stmt]:
    """Parse the statement that a function is written in."""
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        raise ProgramError(
            "MP110",
            f"the source of {where} can't be read",
            expected="a class written in a file or a notebook cell",
            found=str(error),
            hint="put the program into a module; what exec() or a bare prompt defines has no source",
        ) from None
    # A method is indented; under `if 1:` it parses as it stands, so that no column moves and no string changes.
    indented = lines[0][:1].isspace()
    try:
        module = ast.parse(("if 1:\n" if indented else "") + "".join(lines))
    except SyntaxError as error:
        raise ProgramError(
            "MP110", f"the source of {where} can't be parsed", expected="one whole method", found=str(error)
        ) from None
    ast.increment_lineno(module, first - 1 - indented)
    outer = module.body[0]
    tree = outer.body[0] if isinstance(outer, ast.If) else outer
    return Source(inspect.getfile(function), first, tuple(line.rstrip("\n") for line in lines)), tree


class _Mangle(ast.NodeTransformer):
    """Gives `__private` names the form that Python gives them inside a class."""

    def __init__(self, owner: str) -> None:
        self._prefix = f"_{owner.lstrip('_')}" if owner.strip("_") else ""

    def _mangle(self, name: str) -> str:
        private = name.startswith("__") and not name.endswith("__")
        return self._prefix + name if private else name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._mangle(node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        self.generic_visit(node)
        node.attr = self._mangle(node.attr)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self._mangle(node.arg)
        return node
