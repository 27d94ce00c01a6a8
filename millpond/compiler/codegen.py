"""The code of every task: a loop over columns around the user's statements, compiled at the user's own lines.

Needs: Method.pieces, Method.body.
Leaves: Draft.compiled: tasks with functions that can be shipped by value, and the graph.
"""

from __future__ import annotations

import ast
import builtins
import copy
import dis
import types
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from millpond.compiler.assemble import assemble
from millpond.compiler.callees import Callees
from millpond.compiler.compiled import Reply, TaskFunction
from millpond.compiler.diagnostics import refuse
from millpond.compiler.dispatch import locals_of
from millpond.compiler.draft import UNBOUND, Definition, Draft, Kind, Method, Piece
from millpond.compiler.hoist import FreshNames
from millpond.compiler.mutability import is_frozen
from millpond.compiler.rewrite import Renames, Returns, Rewrite, called, give
from millpond.compiler.scope import MISSING
from millpond.compiler.sharing import Sharing

ROWS = "_rows"


def generate(draft: Draft) -> Draft:
    """Generate the code of all tasks and put the compiled program together."""
    callees = Callees(draft.program, draft.elements, make_function)
    functions: dict[str, TaskFunction] = {}
    for method in draft.methods:
        for number, piece in enumerate(method.pieces):
            written = _Writer(draft, method, piece, callees).function(f"{method.name}_{number}")
            functions[piece.name] = written
    return replace(draft, compiled=assemble(draft, functions))


def task_tree(draft: Draft, method: Method, piece: Piece, number: int) -> ast.FunctionDef:
    """The generated function of a task as a syntax tree, for showing."""
    callees = Callees(draft.program, draft.elements, make_function)
    return _Writer(draft, method, piece, callees).tree(f"{method.name}_{number}")


class _Writer:
    def __init__(self, draft: Draft, method: Method, piece: Piece, callees: Callees) -> None:
        self._draft = draft
        self._method = method
        self._piece = piece
        self._callees = callees
        self._used = {
            node.id for statement in method.body for node in ast.walk(statement) if isinstance(node, ast.Name)
        } | set(method.parameters)
        self._fresh = FreshNames(self._used)
        self._statements = [copy.deepcopy(statement) for statement in method.body[piece.start : piece.end]]
        own = _own_names(self._statements, method.self_name)
        self._renames = {name: self._name(name) for name in own}
        self._out, self._append, self._row = self._name("out"), self._name("append"), self._name("row")
        self._zip = "zip" if method.scope.lookup("zip") is zip else self._name("zip")
        self._reply = "" if piece.last else self._name("Reply")
        self._copy = self._name("deepcopy")

    def _name(self, wanted: str) -> str:
        """The wanted name, or one like it if the method uses it."""
        if wanted in self._used:
            return self._fresh.fresh(wanted)
        self._used.add(wanted)
        return wanted

    def function(self, name: str) -> TaskFunction:
        """Compile the task."""
        given: dict[str, Any] = {} if self._zip == "zip" else {self._zip: zip}
        for own, renamed in self._renames.items():
            if own not in self._draft.elements:
                given[renamed] = self._callees.value(own)
        if self._reply:
            given[self._reply] = Reply
        given[self._copy] = copy.deepcopy
        return make_function(self.tree(name), self._method, given)

    def tree(self, name: str) -> ast.FunctionDef:
        """Write the task."""
        per_row = self._needs_function()
        body = self._body(per_row=per_row)
        columns = list(self._piece.inputs) or [ROWS]
        loop = self._loop(columns, body, per_row=per_row)
        containers = [self._renames[access.state] for access in self._piece.accesses]
        definition = _define(name, [self._out, *containers, *columns], loop)
        at = self._method.tree
        for node in ast.walk(definition):
            if not hasattr(node, "lineno") and isinstance(node, ast.stmt | ast.expr | ast.arg):
                ast.copy_location(node, at)
                node.end_lineno, node.end_col_offset = at.lineno, at.col_offset + 3
        return definition

    def _loop(self, columns: list[str], body: list[ast.stmt], *, per_row: bool) -> list[ast.stmt]:
        appending = ast.Assign(
            [ast.Name(self._append, ast.Store())], ast.Attribute(ast.Name(self._out, ast.Load()), "append", ast.Load())
        )
        targets: list[ast.expr] = [ast.Name(column, ast.Store()) for column in columns]
        sources: list[ast.expr] = [ast.Name(column, ast.Load()) for column in columns]
        statements: list[ast.stmt] = [appending]
        if per_row:
            statements.append(_define(self._row, columns, body))
            result = ast.Call(ast.Name(self._row, ast.Load()), list(sources), [])
            body = [ast.Expr(ast.Call(ast.Name(self._append, ast.Load()), [result], []))]
        one = len(columns) == 1
        zipped = ast.Call(ast.Name(self._zip, ast.Load()), sources, [])
        target = targets[0] if one else ast.Tuple(targets, ast.Store())
        statements.append(ast.For(target, sources[0] if one else zipped, body, []))
        return statements

    def _body(self, *, per_row: bool) -> list[ast.stmt]:
        maps = frozenset(name for name, element in self._draft.elements.items() if element.type.is_dict)
        rewrite = Rewrite(Renames(self._method.self_name, self._renames, maps), self._method.scope)
        copied = Sharing(self._method, self._method.body, self._draft.elements).returned()
        returns = Returns(append=self._append, reply=self._reply, per_row=per_row, copied=copied, copy=self._copy)
        body: list[ast.stmt] = []
        for statement in self._statements:
            if self._answers_with_state() and isinstance(statement, ast.Assign):
                statement.value = called(self._copy, statement.value)
            rewritten = rewrite.visit(statement)
            for one in rewritten if isinstance(rewritten, list) else [rewritten]:
                written = returns.visit(one)
                body += written if isinstance(written, list) else [written]
        if not self._statements or not isinstance(self._statements[-1], ast.Return | ast.Raise):
            outputs: list[ast.expr] = [ast.Name(name, ast.Load()) for name in self._piece.outputs]
            result = ast.Constant(None) if self._piece.last else ast.Tuple(outputs, ast.Load())
            last = body[-1] if body else self._method.tree
            body += give(
                ast.fix_missing_locations(ast.copy_location(result, last)), last, append=self._append, per_row=per_row
            )
        if isinstance(body[-1], ast.Continue):
            body.pop()
        return body

    def _answers_with_state(self) -> bool:
        """Whether the task asks every instance for a value that could be changed after it was read."""
        asked = (stop for stop in self._method.stops if stop.kind is Kind.EACH and stop.top == self._piece.start)
        elements = self._draft.elements
        return any(
            elements[use.access.state].type.operations[use.site.operations[-1]].shares
            and not is_frozen(elements[use.access.state].type.value_hint)
            for stop in asked
            for use in stop.uses
        )

    def _needs_function(self) -> bool:
        """Whether rows need a function of their own: a return out of a loop or try, or a name that may be unbound."""
        if any(_returns_from_within(statement) for statement in self._statements):
            return True
        reaching = self._method.reaching
        own = locals_of(self._method)
        return any(
            Definition(name, UNBOUND) in before.get(name, ())
            for point, before in zip(reaching.points, reaching.before, strict=True)
            if self._piece.start <= point.top < self._piece.end
            for name in point.reads & own
        )


def make_function(tree: ast.FunctionDef, method: Method, given: Mapping[str, Any]) -> types.FunctionType:
    """Compile a function whose globals are what its code names, no more."""
    module = ast.fix_missing_locations(ast.Module([tree], []))
    code = compile(module, method.source.file, "exec")
    namespace: dict[str, Any] = {"__builtins__": builtins, "__name__": method.scope.module.get("__name__", "millpond")}
    for name in sorted(_global_names(code)):
        if name in given:
            namespace[name] = given[name]
            continue
        value = method.scope.lookup(name)
        if value is MISSING:
            raise refuse(
                "MP121",
                f"`{name}` has no value outside the method",
                method.source,
                _first_use(tree, name),
                expected="a name of the module, of the enclosing function, or a builtin, bound before compiling",
                found=name,
            )
        if vars(builtins).get(name, MISSING) is not value:
            namespace[name] = value
    exec(code, namespace)  # noqa: S102
    function = namespace.pop(tree.name)
    assert isinstance(function, types.FunctionType)
    return function


def _global_names(code: types.CodeType) -> set[str]:
    names = {instruction.argval for instruction in dis.get_instructions(code) if instruction.opname == "LOAD_GLOBAL"}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names


def _first_use(tree: ast.AST, name: str) -> ast.AST:
    return next(node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name)


def _own_names(statements: list[ast.stmt], self_name: str) -> list[str]:
    found = (
        node.attr
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == self_name
    )
    return list(dict.fromkeys(found))


def _define(name: str, parameters: list[str], body: list[ast.stmt]) -> ast.FunctionDef:
    arguments = ast.arguments([], [ast.arg(parameter) for parameter in parameters], None, [], [], None, [])
    tree = ast.FunctionDef(name, arguments, body, [])
    if "type_params" in tree._fields:
        tree.type_params = []  # type: ignore[attr-defined, unused-ignore]
    return tree


def _returns_from_within(statement: ast.stmt) -> bool:
    match statement:
        case ast.For() | ast.While() | ast.With() | ast.Try():
            return any(isinstance(node, ast.Return) for node in _own_nodes(statement))
        case ast.If() | ast.Match():
            return any(_returns_from_within(inner) for inner in _statements_in(statement))
    return False


def _statements_in(statement: ast.If | ast.Match) -> Iterator[ast.stmt]:
    if isinstance(statement, ast.If):
        yield from (*statement.body, *statement.orelse)
    else:
        for case in statement.cases:
            yield from case.body


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield from _own_nodes(child)
