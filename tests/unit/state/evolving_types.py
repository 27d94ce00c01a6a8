"""Pairs of an old and a new type, and of values that are the same thing in both: what a conversion must give.

Each pair is made together with its values, so that the truth does not come from the code under test.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import typing
import uuid
from dataclasses import dataclass, field

import msgspec
from hypothesis import strategies as st


@dataclass(frozen=True)
class Pair:
    """Two types, a strategy of (old value, new value), the fields that were renamed, and whether bytes may change."""

    old: object
    new: object
    values: st.SearchStrategy
    renamed: dict = field(default_factory=dict)
    key: bool = False
    union: bool = True


EXACT = st.integers(-(2**53), 2**53)
SCALARS = {
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False),
    str: st.text(max_size=4),
    bytes: st.binary(max_size=4),
    bool: st.booleans(),
    datetime.date: st.dates(),
    datetime.datetime: st.datetimes(timezones=st.just(datetime.UTC)).map(lambda moment: moment.replace(fold=0)),
    uuid.UUID: st.uuids(),
    decimal.Decimal: st.decimals(allow_nan=False, allow_infinity=False, places=2),
}
KINDS = ("dataclass", "struct", "array struct", "named tuple", "typed dict")


class Old(enum.Enum):
    A = "a"
    B = "b"


class New(enum.Enum):
    FIRST = "a"
    B = "b"
    C = "c"


def same(hint):
    return Pair(hint, hint, SCALARS[hint].map(lambda v: (v, v)), key=hint in (int, str, bool))


scalars = st.sampled_from([same(hint) for hint in SCALARS])
widened = st.sampled_from(
    [
        Pair(int, float, EXACT.map(lambda v: (v, float(v))), key=True),
        Pair(int, decimal.Decimal, SCALARS[int].map(lambda v: (v, decimal.Decimal(v)))),
        Pair(int, int | str, SCALARS[int].map(lambda v: (v, v)), union=False),
        Pair(int | str, str | float, st.one_of(EXACT.map(lambda v: (v, float(v))), same(str).values), union=False),
        Pair(Old, New, st.sampled_from([(Old.A, New.FIRST), (Old.B, New.B)])),
        Pair(typing.Literal["x"], typing.Literal["x", "y"], st.just(("x", "x"))),
        Pair(typing.Literal["x"], str, st.just(("x", "x"))),
    ]
)


def optional(pair):
    return Pair(pair.old, pair.new | None, pair.values, pair.renamed)


def both_optional(pair):
    return Pair(pair.old | None, pair.new | None, st.one_of(st.just((None, None)), pair.values), pair.renamed)


def listed(pair, old_kind, new_kind):
    def hint(kind, item):
        return kind[item] if kind is list else kind[item, ...]

    values = st.lists(pair.values, max_size=3)
    made = values.map(lambda vs: (old_kind(o for o, _ in vs), new_kind(n for _, n in vs)))
    return Pair(hint(old_kind, pair.old), hint(new_kind, pair.new), made, pair.renamed)


def mapped(key, pair):
    values = st.lists(st.tuples(key.values, pair.values), max_size=3, unique_by=lambda kv: kv[0][0])
    made = values.map(lambda kvs: ({k[0]: v[0] for k, v in kvs}, {k[1]: v[1] for k, v in kvs}))
    return Pair(dict[key.old, pair.old], dict[key.new, pair.new], made, pair.renamed)


def tupled(first, second):
    values = st.tuples(first.values, second.values).map(lambda ab: ((ab[0][0], ab[1][0]), (ab[0][1], ab[1][1])))
    renamed = {**first.renamed, **second.renamed}
    return Pair(tuple[first.old, second.old], tuple[first.new, second.new], values, renamed)


_count = iter(range(10**9))


def make_class(kind, fields, added=()):
    """A class of a kind with fields, and some more that have defaults."""
    name = f"C{next(_count)}"
    if kind == "dataclass":
        extra = [(n, h, dataclasses.field(default_factory=lambda d=d: d)) for n, h, d in added]
        return dataclasses.make_dataclass(name, [*fields, *extra], slots=True)
    if kind in ("struct", "array struct"):
        return msgspec.defstruct(name, [*fields, *added], array_like=kind != "struct")
    if kind == "named tuple":
        made = typing.NamedTuple(name, [*fields, *((n, h) for n, h, _ in added)])
        made.__new__.__defaults__ = tuple(d for _, _, d in added)
        made._field_defaults = {n: d for n, _, d in added}
        return made
    return typing.TypedDict(name, {**dict(fields), **{n: typing.NotRequired[h] for n, h, _ in added}})


ADDED = ((int, 7), (str, "new"), (str | None, None), (tuple[int, ...], ()))


@st.composite
def records(draw, inner):
    """A record with other names and another order of fields, some more, and perhaps of another kind."""
    parts = draw(st.lists(inner, min_size=1, max_size=3))
    old_kind, new_kind = draw(st.sampled_from(KINDS)), draw(st.sampled_from(KINDS))
    unique = next(_count)
    names = [f"f{unique}_{at}" for at in range(len(parts))]
    renamed = {name: f"r{name}" for name in draw(st.sets(st.sampled_from(names)))}
    order = draw(st.permutations(range(len(parts))))
    added = [(f"n{unique}_{at}", *draw(st.sampled_from(ADDED))) for at in range(draw(st.integers(0, 2)))]
    old = make_class(old_kind, [(name, part.old) for name, part in zip(names, parts, strict=True)])
    new_names = [renamed.get(name, name) for name in names]
    new = make_class(new_kind, [(new_names[at], parts[at].new) for at in order], added)

    def build(values):
        olds = dict(zip(names, (o for o, _ in values), strict=True))
        news = dict(zip(new_names, (n for _, n in values), strict=True))
        if new_kind == "typed dict":
            # Its keys come in the order of their names, whatever the order of the declaration.
            return old(**olds), dict(sorted(news.items()))
        return old(**olds), new(**news)

    every = {key: name for part in parts for key, name in part.renamed.items()}
    return Pair(old, new, st.tuples(*(part.values for part in parts)).map(build), {**every, **renamed})


def containers(inner):
    keys = st.sampled_from([same(int), same(str), Pair(int, float, EXACT.map(lambda v: (v, float(v))))])
    kinds = st.sampled_from([list, tuple])
    return st.one_of(
        st.builds(listed, inner, kinds, kinds),
        st.builds(mapped, keys, inner),
        st.builds(tupled, inner, inner),
        records(inner),
        inner.filter(lambda pair: pair.union).map(optional),
        inner.filter(lambda pair: pair.union).map(both_optional),
    )


pairs = st.recursive(st.one_of(scalars, widened), containers, max_leaves=6)
