"""What a Python worker knows of its executor: a name for it, and a folder for local stores that is its own.

The folder lies in Spark's own local directories, so Spark removes it with the executor. An executor that is killed with
all that watches it leaves it behind. So every folder is noted in a register of the host, by a link that is named after
the process of its executor, and whoever makes a folder later removes those of processes that are gone. An executor that
outlives its jobs, as those of a Spark Connect server do, may hold stores of a job whose driver was killed: they go when
the checkpoint is worked on again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from millpond.errors import StateError
from millpond.state.local.localstore import LocalStore
from millpond.state.local.ownfolders import own_folder

ON_EXECUTOR = "on-executor:"
"""How a local root begins that is a name, for which each executor has a folder of its own."""

STORES = "millpond"
"""The folder for all stores of an executor."""

_LOCAL_DIRS = "SPARK_LOCAL_DIRS"
"""What Spark tells its Python workers: the folders of their executor, which no other one has."""

_PROCESSES = Path("/proc")
_DAEMON = "pyspark.daemon"
_PARENT, _STARTED = 1, 19
"""Where the parent and the start stand in what the kernel tells of a process, counted from behind its name."""


def executor_name() -> str:
    """Return a name of the executor that this process works for: no other one ever has it. "" outside of Spark."""
    folders = _spark_folders()
    return f"{socket.gethostname()}/{folders[0].name}" if folders else ""


def root_on_executor(checkpoint_url: str, token: str) -> str:
    """Return the local root of a job whose stores are on the executors; `token` tells it from all other jobs."""
    digest = hashlib.sha256(checkpoint_url.encode()).hexdigest()[:16]
    return f"{ON_EXECUTOR}{digest}-{token}"


def local_folder(local_root: str) -> str:
    """Say where stores lie for this process; a root that is a path is taken as it is."""
    if not local_root.startswith(ON_EXECUTOR):
        return local_root
    stores = _stores()
    _register(stores)
    folder = stores / local_root.removeprefix(ON_EXECUTOR)
    if not folder.exists():
        _forget_earlier(folder)
    # Files that are removed take disk as long as a process has them open.
    LocalStore.close_below(stores, removed=True)
    return str(folder)


def _forget_earlier(folder: Path) -> None:
    """Remove the stores that earlier jobs on the same checkpoint left here, because their drivers were killed.

    A job that is not over after all makes them anew, until its next commit fails.
    """
    checkpoint, _, _ = folder.name.rpartition("-")
    for earlier in folder.parent.glob(f"{checkpoint}-*"):
        # Another task of this job may have made ours meanwhile.
        if earlier != folder:
            shutil.rmtree(earlier, ignore_errors=True)


def is_own(folder: str) -> bool:
    """Say whether a folder with stores belongs to this executor alone."""
    return bool(_spark_folders()) and Path(folder).is_relative_to(_stores())


def forget(local_root: str) -> None:
    """Remove the stores of a job that has ended from this executor."""
    if local_root.startswith(ON_EXECUTOR):
        folder = _stores() / local_root.removeprefix(ON_EXECUTOR)
        LocalStore.close_below(folder)
        shutil.rmtree(folder, ignore_errors=True)


def register_folder() -> Path:
    """Say where the stores of all executors of a user on this host are noted."""
    return Path(tempfile.gettempdir()) / f"millpond-{os.getuid()}-executors"


def _own_register() -> Path:
    """Return the same, made or seen to be ours alone."""
    return own_folder(register_folder())


def sweep_register() -> list[Path]:
    """Remove the stores of executors that are gone, and say which."""
    swept: list[Path] = []
    # Others may write to the folder that it lies in; what they noted there is not ours to remove.
    with suppress(OSError, StateError):
        register = _own_register()
        for note in list(register.iterdir()):
            if note.is_symlink() and not _is_alive(note.name):
                stores = note.readlink()
                if stores.name == STORES and _is_ours(stores):
                    shutil.rmtree(stores, ignore_errors=True)
                    swept.append(stores)
                note.unlink(missing_ok=True)
    return swept


def _is_ours(folder: Path) -> bool:
    """Say whether a folder is one, and ours: rights are looked at before anything in it is removed."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _spark_folders() -> list[Path]:
    return [Path(folder) for folder in os.environ.get(_LOCAL_DIRS, "").split(",") if folder]


def _stores() -> Path:
    folders = _spark_folders()
    # A job that is run by something else than Spark's workers keeps its stores where temporary files are.
    if folders:
        return folders[0] / STORES
    return own_folder(Path(tempfile.gettempdir()) / f"millpond-{os.getuid()}") / STORES


def _register(stores: Path) -> None:
    """Note that these stores are there; once for an executor, which then looks for what others left."""
    name = _owner()
    if name is None:
        return
    with suppress(OSError, StateError):
        note = _own_register() / name
        if not note.is_symlink():
            sweep_register()
            note.symlink_to(stores)


def _owner() -> str | None:
    """Return the process of the executor; None where the kernel does not tell of processes."""
    try:
        parent = os.getppid()
        if _DAEMON in (_PROCESSES / str(parent) / "cmdline").read_text(errors="replace"):
            parent = int(_told(parent)[_PARENT])
        return _identity(parent)
    except (OSError, ValueError, IndexError):
        return None


def _identity(process: int) -> str:
    """Return a process by its number and its start: numbers come again."""
    return f"{process}-{_told(process)[_STARTED]}"


def _told(process: int) -> list[str]:
    # The name stands in brackets and may contain anything.
    return (_PROCESSES / str(process) / "stat").read_text(errors="replace").rpartition(")")[2].split()


def _is_alive(identity: str) -> bool:
    try:
        return _identity(int(identity.partition("-")[0])) == identity
    except (OSError, ValueError, IndexError):
        return False
