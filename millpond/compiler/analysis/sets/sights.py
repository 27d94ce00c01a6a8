"""Whether any row may see the order of a set that came out of state.

Needs: Method.tree and scope.
Leaves: Draft.sees_sets. If nobody sees an order, sets in state need not be put into one when a row ends: a row that
adds a member to a large set costs no more than that.

The proof is by the form of expressions: what came out of state is only asked for members, compared, changed, put
together with other sets, sorted, and stored. Whatever else is done to it may see its order.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, get_args

from millpond.compiler.analysis.sets.kinds import holds_set, is_set
from millpond.compiler.draft import Draft, Method
from millpond.compiler.front.callees import is_helper, read_helper
from millpond.compiler.front.inlining.helpers import is_own
from millpond.program import Element

_BLIND: Final = (len, bool, isinstance, set, frozenset, sorted, min, max, any, all)
_COPIES: Final = (set, frozenset)
_BLIND_WORDS: Final = frozenset(("default", "reverse"))
_CHANGES: Final = frozenset(
    (
        *("add", "discard", "remove", "update", "clear", "intersection_update", "difference_update"),
        *("symmetric_difference_update", "issubset", "issuperset", "isdisjoint"),
    )
)
"""Methods of a set that tell nothing of its order, and give nothing that has one."""

_COMBINES: Final = frozenset(("union", "intersection", "difference", "symmetric_difference", "copy"))
_PARTS: Final = frozenset(("get", "setdefault", "items", "values", "keys"))
"""Methods of a dict; its `pop` looks like that of a set, which tells the order."""

_SET_OPERATORS: Final = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)


def find_set_sights(draft: Draft) -> Draft:
    """Find out whether some row may see the order of a set in state."""
    held = {name: one for name, one in draft.elements.items() if one.type.holds_objects and one.type.values.holds_sets}
    if not held:
        return replace(draft, sees_sets=False)
    if any(_nests(element.type.value_hint) for element in held.values()):
        return draft
    methods = [(method, True) for method in draft.methods]
    names = {node.attr for method in draft.methods for node in ast.walk(method.tree) if isinstance(node, ast.Attribute)}
    known: set[str] = set()
    while names - known:
        name = min(names - known)
        known.add(name)
        if is_helper(draft.program, name):
            helper = read_helper(draft.program, name)
            methods.append((helper, False))
            names |= {node.attr for node in ast.walk(helper.tree) if isinstance(node, ast.Attribute)}
    return replace(draft, sees_sets=any(_Sight(method, held, entry=entry).sees() for method, entry in methods))


def _nests(hint: Any) -> bool:
    """Whether a set has sets in its members, which sorting leaves as they are, or is a part of a record."""
    if is_set(hint):
        return any(map(holds_set, get_args(hint)))
    if not get_args(hint):
        return isinstance(hint, type) and hint.__module__ != "builtins"
    return any(map(_nests, get_args(hint)))


class _Sight:
    """Looks at all that a method does with what came out of state."""

    def __init__(self, method: Method, held: Mapping[str, Element], *, entry: bool) -> None:
        self._method = method
        self._held = held
        self._entry = entry
        self._nodes = [node for statement in method.tree.body for node in ast.walk(statement)]
        self._parents = {id(child): node for node in self._nodes for child in ast.iter_child_nodes(node)}
        self._names: set[str] = set()

    def sees(self) -> bool:
        """Whether the order of a set may be seen."""
        while self._spread():
            pass
        return any(map(self._may_see, self._nodes))

    def _spread(self) -> bool:
        """Find variables that hold what came out of state; False once there are no more."""
        before = len(self._names)
        for node in self._nodes:
            match node:
                case ast.Assign(targets=targets, value=value) if self._gives(value):
                    self._names.update(name for target in targets for name in _roots(target))
                case ast.AnnAssign(target=target, value=ast.expr() as value) if self._gives(value):
                    self._names.update(_roots(target))
                case ast.NamedExpr(target=target, value=value) if self._gives(value):
                    self._names.update(_roots(target))
                case ast.AugAssign(target=target, value=value) if self._gives(value):
                    self._names.update(_roots(target))
                case ast.For(target=target, iter=walked) | ast.comprehension(target=target, iter=walked):
                    if self._gives(walked):
                        self._names.update(_roots(target))
        self._names.discard(self._method.self_name)
        return len(self._names) > before

    def _is_element(self, node: ast.AST) -> bool:
        return is_own(node, self._method.self_name) and node.attr in self._held

    def _gives(self, node: ast.AST) -> bool:
        """Whether a value is, or holds, a set that came out of state, or one that was made of such."""
        match node:
            case ast.Name(id=name):
                return name in self._names
            case ast.Attribute(value=value):
                return self._is_element(node) or self._gives(value)
            case ast.Subscript(value=value):
                return self._gives(value)
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if self._gives(owner):
                return name not in _CHANGES
            case ast.Call(func=function, args=args):
                copies = any(self._method.scope.resolve(function) is one for one in _COPIES)
                return copies and any(map(self._gives, args))
            case ast.Compare() | ast.Constant() | ast.UnaryOp(op=ast.Not()) | ast.JoinedStr():
                return False
        return any(map(self._gives, ast.iter_child_nodes(node)))

    def _may_see(self, node: ast.AST) -> bool:
        parent = self._parents.get(id(node))
        if isinstance(node, ast.Name) and node.id == self._method.self_name:
            return not isinstance(parent, ast.Attribute)
        if not isinstance(node, ast.expr) or not self._gives(node):
            return False
        return not self._is_blind(node, parent)

    def _is_blind(self, node: ast.expr, parent: ast.AST | None) -> bool:
        """Whether what is done with such a value tells no order."""
        match parent:
            case ast.Expr() | ast.Subscript() | ast.Compare() | ast.BoolOp() | ast.IfExp() | ast.NamedExpr():
                return True
            case ast.If() | ast.While() | ast.Assert() | ast.Delete() | ast.UnaryOp(op=ast.Not()):
                return True
            case ast.Return():
                return self._entry and any(parent is one for one in _own_statements(self._method.tree))
            case ast.Assign(targets=targets):
                return any(node is target for target in targets) or all(map(_is_place, targets))
            case ast.AnnAssign(target=target):
                return _is_place(target)
            case ast.AugAssign(op=op) | ast.BinOp(op=op):
                return isinstance(op, _SET_OPERATORS)
            case ast.Attribute():
                return self._is_blind_method(node, parent)
            case ast.Call():
                return self._is_blind_call(node, parent)
            case ast.Tuple() | ast.List() | ast.Dict():
                return True
            case ast.For(iter=walked) | ast.comprehension(iter=walked):
                return node is not walked or self._is_element(node) or _is_walk_of_dict(node)
            case ast.ListComp() | ast.DictComp():
                return True
        return False

    def _is_blind_method(self, owner: ast.expr, member: ast.Attribute) -> bool:
        call = self._parents.get(id(member))
        called = isinstance(call, ast.Call) and call.func is member
        return called and (self._is_element(owner) or member.attr in _CHANGES | _COMBINES | _PARTS)

    def _is_blind_call(self, node: ast.expr, call: ast.Call) -> bool:
        if node is call.func:
            return True
        meaning = self._method.scope.resolve(call.func)
        if any(meaning is one for one in _BLIND):
            return all(word.arg in _BLIND_WORDS for word in call.keywords)
        match call.func:
            case ast.Attribute(value=owner, attr=name):
                made = isinstance(owner, ast.Set) or self._gives(owner)
                return self._is_element(owner) or (made and name in _CHANGES | _COMBINES | _PARTS)
        return False


def _roots(target: ast.AST) -> Iterator[str]:
    """The variables that a target is, or is a part of."""
    yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _is_place(target: ast.expr) -> bool:
    return isinstance(target, ast.Name | ast.Subscript) and not (
        isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice)
    )


def _is_walk_of_dict(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"items", "values"}


def _own_statements(tree: ast.FunctionDef) -> Iterator[ast.AST]:
    """The statements of a method, without those of functions in it."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
