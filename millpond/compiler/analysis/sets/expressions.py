"""What is known of the types of expressions, as far as sets may be in them.

Needs: Method.tree and scope, the types of state elements.
Leaves: nothing; the checks of the order of sets ask.
"""

from __future__ import annotations

import ast
import collections
import copy
import dataclasses
import functools
import inspect
import operator
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast, get_args, get_origin

import msgspec

from millpond.compiler.analysis.mutability import field_of
from millpond.compiler.analysis.sets.kinds import (
    DICTS,
    LISTS,
    Parts,
    either,
    hint_of_value,
    holds_set,
    is_set,
    item_of,
    of,
    part_of,
    parts_of,
    plain_hint,
    returned_type,
    written_type,
)
from millpond.compiler.draft import Method
from millpond.compiler.front.callees import helper_function, is_helper
from millpond.compiler.front.inlining.helpers import is_own
from millpond.compiler.front.scope import MISSING
from millpond.program import Element, ProgramBase

Hints = dict[str, Any]
"""What is known of the variables: the type of each, None where nothing is, or `Known` for a function."""

_SET_METHODS: Final = frozenset(("union", "intersection", "difference", "symmetric_difference", "copy"))
_SET_OPERATORS: Final = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
_VIEWS: Final = frozenset(("keys", "items"))
_READS: Final = frozenset(("get", "setdefault", "pop"))
_SAME_TYPES: Final = (copy.copy, copy.deepcopy, dict, dataclasses.replace, msgspec.structs.replace)
_TAKES_APART: Final = (
    dataclasses.asdict,
    dataclasses.astuple,
    vars,
    *(msgspec.structs.asdict, msgspec.structs.astuple),
)
_SAME_ITEMS: Final = (sorted, list, tuple, set, frozenset, iter, reversed, collections.deque)


@dataclass(frozen=True, slots=True)
class Known:
    """A variable that holds a function: one of the method's own, or the object behind a name."""

    function: Any


@dataclass(frozen=True, slots=True)
class Reading:
    """The types of a method's expressions, by what is known of its variables."""

    method: Method
    self_name: str
    elements: Mapping[str, Element]
    program: type[ProgramBase]

    def meaning(self, node: ast.expr, known: Hints) -> Any:
        """The function behind an expression: an object, the syntax of one that the method itself makes, or MISSING."""
        if isinstance(node, ast.Lambda):
            return node
        if isinstance(node, ast.Name) and isinstance(known.get(node.id), Known):
            return known[node.id].function
        if isinstance(node, ast.Call):
            return self._made_function(node)
        return self.method.scope.resolve(node)

    def _made_function(self, node: ast.Call) -> Any:
        """What a call gives that makes a function of constants alone: `methodcaller("pop")`."""
        maker = self.method.scope.resolve(node.func)
        constants = [part.value for part in node.args if isinstance(part, ast.Constant)]
        whole = len(constants) == len(node.args) and not node.keywords
        return maker(*constants) if whole and maker in _MAKERS and constants else MISSING

    def bind(self, target: ast.expr, hint: Any, known: Hints) -> None:
        """Note the type of what is assigned to a target."""
        if isinstance(target, ast.Name):
            known[target.id] = hint
        elif isinstance(target, ast.Starred):
            self.bind(target.value, hint, known)
        elif isinstance(target, ast.Tuple | ast.List):
            parts = get_args(hint) if get_origin(hint) is tuple else ()
            whole = len(parts) == len(target.elts) and Ellipsis not in parts
            for place, part in enumerate(target.elts):
                self.bind(part, parts[place] if whole else item_of(hint), known)

    def learn(self, node: ast.Call, known: Hints) -> None:
        """Note what a call puts into a variable's collection."""
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="append" | "appendleft" | "insert"), args=[*_, item]):
                self.put(owner, list, self.hint(item, known), known)
            case ast.Call(func=ast.Attribute(value=owner, attr="setdefault"), args=[_, item]):
                self.put(owner, dict, self.hint(item, known), known)

    def put(self, owner: ast.expr, kind: type, hint: Any, known: Hints) -> None:
        """Note that a variable's collection holds something that is, or holds, a set."""
        if isinstance(owner, ast.Name) and holds_set(hint) and not holds_set(known.get(owner.id)):
            of_list = known.get(owner.id) is list or kind is list
            known[owner.id] = of(list, hint) if of_list else of(dict, None, hint)

    def hint(self, node: ast.expr | None, known: Hints) -> Any:
        """The type of an expression, or None."""
        match node:
            case ast.Name(id=name):
                return known[name] if name in known else self._outside(node)
            case ast.Lambda():
                return Known(node)
            case ast.IfExp(body=one, orelse=other):
                return either(self.hint(one, known), self.hint(other, known))
            case ast.BoolOp(values=values):
                return either(*(self.hint(value, known) for value in values))
            case ast.NamedExpr(value=value):
                return self.hint(value, known)
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(left, op, right, known)
            case ast.Call():
                return self._call(node, known)
            case ast.Subscript(value=value, slice=at):
                element = self.element(value)
                return part_of(self.hint(value, known), at) if element is None else element.type.value_hint
            case ast.Attribute():
                return self._attribute(node, known)
        return None if node is None else self._display(node, known)

    def _display(self, node: ast.expr, known: Hints) -> Any:
        """The type of a collection that is written out, or of a comprehension."""
        match node:
            case ast.Set() | ast.SetComp():
                return self._set_display(node, known)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                hints = [self._display_item(item, known) for item in items]
                if isinstance(node, ast.Tuple) and not any(isinstance(item, ast.Starred) for item in items):
                    return types.GenericAlias(tuple, tuple(Any if each is None else each for each in hints))
                return of(list, either(*hints))
            case ast.Dict(values=values):
                return of(dict, None, either(*(self.hint(value, known) for value in values)))
            case ast.ListComp() | ast.GeneratorExp():
                return of(list, self.hint(node.elt, self._inner(node, known)))
            case ast.DictComp(value=value):
                return of(dict, None, self.hint(value, self._inner(node, known)))
        return None

    def _outside(self, node: ast.expr) -> Any:
        """The type of an object of the module; a function is one of those that may be called."""
        found = self.method.scope.resolve(node)
        if found is MISSING:
            return None
        return Known(found) if callable(found) else hint_of_value(found)

    def _set_display(self, node: ast.Set | ast.SetComp, known: Hints) -> Any:
        if isinstance(node, ast.SetComp):
            return of(set, self.hint(node.elt, self._inner(node, known)))
        hints = [self._display_item(item, known) for item in node.elts]
        return of(set, hints[0]) if len(set(map(repr, hints))) == 1 else set

    def _display_item(self, item: ast.expr, known: Hints) -> Any:
        if isinstance(item, ast.Starred):
            return self.item(item.value, known)
        return type(item.value) if isinstance(item, ast.Constant) else self.hint(item, known)

    def _inner(self, node: Any, known: Hints) -> Hints:
        inner = dict(known)
        for part in node.generators:
            self.bind(part.target, self.item(part.iter, inner), inner)
        return inner

    def _operation(self, left: ast.expr, op: ast.operator, right: ast.expr, known: Hints) -> Any:
        if isinstance(op, _SET_OPERATORS):
            views = _is_view(left) or _is_view(right)
            return set if views else either(self.hint(left, known), self.hint(right, known))
        return either(self.hint(left, known), self.hint(right, known)) if isinstance(op, ast.Add) else None

    def _attribute(self, node: ast.Attribute, known: Hints) -> Any:
        if is_own(node, self.self_name):
            constant = inspect.getattr_static(self.program, node.attr, None)
            return None if self.element(node) is not None else hint_of_value(constant)
        outside = self.method.scope.resolve(node)
        if outside is not MISSING:
            return self._outside(node)
        hint = self.hint(node.value, known)
        if node.attr == "__dict__":
            return parts_of(hint)
        return dict(hint.fields).get(node.attr) if isinstance(hint, Parts) else field_of(hint, node.attr)

    def _call(self, node: ast.Call, known: Hints) -> Any:
        meaning = self.meaning(node.func, known)
        given = node.args[0] if node.args else None
        if meaning is set or meaning is frozenset:
            return of(set, None if given is None else self.item(given, known))
        if given is not None and any(meaning is same for same in _SAME_ITEMS):
            return of(list, self.item(given, known))
        if given is not None and any(meaning is same for same in _SAME_TYPES):
            return self.hint(given, known)
        if meaning is cast and len(node.args) > 1:
            return either(self.hint(node.args[1], known), written_type(node.args[0], self.method.scope))
        if given is not None and any(meaning is one for one in _TAKES_APART):
            return parts_of(self.hint(given, known))
        if meaning is types.SimpleNamespace:
            return Parts(tuple((word.arg, self.hint(word.value, known)) for word in node.keywords if word.arg))
        if meaning is collections.defaultdict:
            made = None if given is None else self.meaning(given, known)
            return of(dict, None, made if made in (set, frozenset) else None)
        if meaning is functools.reduce and len(node.args) > 1:
            return self.item(node.args[1], known)
        if isinstance(meaning, type):
            return meaning
        if isinstance(meaning, ast.Lambda):
            return self.hint(meaning.body, known)
        if isinstance(meaning, types.FunctionType) or hasattr(meaning, "__wrapped__"):
            return returned_type(meaning)
        return self._method(node, known) if isinstance(node.func, ast.Attribute) else None

    def _method(self, node: ast.Call, known: Hints) -> Any:
        assert isinstance(node.func, ast.Attribute)
        owner, name = node.func.value, node.func.attr
        element = self.element(owner)
        if element is not None:
            return element.type.value_hint if name in _READS and element.type.operations[name].shares else None
        if is_own(node.func, self.self_name):
            return returned_type(helper_function(self.program, name)) if is_helper(self.program, name) else None
        hint = plain_hint(self.hint(owner, known))
        if is_set(hint) and name in _SET_METHODS:
            return hint
        if name == "_asdict":
            return parts_of(hint)
        if name in _READS:
            default = self.hint(node.args[1], known) if len(node.args) > 1 else None
            return either(get_args(hint)[-1] if get_origin(hint) in (*DICTS, *LISTS) else None, default)
        if name == "copy":
            return hint
        member = getattr(hint, name, None) if isinstance(hint, type) else None
        return returned_type(member) if isinstance(member, types.FunctionType) else None

    def element(self, node: ast.expr) -> Element | None:
        """The element of state that an expression names."""
        return (
            self.elements.get(node.attr) if isinstance(node, ast.Attribute) and is_own(node, self.self_name) else None
        )

    def item(self, walked: ast.expr, known: Hints) -> Any:
        """The type of what a loop over an expression gives."""
        match walked:
            case ast.Call(func=ast.Attribute(value=owner, attr="values" | "items" as name)):
                element, hint = self.element(owner), plain_hint(self.hint(owner, known))
                parts: tuple[Any, ...] = get_args(hint) if get_origin(hint) in DICTS else ()
                if element is not None:
                    parts = (element.type.key_hint, element.type.value_hint)
                if len(parts) != 2:
                    return None
                return parts[1] if name == "values" else types.GenericAlias(tuple, parts)
            case ast.Call(func=function, args=[inner, *_]) if self.meaning(function, known) is enumerate:
                return of(tuple, int, self.item(inner, known))
            case ast.Call(func=function, args=[first, *others]) if self.meaning(function, known) is zip:
                hints = [self.item(each, known) for each in (first, *others)]
                return types.GenericAlias(tuple, tuple(Any if each is None else each for each in hints))
        return item_of(self.hint(walked, known))


_MAKERS: Final = (operator.methodcaller,)


def _is_view(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS
