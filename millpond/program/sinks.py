"""Sinks as descriptions: where replies and dead letters go. How files get there is the runtime's business."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millpond.errors import FeedError


@dataclass(frozen=True, slots=True)
class ParquetSink:
    """A directory of Parquet files; exactly once, and readers never see an uncommitted epoch."""

    path: str


@dataclass(frozen=True, slots=True)
class MemorySink:
    """Rows in this process, for tests and notebooks; at least once after a crash of the process."""

    _epochs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    def rows(self) -> list[dict[str, Any]]:
        """All rows so far, in the order of the epochs."""
        return [row for epoch in sorted(self._epochs) for row in self._epochs[epoch]]

    def put(self, epoch: int, rows: list[dict[str, Any]]) -> None:
        """Take the rows of an epoch; a second time replaces the first."""
        self._epochs[epoch] = rows


@dataclass(frozen=True, slots=True)
class ConsoleSink:
    """Prints the first rows of each epoch; at least once."""

    limit: int


@dataclass(frozen=True, slots=True)
class EpochSink:
    """Calls a function with each epoch's rows and its number; at least once, so make it idempotent by epoch."""

    function: Callable[[Any, int], None]


Sink = ParquetSink | MemorySink | ConsoleSink | EpochSink
"""Where replies may go."""


def parquet(path: str | Path) -> ParquetSink:
    """Write replies to a directory of Parquet files, exactly once; readers never see an uncommitted epoch."""
    text = str(path).removeprefix("file://").removeprefix("file:")
    if "://" in text or not text:
        raise FeedError(
            "MP502",
            "this place can't hold a Parquet sink yet",
            expected="a directory of a POSIX file system",
            # Not the address itself: it may hold a password.
            found="an address with a scheme" if text else "nothing",
        )
    return ParquetSink(str(Path(text).absolute()))


def memory() -> MemorySink:
    """Keep replies in this process: `sink.rows()` gives them as dicts. For tests and notebooks."""
    return MemorySink()


def console(limit: int = 20) -> ConsoleSink:
    """Print the first `limit` replies of each epoch; an epoch may be printed again after a crash."""
    return ConsoleSink(limit)


def foreach_epoch(function: Callable[[Any, int], None]) -> EpochSink:
    """Call `function(df, epoch)` with each epoch's replies as a DataFrame.

    An epoch is handed over at least once: after a crash the last one may come again, so make what it does idempotent
    by the epoch number.
    """
    return EpochSink(function)
