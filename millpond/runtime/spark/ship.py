"""Shipping a program to Spark's Python workers, the way Spark itself ships functions.

This is the only place that serialises code. Nothing of it is durable: it goes to workers of the same session, which run
the user's code anyway.
"""

from __future__ import annotations

import copyreg
import hashlib
import io
import sys
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import msgspec
from pyspark import cloudpickle

from millpond.program.program import ProgramBase
from millpond.runtime.plan import ProgramPlan
from millpond.runtime.spark.executor import local_folder

_HELD_MAX = 8
"""Plans that a worker keeps; one per query that runs on it, plus those of queries that ended."""

_cloud: Any = cloudpickle  # It has no types.
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


class _Pickler(_cloud.Pickler):  # type: ignore[misc]
    """Spark's own pickler, less what msgspec keeps on classes that it has met: that can't travel and is made again."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and _MSGSPEC_CACHE in vars(obj):
            delattr(obj, _MSGSPEC_CACHE)
            _resolve_hints(obj)
        return super().reducer_override(obj)


def _resolve_hints(kind: type) -> None:
    """Put types in the place of hints that are text: the names in them are not where the class goes."""
    own = vars(kind).get("__annotations__", {})
    if any(isinstance(hint, str) for hint in own.values()):
        known = typing.get_type_hints(kind, include_extras=True)
        kind.__annotations__ = {name: known[name] for name in own}


@dataclass(frozen=True, slots=True)
class Shipment:
    """A plan as bytes, with its digest: a worker that has met it before does not unpack it again."""

    digest: str
    data: bytes


def pack(plan: ProgramPlan, program: type[ProgramBase]) -> Shipment:
    """Serialise a plan with the user's module by value, so that workers need not be able to import it."""
    with _by_value(program):
        buffer = io.BytesIO()
        _Pickler(buffer).dump(plan)
        data = buffer.getvalue()
    return Shipment(hashlib.sha256(data).hexdigest(), data)


def unpack(shipment: Shipment) -> ProgramPlan:
    """The plan, from memory if this worker has met it."""
    plan = _held.get(shipment.digest)
    if plan is None:
        if len(_held) >= _HELD_MAX:
            _held.pop(next(iter(_held)))
        packed: ProgramPlan = _cloud.loads(shipment.data)
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
    fresh = [module for module in user if module.__name__ not in _cloud.list_registry_pickle_by_value()]
    for module in fresh:
        _cloud.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in fresh:
            _cloud.unregister_pickle_by_value(module)
