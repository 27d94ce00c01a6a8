"""The logs that this process has open: who opens one again reads only what was appended since, and not all of it.

Every task opens the checkpoint's storage by its address. A log is known as a whole by whoever reads it, so a process
that opened it once keeps what it knows. It is asked before it is used again whether the log is still the one that it
read: one that was cut, emptied, replaced or deleted is read anew, and compared with its witness.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from millpond.errors import StorageError
from millpond.storage.backends.log.log import LogStorage
from millpond.storage.door import Door, usual_door

LOGS_MAX = 8
"""Each keeps a file open; a process works on one checkpoint, or on a few."""


class _Known:
    """The logs of this process, the one that was asked for last at the end."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Know nothing: in a child, whose parent may have been in the middle of something."""
        self.lock = threading.Lock()
        self.logs: dict[Path, tuple[Door, LogStorage]] = {}


_known = _Known()
os.register_at_fork(after_in_child=_known.begin)


def shared_log(root: Path) -> LogStorage:
    """The log in a folder, as this process knows it already, or newly opened."""
    path, door = root.absolute(), usual_door()
    with _known.lock:
        logs = _known.logs
        before = logs.pop(path, None)
        if before is not None and before[0] is door and before[1].is_current():
            storage = before[1]
        else:
            if before is not None:
                _let_go(before[1])
            storage = LogStorage(path, door)
        logs[path] = (door, storage)
        while len(logs) > LOGS_MAX:
            # Whoever still uses it reads it anew.
            _let_go(logs.pop(next(iter(logs)))[1])
    return storage


def _let_go(storage: LogStorage) -> None:
    """Close the files of a log that is not used any more; what it has acknowledged is synced, so none can be lost."""
    with suppress(StorageError):
        storage.let_go()
