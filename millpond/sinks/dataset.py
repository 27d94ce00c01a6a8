"""Parquet files that are written anew when they are published: on object stores, joined, or in folders of partitions.

Each file appears whole, under a name that follows from the tokens, and only of committed epochs. If an epoch is several
files, a note in the folder `_millpond` says that all of them are there; readers skip names that begin with `_`.

>>> import pyarrow as pa
>>> [(folder, rows.to_pylist()) for folder, rows in parted(pa.table({"day": ["a b", None], "n": [1, 2]}), ["day"])]
[('day=a%20b', [{'n': 1}]), ('day=__HIVE_DEFAULT_PARTITION__', [{'n': 2}])]
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from millpond.crashpoints import crashpoint
from millpond.errors import SinkError
from millpond.sinks.protocol import Sink, SinkDescription, Staged
from millpond.sinks.tokens import Token
from millpond.storage.addresses import shown_url
from millpond.storage.contract import Storage
from millpond.storage.open import open_storage

if TYPE_CHECKING:
    import pyarrow as pa

NOTES = "_millpond"
_NOTHING = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class DatasetSink(Sink):
    """Parquet files at an address, exactly once; of a committed epoch each appears whole."""

    url: str
    partition_by: tuple[str, ...]
    join: bool

    def __repr__(self) -> str:
        return f"parquet({shown_url(self.url)!r})"

    def describe(self) -> SinkDescription:
        """Describe a place that knows by names what it holds."""
        return SinkDescription(shown_url(self.url), exactly_once=True)

    def publish(self, token: Token, staged: Staged) -> None:
        """Put the files under their names, and then a note that names them; what is there already is the same."""
        storage = open_storage(self.url)
        if self.join:
            self._put(storage, _joined([file.token for file in staged.files]), staged.table())
        else:
            for file in staged.files:
                if self.partition_by:
                    self._put(storage, file.token.file, file.read())
                else:
                    storage.put(file.token.file, file.path.read_bytes())
                    crashpoint("publish.file")
        if self._notes:
            note = self._note(token, [file.token for file in staged.files])
            storage.put(note, "\n".join(file.token.file for file in staged.files).encode())
            self._forget(storage, token, note)

    def recover(self, token: Token, files: Sequence[Token]) -> Collection[Token]:
        """Tell which files are there."""
        if not files:
            return ()
        storage = open_storage(self.url)
        if self._notes:
            return files if storage.contains(self._note(token, files)) else ()
        if self.join:
            return files if storage.contains(_joined(files)) else ()
        return [file for file in files if storage.contains(file.file)]

    @property
    def _notes(self) -> bool:
        return bool(self.partition_by)

    def _put(self, storage: Storage, name: str, rows: pa.Table) -> None:
        parts = parted(rows, self.partition_by) if self.partition_by else [("", rows)]
        for folder, part in parts:
            storage.put(f"{folder}/{name}" if folder else name, _parquet(part))
            crashpoint("publish.file")

    def _note(self, token: Token, files: Sequence[Token]) -> str:
        return f"{NOTES}/{_writer(token)}-{_joined(files)}"

    def _forget(self, storage: Storage, token: Token, last: str) -> None:
        """Remove the notes of earlier epochs, which nobody asks for again."""
        for name in storage.list(NOTES):
            if name.startswith(f"{NOTES}/{_writer(token)}-") and name != last:
                storage.delete(name)


def parted(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Return the rows of each folder, without the columns that the folder's name tells, in the order of the names.

    Folders are named as Hive does it: `day=2026-01-01/kind=a`.
    """
    import pyarrow as pa

    if missing := [name for name in columns if name not in rows.column_names]:
        raise SinkError(
            "MP803",
            "a sink names columns that its rows do not have",
            expected=f"some of {', '.join(rows.column_names)}",
            found=", ".join(missing),
            hint="`keep` of feed() says which columns stay beside the reply",
        )
    values = [rows.column(name).to_pylist() for name in columns]
    folders: dict[str, list[int]] = {}
    for at, parts in enumerate(zip(*values, strict=True)):
        folder = "/".join(f"{_text(name)}={_text(value)}" for name, value in zip(columns, parts, strict=True))
        folders.setdefault(folder, []).append(at)
    others = rows.drop_columns(list(columns))
    for folder, places in folders.items():
        yield folder, others.take(pa.array(places))


def _text(value: Any) -> str:
    """Return a value as Hive has it in the name of a folder."""
    if value is None:
        return _NOTHING
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return quote(text, safe="").replace("~", "%7E")


def _joined(files: Sequence[Token]) -> str:
    """Return the name of what these files are together."""
    names = sorted(file.file for file in files)
    mark = "-".join(names[0].split("-")[:2])
    return f"{mark}-{hashlib.sha256(chr(0).join(names).encode()).hexdigest()[:24]}.parquet"


def _writer(token: Token) -> str:
    return hashlib.sha256(token.writer.encode()).hexdigest()[:16]


def _parquet(rows: pa.Table) -> bytes:
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(rows, buffer)
    return buffer.getvalue()
