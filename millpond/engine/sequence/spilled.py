"""A base over another one, to which changes are put that have no room in memory: in a file that goes with the process.

>>> from millpond.state.overlay import DictBase
>>> with Spilled(DictBase({b"abca": b"1", b"abcb": b"2"}), Path(tempfile.gettempdir())) as base:
...     base.put(Changes([b"abca", b"abcc"], [None, b"3"]))
...     base.get(b"abca"), base.get_many([b"abcb", b"abcc"]), list(base.scan(b"abc")), list(base.portions(1))
(None, [b'2', b'3'], [(b'abcb', b'2'), (b'abcc', b'3')], [Changes(keys=[b'abca'], values=[None]), Changes(keys=[b'abcc'], values=[b'3'])])
"""  # noqa: E501 - the example is one line

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from millpond.state.changes import Changes
from millpond.state.overlay import Base
from millpond.storage.door import coded

_CACHE_KB: Final = 16 * 1024
_ASKED_AT_ONCE: Final = 500
_SETTINGS: Final = (
    "PRAGMA journal_mode=OFF",
    "PRAGMA synchronous=OFF",
    "PRAGMA locking_mode=EXCLUSIVE",
    "PRAGMA mmap_size=0",
    f"PRAGMA cache_size=-{_CACHE_KB}",
    "CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID",
)


class Spilled:
    """What a base holds, with changes; None is a tombstone."""

    def __init__(self, below: Base, folder: Path) -> None:
        self._below = below
        self._folder = folder
        self._file: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def used(self) -> bool:
        """Whether anything was put down."""
        return self._file is not None

    def put(self, changes: Changes) -> None:
        """Put changes over all that is there."""
        with coded("write", "entries that have no room in memory"):
            if self._file is None:
                self._file = self._opened()
            self._file.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", changes.pairs())
            self._file.commit()

    def _opened(self) -> sqlite3.Connection:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        number, name = tempfile.mkstemp(dir=self._folder)
        os.close(number)
        file = sqlite3.connect(name)
        for setting in _SETTINGS:
            file.execute(setting)
        # It is open, and nobody else is to find it.
        Path(name).unlink()
        return file

    def get(self, key: bytes) -> bytes | None:
        """Return one entry, or None."""
        if self._file is not None:
            found = self._file.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
            if found is not None:
                value: bytes | None = found[0]
                return value
        return self._below.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of different `keys`, None where there is none."""
        if self._file is None:
            return self._below.get_many(keys)
        found: dict[bytes, bytes | None] = {}
        ordered = sorted(keys)
        for start in range(0, len(ordered), _ASKED_AT_ONCE):
            asked = ordered[start : start + _ASKED_AT_ONCE]
            marks = ",".join("?" * len(asked))
            # The text holds nothing but marks, of which there are two numbers: it is prepared once.
            found.update(self._file.execute(f"SELECT key, value FROM entries WHERE key IN ({marks})", asked))  # noqa: S608
        below = [key for key in keys if key not in found]
        found.update(zip(below, self._below.get_many(below), strict=True))
        return list(map(found.__getitem__, keys))

    def scan(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        """Return all entries of one element and key group, in key order."""
        if self._file is None:
            return self._below.scan(prefix)
        found: dict[bytes, bytes | None] = dict(self._below.scan(prefix))
        found.update(self._between(prefix))
        return [(key, value) for key in sorted(found) if (value := found[key]) is not None]

    def _between(self, prefix: bytes) -> Iterator[tuple[bytes, bytes | None]]:
        assert self._file is not None
        rows = self._file.execute("SELECT key, value FROM entries WHERE key >= ? ORDER BY key", (prefix,))
        for key, value in rows:
            if not key.startswith(prefix):
                break
            yield key, value

    def portions(self, entries: int) -> Iterator[Changes]:
        """Return all changes in the order of their keys, so many at a time."""
        if self._file is None:
            return
        rows = self._file.execute("SELECT key, value FROM entries ORDER BY key")
        while found := rows.fetchmany(entries):
            yield Changes([key for key, _ in found], [value for _, value in found])
