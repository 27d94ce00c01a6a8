"""Changes of elements with bounded loss, set apart from those that a commit keeps.

They stay near the host, with how many rows met each key, so that what is due can be found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from millpond.checkpoint.records.deltas import delta_parts, write_changes
from millpond.checkpoint.records.work import UnsyncedChanges, UnsyncedFile, pack_events
from millpond.crashpoints import crashpoint
from millpond.state.changes import Changes
from millpond.state.local.storekey import elements_in
from millpond.state.units import Ints
from millpond.storage.composed.unsynced import unsynced_of
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
        """Say how many rows met each key, all of them where that is not known: never less than it were."""
        return [self._counts.get(key, rows) or 1 for key in keys]


def set_apart(changed: Changes, bounded: Iterable[int]) -> tuple[Changes, Changes]:
    """Divide sorted changes into those that a commit keeps and those of elements with bounded loss, by index."""
    chosen = frozenset(bounded)
    kept, apart = Changes([], []), Changes([], [])
    for element, start, end in elements_in(changed.keys):
        into = apart if element in chosen else kept
        into.keys.extend(changed.keys[start:end])
        into.values.extend(changed.values[start:end])
    return kept, apart


def unsynced_changes(
    storage: Storage, changed: Changes, events: list[int], mark: str, *, inline: bool
) -> UnsyncedChanges:
    """Changes of elements with bounded loss on their way: inline if they are few, else in files near the host."""
    if inline:
        return UnsyncedChanges(changed, events)
    met = dict(zip(changed.keys, events, strict=True))
    files = []
    for part in delta_parts(changed):
        written = write_changes(unsynced_of(storage), FrameKind.DELTA, part, mark)
        files.append(UnsyncedFile(written, pack_events(met[key] for key in part.keys)))
        crashpoint("delta.written")
    return UnsyncedChanges(files=tuple(files))


def joined_unsynced(told: Sequence[UnsyncedChanges]) -> UnsyncedChanges:
    """Return what several tasks changed with bounded loss, in no order."""
    return UnsyncedChanges(
        Changes([key for one in told for key in one.inline.keys], [v for one in told for v in one.inline.values]),
        [count for one in told for count in one.events],
        tuple(file for one in told for file in one.files),
    )
