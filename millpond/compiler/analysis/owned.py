"""Which elements a row may leave with an object that is in two places, or in one that outlives the row.

Needs: Method.body, Method.pieces, Draft.sees_sets.
Leaves: Method.renews: the elements whose places are made values again at the end of each row. For the others it is
proven that nobody could tell: each object that a row puts into state was made for that place, or can't be changed.

The proof is by the form of statements, whatever their order: all that is put into anything is plain (it can't be
changed) or fresh (made by the very expression), and nothing that could be changed is handed to code that is not known.
"""

from __future__ import annotations

import ast
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass, replace
from functools import cached_property
from typing import Any, Final, get_args, get_origin

from millpond.compiler.analysis.fits import Fits
from millpond.compiler.analysis.kinds import Kinds
from millpond.compiler.analysis.mutability import is_frozen, items_of
from millpond.compiler.analysis.record_types import fields_of, has_code, is_made_of_fields, remembers, sets_plainly
from millpond.compiler.analysis.sharing import Sharing
from millpond.compiler.draft import Draft, Method
from millpond.compiler.front.scope import MISSING
from millpond.compiler.ir.jumps import Branch, Jump
from millpond.compiler.ir.patterns import Sites, is_each, is_merged
from millpond.program import Element
from millpond.state.codec.typenames import type_text
from millpond.state.containers.counter import Counter
from millpond.state.containers.value import Value

_READERS: Final = (
    *(len, sum, min, max, sorted, any, all, abs, round, str, repr, int, float, bool, bytes, range, enumerate, zip),
    *(reversed, isinstance, list, tuple, dict, set, frozenset, ord, chr, divmod, pow, format, print),
)
"""Functions that change nothing of what they are given, and keep nothing but in their result."""

_MAKERS: Final = (list, tuple, dict, set, frozenset, sorted, deque)
"""Functions that make a new container of the items that they are given."""

_PUTS: Final = frozenset(("append", "appendleft", "add", "insert", "setdefault", "discard", "remove"))
_PUTS_ITEMS: Final = frozenset(("extend", "extendleft", "update"))
_LOOKS: Final = frozenset(
    (
        *("get", "pop", "popleft", "popitem", "items", "keys", "values", "index", "count", "copy", "clear", "sort"),
        *("reverse", "union", "intersection", "difference", "issubset", "issuperset", "isdisjoint", "rotate"),
        "most_common",
    )
)
"""Methods of Python's own containers that put nothing into them but a default."""

_BUILT_IN: Final = (list, dict, set, frozenset, tuple, deque, defaultdict)


def find_owned(draft: Draft) -> Draft:
    """Find the elements of each method whose places must be made values again."""
    return replace(draft, methods=tuple(_owned(method, draft) for method in draft.methods))


def _owned(method: Method, draft: Draft) -> Method:
    again = Sharing(method, method.body, draft.elements).stored_again()
    return replace(method, renews=_renews(method, draft), copies=tuple(again))


def _renews(method: Method, draft: Draft) -> dict[str, str]:
    """The elements whose places must be made values again, each with the reason."""
    elements = draft.elements
    accesses = [access for piece in method.pieces for access in piece.accesses]
    # Only what rows work on as ordinary objects: others keep their values to themselves.
    hints = {
        access.state: elements[access.state].type.value_hint
        for access in accesses
        if elements[access.state].type.holds_objects
    }
    written = sorted({access.state for access in accesses if access.writes and access.state in hints})
    changed = [name for name in written if not is_frozen(hints[name])]
    renewed = {name: "its values keep what they compute" for name, hint in hints.items() if remembers(hint)}
    for name in written:
        # The order of a set tells of its past, that of a frozenset too.
        if draft.sees_sets and elements[name].type.values.holds_sets:
            renewed.setdefault(name, "its values hold sets, whose order tells of their past")
        elif name in changed and has_code(hints[name]):
            renewed.setdefault(name, "its values run code of their own when they are compared or walked through")
    proof = _Proof(method, elements)
    doubtful = proof.doubtful()
    if doubtful is not None and not renewed.keys() >= set(changed):
        why = _told(method, doubtful, "may leave an object in two places")
        renewed = {**dict.fromkeys(changed, why), **renewed}
    counted = {one.state for one in accesses if one.writes and elements[one.state].type.container is Counter}
    left = sorted({*written, *counted} - renewed.keys())
    misfits = proof.misfits(left, closed=doubtful is None)
    return renewed | {
        name: _told(method, node, f"may store what is no {type_text(elements[name].type.value_hint)}")
        for name, node in misfits.items()
    }


def _told(method: Method, node: ast.AST, what: str) -> str:
    line = method.source.origin(getattr(node, "lineno", method.source.first))[1]
    return f"line {line} {what}: {method.source.text(node)}"


class _Proof:
    """Looks at all that a method does to objects."""

    def __init__(self, method: Method, elements: Mapping[str, Element]) -> None:
        self._method = method
        self._elements = elements
        finder = Sites(method, elements)
        self._sites = {id(site.node): site for statement in method.body for site in finder.of(statement)}
        self._kinds = Kinds(method, list(method.body), self._sites, elements)

    def doubtful(self) -> ast.AST | None:
        """What keeps the proof from holding; None if nobody can tell that places are not made values again."""
        return next((node for node in self._nodes if not self._is_fine(node)), None)

    def misfits(self, names: list[str], *, closed: bool) -> dict[str, ast.AST]:
        """Those of some elements that may get a value that does not fit, each with where."""
        if not names:
            return {}
        return Fits(self._method, self._sites, self._elements, closed=closed).doubtful(names)

    @cached_property
    def _nodes(self) -> list[ast.AST]:
        return [node for statement in self._method.body for node in ast.walk(statement)]

    def _is_fine(self, node: ast.AST) -> bool:
        match node:
            case ast.Assign(targets=targets, value=value):
                places = [one for one in targets if not isinstance(one, ast.Name) and not self._holds_none(one)]
                # One object in several places, even if it is new.
                if len(places) > 1 and not self._is_plain(value):
                    return False
                return all(self._may_put(target, value) for target in targets)
            case ast.For(target=target) | ast.comprehension(target=target):
                return _binds_names(target)
            case ast.withitem(optional_vars=ast.expr() as target):
                return _binds_names(target)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                return self._may_put(target, value)
            case ast.AugAssign(target=target, value=value):
                return self._may_add(target, value)
            case ast.Call() if id(node) in self._sites:
                return self._may_store(node)
            case ast.Call():
                return self._may_call(node)
            case ast.Attribute(value=owner, attr=name, ctx=ast.Load()):
                return self._may_look(node, owner, name)
            case ast.Yield() | ast.YieldFrom():
                return False
        return True

    def _may_look(self, node: ast.Attribute, owner: ast.expr, name: str) -> bool:
        """Whether asking for an attribute runs no code of the user's own on an object that could be changed."""
        whole = owner.value if isinstance(owner, ast.Attribute) else owner
        if _is_name(whole, self._method.self_name) or self._method.scope.resolve(node) is not MISSING:
            return True
        hint = self._kinds.hint(owner)
        if hint is None or hint is Any:
            return id(node) in self._called and hint is None
        if self._is_plain(owner) or (get_origin(hint) or hint) in _BUILT_IN:
            return True
        return isinstance(hint, type) and name in fields_of(hint)

    @cached_property
    def _called(self) -> frozenset[int]:
        """The attributes that are called, which is looked at where they are."""
        return frozenset(id(node.func) for node in self._nodes if isinstance(node, ast.Call))

    # --- what is put where

    def _may_put(self, target: ast.expr, value: ast.expr) -> bool:
        match target:
            case ast.Name():
                return True
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                # A part of the value has no expression of its own.
                return all(isinstance(part, ast.Name) for part in parts) or self._holds_plain(value)
            case ast.Subscript() if id(target) in self._sites:
                return self._holds_none(target) or self._is_new(value) or self._returns_home(target, value)
            case ast.Subscript():
                return self._is_new(value)
            case ast.Attribute(value=owner, attr=name):
                return self._is_field(owner, name) and self._is_new(value)
        return False

    def _holds_none(self, target: ast.expr) -> bool:
        """Whether a place of state is of an element that holds no objects that can be changed."""
        site = self._sites.get(id(target))
        if site is None:
            return False
        kind = self._elements[site.element].type
        return not kind.holds_objects or (is_frozen(kind.value_hint) and not remembers(kind.value_hint))

    def _may_add(self, target: ast.expr, value: ast.expr) -> bool:
        if self._is_plain(target) or self._holds_none(target):
            return True
        if isinstance(target, ast.Attribute) and not self._is_field(target.value, target.attr):
            return False
        return self._is_new(value) or self._holds_plain(value)

    def _may_store(self, node: ast.Call) -> bool:
        """Whether an operation of an element gets nothing that others have; what is no list of values has one value."""
        site = self._sites[id(node)]
        element = self._elements[site.element]
        if not element.type.holds_objects:
            return True
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if site.operations[-1] in ("extend", "update"):
            return all(self._is_plain(one) or self._holds_plain(one) for one in given)
        return all(self._is_new(one) for one in given if one is not site.key)

    def _returns_home(self, target: ast.expr, value: ast.expr) -> bool:
        """Whether what is stored is the object that was read from there, or one that was made for this place."""
        if not isinstance(value, ast.Name):
            return False
        bound = self._bound.get(value.id, [])
        if value.id in self._method.parameters or not bound:
            return False
        if all(self._is_read_of(target, source) for source in bound):
            return True
        return len(bound) == 1 and self._is_new(bound[0]) and self._is_stored_once(value.id, target)

    def _is_read_of(self, target: ast.expr, source: ast.AST) -> bool:
        there, here = self._sites[id(target)], self._sites.get(id(source))
        if here is None or here.element != there.element or here.operations[-1] not in ("__getitem__", "get"):
            return False
        match here.key, there.key:
            case ast.Name(id=one), ast.Name(id=other):
                stays = len(self._bound.get(one, ())) + (one in self._method.parameters) == 1
                return one == other and stays and one not in self._walked
            case None, None:
                # A list has many places; a value has one.
                return self._elements[there.element].type.container is Value
        return False

    def _is_stored_once(self, name: str, target: ast.expr) -> bool:
        """Whether a variable is bound, and then stored, in one go: each time another object."""
        stored = [node for node in self._nodes if isinstance(node, ast.Assign) and _is_name(node.value, name)]
        if len(stored) != 1 or not any(target is part for part in stored[0].targets) or len(stored[0].targets) > 1:
            return False
        for block in self._blocks():
            places = [at for at, statement in enumerate(block) if statement is stored[0]]
            bound = [at for at, statement in enumerate(block) if _binds(statement, name)]
            if places and bound and bound[0] < places[0]:
                between = block[bound[0] + 1 : places[0]]
                return not any(isinstance(one, Branch | Jump) for one in between) and not self._is_aim(between)
        return False

    def _is_aim(self, statements: list[ast.stmt]) -> bool:
        aims = {id(self._method.body[one.target]) for one in self._method.body if isinstance(one, Branch | Jump)}
        return any(id(statement) in aims for statement in statements)

    def _blocks(self) -> Iterator[list[ast.stmt]]:
        yield list(self._method.body)
        for node in self._nodes:
            for _, part in ast.iter_fields(node):
                if isinstance(part, list) and part and isinstance(part[0], ast.stmt):
                    yield part

    @cached_property
    def _bound(self) -> dict[str, list[ast.expr]]:
        """What variables are bound to; anything but a plain assignment counts as unknown."""
        bound: dict[str, list[ast.expr]] = {}
        known = set()
        for node in self._nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name) as target], value=value):
                    bound.setdefault(name, []).append(value)
                    known.add(id(target))
                case ast.AnnAssign(target=ast.Name(id=name) as target, value=ast.expr() as value):
                    bound.setdefault(name, []).append(value)
                    known.add(id(target))
        for node in self._nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in known:
                bound.setdefault(node.id, []).append(node)
        return bound

    @cached_property
    def _walked(self) -> frozenset[str]:
        """The variables of loops, which have another value in each turn."""
        targets = (node.target for node in self._nodes if isinstance(node, ast.For | ast.comprehension))
        return frozenset(part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))

    # --- calls

    def _may_call(self, node: ast.Call) -> bool:
        scope = self._method.scope
        if is_each(node, scope) or is_merged(node, scope):
            return True
        meaning = scope.resolve(node.func)
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if any(meaning is known for known in _READERS):
            return all(isinstance(k.value, ast.Lambda | ast.Constant) or k.arg is None for k in node.keywords)
        if isinstance(meaning, type) and is_made_of_fields(meaning):
            return True
        if all(map(self._is_plain, given)) and not self._is_method_of_object(node):
            return True
        return isinstance(node.func, ast.Attribute) and self._may_call_method(node, node.func)

    def _is_method_of_object(self, node: ast.Call) -> bool:
        """Whether a call is of a method of a value that could be changed."""
        match node.func:
            case ast.Attribute(value=ast.Name(id=owner)) if owner == self._method.self_name:
                return False
            case ast.Attribute(value=owner):
                return self._method.scope.resolve(node.func) is MISSING and not self._is_plain(owner)
        return False

    def _may_call_method(self, node: ast.Call, callee: ast.Attribute) -> bool:
        owner = self._kinds.hint(callee.value)
        if owner in (str, bytes, int, float, bool):
            return True
        if (get_origin(owner) or owner) not in _BUILT_IN:
            return False
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if callee.attr in _PUTS or callee.attr in _LOOKS:
            return all(self._is_new(one) or isinstance(one, ast.Lambda) for one in given)
        return callee.attr in _PUTS_ITEMS and all(self._holds_plain(one) for one in given)

    # --- values

    def _is_plain(self, node: ast.expr) -> bool:
        """Whether a value can't be changed, all the way down."""
        hint = self._kinds.hint(node)
        return hint is not None and is_frozen(hint) and not remembers(hint)

    def _holds_plain(self, node: ast.expr) -> bool:
        """Whether what walking through a value gives can't be changed."""
        match node:
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return all(
                    self._holds_plain(part.value) if isinstance(part, ast.Starred) else self._is_plain(part)
                    for part in parts
                )
            case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part):
                return self._is_plain(part)
        hint = self._kinds.hint(node)
        if hint is None or hint is Any:
            return False
        if is_frozen(hint):
            return True
        return (
            get_origin(hint) in _BUILT_IN
            and bool(items_of(hint))
            and all(
                part is not None and part is not Any and is_frozen(part)
                for part in get_args(hint)
                if part is not Ellipsis
            )
        )

    def _is_new(self, node: ast.expr) -> bool:
        """Whether a value is plain, or made by this very expression of plain and new ones."""
        if self._is_plain(node):
            return True
        match node:
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return all(
                    self._holds_plain(part.value) if isinstance(part, ast.Starred) else self._is_new(part)
                    for part in parts
                )
            case ast.Dict(keys=keys, values=values):
                return None not in keys and all(self._is_new(part) for part in (*filter(None, keys), *values))
            case ast.ListComp(elt=part) | ast.SetComp(elt=part):
                return self._is_new(part)
            case ast.DictComp(key=key, value=part):
                return self._is_new(key) and self._is_new(part)
            case ast.IfExp(body=body, orelse=orelse):
                return self._is_new(body) and self._is_new(orelse)
            case ast.BinOp(left=left, right=right):
                return self._holds_plain(left) and self._holds_plain(right)
            case ast.Subscript(value=value, slice=ast.Slice()):
                return self._holds_plain(value)
            case ast.Call(func=callee, args=args, keywords=keywords):
                return self._makes_new(callee, args, keywords)
        return False

    def _makes_new(self, callee: ast.expr, args: list[ast.expr], keywords: list[ast.keyword]) -> bool:
        meaning = self._method.scope.resolve(callee)
        if any(meaning is maker for maker in _MAKERS):
            return all(map(self._holds_plain, args)) and all(isinstance(k.value, ast.Lambda) for k in keywords)
        if isinstance(meaning, type) and is_made_of_fields(meaning):
            return all(map(self._is_new, (*args, *(keyword.value for keyword in keywords))))
        return False

    def _is_field(self, owner: ast.expr, name: str) -> bool:
        """Whether an attribute is a declared field of what its owner is."""
        hint = self._kinds.hint(owner)
        return isinstance(hint, type) and is_dataclass(hint) and name in fields_of(hint) and sets_plainly(hint)


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _binds_names(target: ast.expr) -> bool:
    """Whether a target is variables alone, no places."""
    return not any(isinstance(part, ast.Subscript | ast.Attribute) for part in ast.walk(target))


def _binds(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id=bound)]) | ast.AnnAssign(target=ast.Name(id=bound)):
            return bound == name
    return False
