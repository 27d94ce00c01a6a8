"""Values that contestants emitted for the events of keyed state, and how they are held against the loop's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.report import BenchmarkError

COLUMNS = ("key", "amount", "count", "total")


@dataclass(frozen=True, slots=True)
class Emitted:
    """One value per event, sorted by key and count, which together name an event."""

    key: NDArray[Any]
    amount: NDArray[Any]
    count: NDArray[Any]
    total: NDArray[Any]

    @classmethod
    def of(cls, key: NDArray[Any], amount: NDArray[Any], count: NDArray[Any], total: NDArray[Any]) -> Emitted:
        """Sort columns into place."""
        order = np.lexsort((count, key))
        return cls(key[order], amount[order], count[order], total[order])

    def below(self, keys: int) -> Emitted:
        """Only the events of keys below a number."""
        end = int(np.searchsorted(self.key, keys))
        return Emitted(self.key[:end], self.amount[:end], self.count[:end], self.total[:end])

    def final(self) -> NDArray[Any]:
        """The last total of each key."""
        ends = np.flatnonzero(np.diff(self.key, append=-1))
        return self.total[ends]


def by_loop(files: Sequence[Path], values: Sequence[tuple[int, float]]) -> Emitted:
    """Put what the loop emitted beside its events."""
    events = pa.concat_tables([pq.read_table(file) for file in files])
    count, total = zip(*values, strict=True)
    return Emitted.of(events["key"].to_numpy(), events["amount"].to_numpy(), np.array(count), np.array(total))


def by_millpond(replies: Path) -> Emitted:
    """Read Millpond's sink."""
    table = pq.read_table(replies)
    count, total = table["reply"].combine_chunks().flatten()
    return Emitted.of(table["key"].to_numpy(), table["amount"].to_numpy(), count.to_numpy(), total.to_numpy())


def by_peer(rows: Path) -> Emitted:
    """Read the output of `transformWithState`."""
    table = pq.read_table(rows)
    return Emitted.of(*(table[name].to_numpy() for name in COLUMNS))


def check_every(got: Emitted, want: Emitted, who: str) -> None:
    """Refuse a run unless every event got the value that the loop gave it."""
    for name in COLUMNS:
        if not np.array_equal(getattr(got, name), getattr(want, name)):
            raise BenchmarkError(f"{who} did not emit what the loop emitted: column `{name}` differs")


def check_final(got: Emitted, want: Emitted, who: str) -> None:
    """Refuse a run unless each key got one value per event, and its last value is the loop's.

    For `transformWithState`: Spark does not promise an order within a group, and the values on the way depend on it.
    """
    if not (np.array_equal(got.key, want.key) and np.array_equal(got.count, want.count)):
        raise BenchmarkError(f"{who} did not emit one value for each event")
    if not np.array_equal(got.final(), want.final()):
        raise BenchmarkError(f"{who} did not end with the loop's values")
