"""The one door to the disk: every call that storage makes to the operating system.

The fault model, in words. A process may die between any two calls, and then everything it wrote is still seen by the
next process. The machine may die between any two calls, and then
- the content of a file is certain only if `sync` returned after the last `write`; before that it may be whole, cut
  short, or garbage;
- a name in a folder (made by `create`, `link`, `rename` or `mkdir`, or taken away by `unlink`) is certain only if
  `sync_folder` returned after it; before that each of them may or may not have happened, in any combination.
Any call may fail with an `OSError`, and a `write` may take fewer bytes than it was given. After a failed `sync` the
operating system may have thrown the data away and may report success if asked again: so nobody asks again.

A log changes files in place: `write_at`, `reserve` and `truncate` follow the rules of content above, each by itself, so
that of several of them before a `sync_data` any may be there and any may be lost. Bytes that were only reserved are
read as zeros. A lock is let go when its process dies, however it dies; it binds only those who ask for it.

What is promised on top of this: see `contract.py`. What a server does below an object store, Redis or RocksDB is beyond
this door; what we ask of them is said at the top of their modules.

A call that fails may have done its work all the same, and a `link` may say that the name is taken when it was this very
call that took it, as after a lost answer of a file server. Several processes may use one folder; any of them may stop
for any time, and then go on as if nothing had happened. What is not in the model: a disk that changes what was synced
(the frames of `frame.py` find that out, they can't mend it), and one that says "synced" and is not.

A test replaces this class to make calls fail, or to record them and play the death of the machine. With `through` a
whole run looks at the disk through such a door. `coded` turns what the disk says into coded errors, with the same words
for every storage that keeps files.

What storages in files share: syncs that are never asked for twice, and folders that survive a power cut.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from millpond.errors import NotPlainError, StorageError

FILE_MODE = 0o600
FOLDER_MODE = 0o700


class EntryKind(Enum):
    """What stands under a name on the disk; a symbolic link is OTHER."""

    FILE = auto()
    FOLDER = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Entry:
    """What the disk says of a name, without following it if it is a link."""

    kind: EntryKind
    size_bytes: int
    modified_ms: int


class Door:
    """The real disk. Every method is one primitive and raises a plain `OSError` when it fails."""

    def create(self, path: Path) -> int:
        """Make a new empty file that only its owner may read, and return its descriptor."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write the beginning of `data` and return how many bytes were taken."""
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        """Make the content of a file durable."""
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        """Give a descriptor back."""
        os.close(descriptor)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name; `FileExistsError` if the name is taken."""
        os.link(source, target, follow_symlinks=False)

    def rename(self, source: Path, target: Path) -> None:
        """Move a file to another name, replacing what is there: no fence, only for names that are ours alone."""
        source.rename(target)

    def unlink(self, path: Path) -> None:
        """Take a name away."""
        path.unlink()

    def mkdir(self, path: Path) -> None:
        """Make a folder that only its owner may enter."""
        path.mkdir(mode=FOLDER_MODE)

    def sync_folder(self, path: Path) -> None:
        """Make the names in a folder durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def open(self, path: Path) -> int:
        """Open a file that is there, to read and to write; a link raises ELOOP."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)

    def open_to_read(self, path: Path) -> int:
        """Open a file that is there, to read; a link raises ELOOP."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)

    def size(self, descriptor: int) -> int:
        """Return the length of an open file."""
        return os.fstat(descriptor).st_size

    def is_named(self, descriptor: int, path: Path) -> bool:
        """Say whether an open file is the one that has a name now."""
        try:
            return os.path.samestat(os.fstat(descriptor), path.lstat())
        except FileNotFoundError:
            return False

    def read_at(self, descriptor: int, size: int, offset: int) -> bytes:
        """Read at most `size` bytes from a place in a file; fewer only at its end, or if the system likes it so."""
        return os.pread(descriptor, size, offset)

    def write_at(self, descriptor: int, data: memoryview, offset: int) -> int:
        """Write the beginning of `data` to a place in a file and return how many bytes were taken."""
        return os.pwrite(descriptor, data, offset)

    def reserve(self, descriptor: int, offset: int, size: int) -> None:
        """Make room on the disk, filled with zeros, so that writing into it changes no sizes."""
        os.posix_fallocate(descriptor, offset, size)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file off."""
        os.ftruncate(descriptor, size)

    def sync_data(self, descriptor: int) -> None:
        """Make the content of a file durable, and its length, but not its times."""
        os.fdatasync(descriptor)

    def lock(self, path: Path, *, shared: bool) -> int | None:
        """Take a lock that is held until the returned descriptor is given to `unlock`; None if another has it."""
        # Not blocking, because opening a pipe that somebody put here would wait for ever.
        flags = os.O_RDONLY | os.O_NONBLOCK if shared else os.O_RDWR | os.O_CREAT
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def unlock(self, descriptor: int) -> None:
        """Let a lock go, also if a child of this process has inherited it."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)

    def read(self, path: Path) -> bytes:
        """Read a whole file; a link raises ELOOP, and so does anything else that is no plain file."""
        # Not blocking, because opening a pipe that somebody put here would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.ELOOP, "not a plain file", str(path))
            return file.read()

    def listdir(self, path: Path) -> list[str]:
        """Return the names in a folder, in no order."""
        return [entry.name for entry in path.iterdir()]

    def entry(self, path: Path) -> Entry | None:
        """Return what stands under a name; None if nothing does."""
        try:
            status = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISREG(status.st_mode):
            kind = EntryKind.FILE
        elif stat.S_ISDIR(status.st_mode):
            kind = EntryKind.FOLDER
        else:
            kind = EntryKind.OTHER
        return Entry(kind, status.st_size, status.st_mtime_ns // 1_000_000)


_usual = [Door()]
"""The doors that `through` put in front of each other; the last one is used."""


def usual_door() -> Door:
    """Return the door of storages that are opened without one: the real disk, unless a test looks `through` another."""
    return _usual[-1]


@contextmanager
def through(door: Door) -> Iterator[None]:
    """Let storages that are opened meanwhile without a door use this one, in the whole process: for tests."""
    _usual.append(door)
    try:
        yield
    finally:
        _usual.pop()


DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


@contextmanager
def coded(doing: str, name: str, passing: type[OSError] | tuple[type[OSError], ...] = ()) -> Iterator[None]:
    """Turn what the disk says into a coded error, but for the answers that the caller wants to judge."""
    try:
        yield
    except passing:
        raise
    except OSError as error:
        if error.errno in DISK_FULL:
            raise disk_full(doing, name) from error
        if error.errno == errno.ELOOP:
            raise not_plain(name, "a plain file") from error
        if doing == "link" and error.errno in _NO_LINKS:
            raise no_links(name) from error
        raise StorageError(
            "MP309",
            f"can't {doing} {name}",
            found=str(error.strerror or error),
            hint="check the disk and the rights on the checkpoint's folder; what was committed is not touched",
        ) from error


def disk_full(doing: str, name: str) -> StorageError:
    """Return the error for a disk without room."""
    return StorageError(
        "MP307",
        f"can't {doing} {name}: the disk is full",
        hint="free some space and start again; what was committed is not touched",
    )


def sync_failed(name: str, found: str) -> StorageError:
    """Return the error for a sync that failed, after which nobody knows what the disk holds."""
    return StorageError(
        "MP308",
        f"the disk could not make {name} durable",
        found=found,
        hint="check the disk, then start again: the epoch in flight is run again, what was committed is not touched",
    )


def not_plain(name: str, expected: str) -> NotPlainError:
    """Return the error for a link or a special file where a plain one belongs."""
    return NotPlainError(
        "MP306",
        f"{name} is not a plain file",
        expected=expected,
        found="a symbolic link, a folder or a special file",
        hint="links inside a checkpoint are refused, since they could lead out of it: copy the file itself",
    )


def no_links(name: str) -> StorageError:
    """Return the error for a file system that can't give a file a second name."""
    return StorageError(
        "MP313",
        f"can't commit {name} on this file system",
        expected="a file system with hard links, which are what keeps two drivers from committing the same epoch",
        hint="put the checkpoint on a local disk or on NFS",
    )


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
