"""Files of state, each read once and cut by element and key group.

A key group is in every file that covers it, and a file covers many groups. So that neither the files are read again
for each group nor the whole state is held, the pieces wait in a temporary file; small states stay in memory.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from millpond.checkpoint.records.deltas import decode_changes, encode_changes
from millpond.checkpoint.records.manifest import StateFile
from millpond.checkpoint.recovery import read_changes
from millpond.errors import StorageError
from millpond.state.changes import Changes
from millpond.state.local.storekey import PREFIX_BYTES, element_of, group_of
from millpond.storage.contract import Storage

MEMORY_BYTES = 64 << 20
"""More than this goes to a temporary file."""

Told = Callable[[int], None]
"""Is told how many bytes of files were read, as they are."""

Cut = tuple[int, int]
"""An element's index and a key group."""


def tell_nobody(_size_bytes: int) -> None:
    """Progress that nobody watches."""


class Pieces:
    """The pieces of some files; memory is bounded by the largest file and the largest key group."""

    def __init__(self, storage: Storage, told: Told = tell_nobody, memory_bytes: int = MEMORY_BYTES) -> None:
        self._storage = storage
        self._told = told
        self._held = tempfile.SpooledTemporaryFile(max_size=memory_bytes)  # noqa: SIM115 - it lives as long as this
        self._places: dict[str, dict[Cut, tuple[int, int]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back the room that pieces take."""
        self._held.close()

    def load(
        self, files: Iterable[StateFile], elements: Collection[int] | None = None, groups: range | None = None
    ) -> None:
        """Read files that were not read before, checked; only what is of these elements and groups is kept."""
        for state_file in files:
            if state_file.file.name in self._places:
                continue
            places: dict[Cut, tuple[int, int]] = {}
            for cut, changes in cuts_of(read_changes(self._storage, state_file)):
                if (elements is None or cut[0] in elements) and (groups is None or cut[1] in groups):
                    places[cut] = self._keep(changes)
            # Only now: a file that could not be read is read again by whoever asks again.
            self._places[state_file.file.name] = places
            self._told(state_file.file.size_bytes)

    def _keep(self, changes: Changes) -> tuple[int, int]:
        data = encode_changes(changes)
        with _on_disk():
            at = self._held.seek(0, 2)
            self._held.write(data)
        return at, len(data)

    def cuts(self, files: Iterable[StateFile]) -> list[Cut]:
        """Return the elements and key groups that files speak of, in order."""
        return sorted({cut for state_file in files for cut in self._places[state_file.file.name]})

    def changes(self, state_file: StateFile, cut: Cut) -> Changes:
        """Return what a file says of an element and a key group."""
        place = self._places[state_file.file.name].get(cut)
        if place is None:
            return Changes([], [])
        with _on_disk():
            self._held.seek(place[0])
            data = self._held.read(place[1])
        return decode_changes(data, state_file.file.name)

    def state(self, files: Iterable[StateFile], cut: Cut) -> dict[bytes, bytes]:
        """Return the entries of an element and a key group by store key, after files were applied in order."""
        state: dict[bytes, bytes] = {}
        for state_file in files:
            apply(state, self.changes(state_file, cut))
        return state


def apply(state: dict[bytes, bytes], changes: Changes) -> None:
    """Bring a state up to date."""
    for key, value in changes.pairs():
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value


def cuts_of(changes: Changes) -> Iterator[tuple[Cut, Changes]]:
    """Cut sorted changes into those of each element and key group."""
    keys = changes.keys
    start = 0
    while start < len(keys):
        prefix = keys[start][:PREFIX_BYTES]
        after = int.from_bytes(prefix, "big") + 1
        end = bisect_left(keys, after.to_bytes(PREFIX_BYTES, "big"), start) if after < 1 << 24 else len(keys)
        yield (element_of(prefix), group_of(prefix)), changes.sliced(start, end)
        start = end


@contextmanager
def _on_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            "MP351",
            "state can't be kept in a temporary file while it is read",
            expected=f"room in {tempfile.gettempdir()}",
            found=str(error.strerror or error),
            hint="free some space there, or set TMPDIR to a larger disk; the checkpoint was not touched",
        ) from error
