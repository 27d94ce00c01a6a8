"""Shipping a program to Spark's Python workers, the way Spark itself ships functions.

This is the only place that serialises code. Nothing of it is durable: it goes to workers of the same session, which run
the user's code anyway. Sets go in their canonical order: the user's module travels by value with the sets in it, and
the driver's hash seed, which is another one at every start, must not decide how workers walk them.
"""

from __future__ import annotations

import copyreg
import hashlib
import io
import pickle
import sys
import types
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import cloudpickle
import msgspec

from millpond.engine.plan import ProgramPlan
from millpond.program.program import ProgramBase
from millpond.program.semantics.reach import names_in_reach
from millpond.spark.interpreter import check_hash_seed
from millpond.spark.modules import Source, offer, sources_of
from millpond.spark.placement.executor import local_folder
from millpond.state.codec.canonical import UNFIT, in_canonical_order
from millpond.state.codec.classes import UNRESOLVED

_HELD_MAX = 8
"""Plans that a worker keeps; one per query that runs on it, plus those of queries that ended."""

_MSGSPEC_CACHE = "__msgspec_cache__"

_held: dict[str, ProgramPlan] = {}

_META_FIELDS = (
    *("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length"),
    *("title", "description", "examples", "extra_json_schema", "extra"),
)


def _make_meta(fields: dict[str, Any]) -> msgspec.Meta:
    return msgspec.Meta(**fields)


def _take_apart(meta: msgspec.Meta) -> tuple[Any, ...]:
    fields = {name: getattr(meta, name) for name in _META_FIELDS}
    return _make_meta, ({name: value for name, value in fields.items() if value is not None},)


# The limits on parameters travel with the program, and msgspec does not say how.
copyreg.pickle(msgspec.Meta, _take_apart)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """The pickler that Spark ships functions with, but for sets, and for what msgspec keeps on classes that it has met.

    That can't travel, and is made again. Of the class of a program only those members travel that rows may `need`:
    others may be about the driver, and name what can't travel.
    """

    def __init__(self, file: io.BytesIO, need: frozenset[str] = frozenset()) -> None:
        super().__init__(file)
        self._need = need
        self.modules: set[str] = set()
        self._sets: dict[int, tuple[int, Any]] = {}

    def persistent_id(self, obj: Any) -> Any:
        """Get a set by its number, the first time with its members in order; None for all else, which goes as usual."""
        if type(obj) is not set and type(obj) is not frozenset:
            return None
        known = self._sets.get(id(obj))
        if known is not None:
            return known[0], None, None
        try:
            members = in_canonical_order(obj)
        except UNFIT:
            return None
        # The set is kept, since another object could get its identity.
        self._sets[id(obj)] = len(self._sets), obj
        return len(self._sets) - 1, type(obj), members

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type | types.FunctionType | ModuleType):
            self.modules.add(getattr(obj, "__name__" if isinstance(obj, ModuleType) else "__module__", None) or "")
        if isinstance(obj, type):
            if _MSGSPEC_CACHE in vars(obj):
                delattr(obj, _MSGSPEC_CACHE)
            _resolve_hints(obj)
        reduced = super().reducer_override(obj)
        if isinstance(obj, type) and issubclass(obj, ProgramBase) and isinstance(reduced, tuple):
            make, given, (members, slots), *more = reduced
            kept = {name: one for name, one in members.items() if name in self._need or not _may_stay(name, one)}
            return make, given, (kept, slots), *more
        return reduced


def _may_stay(name: str, member: Any) -> bool:
    """Say whether a member of a class is code that nobody calls without naming it."""
    dunder = name.startswith("__") and name.endswith("__")
    return not dunder and isinstance(member, types.FunctionType | staticmethod | classmethod | property)


class _Unpickler(pickle.Unpickler):  # noqa: S301 - Spark hands it over together with the function that runs
    """Reads what `_Pickler` wrote."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._sets: dict[int, Any] = {}

    def persistent_load(self, pid: Any) -> Any:
        number, kind, members = pid
        if kind is not None:
            self._sets[number] = kind(members)
        return self._sets[number]


def _resolve_hints(kind: type) -> None:
    """Put types in the place of hints that are text: the names in them are not where the class goes."""
    own = vars(kind).get("__annotations__")
    if isinstance(own, dict) and any(map(_is_text, own.values())):
        try:
            known = typing.get_type_hints(kind, include_extras=True)
        except UNRESOLVED:
            # Nobody could read these hints here; who needs them says so.
            return
        kind.__annotations__ = {name: known[name] for name in own}


def _is_text(hint: Any) -> bool:
    """Say whether a hint is text, or has text in it; named tuples keep text as references."""
    return isinstance(hint, str | typing.ForwardRef) or any(map(_is_text, typing.get_args(hint)))


@dataclass(frozen=True, slots=True)
class Shipment:
    """A plan as bytes, with its digest: a worker that has met it before does not unpack it again.

    `sources` are the modules that it names and that a worker may not have.
    """

    digest: str
    data: bytes
    sources: tuple[Source, ...] = ()


def pack(plan: ProgramPlan, program: type[ProgramBase]) -> Shipment:
    """Serialise a plan with the user's module by value, so that workers need not be able to import it."""
    with _by_value(program):
        buffer = io.BytesIO()
        pickler = _Pickler(buffer, _needed(program))
        pickler.dump(plan)
        data = buffer.getvalue()
    sources = sources_of(sorted(pickler.modules))
    digest = hashlib.sha256(data)
    for source in sources:
        digest.update(f"{source.name}\0{source.file}\0{source.text}".encode())
    return Shipment(digest.hexdigest(), data, sources)


def _needed(program: type[ProgramBase]) -> frozenset[str]:
    """Return the names that rows may ask a program for, if its class travels."""
    points = program.entries().values()
    reached = (names_in_reach(program, point.function) for point in points)
    return frozenset(point.name for point in points).union(*reached)


def unpack(shipment: Shipment) -> ProgramPlan:
    """Return the plan, from memory if this worker has met it; MP704 if this is no worker to run it on."""
    plan = _held.get(shipment.digest)
    if plan is None:
        check_hash_seed()
        offer(shipment.sources)
        if len(_held) >= _HELD_MAX:
            _held.pop(next(iter(_held)))
        packed: ProgramPlan = _Unpickler(io.BytesIO(shipment.data)).load()
        plan = _held[shipment.digest] = replace(packed, local_root=local_folder(packed.local_root))
    return plan


@contextmanager
def _by_value(program: type[ProgramBase]) -> Iterator[None]:
    modules = {sys.modules.get(base.__module__) for base in program.__mro__ if issubclass(base, ProgramBase)}
    mine = __name__.partition(".")[0]
    user: list[ModuleType] = [
        module
        for module in modules
        if module is not None and module.__name__ != "__main__" and module.__name__.partition(".")[0] != mine
    ]
    fresh = [module for module in user if module.__name__ not in cloudpickle.list_registry_pickle_by_value()]
    for module in fresh:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in fresh:
            cloudpickle.unregister_pickle_by_value(module)
