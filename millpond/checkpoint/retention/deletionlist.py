"""Lists of names that will be deleted: written first, acted on after a while, and never named again in between.

Content is named by its hash, so a name that nobody needs could come back to life: an epoch writes the same bytes and
finds them there, and then they are deleted under its hands. So a condemned name is dead for good. A commit that was
given one stores the same bytes under a name of its own (`alive`), and whoever deletes may be as slow as it likes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container
from itertools import count

import msgspec

from millpond.checkpoint.records.naming import given_in
from millpond.checkpoint.records.notes import decode_note, encode_note
from millpond.crashpoints import crashpoint
from millpond.errors import DamagedError, MissingError
from millpond.storage.content import NAME_DIGITS, FileRef, get_content
from millpond.storage.contract import PutOutcome, Storage

CONDEMNED = "condemned"
SWEPT = "swept"
"""Beside each list, under the same name, when all of it had been deleted."""


class DeletionList(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="condemned"):
    """Names of manifests and files that no kept epoch needed when the list was written."""

    at_ms: int
    names: tuple[str, ...]


class Swept(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="swept"):
    """When everything on a list had been deleted; others may still be at it, and must find the list for a while."""

    at_ms: int


def put_list(storage: Storage, condemned: DeletionList) -> str:
    """Write a list, named by its time and its content; it is durable on return."""
    data = encode_note(condemned)
    name = f"{CONDEMNED}/{condemned.at_ms:015}-{hashlib.sha256(data).hexdigest()[:16]}"
    storage.put(name, data)
    crashpoint("garbage.listed")
    return name


def put_swept(storage: Storage, name: str, at_ms: int) -> None:
    """Note that all of a list is deleted."""
    storage.put(_swept(name), encode_note(Swept(at_ms)))
    crashpoint("garbage.swept")


def swept_ms(storage: Storage, name: str) -> int | None:
    """Say when all of a list was deleted; None if it was not."""
    file = _swept(name)
    if not storage.contains(file):
        return None
    try:
        return decode_note(Swept, storage.get(file), file).at_ms
    except (DamagedError, MissingError):
        return None


def forget_list(storage: Storage, name: str) -> None:
    """Take a list away: its names may be used again."""
    storage.delete(name)
    crashpoint("garbage.forgotten")
    storage.delete(_swept(name))


def _swept(name: str) -> str:
    return f"{SWEPT}/{name.removeprefix(f'{CONDEMNED}/')}"


def read_lists(storage: Storage, known: Container[str] = ()) -> dict[str, DeletionList]:
    """Return the lists there are, oldest first, without those that are known already."""
    found = {}
    for name in given_in(storage, CONDEMNED):
        listed = None if name in known else _read(storage, name)
        if listed is not None:
            found[name] = listed
    return found


def _read(storage: Storage, name: str) -> DeletionList | None:
    try:
        return decode_note(DeletionList, storage.get(name), name)
    except MissingError:
        # It was done with.
        return None
    except DamagedError:
        # It tells nothing, so nothing is deleted by it.
        return DeletionList(0, ())


def alive(storage: Storage, ref: FileRef, condemned: Container[str], salt: str) -> FileRef:
    """Return a file under a name that nobody will delete: its own, or a new one if that is condemned.

    The new name follows from the content and the salt, so that the same commit, tried again, writes the same file.
    """
    if ref.name not in condemned:
        return ref
    data = get_content(storage, ref)
    folder = ref.name.rpartition("/")[0]
    for number in count():
        digest = hashlib.sha256(f"{salt}/{number}/{ref.sha256}".encode()).hexdigest()
        fresh = FileRef(f"{folder}/{digest[:NAME_DIGITS]}", ref.size_bytes, ref.sha256)
        if fresh.name not in condemned:
            break
    if storage.put(fresh.name, data) is PutOutcome.PRESENT:
        get_content(storage, fresh)
    crashpoint("name.revived")
    return fresh
