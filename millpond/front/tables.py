"""One state element after one epoch, as `millpond.open` hands it out: point reads, walks, differences, Arrow.

A point read fetches the files of one key group, and a walk goes from group to group: the state is never held as a
whole, unless it is asked for as one table. Instances of partial state are read one by one, or as what the program's
`merge` makes of them.
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Iterator
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol, get_args

import pyarrow as pa

from millpond.checkpoint.read.elements import ElementReader
from millpond.checkpoint.read.entries import Change, Kind
from millpond.checkpoint.read.history import History, Point
from millpond.checkpoint.read.typed import TypedReader
from millpond.checkpoint.upkeep.merging import merge_instances
from millpond.engine.statetables import BATCH_ROWS, Column, fits_column
from millpond.errors import EpochError, MillpondError, MissingError, ReadError, StateError
from millpond.ids import InstanceId
from millpond.program.declare import Distribution, Element, Merge
from millpond.state.containers.counter import Counter
from millpond.state.containers.list import List
from millpond.state.containers.map import Map
from millpond.state.containers.matrix import Matrix
from millpond.state.containers.set import Set
from millpond.state.containers.value import THE_KEY, Value
from millpond.state.containers.vector import Vector
from millpond.state.local.storekey import unit_of

if TYPE_CHECKING:
    import pandas as pd

    from millpond.front.opened import OpenCheckpoint

Unit = tuple[bytes, bytes]
"""An entry as it is stored, without its key group: its key and its value."""

_NO_KEY: Any = object()
_END = b"", 2, b""
_NONE: tuple[Unit, ...] = ()
_WHOLE = ("set", "list")
"""Kinds whose instances are merged as a whole, not entry by entry."""
_CONTAINERS: dict[str, Any] = {kind.kind: kind for kind in (Map, Counter, Vector, Set, List, Matrix, Value)}


class Groups(Protocol):
    """Reads the entries of one element at one point, by store key or key group."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a store key; None if there is none, or if its time is over."""
        ...

    def entries(self, group: int) -> list[Unit]:
        """Return the entries of a key group by store key, ascending."""
        ...

    def close(self) -> None:
        """Give back what is held."""
        ...


class _At(Protocol):
    def __call__(self, epoch: int | str | None = None) -> OpenCheckpoint: ...


class StateTable:
    """The entries of one element after one epoch: `get`, `items`, `scan`, `diff`, `to_arrow`, `to_pandas`.

    Keys and values are as the element declares them: the key of a `Matrix` is a row, or a column if it is split by
    column, and its value all its cells; a `Set` has members as keys and no values, a `List` positions, and a `Value`
    is read by `get()` alone.
    """

    def __init__(
        self,
        history: History,
        point: Point,
        reader: ElementReader,
        at: _At,
        *,
        aged: bool,
        instance: int | None = None,
        merge: Merge | None = None,
        groups: Groups,
        shows: ElementReader | None = None,
    ) -> None:
        self._history, self._point, self._reader, self._at = history, point, reader, at
        self._aged, self._instance = aged, instance
        if merge is None and instance is None and isinstance(reader, TypedReader):
            merge = reader.element.merge
        self._merge = merge
        self._groups = groups
        self._shows = shows or reader
        self._apart = reader.partial and instance is None

    @property
    def name(self) -> str:
        """The name of the element."""
        return self._reader.schema.name

    @property
    def epoch(self) -> int:
        """The epoch after which this is the state."""
        return self._point.epoch

    @property
    def instances(self) -> int | None:
        """How many instances partial state has; None if the element is not partial, or if this is one of them."""
        return self._point.instances if self._apart else None

    def instance(self, number: int) -> StateTable:
        """Return one instance of partial state, as a table of its own."""
        if self.instances is None or not 0 <= number < self.instances:
            raise self._no_instance(number, self.instances)
        return self._view(instance=number)

    def _no_instance(self, number: int, count: int | None) -> StateError:
        return StateError(
            "MP243",
            f"`{self.name}` has no such instance",
            expected="no instance: there are none to choose from" if count is None else f"0 to {count - 1}",
            found=str(number)[:20],
        )

    def merged(self, merge: Merge) -> StateTable:
        """Return partial state as one table: `merge` is given what the instances hold for an entry, in their order.

        It is asked what the declaration's `merge=` would be asked: an instance without the entry has 0 in counters,
        vectors and matrices, else None; sets and lists are merged as a whole.
        """
        self._check_partial()
        return self._view(merge=merge)

    def plain(self) -> StateTable:
        """Return the same table with keys and values as what they are made of, without classes of the program."""
        return self._view(instance=self._instance, merge=self._merge, shows=self._plain())

    def _view(
        self, instance: int | None = None, merge: Merge | None = None, shows: ElementReader | None = None
    ) -> StateTable:
        return StateTable(
            self._history,
            self._point,
            self._reader,
            self._at,
            aged=self._aged,
            instance=instance,
            merge=merge,
            groups=self._groups,
            shows=shows or (None if self._shows is self._reader else self._shows),
        )

    @property
    def shows(self) -> ElementReader:
        """What decodes keys and values."""
        return self._shows

    def at(self, epoch: int | str | None = None) -> StateTable:
        """Return the element after another epoch: its number, the name of a savepoint, or the newest one now."""
        return self._like(self._at(epoch)[self.name])

    def get(self, key: Any = _NO_KEY, default: Any = None) -> Any:
        """Return the value of a key, or `default` if there is none; a member of a `Set` is True.

        One key group is read, of each instance if there are several. A `Value` has no key. A key of another type than
        the element's is refused, since 1 and "1" are two keys.
        """
        found = self._find(self._checked(key))
        return default if found is None else found[0]

    def __getitem__(self, key: Any) -> Any:
        found = self._find(self._checked(key))
        if found is None:
            raise KeyError(key)
        return found[0]

    def __contains__(self, key: Any) -> bool:
        return self._find(self._checked(key)) is not None

    def _checked(self, key: Any) -> Any:
        if (key is _NO_KEY) == self._reader.has_keys:
            raise StateError(
                "MP241",
                f"this is not a key of `{self.name}`",
                expected=self._reader.schema.key if self._reader.has_keys else "no key: the element is one value",
                found="no key" if key is _NO_KEY else repr(key)[:80],
            )
        return THE_KEY if key is _NO_KEY else key

    def _find(self, key: Any) -> tuple[Any] | None:
        reader = self._shows
        if not self._apart:
            data = self._stored(reader.store_key(key, self._instance))
            return None if data is None else (self.decode_value(data),)
        merge = self._check_merge()
        reader.codec.check(key)
        if reader.schema.kind in _WHOLE:
            return next(((value,) for found, value in self.items() if found == key), None)
        unit = reader.codec.encode(key)
        held = [self._stored(reader.store_key(key, number)) for number in range(self._point.instances)]
        if not any(data is not None for data in held):
            return None
        one = [iter(() if data is None else ((unit, data),)) for data in held]
        return next((value,) for _, value in self._decoded(merge_instances(_merged_element(self._reader, merge), one)))

    def _stored(self, key: bytes) -> bytes | None:
        try:
            return self._groups.get(key)
        except MissingError as error:
            raise self._left_behind(error) from error

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Walk over keys and values, key group by key group, in the order of keys within one: the same on every run.

        A merged table goes by key alone.
        """
        if self._apart:
            self._check_merge()
        for part in self.parts():
            yield from self._decoded(self.units(part))

    def __iter__(self) -> Iterator[Any]:
        return map(itemgetter(0), self.items())

    def keys(self) -> Iterator[Any]:
        """Walk over the keys, as `items` does."""
        return iter(self)

    def values(self) -> Iterator[Any]:
        """Walk over the values, as `items` does."""
        return map(itemgetter(1), self.items())

    def __bool__(self) -> bool:
        # A table is something, and looking whether it holds anything is not free.
        return True

    def __len__(self) -> int:
        return sum(1 for _ in self._units())

    def scan(self, start: Any = None, stop: Any = None, *, limit: int | None = None) -> Iterator[tuple[Any, Any]]:
        """Return entries in the order of their keys, from `start` up to `stop` without it, both open if None.

        Every key group is looked at, one after the other. What is held is the entries in the range, or `limit` of them.
        """
        codec = self._shows.codec
        low = b"" if start is None else codec.encode(start)
        high = None if stop is None else codec.encode(stop)
        within = (unit for unit in self._units() if low <= unit[0] and (high is None or unit[0] < high))
        yield from self._decoded(sorted(within) if limit is None else heapq.nsmallest(limit, within))

    def diff(self, before: int | str, after: int | str | None = None) -> Iterator[Change]:
        """Tell what is different from an epoch `before`, up to this table's epoch or to `after`.

        Each `Change` has the `epoch` after which it is so, the `kind` (added, changed, removed), `instance`, `key`,
        `old` and `new`. Entries come in the order of `items`; instances of partial state are compared one by one,
        unless they are merged.
        """
        new = self if after is None else self.at(after)
        old = self._at(before)
        return _differences(self._like(old[self.name]) if self.name in old else None, new)

    def _like(self, table: StateTable) -> StateTable:
        """Return a table of another epoch as this one is: merged, or an instance."""
        if self._instance is None:
            return table if self._merge is None else table.merged(self._merge)
        if self._instance < (table.instances or 0):
            return table.instance(self._instance)
        raise self._no_instance(self._instance, table.instances)

    def reader(self) -> pa.RecordBatchReader:
        """Return the entries as batches of Arrow, which are read as they are asked for.

        The columns are `key` and `value`; instances of partial state that are not merged have a column `instance`, a
        `Set` has no `value`, and a `Value` no `key`. Values that no column holds are text with JSON.
        """
        columns = self._columns()
        schema = self._schema(columns)
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema, columns))

    def to_arrow(self) -> pa.Table:
        """Return all entries as one table of Arrow, with the columns that `reader` tells."""
        return self.reader().read_all()

    def to_pandas(self) -> pd.DataFrame:
        """Return all entries as a DataFrame of pandas, with the columns that `reader` tells."""
        return self.to_arrow().to_pandas()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Hand the entries to whoever takes streams of Arrow: Polars, DuckDB, pandas."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Give back temporary files; the table can't be read any more."""
        self._groups.close()

    def __repr__(self) -> str:
        return f"<{self._reader.schema} at epoch {self.epoch}>"

    def parts(self) -> list[int | None]:
        """Return the instances or key groups that entries lie in; a merged table is one part, None."""
        if self._apart:
            return [None] if self._merge is not None else list(range(self._point.instances))
        return [group if number is None else number for number, group in self._reader.groups() if self._has(number)]

    def _has(self, number: int | None) -> bool:
        return self._instance in (None, number)

    def units(self, part: int | None) -> Iterator[Unit]:
        """Walk over the entries of one part as they are stored, in the order of keys."""
        if part is None:
            merge = self._check_merge()
            homes = [self._home(number) for number in range(self._point.instances)]
            return merge_instances(_merged_element(self._reader, merge), [self._group(group) for group in homes])
        return self._group(self._home(part) if self._reader.partial else part)

    def _home(self, number: int) -> int:
        return self._reader.layout.home_of(InstanceId(number))

    def instance_of(self, part: int | None) -> int | None:
        """Return the instance that a part is; None if it is none."""
        return part if self._reader.partial else None

    def decode_key(self, unit: bytes) -> Any:
        """Decode the key of an entry."""
        return self._shows.decode_key(unit)

    def decode_value(self, data: bytes) -> Any:
        """Decode the value of an entry; a member of a `Set` is True."""
        if not self._reader.has_values:
            return True
        value = self._shows.decode_value(data)
        return value[1] if self._aged else value

    def has_keys_of(self, other: StateTable) -> bool:
        """Tell whether keys are of the type that they have in another table of the element."""
        return self._reader.schema.key == other._reader.schema.key

    def _units(self) -> Iterator[Unit]:
        """Walk over entries as they are stored."""
        if self._apart:
            self._check_merge()
        for part in self.parts():
            yield from self.units(part)

    def _group(self, group: int) -> Iterator[Unit]:
        try:
            found = self._groups.entries(group)
        except MissingError as error:
            raise self._left_behind(error) from error
        return ((unit_of(key), value) for key, value in found)

    def _decoded(self, units: Iterator[Unit] | list[Unit]) -> Iterator[tuple[Any, Any]]:
        rest = iter(units)
        while some := list(islice(rest, 1024)):
            keys = self._shows.decode_keys([unit for unit, _ in some])
            yield from zip(keys, self._shown([value for _, value in some]), strict=True)

    def _shown(self, values: list[bytes]) -> list[Any]:
        """Decode values; what an entry with a time to live is stored with stays behind."""
        if not self._reader.has_values:
            return [True] * len(values)
        return self._decode(self._shows, values)

    def _decode(self, reader: ElementReader, values: list[bytes]) -> list[Any]:
        decoded = reader.decode_values(values)
        return [value for _, value in decoded] if self._aged else decoded

    def _columns(self) -> list[tuple[Column, ElementReader]]:
        """Return the columns of keys and values, and what decodes each.

        What no column of its own type can hold is JSON, of plain values.
        """
        typed, plain = self._shows, self._plain()
        kinds = typed.has_keys * [("key", typed.key_type.hint)] + typed.has_values * [("value", self._value_hint())]
        columns = [(Column.of(name, hint), plain) for name, hint in kinds]
        if isinstance(typed, TypedReader):
            bare = getattr(typed.element.type, "bare_type", typed.element.type)
            own = {"key": bare.key_hint, "value": bare.value_hint}
            columns = [
                (Column(column.name, own[column.name]), typed) if fits_column(own[column.name]) else (column, reader)
                for column, reader in columns
            ]
        return columns

    def _plain(self) -> ElementReader:
        reader = self._reader
        return ElementReader(reader.index, reader.schema, reader.layout.key_groups, reader.layout.instances)

    def _value_hint(self) -> Any:
        hint = self._reader.value_type.hint
        return (*get_args(hint), Any, Any)[1] if self._aged else hint

    def _schema(self, columns: list[tuple[Column, ElementReader]]) -> pa.Schema:
        instance = [pa.field("instance", pa.int32())] if None not in self.parts() and self._apart else []
        return pa.schema([*instance, *(column.field for column, _ in columns)])

    def _batches(self, schema: pa.Schema, columns: list[tuple[Column, ElementReader]]) -> Iterator[pa.RecordBatch]:
        for part in self.parts():
            rest = self.units(part)
            while some := list(islice(rest, BATCH_ROWS)):
                arrays = [pa.array([part] * len(some), pa.int32())] if "instance" in schema.names else []
                for column, reader in columns:
                    if column.name == "key":
                        held = reader.decode_keys([unit for unit, _ in some])
                    else:
                        held = self._decode(reader, [value for _, value in some])
                    arrays.append(column.array(held))
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _check_partial(self) -> None:
        if not self._apart:
            raise ReadError(
                "MP832",
                f"`{self.name}` has no instances to merge",
                expected="partial state",
                found=f"{self._reader.schema}{'' if self._instance is None else f', instance {self._instance}'}",
            )

    def _check_merge(self) -> Merge:
        if self._merge is not None:
            return self._merge
        raise ReadError(
            "MP833",
            f"`{self.name}` has {self._point.instances} instances, and nothing says how to merge them",
            expected=f"table.merged(sum), or table.instance(0) to table.instance({self._point.instances - 1})",
            found=str(self._reader.schema),
            hint="millpond.open(checkpoint, Program) merges by the `merge=` of the declaration, if it has one",
        )

    def _left_behind(self, error: MissingError) -> MillpondError:
        """Tell an epoch that was given up meanwhile from a file that is missing."""
        if self.epoch == 0 or self._history.holds(self.epoch):
            return error
        return EpochError(
            "MP450",
            f"epoch {self.epoch} is not kept in this checkpoint any more",
            expected="an epoch that the job keeps",
            found=error.summary,
            hint="open a newer epoch with `at()`; a savepoint keeps an epoch for as long as it is needed",
        )


def _merged_element(reader: ElementReader, merge: Merge) -> Element:
    """Return the element that a reader reads, merged by a function: as declared, or as far as the checkpoint says."""
    if isinstance(reader, TypedReader):
        element = copy.copy(reader.element)
    else:
        by = reader.schema.by or None
        element = Element(_declared(reader), Distribution.PARTIAL, by)
        element.name = reader.schema.name
    element.merge = merge
    return element


def _declared(reader: ElementReader) -> Any:
    key, value, kind = reader.key_type.hint, reader.value_type.hint, reader.schema.kind
    if kind == "map":
        return _CONTAINERS[kind][key, value]
    if kind == "matrix":
        across, cell = get_args(value)
        return _CONTAINERS[kind][(key, across, cell) if reader.schema.by == "row" else (across, key, cell)]
    return _CONTAINERS[kind][value if kind in ("value", "list") else key]


def _differences(old: StateTable | None, new: StateTable) -> Iterator[Change]:
    """Yield what changed from one table to another; without an old one, all of the new one was added."""
    if old is not None and not new.has_keys_of(old):
        # Keys of two types are never the same one.
        yield from _removed(old, new)
        old = None
    before = [] if old is None else old.parts()
    after = new.parts()
    for part in [*after, *(part for part in before if part not in set(after))]:
        was = old.units(part) if old is not None and part in set(before) else iter(_NONE)
        now = new.units(part) if part in set(after) else iter(_NONE)
        yield from _compared(new if old is None else old, new, part, was, now)


def _removed(old: StateTable, new: StateTable) -> Iterator[Change]:
    for part in old.parts():
        for unit, value in old.units(part):
            kept = old.instance_of(part), old.decode_key(unit), old.decode_value(value)
            yield Change(new.epoch, Kind.REMOVED, *kept, None)


def _compared(
    old: StateTable, new: StateTable, part: int | None, was: Iterator[Unit], now: Iterator[Unit]
) -> Iterator[Change]:
    """Compare two parts, both in the order of keys; equal values have equal bytes."""
    sides = heapq.merge(((unit, 0, value) for unit, value in was), ((unit, 1, value) for unit, value in now))
    held: dict[int, bytes] = {}
    last = b""
    for unit, side, value in chain(sides, (_END,)):
        if held and (unit != last or side == 2):
            if held.get(0) != held.get(1):
                yield _change(old, new, part, last, held)
            held = {}
        last = unit
        held[side] = value


def _change(old: StateTable, new: StateTable, part: int | None, unit: bytes, held: dict[int, bytes]) -> Change:
    kind = Kind.ADDED if 0 not in held else Kind.REMOVED if 1 not in held else Kind.CHANGED
    was = old.decode_value(held[0]) if 0 in held else None
    now = new.decode_value(held[1]) if 1 in held else None
    return Change(new.epoch, kind, new.instance_of(part), new.decode_key(unit), was, now)
