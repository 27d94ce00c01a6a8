"""Folders that only their owner may enter: where local stores lie, and what else a job keeps among temporary files.

The name of such a folder can be foreseen, and others may write to the folder that it lies in. So it is made for its
owner alone, and one that is there is believed only if it is a folder and no link, is ours, and was open to nobody else.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from millpond.errors import StateError

_OTHERS, _WRITE = 0o077, 0o022


def make_private(path: Path) -> None:
    """Make a folder, and those above it that are missing, for its owner alone."""
    if not path.parent.exists():
        make_private(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def own_folder(path: Path) -> Path:
    """Make a folder in a place that others may write to, or see that the one there is ours alone (MP226)."""
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    refuse_links(path)
    found = path.lstat()
    if found.st_uid != os.getuid():
        raise _untrusted(path, f"a folder of user {found.st_uid}")
    if found.st_mode & _WRITE:
        raise _untrusted(path, f"a folder that others may write to, with mode {stat.S_IMODE(found.st_mode):o}")
    if found.st_mode & _OTHERS:
        # Earlier versions let others look into it.
        path.chmod(0o700)
    return path


def refuse_links(*paths: Path) -> None:
    """Refuse what is no folder but leads to one, or to anything else."""
    for path in paths:
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise _untrusted(path, "a link, or another thing that is no folder")


def _untrusted(path: Path, found: str) -> StateError:
    return StateError(
        "MP226",
        "a folder for local stores can't be trusted",
        expected=f"a folder of user {os.getuid()} that nobody else may write to, and no link",
        found=f"{path}: {found}",
        hint="remove it if it is yours, or give a local_root of your own; nothing was read or deleted there",
    )
