"""Statements in a form that can be cut: one access to a statement, keys in variables, each() and merged() on their own.

Needs: Method.tree, restricted to what the compiler understands.
Leaves: Method.body and loops. Branches and loops that may be cut inside are jumps (see `lower`). Every key is a
variable; order of evaluation is Python's own. A gathered method is not cut, and stays as it is.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final, get_args

from millpond.compiler.analysis.hints import Hints
from millpond.compiler.analysis.mutability import kind_of
from millpond.compiler.diagnostics import bar
from millpond.compiler.draft import Draft, Method, Site
from millpond.compiler.front.scope import MISSING
from millpond.compiler.front.scope import Names as NamesOf
from millpond.compiler.ir.flatten import Lowering
from millpond.compiler.ir.hoist import FreshNames, Hoist
from millpond.compiler.ir.jumps import Loop
from millpond.compiler.ir.order import is_bare
from millpond.compiler.ir.patterns import Sites, assigned_inside, frozen_parameters, head_of, is_each, is_merged
from millpond.compiler.obstacles import Bars
from millpond.errors import ProgramError
from millpond.program import Element

_TEXT_METHODS: Final = frozenset(
    ("casefold", "lower", "lstrip", "removeprefix", "removesuffix", "rstrip", "strip", "upper")
)
_PURE_BUILTINS: Final = (str, int, bool, bytes, abs, round, len)
_SIMPLE_BUILTINS: Final = (*_PURE_BUILTINS, float, min, max, sum, any, all, sorted, list, tuple, set, dict)


def normalise(draft: Draft) -> Draft:
    """Bring the body of every method into a form that can be cut."""

    def normal(method: Method) -> Method:
        if method.gathered:
            # It is not cut: the body stays as it is written.
            return replace(method, body=tuple(_statements(method)))
        body, loops = _Normaliser(method, draft.elements, eager=draft.eager).body()
        return replace(method, body=body, loops=loops)

    return draft.each(normal)


def _statements(method: Method) -> list[ast.stmt]:
    """A copy of what a method does, without its docstring and its hints."""
    first, *rest = method.tree.body
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    statements = rest if documented else [first, *rest]
    return [_PlainAssignments().visit(copy.deepcopy(statement)) for statement in statements]


class _Normaliser:
    def __init__(self, method: Method, elements: Mapping[str, Element], *, eager: bool) -> None:
        self._method = method
        self._elements = elements
        self._eager = eager
        self._sites = Sites(method, elements)
        used = {node.id for node in ast.walk(method.tree) if isinstance(node, ast.Name)}
        self._names = FreshNames(used | method.scope.locals | method.scope.module.keys())
        self._frozen = frozen_parameters(method)
        # Keys that were computed already: the variable by the key's text, with the names that the text reads.
        self._known: dict[str, tuple[str, frozenset[str]]] = {}

    @cached_property
    def _kinds(self) -> Hints:
        return Hints(self._method, self._method.tree.body, self._elements)

    def body(self) -> tuple[tuple[ast.stmt, ...], tuple[Loop, ...]]:
        """The statements of the method, normalised, and the loops that became jumps."""
        lowering = Lowering(
            self._method,
            self._elements,
            self._names,
            self._statement,
            self._is_plain,
            self._is_fixed,
            self._has_key,
            self._hoisting,
            self._known.clear,
            eager=self._eager,
        )
        return lowering.lower(_statements(self._method))

    def _statement(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        self._use_known(statement, self._sites.head(statement))
        hoist = self._hoisting(self._targets(statement))
        hoist.statement(statement)
        for assigned in hoist.prelude:
            yield from self._statement(assigned)
            self._remember(assigned)
        inside = [site for site in self._sites.head(statement) if not site.certain] + self._sites.inside(statement)
        self._use_known(statement, inside)
        yield from self._keys_before(statement, inside)
        yield statement
        bound = NamesOf.of(statement)
        self._forget(bound.binds | bound.unbinds)

    # --- what goes into variables of its own

    def _targets(self, statement: ast.stmt) -> dict[int, str]:
        head = self._sites.head(statement)
        parts = [node for part in head_of(statement) for node in ast.walk(part)]
        groups = {_group(site) for site in (*head, *self._sites.inside(statement))}
        # The value of a statement may stay in it, unless the statement then stores into state elsewhere.
        kept = None if any(_stores(site) for site in head) else getattr(statement, "value", None)
        targets = {
            id(node): "merged"
            for node in parts
            if is_merged(node, self._method.scope) and getattr(statement, "value", None) is not node
        }
        for site in head:
            if site.certain and site.key is not None and not self._is_variable(site.key):
                targets[id(site.key)] = "key"
            if site.everywhere:
                targets |= {id(part): "value" for part in _arguments(site.node) if not self._is_fixed(part)}
                if not _is_bound_alone(statement, site.node):
                    targets[id(site.node)] = "each"
            elif len(groups) > 1 and _can_move(site) and site.node is not kept:
                targets[id(self._widest(site, head, statement))] = "value"
        if targets and any(isinstance(node, ast.NamedExpr) for node in parts):
            raise self._too_much(statement, "`:=` in a statement that has to be cut", "assign on a line before")
        if len(groups) > 1:
            self._check_stores(statement, head)
        return targets

    def _widest(self, site: Site, head: list[Site], statement: ast.stmt) -> ast.expr:
        """The largest expression that can be evaluated with an access, so that less is carried and shared."""
        parents = {id(child): node for node in ast.walk(statement) for child in ast.iter_child_nodes(node)}
        others = [other.node for other in head if _group(other) != _group(site) or not other.certain]
        widest: ast.expr = site.node
        parent = parents.get(id(widest))
        while isinstance(parent, ast.expr) and self._is_simple(parent, parents.get(id(parent))):
            inside = {id(node) for node in ast.walk(parent)}
            if any(id(other) in inside for other in others) or _holds_merge(parent, self._method):
                break
            widest = parent
            parent = parents.get(id(widest))
        return widest

    def _is_simple(self, node: ast.expr, parent: ast.AST | None) -> bool:
        """Whether the result of an expression over state is a value that can travel, as far as its form tells."""
        match node:
            case ast.BinOp() | ast.UnaryOp() | ast.JoinedStr() | ast.FormattedValue():
                return True
            case ast.Compare(ops=[_]):
                return True
            case ast.Subscript(ctx=ast.Load()):
                return True
            case ast.Attribute(ctx=ast.Load()):
                return not (isinstance(parent, ast.Call) and parent.func is node)
            case ast.Call(func=ast.Name() as callee):
                meaning = self._method.scope.resolve(callee)
                return any(meaning is known for known in _SIMPLE_BUILTINS)
        return False

    def _check_stores(self, statement: ast.stmt, head: list[Site]) -> None:
        stores = [site for site in head if _stores(site)]
        if len({_group(site) for site in stores}) > 1:
            raise self._too_much(
                statement, "a statement that changes state in two places", "write one statement for each"
            )

    def _too_much(self, statement: ast.stmt, found: str, hint: str) -> ProgramError:
        return bar(
            Bars.CUT,
            "MP125",
            "this statement is too complex to be cut",
            self._method.source,
            statement,
            expected="statements that do one thing each",
            found=found,
            hint=hint,
        )

    def _is_fixed(self, node: ast.AST) -> bool:
        """Whether a node means the same after anything else in its statement was evaluated."""
        if is_bare(node) or is_each(node, self._method.scope):
            return True
        match node:
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return all(map(self._is_fixed, parts))
            case ast.Set(elts=parts):
                return all(isinstance(part, ast.Constant) for part in parts)
            case ast.Dict(keys=keys, values=parts):
                return all(isinstance(key, ast.Constant) for key in keys) and all(map(self._is_fixed, parts))
        return self._is_own(node) or self._method.scope.resolve(node) is not MISSING

    def _is_frozen(self, node: ast.AST) -> bool:
        """Whether a node is an object that nobody can change."""
        return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in self._frozen)

    def _hoisting(self, targets: Mapping[int, str]) -> Hoist:
        return Hoist(targets, self._names, self._is_fixed, self._is_frozen)

    def _is_own(self, node: ast.AST) -> bool:
        """Whether a node is `self.name`: a constant of the class, or an element."""
        return (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == self._method.self_name
        )

    # --- keys

    def _is_variable(self, key: ast.expr) -> bool:
        return isinstance(key, ast.Name) and self._method.scope.resolve(key) is MISSING

    def _has_key(self, site: Site) -> bool:
        """Whether the key of an access is of its type whatever the row, so that it may be asked for early."""
        if site.key is None:
            return True
        parts = site.key.elts if isinstance(site.key, ast.Tuple) else [site.key]
        told = [self._kinds.hint(part) for part in parts if self._kinds.is_sure(part)]
        wanted = self._elements[site.element].type.key_hint
        return [kind_of(hint) for hint in told] == list(get_args(wanted) or (wanted,))

    def _is_plain(self, key: ast.AST) -> bool:
        """Whether computing a key can't fail and changes nothing, so that it may be done early."""
        if isinstance(key, ast.Tuple):
            return all(self._is_plain(part) for part in key.elts)
        return isinstance(key, ast.Name | ast.Constant) or self._is_own(key)

    def _is_pure(self, key: ast.AST) -> bool:
        """Whether computing a key twice, from the same variables, gives the same."""
        match key:
            case ast.Tuple(elts=parts):
                return all(map(self._is_pure, parts))
            case ast.BinOp(left=left, right=right):
                return self._is_pure(left) and self._is_pure(right)
            case ast.UnaryOp(operand=operand):
                return self._is_pure(operand)
            case ast.Call(func=ast.Attribute(value=text, attr=name), args=args, keywords=[]) if name in _TEXT_METHODS:
                # A class of the user's may have a method of that name.
                told = self._kinds.hint(text) is str
                return told and self._is_pure(text) and all(map(self._is_pure, args))
            case ast.Call(func=ast.Name() as callee, args=args, keywords=[]):
                meaning = self._method.scope.resolve(callee)
                return any(meaning is known for known in _PURE_BUILTINS) and all(map(self._is_pure, args))
        return self._is_plain(key)

    def _remember(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if self._is_pure(value):
                self._known.setdefault(ast.dump(value), (name, NamesOf.of(value).reads))

    def _forget(self, names: frozenset[str]) -> None:
        for text in [text for text, known in self._known.items() if known[1] & names]:
            del self._known[text]

    def _use_known(self, statement: ast.stmt, sites: list[Site]) -> None:
        """Put the variables of keys that were computed before in the place of their expressions."""
        changed = assigned_inside(statement)
        keys = [site.key for site in sites if site.key is not None]
        swaps = {id(key): name for key in keys if (name := self._known_as(key, changed))}
        if swaps:
            _Swap(swaps).visit(statement)

    def _known_as(self, key: ast.expr, changed: frozenset[str]) -> str:
        name, reads = self._known.get(ast.dump(key), ("", frozenset()))
        return "" if reads & changed else name

    def _keys_before(self, statement: ast.stmt, inside: list[Site]) -> Iterator[ast.stmt]:
        """Compute the keys of a compound statement before it."""
        changed = assigned_inside(statement)
        for key in [site.key for site in inside if site.key is not None]:
            if self._is_variable(key) or self._known_as(key, changed):
                continue
            if not self._is_plain(key):
                raise self._too_much(statement, "a key that may not be computed at all", "compute it on a line before")
            target = ast.copy_location(ast.Name(self._names.fresh("key"), ast.Store()), key)
            assigned = ast.copy_location(ast.Assign([target], copy.deepcopy(key)), key)
            self._remember(assigned)
            yield assigned
        self._use_known(statement, inside)


class _PlainAssignments(ast.NodeTransformer):
    """Takes the hints off local variables: `x: int = 1` is `x = 1`, and `x: int` does nothing."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return node


class _Swap(ast.NodeTransformer):
    """Puts variables in the place of chosen expressions."""

    def __init__(self, swaps: Mapping[int, str]) -> None:
        self._swaps = swaps

    def visit(self, node: ast.AST) -> ast.AST:
        name = self._swaps.get(id(node))
        if name is not None:
            return ast.copy_location(ast.Name(name, ast.Load()), node)
        visited: ast.AST = super().visit(node)
        return visited


def _holds_merge(node: ast.AST, method: Method) -> bool:
    return any(is_merged(part, method.scope) or is_each(part, method.scope) for part in ast.walk(node))


def _group(site: Site) -> tuple[str, str]:
    return site.element, "" if site.key is None else ast.dump(site.key)


def _can_move(site: Site) -> bool:
    """Whether an access can be evaluated into a variable: a certain read that is not a walk over the element itself."""
    return site.certain and not _stores(site) and not isinstance(site.node, ast.Attribute)


def _stores(site: Site) -> bool:
    return isinstance(getattr(site.node, "ctx", None), ast.Store | ast.Del)


def _arguments(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Call):
        given = [part.value if isinstance(part, ast.Starred) else part for part in node.args]
        return [*given, *(keyword.value for keyword in node.keywords)]
    return [node.slice] if isinstance(node, ast.Subscript) else []


def _is_bound_alone(statement: ast.stmt, node: ast.expr) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name()], value=value):
            return value is node
    return False
