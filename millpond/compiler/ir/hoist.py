"""Taking parts out of a statement into variables before it, without changing the order of evaluation."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from millpond.compiler.ir.order import Keeping, Slot, get_slot, named_in, put_slot, slots

ITEMS: Final = "items__"
"""How the lists begin that loops with cuts inside walk through."""


class FreshNames:
    """Makes names that a method does not use; `settled` are those of objects that nobody changes."""

    def __init__(self, used: Iterable[str]) -> None:
        self._used = set(used)
        self.settled: set[str] = set()

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

    `is_fixed` tells which expressions mean the same wherever they are evaluated, and `is_frozen` of which the object
    can't change either; they stay.
    """

    def __init__(
        self,
        targets: Mapping[int, str],
        names: FreshNames,
        is_fixed: Callable[[ast.AST], bool],
        is_frozen: Callable[[ast.AST], bool],
    ) -> None:
        self._targets = targets
        self._names = names
        self._is_frozen = is_frozen
        self._named: frozenset[str] = frozenset()
        self._keeping = Keeping(self._keep, is_fixed, lambda name: name in self._named, self._cannot_change)
        self.prelude: list[ast.stmt] = []

    def statement(self, statement: ast.stmt) -> None:
        """Hoist out of a statement, changed in place."""
        self._named = named_in(statement)
        self._children(statement)

    def _children(self, node: ast.AST) -> None:
        places = slots(node)
        holding = [number for number, slot in enumerate(places) if self._holds(get_slot(slot))]
        if not holding:
            return
        for number, slot in enumerate(places[: holding[-1] + 1]):
            put_slot(slot, self._expression(slot))
            if number < holding[-1]:
                put_slot(slot, self._keeping.in_slot(slot))

    def _expression(self, slot: Slot) -> Any:
        node = get_slot(slot)
        self._children(node)
        if id(node) not in self._targets:
            return node
        if isinstance(node, ast.FormattedValue):
            return self._keeping.text(node)
        bound = self._bind(node, self._targets[id(node)])
        if slot[1] == "format_spec":
            return ast.copy_location(ast.JoinedStr([ast.copy_location(ast.FormattedValue(bound, -1), node)]), node)
        return bound

    def _cannot_change(self, node: ast.AST) -> bool:
        return self._is_frozen(node) or (isinstance(node, ast.Name) and node.id in self._names.settled)

    def _holds(self, node: ast.AST) -> bool:
        return any(id(part) in self._targets for part in ast.walk(node))

    def _keep(self, node: ast.expr, at: ast.AST) -> ast.expr:
        bound = self._bind(ast.copy_location(node, at), "value")
        match node:
            case ast.JoinedStr() | ast.List(elts=[ast.Starred()]) | ast.Dict(keys=[None]):
                self._names.settled.add(bound.id)
        return bound

    def _bind(self, node: ast.expr, prefix: str) -> ast.Name:
        name = self._names.fresh(prefix)
        target = ast.copy_location(ast.Name(name, ast.Store()), node)
        self.prelude.append(ast.copy_location(ast.Assign([target], node), node))
        return ast.copy_location(ast.Name(name, ast.Load()), node)
