"""Branches, loops and conditional expressions as jumps, where a method may have to move inside them.

What stays under one key stays as it is written. The rest becomes statements of one flat body with jumps between them,
so that a cut may lie anywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from millpond.compiler.diagnostics import bar
from millpond.compiler.draft import Method, Site, as_written
from millpond.compiler.front.scope import Names
from millpond.compiler.ir.apart import Apart
from millpond.compiler.ir.hoist import FreshNames, Hoist
from millpond.compiler.ir.jumps import Branch, Jump, Loop, takes_all
from millpond.compiler.ir.patterns import (
    VIEWS,
    Sites,
    assigned_inside,
    certain_parts,
    changes,
    frozen_parameters,
    handed_on,
    head_of,
    inside_of,
    is_each,
    is_merged,
    root_names,
)
from millpond.compiler.obstacles import Bars
from millpond.errors import ProgramError
from millpond.program import Element

_COMPOUND: Final = (ast.If, ast.For, ast.While, ast.Match, ast.With, ast.Try)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_CONDITIONAL: Final = (ast.IfExp, ast.BoolOp, ast.Compare, *_COMPREHENSIONS)
_TAKES_ALL: Final = (sum, list, tuple, set, frozenset, sorted, min, max, dict)
_ITERATORS: Final = (enumerate, zip, reversed, iter, map, filter)
_ENDS: Final = (ast.Return, ast.Raise, ast.Break, ast.Continue)


class Lowering:
    """Writes a method's body, flat where it must be; `simple` normalises a statement that is not taken apart.

    `join` is called where paths meet, since what one of them computed is not known there. An `eager` lowering keeps
    only statements together that touch one element.
    """

    def __init__(
        self,
        method: Method,
        elements: Mapping[str, Element],
        names: FreshNames,
        simple: Callable[[ast.stmt], Iterator[ast.stmt]],
        is_plain: Callable[[ast.AST], bool],
        is_fixed: Callable[[ast.AST], bool],
        has_key: Callable[[Site], bool],
        hoisting: Callable[[Mapping[int, str]], Hoist],
        join: Callable[[], None],
        *,
        eager: bool,
    ) -> None:
        self._method = method
        self._elements = elements
        self._sites = Sites(method, elements)
        self._names = names
        self._simple = simple
        self._is_plain = is_plain
        self._has_key = has_key
        self._hoisting = hoisting
        self._apart = Apart(self._sites, names, is_fixed)
        self._join = join
        self._eager = eager
        self._out: list[ast.stmt] = []
        self._loops: list[tuple[int, int]] = []
        self._labels: list[int] = []
        self._found: list[Loop] = []

    def lower(self, statements: Sequence[ast.stmt]) -> tuple[tuple[ast.stmt, ...], tuple[Loop, ...]]:
        """The flat body, and its loops, inner ones first."""
        self._block(statements)
        if len(self._out) in self._labels and statements:
            self._out.append(ast.copy_location(ast.Return(None), statements[-1]))
        for statement in self._out:
            if isinstance(statement, Branch | Jump):
                statement.target = self._labels[statement.target]
        return tuple(self._out), tuple(self._found)

    # --- labels: numbers that become places in the body at the end

    def _label(self) -> int:
        self._labels.append(-1)
        return len(self._labels) - 1

    def _mark(self, label: int) -> None:
        self._labels[label] = len(self._out)
        self._join()

    # --- statements

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self._add(statement)
            if isinstance(statement, _ENDS):
                return

    def _add(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Break | ast.Continue):
            onward, again = self._loops[-1]
            self._out.append(Jump.to(onward if isinstance(statement, ast.Break) else again, statement))
        elif isinstance(statement, _COMPOUND) and self._must_part(statement):
            self._part(statement)
        elif isinstance(statement, ast.Assert) and statement.msg is not None and _takes_turns(statement.msg):
            self._assert(statement, statement.msg)
        elif apart := self._apart.parts(statement):
            for part in apart:
                self._add(part)
        elif parts := self._conditionals(statement):
            self._take_out(statement, parts)
        elif named := self._named(statement):
            self._take_out_named(statement, named)
        else:
            self._out += self._simple(statement)

    def _must_part(self, statement: ast.stmt) -> bool:
        """Whether a compound statement may have to be cut inside."""
        if self._loops and _escapes(statement):
            return True
        inside = [site for site in self._sites.head(statement) if not site.certain] + self._sites.inside(statement)
        if any(self._is_asking(node) for part in inside_of(statement) for node in ast.walk(part)):
            return True
        changed = assigned_inside(statement)
        # What such a variable holds when the head is evaluated is not what it holds after the statement.
        if any(isinstance(site.key, ast.Name) and site.key.id in changed for site in self._sites.head(statement)):
            return True
        return self._disagree(inside, inside, changed)

    def _is_asking(self, node: ast.AST) -> bool:
        return is_each(node, self._method.scope) or is_merged(node, self._method.scope)

    def _disagree(self, inside: list[Site], sites: list[Site], changed: frozenset[str]) -> bool:
        """Whether accesses that may be skipped or repeated could need another place than the others."""
        if not inside:
            return False
        keys = {ast.dump(site.key) if site.key is not None else "" for site in sites if self._is_keyed(site)}
        if not any(site.certain for site in sites) and not all(map(self._has_key, inside)):
            # The row would go to a key that it may never ask for, and that may be none.
            return True
        if len(keys) > 1 or (self._eager and len({site.element for site in sites}) > 1):
            return True
        return any(not self._comes_early(site.key, changed) for site in inside if site.key is not None)

    def _is_keyed(self, site: Site) -> bool:
        return not self._elements[site.element].partial

    def _comes_early(self, key: ast.expr, changed: frozenset[str]) -> bool:
        """Whether a key can be computed before the statement that it is in."""
        return self._is_plain(key) and not Names.of(key).reads & changed

    def _part(self, statement: ast.stmt) -> None:
        match statement:
            case ast.If():
                self._if(statement)
            case ast.While():
                self._while(statement)
            case ast.For():
                self._for(statement)
            case ast.Match():
                self._match(statement)
            case _:
                raise self._in_try(statement)

    def _if(self, statement: ast.If) -> None:
        otherwise, end = self._label(), self._label()
        self._add(Branch.on(statement.test, otherwise, statement.test))
        self._block(statement.body)
        if statement.orelse:
            self._out.append(Jump.to(end, statement))
        self._mark(otherwise)
        self._block(statement.orelse)
        self._mark(end)

    def _while(self, statement: ast.While) -> None:
        head, otherwise, end = self._label(), self._label(), self._label()
        self._mark(head)
        self._add(Branch.on(statement.test, otherwise, statement.test))
        self._loop_body(statement, head, otherwise, end)

    def _for(self, statement: ast.For) -> None:
        """Walk through a list that shrinks: `items = [*source][::-1]`, and each turn takes the last."""
        self._check_walked(statement)
        items = self._names.fresh("items")
        head, otherwise, end = self._label(), self._label(), self._label()
        source = ast.List([ast.Starred(statement.iter, ast.Load())], ast.Load())
        backwards = ast.Slice(None, None, ast.UnaryOp(ast.USub(), ast.Constant(1)))
        self._add(self._assign(items, ast.Subscript(source, backwards, ast.Load()), statement.iter))
        self._mark(head)
        self._add(Branch.on(_load(items, statement.iter), otherwise, statement.iter))
        taken = ast.Call(ast.Attribute(_load(items, statement.iter), "pop", ast.Load()), [], [])
        self._add(_filled(ast.copy_location(ast.Assign([statement.target], taken), statement.target)))
        self._loop_body(statement, head, otherwise, end)

    def _loop_body(self, statement: ast.While | ast.For, head: int, otherwise: int, end: int) -> None:
        self._loops.append((end, head))
        self._block(statement.body)
        self._loops.pop()
        self._found.append(Loop(self._labels[head], len(self._out), statement))
        self._out.append(Jump.to(head, statement))
        self._mark(otherwise)
        self._block(statement.orelse)
        self._mark(end)

    def _check_walked(self, statement: ast.For) -> None:
        nodes = [node for inner in statement.body for node in ast.walk(inner)]
        changed = {name for node in nodes for name in (*changes(node), *handed_on(node, self._method.scope))}
        walked = (set(self._walked(statement.iter)) - frozen_parameters(self._method)) & changed
        if walked:
            name = as_written(min(walked))
            raise bar(
                Bars.CUT,
                "MP156",
                f"the loop may change `{name}`, which it walks through",
                self._method.source,
                statement.iter,
                expected="a list that stays as it is while the method moves between its items",
                hint=f"walk through a copy: for ... in list({name})",
            )

    def _walked(self, node: ast.expr) -> Iterator[str]:
        """The variables whose objects a loop walks through, as far as they are not copied first."""
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in VIEWS:
                yield from root_names(owner)
            case ast.Call(func=callee, args=args):
                if any(self._method.scope.resolve(callee) is one for one in _ITERATORS):
                    for argument in args:
                        yield from self._walked(argument)
            case _:
                yield from root_names(node)

    def _match(self, statement: ast.Match) -> None:
        """Find the case first, then branch on its number."""
        arm, end = self._names.fresh("case"), self._label()
        subject = self._names.fresh("subject")
        self._add(self._assign(subject, statement.subject, statement.subject))
        statement.subject = _load(subject, statement.subject)
        self._add(self._assign(arm, ast.Constant(-1), statement.subject))
        bodies = []
        for number, case in enumerate(statement.cases):
            # What a pattern binds gets its value again where its body begins: there it surely has one.
            captured = sorted(Names.of(case.pattern).binds)
            again = [self._assign(name, _load(name, case.pattern), case.pattern) for name in captured]
            bodies.append([*again, *case.body])
            case.body = [self._assign(arm, ast.Constant(number), case.pattern)]
        taken = takes_all(statement.cases[-1])
        if self._must_part(statement):
            raise self._guarded(statement)
        self._add(statement)
        for number, body in enumerate(bodies):
            if taken and number == len(bodies) - 1:
                self._block(body)
                break
            after = self._label()
            test = ast.Compare(_load(arm, body[0]), [ast.Eq()], [_at(ast.Constant(number), body[0])])
            self._add(Branch.on(_at(test, body[0]), after, body[0]))
            self._block(body)
            self._out.append(Jump.to(end, body[-1]))
            self._mark(after)
        self._mark(end)

    def _guarded(self, statement: ast.Match) -> ProgramError:
        guard = next(case.guard for case in statement.cases if case.guard is not None)
        return bar(
            Bars.CUT,
            "MP157",
            "the method may have to move to another task inside a guard of this `match`",
            self._method.source,
            guard,
            expected="guards without state, or under the one key of the statement",
            hint="read what the guard needs into a variable before the `match`",
        )

    def _in_try(self, statement: ast.stmt) -> ProgramError:
        kind = "with" if isinstance(statement, ast.With) else "try"
        return bar(
            Bars.CUT,
            "MP153",
            f"the method may have to move to another task inside this `{kind}`",
            self._method.source,
            statement,
            expected=f"a `{kind}` around code that stays under one key",
            hint=f"read what it needs before, and write what it gives after the `{kind}`",
        )

    # --- expressions that are evaluated only sometimes, or many times

    def _conditionals(self, statement: ast.stmt) -> list[ast.expr]:
        """The outermost conditional expressions of a statement's head that may have to be cut."""
        head = self._sites.head(statement)
        unsure = [site for site in head if not site.certain]
        every = head if isinstance(statement, _COMPOUND) else [*head, *self._sites.inside(statement)]
        parts = head_of(statement)
        sure = {id(node) for part in parts for node in certain_parts(part)}
        asks = any(self._is_asking(node) and id(node) not in sure for part in parts for node in ast.walk(part))
        skipped = any(isinstance(n, ast.NamedExpr) and id(n) not in sure for part in parts for n in ast.walk(part))
        if not (asks or skipped or self._disagree(unsure, every, assigned_inside(statement))):
            return []
        touched = {id(site.node) for site in unsure}
        return [found for part in parts for found in self._outermost(part, touched, sure)]

    def _outermost(self, node: ast.AST, touched: set[int], sure: set[int]) -> Iterator[ast.expr]:
        if isinstance(node, ast.Lambda | ast.FunctionDef):
            return
        if isinstance(node, _CONDITIONAL) and any(
            id(part) in touched or (id(part) not in sure and (isinstance(part, ast.NamedExpr) or self._is_asking(part)))
            for part in ast.walk(node)
        ):
            yield node
            return
        for child in ast.iter_child_nodes(node):
            yield from self._outermost(child, touched, sure)

    def _take_out(self, statement: ast.stmt, parts: list[ast.expr]) -> None:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is parts[0]:
                self._conditional(name, value)
                return
        self._check_consumed(statement, parts)
        hoist = self._hoisting({id(part): "value" for part in parts})
        hoist.statement(statement)
        for assigned in hoist.prelude:
            self._add(assigned)
        self._add(statement)

    def _assert(self, statement: ast.Assert, message: ast.expr) -> None:
        """An assertion whose message is not as simple as it looks: it is computed only if the test fails."""
        name = self._names.fresh("value")
        told = ast.Assert(ast.Constant(False), _load(name, message))
        failed = ast.If(ast.UnaryOp(ast.Not(), statement.test), [self._assign(name, message, message), told], [])
        self._add(ast.fix_missing_locations(ast.copy_location(failed, statement)))

    def _named(self, statement: ast.stmt) -> list[ast.expr]:
        """The `:=` of a statement that touches state: they become assignments before it."""
        if not self._sites.head(statement):
            return []
        parts = [node for part in head_of(statement) for node in certain_parts(part)]
        return [node for node in parts if isinstance(node, ast.NamedExpr)]

    def _take_out_named(self, statement: ast.stmt, named: list[ast.expr]) -> None:
        hoist = self._hoisting({id(node): "value" for node in named})
        hoist.statement(statement)
        for assigned in hoist.prelude:
            match assigned:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.NamedExpr(target=target, value=value)):
                    self._add(self._assign(target.id, value, value))
                    self._add(self._assign(name, _load(target.id, value), value))
                case _:
                    self._add(assigned)
        self._add(statement)

    def _conditional(self, name: str, value: ast.expr) -> None:
        match value:
            case ast.IfExp(test=test, body=body, orelse=orelse):
                chosen = ast.If(test, [self._assign(name, body, body)], [self._assign(name, orelse, orelse)])
                self._if(ast.copy_location(chosen, value))
            case ast.BoolOp(op=operator, values=values):
                self._bool(name, operator, values)
            case ast.Compare():
                self._compare(name, value)
            case _:
                assert isinstance(value, _COMPREHENSIONS)
                self._comprehension(name, value)

    def _bool(self, name: str, operator: ast.boolop, values: list[ast.expr]) -> None:
        # A name of its own, since a later part may read what the assignment will replace.
        end, so_far = self._label(), self._names.fresh("value")
        for number, value in enumerate(values):
            self._add(self._assign(so_far, value, value))
            if number < len(values) - 1:
                known = _load(so_far, value)
                test = known if isinstance(operator, ast.And) else _at(ast.UnaryOp(ast.Not(), known), value)
                self._add(Branch.on(test, end, value))
        self._mark(end)
        self._add(self._assign(name, _load(so_far, values[-1]), values[-1]))

    def _compare(self, name: str, value: ast.Compare) -> None:
        end, so_far = self._label(), self._names.fresh("value")
        left = self._names.fresh("value")
        self._add(self._assign(left, value.left, value.left))
        for number, (operator, comparator) in enumerate(zip(value.ops, value.comparators, strict=True)):
            right = self._names.fresh("value")
            self._add(self._assign(right, comparator, comparator))
            pair = ast.Compare(_load(left, value), [operator], [_load(right, comparator)])
            self._add(self._assign(so_far, _at(pair, value), value))
            if number < len(value.ops) - 1:
                self._add(Branch.on(_load(so_far, value), end, value))
            left = right
        self._mark(end)
        self._add(self._assign(name, _load(so_far, value), value))

    def _comprehension(self, name: str, node: ast.expr) -> None:
        assert isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
        gathered = self._names.fresh("gathered")
        empty: ast.expr = ast.List([], ast.Load())
        if isinstance(node, ast.DictComp):
            key = self._names.fresh("key")
            slot = ast.Subscript(_load(gathered, node), _load(key, node), ast.Store())
            turn: list[ast.stmt] = [self._assign(key, node.key, node.key)]
            turn.append(_filled(ast.copy_location(ast.Assign([slot], node.value), node.value)))
            empty = ast.Dict([], [])
        else:
            call = ast.Call(ast.Attribute(_load(gathered, node), "append", ast.Load()), [node.elt], [])
            turn = [_filled(ast.copy_location(ast.Expr(call), node.elt))]
        for generator in reversed(node.generators):
            for test in reversed(generator.ifs):
                turn = [ast.copy_location(ast.If(test, turn, []), test)]
            turn = [ast.copy_location(ast.For(generator.target, generator.iter, turn, []), generator.target)]
        # The names of a comprehension are its own.
        own = {bound for generator in node.generators for bound in Names.of(generator.target).binds}
        renamed = _Rename({bound: self._names.fresh(bound) for bound in own}, node.generators[0].iter)
        self._add(self._assign(gathered, empty, node))
        for statement in turn:
            visited = renamed.visit(statement)
            assert isinstance(visited, ast.stmt)
            self._add(visited)
        result: ast.expr = _load(gathered, node)
        if isinstance(node, ast.SetComp):
            result = ast.Set([ast.Starred(result, ast.Load())])
        self._add(self._assign(name, result, node))

    def _check_consumed(self, statement: ast.stmt, parts: list[ast.expr]) -> None:
        """Refuse a generator with state in it unless all of it is taken at once."""
        taken = {
            id(node.args[0])
            for node in ast.walk(statement)
            if isinstance(node, ast.Call)
            and len(node.args) == 1
            and any(self._method.scope.resolve(node.func) is known for known in _TAKES_ALL)
        }
        for part in parts:
            if isinstance(part, ast.GeneratorExp) and id(part) not in taken:
                raise bar(
                    Bars.CUT,
                    "MP154",
                    "the method may have to move to another task inside this generator",
                    self._method.source,
                    part,
                    expected="a list comprehension, or a loop",
                    hint="a generator is evaluated piece by piece by whoever takes from it; write [...] around it",
                )

    def _assign(self, name: str, value: ast.expr, at: ast.AST) -> ast.stmt:
        return _filled(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), at))


class _Rename(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str], outside: ast.expr) -> None:
        self._names = names
        self._outside = outside

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._outside:
            return node
        if isinstance(node, ast.Name) and node.id in self._names:
            node.id = self._names[node.id]
        visited: ast.AST = super().visit(node)
        return visited


def _escapes(statement: ast.AST) -> bool:
    """Whether a `break` or `continue` in a statement belongs to a loop around it."""
    if isinstance(statement, ast.Break | ast.Continue):
        return True
    if isinstance(statement, ast.FunctionDef | ast.Lambda):
        return False
    if isinstance(statement, ast.For | ast.While):
        # A break in the body is the loop's own; one in its else belongs to the loop around it.
        return any(map(_escapes, statement.orelse))
    return any(map(_escapes, ast.iter_child_nodes(statement)))


def _takes_turns(node: ast.AST) -> bool:
    """Whether an expression has parts that are evaluated only sometimes, or that assign."""
    return any(isinstance(part, (*_CONDITIONAL, ast.NamedExpr)) for part in ast.walk(node))


def _load(name: str, at: ast.AST) -> ast.expr:
    return ast.copy_location(ast.Name(name, ast.Load()), at)


def _at(node: ast.expr, at: ast.AST) -> ast.expr:
    return ast.copy_location(node, at)


def _filled(statement: ast.stmt) -> ast.stmt:
    """Give the nodes that were made here the place of their statement."""
    for node in ast.walk(statement):
        if isinstance(node, ast.expr) and not hasattr(node, "lineno"):
            ast.copy_location(node, statement)
    return statement
