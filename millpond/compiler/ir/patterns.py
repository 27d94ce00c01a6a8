"""The forms in which a state access may be written, and how they are found in a piece of syntax."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from millpond.compiler.analysis.effects import is_fresh, leaves_alone
from millpond.compiler.analysis.mutability import is_frozen
from millpond.compiler.diagnostics import bar, refuse
from millpond.compiler.draft import Method, Site
from millpond.compiler.front.scope import Names, Scope
from millpond.compiler.ir.jumps import Branch
from millpond.compiler.obstacles import Bars
from millpond.program import Element, each, merged
from millpond.state.containers.access import Operation
from millpond.state.containers.matrix import Matrix

_WALKS: Final = (sorted, list, tuple, set, frozenset, enumerate, iter, sum, min, max, any, all)
_SUBSCRIPTS: Final = {ast.Load: ("__getitem__",), ast.Store: ("__setitem__",), ast.Del: ("__delitem__",)}


VIEWS: Final = frozenset(("items", "keys", "values"))
"""Operations whose result looks into its container instead of holding something."""


def is_each(node: ast.AST, scope: Scope) -> bool:
    """Whether a node is a call of `each`, under whatever name."""
    return isinstance(node, ast.Call) and scope.resolve(node.func) is each


def is_merged(node: ast.AST, scope: Scope) -> bool:
    """Whether a node is a call of `merged`, under whatever name."""
    return isinstance(node, ast.Call) and scope.resolve(node.func) is merged


def head_of(statement: ast.stmt) -> tuple[ast.AST, ...]:
    """The parts of a statement that are evaluated once, when it begins."""
    match statement:
        case ast.If(test=head) | ast.For(iter=head) | ast.Match(subject=head):
            return (head,)
        case ast.With(items=[first, *_]):
            return (first.context_expr,)
        case ast.While() | ast.Try() | ast.FunctionDef():
            return ()
    return tuple(ast.iter_child_nodes(statement))


def inside_of(statement: ast.stmt) -> tuple[ast.AST, ...]:
    """The other parts of a statement; none if it is a simple one."""
    head = head_of(statement)
    children: list[ast.AST] = []
    for child in ast.iter_child_nodes(statement):
        children += ast.iter_child_nodes(child) if isinstance(child, ast.withitem) else (child,)
    return tuple(child for child in children if not any(child is part for part in head))


def certain_parts(node: ast.AST) -> Iterator[ast.AST]:
    """A node and the parts of it that are evaluated whenever it is."""
    yield node
    for child in ast.iter_child_nodes(node):
        if _is_certain(node, child):
            yield from certain_parts(child)


def assigned_inside(statement: ast.stmt) -> frozenset[str]:
    """The names that get a value while a compound statement runs, or in a scope of its own within any statement."""
    nodes = [node for part in inside_of(statement) for node in ast.walk(part)]
    for part in head_of(statement):
        for node in ast.walk(part):
            if isinstance(node, ast.comprehension):
                nodes += ast.walk(node.target)
            elif isinstance(node, ast.Lambda):
                nodes += ast.walk(node.args)
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    stored |= {name for node in nodes for name in _bound_by_text(node)}
    return frozenset(stored | {node.arg for node in nodes if isinstance(node, ast.arg)})


def _bound_by_text(node: ast.AST) -> Iterator[str]:
    """The name that a node binds though it has no ast.Name for it."""
    match node:
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.FunctionDef(name=name):
            yield name


def changes(node: ast.AST) -> Iterator[str]:
    """The variables that a node may change in place, by an assignment or a method."""
    match node:
        case ast.AugAssign(target=target):
            yield from root_names(target)
        case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
            yield from root_names(node)
        case ast.Call(func=ast.Attribute(value=owner)):
            yield from root_names(owner)


def handed_on(node: ast.AST, scope: Scope) -> Iterator[str]:
    """The variables that a node gives to a function that may change them."""
    match node:
        case ast.Call(func=callee, args=args, keywords=keywords):
            meaning = scope.resolve(callee)
            if not leaves_alone(meaning):
                for given in (*args, *(keyword.value for keyword in keywords)):
                    yield from _held_names(given, scope)


def _held_names(node: ast.AST, scope: Scope) -> Iterator[str]:
    """The variables that an expression may be, hold or be a part of."""
    match node:
        case ast.Name(id=name):
            yield name
        case ast.Compare() | ast.JoinedStr() | ast.Constant():
            return
        case ast.Call(func=callee) if is_fresh(scope.resolve(callee)):
            return
        case ast.Call(func=ast.Name(), args=args, keywords=keywords):
            # The function itself is no object that anybody changes.
            for given in (*args, *(keyword.value for keyword in keywords)):
                yield from _held_names(given, scope)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _held_names(child, scope)


def root_names(node: Any) -> Iterator[str]:
    """The variable that a chain of subscripts and attributes starts from."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id


def frozen_parameters(method: Method) -> frozenset[str]:
    """The parameters that keep their value as long as the method runs, and whose values can't be changed."""
    names = Names.of(*method.tree.body)
    kept = ((name, hint) for name, hint in method.point.parameters if name not in names.binds | names.unbinds)
    return frozenset(name for name, hint in kept if is_frozen(hint))


@dataclass(frozen=True)
class Sites:
    """Finds the state accesses of a method; a use of an element in any other form is refused."""

    method: Method
    elements: Mapping[str, Element]

    def of(self, statement: ast.AST) -> list[Site]:
        """All accesses in a statement, in the order of the text."""
        return list(self._find(statement, None, certain=True))

    def head(self, statement: ast.stmt) -> list[Site]:
        """The accesses that happen once, when the statement begins."""
        return [
            site
            for part in head_of(statement)
            for site in self._find(part, statement, certain=_is_certain(statement, part))
        ]

    def inside(self, statement: ast.stmt) -> list[Site]:
        """The accesses in the branches, or the turns, of a compound statement."""
        return [site for part in inside_of(statement) for site in self._find(part, statement, certain=False)]

    def writes(self, site: Site) -> bool:
        """Whether an access may change its element."""
        table = self.elements[site.element].type.operations
        return any(table[operation].writes for operation in site.operations)

    def _element(self, node: ast.AST) -> str | None:
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == self.method.self_name
            and node.attr in self.elements
        ):
            return node.attr
        return None

    def _owner(self, node: ast.AST) -> tuple[str | None, bool]:
        """The element that a node stands for, and whether for all its instances."""
        if is_each(node, self.method.scope):
            assert isinstance(node, ast.Call)
            element = self._element(node.args[0]) if len(node.args) == 1 and not node.keywords else None
            if element is None or not self.elements[element].partial:
                raise refuse(
                    "MP140",
                    "each() is used on something that is not a partial state element",
                    self.method.source,
                    node,
                    expected="each(self.name) where name = Partial(...)",
                    hint="read a partitioned element by its key, without each()",
                )
            return element, True
        return self._element(node), False

    def _find(self, node: ast.AST, parent: ast.AST | None, *, certain: bool) -> Iterator[Site]:
        site = self._match(node, parent, certain=certain)
        if site is None:
            self._refuse_bare(node)
        inside = consumed_parts(node) if site is not None else ()
        for child in ast.iter_child_nodes(node):
            if not any(child is part for part in inside):
                yield from self._find(child, node, certain=certain and _is_certain(node, child))
        if site is not None:
            yield site

    def _refuse_bare(self, node: ast.AST) -> None:
        element, everywhere = self._owner(node)
        if element is None or self.method.whole:
            return
        if everywhere:
            raise refuse(
                "MP147",
                "each() is used without an operation",
                self.method.source,
                node,
                expected=f"each(self.{element}).method(...) or each(self.{element})[key]",
            )
        raise bar(
            Bars.SIGHT,
            "MP130",
            "a state element is used as a whole value",
            self.method.source,
            node,
            expected=f"an operation on it, such as self.{element}[key]",
            hint="state stays where it is: take out what you need (a key's value, or a copy) and pass that on",
        )

    def _match(self, node: ast.AST, parent: ast.AST | None, *, certain: bool) -> Site | None:
        match node:
            case ast.Call(func=ast.Name() | ast.Attribute(value=ast.Name()), args=[owner, *_]) if self._builtin(node):
                element = self._element(owner)
                if element is not None:
                    return self._site(node, element, (self._builtin(node),), None, False, certain)
            case ast.Subscript(value=owner, slice=place, ctx=context):
                element, everywhere = self._owner(owner)
                if element is not None:
                    both = isinstance(parent, ast.AugAssign)
                    operations = ("__getitem__", "__setitem__") if both else _SUBSCRIPTS[type(context)]
                    return self._site(node, element, operations, place, everywhere, certain)
            case ast.Call(func=ast.Attribute(value=owner, attr=operation), args=args):
                element, everywhere = self._owner(owner)
                if element is not None:
                    first = args[0] if args and not isinstance(args[0], ast.Starred) else None
                    return self._site(node, element, (operation,), first, everywhere, certain)
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[owner]):
                element = self._element(owner)
                if element is not None:
                    return self._site(node, element, ("__contains__",), left, False, certain)
            case ast.Attribute():
                element = self._element(node)
                if element is not None and _walks_through(parent, node):
                    return self._site(node, element, ("__iter__",), None, False, certain)
                if element is not None and _is_tested(parent, node) and self._has_length(element):
                    return self._site(node, element, ("__len__",), None, False, certain)
        return None

    def _has_length(self, name: str) -> bool:
        """Whether an element can be asked as a whole whether it is empty."""
        element = self.elements[name]
        return (element.partial or element.type.single) and "__len__" in element.type.operations

    def _builtin(self, node: ast.Call) -> str:
        meaning: Any = self.method.scope.resolve(node.func)
        if meaning is builtins.len:
            return "__len__"
        if meaning is builtins.dict:
            return "items"
        return "__iter__" if any(meaning is walk for walk in _WALKS) else ""

    def _site(
        self,
        node: ast.expr,
        element: str,
        operations: tuple[str, ...],
        place: ast.expr | None,
        everywhere: bool,
        certain: bool,
    ) -> Site | None:
        table = self.elements[element].type.operations
        for operation in operations:
            if operation not in table and self.method.whole:
                return None
            if operation not in table:
                kind = self.elements[element].type.container.__name__
                raise bar(
                    Bars.SIGHT,
                    "MP131",
                    f"a {kind} in state has no operation `{operation}`",
                    self.method.source,
                    node,
                    expected=", ".join(sorted(name for name in table if not name.startswith("_"))),
                    hint="indexing, `in`, len() and iteration work where the container has them",
                )
        key = self._key(node, element, table[operations[-1]], place) if not everywhere else None
        return Site(node, element, operations, key, everywhere, certain)

    def _key(self, node: ast.expr, name: str, operation: Operation, place: ast.expr | None) -> ast.expr | None:
        element = self.elements[name]
        if element.partial or element.type.single:
            return None
        if self.method.whole:
            return place
        if element.type.container is Matrix and operation.axis not in ("", element.type.by):
            raise bar(
                Bars.SIGHT,
                "MP133",
                f"self.{name} is split by {element.type.by} and read by {operation.axis}",
                self.method.source,
                node,
                expected=f"access by {element.type.by}",
                hint=f'declare it with by="{operation.axis}" if all use {operation.axis}s, or make it Partial',
            )
        if not operation.keyed:
            raise bar(
                Bars.SIGHT,
                "MP132",
                f"this needs all of self.{name}, which is split by key",
                self.method.source,
                node,
                expected="an operation on one key",
                hint="make it Partial and read it by merged(each(...), function), or keep what you need under one key",
            )
        if place is None:
            raise bar(
                Bars.SIGHT,
                "MP137",
                "the key of this access is not its first argument",
                self.method.source,
                node,
                expected="the key as the first, plain argument",
            )
        if element.type.container is Matrix and not operation.axis:
            return self._line_of_cell(node, name, place)
        return place

    def _line_of_cell(self, node: ast.expr, name: str, place: ast.expr) -> ast.expr:
        if not isinstance(place, ast.Tuple) or len(place.elts) != 2:
            raise bar(
                Bars.SIGHT,
                "MP138",
                "the row and column of this cell are not written out",
                self.method.source,
                node,
                expected=f"self.{name}[row, column]",
                hint="write the pair out; unpack it first if it is in a variable",
            )
        return place.elts[0 if self.elements[name].type.by == "row" else 1]


def consumed_parts(node: ast.AST) -> tuple[ast.AST, ...]:
    """The parts of an access that name its element rather than compute something."""
    match node:
        case ast.Subscript(value=owner):
            return (owner,)
        case ast.Call(func=ast.Attribute(value=ast.Attribute() | ast.Call()) as callee):
            return (callee,)
        case ast.Call(args=[owner, *_]):
            return (owner,)
        case ast.Compare(comparators=[owner]):
            return (owner,)
    return (node.value,) if isinstance(node, ast.Attribute) else ()


def _walks_through(parent: ast.AST | None, node: ast.AST) -> bool:
    match parent:
        case ast.For(iter=walked) | ast.comprehension(iter=walked) | ast.Starred(value=walked):
            return walked is node
    return False


def _is_tested(parent: ast.AST | None, node: ast.AST) -> bool:
    """Whether nothing but the truth of a node is asked for."""
    match parent:
        case ast.UnaryOp(op=ast.Not()) | Branch():
            return True
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            return test is node
    return False


def _is_certain(node: ast.AST, child: ast.AST) -> bool:
    match node:
        case ast.IfExp(test=first) | ast.BoolOp(values=[first, *_]) | ast.Assert(test=first):
            return child is first
        case ast.Compare(left=left, comparators=[first, *_]):
            return child is left or child is first
        case ast.Lambda() | ast.FunctionDef():
            return False
        case ast.comprehension(iter=first):
            return child is first
        case ast.ListComp(generators=[first, *_]) | ast.SetComp(generators=[first, *_]):
            return child is first
        case ast.DictComp(generators=[first, *_]) | ast.GeneratorExp(generators=[first, *_]):
            return child is first
    return True
