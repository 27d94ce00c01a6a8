"""Files named by a hash of their content, so that a task that runs twice writes the same thing twice.

A mark goes into the name, too: that of the epoch that the file is written for, and of the driver that runs it. So a
name never comes back: what a later epoch writes, or another driver, has another name, also if the bytes are the same,
and whoever deletes a name that nobody needs may be as slow as it likes.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from millpond.errors import DamagedError, StorageError
from millpond.storage.contract import PutOutcome, Storage, check_name

NAME_DIGITS = 40
"""160 bits of the hash: enough that two contents never share a name, short enough to read."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


class FileRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file as a manifest names it: enough to know that the bytes are the right ones."""

    name: str
    size_bytes: int
    sha256: str

    def __post_init__(self) -> None:
        # Whoever reads, moves or deletes a file by its reference must not be led elsewhere by it.
        check_name(self.name)
        if self.size_bytes < 0 or _SHA256.fullmatch(self.sha256) is None:
            raise StorageError(
                "MP314",
                "a reference to a file is not valid",
                expected="a length, and a SHA-256 in hex",
                found=ascii((self.name, self.size_bytes, self.sha256))[:160],
                hint="restore the checkpoint from a copy",
            )


def put_content(storage: Storage, prefix: str, data: bytes, mark: str) -> FileRef:
    """Store bytes under a name that follows from them and a mark; it is a success if they are there already."""
    digest = hashlib.sha256(data).hexdigest()
    named = hashlib.sha256(f"{mark}/{digest}".encode()).hexdigest()
    ref = FileRef(f"{prefix}/{named[:NAME_DIGITS]}", len(data), digest)
    if storage.put(ref.name, data) is PutOutcome.PRESENT:
        # An earlier try wrote it. Reading it once is cheap and keeps damage out of the next manifest.
        get_content(storage, ref)
    return ref


def get_content(storage: Storage, ref: FileRef) -> bytes:
    """Return the bytes that a reference stands for, or raise a `StorageError` that names the file."""
    data = storage.get(ref.name)
    digest = hashlib.sha256(data).hexdigest()
    if len(data) == ref.size_bytes and digest == ref.sha256:
        return data
    raise DamagedError(
        "MP310",
        f"{ref.name} is not the file that was written",
        expected=f"{ref.size_bytes} bytes with SHA-256 {ref.sha256}",
        found=f"{len(data)} bytes with SHA-256 {digest}",
        hint="restore this file from a copy of the checkpoint",
    )
