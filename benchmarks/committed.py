"""What a checkpoint has committed: how many epochs, and their state.

State is looked through piece by piece, so that a large one fits into memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from benchmarks.report import BenchmarkError
from millpond.checkpoint.records.deltas import within
from millpond.checkpoint.recovery import last_manifest, read_changes, read_genesis, restore_files
from millpond.storage.open import open_storage

PIECE_BYTES = 512 * 1024 * 1024
"""About so much of the files is held at a time; each piece of the key groups reads all deltas."""


def committed_entries(checkpoint: Path) -> Iterator[tuple[bytes, bytes]]:
    """Store keys and values of the last committed epoch."""
    storage = open_storage(str(checkpoint))
    genesis = read_genesis(storage)
    head = None if genesis is None else last_manifest(storage, genesis[1])
    if genesis is None or head is None:
        raise BenchmarkError("there is no checkpoint")
    groups = genesis[0].key_groups
    size_bytes = sum(file.file.size_bytes for file in restore_files(head[0], 0, groups - 1))
    step = max(1, groups // (1 + size_bytes // PIECE_BYTES))
    for first in range(0, groups, step):
        last = min(first + step, groups) - 1
        state: dict[bytes, bytes | None] = {}
        for file in restore_files(head[0], first, last):
            state.update(within(read_changes(storage, file), first, last).pairs())
        yield from ((key, value) for key, value in state.items() if value is not None)


def commits_in(checkpoint: Path) -> int:
    """How many epochs a checkpoint in a folder has, also while a job works on it."""
    with suppress(FileNotFoundError):
        return max((int(path.name) for path in (checkpoint / "manifests").iterdir()), default=0)
    return 0
