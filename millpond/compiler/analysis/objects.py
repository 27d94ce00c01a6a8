"""Which variables of a method may be one object, and what may change an object in place.

Elements of state take part as `self.name`: what was stored in one may be changed there. Where nothing is known, two
variables that meet in an assignment or a call are taken for one, and what a function is given for changed.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from millpond.compiler.analysis.effects import is_fresh, leaves_alone
from millpond.compiler.analysis.hints import Hints
from millpond.compiler.analysis.mutability import is_frozen
from millpond.compiler.draft import Method, Site
from millpond.compiler.front.bindings import bindings
from millpond.compiler.front.scope import MISSING, Names
from millpond.program import Element
from millpond.state.codec.classes import is_named_tuple

_READING: Final = frozenset(
    (
        *("get", "items", "keys", "values", "index", "count", "copy", "union", "intersection", "difference"),
        *("symmetric_difference", "issubset", "issuperset", "isdisjoint"),
    )
)


class Objects:
    """The objects behind a method's variables, told from all its statements, whatever their order."""

    def __init__(
        self,
        method: Method,
        statements: Sequence[ast.stmt],
        sites: Mapping[int, Site],
        elements: Mapping[str, Element],
        kinds: Hints,
    ) -> None:
        self._method = method
        self._sites = sites
        self._elements = elements
        self._kinds = kinds
        self._parents: dict[str, str] = {}
        self._holders: dict[str, set[str]] = {}
        nodes = [node for statement in statements for node in ast.walk(statement)]
        bound = {name for node in nodes for name, _, _ in bindings(node, method.scope)}
        self._variables = bound | set(method.parameters)
        for node in nodes:
            for group in self._met(node):
                self._join(group)
            for name, value, _ in bindings(node, method.scope):
                self._hold(name, node if value is None else value)

    # --- what is one object

    def _root(self, name: str) -> str:
        while self._parents.get(name, name) != name:
            name = self._parents[name]
        return name

    def _join(self, names: Iterable[str]) -> None:
        first, *rest = [*names] or [""]
        for name in rest:
            self._parents[self._root(name)] = self._root(first)

    def same(self, name: str) -> frozenset[str]:
        """The variables that may be, hold, or be held by the object of a variable, and itself."""
        root = self._root(name)
        known = self._variables | {f"self.{element}" for element in self._elements}
        return frozenset(other for other in known if self._root(other) == root) | {name}

    def holders(self, name: str) -> frozenset[str]:
        """The variables that may hold a function or generator that reads a variable when it is run."""
        return frozenset(self._holders.get(name, ()))

    def _hold(self, name: str, value: ast.AST) -> None:
        for node in ast.walk(value):
            if isinstance(node, ast.Lambda | ast.GeneratorExp | ast.FunctionDef):
                for read in Names.of(node).reads & self._variables:
                    self._holders.setdefault(read, set()).add(name)

    def _met(self, node: ast.AST) -> Iterator[list[str]]:
        """The groups of variables that a node may make one object."""
        for name, value, _ in bindings(node, self._method.scope):
            if value is not None and not self._kinds.is_plain(name):
                yield [name, *self.names_in(value)]
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield [*self._places(target), *self.names_in(value)] if self._places(target) else []
            case ast.AugAssign(target=target, value=value):
                yield [*self.names_in(target), *self._places(target), *self.names_in(value)]
            case ast.Call(func=callee) if not self._leaves_alone(node):
                given = self._given(node)
                owner = [callee.value] if isinstance(callee, ast.Attribute) else [callee]
                site = self._sites.get(id(node))
                state = [f"self.{site.element}"] if site is not None else self._names(owner)
                yield [*state, *self._names(given)]

    def _places(self, target: ast.AST) -> list[str]:
        """The objects that an assignment puts something into."""
        parts = [part for part in ast.walk(target) if isinstance(part, ast.Subscript | ast.Attribute)]
        stored = [part for part in parts if isinstance(part.ctx, ast.Store)]
        found: list[str] = []
        for part in stored:
            site = self._sites.get(id(part))
            found += [f"self.{site.element}"] if site is not None else self.names_in(part.value)
        return found

    def _leaves_alone(self, node: ast.Call) -> bool:
        """Whether a call neither changes its arguments nor puts one into another."""
        meaning = self._meaning(node.func)
        return leaves_alone(meaning) or self._is_reading(node.func)

    def _names(self, nodes: Iterable[ast.AST]) -> list[str]:
        return [name for node in nodes for name in self.names_in(node)]

    def names_in(self, node: ast.AST) -> list[str]:
        """The variables that an expression's value may be, hold or be a part of; none if it can't be changed."""
        if isinstance(node, ast.expr) and not isinstance(node, ast.Starred):
            hint = self._kinds.hint(node)
            if is_frozen(hint):
                return []
        match node:
            case ast.Name(id=name):
                return [name] if name in self._variables and not self._kinds.is_plain(name) else []
            case ast.Compare():
                return []
            case ast.Call(func=callee) if is_fresh(self._meaning(callee)):
                return []
        site = self._sites.get(id(node))
        state = [f"self.{site.element}"] if site is not None else []
        return state + [name for child in ast.iter_child_nodes(node) for name in self.names_in(child)]

    # --- what is changed

    def changed_in(self, nodes: Iterable[ast.AST]) -> frozenset[str]:
        """The variables whose objects may be changed in place somewhere in some syntax."""
        return frozenset(name for node in nodes for part in ast.walk(node) for name in self.changed_by(part))

    def changed_by(self, node: ast.AST) -> Iterator[str]:
        """The variables whose objects a node itself may change in place, not counting its parts."""
        match node:
            case ast.AugAssign(target=ast.Name() as target):
                yield from self.names_in(target)
            case ast.AugAssign(target=target) if id(target) in self._sites:
                yield from self.names_in(target)
            case ast.Subscript(value=owner, ctx=ast.Store() | ast.Del()) if id(node) not in self._sites:
                yield from self.names_in(owner)
            case ast.Attribute(value=owner, ctx=ast.Store() | ast.Del()):
                yield from self.names_in(owner)
            case ast.Call():
                yield from self._changed_by_call(node)
            case ast.For(iter=walked) | ast.comprehension(iter=walked) | ast.Starred(value=walked, ctx=ast.Load()):
                yield from self._used_up([walked])
            case ast.Assign(targets=targets, value=value) if any(isinstance(t, ast.Tuple | ast.List) for t in targets):
                yield from self._used_up([value])
            case ast.Compare(ops=operators, comparators=others):
                asked = zip(operators, others, strict=True)
                yield from self._used_up([other for op, other in asked if isinstance(op, ast.In | ast.NotIn)])
            case ast.withitem(context_expr=context):
                yield from self.names_in(context)

    def _used_up(self, nodes: Iterable[ast.AST]) -> Iterator[str]:
        """What may be an iterator, and is walked through."""
        for name in self._names(nodes):
            if not self._kinds.is_walked_freely(ast.Name(name, ast.Load())):
                yield name

    def _given(self, node: ast.Call) -> list[ast.AST]:
        """What a call is given, without the key of an access: what can be a key can't be changed, or used up."""
        site = self._sites.get(id(node))
        given: list[ast.AST] = [*node.args, *(keyword.value for keyword in node.keywords)]
        return [part for part in given if site is None or part is not site.key]

    def _changed_by_call(self, node: ast.Call) -> Iterator[str]:
        given = self._given(node)
        meaning = self._meaning(node.func)
        if is_fresh(meaning):
            return
        if id(node) in self._sites or _only_holds(meaning) or leaves_alone(meaning):
            yield from self._used_up(given)
            return
        if not isinstance(node.func, ast.Attribute) or meaning is not MISSING:
            # Of a variable that is called nothing is known: it may change what it captured.
            yield from self._names([node.func, *given])
            return
        owner = node.func.value
        if not self._is_reading(node.func):
            yield from self.names_in(owner)
        builtin = self._kinds.is_walked_freely(owner)
        yield from self._used_up(given) if builtin else iter(self._names(given))

    def _is_reading(self, callee: ast.AST) -> bool:
        """Whether a callee is a method of a builtin type that changes nothing."""
        if not isinstance(callee, ast.Attribute) or self._meaning(callee) is not MISSING:
            return False
        hint = self._kinds.hint(callee.value)
        frozen = is_frozen(hint)
        return frozen or (callee.attr in _READING and self._kinds.is_walked_freely(callee.value))

    def _meaning(self, callee: ast.AST) -> Any:
        match callee:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == self._method.self_name:
                return getattr(self._method.owner, name, MISSING)
        return self._method.scope.resolve(callee)


def _only_holds(meaning: Any) -> bool:
    """Whether calling something makes an object that holds the arguments, and does no more."""
    if not isinstance(meaning, type):
        return False
    if issubclass(meaning, BaseException) or is_named_tuple(meaning):
        return True
    return dataclasses.is_dataclass(meaning) and not hasattr(meaning, "__post_init__")
