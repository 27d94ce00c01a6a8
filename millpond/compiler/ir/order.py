"""The order in which Python evaluates the parts of a node, and what it does with a part at its place.

A variable that is only named means the same after anything else was evaluated, unless `:=` binds it. One that is walked
through, unpacked or written into a text is not: that happens at its place.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from millpond.compiler.ir.jumps import Branch

Slot = tuple[ast.AST, str, int | None]
"""A place that holds an expression: owner, field, and index if the field is a list."""

_CONVERTS_FIRST: Final = sys.version_info >= (3, 13)
"""Whether `{x!r:{y}}` converts x before it evaluates y."""

_FIELDS: Final[Mapping[type[ast.AST], tuple[str, ...]]] = {
    # Evaluated whenever the node is, in this order. What a node evaluates only sometimes is not listed.
    ast.Attribute: ("value",),
    ast.AugAssign: ("target", "value"),
    ast.BinOp: ("left", "right"),
    Branch: ("test",),
    ast.Expr: ("value",),
    ast.For: ("iter",),
    ast.FormattedValue: ("value", "format_spec"),
    ast.If: ("test",),
    ast.IfExp: ("test",),
    ast.Assert: ("test",),
    ast.JoinedStr: ("values",),
    ast.List: ("elts",),
    ast.Match: ("subject",),
    ast.Raise: ("exc", "cause"),
    ast.Return: ("value",),
    ast.Set: ("elts",),
    ast.Slice: ("lower", "upper", "step"),
    ast.Starred: ("value",),
    ast.Subscript: ("value", "slice"),
    ast.Tuple: ("elts",),
    ast.UnaryOp: ("operand",),
    ast.Assign: ("value", "targets"),
    ast.AnnAssign: ("value", "target"),
    ast.Delete: ("targets",),
    ast.NamedExpr: ("value",),
    ast.keyword: ("value",),
}


def slots(node: ast.AST) -> list[Slot]:
    """The places of the parts that a node evaluates whenever it is evaluated, in order."""
    match node:
        case ast.Call(func=ast.Attribute() as callee):
            return [(callee, "value", None), *_listed(node, "args"), *_listed(node, "keywords")]
        case ast.Call():
            return [(node, "func", None), *_listed(node, "args"), *_listed(node, "keywords")]
        case ast.BoolOp():
            return [(node, "values", 0)]
        case ast.Compare():
            return [(node, "left", None), (node, "comparators", 0)]
        case ast.Dict():
            pairs = [[(node, "keys", i), (node, "values", i)] for i in range(len(node.keys))]
            return [slot for pair in pairs for slot in pair if get_slot(slot) is not None]
        case ast.With():
            return [(node.items[0], "context_expr", None)]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return [(node.generators[0], "iter", None)]
    return [slot for name in _FIELDS.get(type(node), ()) for slot in _listed(node, name)]


def _listed(node: ast.AST, name: str) -> list[Slot]:
    value = getattr(node, name)
    if isinstance(value, list):
        return [(node, name, number) for number in range(len(value))]
    return [] if value is None else [(node, name, None)]


def get_slot(slot: Slot) -> Any:
    """The expression in a place."""
    owner, name, number = slot
    value = getattr(owner, name)
    return value if number is None else value[number]


def put_slot(slot: Slot, value: Any) -> None:
    """Put an expression into a place."""
    owner, name, number = slot
    if number is None:
        setattr(owner, name, value)
    else:
        getattr(owner, name)[number] = value


def named_in(node: ast.AST) -> frozenset[str]:
    """The names that `:=` binds in a node."""
    return frozenset(part.target.id for part in ast.walk(node) if isinstance(part, ast.NamedExpr))


def single(targets: Iterable[ast.expr]) -> Iterator[ast.expr]:
    """The targets of a deletion, those in brackets one by one."""
    for target in targets:
        if isinstance(target, ast.Tuple | ast.List):
            yield from single(target.elts)
        else:
            yield target


def is_bare(node: ast.AST) -> bool:
    """Whether a node does nothing but name or make something, so that it may as well do it later."""
    if isinstance(node, ast.Lambda):
        # Its defaults are evaluated when it is made.
        return not node.args.defaults and not any(node.args.kw_defaults)
    return isinstance(node, ast.Name | ast.Constant)


@dataclass(frozen=True)
class Keeping:
    """Lets parts of a statement mean later what they mean now.

    `bind` puts an expression into a variable before the statement. `is_fixed` tells which expressions mean the same
    wherever they are evaluated, `is_named` which variables `:=` binds in the statement, and `is_frozen` of which
    expressions the object can't change either, whoever looks into it.
    """

    bind: Callable[[ast.expr, ast.AST], ast.expr]
    is_fixed: Callable[[ast.AST], bool]
    is_named: Callable[[str], bool]
    is_frozen: Callable[[ast.AST], bool]

    def in_slot(self, slot: Slot) -> Any:
        """What stands in a place, in a form that means later what it means now."""
        owner, field, number = slot
        node = get_slot(slot)
        match owner:
            case ast.Dict() if field == "values" and owner.keys[number or 0] is None:
                return self._unpacked(node)
            case ast.Call(args=[ast.Starred() as starred]) if starred is node:
                # Python walks through it after the arguments by name are evaluated, if there is nothing else.
                starred.value = self.kept(starred.value)
                return starred
            case ast.FormattedValue(conversion=conversion) if field == "value" and conversion >= 0 and _CONVERTS_FIRST:
                owner.conversion = -1
                return self.text(ast.copy_location(ast.FormattedValue(node, conversion, None), node)).value
        return self.kept(node)

    def kept(self, node: Any) -> Any:
        """A node that means later what it means now."""
        if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
            return self._parts_kept(node)
        match node:
            case ast.Starred(value=value):
                if not self._stays(value):
                    walked = ast.Starred(value, ast.Load())
                    node.value = self.bind(ast.List([ast.copy_location(walked, node)], ast.Load()), node)
                return node
            case ast.keyword(arg=None, value=value):
                node.value = self._unpacked(value)
                return node
            case ast.FormattedValue():
                stays = self._stays(node.value) and node.format_spec is None
                return node if stays else self.text(node)
            case ast.Slice() | ast.Tuple() | ast.keyword():
                return self._parts_kept(node)
        return node if self._is_fixed(node) else self.bind(node, node)

    def _parts_kept(self, node: Any) -> Any:
        for slot in slots(node):
            put_slot(slot, self.in_slot(slot))
        return node

    def _unpacked(self, value: ast.expr) -> ast.expr:
        return value if self._stays(value) else self.bind(ast.Dict([None], [value]), value)

    def text(self, node: ast.FormattedValue) -> ast.FormattedValue:
        """A part of a text that is written now."""
        text = self.bind(ast.JoinedStr([node]), node)
        return ast.copy_location(ast.FormattedValue(text, -1, None), node)

    def _stays(self, node: ast.AST) -> bool:
        return self.is_frozen(node) and self._is_fixed(node)

    def _is_fixed(self, node: ast.AST) -> bool:
        if not self.is_fixed(node):
            return False
        return not any(isinstance(part, ast.Name) and self.is_named(part.id) for part in ast.walk(node))
