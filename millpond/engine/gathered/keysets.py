"""The keys that rows of gathered entry points may touch, from their arguments alone."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.compiler.compiled import CompiledTask, KeySets
from millpond.engine.plan import ProgramPlan, key_parameters, parameter_hints
from millpond.engine.task.badrows import Mask, bad_rows
from millpond.engine.task.columns import Column, ListColumn, TupleColumn, column_of
from millpond.engine.task.intake import column_array, feed_column, with_defaults
from millpond.engine.time.laterows import TIME, untimed
from millpond.errors import RowError, StateError
from millpond.keygroups import Layout
from millpond.program import Element
from millpond.program.semantics.epoch_time import row_times
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.containers.value import THE_KEY
from millpond.state.local.storekey import store_prefix
from millpond.state.units import store_keys_of

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TouchedKeys:
    """Keys of one element that rows touch: the distinct `units`, and pairs of a row and the place of a unit.

    Pairs are in the order of the rows; `one_each` says that they are simply the rows. For an element of a single key
    the only unit is `THE_KEY`.
    """

    element: str
    units: list[Any]
    rows: Ints
    codes: Ints
    one_each: bool = True


def touched(
    task: CompiledTask,
    elements: Mapping[str, Element],
    variables: Mapping[str, Column],
    count: int,
    times: Ints | None = None,
    *,
    bad: dict[int, RowError] | None = None,
) -> list[TouchedKeys]:
    """Return the keys that `count` rows touch, by element, the pairs of an element in the order of the rows.

    Keys may follow from the `times` of rows, if they have their own. Rows whose keys can't be brought together touch
    nothing, if they may be told in `bad`.
    """
    keys = task.keys
    assert keys is not None, task.name
    everyone = np.arange(count, dtype=np.int64)
    found = [TouchedKeys(name, [THE_KEY], everyone, np.zeros(count, dtype=np.int64)) for name in keys.singles]
    if keys.function is not None:
        return found + _by_function(task, keys, elements, variables, count, times, bad)
    for element, names in keys.columns:
        parts = [variables[name] for name in names]
        column = parts[0] if len(parts) == 1 else TupleColumn(parts)
        if isinstance(column, ListColumn):
            elements[element].type.keys.check_types(column.take(None))
        distinct, codes = column.distinct()
        units = distinct.tolist() if isinstance(distinct, np.ndarray) else distinct
        found.append(TouchedKeys(element, units, everyone, codes.astype(np.int64, copy=False)))
    return found


def _by_function(
    task: CompiledTask,
    keys: KeySets,
    elements: Mapping[str, Element],
    variables: Mapping[str, Column],
    count: int,
    times: Ints | None,
    bad: dict[int, RowError] | None,
) -> list[TouchedKeys]:
    """Return the keys that the compiler's function finds.

    What can't be a key, None or of another type, is left out: a row may touch it in a branch that it does not take,
    and if it does, it fails there as in plain Python.
    """
    assert keys.function is not None
    sets: list[list[tuple[str, Any]]] = []
    columns = [_own_values(variables[name]) for name in task.inputs] or [[None] * count]
    with nullcontext() if times is None else row_times(times.tolist(), sets):
        while len(sets) < count:
            try:
                keys.function(sets, *(column[len(sets) :] for column in columns))
            except RowError as error:
                if bad is None:
                    raise
                bad[len(sets)] = error
                sets.append([])
    noted: dict[str, list[tuple[int, Any]]] = {}
    for row, pairs in enumerate(sets):
        for element, unit in pairs:
            noted.setdefault(element, []).append((row, unit))
    found = []
    for element, listed in noted.items():
        usable = _usable(elements[element].type.keys, listed)
        known: dict[Any, int] = {}
        codes = np.array([known.setdefault(unit, len(known)) for _, unit in usable], dtype=np.int64)
        rows = np.array([row for row, _ in usable], dtype=np.int64)
        found.append(TouchedKeys(element, list(known), rows, codes, one_each=False))
    return found


def _usable(codec: KeyCodec, listed: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Return the pairs of a row and a unit whose unit can be a key."""
    try:
        codec.encode_many([unit for _, unit in listed])
    except StateError:
        return [(row, unit) for row, unit in listed if _is_key(codec, unit)]
    return listed


def _is_key(codec: KeyCodec, unit: Any) -> bool:
    try:
        codec.check(unit)
    except StateError:
        return False
    return True


def _own_values(column: Column) -> list[Any]:
    """Return the values of a column, for code that may change them: rows run with the same objects later."""
    values = column.take(None)
    return copy.deepcopy(values) if isinstance(column, ListColumn) and column.may_change else values


@dataclass(frozen=True, slots=True)
class FeedKeys:
    """The keys of a feed's rows as they came in: those of rows whose keys are good; `good` marks them."""

    good: Mask
    touched: list[TouchedKeys]


def feed_keys(plan: ProgramPlan, feed: int, table: pa.Table, floor_us: int) -> FeedKeys:
    """Return the keys that rows of a gathered feed touch; rows whose arguments do not fit have none.

    No row with an event time goes by a time before `floor_us`.
    """
    entry = plan.entry_of(feed)
    task = entry.tasks[0]
    every = parameter_hints(entry)
    hints = {name: every[name] for name in survey_parameters(task)}
    table = with_defaults(plan, feed, table)
    columns = {name: column_array(table, feed_column(feed, name)) for name in hints}
    bad, _ = bad_rows(columns, hints, key_parameters(task))
    if not columns:
        bad = np.zeros(table.num_rows, dtype=bool)
    times: Ints | None = None
    if plan.feeds[feed].time is not None:
        told = column_array(table, TIME)
        bad, _ = untimed(told, bad, [""] * int(bad.sum()))
        times = np.maximum(told.filter(pa.array(~bad)).to_numpy(zero_copy_only=False), floor_us)
    if columns and bad.any():
        kept = pa.array(~bad)
        columns = {name: column.filter(kept) for name, column in columns.items()}
    held: dict[str, Column] = {name: column_of(columns[name], hint, key=True) for name, hint in hints.items()}
    return FeedKeys(~bad, touched(task, plan.program.elements, held, int((~bad).sum()), times, bad={}))


def survey_parameters(task: CompiledTask) -> list[str]:
    """Return the parameters that the keys of a gathered task follow from."""
    assert task.keys is not None
    keys = key_parameters(task)
    return [name for name in task.inputs if task.keys.function is not None or name in keys]


def store_keys(plan: ProgramPlan, found: TouchedKeys) -> list[bytes]:
    """Get the name of each unit in the store, in the order of the units; a single element's is where all of it lies."""
    layout: Layout = plan.layout
    index = plan.element_index(found.element)
    element = plan.program.elements[found.element].type
    if element.single:
        return [store_prefix(index, layout.group_of(THE_KEY))]
    return store_keys_of(index, element.keys, found.units, layout.key_groups)
