"""The helpers of a program: which of them touch state, and what has to be known of one to write it out at its call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeGuard

from millpond.compiler.draft import Draft, Method
from millpond.compiler.front.callees import is_class_method, is_helper, is_static, read_helper
from millpond.compiler.front.inlining.bound import loosely_bound
from millpond.compiler.front.inlining.renaming import comprehension_names
from millpond.compiler.front.restrict import check_inlined
from millpond.compiler.front.scope import Names, Scope
from millpond.compiler.ir.patterns import is_each, is_merged

_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# What takes all of an iterable, or is done with a function, before it returns; and what only passes them on.
_CONSUMERS: Final = (sum, list, tuple, set, frozenset, dict, sorted, min, max, any, all)
_PASSERS: Final = (map, filter, zip, enumerate, reversed)
_CONSUMING_METHODS: Final = frozenset(("join", "sort", "extend", "update"))


@dataclass(frozen=True)
class Helper:
    """A helper that touches state, with what matters when its body is written out at a call.

    `loose` are variables that may be read while they have no value, `rebound` parameters that get another one, `inner`
    the names that scopes within it bind, `captured` the variables of functions and generators in it that may be used
    after it returned, of which `outliving` is the first. `objects` are the names of which a part is taken, that are
    called or formatted, `compared` those that are compared by `is`: constants don't belong there.
    """

    method: Method
    self_name: str
    loose: frozenset[str]
    rebound: frozenset[str]
    inner: frozenset[str]
    captured: frozenset[str]
    outliving: ast.AST | None
    objects: frozenset[str]
    compared: frozenset[str]

    @property
    def name(self) -> str:
        """What it is called."""
        return self.method.name

    @property
    def locals(self) -> frozenset[str]:
        """Its variables and parameters, without itself."""
        return self.method.scope.locals - {self.self_name}

    @property
    def outside(self) -> frozenset[str]:
        """The names in it that may mean something outside; rather too many."""
        names = (node.id for node in ast.walk(self.method.tree) if isinstance(node, ast.Name))
        return frozenset(names) - self.method.scope.locals


class Helpers:
    """The helpers of a program, each read once."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._methods: dict[str, Method] = {}
        self._known: dict[str, Helper] = {}

    def touching(self, method: Method) -> frozenset[str]:
        """The helpers that a method uses, directly or not, and that touch state, directly or not."""
        uses = self._uses(method)
        touching = {name for name in uses if self._touches(name)}
        while True:
            more = {name for name, used in uses.items() if used & touching} - touching
            if not more:
                return frozenset(touching)
            touching |= more

    def _uses(self, method: Method) -> dict[str, frozenset[str]]:
        """Each helper that can be reached, with the helpers that it uses itself."""
        uses: dict[str, frozenset[str]] = {}
        waiting = list(self._used(method.tree, method.self_name))
        while waiting:
            name = waiting.pop()
            if name not in uses:
                uses[name] = self._used(self._method(name).tree, self._self_name(name))
                waiting += uses[name]
        return uses

    def _used(self, tree: ast.AST, self_name: str) -> frozenset[str]:
        own = (node.attr for node in ast.walk(tree) if is_own(node, self_name))
        return frozenset(name for name in own if is_helper(self._draft.program, name))

    def _method(self, name: str) -> Method:
        if name not in self._methods:
            self._methods[name] = read_helper(self._draft.program, name)
        return self._methods[name]

    def _self_name(self, name: str) -> str:
        return "" if is_static(self._draft.program, name) else self._method(name).self_name

    def _touches(self, name: str) -> bool:
        method = self._method(name)
        # A class has no state: what a class method wants with it is refused where it is written.
        elements = () if is_class_method(self._draft.program, name) else (*self._draft.elements, "now", "random")
        return any(
            (is_own(node, self._self_name(name)) and node.attr in elements)
            or is_each(node, method.scope)
            or is_merged(node, method.scope)
            for node in ast.walk(method.tree)
        )

    def __getitem__(self, name: str) -> Helper:
        """A helper that touches state, checked."""
        if name not in self._known:
            method = self._method(name)
            check_inlined(self._draft, method)
            variables = method.scope.locals
            given = {node.arg for node in ast.walk(method.tree.args) if isinstance(node, ast.arg)}
            bound = Names.of(*method.tree.body)
            late = {node: _late_reads(node) & variables for node in _outliving(method.tree, method.scope)}
            self._known[name] = Helper(
                method,
                self._self_name(name),
                loosely_bound(method.tree.body, variables, given),
                (bound.binds | bound.unbinds) & given,
                frozenset(_bound_inside(method.tree)),
                frozenset(name for names in late.values() for name in names),
                next((node for node, names in late.items() if names), None),
                frozenset(_names_of(_objects(method.tree))),
                frozenset(_names_of(_compared(method.tree))),
            )
        return self._known[name]


def is_own(node: ast.AST, self_name: str) -> TypeGuard[ast.Attribute]:
    """Whether a node is `self.name`."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == self_name


def _bound_inside(tree: ast.FunctionDef) -> Iterator[str]:
    """The names that functions and comprehensions within a function have for themselves."""
    for node in (node for statement in tree.body for node in ast.walk(statement)):
        if isinstance(node, _COMPREHENSIONS):
            yield from comprehension_names(node)
        elif isinstance(node, ast.FunctionDef | ast.Lambda):
            yield from (part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg))
            yield from Names.of(*(node.body if isinstance(node.body, list) else [node.body])).binds


def _objects(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.Call(func=value):
                yield value
            case ast.JoinedStr():
                # Not every constant can be shown again inside a formatted string.
                yield from ast.walk(node)


def _compared(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops):
            yield from (node.left, *node.comparators)


def _names_of(nodes: Iterator[ast.AST]) -> Iterator[str]:
    return (node.id for node in nodes if isinstance(node, ast.Name))


def _outliving(tree: ast.FunctionDef, scope: Scope) -> Iterator[ast.AST]:
    """The functions and generators within a function that may be used after it returned."""

    def find(node: ast.AST, *, consumed: bool) -> Iterator[ast.AST]:
        if isinstance(node, ast.FunctionDef | ast.Lambda | ast.GeneratorExp) and not consumed:
            yield node
        inside = isinstance(node, ast.Call) and _consumes(node, scope, consumed=consumed)
        through = consumed and isinstance(node, ast.keyword | ast.Starred)
        for child in ast.iter_child_nodes(node):
            yield from find(child, consumed=inside or through)

    for statement in tree.body:
        yield from find(statement, consumed=False)


def _consumes(node: ast.Call, scope: Scope, *, consumed: bool) -> bool:
    """Whether a call is done with its arguments when it, or what takes its result at once, returns."""
    if isinstance(node.func, ast.Attribute) and node.func.attr in _CONSUMING_METHODS:
        return True
    meaning = scope.resolve(node.func)
    return any(meaning is known for known in (*_CONSUMERS, *(_PASSERS if consumed else ())))


def _late_reads(node: ast.AST) -> frozenset[str]:
    """What a function or a generator reads when it runs, not when it is made."""
    if isinstance(node, ast.GeneratorExp):
        first = node.generators[0]
        late = [first.target, *first.ifs, *node.generators[1:], node.elt]
        return Names.of(*late).reads - comprehension_names(node)
    return Names.of(node).reads
