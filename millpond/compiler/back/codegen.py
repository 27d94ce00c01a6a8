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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from millpond.compiler.analysis.mutability import is_frozen, items_of
from millpond.compiler.back.assemble import assemble
from millpond.compiler.back.key_code import ROWS, define, key_tree
from millpond.compiler.back.rewrite import Loose, Renames, Returns, Rewrite, called, copied_tree, give
from millpond.compiler.compiled import (
    ROW_FUNCTION,
    Done,
    KeyCheck,
    KeyFunction,
    Reply,
    TaskFunction,
    Unbound,
    as_now,
    bound,
    fanned,
    same_key,
    send,
)
from millpond.compiler.diagnostics import refuse
from millpond.compiler.draft import UNBOUND, Definition, Dispatch, Draft, Exit, Kind, Method, Mode, Piece, Use
from millpond.compiler.front.callees import Callees
from millpond.compiler.front.scope import MISSING, Names
from millpond.compiler.ir.blocks import blocks_of, follows, straight
from millpond.compiler.ir.hoist import FreshNames
from millpond.compiler.ir.jumps import Branch, Jump
from millpond.compiler.ir.patterns import VIEWS
from millpond.compiler.plan.access import THE_KEY
from millpond.compiler.plan.dispatch import locals_of
from millpond.compiler.plan.sure_keys import is_sure_key
from millpond.state.containers.matrix import Matrix
from millpond.state.copying import copied
from millpond.state.rowentries import end_row


def generate(draft: Draft) -> Draft:
    """Generate the code of all tasks and put the compiled program together."""
    callees = Callees(draft.program, draft.elements, make_function)
    functions: dict[str, TaskFunction] = {}
    for method in draft.methods:
        common = _Common.of(method)
        for number, piece in enumerate(method.pieces):
            written = _Writer(draft, method, piece, callees, common).function(f"{method.name}_{number}")
            functions[piece.name] = written
    finders = {
        method.name: key_finder(draft, method, callees)
        for method in draft.methods
        if method.keys is not None and method.keys.computed
    }
    return replace(draft, compiled=assemble(draft, functions, finders))


def key_finder(draft: Draft, method: Method, callees: Callees) -> KeyFunction:
    """Compile the function that finds the keys of a method's rows."""
    tree, given, renames = key_tree(method, draft.elements)
    for own, renamed in renames.items():
        given[renamed] = callees.value(own)
    return make_function(tree, method, given)


def task_tree(draft: Draft, method: Method, piece: Piece, number: int) -> ast.FunctionDef:
    """The generated function of a task as a syntax tree, for showing."""
    callees = Callees(draft.program, draft.elements, make_function)
    return _Writer(draft, method, piece, callees, _Common.of(method)).tree(f"{method.name}_{number}")


@dataclass(frozen=True, slots=True)
class _Common:
    """What all tasks of a method have in common.

    `mentioned` are the names in each statement of the body, `own` what it takes of the program, `names` what it reads
    and binds; `copied` are the places of returns that give a copy, since what they return may be an object of state.
    """

    locals: frozenset[str]
    mentioned: list[frozenset[str]]
    own: list[list[str]]
    names: list[Names]
    copied: frozenset[tuple[int, int]]
    loose: frozenset[str]

    @classmethod
    def of(cls, method: Method) -> _Common:
        return cls(
            locals_of(method),
            [frozenset(n.id for n in ast.walk(one) if isinstance(n, ast.Name)) for one in method.body],
            [_own_names([one], method.self_name) for one in method.body],
            [Names.of(one) for one in method.body],
            method.values.returned(),
            frozenset[str]().union(*(piece.loose for piece in method.pieces)),
        )


class _Writer:
    def __init__(
        self,
        draft: Draft,
        method: Method,
        piece: Piece,
        callees: Callees,
        common: _Common,
    ) -> None:
        self._draft = draft
        self._method = method
        self._piece = piece
        self._callees = callees
        self._locals = common.locals
        self._used = {*common.locals}.union(*common.mentioned)
        self._fresh = FreshNames(self._used)
        self._statements = {top: copied_tree(method.body[top]) for top in piece.tops}
        own = dict.fromkeys(name for top in piece.tops for name in common.own[top])
        self._renames = {name: self._name(name) for name in own}
        self._out, self._append, self._row = self._name("out"), self._name("append"), self._name(ROW_FUNCTION)
        self._zip = "zip" if method.scope.lookup("zip") is zip else self._name("zip")
        self._reply = "" if piece.last else self._name("Reply")
        self._sends = any(way.fan_out for way in piece.exits)
        self._copied = common.copied
        self._meets_objects = any(
            self._gives_or_takes_objects(use) for stop in method.stops if stop.top in piece.tops for use in stop.uses
        )
        accessed = [access.state for access in piece.accesses if access.state in method.renews]
        self._renewed = [self._renames[state] for state in dict.fromkeys(accessed)]
        made = (
            "deepcopy",
            "as_now",
            "sent",
            "send",
            "fanned",
            "Done",
            "block",
            "UNBOUND",
            "bound",
            "here",
            "same_key",
            "end_row",
            "copied",
        )
        self._names = {name: self._name(name) for name in made}
        touched = frozenset[str]().union(*(common.mentioned[top] for top in piece.tops))
        carried = {name for way in piece.exits for name in method.pieces[way.target].inputs}
        reads = frozenset[str]().union(*(common.names[top].reads for top in piece.tops))
        binds = frozenset[str]().union(*(common.names[top].binds for top in piece.tops))
        # What only a path without a value for it reads here is nothing of the module.
        nowhere = (reads & common.locals) - binds - set(piece.inputs)
        self._loose = common.loose & (touched | carried) | nowhere
        self._maps = frozenset(name for name, element in draft.elements.items() if element.type.is_dict)
        self._stops = {stop.top: stop for stop in method.stops}
        self._checks: dict[str, str] = {}

    def _name(self, wanted: str) -> str:
        """The wanted name, or one like it if the method uses it."""
        if wanted in self._used:
            return self._fresh.fresh(wanted)
        self._used.add(wanted)
        return wanted

    def function(self, name: str) -> TaskFunction:
        """Compile the task."""
        given: dict[str, Any] = {} if self._method.scope.lookup(self._zip) is zip else {self._zip: zip}
        for own, renamed in self._renames.items():
            if own not in self._draft.elements:
                given[renamed] = self._callees.value(own)
        if self._reply:
            given[self._reply] = Reply
        given |= {
            self._names["deepcopy"]: copy.deepcopy,
            self._names["as_now"]: as_now,
            self._names["send"]: send,
            self._names["fanned"]: fanned,
            self._names["Done"]: Done,
            self._names["UNBOUND"]: Unbound.UNBOUND,
            self._names["bound"]: bound,
            self._names["end_row"]: end_row,
            self._names["copied"]: copied,
            self._names["same_key"]: same_key,
        }
        tree = self.tree(name)
        given |= {check: KeyCheck(self._draft.elements[element].type) for element, check in self._checks.items()}
        return make_function(tree, self._method, given)

    def tree(self, name: str) -> ast.FunctionDef:
        """Write the task."""
        order = straight(self._method.body, self._piece)
        per_row = order is None or bool(self._renewed) or self._needs_function()
        body = [
            *self._unbound(),
            *self._own_columns(),
            *(self._jumping() if order is None else self._straight(order, per_row=per_row)),
        ]
        columns = list(self._piece.inputs) or [ROWS]
        loop = self._loop(columns, body, per_row=per_row)
        containers = [self._renames[access.state] for access in self._piece.accesses]
        definition = define(name, [self._out, *containers, *columns], loop)
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
            sent = [self._names["sent"]] if self._sends else []
            statements.append(define(self._row, [*sent, *columns], body))
            arguments: list[ast.expr] = [ast.Name(name, ast.Load()) for name in sent]
            result: ast.expr = ast.Call(ast.Name(self._row, ast.Load()), [*arguments, *sources], [])
            body = []
            if self._sends:
                body.append(ast.Assign([ast.Name(sent[0], ast.Store())], ast.List([], ast.Load())))
                result = ast.Call(ast.Name(self._names["fanned"], ast.Load()), [*arguments, result], [])
            if self._renewed:
                renewed: list[ast.expr] = [ast.Name(name, ast.Load()) for name in self._renewed]
                result = ast.Call(ast.Name(self._names["end_row"], ast.Load()), [result, *renewed], [])
            body.append(ast.Expr(ast.Call(ast.Name(self._append, ast.Load()), [result], [])))
        one = len(columns) == 1
        zipped = ast.Call(ast.Name(self._zip, ast.Load()), sources, [])
        target = targets[0] if one else ast.Tuple(targets, ast.Store())
        statements.append(ast.For(target, sources[0] if one else zipped, body, []))
        return statements

    def _unbound(self) -> list[ast.stmt]:
        """Mark what may have no value when a message is sent, and does not come with one."""
        missing = sorted(self._loose - set(self._piece.inputs))
        return [_assigned(name, ast.Name(self._names["UNBOUND"], ast.Load()), self._method.tree) for name in missing]

    def _own_columns(self) -> list[ast.stmt]:
        """Give a row copies of the columns that it stores: it may be run again with those that came in."""
        names = [name for name in self._method.own if name in self._piece.inputs]
        return [
            _assigned(name, called(self._names["copied"], ast.Name(name, ast.Load())), self._method.tree)
            for name in names
        ]

    # --- statements

    def _written(self, top: int, *, per_row: bool) -> list[ast.stmt]:
        """A statement of the method as a statement of the task."""
        rewrite = Rewrite(Renames(self._method.self_name, self._renames, self._maps), self._method.scope)
        returns = Returns(
            append=self._append,
            reply=self._reply,
            per_row=per_row,
            copied=self._copied,
            copy=self._names["deepcopy"],
        )
        statement = self._statements[top]
        if isinstance(statement, ast.Assign):
            if self._answers_with_view(top):
                # What looks into an instance can't leave it: the entries do, as a list.
                statement.value = _placed(
                    ast.List([ast.Starred(statement.value, ast.Load())], ast.Load()), statement.value
                )
            if self._answers_with_state(top):
                statement.value = called(self._names["deepcopy"], statement.value)
        statements = [statement]
        for change in (Loose(self._loose, self._names), rewrite, returns):
            changed = [change.visit(one) for one in statements]
            statements = [part for one in changed for part in (one if isinstance(one, list) else [one])]
        return statements

    def _straight(self, order: list[int], *, per_row: bool) -> list[ast.stmt]:
        """A piece without branches: its statements one after the other."""
        tops = [top for top in order if not isinstance(self._method.body[top], Jump)]
        body = [statement for top in tops for statement in self._written(top, per_row=per_row)]
        last = self._method.body[tops[-1]] if tops else self._method.tree
        if not isinstance(last, ast.Return | ast.Raise):
            result = self._message(self._piece.exits[0]) if self._piece.exits else self._ending(order)
            body += self._key_check(self._piece.exits[0]) if self._piece.exits else []
            body += give(_placed(result, last), last, append=self._append, per_row=per_row)
        if isinstance(body[-1], ast.Continue):
            body.pop()
        return body

    def _jumping(self) -> list[ast.stmt]:
        """A piece with jumps: blocks of statements, and a loop that goes from block to block."""
        blocks = blocks_of(self._method.body, self._piece)
        numbers = {block[0]: number for number, block in enumerate(blocks)}
        cases: list[ast.stmt] = []
        for number, block in reversed(list(enumerate(blocks))):
            test = ast.Compare(ast.Name(self._names["block"], ast.Load()), [ast.Eq()], [ast.Constant(number)])
            cases = [ast.If(test, self._block(block, numbers), cases)]
        begin = ast.Assign([ast.Name(self._names["block"], ast.Store())], ast.Constant(numbers[self._piece.start]))
        return [*self._position(), begin, ast.While(ast.Constant(True), cases, [])]

    def _position(self) -> list[ast.stmt]:
        """Keep the key that a row is at, where accesses have to be compared with it."""
        if not self._piece.checked or not self._piece.key:
            return []
        parts: list[ast.expr] = [ast.Name(name, ast.Load()) for name in self._piece.key.split(",")]
        key = parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load())
        return [_assigned(self._names["here"], key, self._method.tree)]

    def _block(self, block: list[int], numbers: Mapping[int, int]) -> list[ast.stmt]:
        body: list[ast.stmt] = []
        for top in block:
            statement = self._method.body[top]
            match statement:
                case Branch():
                    (test,) = self._written_test(top)
                    there = self._go(top, statement.target, numbers)
                    body.append(ast.copy_location(ast.If(test, self._go(top, top + 1, numbers), there), statement))
                case Jump():
                    body += self._go(top, statement.target, numbers)
                case _:
                    body += self._written(top, per_row=True)
                    if top == block[-1] and not isinstance(statement, ast.Return | ast.Raise):
                        body += self._go(top, top + 1, numbers)
        return body

    def _written_test(self, top: int) -> list[ast.expr]:
        branch = self._statements[top]
        assert isinstance(branch, Branch)
        rewrite = Rewrite(Renames(self._method.self_name, self._renames), self._method.scope)
        return [rewrite.visit(Loose(self._loose, self._names).visit(branch.test))]

    def _go(self, top: int, following: int, numbers: Mapping[int, int]) -> list[ast.stmt]:
        """The statements that take a row from one statement to the next, wherever that runs."""
        at = self._method.body[top]
        if following == self._piece.ends:
            return [_placed_statement(ast.Return(ast.Name(self._names["Done"], ast.Load())), at)]
        way = next((way for way in self._piece.exits if way.top == following), None)
        if way is not None:
            leave = [*self._key_check(way), *self._leave(top, way, numbers)]
            if following not in self._piece.checked:
                return leave
            return [_placed_statement(ast.If(self._stays(following), [self._jump(following, numbers)], leave), at)]
        if following in numbers:
            return [_placed_statement(self._jump(following, numbers), at)]
        return [_placed_statement(ast.Return(self._ending([])), at)]

    def _leave(self, top: int, way: Exit, numbers: Mapping[int, int]) -> list[ast.stmt]:
        """Send a row to its next place; or one turn of a loop, and the row goes on at the head of that loop."""
        at, message = self._method.body[top], self._message(way)
        if not way.fan_out:
            return [_placed_statement(ast.Return(message), at)]
        fan = self._method.sent_from(way.top)
        assert fan is not None
        assert isinstance(message, ast.Tuple)
        sent: list[ast.expr] = [ast.Name(self._names["sent"], ast.Load()), *message.elts]
        sending = ast.Expr(ast.Call(ast.Name(self._names["send"], ast.Load()), sent, []))
        return [_placed_statement(sending, at), *self._go(top, fan.loop.head, numbers)]

    def _key_check(self, way: Exit) -> list[ast.stmt]:
        """Ask for the key of the access that a row goes on to, at its line, unless it surely is one."""
        piece = self._method.pieces[way.target]
        if piece.dispatch is not Dispatch.BY_KEY or not piece.key:
            return []
        stop = self._stops[way.top]
        element = next(use.access.state for use in stop.uses if use.access.mode is Mode.KEYED)
        if is_sure_key(self._method, piece.key, self._draft.elements[element]):
            return []
        name = self._checks.setdefault(element, self._fresh.fresh("check_key"))
        check = ast.Expr(ast.Call(ast.Name(name, ast.Load()), [ast.Name(piece.key, ast.Load())], []))
        return [_placed_statement(check, stop.node)]

    def _jump(self, following: int, numbers: Mapping[int, int]) -> ast.stmt:
        return ast.Assign([ast.Name(self._names["block"], ast.Store())], ast.Constant(numbers[following]))

    def _stays(self, top: int) -> ast.expr:
        """Whether an access is under the key that the row is at, and no turn of a loop is on its way."""
        stop = self._stops[top]
        tests: list[ast.expr] = []
        if self._sends:
            tests.append(ast.UnaryOp(ast.Not(), ast.Name(self._names["sent"], ast.Load())))
        if stop.identity != THE_KEY:
            given: list[ast.expr] = [ast.Name(stop.key, ast.Load()), ast.Name(self._names["here"], ast.Load())]
            tests.append(ast.Call(ast.Name(self._names["same_key"], ast.Load()), given, []))
        return ast.BoolOp(ast.And(), tests) if len(tests) > 1 else tests[0]

    def _message(self, way: Exit) -> ast.expr:
        names = self._method.pieces[way.target].inputs
        values: ast.expr = ast.Tuple([ast.Name(name, ast.Load()) for name in names], ast.Load())
        if not way.fan_out and self._meets_objects and not all(map(self._method.values.types.is_plain, names)):
            # Other rows may change objects of state that are carried, before the message is written.
            values = called(self._names["as_now"], values)
        return ast.Tuple([ast.Constant(way.target), values], ast.Load())

    def _gives_or_takes_objects(self, use: Use) -> bool:
        """Whether an access may leave the method and the state with one object that can be changed."""
        kind = self._draft.elements[use.access.state].type
        operation = kind.operations[use.site.operations[-1]]
        # What is put into a matrix is a cell of a line.
        stored = items_of(kind.value_hint) if kind.container is Matrix else (kind.value_hint,)
        return (operation.shares and not is_frozen(kind.value_hint)) or (
            operation.writes and not all(map(is_frozen, stored))
        )

    def _ending(self, order: list[int]) -> ast.expr:
        """What a row leaves that comes to the end of the method, or after some statements to that of its turn."""
        if order and self._piece.ends >= 0 and follows(self._method.body, order[-1]) == self._piece.ends:
            return ast.Name(self._names["Done"], ast.Load())
        none: ast.expr = ast.Constant(None)
        return ast.Call(ast.Name(self._reply, ast.Load()), [none], []) if self._reply else none

    def _answers_with_view(self, top: int) -> bool:
        return any(use.site.operations[-1] in VIEWS for use in self._asked(top))

    def _asked(self, top: int) -> tuple[Use, ...]:
        """The accesses by which a statement asks every instance."""
        stop = self._stops.get(top)
        return stop.uses if stop is not None and stop.kind is Kind.EACH else ()

    def _answers_with_state(self, top: int) -> bool:
        """Whether a statement asks every instance for a value that could be changed after it was read."""
        kinds = [(self._draft.elements[use.access.state].type, use) for use in self._asked(top)]
        return any(
            kind.operations[use.site.operations[-1]].shares and not is_frozen(kind.value_hint) for kind, use in kinds
        )

    def _needs_function(self) -> bool:
        """Whether rows need a function of their own: a return out of a loop or try, or a name that may be unbound."""
        if any(_returns_from_within(statement) for statement in self._statements.values()):
            return True
        reaching = self._method.reaching
        own = self._locals
        return any(
            Definition(name, UNBOUND) in before.get(name, ())
            for point, before in zip(reaching.points, reaching.before, strict=True)
            if point.top in self._statements
            for name in point.reads & own
        )


def _assigned(name: str, value: ast.expr, at: ast.AST) -> ast.stmt:
    return _placed_statement(ast.Assign([ast.Name(name, ast.Store())], value), at)


def _placed(node: ast.expr, at: ast.AST) -> ast.expr:
    return ast.fix_missing_locations(ast.copy_location(node, at))


def _placed_statement(node: ast.stmt, at: ast.AST) -> ast.stmt:
    return ast.fix_missing_locations(ast.copy_location(node, at))


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
                f"`{name}` is not defined outside the method",
                method.source,
                _first_use(tree, name),
                expected="a name of the module, of the enclosing function, or a builtin, bound before compiling",
                found=name,
            )
        if vars(builtins).get(name, MISSING) is not value:
            namespace[name] = value
    exec(code, namespace)  # noqa: S102 - made by the compiler, of the user's own class  # nosec B102
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


def _own_names(statements: Iterable[ast.stmt], self_name: str) -> list[str]:
    found = (
        node.attr
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == self_name
    )
    return list(dict.fromkeys(found))


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
