"""Storage in a folder of a POSIX file system: a put is staged, synced, then linked to its name, which one wins."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from millpond.clock import Clock, SystemClock
from millpond.crashpoints import crashpoint
from millpond.errors import StorageError
from millpond.storage.contract import Names, PutOutcome, check_name, missing
from millpond.storage.door import Door, EntryKind

STAGING = ".staging"
STAGING_AGE_MAX_MS = 60 * 60 * 1000
"""No put takes an hour, so a staged file this old belongs to a process that died."""

_COMMITS = "manifests/"
"""The folder whose puts are commit points: the crash tests look inside these puts."""

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)

_DOOR = Door()
_CLOCK = SystemClock()


class FileStorage:
    """A storage under one folder; it makes the folder at the first put.

    After a failed sync this object refuses every further put: what the disk holds is known only to a new start.
    """

    def __init__(self, root: str | Path, door: Door = _DOOR, clock: Clock = _CLOCK) -> None:
        self._root = Path(root).absolute()
        self._door = door
        self._durable_folders: set[Path] = set()
        self._sync_failure: str | None = None
        self._sweep(clock.now_ms() - STAGING_AGE_MAX_MS)

    @property
    def url(self) -> str:
        """The folder's path."""
        return str(self._root)

    def put(self, name: str, data: bytes) -> PutOutcome:
        """Store `data` under a free name, durable on return."""
        path = self._root / check_name(name)
        if self._sync_failure is not None:
            raise _sync_failed(name, f"an earlier one failed: {self._sync_failure}")
        self._make_durable_folder(self._root / STAGING)
        self._make_durable_folder(path.parent)
        staged = self._root / STAGING / uuid.uuid4().hex
        try:
            self._write(staged, data, name)
            if name.startswith(_COMMITS):
                crashpoint("manifest.staged")
            outcome = self._link(staged, path, name)
            if name.startswith(_COMMITS):
                crashpoint("manifest.linked")
            # Also when the name was taken: its writer may have died before this sync, and our caller builds on it.
            with self._stopping_at_failure(name):
                self._door.sync_folder(path.parent)
            return outcome
        finally:
            # Whatever is left in the staging folder is never read, so failing to clean up changes nothing.
            with suppress(OSError):
                self._door.unlink(staged)

    def get(self, name: str) -> bytes:
        """Return the bytes under a name."""
        path = self._root / check_name(name)
        self._refuse_links(path.parent)
        try:
            with _coded("read", name, FileNotFoundError):
                return self._door.read(path)
        except FileNotFoundError:
            raise missing(name, self.url) from None

    def contains(self, name: str) -> bool:
        """Whether there is something under a name."""
        path = self._root / check_name(name)
        self._refuse_links(path)
        with _coded("look up", name):
            return self._door.entry(path) is not None

    def list(self, prefix: str) -> Names:
        """All names inside a folder, sorted."""
        folder = self._root / check_name(prefix) if prefix else self._root
        self._refuse_links(folder)
        return sorted(self._walk(folder))

    def delete(self, name: str) -> None:
        """Take a name away if it is there."""
        path = self._root / check_name(name)
        self._refuse_links(path.parent)
        with suppress(FileNotFoundError), _coded("delete", name, FileNotFoundError):
            self._door.unlink(path)

    def _write(self, staged: Path, data: bytes, name: str) -> None:
        with _coded("write", name):
            descriptor = self._door.create(staged)
        try:
            with _coded("write", name):
                rest = memoryview(data)
                while rest:
                    rest = rest[self._door.write(descriptor, rest) :]
            with self._stopping_at_failure(name):
                self._door.sync(descriptor)
        finally:
            with _coded("close", name):
                self._door.close(descriptor)

    def _link(self, staged: Path, path: Path, name: str) -> PutOutcome:
        try:
            with _coded("link", name, FileExistsError):
                self._door.link(staged, path)
        except FileExistsError:
            self._refuse_links(path)
            return PutOutcome.PRESENT
        return PutOutcome.WON

    @contextmanager
    def _stopping_at_failure(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._sync_failure = f"{name}: {error.strerror}"
            if error.errno in _DISK_FULL:
                raise _disk_full("sync", name) from error
            raise _sync_failed(name, str(error.strerror)) from error

    def _make_durable_folder(self, folder: Path) -> None:
        """Make a folder, parents first, each synced before the next one is made.

        So whenever a process dies, at most the deepest folder that exists can be lost by a power cut, and the next
        process syncs that one first.
        """
        if folder in self._durable_folders:
            return
        inside = folder.is_relative_to(self._root) and folder != self._root
        name = folder.relative_to(self._root).as_posix() if inside else str(folder)
        with _coded("look up", name):
            entry = self._door.entry(folder)
        if entry is None:
            self._make_durable_folder(folder.parent)
            with suppress(FileExistsError), _coded("make the folder", name, FileExistsError):
                self._door.mkdir(folder)
        elif inside and entry.kind is not EntryKind.FOLDER:
            raise _not_plain(name, "a folder")
        with self._stopping_at_failure(name):
            try:
                self._door.sync_folder(folder.parent)
            except PermissionError:
                # A folder given to us inside one that we may not read was made durable by whoever gave it.
                if entry is None or inside:
                    raise
        self._durable_folders.add(folder)

    def _refuse_links(self, path: Path) -> None:
        """Refuse a symbolic link below the root, which could lead a read or a write out of the checkpoint."""
        while path != self._root:
            name = path.relative_to(self._root).as_posix()
            with _coded("look up", name):
                entry = self._door.entry(path)
            if entry is not None and entry.kind is EntryKind.OTHER:
                raise _not_plain(name, "a plain file or folder")
            path = path.parent

    def _walk(self, folder: Path) -> Iterator[str]:
        name = folder.relative_to(self._root).as_posix()
        try:
            with _coded("list", name, FileNotFoundError):
                entries = self._door.listdir(folder)
        except FileNotFoundError:
            return
        for part in entries:
            if part.startswith("."):
                continue
            path = folder / part
            name = path.relative_to(self._root).as_posix()
            with _coded("look up", name):
                found = self._door.entry(path)
            if found is None:
                continue
            if found.kind is EntryKind.FOLDER:
                yield from self._walk(path)
            elif found.kind is EntryKind.FILE:
                yield name
            else:
                raise _not_plain(name, "a plain file or folder")

    def _sweep(self, before_ms: int) -> None:
        staging = self._root / STAGING
        # Sweeping is a courtesy: another process may be sweeping too, and a reader may lack the right to.
        with suppress(OSError):
            for part in self._door.listdir(staging):
                entry = self._door.entry(staging / part)
                if entry is not None and entry.kind is EntryKind.FILE and entry.modified_ms < before_ms:
                    self._door.unlink(staging / part)


@contextmanager
def _coded(doing: str, name: str, passing: type[OSError] | tuple[()] = ()) -> Iterator[None]:
    """Turn what the disk says into a coded error, but for the one answer that the caller wants to judge."""
    try:
        yield
    except passing:
        raise
    except OSError as error:
        if error.errno in _DISK_FULL:
            raise _disk_full(doing, name) from error
        if error.errno == errno.ELOOP:
            raise _not_plain(name, "a plain file") from error
        if doing == "link" and error.errno in _NO_LINKS:
            raise _no_links(name) from error
        raise StorageError(
            "MP309",
            f"can't {doing} {name}",
            found=str(error.strerror or error),
            hint="check the disk and the rights on the checkpoint's folder; what was committed is not touched",
        ) from error


def _disk_full(doing: str, name: str) -> StorageError:
    return StorageError(
        "MP307",
        f"can't {doing} {name}: the disk is full",
        hint="free some space and start again; what was committed is not touched",
    )


def _sync_failed(name: str, found: str) -> StorageError:
    return StorageError(
        "MP308",
        f"the disk could not make {name} durable",
        found=found,
        hint="check the disk, then start again: the epoch in flight is run anew, what was committed is not touched",
    )


def _not_plain(name: str, expected: str) -> StorageError:
    return StorageError(
        "MP306",
        f"{name} is not what a checkpoint holds",
        expected=expected,
        found="a symbolic link or a special file",
        hint="links inside a checkpoint are refused, since they could lead out of it: copy the file itself",
    )


def _no_links(name: str) -> StorageError:
    return StorageError(
        "MP313",
        f"can't commit {name} on this file system",
        expected="a file system with hard links, which are what keeps two drivers from committing the same epoch",
        hint="put the checkpoint on a local disk or on NFS",
    )
