"""A faulty disk: calls fail before they did anything, after it or by half, or their process dies.

>>> class Never:
...     def fires(self, site: str, rarity: int = 1) -> bool:
...         return site == "disk.mkdir.fails"
...     def one(self, choices: tuple[int, ...]) -> int:
...         return choices[0]
>>> FaultyDisk(Never()).mkdir(Path("folder"))
Traceback (most recent call last):
OSError: [Errno 5] Input/output error
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn, ParamSpec, Protocol, TypeVar

from millpond.errors import Passing
from millpond.storage.door import Door, Entry

RARITY: Final = 24
"""An epoch makes some hundred calls: if each failed a quarter of the time, none would ever end."""

_REFUSED: Final = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EMFILE, errno.EINTR)
_UNREADABLE: Final = (errno.EIO, errno.EACCES, errno.EMFILE, errno.ENFILE)

P = ParamSpec("P")
T = TypeVar("T")


class ProcessDied(Passing):
    """The process dies here: no code of ours may catch it but what starts the next one."""


class Sites(Protocol):
    """Decides which faults happen; the disk names its sites, such as `disk.write.fails`."""

    def fires(self, site: str, rarity: int = 1) -> bool:
        """Return whether a fault happens now; a site that is passed very often fires `rarity` times less."""
        ...

    def one(self, choices: tuple[int, ...]) -> int:
        """Return the number of the error with which the fault that just fired shows, of those that a call may give."""
        ...


class FaultyDisk(Door):
    """The disk as one process sees it. When the process has died, every further call dies too.

    The machine never dies here, so nothing is really synced.
    """

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._dead = False

    def die(self) -> NoReturn:
        """End the process that looks at this disk."""
        self._dead = True
        raise ProcessDied

    def _call(self, name: str, errors: tuple[int, ...], call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._dead or self._sites.fires(f"disk.{name}.dies", RARITY):
            self.die()
        if self._sites.fires(f"disk.{name}.fails", RARITY):
            raise _failure(self._sites.one(errors))
        done = call(*args, **kwargs)
        if self._sites.fires(f"disk.{name}.dies after", RARITY):
            self.die()
        return done

    def create(self, path: Path) -> int:
        """Make a file, or fail."""
        return self._call("create", _REFUSED, super().create, path)

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write some of the bytes, or fail."""
        taken = data[: max(1, len(data) // 2)] if self._sites.fires("disk.write.takes half") else data
        return self._call("write", _REFUSED, super().write, descriptor, taken)

    def sync(self, descriptor: int) -> None:
        """Sync, or fail."""
        self._call("sync", (errno.EIO, errno.ENOSPC), _nothing, descriptor)

    def close(self, descriptor: int) -> None:
        """Close; the descriptor is gone even if this fails."""
        super().close(descriptor)
        if self._sites.fires("disk.close.fails", RARITY):
            raise _failure(errno.EIO)

    def link(self, source: Path, target: Path) -> None:
        """Link, or fail; the answer may be lost, or come as if somebody else had been first."""
        self._call("link", _REFUSED, super().link, source, target)
        if self._sites.fires("disk.link.answer lost", RARITY):
            raise _failure(errno.EIO)
        if self._sites.fires("disk.link.answered twice", RARITY):
            raise _failure(errno.EEXIST)

    def rename(self, source: Path, target: Path) -> None:
        """Move a file to another name, or fail."""
        self._call("rename", _REFUSED, super().rename, source, target)

    def open(self, path: Path) -> int:
        """Open a file to write, or fail."""
        return self._call("open", _UNREADABLE, super().open, path)

    def open_to_read(self, path: Path) -> int:
        """Open a file to read, or fail."""
        return self._call("open", _UNREADABLE, super().open_to_read, path)

    def read_at(self, descriptor: int, size: int, offset: int) -> bytes:
        """Read a part of a file, or fail."""
        return self._call("read_at", (errno.EIO,), super().read_at, descriptor, size, offset)

    def write_at(self, descriptor: int, data: memoryview, offset: int) -> int:
        """Write some of the bytes at a place, or fail."""
        taken = data[: max(1, len(data) // 2)] if self._sites.fires("disk.write_at.takes half") else data
        return self._call("write_at", _REFUSED, super().write_at, descriptor, taken, offset)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file off, or fail."""
        self._call("truncate", (errno.EIO,), super().truncate, descriptor, size)

    def sync_data(self, descriptor: int) -> None:
        """Sync the content of a file, or fail."""
        self._call("sync_data", (errno.EIO, errno.ENOSPC), _nothing, descriptor)

    def unlink(self, path: Path) -> None:
        """Take a name away, or fail."""
        self._call("unlink", _REFUSED, super().unlink, path)

    def mkdir(self, path: Path) -> None:
        """Make a folder, or fail."""
        self._call("mkdir", _REFUSED, super().mkdir, path)

    def sync_folder(self, path: Path) -> None:
        """Sync a folder, or fail."""
        self._call("sync_folder", (errno.EIO, errno.ENOSPC), _nothing, path)

    def read(self, path: Path) -> bytes:
        """Read, or fail."""
        return self._call("read", _UNREADABLE, super().read, path)

    def listdir(self, path: Path) -> list[str]:
        """List, or fail."""
        return self._call("listdir", _UNREADABLE, super().listdir, path)

    def entry(self, path: Path) -> Entry | None:
        """Look up, or fail."""
        return self._call("entry", _UNREADABLE, super().entry, path)


def _nothing(*_: object) -> None:
    """Take as long as no disk does."""


def _failure(number: int) -> OSError:
    # Python makes the subclass that belongs to the number, as the system calls do.
    return OSError(number, os.strerror(number))
