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
        from watchfiles import watch  # an extra: only who serves needs it

        self._ended = threading.Event()
        self._told = watch(
            folder,
            stop_event=self._ended,
            debounce=1,
            step=1,
            rust_timeout=int(TOLD_S * 1000),
            yield_on_timeout=True,
            recursive=False,
            raise_interrupt=False,
        )

    def wait(self) -> None:
        """Wait for a change in the folder."""
        next(self._told, None)

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
