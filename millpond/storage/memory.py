"""Storage in the memory of one process, for tests and trials."""

from __future__ import annotations

import threading

from millpond.storage.contract import Names, PutOutcome, check_name, missing


class MemoryStorage:
    """A storage that is gone with its process; no other process can open it."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """A name for people; `open_storage` refuses it."""
        return "memory:"

    def put(self, name: str, data: bytes) -> PutOutcome:
        """Store `data` under a free name."""
        check_name(name)
        with self._lock:
            if name in self._files:
                return PutOutcome.PRESENT
            self._files[name] = bytes(data)
            return PutOutcome.WON

    def get(self, name: str) -> bytes:
        """Return the bytes under a name."""
        try:
            return self._files[check_name(name)]
        except KeyError:
            raise missing(name, self.url) from None

    def contains(self, name: str) -> bool:
        """Whether there is something under a name."""
        return check_name(name) in self._files

    def list(self, prefix: str) -> Names:
        """All names inside a folder, sorted."""
        folder = check_name(prefix) + "/" if prefix else ""
        with self._lock:
            return sorted(name for name in self._files if name.startswith(folder))

    def delete(self, name: str) -> None:
        """Take a name away if it is there."""
        with self._lock:
            self._files.pop(check_name(name), None)
