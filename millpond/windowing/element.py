"""Windows as a state element: what a program adds rows to by key, and what its handler gets when windows are over.

An element keeps one entry for each key: the next moment at which there is something to emit, and what the key's windows
are made of. It is stored like a timer, under its key and, ordered, under its moment: so windows that are over are found
without looking at the others.

>>> from millpond.windowing import count, several, tumbling
>>> windows = Windows(WindowRules({"": tumbling("10 s")}, several(many=count()), 0), Map())
>>> windows.clock = lambda: 3_000_000
>>> windows.add("key")
>>> [one["many"] for one in windows.fired("key", datetime.datetime(1970, 1, 1, 0, 0, 10, tzinfo=datetime.UTC))]
[1]
"""

from __future__ import annotations

import copy
import datetime
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from millpond.errors import WindowError
from millpond.state.cascade import ALONE, Place
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.codec.wire import carry
from millpond.state.containers.access import READ_KEY, WRITE_KEY, Operation
from millpond.state.containers.map import Map
from millpond.state.timers import TimersType, microseconds
from millpond.windowing.aggregates.aggregates import ANY, Aggregate
from millpond.windowing.keyed.keycells import Columns
from millpond.windowing.keyed.keyrows import KeyRows
from millpond.windowing.keyed.keyslices import Emitted, KeySlices
from millpond.windowing.keyed.notes import Carried, WindowNote, WindowsNote
from millpond.windowing.kinds.userdefined import Viewed

K = TypeVar("K")

LAYOUT: Final = 1
"""The version of what an entry holds (docs/FORMAT.md)."""

_ZERO: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MARK_BYTES: Final = 6
_NEVER_CHANGED: Final = frozenset({int, float, str, bytes, bool, type(None)})


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """A window that is over: `window["mean"]` is the value of an aggregate by its name.

    `name` is that of the window if there are several, else "". `begin` and `end` are moments in UTC; of windows over
    records or a measure, numbers. One that is `corrected` takes the place of what was emitted of the window before, if
    anything was. One that is `retracted` was emitted with these bounds and values, and is no window any more: a session
    that grew or was joined. `change` says which of these it is: "tell", "correct" or "retract".
    """

    name: str
    begin: Any
    end: Any
    values: Mapping[str, Any]
    corrected: bool = False
    retracted: bool = False

    def __getitem__(self, name: str) -> Any:
        """Return the value of an aggregate."""
        return self.values[name]

    @property
    def change(self) -> str:
        """What to do to a table of results by key and window: "tell", "correct" or "retract"."""
        return "retract" if self.retracted else "correct" if self.corrected else "tell"


carry(
    ClosedWindow,
    "closed window",
    lambda one: (one.name, one.begin, one.end, dict(one.values), one.corrected, one.retracted),
    ClosedWindow,
)


class WindowRules:
    """What the windows of an element are, what is computed of them, and how rows get into them.

    Windows that are `final` when they are emitted wait for late rows, and are never corrected.
    """

    def __init__(
        self, windows: Mapping[str, Any], aggregate: Aggregate, lateness_us: int, *, final: bool = False
    ) -> None:
        self.windows = windows
        self.aggregate = aggregate
        self.lateness_us = lateness_us
        self.final = final
        self.any_order = KeySlices.suit(windows, aggregate)
        self.keys = self.keys_since({})
        self._over_time = {
            name: window.needs_time and not isinstance(window, Viewed) for name, window in windows.items()
        }

    def __reduce__(self) -> tuple[Any, ...]:
        # Types that were made for the stored form can't travel, and are made again.
        return _rules, (self.windows, self.aggregate, self.lateness_us, self.final)

    def keys_since(self, since: Mapping[str, int]) -> KeySlices | KeyRows:
        """Return how rows of a key get into the windows, of which some do not know all rows up to a time."""
        if self.any_order:
            return KeySlices(self.windows, self.aggregate, 0 if self.final else self.lateness_us, since)
        return KeyRows(self.windows, self.aggregate, since)

    @property
    def untimed(self) -> bool:
        """Whether some windows end with a row and not at a time."""
        return not all(self._over_time.values())

    @cached_property
    def note(self) -> WindowsNote:
        """The windows and aggregates as a checkpoint notes them."""
        windows = tuple(WindowNote(name, window.describe()) for name, window in self.windows.items())
        parts = self.aggregate.parts
        aggregates = tuple((name, part.text) for name, part in parts)
        return WindowsNote(windows, aggregates, not self.any_order)

    @property
    def text(self) -> str:
        """The windows and aggregates in words: state is taken up only under the same ones."""
        return str(self.note)

    @cached_property
    def mark(self) -> int:
        """What tells an entry of these windows from one of others, or of another layout."""
        way = "slices" if self.any_order else "rows"
        return int.from_bytes(hashlib.sha256(f"{LAYOUT} {way} {self.text}".encode()).digest()[:_MARK_BYTES], "big")

    @cached_property
    def stored_type(self) -> Any:
        """The type of an entry: its moment, its mark, and what the key holds."""
        return self._stored(self.aggregate)

    @cached_property
    def _column(self) -> str | None:
        """The only column that the aggregates read, if that is known."""
        names = {name for _, part in self.aggregate.parts for name in part.reads}
        return names.pop() if len(names) == 1 and ANY not in names else None

    def record(self, values: tuple[Any, ...], columns: dict[str, Any]) -> Any:
        """Return what is added, as the aggregates read it."""
        if not values:
            return columns
        if columns or len(values) > 1:
            raise WindowError(
                "MP647",
                "this row can't be added to windows",
                expected="add(key, value) for one column, or add(key, name=value, ...)",
                found=f"{len(values)} value(s) without a name, {len(columns)} with one",
            )
        return values[0] if self._column is None else {self._column: values[0]}

    def columns(self, values: Columns) -> Columns:
        """Return what is added, as `record`: a column without a name is the only one that the aggregates read."""
        return {self._column if name is None else name: column for name, column in values.items()}

    def carry(self, carried: Carried) -> Callable[[bytes], Any]:
        """Read entries that were made for other windows as entries of these."""
        own = dict(self.aggregate.parts)
        before = [name for name, _ in carried.old.aggregates]
        order = [before.index(name) for name in own]
        partial: Any = tuple[tuple(own[name].partial_type if name in own else Any for name in before)]  # type: ignore[misc]
        codec = ValueCodec(self._stored(replace(self.aggregate, partial_type=partial)))
        keys = self.keys_since(carried.note.since)

        def pick(whole: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(whole[place] for place in order)

        def read(data: bytes) -> Any:
            moment, _, held = codec.decode(data)
            # The moment stays. It may be too early now: then nothing is over at it, and the next one is found.
            return moment, self.mark, keys.carried(held, carried.kept, pick)

        return read

    def _stored(self, aggregate: Aggregate) -> Any:
        held: Any = self.keys.stored_type(aggregate)
        return tuple[int | None, int, held]

    def shown(self, emitted: Emitted) -> ClosedWindow:
        """Return a window as a handler sees it."""
        begin, end = emitted.begin, emitted.end
        if self._over_time[emitted.window]:
            begin, end = _moment(begin), _moment(end)
        values = {name: _own(value) for name, value in emitted.value.items()}
        return ClosedWindow(emitted.window, begin, end, values, emitted.corrected, emitted.retracted)


class Windows(Generic[K]):
    """The windows of a handler: `self.handler.add(key, column=value)` adds a row, at the time of `self.now`."""

    kind: ClassVar[str] = "windows"
    OPERATIONS: ClassVar[dict[str, Operation]] = {
        "add": WRITE_KEY,
        "current": READ_KEY,
        "fired": WRITE_KEY,
        "__contains__": READ_KEY,
    }

    __slots__ = ("_entries", "_keys", "_rules", "clock", "place")

    def __init__(self, rules: WindowRules, entries: Map[K, Any], place: Place = ALONE) -> None:
        self._rules = rules
        self._keys = rules.keys
        self._entries = entries
        self.place = place
        self.clock: Callable[[], int] = _no_clock

    def know(self, since: Mapping[str, int]) -> None:
        """Say which windows do not know all rows up to a time."""
        self._keys = self._rules.keys_since(since) if since else self._rules.keys

    def add(self, key: K, *values: Any, **columns: Any) -> None:
        """Add a row to the windows of a key: by the names of its columns, or one value if that is all they need."""
        moment, held = self._held(key)
        try:
            held, moment = self._keys.add(held, self.clock(), self._rules.record(values, columns), moment)
        except KeyError as error:
            raise WindowError(
                "MP647",
                "an aggregate or a window reads a column that was not added",
                expected=f"add(key, {error.args[0]}=..., ...)",
                found=", ".join(columns) or "no column",
            ) from error
        self._entries[key] = moment, self._rules.mark, held

    def add_columns(
        self, keys: Sequence[K], places: npt.NDArray[np.int64], times: npt.NDArray[np.int64], values: Columns
    ) -> bool:
        """Add many rows, each at its time and to the key at its place, as `add` does; say whether that was done.

        A column without a name is what `add` takes without one. Nothing is changed if some row must go by itself.
        """
        try:
            keyed = [self._held(key) for key in keys]
        except WindowError:
            return False
        moments = self._keys.columns.add(keyed, places, times, self._rules.columns(values))
        if moments is None:
            return False
        for key, (_, held), moment in zip(keys, keyed, moments, strict=True):
            self._entries[key] = moment, self._rules.mark, held
        return True

    def current(self, key: K, window: str = "") -> ClosedWindow | None:
        """Return the window that `self.now` lies in, with the rows that it has so far; None if it has none.

        Of sliding windows that is the one that ends first: "the last ten minutes", to the step by which they slide.
        `window` is its name, if there are several.
        """
        keys = self._keys
        if not isinstance(keys, KeySlices) or window not in self._rules.windows:
            raise WindowError(
                "MP647",
                "this window can't be asked for while it is open",
                expected=f"one of {', '.join(map(repr, self._rules.windows))}, over time or a session, with aggregates "
                "that do not depend on the order of rows",
                found=f"{window!r} of {self._rules.text}"[:200],
                hint="give aggregates that depend on order a handler of their own",
            )
        if key not in self._entries:
            return None
        emitted = keys.current(self._held(key)[1], window, self.clock())
        return None if emitted is None else self._rules.shown(emitted)

    def fired(self, key: K, until: datetime.datetime) -> list[ClosedWindow]:
        """Take out the windows of a key that are over: what happens right before its handler runs."""
        if key not in self._entries:
            return []
        emitted, held, moment = self._keys.close(self._held(key)[1], microseconds(until))
        if held is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = moment, self._rules.mark, held
        return [self._rules.shown(one) for one in emitted]

    def __contains__(self, key: object) -> bool:
        """Say whether a key has rows in windows that are not over."""
        return key in self._entries

    def due(self, now_us: int) -> list[tuple[int, K]]:
        """Return the keys that have something to emit up to a time, each with its moments, unordered."""
        found = ((key, entry) for key, entry in dict.items(self._entries) if entry[0] is not None)
        return [(at, key) for key, entry in found if entry[0] <= now_us for at in self.moments(entry, now_us)]

    def moments(self, entry: Any, until_us: int) -> list[int]:
        """Return the moments up to a time at which the handler of a key is called, whose entry is due.

        That is once, with all that is over, or at each of them with what is over then.
        """
        at, _, held = entry
        return self._keys.moments(held, at, until_us) if self.place.timely else [at]

    def _held(self, key: K) -> tuple[int | None, Any]:
        entry = self._entries.get(key)
        if entry is None:
            return None, self._keys.start()
        moment, mark, held = entry
        if mark != self._rules.mark:
            raise WindowError(
                "MP623",
                "the windows of a handler are not those that its state was made for",
                expected="the windows and aggregates that it had",
                found=self._rules.text[:200],
                hint="give the handler another name, and name the old one in `dropped=` of the class",
            )
        return moment, held

    def __repr__(self) -> str:
        return f"Windows({self._rules.text}, {len(self._entries)} keys)"


@dataclass(frozen=True)
class WindowsType(TimersType):
    """The type of the windows of a handler whose keys are of one type; `direct` if entry points add to them."""

    rules: WindowRules = field(kw_only=True, compare=False)
    direct: bool = field(default=True, kw_only=True, compare=False)

    @classmethod
    def of(cls, key: Any, rules: WindowRules, place: Place, direct: bool) -> WindowsType:
        """Return the type of windows by keys of a type."""
        return cls(Windows, (key,), "", rules=rules, place=place, direct=direct)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).of, (self.arguments[0], self.rules, self.place, self.direct)

    @cached_property
    def value_hint(self) -> Any:
        """The type of an entry."""
        return self.rules.stored_type

    def moment(self, value: Any) -> int | None:
        """Return when a key has something to emit."""
        at: int | None = value[0]
        return at

    def fires_at(self, at: int, until: int) -> int:
        """Emit all windows of a key that are over together, unless its handler does something at their ends."""
        return at if self.place.timely else self.until_us(until)

    def earliest(self, at: int) -> int | None:
        """Return when what is added at a moment is due at the earliest."""
        return self.rules.keys.earliest(at)

    def wrap(self, entries: Any) -> Any:
        """Return the container that user code sees; its clock is to be set."""
        return Windows(self.rules, entries, self.place)


def _rules(windows: Mapping[str, Any], aggregate: Aggregate, lateness_us: int, final: bool) -> WindowRules:
    return WindowRules(windows, aggregate, lateness_us, final=final)


def _own(value: Any) -> Any:
    """Copy a value for one window alone: a handler may change it, and others and what is kept do not see that."""
    kind = type(value)
    if kind in _NEVER_CHANGED:
        return value
    if kind is list or kind is tuple:
        return kind(map(_own, value))
    if kind is dict:
        return {key: _own(one) for key, one in value.items()}
    return copy.deepcopy(value)


def _moment(us: int) -> datetime.datetime:
    return _ZERO + datetime.timedelta(microseconds=us)


def _no_clock() -> int:
    raise AssertionError("windows without a clock")
