"""A witness beside a storage in files: how far that storage was durable when it last acknowledged something.

A log that was cut looks like a log that was never longer. So whoever acknowledges a commit first writes down, in a file
of its own, up to which place the storage is durable; a storage that ends before its witness has lost something, and
says so instead of going on from an older epoch.

In order: the record is synced, then the witness, then the put returns. So the witness never tells of more than was
synced: a death between the two leaves a storage that is longer than its witness says, which is fine, and never one that
is shorter. The witness has two slots, and the older one is written over: a write that was torn leaves the other.

Layout of a slot, big-endian: magic `MPWT`, version (2 bytes), zero (2), how often it was written (8), the place (8, 8),
CRC-32 of all this (4). The second slot begins at byte 4,096.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from millpond.crashpoints import crashpoint
from millpond.errors import StorageError
from millpond.storage.door import Door, Durable, coded

WITNESS = "witness"
"""The name of the file."""

_MAGIC, _VERSION = b"MPWT", 1
_SLOT = struct.Struct(">4sHHQQQ")
_SLOT_STARTS = (0, 4096)

Place = tuple[int, int]
"""The number of a file and a place in it, or whatever else only grows."""

NOWHERE: Place = (0, 0)

MISSED = ("deltas/", "heads/", "inputs/", "outputs/_staged/", "pending/", "saves/", "snapshots/")
"""How names begin that others would miss: a manifest tells them, or is told by them."""


def needs_witness(name: str) -> bool:
    """Say whether nobody else would miss what is put under a name."""
    return not name.startswith(MISSED)


class Witness:
    """The witness in one folder. Writing asks for a turn to be held, in which nobody else writes."""

    def __init__(self, folder: Path, door: Door, durable: Durable) -> None:
        self._folder = folder
        self._path = folder / WITNESS
        self._door = door
        self._durable = durable

    def exists(self) -> bool:
        """Say whether there is a file, whole or not."""
        with coded("look up", WITNESS):
            return self._door.entry(self._path) is not None

    def read(self) -> Place | None:
        """Return the place up to which the storage was durable.

        None if there is no witness, or none that can be believed.
        """
        slots = [slot for slot in self._slots() if slot is not None]
        return max(slots)[1] if slots else None

    def begin(self) -> None:
        """Make the witness of a new storage, unless there is one."""
        if self.read() is None:
            self._write(NOWHERE, 1, 0)

    def raise_to(self, place: Place) -> None:
        """Say, durable on return, that the storage is durable up to a place; a witness never goes back by this."""
        slots = self._slots()
        known = [slot for slot in slots if slot is not None]
        if known and max(known)[1] >= place:
            return
        self._replace(slots, place)

    def reset(self, place: Place) -> None:
        """Say that the storage ends at a place, also if that is less than before: only on the user's word."""
        self._replace(self._slots(), place)
        self._replace(self._slots(), place)

    def _replace(self, slots: list[tuple[int, Place] | None], place: Place) -> None:
        known = [(-1, NOWHERE) if slot is None else slot for slot in slots]
        times = max(known)[0]
        self._write(place, max(times, 0) + 1, known.index(min(known)))

    def _slots(self) -> list[tuple[int, Place] | None]:
        try:
            with coded("read", WITNESS, FileNotFoundError):
                data = self._door.read(self._path)
        except FileNotFoundError:
            return [None] * len(_SLOT_STARTS)
        return [_decoded(data[start : start + _SLOT.size + 4]) for start in _SLOT_STARTS]

    def _write(self, place: Place, times: int, slot: int) -> None:
        body = _SLOT.pack(_MAGIC, _VERSION, 0, times, *place)
        rest = memoryview(body + zlib.crc32(body).to_bytes(4, "big"))
        offset = _SLOT_STARTS[slot]
        is_new = not self.exists()
        with coded("write", WITNESS):
            descriptor = self._door.create(self._path) if is_new else self._door.open(self._path)
        try:
            with coded("write", WITNESS):
                while rest:
                    taken = self._door.write_at(descriptor, rest, offset)
                    rest, offset = rest[taken:], offset + taken
            crashpoint("witness.written")
            with self._durable.syncing(WITNESS):
                self._door.sync_data(descriptor)
        finally:
            with coded("close", WITNESS):
                self._door.close(descriptor)
        if is_new:
            with self._durable.syncing(WITNESS):
                self._door.sync_folder(self._folder)


def _decoded(data: bytes) -> tuple[int, Place] | None:
    if len(data) < _SLOT.size + 4 or zlib.crc32(data[:-4]).to_bytes(4, "big") != data[-4:]:
        return None
    magic, version, _, times, first, second = _SLOT.unpack(data[:-4])
    return (times, (first, second)) if (magic, version) == (_MAGIC, _VERSION) else None


def rolled_back(shown: str, expected: str, found: str) -> StorageError:
    """Return the error for a storage that ends before what it acknowledged."""
    return StorageError(
        "MP361",
        "the checkpoint's storage has lost what was committed last",
        expected=f"{shown} up to {expected}, as its witness says",
        found=found,
        hint="restore the checkpoint from a copy that has all of it; if an older epoch is what you want, "
        "`millpond state repair CHECKPOINT --accept-rollback` goes on from what is there",
    )


def unwitnessed(shown: str) -> StorageError:
    """Return the error for a storage whose witness is gone, so that nobody can tell whether it is whole."""
    return StorageError(
        "MP362",
        "can't tell whether the checkpoint's storage has what was committed last",
        expected=f"a file `{WITNESS}` beside {shown}",
        found="none, or one that is damaged",
        hint="restore it from a copy of the checkpoint; `millpond state repair CHECKPOINT --accept-rollback` tells the "
        "newest epoch that is there, and goes on from it",
    )
