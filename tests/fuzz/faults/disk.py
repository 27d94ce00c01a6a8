"""A door to the real disk that fails by a seed: before a call, after it, by half, or with the death of its process."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from millpond.storage.door import Door, Entry
from tests.fuzz.faults.sites import DiedError, Sites

RARITY: Final = 24
"""An epoch makes some hundred calls: if each failed a quarter of the time, none would ever end."""

_REFUSED: Final = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EMFILE, errno.EINTR)
_UNREADABLE: Final = (errno.EIO, errno.EACCES, errno.EMFILE, errno.ENFILE)

P = ParamSpec("P")
T = TypeVar("T")


class FaultyDoor(Door):
    """The disk as one process sees it. When the process has died, every further call dies too."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._dead = False

    def die(self) -> None:
        """End the process that looks through this door."""
        self._dead = True
        raise DiedError

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
        self._call("sync", (errno.EIO, errno.ENOSPC), super().sync, descriptor)

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
        self._call("sync_data", (errno.EIO, errno.ENOSPC), super().sync_data, descriptor)

    def unlink(self, path: Path) -> None:
        """Take a name away, or fail."""
        self._call("unlink", _REFUSED, super().unlink, path)

    def mkdir(self, path: Path) -> None:
        """Make a folder, or fail."""
        self._call("mkdir", _REFUSED, super().mkdir, path)

    def sync_folder(self, path: Path) -> None:
        """Sync a folder, or fail."""
        self._call("sync_folder", (errno.EIO, errno.ENOSPC), super().sync_folder, path)

    def read(self, path: Path) -> bytes:
        """Read, or fail."""
        return self._call("read", _UNREADABLE, super().read, path)

    def listdir(self, path: Path) -> list[str]:
        """List, or fail."""
        return self._call("listdir", _UNREADABLE, super().listdir, path)

    def entry(self, path: Path) -> Entry | None:
        """Look up, or fail."""
        return self._call("entry", _UNREADABLE, super().entry, path)


def _failure(number: int) -> OSError:
    # Python makes the subclass that belongs to the number, as the system calls do.
    return OSError(number, os.strerror(number))
