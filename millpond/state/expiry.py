"""Entries with a time to live: as absent once their time is over.

An entry carries the time of its last write, or of its last access. Whether it is there is a function of that stamp and
of the time of the row that asks, and of nothing else: so every run of a row sees the same, and dropping what is over
changes no answer.

>>> lives = Ttl(length_us=60_000_000)
>>> stamp_of(msgspec.msgpack.encode((5_000_000, "a"))) <= lives.cutoff(now_us=65_000_000)
True
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

import msgspec

from millpond.errors import MillpondError
from millpond.state.codec.keyforms import in_key_order
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.containers.counter import Counter
from millpond.state.containers.element import ElementType
from millpond.state.containers.map import Map
from millpond.state.containers.vector import Vector
from millpond.state.foreseen import Guard
from millpond.state.journal import Journal

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_keys, dict_values

Refresh: TypeAlias = Literal["write", "access"]
"""What an entry's time to live is counted from: its last write, or its last access."""

Clock: TypeAlias = Callable[[], int]
"""Tells the time of the row at work, in microseconds since 1970."""

_Stamped: TypeAlias = tuple[int, msgspec.Raw]
_stamped: Final[msgspec.msgpack.Decoder[_Stamped]] = msgspec.msgpack.Decoder(_Stamped)


def stamp_of(stored: bytes) -> int:
    """Return the stamp of an entry as it is stored."""
    return _stamped.decode(stored)[0]


@dataclass(frozen=True, slots=True)
class Ttl:
    """How long entries live, in microseconds, and what that is counted from."""

    length_us: int
    refresh: Refresh = "write"

    @property
    def on_access(self) -> bool:
        """Whether finding an entry renews it."""
        return self.refresh == "access"

    def cutoff(self, now_us: int) -> int:
        """Return the stamp up to which entries are over at a time."""
        return now_us - self.length_us


@dataclass(frozen=True)
class AgedType(ElementType):
    """The type of an element whose entries carry a stamp: what is stored is the pair of stamp and value."""

    @classmethod
    def of(cls, element: ElementType) -> AgedType:
        """Return the stored form of an element."""
        return cls(*(getattr(element, field.name) for field in dataclasses.fields(ElementType)))

    @cached_property
    def bare_type(self) -> ElementType:
        """The element as the program sees it."""
        return ElementType(self.container, self.arguments, self.by)

    @cached_property
    def value_hint(self) -> Any:
        """The type of what is stored for an entry."""
        return tuple[int, self.bare_type.value_hint]  # type: ignore[name-defined]

    @property
    def row_values(self) -> ValueCodec:
        """The codec of an entry's value, without its stamp."""
        return self.bare_type.values


class Ages:
    """The stamps of some entries, and what it takes to keep them.

    In plain Python they are `checked`: so is every write. Those of a plain program have its `journal`: outside a row,
    whoever reads gets a copy, and what is written is stored as one. Where they are `watched`, values that are handed
    out and could be changed in place are noted in `seen` as bytes, until the moment is over: `turn` tells moments
    apart, the time itself if there is none. `firsts` are what entries were when undoing began, the innermost last.
    A `guard` is asked about keys that have no entry.
    """

    __slots__ = (
        *(
            "checked",
            "clock",
            "element",
            "firsts",
            "guard",
            "journal",
            "moment",
            "now",
            "seen",
            "stamps",
            "ttl",
            "turn",
        ),
        "watches",
    )

    def __init__(
        self,
        ttl: Ttl,
        clock: Clock,
        turn: Clock | None,
        element: ElementType,
        journal: Journal | None,
        *,
        checked: bool,
        watched: bool,
    ) -> None:
        self.journal = journal
        self.ttl = ttl
        self.clock = clock
        self.turn = turn
        self.element = element
        self.checked = checked
        self.stamps: dict[Any, int] = {}
        self.seen: dict[Any, bytes] = {}
        self.now = 0
        self.moment = 0
        self.firsts: list[dict[Any, tuple[Any, int, bytes | None] | None]] = []
        self.guard: Guard | None = None
        # What is renewed by access needs no watching: it was renewed when it was handed out.
        self.watches = watched and not ttl.on_access and not element.values.immutable

    def is_over(self, stamp: int, now: int) -> bool:
        """Return whether an entry with a stamp is as absent at a time."""
        return stamp <= self.ttl.cutoff(now)

    def outside(self, value: Any) -> Any:
        """Return a value that crosses the border between the state and what is outside of a row."""
        journal = self.journal
        if journal is None or journal.in_row or not self.element.holds_objects:
            return value
        return self.element.values.renew(value)

    def renewed(self, key: Any, now: int) -> int:
        """Return the stamp of an entry that is written or accessed: an older row does not take it back."""
        return max(now, self.stamps.get(key, now))

    def differs(self, value: Any, before: bytes) -> bool:
        """Return whether a value is no longer what it was; one that can't even be stored any more is not."""
        try:
            return self.element.values.encode(value) != before
        except MillpondError:
            return True


class Expiring(Map[Any, Any]):
    """A map whose entries are as absent once their time is over."""

    ages: Ages

    __slots__ = ("ages",)

    def _now(self) -> int:
        ages = self.ages
        now = ages.clock()
        moment = now if ages.turn is None else ages.turn()
        if moment != ages.moment:
            self.settle()
            ages.moment = moment
            ages.now = now
        return now

    def settle(self) -> None:
        """Let values count as written that were changed in place, at the moment when they were handed out."""
        ages = self.ages
        for key, before in ages.seen.items():
            if ages.differs(dict.__getitem__(self, key), before):
                ages.stamps[key] = ages.renewed(key, ages.now)
        ages.seen.clear()

    def put(self, key: Any, stamp: int, value: Any) -> None:
        """Set an entry as it is stored."""
        dict.__setitem__(self, key, value)
        self.ages.stamps[key] = stamp

    def drop(self, key: Any) -> None:
        """Forget an entry, whether its time is over or not."""
        dict.pop(self, key, None)
        self.ages.stamps.pop(key, None)
        self.ages.seen.pop(key, None)

    def live(self, now: int) -> list[Any]:
        """Return the keys of the entries that are there at a time, unordered."""
        self._now()  # What was changed in place before counts as written then.
        cutoff = self.ages.ttl.cutoff(now)
        return [key for key, stamp in self.ages.stamps.items() if stamp > cutoff]

    # --- undoing

    def begin(self) -> None:
        """Keep what entries are before they are touched, so that `undo` can restore it."""
        self._now()
        self.ages.firsts.append({})

    def end_rows(self) -> None:
        """Make values of the entries that were touched since `begin`."""
        if self.ages.element.holds_objects:
            renew = self.ages.element.values.renew
            for key in self.ages.firsts[-1]:
                if dict.__contains__(self, key):
                    dict.__setitem__(self, key, renew(dict.__getitem__(self, key)))

    def keep(self) -> None:
        """Let what was changed since `begin` stay."""
        firsts = self.ages.firsts
        first = firsts.pop()
        if firsts:
            firsts[-1] = first | firsts[-1]

    def undo(self) -> None:
        """Restore entries to what they were at `begin`."""
        for key, before in self.ages.firsts.pop().items():
            self.drop(key)
            if before is not None:
                value, stamp, seen = before
                self.put(key, stamp, value)
                if seen is not None:
                    self.ages.seen[key] = seen

    def _note(self, key: Any) -> None:
        ages = self.ages
        if not ages.firsts or key in ages.firsts[-1]:
            return
        stamp = ages.stamps.get(key)
        if stamp is None:
            ages.firsts[-1][key] = None
        else:
            ages.firsts[-1][key] = copy.deepcopy(dict.__getitem__(self, key)), stamp, ages.seen.get(key)

    # --- what a dict does

    def _finds(self, key: Any) -> bool:
        """Return whether an entry is there for an operation that names its key; finding it may renew it."""
        ages, now = self.ages, self._now()
        if ages.checked:
            ages.element.keys.check(key)
        stamp = ages.stamps.get(key)
        self._note(key)
        if stamp is None and ages.guard is not None:
            ages.guard.absent(key)
        if stamp is None or ages.is_over(stamp, now):
            return False
        if ages.ttl.on_access:
            ages.stamps[key] = ages.renewed(key, now)
        return True

    def _hand_out(self, key: Any) -> Any:
        value = dict.__getitem__(self, key)
        ages = self.ages
        if ages.watches and key not in ages.seen:
            ages.seen[key] = ages.element.values.encode(value)
        return ages.outside(value)

    def _absent(self, key: Any) -> Any:
        raise KeyError(key)

    def __getitem__(self, key: Any) -> Any:
        return self._hand_out(key) if self._finds(key) else self._absent(key)

    def __contains__(self, key: object) -> bool:
        return self._finds(key)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the entry, or `default`."""
        return self._hand_out(key) if self._finds(key) else default

    def __setitem__(self, key: Any, value: Any) -> None:
        ages = self.ages
        if ages.checked:
            ages.element.keys.check(key)
            if not ages.element.holds_objects or ages.journal is None or not ages.journal.in_row:
                # In a row, what counts is what is there when it ends.
                ages.element.values.check(value)
        now = self._now()
        self._note(key)
        ages.seen.pop(key, None)
        self.put(key, ages.renewed(key, now), ages.outside(value))

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the entry; set to `default` first if there was none."""
        if not self._finds(key):
            self[key] = default
        return self._hand_out(key)

    def __delitem__(self, key: Any) -> None:
        self.pop(key)

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove and return the entry, or `default`."""
        if self._finds(key):
            value = dict.__getitem__(self, key)
            self.drop(key)
            return value
        if default:
            return default[0]
        raise KeyError(key)

    def clear(self) -> None:
        """Remove all entries."""
        self._now()
        for key in list(dict.__iter__(self)):
            self._note(key)
            self.drop(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(in_key_order(self.live(self._now())))

    def __len__(self) -> int:
        return len(self.live(self._now()))

    def _ordered(self) -> dict[Any, Any]:
        keys: Iterable[Any] = list(self)
        for key in keys:
            self._note(key)
        return {key: self._hand_out(key) for key in keys}

    def keys(self) -> dict_keys[Any, Any]:
        """Return the keys, in order."""
        return dict.fromkeys(self).keys()

    def values(self) -> dict_values[Any, Any]:
        """Return the values, in the order of their keys."""
        return self._ordered().values()

    def items(self) -> dict_items[Any, Any]:
        """Return the keys and values, in the order of the keys."""
        return self._ordered().items()

    def copy(self) -> dict[Any, Any]:
        """Return the entries that are there, as a dict."""
        return self._ordered()

    def __eq__(self, other: object) -> bool:
        return self._ordered() == (other._ordered() if isinstance(other, Expiring) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = type(self)()
        memo[id(self)] = made
        made.ages = copy.deepcopy(self.ages, memo)
        for key in dict.__iter__(self):
            dict.__setitem__(made, key, copy.deepcopy(dict.__getitem__(self, key), memo))
        return made


class ExpiringCounter(Expiring, Counter[Any]):
    """A counter whose entries expire: one whose time is over reads as 0."""

    __slots__ = ()

    def _absent(self, key: Any) -> int:  # noqa: ARG002
        return 0


class ExpiringVector(Expiring, Vector[Any]):
    """A vector whose entries expire: one whose time is over reads as 0."""

    __slots__ = ()

    def _absent(self, key: Any) -> float:  # noqa: ARG002
        return 0.0


_EXPIRING: Final[Mapping[type, type[Expiring]]] = {Counter: ExpiringCounter, Vector: ExpiringVector}


def expiring_entries(
    element: ElementType,
    ttl: Ttl,
    clock: Clock,
    *,
    turn: Clock | None = None,
    journal: Journal | None = None,
    checked: bool = False,
    watched: bool = False,
) -> Expiring:
    """Return entries of an element that expire; `checked` for plain Python, where each write is looked at.

    `watched` if changes in place are to be noticed here, moment by moment. Those of a plain program have its journal.
    """
    bare = element.bare_type if isinstance(element, AgedType) else element
    entries = _EXPIRING.get(bare.container, Expiring)()
    entries.ages = Ages(ttl, clock, turn, bare, journal, checked=checked, watched=watched)
    if journal is not None:
        journal.also(entries)
    return entries
