"""Taking parts out of a statement into variables before it, without changing the order of evaluation."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from millpond.compiler.flow import Branch

Slot = tuple[ast.AST, str, int | None]
"""A place that holds an expression: owner, field, and index if the field is a list."""

_FIELDS: Final[Mapping[type[ast.AST], tuple[str, ...]]] = {
    # Evaluated whenever the node is, in this order. What a node evaluates only sometimes is not listed.
    ast.Attribute: ("value",),
    ast.AugAssign: ("target", "value"),
    ast.BinOp: ("left", "right"),
    Branch: ("test",),
    ast.Expr: ("value",),
    ast.For: ("iter",),
    ast.FormattedValue: ("value",),
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
_STRUCTURE: Final = (ast.Starred, ast.keyword, ast.FormattedValue, ast.Slice, ast.Tuple)


ITEMS: Final = "items__"
"""How the lists begin that loops with cuts inside walk through."""


class FreshNames:
    """Makes names that a method does not use."""

    def __init__(self, used: Iterable[str]) -> None:
        self._used = set(used)

    def fresh(self, prefix: str) -> str:
        """A new name that starts with `prefix`."""
        number = 0
        while f"{prefix}__{number}" in self._used:
            number += 1
        name = f"{prefix}__{number}"
        self._used.add(name)
        return name


class Hoist:
    """Moves chosen expressions of one statement to `prelude`; what was evaluated before them goes along.

    `is_fixed` tells which expressions mean the same wherever they are evaluated; they stay.
    """

    def __init__(self, targets: Mapping[int, str], names: FreshNames, is_fixed: Callable[[ast.AST], bool]) -> None:
        self._targets = targets
        self._names = names
        self._is_fixed = is_fixed
        self.prelude: list[ast.stmt] = []

    def statement(self, statement: ast.stmt) -> None:
        """Hoist out of a statement, changed in place."""
        self._children(statement)

    def _children(self, node: ast.AST) -> None:
        slots = _slots(node)
        holding = [number for number, slot in enumerate(slots) if self._holds(get_slot(slot))]
        if not holding:
            return
        for number, slot in enumerate(slots[: holding[-1] + 1]):
            before_last = number < holding[-1]
            put_slot(slot, self._expression(get_slot(slot), keep_order=before_last))

    def _expression(self, node: Any, *, keep_order: bool) -> Any:
        self._children(node)
        if id(node) in self._targets:
            return self._bind(node, self._targets[id(node)])
        if not keep_order or self._is_fixed(node):
            return node
        if isinstance(node, _STRUCTURE) or isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
            for slot in _slots(node):
                put_slot(slot, self._expression(get_slot(slot), keep_order=True))
            return node
        return self._bind(node, "value")

    def _holds(self, node: ast.AST) -> bool:
        return any(id(part) in self._targets for part in ast.walk(node))

    def _bind(self, node: ast.expr, prefix: str) -> ast.Name:
        name = self._names.fresh(prefix)
        target = ast.copy_location(ast.Name(name, ast.Store()), node)
        self.prelude.append(ast.copy_location(ast.Assign([target], node), node))
        return ast.copy_location(ast.Name(name, ast.Load()), node)


def _slots(node: ast.AST) -> list[Slot]:
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
