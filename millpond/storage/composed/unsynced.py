"""A storage whose deltas stay near: in a folder of this host that nobody syncs, while all else is kept as ever.

For what can be made anew from what is kept. Near files may be lost or torn when the machine dies: they are named by the
hash of their content, so that reading one tells. Everything else goes to the storage below, with its promises.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from millpond.crashpoints import crashpoint
from millpond.errors import MissingError
from millpond.storage.backends.files import FileStorage
from millpond.storage.content import NAME_DIGITS
from millpond.storage.contract import Names, PutOutcome, Storage
from millpond.storage.door import Door

SCHEME = "near"

NEAR = "deltas/"
"""How names begin that stay near."""


def unsynced_storage(kept: Storage, known_as: str, local_root: str) -> UnsyncedStorage:
    """A storage on top of `kept`, with a folder of its own below the root of local stores."""
    digest = hashlib.sha256(known_as.encode()).hexdigest()[:16]
    return UnsyncedStorage(kept, Path(local_root) / f"near-{digest}")


def durable(storage: Storage) -> Storage:
    """The storage for what can't be made anew."""
    return storage.kept if isinstance(storage, UnsyncedStorage) else storage


class _UnsyncedDoor(Door):
    """The disk without its promises: quick, and good until the machine dies."""

    def sync(self, descriptor: int) -> None:
        """Leave it to the system when the content of a file reaches the disk."""

    def sync_folder(self, path: Path) -> None:
        """Leave it to the system when names reach the disk."""


class UnsyncedStorage:
    """A storage on top of another one; deltas that are not near are looked for there."""

    def __init__(self, kept: Storage, folder: str | Path) -> None:
        self.kept = kept
        self._folder = Path(folder).absolute()
        self._near = FileStorage(self._folder, _UnsyncedDoor())

    @property
    def url(self) -> str:
        """Names both; good on this host alone."""
        return f"{SCHEME}:?kept={quote(self.kept.url, safe='')}&folder={quote(str(self._folder), safe='')}"

    def put(self, name: str, data: bytes) -> PutOutcome:
        """Store `data` under a free name, near or durable as the name says.

        A torn file may be in the way, left by a machine that died: it is replaced, if the name is the data's own.
        """
        if not name.startswith(NEAR):
            return self.kept.put(name, data)
        outcome = self._near.put(name, data)
        own = name == NEAR + hashlib.sha256(data).hexdigest()[:NAME_DIGITS]
        if outcome is PutOutcome.PRESENT and own and self._near.get(name) != data:
            self._near.delete(name)
            crashpoint("near.replaced")
            return self._near.put(name, data)
        return outcome

    def get(self, name: str) -> bytes:
        """Return the bytes under a name."""
        if not name.startswith(NEAR):
            return self.kept.get(name)
        with suppress(MissingError):
            return self._near.get(name)
        return self.kept.get(name)

    def forget_near(self, name: str) -> None:
        """Let go of what is near of a name that is durable by now, so that it is never read torn."""
        self._near.delete(name)

    def contains(self, name: str) -> bool:
        """Whether there is something under a name."""
        return (name.startswith(NEAR) and self._near.contains(name)) or self.kept.contains(name)

    def list(self, prefix: str) -> Names:
        """All names inside a folder, sorted."""
        return sorted({*self._near.list(prefix), *self.kept.list(prefix)})

    def delete(self, name: str) -> None:
        """Take a name away wherever it is."""
        if name.startswith(NEAR):
            self._near.delete(name)
        self.kept.delete(name)
