"""Framed bytes: what a durable file holds around its payload, so that damage is seen before anything is believed.

Layout, big-endian: magic `MPND`, version (2 bytes), kind (1), zero (1), payload length (8), CRC-32 of these 16 bytes
(4), the payload, SHA-256 of the payload (32). The header has a sum of its own so that a damaged length is never used.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from enum import IntEnum

from millpond.errors import StorageError

MAGIC = b"MPND"
FRAME_VERSION = 1

_HEADER = struct.Struct(">4sHBBQ")
_HEADER_SUM = struct.Struct(">I")
HEADER_BYTES = _HEADER.size + _HEADER_SUM.size
DIGEST_BYTES = hashlib.sha256().digest_size
OVERHEAD_BYTES = HEADER_BYTES + DIGEST_BYTES


class FrameKind(IntEnum):
    """What a frame holds; the number is part of the format."""

    GENESIS = 1
    MANIFEST = 2
    DELTA = 3
    SNAPSHOT = 4
    PENDING = 5
    MERGED = 6


def seal(kind: FrameKind, payload: bytes) -> bytes:
    """Put a frame around a payload."""
    header = _HEADER.pack(MAGIC, FRAME_VERSION, kind, 0, len(payload))
    digest = hashlib.sha256(payload).digest()
    return b"".join((header, _HEADER_SUM.pack(zlib.crc32(header)), payload, digest))


def unseal(kind: FrameKind, data: bytes, name: str) -> bytes:
    """Return the payload of a frame, or raise a `StorageError` that names the file and what is wrong with it."""
    _check_header(kind, data, name)
    payload = data[HEADER_BYTES:-DIGEST_BYTES]
    if hashlib.sha256(payload).digest() != data[-DIGEST_BYTES:]:
        raise _damaged(name, "a payload that matches its checksum", "another checksum")
    return payload


def _check_header(kind: FrameKind, data: bytes, name: str) -> None:
    if len(data) < OVERHEAD_BYTES:
        raise _damaged(name, f"at least {OVERHEAD_BYTES} bytes", f"{len(data)} bytes")
    if not data.startswith(MAGIC):
        raise _damaged(name, f"a file that begins with {MAGIC.decode()}", f"{data[:4].hex(' ')}")
    (header_sum,) = _HEADER_SUM.unpack_from(data, _HEADER.size)
    if header_sum != zlib.crc32(data[: _HEADER.size]):
        raise _damaged(name, "a header that matches its checksum", "another checksum")
    _, version, found_kind, zero, length = _HEADER.unpack_from(data)
    if version != FRAME_VERSION:
        raise StorageError(
            "MP302",
            f"this version of Millpond can't read {name}",
            expected=f"format version {FRAME_VERSION}",
            found=f"format version {version}",
            hint="run the version of Millpond that wrote the checkpoint, or a newer one",
        )
    if found_kind != kind:
        raise StorageError(
            "MP303",
            f"{name} holds something else than its place says",
            expected=kind.name.lower(),
            found=_kind_name(found_kind),
            hint="a file was moved or renamed inside the checkpoint: put it back, or restore it from a copy",
        )
    if zero != 0:
        raise _damaged(name, "a zero byte after the kind", str(zero))
    if length != len(data) - OVERHEAD_BYTES:
        raise _damaged(name, f"a payload of {length} bytes", f"{len(data) - OVERHEAD_BYTES} bytes")


def _kind_name(number: int) -> str:
    return FrameKind(number).name.lower() if number in set(FrameKind) else f"an unknown kind ({number})"


def _damaged(name: str, expected: str, found: str) -> StorageError:
    return StorageError(
        "MP301",
        f"{name} is damaged",
        expected=expected,
        found=found,
        hint="restore this file from a copy of the checkpoint; nothing was read from it",
    )
