"""Type hints and record classes out of syntax: evaluated by hand, from known types only.

>>> trusted = {}
>>> Hints({"Items": list}, trusted).of(ast.parse("dict[str, Items[int]]", mode="eval").body), trusted
(dict[str, list[int]], {})
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import enum
import types
import typing
from collections.abc import Callable
from typing import Any, Final

UNSEEN_TYPE: Final = int
"""What a type that can't be seen is taken for: it may be a key and a value, can't be changed, and travels."""

_SPECIAL: Final = (type(typing.Any), type(typing.Union), type(typing.List), type(typing.Callable))  # noqa: UP006
_ALIASES: Final = (types.GenericAlias, types.UnionType, type(typing.List[int]), type(typing.Union[int, str]))  # noqa: UP006, UP007


class Hints:
    """Evaluates hints over the names of a file; what it can't know is noted in `trusted` and taken for granted."""

    def __init__(self, names: dict[str, Any], trusted: dict[str, None]) -> None:
        self._names = names
        self._trusted = trusted
        self._made: set[int] = set()
        self._unseen = 0

    def of(self, node: ast.expr) -> Any:
        """Return the type that a hint stands for; the bare name itself if the file does not have it."""
        if isinstance(node, ast.Name) and node.id not in self._names and not hasattr(builtins, node.id):
            # A plain name can be looked up later without running anything, and is refused there.
            return node.id
        found = self.known(node)
        if found is None and not (isinstance(node, ast.Constant) and node.value is None):
            return self._trust(ast.unparse(node)[:60])
        return found

    def _trust(self, text: str) -> Any:
        self._trusted[text] = None
        self._unseen += 1
        return UNSEEN_TYPE

    def known(self, node: ast.expr) -> Any:
        """Return the type that an expression stands for, or None."""
        match node:
            case ast.Constant(value=str(text)):
                return self._quoted(text)
            case ast.Name() | ast.Attribute():
                found = self.reference(node)
                return found if _is_type(found) else None
            case ast.Subscript(value=base, slice=inside):
                return self._subscript(self.known(base), inside)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._joined(left, right)
        return None

    def reference(self, node: ast.expr) -> Any:
        """Return what a name, or an attribute of a module, stands for; None if it is unknown."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id, getattr(builtins, node.id, None))
        if isinstance(node, ast.Attribute):
            owner = self.reference(node.value)
            return getattr(owner, node.attr, None) if isinstance(owner, types.ModuleType) else None
        return None

    def _quoted(self, text: str) -> Any:
        try:
            inner = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        return self.of(inner) if not isinstance(inner, ast.Constant) else None

    def _joined(self, left: ast.expr, right: ast.expr) -> Any:
        known = self._unseen
        sides = [None if _is_none(side) else self._part(side) for side in (left, right)]
        if self._unseen > known and None not in sides:
            # A type that can't be seen together with another one is one that can't be seen.
            return UNSEEN_TYPE
        try:
            return typing.Union[sides[0], sides[1]]  # noqa: UP007 - the sides are known at run time only
        except TypeError:
            return None

    def _part(self, node: ast.expr) -> Any:
        """Return a type inside another; never a bare name, which would be evaluated as text."""
        found = self.of(node)
        if isinstance(found, str):
            return self._trust(found)
        return found

    def _subscript(self, base: Any, inside: ast.expr) -> Any:
        if base is None or id(base) in self._made:
            return None
        try:
            if base is typing.Literal:
                return base[ast.literal_eval(inside)]
            if isinstance(inside, ast.Tuple):
                return base[tuple(self._argument(part) for part in inside.elts)]
            return base[self._argument(inside)]
        except (TypeError, ValueError, SyntaxError):
            return None

    def _argument(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=None):
                return None
            case ast.Constant(value=value) if value is Ellipsis:
                return Ellipsis
            case ast.List(elts=parts):
                return [self._argument(part) for part in parts]
            case ast.Tuple(elts=[]):
                return ()
        return self._part(node)

    def record(self, tree: ast.ClassDef, bases: list[Any], methods: dict[str, Any]) -> Any:
        """Return a class of the file as a type: a dataclass, a named tuple, an enum or a plain class; else None."""
        fields = [(s.target.id, s.annotation, s.value) for s in tree.body if _is_field(s)]  # type: ignore[attr-defined]
        try:
            decorators = [self._decorator(decorator) for decorator in tree.decorator_list]
            made = self._made_of(tree, bases, fields, decorators, methods)
        except (TypeError, ValueError, AttributeError):
            made = None
        if made is not None:
            self._made.add(id(made))
        return made

    def _made_of(
        self,
        tree: ast.ClassDef,
        bases: list[Any],
        fields: list[tuple[str, ast.expr, ast.expr | None]],
        decorators: list[tuple[Any, dict[str, Any]]],
        methods: dict[str, Any],
    ) -> Any:
        if bases == [typing.NamedTuple] and not decorators:
            make: Callable[..., Any] = typing.NamedTuple
            return make(tree.name, [(name, self._part(hint)) for name, hint, _ in fields])
        if bases and all(isinstance(base, type) and issubclass(base, enum.Enum) for base in bases):
            targets = [s.targets[0] for s in tree.body if isinstance(s, ast.Assign)]
            members = {target.id: target.id for target in targets if isinstance(target, ast.Name)}
            return enum.Enum(tree.name, members)
        known = all(base is object or id(base) in self._made or base in (Exception, ValueError) for base in bases)
        if not known or tree.keywords or any(meaning is not dataclasses.dataclass for meaning, _ in decorators):
            return None
        body: dict[str, Any] = {**methods, "__annotations__": {name: self._part(hint) for name, hint, _ in fields}}
        if decorators:
            body |= {name: _default(value) for name, _, value in fields if value is not None}
        made = type(tree.name, tuple(bases), body)
        return dataclasses.dataclass(**decorators[0][1])(made) if decorators else made

    def _decorator(self, node: ast.expr) -> tuple[Any, dict[str, Any]]:
        call = node if isinstance(node, ast.Call) else None
        meaning = self.reference(call.func if call else node)
        keywords = call.keywords if call else []
        return meaning, {str(word.arg): ast.literal_eval(word.value) for word in keywords}


def _default(value: ast.expr) -> Any:
    """Return a default that says that there is one; no instance is ever made."""
    try:
        literal = ast.literal_eval(value)
        return literal if literal.__hash__ is not None else dataclasses.field(default=None)
    except ValueError:
        return dataclasses.field(default=None)


def _is_field(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_type(meaning: Any) -> bool:
    return isinstance(meaning, (type, *_SPECIAL, *_ALIASES))
