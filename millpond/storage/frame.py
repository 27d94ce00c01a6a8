"""Framed bytes: what a durable file holds around its payload, so that damage is seen before anything is believed.

Layout, big-endian: magic `MPND`, version (2 bytes), kind (1), zero (1), payload length (8), CRC-32 of these 16 bytes
(4), the payload, SHA-256 of the payload (32). The header has a sum of its own so that a damaged length is never used.

A process with a secret signs: version 2, and after all of the above its HMAC-SHA-256 (32). It reads
nothing that is not signed with its secret, and a process without one reads nothing that is signed: so neither a forged
file nor one whose signature was taken away is believed. The checksum tells damage from another secret.

The secret comes from the environment of each process that reads or writes the checkpoint, and from nowhere else: so it
is in no address, plan, message, shuffled row or log. On a cluster the executors' environment is set as that of any
program is. The names hold the word that Spark looks for when it hides values from its pages and logs.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import struct
import zlib
from enum import IntEnum
from functools import lru_cache
from pathlib import Path

from millpond.errors import DamagedError, StorageError

VARIABLE = "MILLPOND_SECRET"
"""Holds the secret itself, in hex."""

FILE_VARIABLE = "MILLPOND_SECRET_FILE"
"""Holds the path of a file with the secret, in hex; such a path may be seen by anybody."""

SECRET_BYTES_MIN = 32
"""As long as the digest: a shorter one would be the weakest part."""

_HEX = re.compile(r"(?:[0-9A-Fa-f]{2})+")


def current_secret() -> bytes | None:
    """Return the secret of this process; None if there is none, and then files are neither signed nor asked for it."""
    given, path = os.environ.get(VARIABLE), os.environ.get(FILE_VARIABLE)
    if given is not None and path is not None:
        raise _unusable("one variable", f"{VARIABLE} and {FILE_VARIABLE}")
    if path is not None:
        return _read(path)
    return None if given is None else _parse(given, VARIABLE)


@lru_cache(maxsize=4)
def _read(path: str) -> bytes:
    try:
        text = Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(f"a file with the secret in hex at {path}", type(error).__name__) from None
    return _parse(text, path)


@lru_cache(maxsize=4)
def _parse(text: str, source: str) -> bytes:
    digits = text.strip()
    # Whatever is wrong with it, it may be half of somebody's password: only its length is told.
    if _HEX.fullmatch(digits) is None or len(digits) < 2 * SECRET_BYTES_MIN:
        raise _unusable(f"at least {2 * SECRET_BYTES_MIN} hex digits in {source}", f"{len(digits)} characters")
    return bytes.fromhex(digits)


def _unusable(expected: str, found: str) -> StorageError:
    return StorageError(
        "MP344",
        "the secret of the checkpoint can't be used",
        expected=expected,
        found=found,
        hint="make one with `openssl rand -hex 32`, and keep it where only your jobs can read it",
    )


MAGIC = b"MPND"
FRAME_VERSION = 1
SIGNED_VERSION = 2

_HEADER = struct.Struct(">4sHBBQ")
_HEADER_SUM = struct.Struct(">I")
HEADER_BYTES = _HEADER.size + _HEADER_SUM.size
DIGEST_BYTES = hashlib.sha256().digest_size
OVERHEAD_BYTES = HEADER_BYTES + DIGEST_BYTES
SIGNATURE_BYTES = hashlib.sha256().digest_size


class FrameKind(IntEnum):
    """What a frame holds; the number is part of the format."""

    GENESIS = 1
    MANIFEST = 2
    DELTA = 3
    SNAPSHOT = 4
    PENDING = 5
    MERGED = 6
    INPUT = 7
    SAVED = 8


def seal(kind: FrameKind, payload: bytes) -> bytes:
    """Put a frame around a payload, signed if this process has a secret."""
    secret = current_secret()
    header = _HEADER.pack(MAGIC, FRAME_VERSION if secret is None else SIGNED_VERSION, kind, 0, len(payload))
    digest = hashlib.sha256(payload).digest()
    parts = (header, _HEADER_SUM.pack(zlib.crc32(header)), payload, digest)
    return b"".join(parts if secret is None else (*parts, _signature(secret, parts)))


def unseal(kind: FrameKind, data: bytes, name: str) -> bytes:
    """Return the payload of a frame, or raise a `StorageError` that names the file and what is wrong with it."""
    payload, digest = _opened(kind, data, name)
    if hashlib.sha256(payload).digest() != digest:
        raise _damaged(name, "a payload that matches its checksum", "another checksum")
    _check_signed(data, len(payload), name)
    return bytes(payload)


def unseal_hashed(kind: FrameKind, data: bytes, name: str) -> memoryview:
    """Return the same, without a copy, of data whose hash was compared as a whole.

    Its checksum can tell nothing new.
    """
    payload, _ = _opened(kind, data, name)
    _check_signed(data, len(payload), name)
    return payload


def _opened(kind: FrameKind, data: bytes, name: str) -> tuple[memoryview, memoryview]:
    """Return the payload of a frame, and the checksum that stands behind it."""
    signed = _check_header(kind, data, name)
    end = len(data) - (SIGNATURE_BYTES if signed else 0)
    whole = memoryview(data)
    return whole[HEADER_BYTES : end - DIGEST_BYTES], whole[end - DIGEST_BYTES : end]


def _check_signed(data: bytes, payload_bytes: int, name: str) -> None:
    end = payload_bytes + OVERHEAD_BYTES
    secret = current_secret()
    if end < len(data) or secret is not None:
        _check_signature(secret, data, end, name)


def _signature(secret: bytes, parts: tuple[bytes | memoryview, ...]) -> bytes:
    code = hmac.new(secret, digestmod=hashlib.sha256)
    for part in parts:
        code.update(part)
    return code.digest()


def _check_signature(secret: bytes | None, data: bytes, end: int, name: str) -> None:
    if secret is None:
        raise StorageError(
            "MP341",
            f"{name} is signed with a secret, and this process has none",
            expected=f"the secret of the checkpoint in {VARIABLE}, or the path of its file in {FILE_VARIABLE}",
            hint="set it for the driver, the executors and whatever else reads the checkpoint, before they start",
        )
    if end == len(data):
        raise StorageError(
            "MP342",
            f"{name} is not signed",
            expected=f"a signature, since {VARIABLE} or {FILE_VARIABLE} is set",
            hint="somebody may have put it there. A checkpoint is signed from its beginning or never: unset the "
            "variable for one that was made without a secret",
        )
    if not hmac.compare_digest(_signature(secret, (memoryview(data)[:end],)), data[end:]):
        raise StorageError(
            "MP343",
            f"{name} is not signed with this secret",
            expected="a signature that matches",
            found="another one: the secret is not the checkpoint's, or somebody changed the file",
            hint="check the secret; if it is right, restore this file from a copy and find out who wrote it",
        )


def _check_header(kind: FrameKind, data: bytes, name: str) -> bool:
    """Refuse what can't be a frame of this kind; return whether it is a signed one."""
    if len(data) < OVERHEAD_BYTES:
        raise _damaged(name, f"at least {OVERHEAD_BYTES} bytes", f"{len(data)} bytes")
    if not data.startswith(MAGIC):
        raise _damaged(name, f"a file that begins with {MAGIC.decode()}", f"{data[:4].hex(' ')}")
    (header_sum,) = _HEADER_SUM.unpack_from(data, _HEADER.size)
    if header_sum != zlib.crc32(data[: _HEADER.size]):
        raise _damaged(name, "a header that matches its checksum", "another checksum")
    _, version, found_kind, zero, length = _HEADER.unpack_from(data)
    if version not in {FRAME_VERSION, SIGNED_VERSION}:
        raise StorageError(
            "MP302",
            f"this version of Millpond can't read {name}",
            expected=f"format version {FRAME_VERSION} or {SIGNED_VERSION}",
            found=f"format version {version}",
            hint="run the version of Millpond that wrote the checkpoint, or a newer one",
        )
    if found_kind != kind:
        raise StorageError(
            "MP303",
            f"{name} is of another kind than its place in the checkpoint says",
            expected=kind.name.lower(),
            found=_kind_name(found_kind),
            hint="a file was moved or renamed inside the checkpoint: put it back, or restore it from a copy",
        )
    if zero != 0:
        raise _damaged(name, "a zero byte after the kind", str(zero))
    held = len(data) - OVERHEAD_BYTES - (SIGNATURE_BYTES if version == SIGNED_VERSION else 0)
    if length != held:
        raise _damaged(name, f"a payload of {length} bytes", f"{held} bytes")
    return bool(version == SIGNED_VERSION)


def _kind_name(number: int) -> str:
    return FrameKind(number).name.lower() if number in set(FrameKind) else f"an unknown kind ({number})"


def _damaged(name: str, expected: str, found: str) -> DamagedError:
    return DamagedError(
        "MP301",
        f"{name} is damaged",
        expected=expected,
        found=found,
        hint="restore this file from a copy of the checkpoint; nothing was read from it",
    )
