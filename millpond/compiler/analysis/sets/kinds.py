"""Which types are sets, or hold some: of hints, of objects of the module, and of the parts of a value."""

from __future__ import annotations

import ast
import collections
import dataclasses
import types
import typing
from collections.abc import MutableSet
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Final, get_args, get_origin

from millpond.compiler.front.scope import MISSING, Scope
from millpond.state.codec.classes import UNRESOLVED, is_named_tuple

SETS: Final = (set, frozenset, AbstractSet, MutableSet)
DICTS: Final = (dict, collections.defaultdict, collections.OrderedDict, collections.Counter)
LISTS: Final = (list, tuple, collections.deque)
_DEPTH_MAX: Final = 8
"""Levels of a type that are looked into; a class may mention itself."""


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """The type of a value that has lost its class: the dict of an object's fields, or a namespace."""

    fields: tuple[tuple[str, Any], ...]

    @property
    def mapping(self) -> Any:
        """The same as a type of dict, which does not tell its fields apart."""
        return of(dict, None, either(*(hint for _, hint in self.fields)))


def parts_of(hint: Any) -> Parts | None:
    """The fields of a class, as `asdict` and `vars` give them."""
    kind = get_origin(hint) or hint
    return Parts(tuple(_hints(kind).items())) if isinstance(kind, type) and _hints(kind) else None


def plain_hint(hint: Any) -> Any:
    """A hint without `Parts` around it."""
    return hint.mapping if isinstance(hint, Parts) else hint


def is_set(hint: Any) -> bool:
    """Whether values of a type may be sets."""
    if get_origin(hint) is Annotated:
        return is_set(get_args(hint)[0])
    if get_origin(hint) in (typing.Union, types.UnionType):
        return any(map(is_set, get_args(hint)))
    kind = get_origin(hint) or hint
    # A subclass of one's own is walked like a set.
    return kind in SETS or (isinstance(kind, type) and issubclass(kind, (set, frozenset)))


def holds_set(hint: Any, depth: int = 0, *, apart: bool = False) -> bool:
    """Whether the text of a value of a type would show the order of a set.

    If it is taken `apart`, as by `asdict`, classes have no text of their own.
    """
    if is_set(hint):
        return True
    if depth > _DEPTH_MAX or hint is None:
        return False
    if isinstance(hint, Parts):
        return any(holds_set(part, depth + 1, apart=True) for _, part in hint.fields)
    if get_args(hint):
        return any(holds_set(part, depth + 1, apart=apart) for part in get_args(hint))
    shown = isinstance(hint, type) and (apart or not _has_own_text(hint)) and _has_repr_of_fields(hint)
    return shown and any(holds_set(part, depth + 1, apart=apart) for part in _hints(hint).values())


def _has_own_text(kind: type) -> bool:
    return any("__str__" in vars(base) for base in kind.__mro__ if base is not object)


def _has_repr_of_fields(kind: type) -> bool:
    if dataclasses.is_dataclass(kind):
        return bool(kind.__dataclass_params__.repr) and "__repr__" in vars(kind)  # type: ignore[attr-defined]
    return is_named_tuple(kind) or hasattr(kind, "__struct_fields__")


def _hints(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except UNRESOLVED:
        return {}


def hint_of_value(value: Any, depth: int = 0) -> Any:
    """The type of an object of the module, as far as it says what sets there are in it."""
    kind = type(value)
    if isinstance(value, set | frozenset):
        members = {type(member) for member in value}
        return of(kind, members.pop()) if len(members) == 1 and kind in SETS else kind
    if depth > _DEPTH_MAX:
        return None
    if kind in DICTS:
        return of(dict, None, either(*(hint_of_value(item, depth + 1) for item in value.values())))
    if kind in LISTS:
        return of(list, either(*(hint_of_value(item, depth + 1) for item in value)))
    return kind if dataclasses.is_dataclass(kind) or is_named_tuple(kind) else None


def of(kind: type, *parts: Any) -> Any:
    """A generic type of parts; Any stands for those that are not known."""
    if not parts or parts[-1] is None:
        return kind
    return types.GenericAlias(kind, tuple(Any if part is None else part for part in parts))


def either(*hints: Any) -> Any:
    """A set if one of them may be one, else one that holds a set, else the first that is known."""
    for wanted in (is_set, holds_set):
        found = next((hint for hint in hints if wanted(hint)), None)
        if found is not None:
            return found
    return next((hint for hint in hints if hint is not None), None)


def item_of(hint: Any) -> Any:
    """The type of what a walk over a value of a type gives."""
    if get_origin(hint) in (typing.Union, types.UnionType):
        return either(*map(item_of, get_args(hint)))
    parts = get_args(hint)
    if get_origin(hint) is tuple:
        return either(*(part for part in parts if part is not Ellipsis))
    return parts[0] if get_origin(hint) in (*LISTS, *DICTS, *SETS) and parts else None


def part_of(hint: Any, at: ast.expr) -> Any:
    """The type of `value[at]`."""
    if isinstance(at, ast.Slice):
        return hint
    if isinstance(hint, Parts):
        named = isinstance(at, ast.Constant) and isinstance(at.value, str)
        return dict(hint.fields).get(at.value) if named else part_of(hint.mapping, at)  # type: ignore[attr-defined]
    parts = get_args(hint)
    if get_origin(hint) is tuple and isinstance(at, ast.Constant) and isinstance(at.value, int):
        return parts[at.value] if -len(parts) <= at.value < len(parts) and Ellipsis not in parts else item_of(hint)
    if get_origin(hint) is tuple:
        return item_of(hint)
    return parts[-1] if get_origin(hint) in (*LISTS, *DICTS) and parts else None


def written_type(node: ast.expr, scope: Scope) -> Any:
    """The type that an annotation names, as far as sets may be in it."""
    match node:
        case ast.Constant(value=str(text)):
            try:
                return written_type(ast.parse(text, mode="eval").body, scope)
            except SyntaxError:
                return None
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return either(written_type(left, scope), written_type(right, scope))
        case ast.Subscript(value=value, slice=at):
            kind = scope.resolve(value)
            inside = at.elts if isinstance(at, ast.Tuple) else [at]
            parts = [written_type(part, scope) for part in inside]
            if kind in (typing.Optional, typing.Union, typing.Final, Annotated):
                return either(*parts)
            known = get_origin(kind) or kind
            return of(known, *parts) if known in (*SETS, *LISTS, *DICTS) else None
    found = scope.resolve(node)
    found = get_origin(found) or found
    return found if isinstance(found, type) and found is not MISSING else None


def returned_type(function: Any) -> Any:
    """What a function says that it returns."""
    try:
        return typing.get_type_hints(function).get("return")
    except UNRESOLVED:
        return None
