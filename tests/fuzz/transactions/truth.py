"""What plain Python makes of rows that are each all or nothing: replies, refusals, failures, and the state in bytes.

A row that raises, or that its program refuses, must leave no trace. The truth trusts no way to undo: after a row that
raises it begins anew with a fresh instance, and runs all rows before it again. A plain instance undoes refusals itself;
that is checked after each.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from millpond.errors import Aborted, MillpondError
from millpond.keygroups import Layout
from millpond.program import ProgramBase
from millpond.state.containers.element import THE_KEY
from millpond.state.local.storekey import store_key
from tests.fuzz.oracle import UnfitError, shown
from tests.fuzz.rows import Row

Bytes = dict[bytes, bytes]
"""A state as a checkpoint holds it."""


class UndoneError(AssertionError):
    """A plain instance was left changed by a call that aborted."""


@dataclass(slots=True)
class Truth:
    """Of the rows that are fed: replies as text, reasons of refusals, names of exceptions, by number; and the state.

    Rows whose values no checkpoint or column could hold are not fed; `unfit` counts them.
    """

    rows: list[Row] = field(default_factory=list)
    replies: dict[int, str] = field(default_factory=dict)
    aborted: dict[int, str] = field(default_factory=dict)
    raised: dict[int, str] = field(default_factory=dict)
    unfit: int = 0
    state: Bytes = field(default_factory=dict)


def truth_of(program: type[ProgramBase], rows: Sequence[Row], layout: Layout) -> Truth:
    """Run rows in their order as plain Python."""
    truth, points = Truth(), program.entries()
    plain, done = program(), list[Row]()
    for row in rows:
        name, number = row[0], len(truth.rows)
        try:
            reply = called(plain, row)
            state = state_of(plain, layout)
            told = shown(reply, points[name].returns) if points[name].replies else None
        except Aborted as refused:
            truth.aborted[number] = refused.reason
            _check_undone(plain, truth.state, layout, row)
        except (MillpondError, UnfitError):
            truth.unfit += 1
            plain = _again(program, done)
            continue
        except Exception as error:  # noqa: BLE001
            truth.raised[number] = type(error).__name__
            plain = _again(program, done)
        else:
            truth.state = state
            done.append(row)
            if told is not None:
                truth.replies[number] = told
        truth.rows.append(row)
    if state_of(_again(program, done), layout) != truth.state:
        raise UndoneError("rows that were done give another state when they are done alone")
    return truth


def called(plain: ProgramBase, row: Row) -> Any:
    """Call an entry point with arguments of its own: it may change them."""
    name, arguments = row
    return getattr(plain, name)(*copy.deepcopy(arguments))


def _again(program: type[ProgramBase], done: Sequence[Row]) -> ProgramBase:
    plain = program()
    for row in done:
        called(plain, row)
    return plain


def _check_undone(plain: ProgramBase, before: Bytes, layout: Layout, row: Row) -> None:
    if state_of(plain, layout) != before:
        raise UndoneError(f"{row} aborted, and left something changed")


def state_of(plain: ProgramBase, layout: Layout) -> Bytes:
    """The state of a plain instance, as a checkpoint would hold it."""
    held: Bytes = {}
    for index, (name, element) in enumerate(plain.elements().items()):
        assert not element.partial, "a transaction touches no partial state"
        kind = element.type
        for unit, value in entries_of(vars(plain)[name]).items():
            group = layout.group_of(THE_KEY if kind.single else unit)
            kind.values.check(value)
            held[store_key(index, group, kind.keys.encode(unit))] = kind.values.encode(value)
    return held


def entries_of(container: Any) -> dict[Any, Any]:
    """The entries below a container of a plain instance."""
    inner = next(
        (held for part in ("_entries", "_lines") if (held := getattr(container, part, None)) is not None), None
    )
    return dict(dict.items(container if inner is None else inner))
