"""What windows over columns have in common: their aggregates, the watermark, and results that no longer hold.

Those were emitted, and rows came after them and within the allowed lateness.

>>> Allowed.of("5 s", REPLACE).horizon(None, watermark=12_000_000)
7000000
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from millpond.errors import WindowError
from millpond.lengths import Length, length_us
from millpond.spelling import check_unit
from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.aggregates.forms import Array, Bools, Ints, State
from millpond.windowing.columns.intake import Closed, Intake, forms_of
from millpond.windowing.kinds.kinds import backwards

RETRACT = "retract"
REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Allowed:
    """How many microseconds after the watermark rows may still come, and how a changed result is emitted."""

    lateness: int
    corrections: str

    @classmethod
    def of(cls, lateness: Length, corrections: str) -> Allowed:
        """Check what was given."""
        check_unit(lateness, "lateness")
        waited = length_us(lateness, "lateness", _bad)
        if corrections not in (RETRACT, REPLACE):
            raise _bad(f"corrections={RETRACT!r} or {REPLACE!r}", repr(corrections)[:60])
        return cls(waited, corrections)

    def horizon(self, before: int | None, watermark: int) -> int:
        """Return when results are final; it never goes back, or slices would be missed that are gone."""
        allowed = watermark - self.lateness
        return allowed if before is None else max(before, allowed)

    def settle(self, old: Closed, new: Closed, corrected: Bools | None = None) -> Closed:
        """Settle a close: `new` results, less those that say what the `old` one said, and what is taken back."""
        was, now = matches(old, new)
        if corrected is None:
            corrected = np.zeros(len(new), np.bool_)
            corrected[now] = True
        same = np.ones(len(was), np.bool_)
        for name, values in new.values.items():
            same &= _alike(old.values[name][was], values[now])
        stays, goes = np.ones(len(new), np.bool_), np.ones(len(old), np.bool_)
        stays[now[same]], goes[was[same]] = False, False
        retracted = old.where(goes).sorted() if self.corrections == RETRACT else None
        return replace(new.where(stays), corrected=corrected[stays], retracted=retracted)


class OverColumns:
    """Windows of many keys on columns, all of whose state is arrays with an entry for each slice or session."""

    def __init__(self, aggregates: Mapping[str, Aggregate], lateness: Length, corrections: str) -> None:
        self._allowed = Allowed.of(lateness, corrections)
        self._forms = forms_of(aggregates)
        self._intake = Intake(self._forms)
        self._watermark: int | None = None
        self._horizon: int | None = None  # The watermark less the lateness.
        self._replaced: list[Closed] = []  # What was emitted of windows that have changed since the last close.
        self._states: dict[str, State] | None = None  # None until the types of columns are known.
        self._keys: Ints = np.zeros(0, np.int64)

    @property
    def live(self) -> int:
        """How many slices or sessions are kept, over all keys: the open ones, and those that rows may still change."""
        return len(self._keys)

    def _check_forward(self, watermark: int) -> None:
        if self._watermark is not None and watermark < self._watermark:
            raise backwards("watermark", self._watermark, watermark)

    def _exported(self, own: Mapping[str, Array]) -> dict[str, Any]:
        """Return a state with arrays of its own; with a lateness also what is to be corrected."""
        state = self._intake.exported(self._watermark, {"keys": self._keys, **own}, self._states)
        if self._allowed.lateness:
            state |= {"horizon": self._horizon, "replaced": exported(self._replaced, self._forms)}
        return state

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._keys, self._watermark, self._horizon = state["arrays"]["keys"], state["watermark"], None
        if self._watermark is not None:
            self._horizon = self._allowed.horizon(state.get("horizon", self._watermark), self._watermark)
        self._states = self._intake.restored(self._forms, state)
        self._replaced = restored(state["replaced"], self._forms) if "replaced" in state else []


def matches(old: Closed, new: Closed) -> tuple[Ints, Ints]:
    """Find where the two speak of one window: its places in both. No window is in either of them twice."""
    keys, begins, ends = (
        np.concatenate((getattr(old, part), getattr(new, part))) for part in ("keys", "begins", "ends")
    )
    order = np.lexsort((np.arange(len(keys)), ends, begins, keys))
    same = np.ones(max(len(order) - 1, 0), np.bool_)
    for column in (keys, begins, ends):
        same &= column[order[1:]] == column[order[:-1]]
    first = np.flatnonzero(same)
    return order[first], order[first + 1] - len(old)


def joined(parts: Iterable[Closed], names: Iterable[str]) -> Closed:
    """Return results put behind one another. Parts without windows are left out: they do not know their types."""
    some = [part for part in parts if len(part)]
    none = np.zeros(0, np.int64)
    keys, begins, ends, rows = (
        np.concatenate([getattr(part, column) for part in some]) if some else none
        for column in ("keys", "begins", "ends", "rows")
    )
    values = {name: np.concatenate([part.values[name] for part in some]) if some else np.zeros(0) for name in names}
    return Closed(keys, begins, ends, rows, values)


def exported(old: Sequence[Closed], names: Iterable[str]) -> dict[str, Array]:
    """Return results as plain arrays by name."""
    whole = joined(old, names)
    values = {f"values.{name}": column for name, column in whole.values.items()}
    return {"keys": whole.keys, "begins": whole.begins, "ends": whole.ends, "rows": whole.rows, **values}


def restored(arrays: Mapping[str, Any], names: Iterable[str]) -> list[Closed]:
    """Return results from arrays that were exported."""
    values = {name: arrays[f"values.{name}"] for name in names}
    return [Closed(arrays["keys"], arrays["begins"], arrays["ends"], arrays["rows"], values)]


def _alike(one: Array, other: Array) -> Bools:
    """Equal, or both NaN."""
    return np.asarray((one == other) | ((one != one) & (other != other)), np.bool_)  # noqa: PLR0124 - NaN


def _bad(expected: str, found: str) -> WindowError:
    return WindowError(
        "MP650",
        "results can't be corrected in this way",
        expected=expected,
        found=found,
        hint="see docs/WINDOWS.md, Rows that come late",
    )
