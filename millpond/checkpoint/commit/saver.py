"""Saving state with bounded loss behind the epochs: which keys are dirty, which are due, and their way into a file.

An epoch leaves what it changed of such state near the host. A `Saver` is told of every committed epoch, keeps a book
of the keys that are not durable yet, and writes those that are due. It knows the time as it is told it: that of the
epochs, or a later one if none comes. It holds no thread and no lock: who calls it sees to that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from millpond.checkpoint.records.deltas import FILE_BYTES
from millpond.checkpoint.records.manifest import Manifest, SaveRef, StateFile
from millpond.checkpoint.records.saves import Save, put_save
from millpond.checkpoint.records.work import UnsyncedFile, unpack_events
from millpond.checkpoint.recovery import read_changes
from millpond.crashpoints import crashpoint
from millpond.ids import EpochId, ManifestHash
from millpond.program.durability import BoundedLoss
from millpond.state.changes import Changes
from millpond.state.local.storekey import element_of
from millpond.storage.contract import Storage

PREFIX: Final = "lazy."
"""How the counters of an epoch begin that tell of elements with bounded loss."""


class Dirty(NamedTuple):
    """A key that is not durable as it is: how many rows met it since it was, when the first did, and its last file."""

    events: int
    first_us: int
    epoch: EpochId
    file: StateFile


@dataclass(frozen=True, slots=True)
class Saved:
    """What a saver did since it was last asked."""

    keys: int = 0
    size_bytes: int = 0
    skipped: int = 0
    refs: tuple[SaveRef, ...] = ()

    def and_then(self, later: Saved) -> Saved:
        """Both together."""
        refs = (*self.refs, *later.refs)
        return Saved(self.keys + later.keys, self.size_bytes + later.size_bytes, self.skipped + later.skipped, refs)

    def without(self, earlier: Saved) -> Saved:
        """Return what was done since an earlier time."""
        refs = self.refs[len(earlier.refs) :]
        return Saved(
            self.keys - earlier.keys, self.size_bytes - earlier.size_bytes, self.skipped - earlier.skipped, refs
        )


class Saver:
    """The dirty keys of a run's elements with bounded loss; settings by an element's index in store keys."""

    def __init__(self, unsynced: Storage, kept: Storage, settings: Mapping[int, BoundedLoss]) -> None:
        self._unsynced = unsynced
        self._kept = kept
        self._settings = dict(settings)
        self._within_us = {index: one.within_us for index, one in settings.items()}
        # By the first update that is not saved, so that the oldest come first.
        self._book: dict[bytes, Dirty] = {}
        self._updates = 0
        self._due: dict[bytes, None] = {}
        self._head: tuple[EpochId, ManifestHash] = (EpochId(0), ManifestHash(""))
        self._snapshot_epoch = 0
        self._done = Saved()
        self._now_us = 0

    @property
    def dirty_keys(self) -> int:
        """How many keys are not durable as they are."""
        return len(self._book)

    @property
    def dirty_updates(self) -> int:
        """How many rows met them since they were."""
        return self._updates

    def next_due_us(self) -> int | None:
        """Say when the next key is due if no row meets any; None if none is dirty."""
        firsts: dict[int, int] = {}
        for key, dirty in self._book.items():
            firsts.setdefault(element_of(key), dirty.first_us)
            if len(firsts) == len(self._settings):
                break
        return min((first + self._within_us[index] for index, first in firsts.items()), default=None)

    def note(self, manifest: Manifest, digest: ManifestHash, unsynced: tuple[UnsyncedFile, ...], now_us: int) -> None:
        """Take up a committed epoch."""
        self._head = (manifest.epoch, digest)
        self._now_us = max(self._now_us, now_us)
        if manifest.snapshot_epoch > self._snapshot_epoch:
            self._snapshot_epoch = manifest.snapshot_epoch
            self._book = {key: dirty for key, dirty in self._book.items() if dirty.epoch > self._snapshot_epoch}
            self._due = {key: None for key in self._due if key in self._book}
            self._updates = sum(dirty.events for dirty in self._book.values())
        for file in unsynced:
            self._meet(manifest.epoch, file)

    def _meet(self, epoch: EpochId, file: UnsyncedFile) -> None:
        keys = read_changes(self._unsynced, file.state).keys
        for key, events in zip(keys, unpack_events(file.events), strict=True):
            before = self._book.get(key)
            dirty = Dirty(events, self._now_us, epoch, file.state)
            if before is not None:
                dirty = Dirty(before.events + events, before.first_us, epoch, file.state)
            self._book[key] = dirty
            self._updates += events
            if dirty.events >= self._settings[element_of(key)].events:
                self._due[key] = None

    def save(self, now_us: int | None = None) -> None:
        """Write what is due, as much of it as the queue takes if the rest may be skipped."""
        self._now_us = max(self._now_us, now_us or 0)
        self._find_old()
        chosen = self._chosen()
        for part in self._parts(chosen):
            self._write(part)

    def save_all(self) -> None:
        """Write whatever is dirty: for the end of a run."""
        for part in self._parts(list(self._book)):
            self._write(part)

    def take(self) -> Saved:
        """Return what was done since it was last asked; the next manifest shall name it."""
        done, self._done = self._done, Saved()
        return done

    def _find_old(self) -> None:
        waiting = set(self._settings)
        for key, dirty in self._book.items():
            index = element_of(key)
            if index not in waiting:
                continue
            if dirty.first_us + self._within_us[index] <= self._now_us:
                self._due[key] = None
            else:
                waiting.discard(index)
                if not waiting:
                    return

    def _chosen(self) -> list[bytes]:
        """Return the keys that are written now, by the age of their first update; others stay due."""
        entries: dict[int, int] = defaultdict(int)
        size: dict[int, int] = defaultdict(int)
        chosen: list[bytes] = []
        skipped = 0
        for key in sorted(self._due, key=lambda key: (self._book[key].first_us, key)):
            index = element_of(key)
            settings = self._settings[index]
            file = self._book[key].file
            entries[index] += 1
            size[index] += file.file.size_bytes // max(1, file.entries)
            over = entries[index] > settings.queue or (size[index] > settings.queue_bytes and entries[index] > 1)
            if over and settings.overflow == "skip":
                skipped += 1
            else:
                chosen.append(key)
        self._done = self._done.and_then(Saved(skipped=skipped))
        return chosen

    def _parts(self, keys: list[bytes]) -> Iterator[list[bytes]]:
        """Yield the keys, a file's worth at a time."""
        part: list[bytes] = []
        size = 0
        for key in keys:
            file = self._book[key].file
            part.append(key)
            size += file.file.size_bytes // max(1, file.entries)
            if size >= FILE_BYTES:
                yield part
                part, size = [], 0
        if part:
            yield part

    def _write(self, keys: list[bytes]) -> None:
        by_file: dict[StateFile, set[bytes]] = defaultdict(set)
        for key in keys:
            by_file[self._book[key].file].add(key)
        values: dict[bytes, bytes | None] = {}
        for file, wanted in by_file.items():
            values.update(pair for pair in read_changes(self._unsynced, file).pairs() if pair[0] in wanted)
        ref = put_save(self._kept, Save(*self._head, *Changes.of(values)))
        crashpoint("save.written")
        for key in keys:
            self._updates -= self._book.pop(key).events
            self._due.pop(key, None)
        self._done = self._done.and_then(Saved(len(keys), ref.file.size_bytes, 0, (ref,)))
