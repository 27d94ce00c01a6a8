"""Which objects the variables of a method may be, what those hold, and which of them are changed or stored.

Needs: a `Flat` and its `Types`.
Leaves: objects by where they come from: state, columns, what the method makes, and what nobody knows. Objects that
can't be changed are left out. That a variable is an object is sure, or only suspected: where it may as well be
something else, as the result of unknown code.

Instructions are taken whatever their order, and all that is put into an object is one heap. With `tops` only those of
some statements of the body are taken: what holds before a cut, or behind it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final, get_origin

from millpond.compiler.analysis.effects import KINDS, Effect, Result, effect_of, effect_of_method
from millpond.compiler.analysis.mutability import field_of, is_frozen, items_of, without_none
from millpond.compiler.analysis.objs import COLUMN, MADE, OUTER, STATE, UNKNOWN, Obj, Objs
from millpond.compiler.analysis.types import Types
from millpond.compiler.ir.model import NOTHING, Flat, Instr, Op
from millpond.program import Element, merged

_FLAT: Final = (dict, sum, chain)
"""Functions that take the items of items, too."""


@dataclass(frozen=True, slots=True)
class Store:
    """An object is put into state: by which instruction, under which element, and what."""

    at: int
    element: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Content:
    """A value is put into an object, under a key if that has keys; or the items of the value are."""

    value: str
    key: str = ""
    items: bool = False


@dataclass
class PointsTo:
    """What variables may be; see above."""

    flat: Flat
    types: Types
    elements: Mapping[str, Element]
    tops: frozenset[int] | None = None
    columns: Iterable[str] = ()
    variables: dict[str, Objs] = field(default_factory=dict)
    held: dict[Obj, Objs] = field(default_factory=dict)
    changed: dict[Obj, list[int]] = field(default_factory=dict)
    stores: list[Store] = field(default_factory=list)
    puts: dict[Obj, set[int]] = field(default_factory=dict)
    twice: set[Obj] = field(default_factory=set)
    escaped: dict[Obj, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.columns:
            self._add(self.variables, name, {Obj(COLUMN, name, hint=self.types.of(name)): True}, name)
        instrs = [(at, one) for at, one in enumerate(self.flat.instrs) if self.tops is None or one.top in self.tops]
        grown = True
        while grown:
            self._grown = False
            for at, one in instrs:
                self._take(at, one)
            grown = self._grown
        for at, one in instrs:
            self._note(at, one)

    # --- questions

    def of(self, variable: str) -> Objs:
        """The objects that a variable may be."""
        return self.variables.get(variable, {})

    def reach(self, objs: Objs) -> Objs:
        """Objects, and all that they hold, however deep."""
        found: Objs = {}
        waiting = list(objs.items())
        while waiting:
            one, sure = waiting.pop()
            if one in found and (found[one] or not sure):
                continue
            found[one] = sure
            waiting += ((part, sure and likely) for part, likely in self._parts(one).items())
        return found

    def is_changed(self, variable: str) -> bool:
        """Whether an object that a variable may be or hold is changed."""
        return any(one in self.changed for one in self.reach(self.of(variable)))

    def is_shared(self, one: str, others: Iterable[Obj]) -> bool:
        """Whether a variable may be or hold one of some objects."""
        return not self.reach(self.of(one)).keys().isdisjoint(others)

    # --- what is put where

    def _add(self, table: dict[Any, Objs], key: Any, objs: Objs, variable: str = "") -> None:
        if variable and self.types.is_plain(variable):
            return
        known = table.setdefault(key, {})
        for one, sure in objs.items():
            if one.kind != MADE and is_frozen(one.hint):
                continue
            if one not in known or (sure and not known[one]):
                known[one] = sure
                self._grown = True

    def _put(self, owners: Objs, objs: Objs, *, sure: bool) -> None:
        for owner, likely in owners.items():
            inside = {one: also and sure and likely for one, also in objs.items() if one != owner}
            self._add(self.held, owner, inside)

    def _parts(self, one: Obj) -> Objs:
        inside = dict(self.held.get(one, {}))
        if one.kind != MADE:
            inside |= {replace(one, hint=hint): True for hint in items_of(one.hint) if not is_frozen(hint)}
        return inside

    def _all_parts(self, objs: Objs) -> Objs:
        found: Objs = {}
        for one, sure in objs.items():
            for part, likely in self._parts(one).items():
                found[part] = found.get(part, False) or (sure and likely)
        return found

    def _fields(self, objs: Objs, name: str) -> Objs:
        found: Objs = {}
        for one, sure in objs.items():
            for part, likely in self.held.get(one, {}).items():
                found[part] = found.get(part, False) or (sure and likely)
            hint = field_of(one.hint, name) if one.kind != MADE else None
            if one.kind != MADE and not is_frozen(hint):
                found[replace(one, hint=hint)] = sure
        return found

    def _given(self, one: Instr, first: int = 0) -> Objs:
        found: Objs = {}
        for objs in self._each_given(one, first):
            found |= objs
        return found

    def _each_given(self, one: Instr, first: int = 0) -> list[Objs]:
        return [
            self._all_parts(self.of(name)) if at in one.stars else self.of(name)
            for at, name in enumerate(one.args)
            if at >= first
        ]

    def runs_code(self, one: Instr) -> bool:
        """Whether an operator may call a method of a class that is not Python's own, on an object that counts."""
        if one.name in ("is", "is not"):
            return False
        known = (get_origin(kind) or kind for name in one.args if self.of(name) for kind in [self._kind(name)])
        return any(kind not in KINDS for kind in known)

    def _kind(self, variable: str) -> Any:
        return without_none(self.types.of(variable))

    # --- one instruction

    def _take(self, at: int, one: Instr) -> None:
        result = self._result(at, one)
        if one.out and result:
            self._add(self.variables, one.out, result, one.out)

    def _made(self, at: int, inside: Objs, name: str = "") -> Objs:
        made = Obj(MADE, name, at)
        self._put({made: True}, inside, sure=True)
        return {made: True}

    def _result(self, at: int, one: Instr) -> Objs:
        whole = self.of(one.args[0]) if one.args else {}
        match one.op:
            case Op.COPY:
                return whole
            case Op.OUTER:
                return {Obj(OUTER, one.name, hint=type(one.meaning)): True}
            case Op.MAKE:
                return self._made(at, self._given(one))
            case Op.ATTRIBUTE:
                return self._fields(whole, one.name)
            case Op.ITEM | Op.NEXT | Op.UNPACK:
                return self._all_parts(whole)
            case Op.PART | Op.ENTER:
                return {replace(part, hint=Any) if part.kind != MADE else part: False for part in self.reach(whole)}
            case Op.SLICE:
                return self._made(at, self._all_parts(whole))
            case Op.OPERATE:
                return self._operated(at, one)
            case Op.AUGMENT:
                return whole | self._augmented(at, one)
            case Op.SET_ITEM | Op.SET_ATTRIBUTE | Op.ADD:
                self._put(whole, self.of(one.args[1]), sure=True)
            case Op.STATE:
                return self._read(at, one)
            case Op.CALL | Op.METHOD:
                return self._called(at, one)
            case Op.FUNCTION:
                return self._made(at, self._given(one))
            case Op.CAUGHT | Op.YIELD:
                return {Obj(UNKNOWN, "", at, hint=Any): False} | dict.fromkeys(self._given(one), False)
        return {}

    def _augmented(self, at: int, one: Instr) -> Objs:
        if self.runs_code(one):
            return self._anything(at, one, self._given(one))
        whole, added = self.of(one.args[0]), self._all_parts(self.of(one.args[1]))
        self._put(whole, added, sure=False)
        return self._made(at, self._all_parts(whole) | added)

    def _operated(self, at: int, one: Instr) -> Objs:
        if len(one.args) < 2 or one.name in ("text", "==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in"):
            return {}
        if self.runs_code(one):
            return self._anything(at, one, self._given(one))
        return self._made(at, self._all_parts(self._given(one)))

    def effect(self, one: Instr) -> Effect:
        """What a call does."""
        if one.op is Op.METHOD:
            return effect_of_method(without_none(self.types.of(one.args[0])), one.name)
        return effect_of(None if one.meaning is NOTHING else one.meaning)

    def _called(self, at: int, one: Instr) -> Objs:
        effect = self.effect(one)
        owner = self.of(one.args[0]) if one.args else {}
        rest = self._given(one, 1)
        if effect.puts:
            inside = self._all_parts(rest) if effect.puts == "items" else rest
            self._put(owner, inside, sure=effect.result is not Result.ANYTHING)
        every = owner | rest
        match effect.result:
            case Result.PLAIN | Result.NEW:
                return {} if effect.result is Result.PLAIN else self._made(at, {})
            case Result.GIVEN:
                return rest if one.op is Op.CALL else every
            case Result.HOLDS:
                return self._made(at, every)
            case Result.ITEMS:
                inside = self._all_parts(every)
                return self._made(at, inside | (self._all_parts(inside) if one.meaning in _FLAT else {}))
            case Result.PAIRS:
                return self._made(at, self._made(at, self._all_parts(every), "pair"))
            case Result.PART:
                several = one.op is Op.CALL and len(one.args) - len(one.words) > 1
                found = every if several else self._all_parts(owner)
                return {part: sure and one.op is Op.CALL for part, sure in (found | rest).items()}
        return self._anything(at, one, every)

    def _anything(self, at: int, one: Instr, every: Objs) -> Objs:
        """Unknown code may put what it is given into each other, and give any of it."""
        if one.meaning is not merged:
            for name in one.args:
                self._put(self.of(name), dict.fromkeys(every, False), sure=False)
        given = {part if part.kind == MADE else replace(part, hint=Any): False for part in self.reach(every)}
        return {Obj(UNKNOWN, "", at, hint=Any): False} | given

    def _read(self, at: int, one: Instr) -> Objs:
        assert one.site is not None
        site, kind = one.site, self.elements[one.site.element].type
        operation = kind.operations[one.name]
        found: Objs = {}
        if operation.shares and one.name != "pop" and not is_frozen(kind.value_hint):
            key = one.args[0] if site.key is not None and one.args else ""
            there = Obj(STATE, site.element, at, kind.value_hint, key, site.everywhere)
            found = {there: not site.everywhere}
            if one.name in ("__iter__", "values"):
                found = self._made(at, found)
            elif one.name == "items":
                found = self._made(at, self._made(at, found, "pair"))
        return found | dict.fromkeys(self._given(one, 1), False)

    # --- what is changed and stored, once all is known

    def _note(self, at: int, one: Instr) -> None:
        whole = self.of(one.args[0]) if one.args else {}
        match one.op:
            case Op.SET_ITEM | Op.SET_ATTRIBUTE | Op.DELETE:
                self._change(whole, at)
                if one.op is not Op.DELETE:
                    self._note_put(self.of(one.args[1]), at)
            case Op.ADD:
                self._note_put(self.of(one.args[1]), at)
            case Op.ITEM if get_origin(without_none(self.types.of(one.args[0]))) is defaultdict:
                # Looking for a key may put it in.
                self._change(whole, at)
            case Op.AUGMENT if not self.types.is_plain(one.args[0]):
                self._change(whole, at)
                self._note_operated(at, one, self.of(one.args[1]))
            case Op.OPERATE if one.out and self.of(one.out):
                self._note_operated(at, one, *self._each_given(one))
            case Op.MAKE:
                self._note_puts(self._each_given(one), at)
            case Op.SLICE:
                self._note_put(self._all_parts(whole), at)
            case Op.CALL | Op.METHOD:
                self._note_call(at, one)
            case Op.STATE:
                self._note_store(at, one)
            case Op.YIELD | Op.ENTER | Op.RAISE:
                self._change(self.reach(self._given(one)), at)
                self._escape(self._given(one), at)

    def _note_call(self, at: int, one: Instr) -> None:
        effect = self.effect(one)
        if one.meaning is merged:
            return
        if effect.result is Result.ANYTHING:
            every = self.reach(self._given(one))
            self._change(every, at)
            self._escape(every, at)
        elif effect.changes and one.args:
            self._change(self.of(one.args[0]), at)
        if effect.puts:
            rest = self._each_given(one, 1)
            self._note_puts([self._all_parts(objs) if effect.puts == "items" else objs for objs in rest], at)
        if effect.result is Result.HOLDS:
            self._note_puts(self._each_given(one), at)
        elif effect.result in (Result.ITEMS, Result.PAIRS):
            inside = [self._all_parts(objs) for objs in self._each_given(one)]
            if one.meaning in _FLAT:
                inside = [objs | self._all_parts(objs) for objs in inside]
            self._note_puts(inside, at)

    def _note_operated(self, at: int, one: Instr, *added: Objs) -> None:
        """Note what an operator puts into what it gives: the items of lists that are added, several times for `*`."""
        if self.runs_code(one):
            every = self.reach(self._given(one))
            self._change(every, at)
            self._escape(every, at)
        inside = [self._all_parts(objs) for objs in added]
        self._note_puts(inside, at)
        if one.name.startswith("*"):
            self.twice.update(self._all_parts(self._given(one)))

    def _note_store(self, at: int, one: Instr) -> None:
        assert one.site is not None
        kind = self.elements[one.site.element].type
        if not kind.operations[one.name].writes or one.site.everywhere:
            return
        keyed = one.site.key is not None
        stored = one.args[1 if keyed else 0 :]
        self._note_puts([self.of(name) for name in stored], at)
        for name in stored:
            key = one.args[0] if keyed else ""
            self.stores.append(Store(at, one.site.element, key, name))
            # What state gives again is not followed: it may be changed by then.
            self._change({obj: sure for obj, sure in self.reach(self.of(name)).items() if obj.kind == STATE}, at)

    def _change(self, objs: Objs, at: int) -> None:
        for one in objs:
            self.changed.setdefault(one, []).append(at)

    def _escape(self, objs: Objs, at: int) -> None:
        for one in objs:
            self.escaped.setdefault(one, at)

    def _note_puts(self, several: list[Objs], at: int) -> None:
        """Note what one instruction puts into places: an object that is given twice gets into two of them."""
        for number, objs in enumerate(several):
            self._note_put(objs, at)
            self.twice.update(one for one in objs if any(one in other for other in several[:number]))

    def _note_put(self, objs: Objs, at: int) -> None:
        for one in objs:
            self.puts.setdefault(one, set()).add(at)

    def contents(self) -> dict[Obj, list[Content]]:
        """What instructions put into objects that the method makes; of those that unknown code got, nothing is told."""
        found: dict[Obj, list[Content]] = {}
        for one in self.flat.instrs:
            given = self._put_by(one)
            if given is not None:
                for obj in self.of(one.args[0]):
                    found.setdefault(obj, []).append(given)
        return found

    def _put_by(self, one: Instr) -> Content | None:
        match one.op:
            case Op.ADD | Op.SET_ITEM:
                return Content(one.args[1], one.args[2] if len(one.args) > 2 else "")
            case Op.AUGMENT:
                return Content(one.args[1], items=True)
            case Op.METHOD | Op.CALL:
                effect = self.effect(one)
                if effect.result is not Result.ANYTHING and effect.puts and len(one.args) > 1:
                    return Content(one.args[-1], one.args[1] if len(one.args) > 2 else "", effect.puts == "items")
        return None

    # --- what leaves a row

    def in_state(self) -> Objs:
        """All objects that state may hold when a row ends, besides those that it held before."""
        found: Objs = {}
        for _, objs in self.stored():
            found |= self.reach(objs)
        return found

    def stored(self) -> Iterator[tuple[str, Objs]]:
        """What is put into elements, or into objects of theirs, each with the name of the element."""
        yield from ((store.element, self.of(store.value)) for store in self.stores)
        yield from ((one.name, inside) for one, inside in self.held.items() if one.kind == STATE and not one.asked)

    def returns(self) -> Iterator[tuple[Instr, Objs]]:
        """The returns of the method, each with what leaves by it."""
        for one in self.flat.instrs:
            if one.op is Op.RETURN and one.args:
                yield one, self.reach(self.of(one.args[0]))
