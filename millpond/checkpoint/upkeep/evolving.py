"""Other state elements for a checkpoint that is there: what a changed program keeps, changes, adds and drops.

An evolution is an epoch of its own. Its delta holds the entries whose bytes change, and its manifest says the elements
from there on. It is committed as any epoch is: whoever dies on the way leaves the old elements or the new ones. What
can't be brought over for certain is refused before that, with both types shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import msgspec

from millpond.checkpoint.read.typetexts import read_type
from millpond.checkpoint.records.manifest import Elements, ElementSchema
from millpond.errors import EpochError
from millpond.program.declare import Element
from millpond.state.codec.oldtypes import UnknownShapeError
from millpond.state.codec.shapes import TypeShape, described, shape_of
from millpond.state.evolution import Conversion, Mismatch, conversion
from millpond.state.expiry import AgedType
from millpond.state.local.storekey import ELEMENTS_MAX
from millpond.state.timers import DUE
from millpond.windowing.element import WindowsType
from millpond.windowing.keyed.notes import Carried, NotCarriedError, WindowsNote, carried


@dataclass(frozen=True, slots=True)
class Rewrite:
    """An element whose stored entries change: by a conversion, or by the program's own function if that is None.

    Entries of windows are `carried` over to other windows instead.
    """

    index: int
    element: Element
    old: ElementSchema
    shape: TypeShape | None
    conversion: Conversion | None
    carried: Carried | None = None


@dataclass(frozen=True, slots=True)
class Evolution:
    """What a program makes of a checkpoint's elements.

    `elements` are those from then on, by index; `dropped` are indexes whose entries go.
    """

    elements: Elements
    rewrites: tuple[Rewrite, ...] = ()
    dropped: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Problem:
    """Something that can't be brought over: the element, the two sides, and why."""

    name: str
    old: str
    new: str
    why: str


def plan_evolution(
    kept: Elements,
    program: Mapping[str, Element],
    schemas: Sequence[ElementSchema],
    dropped: Sequence[str],
    seen_us: int | None = None,
) -> Evolution:
    """Return what the program makes of the elements that the checkpoint has; raises if something can't be brought over.

    No row of the checkpoint has a time after `seen_us`.
    """
    planner = _Planner(kept, dropped, seen_us)
    for element, schema in zip(program.values(), schemas, strict=True):
        planner.take(element, schema)
    planner.drop(frozenset(program))
    planner.place()
    if planner.problems:
        raise _refused(planner.problems)
    return Evolution(tuple(planner.elements), tuple(planner.rewrites), tuple(planner.dropped))


class _Planner:
    def __init__(self, kept: Elements, dropped: Sequence[str], seen_us: int | None) -> None:
        self._kept = kept
        self._seen_us = seen_us
        self._names = {schema.name: index for index, schema in enumerate(kept) if schema is not None}
        self._given_up = frozenset(dropped)
        self._taken: set[int] = set()
        self._fresh: list[ElementSchema] = []
        self.elements: list[ElementSchema | None] = list(kept)
        self.rewrites: list[Rewrite] = []
        self.dropped: list[int] = []
        self.problems: list[_Problem] = []

    def take(self, element: Element, schema: ElementSchema) -> None:
        """Find an element of the program in the checkpoint, by its name or its old one; it is new if there is none."""
        index = self._names.get(element.name, self._names.get(element.evolves.was or ""))
        old = None if index is None else self._kept[index]
        if index is None or old is None:
            self._fresh.append(schema)
        elif index in self._taken:
            self.problems.append(_Problem(element.name, str(old), str(schema), f"two elements were `{old.name}`"))
        else:
            self._taken.add(index)
            self.elements[index] = self._changed(index, element, old, schema)

    def drop(self, declared: frozenset[str]) -> None:
        """Look at what is left of the checkpoint's elements: it goes if the program says so."""
        for index, old in enumerate(self._kept):
            if old is None or index in self._taken or old.name in declared:
                continue
            if old.name in self._given_up:
                self.dropped.append(index)
                self.elements[index] = None
            else:
                why = f'the program has no such element: say was="{old.name}" in that which it is now, or dropped=("'
                self.problems.append(_Problem(old.name, str(old), "nothing", f'{why}{old.name}",) in the class'))

    def place(self) -> None:
        """Give each new element an index that nothing has: its entries can't meet those of another one."""
        free = [index for index, old in enumerate(self._kept) if old is None]
        for schema in self._fresh:
            if free:
                self.elements[free.pop(0)] = schema
            elif len(self.elements) < ELEMENTS_MAX:
                self.elements.append(schema)
            else:
                why = f"a checkpoint has at most {ELEMENTS_MAX} elements, those that are dropped now included"
                self.problems.append(_Problem(schema.name, "nothing", str(schema), why))

    def _changed(self, index: int, element: Element, old: ElementSchema, new: ElementSchema) -> ElementSchema:
        """Return the schema of an element from now on; how its entries get there is noted."""
        named = msgspec.structs.replace(old, name=new.name)
        if old.windows is None:
            # Checkpoints that do not note windows tell by the marks of entries whether they are the same.
            new = msgspec.structs.replace(new, windows=None)
        if named == new:
            return new
        if old.windows is not None and new.windows is not None and old.key == new.key:
            return self._windows(Rewrite(index, element, old, None, None), old.windows, new)
        shape = kept_shape(old)
        by_hand = element.evolves.migrate is not None
        aged = isinstance(element.type, AgedType)
        if by_hand and aged and shape is not None and [part.kind for part in shape.root.parts[:1]] != ["int"]:
            why = "entries have no time yet from which they could live on: load the element anew (docs/EVOLUTION.md)"
            self.problems.append(_Problem(new.name, str(old), str(new), why))
        elif (old.distribution, old.by) != (new.distribution, new.by):
            why = "entries would have to move between key groups: load the element anew (docs/EVOLUTION.md)"
            self.problems.append(_Problem(new.name, str(old), str(new), why))
        elif (old.kind, old.key) != (new.kind, new.key):
            if element.evolves.moves_keys:
                self.rewrites.append(Rewrite(index, element, old, shape, None))
            else:
                why = "its kind or its keys change: give migrate= a function of key and value"
                self.problems.append(_Problem(new.name, str(old), str(new), why))
        elif by_hand:
            self.rewrites.append(Rewrite(index, element, old, shape, None))
        elif shape is None and old.value == new.value:
            # Only the name of its class is known: that it is the same is believed, as it always was.
            return named
        elif shape is None:
            why = "what the class was made of is not noted: give migrate= a function that declares the old type"
            self.problems.append(_Problem(new.name, str(old), str(new), why))
        else:
            self._convert(Rewrite(index, element, old, shape, None), shape, new)
        return new

    def _windows(self, rewrite: Rewrite, before: WindowsNote, new: ElementSchema) -> ElementSchema:
        """Let the windows go on that stay; if none does, nothing that is stored is needed any more."""
        assert new.windows is not None
        rules = cast("WindowsType", rewrite.element.type).rules
        late = rules.lateness_us > 0
        try:
            found = carried(before, new.windows, rules.windows, late=late, seen=self._seen_us)
        except NotCarriedError as error:
            self.problems.append(_Problem(new.name, str(before), str(new.windows), str(error)))
            return new
        now = msgspec.structs.replace(new, windows=found.note)
        if now == msgspec.structs.replace(rewrite.old, name=new.name):
            return now
        if found.kept:
            self.rewrites.append(replace(rewrite, carried=found))
        else:
            self.dropped += [rewrite.index, self._names[rewrite.old.name + DUE]]
        return now

    def _convert(self, rewrite: Rewrite, shape: TypeShape, new: ElementSchema) -> None:
        wanted, fillable = described(rewrite.element.type.value_hint)
        try:
            found = conversion(shape, wanted, fillable, rewrite.element.evolves.renamed)
        except Mismatch as mismatch:
            self.problems.append(_Problem(new.name + mismatch.path, mismatch.old, mismatch.new, mismatch.why))
        except UnknownShapeError as unknown:
            why = f"this version of Millpond can't convert a {unknown}"
            self.problems.append(_Problem(new.name, str(rewrite.old), str(new), why))
        else:
            if found.rewrites:
                self.rewrites.append(
                    Rewrite(rewrite.index, rewrite.element, rewrite.old, rewrite.shape, conversion=found)
                )


def kept_shape(schema: ElementSchema) -> TypeShape | None:
    """Return the shape of an element's values as a checkpoint notes it; None if it only knows the name of a class."""
    if schema.shape is not None:
        return schema.shape
    known = read_type(schema.value)
    return shape_of(known.hint) if known.certain else None


def _refused(problems: list[_Problem]) -> EpochError:
    lines = []
    for problem in problems:
        lines += [
            f"{problem.name}",
            f"  checkpoint  {problem.old}",
            f"  program     {problem.new}",
            f"  why         {problem.why}",
        ]
    return EpochError(
        "MP441",
        "the program's state elements can't take over those of the checkpoint",
        expected="changes that need no code: new elements, fields with defaults, wider types, was=, renamed=, dropped=",
        found="\n            ".join(("both sides of each change", *lines)),
        hint="undo the change, or give the element a migrate= function; nothing was changed (docs/EVOLUTION.md)",
    )
