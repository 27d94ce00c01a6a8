"""What `windows(df, ...).tumbling(...)` gives: windows of a DataFrame that a loop iterates over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from millpond.compiler.front.methods import check_methods
from millpond.engine.options import Durability, Tuning
from millpond.loops.kinds import LoopKind
from millpond.loops.loop import Loop, LoopShape
from millpond.loops.synchrony import Synchrony, strict
from millpond.loops.termination import Condition
from millpond.sinks.protocol import Sink
from millpond.spark.frames.looprows import LoopRows, loop_frame, loop_job, result_schema, spread_job
from millpond.spark.frames.windowstreams import Arrival, Start
from millpond.spark.job import Job
from millpond.windowing.kinds.kinds import Window


class LoopFrame:
    """Windows of a DataFrame: `iterate` runs a loop over each window of a batch, `iterate_job` of a stream."""

    def __init__(
        self, rows: LoopRows, window: Window, partitions: int | None, arrival: Callable[[bool], Arrival | None]
    ) -> None:
        self._rows, self._window, self._partitions, self._arrival = rows, window, partitions, arrival

    def iterate(self, loop: type[Loop], *, until: Condition, synchrony: Synchrony = strict) -> DataFrame:
        """Iterate a loop over the keys of each window, and return its results as a DataFrame.

        Columns: `window_begin`, `window_end`, the key, and the fields of what `finalize` returns, or `value`.
        """
        self._arrival(False)
        kind = self._kind(loop, until, synchrony)
        return loop_frame(self._rows, kind, self._window, self._schema(kind), self._partitions)

    def iterate_job(
        self,
        loop: type[Loop],
        *,
        until: Condition,
        to: Sink,
        checkpoint: str | Path,
        synchrony: Synchrony = strict,
        rounds_per_epoch: int | None = None,
        spread: bool = False,
        local_root: str | Path | None = None,
        progress: bool | None = None,
        durability: Durability | None = None,
        tuning: Tuning | None = None,
    ) -> Job:
        """Make a job that sends the rows which `iterate` gives to a sink, exactly once, when their windows are over.

        With `rounds_per_epoch`, an epoch runs at most so many rounds of a window, and the next ones go on with it.
        A window iterates in one task, unless `spread` says that its keys lie in all partitions and exchange messages.
        `checkpoint` and all behind `spread` are those of `Program.on`.
        """
        arrival = self._arrival(True)
        assert arrival is not None
        kind = self._kind(loop, until, synchrony)
        schema = self._schema(kind, corrects=arrival.time.lateness_us > 0)
        start = Start(checkpoint, self._partitions, local_root, progress, durability, tuning)
        make = spread_job if spread else loop_job
        return make(self._rows, arrival, kind, self._window, schema, to, start, rounds_per_epoch)

    def _kind(self, loop: type[Loop], until: Condition, synchrony: Synchrony) -> LoopKind:
        rows = self._rows
        LoopShape.of(loop)
        check_methods(loop, Loop)
        return LoopKind(loop, until, synchrony, key=rows.key_type, columns=rows.column_types)

    def _schema(self, kind: LoopKind, *, corrects: bool = False) -> Any:
        keys = [field.name for field, _ in self._rows.keys]
        return result_schema(kind, keys, kind.result_names, corrects=corrects)
