"""Changes of elements with bounded loss, set apart from those that a commit keeps.

They stay near the host, with how many rows met each key, so that what is due can be found.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import numpy as np

from millpond.checkpoint.records.deltas import Changes, delta_parts, write_changes
from millpond.checkpoint.records.work import NearFile, UnsyncedChanges, pack_events
from millpond.crashpoints import crashpoint
from millpond.state.local.storekey import element_of
from millpond.state.units import Ints
from millpond.storage.contract import Storage
from millpond.storage.frame import FrameKind


class Met:
    """How many rows of a step met each key, where that is known."""

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}

    def count(self, keys: Sequence[bytes], ranks: Ints) -> None:
        """Count rows by the rank of the key that each met."""
        fresh = zip(keys, np.bincount(ranks, minlength=len(keys)).tolist(), strict=True)
        if self._counts:
            self._counts.update([(key, count + self._counts.get(key, 0)) for key, count in fresh])
        else:
            self._counts = dict(fresh)

    def of(self, keys: Iterable[bytes], rows: int) -> list[int]:
        """How many rows met each key, all of them where that is not known: never less than it were."""
        return [self._counts.get(key, rows) or 1 for key in keys]


def set_apart(changed: Changes, bounded: Iterable[int]) -> tuple[Changes, Changes]:
    """Divide sorted changes into those that a commit keeps and those of elements with bounded loss, by index."""
    keys, values = changed
    kept: Changes = ([], [])
    apart: Changes = ([], [])
    chosen = frozenset(bounded)
    start = 0
    while start < len(keys):
        index = element_of(keys[start])
        end = bisect_left(keys, bytes((index + 1,)), start) if index < 0xFF else len(keys)
        into = apart if index in chosen else kept
        into[0].extend(keys[start:end])
        into[1].extend(values[start:end])
        start = end
    return kept, apart


def near_changes(storage: Storage, changed: Changes, events: list[int], *, inline: bool) -> UnsyncedChanges:
    """Changes of elements with bounded loss on their way: inline if they are few, else in files near the host."""
    keys, values = changed
    if inline:
        return UnsyncedChanges(keys, values, events)
    met = dict(zip(keys, events, strict=True))
    files = []
    for part in delta_parts(keys, values):
        written = write_changes(storage, FrameKind.DELTA, *part)
        files.append(NearFile(written, pack_events(met[key] for key in part[0])))
        crashpoint("delta.written")
    return UnsyncedChanges(files=tuple(files))
