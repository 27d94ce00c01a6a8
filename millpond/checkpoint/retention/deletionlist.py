"""Lists of names that will be deleted: written first, acted on after a while, then forgotten.

A name that is on a list is dead for good: names of files never come back (`storage/content.py`), and numbers of
manifests are marked as given away (`retired.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Container

import msgspec

from millpond.checkpoint.records.naming import given_in
from millpond.checkpoint.records.notes import decode_note, encode_note
from millpond.crashpoints import crashpoint
from millpond.errors import DamagedError, MissingError
from millpond.storage.contract import Storage

CONDEMNED = "condemned"
SWEPT = "swept"
"""Earlier versions noted beside each list, under the same name, when all of it had been deleted."""


class DeletionList(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="condemned"):
    """Names of manifests and files that no kept epoch needed when the list was written."""

    at_ms: int
    names: tuple[str, ...]


def put_list(storage: Storage, condemned: DeletionList) -> str:
    """Write a list, named by its time and its content; it is durable on return."""
    data = encode_note(condemned)
    name = f"{CONDEMNED}/{condemned.at_ms:015}-{hashlib.sha256(data).hexdigest()[:16]}"
    storage.put(name, data)
    crashpoint("garbage.listed")
    return name


def forget_list(storage: Storage, name: str) -> None:
    """Take a list away of which all is deleted."""
    storage.delete(f"{SWEPT}/{name.removeprefix(f'{CONDEMNED}/')}")
    crashpoint("garbage.forgotten")
    storage.delete(name)


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
