"""The Parquet sink: a directory whose readers see whole files of committed epochs or nothing.

Files wait in the directory itself, in a folder that readers skip, and are published by a second name. Such a name is
the token: it says checkpoint, epoch, task, sink and content.

>>> parquet("file:///data/replies").describe()
SinkDescription(place='/data/replies', exactly_once=True, staging=PosixPath('/data/replies'), manifest_tells=True)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from millpond.crashpoints import crashpoint
from millpond.errors import FeedError
from millpond.sinks.dataset import DatasetSink
from millpond.sinks.disk import publishing
from millpond.sinks.protocol import Sink, SinkDescription, Staged
from millpond.sinks.tokens import Token
from millpond.storage.addresses import shown_url
from millpond.storage.backends.files import FileStorage
from millpond.storage.contract import folder_url
from millpond.storage.door import usual_door
from millpond.storage.open import is_plain_path, open_storage

if TYPE_CHECKING:
    import pyarrow as pa

OBJECT_STORES = ("s3", "gs", "az")


@dataclass(frozen=True, slots=True)
class ParquetSink(Sink):
    """A directory of Parquet files; exactly once, and readers never see an uncommitted epoch."""

    path: str

    def __repr__(self) -> str:
        return f"parquet({shown_url(self.path)!r})"

    def describe(self) -> SinkDescription:
        """Describe a place that shows what it holds, in which files can wait."""
        return SinkDescription(shown_url(self.path), exactly_once=True, staging=Path(self.path), manifest_tells=True)

    def publish(self, token: Token, staged: Staged) -> None:  # noqa: ARG002
        """Give the files names that readers see; all are durable when this returns."""
        door, root = usual_door(), Path(self.path)
        for file in staged.files:
            target = root / file.token.file
            if file.path.is_relative_to(root):
                # Another driver may be publishing the same epoch: the same file under the same name.
                with suppress(FileExistsError), publishing("link", target, FileExistsError):
                    door.link(file.path, target)
            else:
                # The epoch was staged for another sink, which the feed had then.
                FileStorage(root).put(file.token.file, file.path.read_bytes())
            crashpoint("publish.file")
        with publishing("sync", root):
            door.sync_folder(root)

    def recover(self, token: Token, files: Sequence[Token]) -> Collection[Token]:  # noqa: ARG002
        """Return the files that are there under their names; they are their readers' business."""
        door, there = usual_door(), []
        for file in files:
            with publishing("look up", target := Path(self.path) / file.file):
                if door.entry(target) is not None:
                    there.append(file)
        return there

    def held(self, schema: pa.Schema) -> Path:  # noqa: ARG002
        """Return the directory."""
        return Path(self.path)


def parquet(path: str | Path, *, partition_by: Sequence[str] = (), join: bool = False) -> ParquetSink | DatasetSink:
    """Write replies to a directory of Parquet files, exactly once; readers never see an uncommitted epoch.

    `path` is a folder that tasks share, or an address of an object store: s3://bucket/folder, gs://, az://. With
    `partition_by` files lie in folders as Hive names them, `day=2026-01-01`; with `join` the files of an epoch become
    one, or one in each folder. On object stores, and with these options, the driver writes the files.
    """
    folder = path if isinstance(path, Path) else folder_in(path)
    if folder is None and path and str(path).partition("://")[0] in OBJECT_STORES:
        open_storage(str(path))  # an address that is none, or a package that is missing, is told now
        return DatasetSink(str(path), tuple(partition_by), join)
    if folder is None:
        raise FeedError(
            "MP502",
            "a Parquet sink can't be at this place",
            expected="a directory of a POSIX file system, or s3://, gs://, az:// with a bucket and a folder",
            # Not the address itself: it may hold a password.
            found="an address, or what looks like one" if path else "nothing",
        )
    if partition_by or join:
        return DatasetSink(folder_url("file", folder.absolute()), tuple(partition_by), join)
    return ParquetSink(str(folder.absolute()))


def folder_in(text: str) -> Path | None:
    """Return the folder that a text names; None if it is an address of something else, or may be a mistyped one."""
    plain = text.removeprefix("file://").removeprefix("file:")
    if plain != text and ("?" in plain or "#" in plain or (text.startswith("file://") and not plain.startswith("/"))):
        return None
    # A colon before the first slash ends a scheme, however it goes on; a folder of such a name is written ./a:b.
    return Path(plain) if ":" not in plain.partition("/")[0] and is_plain_path(plain) else None
