"""What the disk says, as coded errors: the same words for every storage that keeps files."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from millpond.errors import NotPlainError, StorageError

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
