"""What storages in files share: syncs that are never asked for twice, and folders that survive a power cut."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from millpond.storage.door import DISK_FULL, Door, EntryKind, coded, disk_full, not_plain, sync_failed


class Durable:
    """Remembers the first sync that failed, and refuses to go on after it; makes folders below a root."""

    def __init__(self, root: Path, door: Door) -> None:
        self._root = root
        self._door = door
        self._folders: set[Path] = set()
        self._failure: str | None = None

    @property
    def failed(self) -> bool:
        """Whether a sync failed: then nothing more is written."""
        return self._failure is not None

    def check(self, name: str) -> None:
        """Refuse to write after a failed sync: what the disk holds is known only to a new start."""
        if self._failure is not None:
            raise sync_failed(name, f"an earlier one failed: {self._failure}")

    @contextmanager
    def syncing(self, name: str) -> Iterator[None]:
        """Turn the failure of a sync into a coded error, and remember it; after one, no other is asked for."""
        self.check(name)
        try:
            yield
        except OSError as error:
            self._failure = f"{name}: {error.strerror}"
            if error.errno in DISK_FULL:
                raise disk_full("sync", name) from error
            raise sync_failed(name, str(error.strerror)) from error

    def make_folder(self, folder: Path) -> None:
        """Make a folder, parents first, each synced before the next one is made.

        So whenever a process dies, at most the deepest folder that exists can be lost by a power cut, and the next
        process syncs that one first.
        """
        if folder in self._folders:
            return
        inside = folder.is_relative_to(self._root) and folder != self._root
        name = folder.relative_to(self._root).as_posix() if inside else str(folder)
        with coded("look up", name):
            entry = self._door.entry(folder)
        if entry is None:
            self.make_folder(folder.parent)
            with suppress(FileExistsError), coded("make the folder", name, FileExistsError):
                self._door.mkdir(folder)
        elif inside and entry.kind is not EntryKind.FOLDER:
            raise not_plain(name, "a folder")
        with self.syncing(name):
            try:
                self._door.sync_folder(folder.parent)
            except PermissionError:
                # A folder given to us inside one that we may not read was made durable by whoever gave it.
                if entry is None or inside:
                    raise
        self._folders.add(folder)
