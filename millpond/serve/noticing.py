"""Noticing that something was committed: the file system tells where it can, and elsewhere somebody looks.

>>> import tempfile
>>> from millpond.storage.backends.files import FileStorage
>>> with tempfile.TemporaryDirectory() as folder:
...     noticing = noticing_of(FileStorage(folder), 0.01)
...     noticing.wait()
...     noticing.close()
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Protocol

from millpond.checkpoint.records.manifest import MANIFESTS
from millpond.storage.contract import Storage
from millpond.storage.open import folder_of

TOLD_S = 1.0
"""Where the file system tells of commits, somebody looks all the same, so often."""


class Noticing(Protocol):
    """Waits until there may be something new."""

    def wait(self) -> None:
        """Return when something may have been committed, or after a while."""
        ...

    def close(self) -> None:
        """End all waiting."""
        ...


class Looking:
    """Looks again and again."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ended = threading.Event()

    def wait(self) -> None:
        """Wait for the next look."""
        self._ended.wait(self._seconds)

    def close(self) -> None:
        """End all waiting."""
        self._ended.set()


class Told:
    """Is told by the file system what happens in the folder of manifests."""

    def __init__(self, folder: Path) -> None:
        from watchfiles import RustNotify  # an extra: only who serves needs it

        self._ended = threading.Event()
        self._notify = RustNotify(
            [str(folder)],
            debug=False,
            force_polling=False,
            poll_delay_ms=0,
            recursive=False,
            ignore_permission_denied=False,
        )

    def wait(self) -> None:
        """Wait for a change in the folder."""
        if not self._ended.is_set():
            self._notify.watch(1, 1, int(TOLD_S * 1000), self._ended)

    def close(self) -> None:
        """End all waiting."""
        self._ended.set()


def noticing_of(storage: Storage, poll_s: float) -> Noticing:
    """Return what notices commits in a storage: where nobody tells, a look every `poll_s` seconds."""
    folder = folder_of(storage.url)
    manifests = None if folder is None else folder / MANIFESTS
    if manifests is not None and manifests.is_dir():
        try:
            return Told(manifests)
        except (ImportError, OSError, RuntimeError):
            # No room for another watch, or a file system that tells nothing.
            pass
    return Looking(poll_s)
