"""All that is known of the values of a method: its flat form, and what the analyses say of it.

Needs: Method.body.
Leaves: Method.values, which later passes ask.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from millpond.compiler.analysis.mutability import is_frozen
from millpond.compiler.analysis.objs import STATE, Obj
from millpond.compiler.analysis.points_to import PointsTo, Store
from millpond.compiler.analysis.types import Types
from millpond.compiler.draft import Draft, Method
from millpond.compiler.ir.lower import lower
from millpond.compiler.ir.model import Flat, Instr, Op
from millpond.program import Element


def find_values(draft: Draft) -> Draft:
    """Lower every method, and analyse it."""
    return draft.each(lambda method: replace(method, found=values_of(method, draft.elements)))


def values_of(method: Method, elements: Mapping[str, Element]) -> Values:
    """Lower a method, and analyse it."""
    flat = lower(method, method.body, elements)
    points = PointsTo(flat, Types(flat, method, elements), elements, columns=method.parameters)
    # What objects hold is told by who puts something into them.
    return Values(flat, Types(flat, method, elements, points), points, elements)


@dataclass(frozen=True)
class Values:
    """A method's flat form, the types of its variables, and the objects that these may be."""

    flat: Flat
    types: Types
    points: PointsTo
    elements: Mapping[str, Element]
    _changed: set[int] = field(init=False)

    def __post_init__(self) -> None:
        changed = {one.at for one in self.points.changed if one.kind == STATE}
        object.__setattr__(self, "_changed", {id(self.flat.instrs[at].node) for at in changed})

    def changes(self, access: ast.AST) -> bool:
        """Whether a value that an access to state gives may be changed, or stored in another place."""
        return id(access) in self._changed

    def within(self, tops: Iterable[int], columns: Iterable[str]) -> PointsTo:
        """What holds if only some statements of the body run, that begin with some variables."""
        return PointsTo(self.flat, self.types, self.elements, frozenset(tops), columns)

    def returned(self) -> frozenset[tuple[int, int]]:
        """The places of returns whose value may be, or hold, an object of state."""
        stored = self.points.in_state()
        return frozenset(
            (getattr(one.node, "lineno", 0), getattr(one.node, "col_offset", 0))
            for one, leaving in self.points.returns()
            if any(is_states(obj) or obj in stored for obj in leaving)
        )

    def stored_again(self) -> Iterator[tuple[ast.AST, str, str]]:
        """What is put into an element although it is in another place of state: value, element, where else."""
        for store in self.points.stores:
            hint = self.elements[store.element].type.value_hint
            for obj, sure in self.points.of(store.value).items():
                if (
                    sure
                    and is_states(obj)
                    and not is_frozen(hint)
                    and (obj.name, obj.key) != (store.element, store.key)
                ):
                    node = self.flat.instrs[obj.at].node
                    key = node.slice if isinstance(node, ast.Subscript) else None
                    where = f"self.{obj.name}" + (f"[{ast.unparse(key)}]" if key is not None else "")
                    yield self._shown(store), store.element, where

    def _shown(self, store: Store) -> ast.AST:
        """The expression whose value is stored."""
        made = self.flat.definitions.get(store.value)
        return self.flat.instrs[made[0]].node if made and "%" in store.value else self.flat.instrs[store.at].node

    def origin(self, name: str) -> ast.AST | None:
        """Where a variable got its first value, for showing."""
        made = self.flat.definitions.get(name)
        return self.flat.instrs[made[0]].node if made else None

    def sources(self, name: str, tops: frozenset[int]) -> list[Instr]:
        """The instructions of some statements that a variable gets its values from."""
        found = []
        for one in (self.flat.instrs[number] for number in self.flat.definitions.get(name, ())):
            if one.op is Op.COPY and "%" in one.args[0]:
                found += self.sources(one.args[0], tops)
            elif one.top in tops:
                found.append(one)
        return found


def is_states(one: Obj) -> bool:
    """Whether an object is one of state; answers to each() leave their instance as copies."""
    return one.kind == STATE and not one.asked
