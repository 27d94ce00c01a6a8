"""Restoring a partition's state by ranges of key groups, each read from the files that a committed parent names.

A range is what is brought into the local store at once: about a chunk of the snapshot, so that its first key waits for
few files. Deltas after the snapshot may be for all key groups, and would be read again for every range. Small ones are
kept in memory meanwhile. Where the others would cost more than all files once more, ranges are joined.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from millpond.checkpoint.records.deltas import FILE_BYTES, within
from millpond.checkpoint.records.manifest import StateFile
from millpond.checkpoint.records.work import Parent
from millpond.checkpoint.recovery import read_changes, restore_files
from millpond.state.changes import Changes
from millpond.state.local.localstore import LocalStore
from millpond.state.local.storeversion import Ranges, Stamp, ranges_of
from millpond.storage.contract import Storage

KEPT_BYTES_MAX = FILE_BYTES
"""Files of deltas up to this size together stay in memory while a state is restored."""

READ_AGAIN_MAX = 2
"""How many times the size of all files may be read in all, to have ranges that are small."""


class Restoring:
    """The state of some key groups at a parent, to be brought into a store by parts.

    Parts are ranges of groups, among which there may be some that the store has nothing to do with.
    """

    def __init__(self, storage: Storage, parent: Parent, groups: Sequence[int]) -> None:
        self._storage = storage
        ours = ranges_of(groups)
        files = restore_files(parent, groups[0], groups[-1])
        self._files = tuple(state for state in files if any(state.overlaps(*each) for each in ours))
        self._whole = groups
        self._groups = range(groups[0], groups[-1] + 1)
        self._kept: dict[str, Changes] = {}
        self._keeps = kept_names(self._files)
        snapshot = [state for state in parent.snapshot if state in self._files]
        self._starts = range_starts(self._files, snapshot, self._groups, self._keeps)

    @property
    def size_bytes(self) -> int:
        """The bytes of all files that hold some of it."""
        return sum(state.file.size_bytes for state in self._files)

    @property
    def ranges(self) -> list[range]:
        """The ranges of key groups that are brought in at once, in order; together they hold all groups."""
        return [range(first, end) for first, end in pairwise([*self._starts, self._groups.stop])]

    def restore(self, store: LocalStore, stamp: Stamp, group: int) -> bool:
        """Bring the range of a key group into a store; False if the store no longer stands at the stamp."""
        found = self.ranges[bisect_right(self._starts, group) - 1]
        return store.take(stamp, found, self.read, self._whole)

    def read(self, ranges: Ranges) -> Iterator[Changes]:
        """Return the entries of some key groups, file by file in the order in which they apply."""
        for state in self._files:
            reached = [each for each in ranges if state.overlaps(*each)]
            if reached:
                changes = self._changes(state)
                for first, last in reached:
                    yield within(changes, first, last)

    def _changes(self, state: StateFile) -> Changes:
        name = state.file.name
        changes = self._kept.get(name)
        if changes is None:
            changes = read_changes(self._storage, state)
            if name in self._keeps:
                self._kept[name] = changes
        return changes


def kept_names(files: Sequence[StateFile]) -> frozenset[str]:
    """Return the files that are worth keeping in memory: the last ones, which are deltas if there are any."""
    kept: set[str] = set()
    room = KEPT_BYTES_MAX
    for state in reversed(files):
        room -= state.file.size_bytes
        if room < 0:
            break
        kept.add(state.file.name)
    return frozenset(kept)


def range_starts(
    files: Sequence[StateFile], snapshot: Sequence[StateFile], groups: range, kept: frozenset[str]
) -> list[int]:
    """Where ranges begin: where chunks of the snapshot do, or files of deltas if these are most of the state.

    They are joined while too much would be read again.
    """
    total = sum(state.file.size_bytes for state in files)
    most = 2 * sum(state.file.size_bytes for state in snapshot) >= total
    dividing = snapshot if snapshot and most else files
    starts = sorted({groups[0], *(state.first_group for state in dividing if state.first_group in groups)})
    starts = _wide_enough(starts, groups, total)
    while len(starts) > 1 and _read_in_all(files, starts, groups, kept) > READ_AGAIN_MAX * total:
        starts = starts[::2]
    return starts


def _wide_enough(starts: list[int], groups: range, total: int) -> list[int]:
    """Return the starts, without those whose range would hold much less than a file does."""
    count = max(1, round(total / FILE_BYTES))
    width = len(groups) / count
    chosen = [starts[0]]
    for start in starts[1:]:
        if start - chosen[-1] >= width / 2:
            chosen.append(start)
    return chosen


def _read_in_all(files: Sequence[StateFile], starts: list[int], groups: range, kept: frozenset[str]) -> int:
    """How many bytes are read to bring in all ranges."""
    bounds = [(first, end - 1) for first, end in pairwise([*starts, groups.stop])]
    times = {
        state.file.name: 1 if state.file.name in kept else sum(state.overlaps(*each) for each in bounds)
        for state in files
    }
    return sum(state.file.size_bytes * times[state.file.name] for state in files)
