"""Which elements a row may leave with an object that is in two places, or with a value that does not fit its type.

Needs: Method.values and pieces, Draft.sees_sets.
Leaves: Method.renews: the elements whose places are made values again at the end of each row. For the others it is
proven that nobody could tell: each object that a row puts into state was made in this row, is put into one place once,
and is of the declared type, or can't be changed; or it goes back to the place that it came from. Method.own are the
columns of which a row has a copy of its own for that.
"""

from __future__ import annotations

import ast
import types
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, get_args, get_origin

from millpond.compiler.analysis.effects import Result
from millpond.compiler.analysis.mutability import is_frozen, without_none
from millpond.compiler.analysis.objs import COLUMN, MADE, STATE, Obj
from millpond.compiler.analysis.record_types import fields_of, has_code, remembers, sets_plainly
from millpond.compiler.analysis.types import PAIRED, is_of, part_of
from millpond.compiler.draft import Draft, Method
from millpond.compiler.ir.model import Instr, Op
from millpond.program import Element
from millpond.state.codec.typenames import type_text
from millpond.state.containers.counter import Counter
from millpond.state.containers.matrix import Matrix
from millpond.state.containers.value import Value

_CONTAINERS: Final = (list, set, deque, *PAIRED)
_PUTTING: Final = (Op.SET_ITEM, Op.SET_ATTRIBUTE, Op.METHOD, Op.AUGMENT, Op.CALL)


def find_owned(draft: Draft) -> Draft:
    """Find the elements of each method whose places must be made values again."""
    return draft.each(lambda method: _owned(method, draft))


def _owned(method: Method, draft: Draft) -> Method:
    proof = _Proof(method, draft.elements)
    renews = _renews(method, draft, proof)
    # Where all is looked at when a row ends, a column may stay the object that came in.
    own = {obj.name for obj in proof.stored if obj.kind == COLUMN} if proof.doubtful is None else set()
    return replace(method, renews=renews, own=tuple(sorted(own)), copies=tuple(method.values.stored_again()))


def _renews(method: Method, draft: Draft, proof: _Proof) -> dict[str, str]:
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
    doubtful = proof.doubtful
    if doubtful is not None and not renewed.keys() >= set(changed):
        why = _told(method, doubtful, "may leave an object in two places")
        renewed = {**dict.fromkeys(changed, why), **renewed}
    counted = {one.state for one in accesses if one.writes and elements[one.state].type.container is Counter}
    left = sorted({*written, *counted} - renewed.keys())
    misfits = proof.misfits(left)
    return renewed | {
        name: _told(method, node, f"may store what is no {type_text(elements[name].type.value_hint)}")
        for name, node in misfits.items()
    }


def _told(method: Method, node: ast.AST, what: str) -> str:
    line = method.source.origin(getattr(node, "lineno", method.source.first))[1]
    return f"line {line} {what}: {method.source.text(node)}"


class _Proof:
    """Looks at all that a method does to objects of state, and to those that it puts there."""

    def __init__(self, method: Method, elements: Mapping[str, Element]) -> None:
        self._method = method
        self._elements = elements
        self._flat = method.values.flat
        self._types = method.values.types
        self._points = method.values.points
        self.stored = self._points.in_state()

    @cached_property
    def doubtful(self) -> ast.AST | None:
        """What keeps the proof from holding; None if nobody can tell that places are not made values again."""
        for obj in self.stored:
            if not self._is_owned(obj):
                return self._first(obj)
        for at, one in enumerate(self._flat.instrs):
            if self._reaches_out(at, one):
                return one.node
        return None

    def _first(self, obj: Obj) -> ast.AST:
        """Where an object is put that has no place of its own, or else where it is first met."""
        places = sorted(self._points.puts.get(obj, ()))
        if places:
            return self._flat.instrs[places[-1]].node
        reach, of = self._points.reach, self._points.of
        met = (one.node for one in self._flat.instrs if any(obj in reach(of(name)) for name in one.args))
        return next(met, self._method.tree)

    def _is_owned(self, obj: Obj) -> bool:
        """Whether an object that gets into state was made for its one place, or is there already."""
        places = sorted(self._points.puts.get(obj, ()))
        if obj in self._points.twice:
            return False
        if obj.kind == STATE:
            return all(self._returns_home(obj, self._flat.instrs[at]) for at in places)
        if obj.kind == COLUMN:
            return self._is_stored_column(obj)
        if obj.kind != MADE or len(places) > 1 or self._flat.instrs[obj.at].op is Op.FUNCTION:
            return False
        # In a loop, an object that is made before is put again in each turn.
        return all(at not in self._flat.repeated or self._flat.blocks[at] == self._flat.blocks[obj.at] for at in places)

    def _is_stored_column(self, obj: Obj) -> bool:
        """Whether a column is put into one place once, it or a part of it: then the row can have a copy of its own.

        A method that is cut carries what came in, and rows may be run again with it.
        """
        places = {at for other, found in self._points.puts.items() if other.root == obj.root for at in found}
        once = len(places) == 1 and not any(other.root == obj.root for other in self._points.twice)
        return len(self._method.pieces) == 1 and once and not places & self._flat.repeated

    def _returns_home(self, obj: Obj, one: Instr) -> bool:
        """Whether an object of state is stored where it was read: under the same variable, which has one value."""
        if one.site is None or one.site.element != obj.name or obj.hint != self._elements[obj.name].type.value_hint:
            return False
        if self._elements[obj.name].type.single:
            # A list has many places; a value has one.
            return self._elements[obj.name].type.container is Value
        key = one.args[0]
        made = self._flat.definitions.get(key, [])
        bound = len(made) + (key in self._method.parameters)
        return key == obj.key and bound == 1 and not any(at in self._flat.repeated for at in made)

    def _reaches_out(self, at: int, one: Instr) -> bool:
        """Whether unknown code gets hold of an object of state, or of one that gets there."""
        if one.op is Op.YIELD and not self._within(at):
            return True
        if one.op is Op.ATTRIBUTE and not self._is_field(one):
            return self._is_held(one.args[0])
        if one.op is Op.SET_ATTRIBUTE and not self._is_field(one):
            return self._is_held(one.args[0])
        if one.op in (Op.OPERATE, Op.AUGMENT):
            return self._points.runs_code(one) and any(map(self._is_held, one.args))
        unknown = one.op in (Op.CALL, Op.METHOD) and self._points.effect(one).result is Result.ANYTHING
        return (unknown or one.op is Op.ENTER) and any(map(self._is_held, one.args))

    def _within(self, at: int) -> bool:
        """Whether what an inner function gives is of no concern: it has nothing to do with state."""
        return not any(map(self._is_held, self._flat.instrs[at].args))

    def _is_held(self, variable: str) -> bool:
        """Whether a variable may be, or hold, an object of state that could be changed."""
        reached = self._points.reach(self._points.of(variable))
        return any(obj.kind == STATE or obj in self.stored for obj in reached)

    def _is_field(self, one: Instr) -> bool:
        """Whether an attribute is a declared field of what its owner is, which no code stands before."""
        hint = without_none(self._types.of(one.args[0]))
        if not isinstance(hint, type) or one.name not in fields_of(hint):
            return is_frozen(hint) or (get_origin(hint) or hint) in (list, set, *PAIRED)
        return one.op is Op.ATTRIBUTE or sets_plainly(hint)

    # --- types

    def misfits(self, names: list[str]) -> dict[str, ast.AST]:
        """Those of some elements that may get a value that does not fit, each with where.

        What is put into an object of another type may come out of it again, and get anywhere.
        """
        found: dict[str, ast.AST] = {}
        for one in self._flat.instrs if names else ():
            for name in self._unfit(one, names):
                if name in names:
                    found.setdefault(name, one.node)
        return found

    def _unfit(self, one: Instr, every: list[str]) -> Iterator[str]:
        if one.op is Op.STATE:
            assert one.site is not None
            if not self._takes(one):
                yield one.site.element
        elif one.op in _PUTTING and one.args and self._is_held(one.args[0]) and not self._may_put(one):
            yield from every

    def _takes(self, one: Instr) -> bool:
        """Whether an element gets what is of its type."""
        assert one.site is not None
        kind = self._elements[one.site.element].type
        hint = kind.arguments[2] if kind.container is Matrix else kind.value_hint
        given = one.args[1:] if one.site.key is not None else one.args
        if one.name == "__setitem__":
            return self._types.fits(one.args[-1], hint)
        if kind.container.__name__ == "Set":
            return True
        if one.name in ("setdefault", "set", "append", "add"):
            return all(self._types.fits(name, hint) for name in given)
        if one.name == "extend":
            return all(self._types.fits(name, types.GenericAlias(list, (hint,))) for name in given)
        return one.name != "update"

    def _may_put(self, one: Instr) -> bool:
        """Whether what is put into an object of state fits that object's type."""
        whole = without_none(self._types.of(one.args[0]))
        match one.op:
            case Op.SET_ATTRIBUTE:
                hint = fields_of(whole).get(one.name) if isinstance(whole, type) else None
                return hint is not None and self._types.fits(one.args[1], hint)
            case Op.SET_ITEM:
                keyed = get_origin(whole) not in PAIRED or self._types.fits(one.args[2], get_args(whole)[0])
                return keyed and self._fits_item(one.args[1], whole)
            case Op.AUGMENT:
                return self._types.is_sure(one.out) and self._types.of(one.out) == whole
        effect = self._points.effect(one)
        if not effect.puts or effect.result is Result.ANYTHING:
            # Unknown code is a doubt of its own.
            return True
        rest = one.args[1:]
        if effect.puts == "items":
            return all(self._fits_items(name, whole) for name in rest)
        if get_origin(whole) in PAIRED:
            return len(rest) == 2 and self._types.fits(rest[0], get_args(whole)[0]) and self._fits_item(rest[1], whole)
        return bool(rest) and self._fits_item(rest[-1], whole)

    def _fits_item(self, variable: str, whole: Any) -> bool:
        return get_origin(whole) in _CONTAINERS and self._types.fits(variable, get_args(whole)[-1])

    def _fits_items(self, variable: str, whole: Any) -> bool:
        if self._types.fits(variable, whole):
            return True
        item = part_of(self._types.of(variable), "item")
        return (
            self._types.is_sure(variable)
            and get_origin(whole) in (list, set, deque)
            and is_of(item, get_args(whole)[0])
        )
