"""The order of Python's sets, which is no order: it depends on the hash seed, and on what was put in when.

Needs: Method.tree, source and scope.
Leaves: the draft as it is. Refused is what lets the order of a set be seen: a loop over it, a list of it, its text.
What is a set is told by hints, by what variables were assigned last, and by the types of state; the state container
`Set` has an order, and is none of them. A set that an unknown function returns is not seen.
"""

from __future__ import annotations

import ast
import collections
import types
import typing
from collections.abc import Iterator, Mapping, MutableSet
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_args, get_origin

from millpond.compiler.callees import is_helper, is_static, read_helper
from millpond.compiler.diagnostics import refuse
from millpond.compiler.draft import Draft, Method
from millpond.compiler.helpers import is_own
from millpond.compiler.mutability import field_of
from millpond.errors import ProgramError
from millpond.program import Element

Hints = dict[str, Any]
"""What is known of the variables: the type of each, None where nothing is."""

_SETS: Final = (set, frozenset, AbstractSet, MutableSet)
_SET_METHODS: Final = frozenset(("union", "intersection", "difference", "symmetric_difference", "copy"))
_SET_OPERATORS: Final = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
_VIEWS: Final = frozenset(("keys", "items"))
_BLIND: Final = (len, set, frozenset, any, all, bool, isinstance, type)
_BLIND_UNLESS_KEYED: Final = (sorted, min, max)
_PASSING: Final = (list, tuple, map, filter, iter)
_SEEING: Final = (*_PASSING, enumerate, zip, str, repr, format, ascii, collections.deque, next)
_SEEING_METHODS: Final = frozenset(("join", "extend", "fromkeys", "writelines"))
_READS: Final = frozenset(("get", "setdefault", "pop"))


def check_set_order(draft: Draft) -> Draft:
    """Refuse what lets the order of a set be seen, in methods and in the helpers that they call."""
    waiting = [(method, method.self_name) for method in draft.methods]
    seen: set[str] = set()
    while waiting:
        method, self_name = waiting.pop()
        _Walk(method, self_name, draft.elements).block(method.tree.body, _parameters(method))
        for name in {node.attr for node in ast.walk(method.tree) if is_own(node, self_name)} - seen:
            seen.add(name)
            if is_helper(draft.program, name):
                helper = read_helper(draft.program, name)
                waiting.append((helper, "" if is_static(draft.program, name) else helper.self_name))
    return draft


def _parameters(method: Method) -> Hints:
    if method.point.parameters:
        return dict(method.point.parameters)
    try:
        return typing.get_type_hints(method.point.function)
    except (NameError, TypeError):
        return {}


def _is_set(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return _is_set(get_args(hint)[0])
    if get_origin(hint) in (typing.Union, types.UnionType):
        return any(map(_is_set, get_args(hint)))
    return hint in _SETS or get_origin(hint) in _SETS


@dataclass
class _Walk:
    """A walk through a method in the order of its statements, with what is known of its variables."""

    method: Method
    self_name: str
    elements: Mapping[str, Element]

    # --- statements

    def block(self, statements: list[ast.stmt], known: Hints) -> Hints:
        """Check statements, and return what is known after them."""
        for statement in statements:
            known = self._statement(statement, known)
        return known

    def _statement(self, node: ast.stmt, known: Hints) -> Hints:
        match node:
            case ast.If(test=test, body=body, orelse=orelse):
                self._check(test, known)
                return _joined(self.block(body, dict(known)), self.block(orelse, dict(known)))
            case ast.For(target=target, iter=walked, body=body, orelse=orelse):
                self._check_walked(walked, known, blind=False)
                inside = dict(known)
                self._bind(target, self._item(walked, known), inside)
                return self.block(orelse, self._loop(body, known, inside))
            case ast.While(test=test, body=body, orelse=orelse):
                self._check(test, known)
                return self.block(orelse, self._loop(body, known, dict(known)))
            case ast.Try():
                after = self.block(node.body, dict(known))
                between = _joined(known, after)
                ways = [self.block(handler.body, dict(between)) for handler in node.handlers]
                return self.block(node.finalbody, _joined(self.block(node.orelse, after), *ways))
            case ast.With(items=items, body=body):
                for item in items:
                    self._check(item.context_expr, known)
                return self.block(body, known)
            case ast.Match(subject=subject, cases=cases):
                self._check(subject, known)
                return _joined(known, *(self.block(case.body, dict(known)) for case in cases))
            case ast.FunctionDef(body=body):
                self.block(body, dict(known))
                return known
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._check(child, known)
        return self._assigned(node, known)

    def _loop(self, body: list[ast.stmt], before: Hints, inside: Hints) -> Hints:
        # Twice, since what a turn leaves behind is what the next one finds.
        once = _joined(inside, self.block(body, dict(inside)))
        return _joined(before, self.block(body, once))

    def _assigned(self, node: ast.stmt, known: Hints) -> Hints:
        match node:
            case ast.Assign(targets=targets, value=value):
                hint = self._hint(value, known)
                for target in targets:
                    if isinstance(target, ast.Tuple | ast.List) and _is_set(hint):
                        raise self._refuse(value)
                    self._bind(target, hint, known)
            case ast.AnnAssign(target=target, value=value):
                meaning = self.method.scope.resolve(node.annotation)
                written = meaning if isinstance(meaning, type) else None
                self._bind(target, self._hint(value, known) or written if value else written, known)
            case ast.AugAssign(target=ast.Name(), op=ast.Add(), value=value) if _is_set(self._hint(value, known)):
                raise self._refuse(value)
        return known

    def _bind(self, target: ast.expr, hint: Any, known: Hints) -> None:
        if isinstance(target, ast.Name):
            known[target.id] = hint
        elif isinstance(target, ast.Tuple | ast.List):
            parts = get_args(hint) if get_origin(hint) is tuple else ()
            whole = len(parts) == len(target.elts) and Ellipsis not in parts
            for place, part in enumerate(target.elts):
                self._bind(part, parts[place] if whole else None, known)

    # --- expressions: what lets an order be seen

    def _check(self, node: ast.AST, known: Hints, *, blind: bool = False) -> None:
        """Check an expression; `blind` if the order of what it gives can't be seen."""
        match node:
            case ast.Call():
                self._check_call(node, known, blind=blind)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                self._check_comprehension(node, known, blind=blind or isinstance(node, ast.SetComp))
            case ast.Starred(value=value, ctx=ast.Load()) if not blind and _is_set(self._hint(value, known)):
                raise self._refuse(value)
            case ast.FormattedValue(value=value) if _is_set(self._hint(value, known)):
                raise self._refuse(value)
            case ast.NamedExpr(target=target, value=value):
                self._check(value, known)
                self._bind(target, self._hint(value, known), known)
            case _:
                for child in ast.iter_child_nodes(node):
                    self._check(child, known, blind=isinstance(node, ast.Set))

    def _check_call(self, node: ast.Call, known: Hints, *, blind: bool) -> None:
        meaning = self.method.scope.resolve(node.func)
        if isinstance(node.func, ast.Attribute):
            self._check(node.func.value, known)
            owner = self._hint(node.func.value, known)
            if node.func.attr == "pop" and _is_set(owner):
                raise self._refuse(node)
            if _is_set(owner):
                # A method of a set takes others without their order.
                blind, meaning = True, set
        keyed = next((word.value for word in node.keywords if word.arg == "key"), None)
        if any(meaning is function for function in _BLIND_UNLESS_KEYED):
            inside = keyed is None or _tells_apart(keyed)
        elif meaning is sum:
            inside = bool(node.args) and self._adds_integers(node.args[0], known)
        else:
            passing = blind and any(meaning is function for function in _PASSING)
            inside = passing or any(meaning is function for function in _BLIND)
        seeing = any(meaning is function for function in (*_SEEING, *_BLIND_UNLESS_KEYED, sum)) or (
            isinstance(node.func, ast.Attribute) and node.func.attr in _SEEING_METHODS
        )
        for argument in node.args:
            if not inside and seeing and _is_set(self._hint(argument, known)):
                raise self._refuse(argument)
            self._check(argument, known, blind=inside)
        for word in node.keywords:
            self._check(word.value, known)

    def _check_comprehension(self, node: Any, known: Hints, *, blind: bool) -> None:
        inner = dict(known)
        for part in node.generators:
            self._check_walked(part.iter, inner, blind=blind)
            self._bind(part.target, self._item(part.iter, inner), inner)
            for test in part.ifs:
                self._check(test, inner)
        for result in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self._check(result, inner)

    def _check_walked(self, walked: ast.expr, known: Hints, *, blind: bool) -> None:
        if not blind and _is_set(self._hint(walked, known)):
            raise self._refuse(walked)
        self._check(walked, known, blind=blind)

    def _adds_integers(self, node: ast.expr, known: Hints) -> bool:
        """Whether a sum does not depend on the order: that of floats is rounded at each step."""
        if not isinstance(node, ast.GeneratorExp | ast.ListComp):
            return get_args(self._hint(node, known))[:1] == (int,)
        inner = dict(known)
        for part in node.generators:
            self._bind(part.target, self._item(part.iter, inner), inner)
        return self._is_integer(node.elt, inner)

    def _is_integer(self, node: ast.expr, known: Hints) -> bool:
        match node:
            case ast.Constant(value=value):
                return isinstance(value, int)
            case ast.Compare():
                return True
            case ast.Call(func=function):
                meaning = self.method.scope.resolve(function)
                return any(meaning is known for known in (len, int, ord))
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod(), right=right):
                return self._is_integer(left, known) and self._is_integer(right, known)
            case ast.UnaryOp(operand=operand):
                return self._is_integer(operand, known)
        return self._hint(node, known) in (int, bool)

    def _refuse(self, node: ast.AST) -> ProgramError:
        return refuse(
            "MP177",
            "the order of a set would be seen",
            self.method.source,
            node,
            expected="an order that is the same at every run",
            hint="use sorted(...) of it; in `key=`, let the item itself break ties: key=lambda x: (rank[x], x)",
        )

    # --- expressions: what is known of their types

    def _hint(self, node: ast.expr | None, known: Hints) -> Any:
        match node:
            case ast.Name(id=name):
                return known.get(name)
            case ast.Set() | ast.SetComp():
                return set
            case ast.IfExp(body=one, orelse=other):
                return _either(self._hint(one, known), self._hint(other, known))
            case ast.BoolOp(values=values):
                return _either(*(self._hint(value, known) for value in values))
            case ast.NamedExpr(value=value):
                return self._hint(value, known)
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _SET_OPERATORS):
                sides = (left, right)
                views = any(_is_view(side) for side in sides)
                return set if views else _either(*(self._hint(side, known) for side in sides))
            case ast.Call():
                return self._call_hint(node, known)
            case ast.Subscript(value=value, slice=at):
                return self._part(value, at, known)
            case ast.Attribute(value=value, attr=name):
                return field_of(self._hint(value, known), name)
        return None

    def _call_hint(self, node: ast.Call, known: Hints) -> Any:
        meaning = self.method.scope.resolve(node.func)
        if meaning is set or meaning is frozenset:
            item = self._item(node.args[0], known) if node.args else None
            return set if item is None else set[item]  # type: ignore[valid-type]
        if not isinstance(node.func, ast.Attribute):
            return None
        owner, name = node.func.value, node.func.attr
        element = self._element(owner)
        if element is not None:
            return element.type.value_hint if name in _READS and element.type.operations[name].shares else None
        hint = self._hint(owner, known)
        if _is_set(hint):
            return hint if name in _SET_METHODS else None
        return get_args(hint)[1] if get_origin(hint) is dict and name in _READS else None

    def _part(self, value: ast.expr, at: ast.expr, known: Hints) -> Any:
        element = self._element(value)
        if element is not None:
            return element.type.value_hint
        hint = self._hint(value, known)
        if get_origin(hint) is tuple and isinstance(at, ast.Constant) and isinstance(at.value, int):
            parts = get_args(hint)
            return parts[at.value] if -len(parts) <= at.value < len(parts) and Ellipsis not in parts else None
        return get_args(hint)[-1] if get_origin(hint) in (list, dict) and not isinstance(at, ast.Slice) else None

    def _element(self, node: ast.expr) -> Element | None:
        return self.elements.get(node.attr) if is_own(node, self.self_name) else None

    def _item(self, walked: ast.expr, known: Hints) -> Any:
        """The type of what a loop over an expression gives."""
        match walked:
            case ast.Call(func=ast.Attribute(value=owner, attr="values" | "items" as name)):
                element, hint = self._element(owner), self._hint(owner, known)
                parts: tuple[Any, ...] = get_args(hint) if get_origin(hint) is dict else ()
                if element is not None:
                    parts = (element.type.key_hint, element.type.value_hint)
                if len(parts) != 2:
                    return None
                return parts[1] if name == "values" else types.GenericAlias(tuple, parts)
            case ast.Call(func=function, args=[inner, *_]):
                meaning = self.method.scope.resolve(function)
                if any(meaning is passing for passing in (sorted, list, tuple, set, frozenset)):
                    return self._item(inner, known)
        hint = self._hint(walked, known)
        return get_args(hint)[0] if get_origin(hint) in (list, tuple, dict, *_SETS) and get_args(hint) else None


def _is_view(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS


def _tells_apart(key: ast.expr) -> bool:
    """Whether a key function can't give one key to two members: it is, or holds, the member itself."""
    if not isinstance(key, ast.Lambda) or len(key.args.args) != 1:
        return False
    member = key.args.args[0].arg
    parts = key.body.elts if isinstance(key.body, ast.Tuple) else [key.body]
    return any(isinstance(part, ast.Name) and part.id == member for part in parts)


def _either(*hints: Any) -> Any:
    """A set if one of them may be one."""
    return next((hint for hint in hints if _is_set(hint)), next(iter(hints), None))


def _joined(*ways: Hints) -> Hints:
    """What is known where several ways meet."""
    names: Iterator[str] = iter(dict.fromkeys(name for way in ways for name in way))
    return {name: _either(*(way[name] for way in ways if name in way)) for name in names}
