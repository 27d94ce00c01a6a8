"""A follower's own copy of the state, in LMDB: all key groups, at one committed epoch at a time.

It is a local store as tasks have it, of a single partition that owns everything: brought up by the deltas of the epochs
that it lacks, restored from the snapshot if it lags too far behind or stands on another timeline, checked by the same
checksums, and rebuilt if it is damaged. A view of an epoch stays what it is while the next one is applied.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from millpond.checkpoint.commit.commit import parent_of
from millpond.checkpoint.read.history import Point
from millpond.checkpoint.records.manifest import Genesis
from millpond.engine.local_state.openstate import default_local_root, open_state
from millpond.errors import ServeError
from millpond.ids import PartitionId
from millpond.keygroups import Layout
from millpond.state.local.ownfolders import make_private, own_folder
from millpond.state.local.storeview import StoreView
from millpond.storage.contract import Storage

_ALL = PartitionId(0)
_FOLLOWERS_MAX = 1024


class Held:
    """A view of one epoch that several readers share; it is closed when the last of them is done."""

    def __init__(self, view: StoreView) -> None:
        self._view = view
        self._users = 1
        self._lock = threading.Lock()

    def take(self) -> Held:
        """Use the view, too; whoever does gives it back once."""
        with self._lock:
            assert self._users > 0
            self._users += 1
        return self

    def give_back(self) -> None:
        """Be done with the view."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._view.close()

    def get(self, key: bytes) -> bytes | None:
        """Return one entry, or None."""
        with self._lock:
            return self._view.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of different `keys`, None where there is none."""
        with self._lock:
            return self._view.get_many(keys)

    def scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Return all entries whose key starts with `prefix`, in key order."""
        with self._lock:
            return list(self._view.scan(prefix))


class Replica:
    """The copy of one follower; no other one may have its folder meanwhile (MP885).

    Without a folder it lies in one of the user's own among the temporary files, which another start finds again.
    """

    def __init__(self, storage: Storage, folder: str | Path | None = None) -> None:
        self._storage = storage
        self.folder, self._lock = _taken(storage, folder)

    def view(self, genesis: Genesis, point: Point) -> Held:
        """Bring the copy to an epoch, and return a view of it."""
        parent = parent_of(genesis, point.manifest, point.hash)
        layout = Layout(genesis.key_groups, 1, point.instances, aligned=False)
        return Held(open_state(self._storage, str(self.folder), parent, layout, _ALL, "eager"))

    def close(self) -> None:
        """Let another follower have the folder; the copy stays for the next start."""
        os.close(self._lock)


def _taken(storage: Storage, folder: str | Path | None) -> tuple[Path, int]:
    """Return a folder that nobody else follows in, and what holds it."""
    if folder is not None:
        path = Path(folder).absolute()
        make_private(path)
        lock = _locked(path)
        if lock is None:
            raise ServeError(
                "MP885",
                "another follower keeps its copy in this folder",
                expected="a folder for each follower",
                found=str(path),
                hint="give each follower a folder of its own, or none: then each finds one",
            )
        return path, lock
    root = own_folder(Path(default_local_root(f"{storage.url}#followers", tempfile.gettempdir())))
    for number in range(_FOLLOWERS_MAX):
        path = root / f"{number}"
        make_private(path)
        lock = _locked(path)
        if lock is not None:
            return path, lock
    raise ServeError(
        "MP885",
        "there are too many followers of this checkpoint on this machine",
        expected=f"at most {_FOLLOWERS_MAX} without a folder of their own",
        found=str(root),
    )


def _locked(folder: Path) -> int | None:
    """Lock a folder for as long as this process lives; None if somebody else has it."""
    held = os.open(folder / "follower", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with suppress(BlockingIOError):
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return held
    os.close(held)
    return None
