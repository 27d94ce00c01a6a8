"""A storage with a folder of this host beside it that nobody syncs, for what can be made anew or may be lost.

Whatever is put is kept, with the promises of the storage below; whoever is content with a file that is unsynced puts it
there (`unsynced_of`). Such files may be lost or torn when the machine dies: their references have the hash of their
content, so that reading one tells. Reading looks on the host first.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from millpond.crashpoints import crashpoint
from millpond.errors import MissingError
from millpond.storage.backends.files import FileStorage
from millpond.storage.composed.spread import is_by_content
from millpond.storage.contract import Names, PutOutcome, Storage
from millpond.storage.door import Door

SCHEME = "near"


def unsynced_storage(kept: Storage, known_as: str, local_root: str) -> UnsyncedStorage:
    """Return a storage on top of `kept`, with a folder of its own below the root of local stores."""
    digest = hashlib.sha256(known_as.encode()).hexdigest()[:16]
    return UnsyncedStorage(kept, Path(local_root) / f"near-{digest}")


def unsynced_of(storage: Storage) -> Storage:
    """Say where files are put that may be lost with this host: near it, if the storage has such a place."""
    return storage.unsynced if isinstance(storage, UnsyncedStorage) else storage


class _UnsyncedDoor(Door):
    """The disk without its promises: quick, and good until the machine dies."""

    def sync(self, descriptor: int) -> None:
        """Leave it to the system when the content of a file reaches the disk."""

    def sync_folder(self, path: Path) -> None:
        """Leave it to the system when names reach the disk."""


class UnsyncedPuts:
    """A storage as it is for near files: they are put into the folder, and looked for there first."""

    def __init__(self, kept: Storage, folder: str | Path) -> None:
        self.kept = kept
        self._folder = Path(folder).absolute()
        self._unsynced = FileStorage(self._folder, _UnsyncedDoor())

    @property
    def url(self) -> str:
        """Names both; good on this host alone."""
        return f"{self._url}&puts={SCHEME}"

    @property
    def _url(self) -> str:
        return f"{SCHEME}:?kept={quote(self.kept.url, safe='')}&folder={quote(str(self._folder), safe='')}"

    def put(self, name: str, data: bytes) -> PutOutcome:
        """Store `data` under a name that is free near the host.

        A torn file may be in the way, left by a machine that died: it is replaced, if its name follows from the data.
        """
        outcome = self._unsynced.put(name, data)
        if outcome is PutOutcome.PRESENT and is_by_content(name) and self._unsynced.get(name) != data:
            self._unsynced.delete(name)
            crashpoint("unsynced.replaced")
            return self._unsynced.put(name, data)
        return outcome

    def get(self, name: str) -> bytes:
        """Return the bytes under a name."""
        with suppress(MissingError):
            return self._unsynced.get(name)
        return self.kept.get(name)

    def contains(self, name: str) -> bool:
        """Say whether there is something under a name."""
        return self._unsynced.contains(name) or self.kept.contains(name)

    def list(self, prefix: str) -> Names:
        """Return all names inside a folder, sorted."""
        return sorted({*self._unsynced.list(prefix), *self.kept.list(prefix)})

    def delete(self, name: str) -> None:
        """Take a name away wherever it is."""
        self._unsynced.delete(name)
        self.kept.delete(name)


class UnsyncedStorage(UnsyncedPuts):
    """The same for all other files, which are put into the storage below."""

    @property
    def url(self) -> str:
        """Names both; good on this host alone."""
        return self._url

    @property
    def below(self) -> Storage:
        """The storage that files are put into."""
        return self.kept

    @property
    def unsynced(self) -> UnsyncedPuts:
        """The same storage, for near files."""
        return UnsyncedPuts(self.kept, self._folder)

    def put(self, name: str, data: bytes) -> PutOutcome:
        """Store `data` under a free name, durable on return."""
        return self.kept.put(name, data)

    def forget_unsynced(self, name: str) -> None:
        """Let go of what is near of a name that is durable by now, so that it is never read torn."""
        self._unsynced.delete(name)
