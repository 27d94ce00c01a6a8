"""The state of one element at a point, a key group at a time: what a point read stands on.

A key lies in one key group, and a manifest says which files speak of a group. So a point read fetches the files of one
group, from the newest back, and stops at the first that knows the key. A file is compared with its SHA-256 as a whole
when it is first met; after that its groups are read one by one, from memory or from a temporary file.
"""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_left
from collections import OrderedDict

from millpond.checkpoint.read.history import Point
from millpond.checkpoint.read.pieces import Pieces, apply
from millpond.checkpoint.records.manifest import StateFile
from millpond.checkpoint.records.times import is_over
from millpond.state.changes import Changes
from millpond.state.local.storekey import group_of
from millpond.storage.contract import Storage

HELD_BYTES = 32 << 20
"""About how much of the groups that were read last stays decoded."""


class KeyGroups:
    """Reads entries of one element at one point; may be asked by several threads."""

    def __init__(self, storage: Storage, point: Point, index: int, held_bytes: int = HELD_BYTES) -> None:
        self._point = point
        self._index = index
        self._pieces = Pieces(storage, self._count)
        self._held: OrderedDict[tuple[str, int], tuple[Changes, int]] = OrderedDict()
        self._room = held_bytes
        self._used = 0
        self._lock = threading.RLock()
        self.read_bytes = 0
        # Whoever forgets to close a reader must not leave a temporary file open.
        self._end = weakref.finalize(self, self._pieces.close)

    def _count(self, size_bytes: int) -> None:
        self.read_bytes += size_bytes

    def close(self) -> None:
        """Give back what is held; nothing can be read after that."""
        self._end()

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a store key; None if there is none, or if its time is over."""
        group = group_of(key)
        for state_file in reversed(self._files(group)):
            keys, values = self._changes(state_file, group)
            at = bisect_left(keys, key)
            if at < len(keys) and keys[at] == key:
                value = values[at]
                return None if value is None or is_over(key, value, self._point.over_us) else value
        return None

    def entries(self, group: int) -> list[tuple[bytes, bytes]]:
        """Return the entries of a key group by store key, ascending."""
        state: dict[bytes, bytes] = {}
        for state_file in self._files(group):
            apply(state, self._changes(state_file, group))
        over = self._point.over_us
        return [pair for pair in sorted(state.items()) if not is_over(*pair, over)] if over else sorted(state.items())

    def _files(self, group: int) -> tuple[StateFile, ...]:
        return self._point.files(range(group, group + 1))

    def _changes(self, state_file: StateFile, group: int) -> Changes:
        held = state_file.file.name, group
        with self._lock:
            if held in self._held:
                self._held.move_to_end(held)
                return self._held[held][0]
            self._pieces.load((state_file,), {self._index})
            changes = self._pieces.changes(state_file, (self._index, group))
            size = changes.size_bytes
            self._held[held] = changes, size
            self._used += size
            while self._used > self._room and len(self._held) > 1:
                _, (_, gone) = self._held.popitem(last=False)
                self._used -= gone
            return changes
