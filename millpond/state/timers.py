"""Timers: for each key of a handler at most one moment at which it is called.

A timer is stored twice: under its key, to be moved or cancelled, and under its moment, so that those which are due are
the beginning of a range. The second entry follows from the first, and is written with it.

>>> timers = Timers()
>>> timers.set("cart-7", datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC))
>>> "cart-7" in timers, str(timers.at("cart-7"))
(True, '2024-05-01 00:00:00+00:00')
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, Generic, TypeVar, get_args, get_origin

import msgspec

from millpond.errors import StateError
from millpond.state.cascade import ALONE, Place
from millpond.state.changes import Changes
from millpond.state.codec.shown import shown
from millpond.state.containers.access import READ_KEY, WRITE_KEY, Operation
from millpond.state.containers.element import ElementType
from millpond.state.containers.map import Map
from millpond.state.containers.set import Set
from millpond.state.local.storekey import store_prefix, unit_of
from millpond.state.overlay import Base, KeyedOverlay
from millpond.state.units import store_keys_of

K = TypeVar("K")

DUE: Final = ".due"
"""What the name of the element that orders timers by their moments ends with."""

_ZERO: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
LAST_US: Final = (datetime.datetime.max.replace(tzinfo=datetime.UTC) - _ZERO) // _MICROSECOND
"""The last moment that a `datetime` can tell: the end of time."""

_NOTHING: Final = msgspec.msgpack.encode(None)


def microseconds(at: datetime.datetime) -> int:
    """Return a moment in microseconds since 1970; one without a time zone is refused."""
    given: object = at
    if not isinstance(given, datetime.datetime) or given.tzinfo is None:
        raise StateError(
            "MP280",
            "a timer is set to something that is not a moment with a time zone",
            expected="a datetime with a zone, such as self.now + timedelta(minutes=5)",
            found=shown(at),
        )
    return (at - _ZERO) // _MICROSECOND


class Timers(Generic[K]):
    """The timers of a handler: `self.handler.set(key, at)`, `.cancel(key)`, `.at(key)`, `key in self.handler`."""

    kind: ClassVar[str] = "timers"
    OPERATIONS: ClassVar[dict[str, Operation]] = {
        "set": WRITE_KEY,
        "cancel": WRITE_KEY,
        "fired": WRITE_KEY,
        "at": READ_KEY,
        "__contains__": READ_KEY,
    }

    __slots__ = ("_entries",)

    def __init__(self, *, entries: Map[K, int] | None = None) -> None:
        self._entries: Map[K, int] = Map() if entries is None else entries

    def set(self, key: K, at: datetime.datetime) -> None:
        """Let the handler be called with this key at a moment; a timer that the key has is moved."""
        self._entries[key] = microseconds(at)

    def cancel(self, key: K) -> None:
        """Take the timer of a key away, if it has one."""
        self._entries.pop(key, None)

    def fired(self, key: K, at: datetime.datetime) -> None:
        """Take the timer of a key away if it is set to this moment: what happens right before its handler runs."""
        if self._entries.get(key) == microseconds(at):
            self._entries.pop(key, None)

    def at(self, key: K) -> datetime.datetime | None:
        """Return the moment that the timer of a key is set to, in UTC; None if it has none."""
        us = self._entries.get(key)
        return None if us is None else _ZERO + us * _MICROSECOND

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def due(self, now_us: int) -> list[tuple[int, K]]:
        """Return the timers up to a time, each with its moment, unordered."""
        return [(at, key) for key, at in dict.items(self._entries) if at <= now_us]

    def __repr__(self) -> str:
        return f"Timers({ {key: str(self.at(key)) for key in self._entries}!r})"


@dataclass(frozen=True)
class TimersType(ElementType):
    """The type of the timers of a handler whose keys are of one type, and where the handler stands among others."""

    place: Place = field(default=ALONE, kw_only=True, compare=False)

    @classmethod
    def by_key(cls, key: Any, place: Place) -> TimersType:
        """Return the type of timers by keys of a type."""
        return cls(Timers, (key,), "", place=place)

    @cached_property
    def value_hint(self) -> Any:
        """The type of a moment: microseconds since 1970."""
        return int

    def moment(self, value: Any) -> int | None:
        """Return the moment of a stored entry; None if it waits for none."""
        at: int = value
        return at

    def fires_at(self, at: int, until: int) -> int:  # noqa: ARG002
        """Return the moment given to a handler for an entry due `at` a moment, when all `until` another are called."""
        return at

    def until_us(self, watermark: int) -> int:
        """Return the time up to which the handler is called at a watermark; at the end of time it waits for nobody."""
        return watermark if watermark >= LAST_US else watermark - self.place.lag_us

    def waits_until(self, at: int) -> int:
        """Return the watermark at which an entry is due."""
        return max(at, min(at + self.place.lag_us, LAST_US))

    def earliest(self, at: int) -> int | None:  # noqa: ARG002
        """Return when what is set at a moment is due at the earliest: at any time."""
        return None

    @cached_property
    def due(self) -> ElementType:
        """The type of the element that orders these timers: a set of moments and keys."""
        parts = get_args(self.key_hint) if get_origin(self.key_hint) is tuple else (self.key_hint,)
        together: Any = tuple
        return ElementType(Set, (together[(int, *parts)],), "")


def due_unit(at: int, key: Any) -> tuple[Any, ...]:
    """Return a timer as the element that orders timers has it."""
    return (at, *key) if type(key) is tuple else (at, key)


def timer_of(element: TimersType, unit: tuple[Any, ...]) -> tuple[int, Any]:
    """Return the moment and the key of what orders a timer."""
    at, *key = unit
    return at, tuple(key) if get_origin(element.key_hint) is tuple else key[0]


def scan_due(
    base: Base, element: TimersType, index: int, groups: Iterable[int], until_us: int
) -> tuple[list[tuple[int, Any]], int | None]:
    """Return the timers of some key groups that are due, and the next moment; `index` is of what orders them."""
    due: list[tuple[int, Any]] = []
    next_us: int | None = None
    codec = element.due.keys
    for group in groups:
        for key, _ in base.scan(store_prefix(index, group)):
            at, timer = timer_of(element, codec.decode(unit_of(key)))
            if at > until_us:
                next_us = at if next_us is None else min(at, next_us)
                break
            due.append((at, timer))
    return due, next_us


class TimersOverlay(KeyedOverlay):
    """Timers by key; what orders them by their moments is changed with them, in whichever key groups that lies.

    `soonest_us` is the watermark at which the first timer of these keys is due, known once `changes` was called: of all
    of them, since a handler may set the timer that called it to the same moment again.
    """

    def __init__(
        self,
        element: TimersType,
        index: int,
        due_index: int,
        base: Base,
        key_groups: int,
        owned: Sequence[int],
        *,
        guarded: bool = False,
    ) -> None:
        super().__init__(element, index, base, key_groups, owned, guarded=guarded)
        self._timers = element
        self._due_index = due_index
        self._groups = key_groups
        self.soonest_us: int | None = None

    def prefetch(self, units: Any) -> Any:
        """Load the timers of distinct keys."""
        ranks = super().prefetch(units)
        # What orders the timers goes elsewhere.
        self.in_order = False
        return ranks

    def changes(self) -> Changes:
        """Return what differs from the base, unordered."""
        keys, values = super().changes()
        moment = self._timers.moment
        at = min((at for at in map(moment, self.entries.values()) if at is not None), default=None)
        self.soonest_us = None if at is None else self._timers.waits_until(at)
        if not keys:
            return Changes(keys, values)
        known = dict(zip(self._keys, zip(self._units, self._before, strict=True), strict=True))
        changed = [
            (known[key][0], known[key][1], None if value is None else self.entries[known[key][0]])
            for key, value in zip(keys, values, strict=True)
        ]
        places, marks = due_changes(self._timers, self._due_index, self._groups, changed)
        return Changes(keys + places, values + marks)


def due_changes(
    timers: TimersType, due_index: int, key_groups: int, changed: Iterable[tuple[Any, bytes | None, Any]]
) -> Changes:
    """Return what changes of the order of timers: of each its key, its entry as it was stored, and as it is now."""
    gone: list[tuple[Any, ...]] = []
    come: list[tuple[Any, ...]] = []
    for unit, before, value in changed:
        was = None if before is None else timers.moment(timers.values.decode(before))
        now = None if value is None else timers.moment(value)
        if was == now:
            continue
        if was is not None:
            gone.append(due_unit(was, unit))
        if now is not None:
            come.append(due_unit(now, unit))
    places = store_keys_of(due_index, timers.due.keys, [*gone, *come], key_groups)
    marks: list[bytes | None] = [*([None] * len(gone)), *([_NOTHING] * len(come))]
    return Changes(places, marks)
