"""Small records beside the manifests: savepoints, condemned names, numbers that were given away.

Each is a frame around JSON that says itself what it is, so that one that lies in another's place is never believed.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from millpond.errors import MillpondError, StorageError
from millpond.storage.frame import FrameKind, seal, unseal

NOTE_KIND = FrameKind.MERGED
"""Snapshots that wait to be named are notes too; `docs/FORMAT.md` says what each folder holds."""

Note = TypeVar("Note", bound=msgspec.Struct)


def encode_note(note: msgspec.Struct) -> bytes:
    """Return the bytes of a note's file; equal records give equal bytes."""
    return seal(NOTE_KIND, msgspec.json.encode(note, order="sorted"))


def decode_note(kind: type[Note], data: bytes, name: str) -> Note:
    """Read a note's file, or raise a `StorageError` that names it."""
    payload = unseal(NOTE_KIND, data, name)
    try:
        return msgspec.json.decode(payload, type=kind)
    except (msgspec.MsgspecError, MillpondError, ValueError, RecursionError) as error:
        raise StorageError(
            "MP312",
            f"{name} can't be understood",
            expected=f"a note of the kind `{kind.__name__.lower()}`",
            found=str(error)[:400],
            hint="run the version of Millpond that wrote the checkpoint, or a newer one",
        ) from error
