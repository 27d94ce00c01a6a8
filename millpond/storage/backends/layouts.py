"""Which kind of storage made a folder: each kind that keeps files opens its own folders and new ones, and no others.

A folder of another kind would look empty, and a job would begin anew in it. So before a folder is opened, a look at the
names in it tells whose it is. Nothing is read, and nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import Enum
from pathlib import Path

from millpond.errors import StorageError
from millpond.storage.door import Door, EntryKind, coded, usual_door


class Layout(Enum):
    """The kinds of storage that keep files in a folder; the value is how their addresses begin."""

    FILES = ""
    LOG = "log://"
    PER_KEY = "perkey://"
    ROCKS = "rocksdb://"


SPREAD_MARK = "spread-mark"
"""The name under which every root of a spread storage but the first bears its mark."""

_FOLDERS = frozenset({"manifests", "deltas", "snapshots", "retired", "savepoints"})
"""Folders of a plain checkpoint; other kinds have the same names in files of their own."""

_PER_KEY = re.compile(rf"(?:{'|'.join(sorted(_FOLDERS))})=2F.*", re.DOTALL)
_LOG = re.compile(r"log-\d{10}|index-\d{10}-\d{16}|witness")
_LOG_LOCK = "lock"
_ROCKS_TURN, _ROCKS_DATABASE = "turn", "db"


def refuse_other_layouts(root: str | Path, own: Layout, door: Door | None = None) -> None:
    """Raise MP358 if a folder was made by another kind of storage, also if by its own kind too."""
    path = Path(root).absolute()
    looks = _Looks(path, door or usual_door())
    found = [layout for layout in Layout if layout is not own and looks.like(layout)]
    if found:
        raise _other(path, _WORDS[own], " and of ".join(_WORDS[layout] for layout in found), f"{found[0].value}{path}")


def refuse_part_of_spread(root: str | Path, door: Door | None = None) -> None:
    """Raise MP358 if a folder is a part of a spread storage: most of a checkpoint is elsewhere then."""
    path = Path(root).absolute()
    if _Looks(path, door or usual_door()).kind(SPREAD_MARK) is EntryKind.FILE:
        raise _other(path, "a checkpoint of its own", "a root of a spread storage", "spread:// and all roots of it")


class _Looks:
    """What a look at a folder tells."""

    def __init__(self, path: Path, door: Door) -> None:
        self._path = path
        self._door = door

    def like(self, layout: Layout) -> bool:
        """Say whether a folder looks as if a kind of storage had made it."""
        match layout:
            case Layout.FILES:
                return any(self.kind(name) is EntryKind.FOLDER for name in _FOLDERS)
            case Layout.LOG:
                # Looked up first: a folder with a file for each key is long to list.
                return self.kind(_LOG_LOCK) is EntryKind.FILE and any(map(_LOG.fullmatch, self.names()))
            case Layout.PER_KEY:
                return any(map(_PER_KEY.fullmatch, self.names()))
            case Layout.ROCKS:
                folder = self.kind(_ROCKS_DATABASE) is EntryKind.FOLDER
                return folder and self.kind(_ROCKS_TURN) is EntryKind.FILE

    def kind(self, name: str) -> EntryKind | None:
        """Return what stands under a name in the folder; None if nothing does."""
        with coded("look up", name):
            entry = self._door.entry(self._path / name)
        return None if entry is None else entry.kind

    def names(self) -> Collection[str]:
        """Return the names in the folder; none if there is no folder."""
        try:
            with coded("list", str(self._path), (FileNotFoundError, NotADirectoryError)):
                return self._door.listdir(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return ()


_WORDS = {
    Layout.FILES: "a plain folder with one file per name",
    Layout.LOG: "a log",
    Layout.PER_KEY: "one file per key",
    Layout.ROCKS: "a RocksDB database",
}


def _other(path: Path, own: str, found: str, address: str) -> StorageError:
    return StorageError(
        "MP358",
        f"{path} was made by another kind of storage",
        expected=f"a new folder, or the layout of {own}",
        found=f"the layout of {found}",
        hint=f"open it by the address that it was made with: {address}; nothing was read or written",
    )
