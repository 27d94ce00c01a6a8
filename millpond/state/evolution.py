"""From values of one type to values of another, where nothing is lost and nothing must be guessed.

What is converted: fields that were added with a default, renamed or dropped on request, in any order; `T` to `T | None`
and to wider unions; whole numbers to floats and decimals of the same value; more members of an enum or a `Literal`;
lists and tuples, sets and frozen sets; a record to another kind of record. The rest is a `Mismatch`.

>>> from millpond.state.codec.shapes import described, shape_of
>>> change = conversion(shape_of(list[int]), *described(list[float]), renamed={})
>>> change.rewrites, msgspec.msgpack.decode(change.stored(msgspec.msgpack.encode([1, 2])))
(True, [1.0, 2.0])
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from millpond.state.codec.oldtypes import SCALARS, OldType
from millpond.state.codec.shapes import ClassShape, FieldShape, Fillable, Shape, TypeShape, class_text, shape_text

Renamed = Mapping[str, str | None]
"""New names of fields by their old ones, as `field` or `Class.field`; None drops the field."""

Convert = Callable[[Any], Any]

_SEQUENCES = frozenset({"list", "tuple", "tuple..."})
_SETS = frozenset({"set", "frozenset"})
_TYPES: dict[str, type] = {
    **SCALARS,
    "list": list,
    "tuple": tuple,
    "tuple...": tuple,
    "set": set,
    "frozenset": frozenset,
    "dict": dict,
}


class Mismatch(Exception):  # noqa: N818 - it says what is, and whoever asked decides what follows
    """Two types that need a function to come from one to the other: where they part, and how."""

    def __init__(self, path: str, old: str, new: str, why: str) -> None:
        super().__init__(why)
        self.path = path
        self.old = old
        self.new = new
        self.why = why


class InexactError(Exception):
    """A whole number that no float is equal to."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """How stored values of the old type become stored values of the new one.

    Unless it `rewrites`, the bytes stay as they are. `stored` gives bytes that the new type reads; whoever stores them
    reads and writes them once more, so that defaults are filled in and equal values have equal bytes.
    """

    rewrites: bool
    old: OldType
    convert: Convert

    def stored(self, data: bytes) -> bytes:
        """Return the bytes of one value, converted; raises `InexactError` for a number that has no equal."""
        return msgspec.msgpack.encode(self.convert(self.old.decode(data)))


def conversion(old: TypeShape, new: TypeShape, fillable: Fillable, renamed: Renamed) -> Conversion:
    """Return how values of the old shape become those of the new one; raises `Mismatch` if a function must say."""
    matcher = _Matcher(OldType(old), new, fillable, renamed)
    convert = matcher.match(old.root, new.root, "")
    return Conversion(matcher.rewrites, matcher.old_type, convert)


class _Matcher:
    """Walks through both types side by side."""

    def __init__(self, old_type: OldType, new: TypeShape, fillable: Fillable, renamed: Renamed) -> None:
        self.old_type = old_type
        self._old = old_type.shape
        self._new = new
        self._fillable = fillable
        self._renamed = renamed
        self.rewrites = False
        self._known: dict[tuple[str, str], list[Convert]] = {}

    def match(self, old: Shape, new: Shape, path: str) -> Convert:
        if old.kind == "union":
            return self._from_union(old, new, path)
        if new.kind == "union":
            return self._to_union(old, new, path)
        if new.limits not in ((), old.limits):
            raise self._mismatch(path, old, new, "its limits are others, which values may not keep")
        if old.kind == new.kind == "record":
            return self._record(self._old.of_class(old.name), self._new.of_class(new.name), path)
        if old.kind == new.kind == "enum":
            return self._enum(old, new, path)
        if old.kind == "Literal":
            return self._literal(old, new, path)
        if {old.kind, new.kind} <= _SEQUENCES:
            return self._sequence(old, new, path)
        if {old.kind, new.kind} <= _SETS:
            return self._items(old.parts[0], new.parts[0], f"{path}[]", list)
        if old.kind == new.kind == "dict":
            return self._dict(old, new, path)
        return self._scalar(old, new, path)

    def _scalar(self, old: Shape, new: Shape, path: str) -> Convert:
        if old.kind == new.kind and old.kind in (*_TYPES, "Any"):
            return _unchanged
        if (old.kind, new.kind) == ("int", "float"):
            self.rewrites = True
            return _exact_float
        if (old.kind, new.kind) == ("int", "Decimal"):
            self.rewrites = True
            return decimal.Decimal
        raise self._mismatch(path, old, new, "no value of the one is a value of the other for certain")

    def _literal(self, old: Shape, new: Shape, path: str) -> Convert:
        kinds = {type(value).__name__ for value in old.values}
        wider = new.kind == "Literal" and set(map(repr, old.values)) <= set(map(repr, new.values))
        if wider or kinds == {new.kind}:
            return _unchanged
        raise self._mismatch(path, old, new, "values are missing now")

    def _enum(self, old: Shape, new: Shape, path: str) -> Convert:
        was, now = self._old.of_class(old.name), self._new.of_class(new.name)
        gone = [name for name, value in was.members if value not in [kept for _, kept in now.members]]
        if gone:
            raise Mismatch(path, class_text(was), class_text(now), f"the value of {gone[0]} is missing now")
        return lambda member: member.value

    def _sequence(self, old: Shape, new: Shape, path: str) -> Convert:
        if new.kind != "tuple" and old.kind != "tuple":
            return self._items(old.parts[0], new.parts[0], f"{path}[]", list)
        if new.kind != "tuple":
            steps = [self.match(part, new.parts[0], f"{path}[{at}]") for at, part in enumerate(old.parts)]
        elif old.kind == "tuple" and len(old.parts) == len(new.parts):
            pairs = zip(old.parts, new.parts, strict=True)
            steps = [self.match(*pair, f"{path}[{at}]") for at, pair in enumerate(pairs)]
        else:
            raise self._mismatch(path, old, new, "another number of items")
        return lambda items: [step(item) for step, item in zip(steps, items, strict=True)]

    def _items(self, old: Shape, new: Shape, path: str, make: Callable[[Any], Any]) -> Convert:
        step = self.match(old, new, path)
        return lambda items: make(map(step, items))

    def _dict(self, old: Shape, new: Shape, path: str) -> Convert:
        key = self._key(old.parts[0], new.parts[0], f"{path} (key)".strip())
        value = self.match(old.parts[1], new.parts[1], f"{path}[]")
        return lambda held: {key(k): value(v) for k, v in held.items()}

    def _key(self, old: Shape, new: Shape, path: str) -> Convert:
        """Return a key inside a dict: as it is, unless it is a number; what it becomes must be a key of a dict, too."""
        before = self.rewrites
        self.rewrites = False
        step = self.match(old, new, path)
        changed, self.rewrites = self.rewrites, before or self.rewrites
        if not changed:
            return _unchanged
        if old.kind != "int":
            raise self._mismatch(path, old, new, "a key inside a dict that is no number can't change")
        return step

    def _from_union(self, old: Shape, new: Shape, path: str) -> Convert:
        steps = [(self._is_a(member), self.match(member, new, path)) for member in old.parts]
        return lambda value: next(step for fits, step in steps if fits(value))(value)

    def _is_a(self, member: Shape) -> Callable[[Any], bool]:
        if member.kind == "Literal":
            return lambda value: any(value == one and type(value) is type(one) for one in member.values)
        kind = self.old_type.standin(member.name) if member.name else _TYPES[member.kind]
        return lambda value: type(value) is kind

    def _to_union(self, old: Shape, new: Shape, path: str) -> Convert:
        """Return the member that takes the value as it is, else the first one that takes it changed."""
        found: list[tuple[bool, Convert, dict[tuple[str, str], list[Convert]]]] = []
        for member in new.parts:
            trial = _Matcher(self.old_type, self._new, self._fillable, self._renamed)
            trial._known = dict(self._known)
            try:
                step = trial.match(old, member, path)
            except Mismatch as mismatch:
                if old.kind == member.kind == "record" and not self._tagged(new):
                    raise mismatch from None
                continue
            found.append((trial.rewrites, step, trial._known))
        if not found:
            raise self._mismatch(path, old, new, "none of these takes it")
        rewrites, step, self._known = min(found, key=lambda way: way[0])
        self.rewrites |= rewrites
        return step

    def _tagged(self, union: Shape) -> bool:
        return len([member for member in union.parts if member.kind == "record"]) > 1

    def _record(self, was: ClassShape, now: ClassShape, path: str) -> Convert:
        pair = (was.name, now.name)
        if pair in self._known:
            return _Later(self._known[pair])
        self._known[pair] = made = list[Convert]()
        sources = self._sources(was, now, path)
        steps = [
            (field.stored, source.name, self.match(source.type, field.type, f"{path}.{field.name}"), field)
            for field, source in sources
        ]
        self._note_changes(was, now, sources)
        fields = self.old_type.fields

        def convert(record: Any) -> Any:
            held = fields(record)
            if now.positional:
                # Fields with defaults stand at the end, so nothing is missing before one that is there.
                return [now.tag][: now.tag is not None] + [step(held[name]) for _, name, step, _ in steps]
            tag = {now.tag_field: now.tag} if now.tag_field else {}
            return tag | {stored: step(held[name]) for stored, name, step, _ in steps if name in held}

        made.append(convert)
        return convert

    def _note_changes(self, was: ClassShape, now: ClassShape, sources: list[tuple[FieldShape, FieldShape]]) -> None:
        """Note whether records of the new class have other bytes: other fields, names, order, tags, or layout."""
        kept = [source for _, source in sources]
        wired = [(field.stored, field.default) for field, _ in sources]
        same = (
            kept == list(was.fields)
            and len(sources) == len(now.fields)
            and wired == [(source.stored, source.default) for source in kept]
            and all(not source.optional or field.optional for field, source in sources)
            and (was.positional, was.tag_field, was.tag) == (now.positional, now.tag_field, now.tag)
        )
        self.rewrites |= not same

    def _sources(self, was: ClassShape, now: ClassShape, path: str) -> list[tuple[FieldShape, FieldShape]]:
        """Return each new field with the old one that it comes from; nothing old may be lost, nothing new be empty."""
        names = {field.name: self._new_name(field.name, was, now) for field in was.fields}
        targets = {new: old for old, new in names.items() if new is not None}
        old = {field.name: field for field in was.fields}
        lost = [name for name, new in names.items() if new is not None and new not in {f.name for f in now.fields}]
        if lost:
            raise self._classes(path, was, now, f"field `{lost[0]}` is gone")
        sources = []
        for field in now.fields:
            source = old.get(targets.get(field.name, ""))
            fills = (now.name, field.name) in self._fillable
            if source is None and not fills:
                raise self._classes(path, was, now, f"field `{field.name}` is new and has no default")
            if source is not None and source.optional and source.default is None and not fills:
                raise self._classes(path, was, now, f"field `{field.name}` was missing in some, and has no default")
            if source is not None:
                sources.append((field, source))
        self._check_positions(was, now, sources, path)
        return sources

    def _check_positions(
        self, was: ClassShape, now: ClassShape, sources: list[tuple[FieldShape, FieldShape]], path: str
    ) -> None:
        """Check that what is stored as an array has no gaps: new fields come last, after all that can't be missing."""
        if not now.positional:
            return
        first = [field for field, _ in sources]
        if first != list(now.fields[: len(first)]) or any(
            source.optional and source.default is None for _, source in sources
        ):
            raise self._classes(path, was, now, "fields of a tuple are stored by place: new ones come last")

    def _new_name(self, name: str, was: ClassShape, now: ClassShape) -> str | None:
        """Return what a field is called now, None if it is dropped; a rename that was done before is passed over."""
        for key in (f"{now.name}.{name}", f"{was.name}.{name}", name):
            if key in self._renamed:
                new = self._renamed[key]
                before, after = {field.name for field in was.fields}, {field.name for field in now.fields}
                if (new is None and name not in after) or (new is not None and new in after and new not in before):
                    return new
        return name

    def _classes(self, path: str, was: ClassShape, now: ClassShape, why: str) -> Mismatch:
        return Mismatch(path, class_text(was), class_text(now), why)

    def _mismatch(self, path: str, old: Shape, new: Shape, why: str) -> Mismatch:
        return Mismatch(path, shape_text(old), shape_text(new), why)


@dataclass(frozen=True, slots=True)
class _Later:
    """The conversion of a class that is being worked out, for those that lead back to it."""

    made: list[Convert]

    def __call__(self, record: Any) -> Any:
        return self.made[0](record)


def _unchanged(value: Any) -> Any:
    return value


def _exact_float(number: int) -> float:
    try:
        closest = float(number)
    except OverflowError:
        raise InexactError(number) from None
    if int(closest) != number:
        raise InexactError(number)
    return closest
