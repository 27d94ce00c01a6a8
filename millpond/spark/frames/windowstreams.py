"""Windows over streaming DataFrames: a program with one entry point and one handler of windows, as a job.

The program is an ordinary one. Its class is made here, since the types of keys, rows and results follow from the
DataFrame. So all that holds for `@on_window` holds for it: what is kept, when windows are told, and what may change at
a restart.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from millpond.errors import WindowError
from millpond.lengths import Length
from millpond.program.entries import HANDLER, entry
from millpond.program.program import ProgramBase
from millpond.program.windows import on_window
from millpond.sinks.protocol import Sink
from millpond.spark.frames.streamed import KEYS, VALUES, Arrival, Fields, Hints, as_key, as_row, hints_of, key_hint
from millpond.spark.frames.windowplan import WindowPlan, has_time_bounds
from millpond.spark.job import Job
from millpond.windowing.element import ClosedWindow

KEY, ROW, TIME = "window_key", "window_row", "window_time"
"""The columns that the program is fed, beside those of the DataFrame."""

_TUPLE: Any = tuple
_LIST: Any = list


@dataclass(frozen=True, slots=True)
class StreamedFrame:
    """A streaming DataFrame with the keys, time and columns that its windows are computed of."""

    frame: DataFrame
    keys: Fields
    time: Column
    columns: Fields
    arrival: Arrival

    def job(self, plan: WindowPlan, to: Sink, options: Mapping[str, Any]) -> Job:
        """A job that computes the windows of a plan, and sends them to a sink."""
        key, row = hints_of(self.keys, "key", KEYS), hints_of(self.columns, "column of windows", VALUES)
        program = _program(plan, key, row, self.arrival.time.lateness)
        fed = self.frame.withColumns({KEY: as_key(self.keys, key), ROW: as_row(self.columns, row), TIME: self.time})
        job = Job(program, self.frame.sparkSession, **options)
        self.arrival.feed(job, "add", fed, TIME)
        return job.on_window("told", to=to, rows=plan.schema)


def _program(plan: WindowPlan, key: Hints, row: Hints, lateness: Length) -> type[ProgramBase]:
    """The program of a plan: rows are added as they come, and a row is told of each window that is over."""
    names = tuple(name for name, _ in plan.columns)
    over_time = {name: has_time_bounds(window) for name, window in plan.queries.items()}
    single, corrects, kinds = plan.single, plan.corrects, set(over_time.values())
    windows = next(iter(plan.queries.values())) if single else plan.queries

    def told_of(one: ClosedWindow) -> tuple[Any, ...]:
        timed = kinds == {True} or (len(kinds) == 2 and over_time[one.name])
        bounds: list[Any] = []
        for shape in (True, False):
            if shape in kinds:
                bounds += (one.begin, one.end) if timed is shape else (None, None)
        named = () if single else (one.name,)
        return (*named, *bounds, *one.values.values(), *((one.change,) if corrects else ()))

    class Windowed(ProgramBase):
        @entry
        def add(self, window_key: Any, window_row: Any) -> None:
            # The compiler knows this form, so that rows are added by columns.
            self.told.add(window_key, **dict(zip(names, window_row, strict=False)))

        @on_window(windows, lateness=lateness, **plan.aggregates)
        def told(self, window_key: Any, closed: list[ClosedWindow]) -> Any:  # noqa: ARG002 - replies go with it
            return [told_of(one) for one in closed]

    own = key_hint(key)
    hints = dict(zip(plan.aggregates, (kind.hint for kind in plan.results), strict=True))
    parts = [field for field in plan.schema if field.name not in dict(plan.keys)]
    told: Any = _LIST[_TUPLE[tuple((hints.get(field.name) or _python(field.type)) | None for field in parts)]]
    Windowed.add.__annotations__.update({KEY: own, ROW: _TUPLE[tuple(hint for _, hint in row) or (bool,)]})
    getattr(vars(Windowed)["told"], HANDLER).__annotations__.update({KEY: own, "return": told})
    return Windowed


def _python(kind: pa.DataType) -> Any:
    """What a column of results is in Python."""
    tests: tuple[tuple[Any, Any], ...] = (
        (pa.types.is_integer, int),
        (pa.types.is_floating, float),
        (pa.types.is_boolean, bool),
        (pa.types.is_string, str),
        (pa.types.is_binary, bytes),
        (pa.types.is_timestamp, datetime.datetime),
    )
    found = next((hint for test, hint in tests if test(kind)), None)
    if found is None:
        raise WindowError(
            "MP643",
            "a column of results can't be emitted by a stream",
            expected="numbers, text, bytes, booleans or timestamps",
            found=str(kind),
            hint="declare the type of the aggregate: types={...}, or let it give something else",
        )
    return found
