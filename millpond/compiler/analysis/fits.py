"""Which elements a row may leave with a value that does not fit their declared type.

What the compiler can tell for sure comes from columns, state, constants, and what operators and builtins make of them;
hints of variables and functions are only said. Where it can't tell, the row is looked at when it ends.
"""

from __future__ import annotations

import ast
import datetime
import types
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any, Final, Union, get_args, get_origin

from millpond.compiler.analysis.kinds import bindings, part_of
from millpond.compiler.analysis.record_types import fields_of, is_made_of_fields
from millpond.compiler.draft import Method, Site
from millpond.program import Element
from millpond.state.containers.matrix import Matrix

_SCALARS: Final = (int, float, str, bytes, bool)
_NUMBERS: Final = (int, float, bool)
_CALLS: Final[Mapping[Any, type]] = {
    **{kind: kind for kind in _SCALARS},
    **dict.fromkeys((len, ord, hash), int),
    **dict.fromkeys((repr, chr, format, ascii), str),
    **dict.fromkeys((any, all, isinstance, callable), bool),
}
_OF_TEXT: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("strip", "lstrip", "rstrip", "lower", "upper", "casefold", "title", "replace", "join"), str),
    **dict.fromkeys(("format", "removeprefix", "removesuffix", "zfill", "center", "ljust", "rjust"), str),
    **dict.fromkeys(("count", "find", "rfind", "index", "rindex"), int),
    **dict.fromkeys(("startswith", "endswith", "isdigit", "isalpha", "isalnum", "isspace"), bool),
    **dict.fromkeys(("split", "rsplit", "splitlines"), list[str]),
}
_PUTS: Final = frozenset(("append", "appendleft", "add", "insert", "setdefault"))
_PUTS_ITEMS: Final = frozenset(("extend", "extendleft", "update"))
_MADE: Final = (ast.List, ast.ListComp, ast.Dict, ast.DictComp, ast.Set, ast.SetComp)
_WALKS: Final = ("__iter__", "values", "items", "keys")


class Fits:
    """Looks at all that a method stores; a `closed` one hands no object that could be changed to unknown code."""

    def __init__(
        self, method: Method, sites: Mapping[int, Site], elements: Mapping[str, Element], *, closed: bool
    ) -> None:
        self._method = method
        self._closed = closed
        self._sites = sites
        self._elements = elements
        self._nodes = [node for statement in method.body for node in ast.walk(statement)]
        self._hints = dict(method.point.parameters)
        self._bound: dict[str, list[tuple[ast.AST | None, tuple[Any, ...]]]] = {}
        for node in self._nodes:
            for name, value, steps in bindings(node, method.scope):
                self._bound.setdefault(name, []).append((value, steps))
        self._asked: set[str] = set()

    def doubtful(self, names: list[str]) -> dict[str, ast.AST]:
        """Those of some elements that may get what does not fit, each with where.

        What is put into an object of another type may come out of it again, and get anywhere.
        """
        found: dict[str, ast.AST] = {}
        for node in self._nodes:
            for name in self._unfit(node, names):
                if name in names:
                    found.setdefault(name, node)
        return found

    def _unfit(self, node: ast.AST, every: list[str]) -> Iterator[str]:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from self._put(target, value, every)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield from self._put(target, value, every)
            case ast.AugAssign(target=target, op=operator, value=value):
                yield from self._added(target, operator, value, every)
            case ast.For(target=target) | ast.comprehension(target=target):
                yield from self._put(target, None, every)
            case ast.Call() if id(node) in self._sites:
                yield from self._stored(node, self._sites[id(node)])
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args) if name in (*_PUTS, *_PUTS_ITEMS):
                if not self._is_own(owner) and not self._takes(owner, name, args, node.keywords):
                    yield from every

    def _added(self, target: ast.expr, operator: ast.operator, value: ast.expr, every: list[str]) -> Iterator[str]:
        site = self._sites.get(id(target))
        hint = self.sure(target) if site is None else self._held(site)
        grows = get_origin(hint) in (list, set) and self.fits(value, hint)
        if hint is not None and (grows or _result(hint, operator, self.sure(value), value) == hint):
            return
        if site is not None:
            yield site.element
        elif hint not in _SCALARS or not isinstance(target, ast.Name):
            yield from every

    def _held(self, site: Site) -> Any:
        """The type of what is in a place of state."""
        kind = self._elements[site.element].type
        return kind.arguments[2] if kind.container is Matrix else kind.value_hint

    def _put(self, target: ast.expr, value: ast.expr | None, every: list[str]) -> Iterator[str]:
        site = self._sites.get(id(target))
        match target:
            case ast.Name():
                return
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                whole = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(parts) else None
                for at, part in enumerate(parts):
                    yield from self._put(part, whole[at] if whole else None, every)
            case ast.Starred(value=inner):
                yield from self._put(inner, None, every)
            case _ if site is not None:
                if value is None or not self.fits(value, self._held(site)):
                    yield site.element
            case ast.Subscript(value=owner) if self._is_own(owner):
                return
            case ast.Subscript(value=owner, slice=place):
                inside = self.sure(owner)
                keyed = get_origin(inside) is not dict or self.fits(place, get_args(inside)[0])
                hint = _item(inside)
                if value is None or hint is None or not keyed or not self.fits(value, hint):
                    yield from every
            case ast.Attribute(value=owner, attr=name):
                hint = _field(self.sure(owner), name)
                if value is None or hint is None or not self.fits(value, hint):
                    yield from every

    def _stored(self, node: ast.Call, site: Site) -> Iterator[str]:
        kind = self._elements[site.element].type
        operation = site.operations[-1]
        given = [one for one in (*node.args, *(keyword.value for keyword in node.keywords)) if one is not site.key]
        if operation in ("setdefault", "set", "append", "add"):
            fine = all(self.fits(one, kind.value_hint) for one in given)
        elif operation == "extend":
            fine = all(self.fits(one, types.GenericAlias(list, (kind.value_hint,))) for one in given)
        else:
            fine = operation != "update"
        if not fine and kind.container.__name__ != "Set":
            yield site.element

    def _is_own(self, owner: ast.expr) -> bool:
        """Whether a variable is a container that the method made itself, of which nothing is told."""
        if not isinstance(owner, ast.Name) or self.sure(owner) is not None:
            return False
        bound = self._bound.get(owner.id, [])
        return owner.id not in self._hints and all(isinstance(value, _MADE) and not steps for value, steps in bound)

    def _takes(self, owner: ast.expr, name: str, args: list[ast.expr], keywords: list[ast.keyword]) -> bool:
        """Whether what a method puts into an object fits its type."""
        inside = self.sure(owner)
        item = _item(inside)
        if item is None or keywords:
            return False
        if name in _PUTS_ITEMS:
            kind = inside if get_origin(inside) is dict else types.GenericAlias(list, (item,))
            return all(self.fits(one, kind) or self.fits(one, inside) for one in args)
        if name == "setdefault":
            return len(args) == 2 and self.fits(args[0], get_args(inside)[0]) and self.fits(args[1], item)
        return bool(args) and self.fits(args[-1], item)

    # --- values

    def fits(self, node: ast.AST, hint: Any) -> bool:
        """Whether a value surely is of a type."""
        if _is_one(self.sure(node), hint):
            return True
        if get_origin(hint) in (Union, types.UnionType):
            return any(self.fits(node, part) for part in get_args(hint))
        parts = get_args(hint)
        match node, get_origin(hint):
            case ast.IfExp(body=body, orelse=orelse), _:
                return self.fits(body, hint) and self.fits(orelse, hint)
            case (ast.List(elts=items), list_) if list_ is list:
                return all(self.fits(item, parts[0]) for item in items)
            case (ast.Set(elts=items), set_) if set_ is set:
                return all(self.fits(item, parts[0]) for item in items)
            case (ast.ListComp(elt=item), list_) if list_ is list:
                return self.fits(item, parts[0])
            case (ast.SetComp(elt=item), set_) if set_ is set:
                return self.fits(item, parts[0])
            case (ast.Dict(keys=keys, values=values), dict_) if dict_ is dict:
                fine = all(key is not None and self.fits(key, parts[0]) for key in keys)
                return fine and all(self.fits(value, parts[1]) for value in values)
            case (ast.DictComp(key=key, value=value), dict_) if dict_ is dict:
                return self.fits(key, parts[0]) and self.fits(value, parts[1])
            case (ast.Tuple(elts=items), tuple_) if tuple_ is tuple:
                return self._fits_tuple(items, parts)
            case ast.Call(), None:
                return isinstance(hint, type) and self._makes(node, hint)
            case ast.Call(func=callee, args=[], keywords=[]), kind:
                return self._method.scope.resolve(callee) is kind
        return False

    def _fits_tuple(self, items: list[ast.expr], parts: tuple[Any, ...]) -> bool:
        if len(parts) == 2 and parts[1] is Ellipsis:
            return all(self.fits(item, parts[0]) for item in items)
        return len(items) == len(parts) and all(map(self.fits, items, parts))

    def _makes(self, node: ast.Call, kind: type) -> bool:
        """Whether a call makes a record of fields that fit."""
        if self._method.scope.resolve(node.func) is not kind or not is_made_of_fields(kind):
            return False
        hints = fields_of(kind)
        names = [*getattr(kind, "__dataclass_fields__", getattr(kind, "_fields", ()))]
        given = [*zip(names, node.args, strict=False), *((one.arg or "", one.value) for one in node.keywords)]
        return len(node.args) <= len(names) and all(
            name in hints and self.fits(value, hints[name]) for name, value in given
        )

    def sure(self, node: ast.AST) -> Any:  # noqa: C901, PLR0912 - one case per kind
        """The type that a value surely has, None if that can't be told."""
        site = self._sites.get(id(node))
        if site is not None:
            return self._read(site)
        match node:
            case ast.Constant(value=value):
                return type(value)
            case ast.Name(id=name):
                return self._named(name)
            case ast.JoinedStr():
                return str
            case ast.List(elts=[ast.Starred(value=walked)]):
                item = _item(self.sure(walked))
                return None if item is None else types.GenericAlias(list, (item,))
            case ast.UnaryOp(op=ast.Not()):
                return bool
            case ast.UnaryOp(operand=operand):
                kind = self.sure(operand)
                return int if kind is bool else kind if kind in _NUMBERS else None
            case ast.Compare(left=left, ops=operators, comparators=others):
                plain = all(isinstance(one, ast.Is | ast.IsNot | ast.In | ast.NotIn) for one in operators)
                return bool if plain or all(self.sure(one) in _SCALARS for one in (left, *others)) else None
            case ast.BinOp(left=left, op=operator, right=right):
                return _result(self.sure(left), operator, self.sure(right), right)
            case ast.IfExp(body=one, orelse=other):
                return _same(self.sure(one), self.sure(other))
            case ast.BoolOp(values=values):
                return _same(*map(self.sure, values))
            case ast.NamedExpr(value=value):
                return self.sure(value)
            case ast.Subscript(value=value, slice=ast.Slice()):
                return self.sure(value)
            case ast.Subscript(value=value, slice=ast.Constant(value=int(at))) if get_origin(self.sure(value)) is tuple:
                found = part_of(self.sure(value), at)
                return None if found is Any else found
            case ast.Subscript(value=value):
                return _item(self.sure(value))
            case ast.Attribute(value=ast.Name(id=program), attr="now") if program == self._method.self_name:
                return datetime.datetime
            case ast.Attribute(value=owner, attr=name):
                return _field(self.sure(owner), name)
            case ast.Call():
                return self._called(node)
        return None

    def _named(self, name: str) -> Any:
        if name in self._asked:
            return None
        bound = self._bound.get(name, [])
        hints = [self._hints[name]] if name in self._hints else []
        if not bound:
            return hints[0] if hints else None
        self._asked.add(name)
        for value, steps in bound:
            if _adds_to(name, value):
                # Of itself and another: that is looked at as what it is otherwise.
                continue
            hint = None if value is None else self.sure(value)
            for step in steps:
                hint = part_of(hint, step) if hint is not None else None
            hints.append(None if hint is Any else hint)
        whole = _same(*hints) if hints else None
        added = [value for value, _ in bound if isinstance(value, ast.BinOp) and _adds_to(name, value)]
        fine = all(_result(whole, one.op, self.sure(one.right), one.right) == whole for one in added)
        self._asked.discard(name)
        return whole if fine else None

    def _read(self, site: Site) -> Any:
        kind = self._elements[site.element].type
        operation = site.operations[-1]
        if operation == "__len__":
            return int
        if operation in ("__contains__", "is_set"):
            return bool
        if kind.container is Matrix:
            return kind.arguments[2] if operation == "__getitem__" else None
        value = kind.value_hint
        if operation in _WALKS:
            return types.GenericAlias(list, (value,)) if operation in ("__iter__", "values") and kind.single else None
        if operation in ("get", "pop", "setdefault") and isinstance(site.node, ast.Call):
            default = site.node.args[0 if kind.single else 1 :]
            if site.node.keywords or (not default and operation != "pop"):
                return Union[value, None] if not site.node.keywords and operation == "get" else None  # noqa: UP007
            return value if all(self.fits(one, value) for one in default) else None
        return value if operation == "__getitem__" else None

    def _called(self, node: ast.Call) -> Any:
        meaning = self._method.scope.resolve(node.func)
        for function, kind in _CALLS.items():
            if meaning is function:
                return kind
        if meaning is range:
            return list[int]
        kinds = [self.sure(one) for one in node.args]
        if not kinds or node.keywords:
            return self._method_called(node)
        if meaning is round:
            return int if len(kinds) == 1 and kinds[0] in _NUMBERS else kinds[0] if kinds[0] in (int, float) else None
        if meaning is abs:
            return kinds[0] if kinds[0] in (int, float) else None
        if meaning is min or meaning is max:
            return _same(*kinds) if len(kinds) > 1 else _item(kinds[0])
        if meaning is sum:
            return int if len(kinds) == 1 and _item(kinds[0]) is int else None
        if meaning is sorted or meaning is list:
            item = _item(kinds[0])
            return types.GenericAlias(list, (item,)) if item is not None and get_origin(kinds[0]) is not dict else None
        return self._method_called(node)

    def _method_called(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Attribute):
            return None
        owner, name = self.sure(node.func.value), node.func.attr
        if owner is str:
            return _OF_TEXT.get(name)
        if get_origin(owner) is dict and name in ("get", "pop", "setdefault"):
            value = get_args(owner)[1]
            fine = len(node.args) == 2 and not node.keywords and self.fits(node.args[1], value)
            return value if fine or (name == "pop" and len(node.args) == 1) else None
        if get_origin(owner) is dict and name in ("keys", "values"):
            return types.GenericAlias(list, (get_args(owner)[name == "values"],))
        if get_origin(owner) is dict and name == "items":
            return types.GenericAlias(list, (types.GenericAlias(tuple, get_args(owner)),))
        return _item(owner) if get_origin(owner) is list and name == "pop" else None


def _adds_to(name: str, value: Any) -> bool:
    match value:
        case ast.BinOp(left=ast.Name(id=same)):
            return same == name
    return False


def _is_one(found: Any, hint: Any) -> bool:
    """Whether what is of one type is of another."""
    if found is None:
        return False
    if found == hint or (found is type(None) and hint is None):
        return True
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    own = get_args(found) if get_origin(found) in (Union, types.UnionType) else (found,)
    return all(any(one == part for part in parts) for one in own)


def _same(*hints: Any) -> Any:
    return hints[0] if all(hint == hints[0] for hint in hints) else None


def _item(hint: Any) -> Any:
    """The type of what lies under a key of a container, or is given by walking through one."""
    if hint is str:
        return str
    parts = get_args(hint)
    if get_origin(hint) is dict:
        return parts[1]
    if get_origin(hint) in (list, set, frozenset):
        return parts[0]
    return parts[0] if get_origin(hint) is tuple and len(parts) == 2 and parts[1] is Ellipsis else None


def _field(hint: Any, name: str) -> Any:
    if isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields")):
        return fields_of(hint).get(name)
    return None


def _result(left: Any, operator: ast.operator, right: Any, node: ast.AST) -> Any:
    """The type of what an operator makes of two values."""
    if left is str:
        longer = (right is str and isinstance(operator, ast.Add)) or (right is int and isinstance(operator, ast.Mult))
        return str if longer or isinstance(operator, ast.Mod) else None
    if left in _NUMBERS and right in _NUMBERS:
        whole = float if float in (left, right) else int
        match operator:
            case ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod():
                return whole
            case ast.Div():
                return float
            case ast.Pow():
                up = isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value >= 0
                return int if whole is int and up else None
            case ast.BitAnd() | ast.BitOr() | ast.BitXor() | ast.LShift() | ast.RShift() if whole is int:
                return bool if left is right is bool else int
        return None
    same = left == right and get_origin(left) is list and isinstance(operator, ast.Add)
    return left if same else None
