"""Initial state: rows of keys and values that become the entries of an element, in an epoch of its own.

The element must be empty. Rows are worked on by ranges of key groups, a column at a time; each range writes its files,
and the manifest of the load names them all, or nothing of it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from operator import eq
from typing import Any, Generic, Literal, TypeVar, get_args

import msgspec
import numpy as np
import pyarrow as pa

from millpond.checkpoint.commit.checkpoint import Checkpoint, EpochWork, Parent
from millpond.checkpoint.records.deltas import write_delta
from millpond.checkpoint.records.offers import Loaded
from millpond.checkpoint.records.work import Changed
from millpond.checkpoint.recovery import read_changes, restore_files
from millpond.compiler.compiled import CompiledProgram
from millpond.engine.arrowtypes import arrow_type, optional, reader
from millpond.engine.failures import as_error, failure_of
from millpond.engine.messages import Failure
from millpond.errors import EpochError, MillpondError, StateError
from millpond.ids import InstanceId
from millpond.keygroups import Layout
from millpond.program.declare import Element
from millpond.state.changes import Changes
from millpond.state.codec.shown import shown
from millpond.state.codec.typenames import type_text
from millpond.state.containers.list import List
from millpond.state.containers.matrix import Matrix
from millpond.state.containers.set import Set
from millpond.state.containers.value import THE_KEY, Value
from millpond.state.expiry import AgedType
from millpond.state.local.storekey import PREFIX_BYTES, element_of, store_prefix
from millpond.state.timers import TimersType
from millpond.state.units import in_store_order
from millpond.storage.contract import Storage

KEY, VALUE = "key", "value"

Into = Literal["first", "all"]
"""Which instances of a partial element are filled."""


Entries = TypeVar("Entries")


@dataclass(frozen=True, slots=True)
class Load(Generic[Entries]):
    """Keys and values for a state element, and the name under which they are loaded once: by default the element's."""

    element: Element
    entries: Entries
    into: Into | None
    name: str | None


@dataclass(frozen=True, slots=True)
class Target:
    """What a load fills: an element as it is stored, and its index; if it is partial, the key groups of its instances.

    `moment_us` is when entries are written, for those that expire; `mark` is that of the epoch's files.
    """

    element: Element
    index: int
    key_groups: int
    homes: tuple[int, ...]
    moment_us: int
    mark: str = ""

    @property
    def columns(self) -> tuple[tuple[str, Any], ...]:
        """The columns that rows must have: names and types."""
        return load_columns(self.element)

    @property
    def one_group(self) -> bool:
        """Whether the key of a row says nothing about where it goes."""
        return bool(self.homes) or self.element.type.single


class LoadReport(msgspec.Struct, frozen=True):
    """What came of the rows of one range of key groups: what they changed, or what is wrong with them.

    Entries that expire are not counted as growth.
    """

    changed: Changed = Changed()
    problem: Failure | None = None


def bare_type(element: Element) -> Any:
    """Return the type of an element as the program sees it, whatever is stored besides its values."""
    return element.type.bare_type if isinstance(element.type, AgedType) else element.type


def load_columns(element: Element) -> tuple[tuple[str, Any], ...]:
    """Return the columns of a load: `key` unless the element is a `Value`, and `value` unless it is a `Set`."""
    seen = bare_type(element)
    key = () if seen.container is Value else ((KEY, seen.key_hint),)
    value = () if seen.container is Set else ((VALUE, seen.value_hint),)
    return (*key, *value)


def loadable(program: CompiledProgram, name: str) -> Element:
    """Return an element of a program as it is stored; timers are set by rows alone."""
    own = {key: element for key, element in program.elements.items() if not isinstance(element.type, TimersType)}
    if name not in own:
        raise StateError(
            "MP270",
            f"{program.name} has no state element `{name}` to load",
            expected=", ".join(own) or "a program with state",
            found=name,
        )
    return own[name]


def target_of(element: Element, index: int, layout: Layout, into: str | None, moment_us: int) -> Target:
    """Check that an element can be loaded; partial ones must say into which instances."""
    wanted = get_args(Into)
    if element.partial != (into is not None) or (into is not None and into not in wanted):
        raise StateError(
            "MP270",
            f"`{element.name}` {'has instances, and into= names none' if element.partial else 'has no instances'}",
            expected=" or ".join(f'into="{one}"' for one in wanted) if element.partial else "no into=",
            found="no into=" if into is None else f"into={into!r}",
            hint='"first" fills one, right if instances are added up; "all" fills each, right if they are averaged',
        )
    numbers = range(layout.instances if into == "all" else 1) if element.partial else ()
    homes = tuple(layout.home_of(InstanceId(number)) for number in numbers)
    return Target(element, index, layout.key_groups, homes, moment_us)


def load_rows(storage: Storage, target: Target, rows: pa.Table) -> LoadReport:
    """Write the entries of rows, all that have their keys; what is wrong with rows is told, not raised."""
    try:
        changes = _entries(target, rows)
        files = write_delta(storage, changes, target.mark) if changes.keys else ()
        counted = not isinstance(target.element.type, AgedType)
        return LoadReport(Changed(files=files, growth=len(changes.keys) if counted else 0))
    except MillpondError as error:
        return LoadReport(problem=failure_of(error))


def load_work(reports: Sequence[LoadReport]) -> EpochWork:
    """Return the work of a load's epoch, from all reports; raises the first problem."""
    for report in reports:
        if report.problem is not None:
            raise as_error(report.problem)
    return EpochWork(tuple(report.changed for report in reports), (), {})


def load_offer(checkpoint: Checkpoint, element: str, name: str | None) -> Loaded | None:
    """Return the offer of a load; None if it was loaded before. One without a name of its own comes before any rows."""
    head = checkpoint.head
    own = element if name is None else name
    if head is not None and own in head.loads:
        return None
    if name is None and head is not None and (head.stream is not None or head.runs):
        raise EpochError(
            "MP446",
            f"`{element}` can't be loaded: the checkpoint has processed rows already",
            expected="a load before the first rows, or one with a name",
            found=f"epoch {head.epoch}, with rows of {'a stream' if head.stream is not None else 'a run'}",
            hint='give it a name, which is loaded once: job.load(..., name="backfill"); the element must be empty',
        )
    return Loaded(own)


def check_empty(storage: Storage, parent: Parent, index: int, name: str) -> None:
    """Refuse an element that has entries; from the newest file on, the first word on a key is the last one."""
    gone: set[bytes] = set()
    for state_file in reversed(restore_files(parent, 0, parent.key_groups - 1)):
        for key, value in read_changes(storage, state_file).pairs():
            if element_of(key) != index or key in gone:
                continue
            if value is not None:
                raise EpochError(
                    "MP448",
                    f"`{name}` is not empty",
                    expected="an element without entries",
                    found=f"at least one, at epoch {parent.epoch}",
                    hint="load before the first rows, or into an element that is new; nothing was changed",
                )
            gone.add(key)


def _entries(target: Target, rows: pa.Table) -> Changes:
    columns = {name: _column(target, rows, name, hint) for name, hint in target.columns}
    for name, hint in target.columns:
        if columns[name].null_count and not (name == VALUE and optional(hint)):
            raise StateError(
                "MP272",
                f"column `{name}` has nulls in the load of `{target.element.name}`",
                expected=type_text(hint),
                found=f"{columns[name].null_count} nulls",
                hint=f'leave these rows out: df.where("{name} is not null")',
            )
    if target.element.type.container is Matrix:
        # A line without cells is none: plain Python has no such line.
        columns = _lines_with_cells(columns)
    units = _units(target, columns.get(KEY), len(next(iter(columns.values()))))
    values = _values(target, columns.get(VALUE), units)
    keys, order = _placed(target, units)
    _check_distinct(target, keys)
    _check_positions(target, units)
    ordered = list(map(values.__getitem__, order.tolist()))
    copies = len(target.homes) or 1
    return Changes(keys, list[bytes | None](ordered) * copies)


def _column(target: Target, rows: pa.Table, name: str, hint: Any) -> pa.Array:
    try:
        return rows.column(name).combine_chunks().cast(arrow_type(hint))
    except pa.ArrowException as error:
        raise StateError(
            "MP274",
            f"a {name} in the load of `{target.element.name}` does not fit",
            expected=type_text(hint),
            found=str(error)[:200],
        ) from error


def _lines_with_cells(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    filled = pa.array(np.diff(columns[VALUE].offsets.to_numpy()) > 0)
    return {name: column.filter(filled) for name, column in columns.items()}


def _units(target: Target, column: pa.Array | None, count: int) -> Any:
    if column is None:
        return [THE_KEY] * count
    if target.element.type.key_hint is int:
        return column.to_numpy(zero_copy_only=False)
    return reader(target.element.type.key_hint)(column)


def _values(target: Target, column: pa.Array | None, units: Any) -> list[bytes]:
    element = target.element
    hint = bare_type(element).value_hint
    values = [None] * len(units) if column is None else reader(hint)(column)
    aged = isinstance(element.type, AgedType)
    held = [(target.moment_us, value) for value in values] if aged else values
    try:
        return element.type.values.encode_many(held)
    except StateError as whole:
        for unit, value in zip(units, held, strict=True):
            try:
                element.type.values.check(value)
            except StateError as error:
                raise StateError(
                    "MP274",
                    f"a value in the load of `{element.name}` does not fit",
                    expected=error.expected,
                    found=f"{error.found}, for key {shown(unit)}",
                ) from error
        raise AssertionError(element.name) from whole


def _placed(target: Target, units: Any) -> tuple[list[bytes], Any]:
    """Store keys in order, and where the unit of each stood."""
    codec = target.element.type.keys
    if not target.one_group:
        placed = in_store_order(target.index, codec, units, target.key_groups)
        return placed.keys, placed.order
    texts = codec.encode_many(units.tolist() if isinstance(units, np.ndarray) else units)
    order = np.array(sorted(range(len(texts)), key=texts.__getitem__), dtype=np.int64)
    layout = Layout(target.key_groups, 1, 1, aligned=False)
    groups = sorted(target.homes) or [layout.group_of(THE_KEY)]
    prefixes = [store_prefix(target.index, group) for group in groups]
    return [prefix + texts[at] for prefix in prefixes for at in order.tolist()], order


def _check_distinct(target: Target, keys: list[bytes]) -> None:
    if not any(map(eq, keys, islice(keys, 1, None))):
        return
    surplus = len(keys) - len(set(keys))
    twice = next(key for key, after in pairwise(keys) if key == after)
    unit = target.element.type.keys.decode(twice[PREFIX_BYTES:])
    raise StateError(
        "MP273",
        f"two rows of the load of `{target.element.name}` have the same key",
        expected="one row" if unit == () else "each key once",
        found=f"{surplus} rows too many" if unit == () else f"{surplus} rows too many, one of them for {shown(unit)}",
        hint='make one of them, e.g. df.groupBy("key").agg(...) or df.dropDuplicates(["key"])',
    )


def _check_positions(target: Target, units: Any) -> None:
    """Check that the positions of a list are 0, 1, 2, ...: each there, since none is there twice."""
    if target.element.type.container is List and len(units) and (min(units) != 0 or max(units) != len(units) - 1):
        raise StateError(
            "MP275",
            f"the keys of the load of `{target.element.name}` are not the positions of a list",
            expected=f"0 to {len(units) - 1}, each once",
            found=f"{min(units)} to {max(units)}",
        )
