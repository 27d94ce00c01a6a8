"""The names that Millpond gives to files, folder by folder: whatever else lies there is not ours, and is left alone.

A file system holds what people put into it, under names of any bytes. Such a file is never deleted, never read, and
never in the way of a job; `millpond state verify --all` lists it. Among manifests a strange name is damage: it could be
a manifest that somebody moved.
"""

from __future__ import annotations

import re

from millpond.checkpoint.records.manifest import EPOCH_DIGITS, MANIFESTS
from millpond.storage.content import NAME_DIGITS
from millpond.storage.contract import Names, Storage

SAVEPOINT = re.compile(r"(?![0-9]+\Z)[A-Za-z0-9_][A-Za-z0-9._=-]{0,99}")
"""What savepoints may be called: not by digits alone, which would be a number of an epoch."""

_BY_CONTENT = re.compile(rf"[0-9a-f]{{{NAME_DIGITS}}}")
_BY_EPOCH = re.compile(rf"[0-9]{{{EPOCH_DIGITS}}}")
_LIST = re.compile(r"[0-9]{15,}-[0-9a-f]{16}")

HEADS = "heads"
"""The folder of notes of the newest epochs."""

GIVEN = {
    MANIFESTS: _BY_EPOCH,
    HEADS: re.compile(rf"{_BY_EPOCH.pattern}-{_BY_CONTENT.pattern}"),
    "deltas": _BY_CONTENT,
    "snapshots": _BY_CONTENT,
    "pending": _BY_CONTENT,
    "inputs": re.compile(rf"{_BY_CONTENT.pattern}-[0-9]{{5,}}"),
    "saves": _BY_CONTENT,
    "merged": _BY_EPOCH,
    "condemned": _LIST,
    "swept": _LIST,
    "retired": re.compile(rf"[0-9]+-{_BY_EPOCH.pattern}"),
    "savepoints": SAVEPOINT,
}
"""By folder, what the names in it look like; `docs/FORMAT.md` says what each is."""


def given_in(storage: Storage, folder: str) -> Names:
    """Return the names in a folder that Millpond may have given, sorted."""
    return [name for name in storage.list(folder) if _fits(name, folder)]


def strange_in(storage: Storage) -> Names:
    """Return all names in Millpond's own folders that it never gave, but for those among manifests."""
    return [name for folder in GIVEN if folder != MANIFESTS for name in storage.list(folder) if not _fits(name, folder)]


def _fits(name: str, folder: str) -> bool:
    return GIVEN[folder].fullmatch(name[len(folder) + 1 :]) is not None
