"""Storage in the memory of one process, for tests and trials."""

from __future__ import annotations

import os
import threading
import uuid

from millpond.errors import StorageError
from millpond.storage.contract import Names, PutOutcome, check_name, inside, missing

_named: dict[str, MemoryStorage] = {}
_named_lock = threading.Lock()
_THIS_PROGRAM = uuid.uuid4().hex[:12]


class MemoryStorage:
    """A storage that is gone with its process; its address is refused by every other process."""

    def __init__(self, label: str = "") -> None:
        self._label = label
        self._files: dict[str, bytes] = {}
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The address, which is good in this process alone; without a label it is only a name for people."""
        return f"memory://{self._label}?process={_here()}" if self._label else "memory:"

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
        """Say whether there is something under a name."""
        return check_name(name) in self._files

    def list(self, prefix: str) -> Names:
        """Return all names inside a folder, sorted."""
        if prefix:
            check_name(prefix)
        with self._lock:
            return inside(prefix, self._files)

    def delete(self, name: str) -> None:
        """Take a name away if it is there."""
        with self._lock:
            self._files.pop(check_name(name), None)


def open_memory(label: str, process: str) -> MemoryStorage:
    """Return the storage of this process with a label; an address that another process gave is refused."""
    check_name(label)
    if process and process != _here():
        raise StorageError(
            "MP337",
            f"the storage memory://{label} is in the memory of another process",
            expected="a program that runs in one process",
            hint="tasks of Spark run in processes of their own: use a folder, or any other storage that they can reach",
        )
    with _named_lock:
        return _named.setdefault(label, MemoryStorage(label))


def _here() -> str:
    return f"{os.getpid()}-{_THIS_PROGRAM}"
