"""Where files of replies wait between the commit and their publication, and the notes that say when that was.

Files wait in a folder, the sink's own or the checkpoint's, or in the storage of a checkpoint that is no folder: there
they are as safe as the epoch itself. Between the commit and publication a disk may lose or change them, so each is
compared with what its manifest says of it (MP321), and missed if it is nowhere (MP320). When a sink has got all files
of an epoch, a note says so before the first one goes: what a power cut or an overtaken driver brings back is told from
what still waits by that.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from millpond.checkpoint.records.manifest import Manifest, OutputFile
from millpond.engine.publish.replies import KEPT, STAGING, is_over, staging_mark
from millpond.errors import StorageError
from millpond.sinks.disk import publishing
from millpond.state.local.ownfolders import make_private
from millpond.storage.backends.files import FileStorage
from millpond.storage.content import FileRef, get_content
from millpond.storage.contract import Storage
from millpond.storage.door import Entry, EntryKind, not_plain, usual_door

HANDED = "_handed"
"""The folder of notes, beside the staged files, each about a sink's files of an epoch."""

_NOTES = f"outputs/{HANDED}"
_PIECE_BYTES = 1 << 20

Outputs = Sequence[OutputFile]
"""Files of one epoch for one sink."""


class StagingArea(Protocol):
    """A place where files wait."""

    def is_published(self, note: str, outputs: Outputs) -> bool:
        """Say whether the sink has got all of these files."""

    def check_there(self, note: str, outputs: Outputs) -> bool:
        """Say whether files wait; False if another driver has published them meanwhile, an error if they are lost."""

    def taken(self, outputs: Outputs) -> AbstractContextManager[list[Path]]:
        """Files on the driver's disk, each found to be the one that was staged."""

    def note(self, note: str, outputs: Outputs, *, told_by_sink: bool) -> None:
        """Note that the sink has got all files; it need not outlive a power cut if the sink itself can tell."""

    def forget(self, outputs: Outputs) -> None:
        """Remove files that are published."""

    def sweep(self, manifest: Manifest) -> None:
        """Remove what earlier tries left, and notes about earlier epochs."""


class FolderArea:
    """A folder; files wait in a folder of it, and there is another one for notes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._door = usual_door()

    def is_published(self, note: str, outputs: Outputs) -> bool:
        """Say whether a note says so, or nothing waits and nobody would have made a note."""
        self._check_folder(self._root / STAGING)
        if self._entry(self._root / HANDED / note) is not None:
            return True
        if not outputs[0].noted:
            # Versions without notes began to clean up with the first file.
            return self._entry(self._path(outputs[0])) is None
        # A place that shows its files, whose folders are all gone, was emptied by its owner.
        return outputs[0].visible and not (self._entry(self._root / STAGING) or self._entry(self._root / HANDED))

    def check_there(self, note: str, outputs: Outputs) -> bool:
        """Say whether files wait; False if another driver has published them meanwhile, an error if they are lost."""
        lost = next((output for output in outputs if self._entry(self._path(output)) is None), None)
        if lost is not None and not self.is_published(note, outputs):
            raise StorageError(
                "MP320",
                f"a committed file of replies is missing: {lost.file.name}",
                expected=f"{self._path(lost)}, or that the sink holds it",
                hint="restore it from a copy, or re-create the replies from a fork of the checkpoint",
            )
        return lost is None

    @contextmanager
    def taken(self, outputs: Outputs) -> Iterator[list[Path]]:
        """Files where they wait."""
        for output in outputs:
            self._compare(output)
        yield [self._path(output) for output in outputs]

    def note(self, note: str, outputs: Outputs, *, told_by_sink: bool) -> None:
        """Put a durable note; or make one of the first file, in one step, so that one of the two is always there."""
        if not told_by_sink:
            FileStorage(self._root).put(f"{HANDED}/{note}", b"")
            return
        folder = self._root / HANDED
        if self._entry(folder) is None:
            with suppress(FileExistsError), publishing("make", folder, FileExistsError):
                self._door.mkdir(folder)
        self._check_folder(folder)
        first = self._path(outputs[0])
        # If it is gone, another driver has published the epoch meanwhile.
        with suppress(FileNotFoundError), publishing("rename", first, FileNotFoundError):
            self._door.rename(first, folder / note)

    def forget(self, outputs: Outputs) -> None:
        """Remove files that are published."""
        self._unlink(self._path(output) for output in outputs)

    def sweep(self, manifest: Manifest) -> None:
        """Remove what earlier tries left, and notes about earlier epochs."""
        for part, until in ((STAGING, manifest.epoch), (HANDED, manifest.epoch - 1)):
            folder = self._root / part
            if self._entry(folder) is not None:
                self._check_folder(folder)
                with publishing("list", folder):
                    names = self._door.listdir(folder)
                self._unlink(folder / name for name in names if is_over(name, until, manifest.checkpoint))

    def _path(self, output: OutputFile) -> Path:
        return self._root / STAGING / output.file.name

    def _compare(self, output: OutputFile) -> None:
        """Refuse a file that is not the one that was staged, piece by piece: it may be large."""
        digest, size, path = hashlib.sha256(), 0, self._path(output)
        with publishing("read", path):
            descriptor = self._door.open_to_read(path)
            try:
                while data := self._door.read_at(descriptor, _PIECE_BYTES, size):
                    digest.update(data)
                    size += len(data)
            finally:
                self._door.close(descriptor)
        if (size, digest.hexdigest()) != (output.file.size_bytes, output.file.sha256):
            raise StorageError(
                "MP321",
                f"a committed file of replies is damaged: {output.file.name}",
                expected=f"{output.file.size_bytes} bytes with SHA-256 {output.file.sha256}",
                found=f"{size} bytes with SHA-256 {digest.hexdigest()}",
                hint="restore it from a copy, or re-create the replies from a fork of the checkpoint; nothing of it "
                "was handed over",
            )

    def _check_folder(self, folder: Path) -> None:
        """Refuse a link where files wait: it could lead what is moved and deleted anywhere."""
        entry = self._entry(folder)
        if entry is not None and entry.kind is not EntryKind.FOLDER:
            raise not_plain(str(folder), "a folder")

    def _unlink(self, paths: Iterator[Path]) -> None:
        for path in paths:
            with suppress(FileNotFoundError), publishing("unlink", path, FileNotFoundError):
                self._door.unlink(path)

    def _entry(self, path: Path) -> Entry | None:
        with publishing("look up", path):
            return self._door.entry(path)


class CheckpointArea:
    """The storage of a checkpoint; files are brought to a folder below `scratch` to be handed over.

    Deletions are not durable in most storages, so a note always is.
    """

    def __init__(self, storage: Storage, scratch: Path) -> None:
        self._storage = storage
        self._scratch = scratch

    def is_published(self, note: str, outputs: Outputs) -> bool:  # noqa: ARG002
        """Say whether a note says so."""
        return self._storage.contains(f"{_NOTES}/{note}")

    def check_there(self, note: str, outputs: Outputs) -> bool:  # noqa: ARG002
        """Leave it to the reading of files: what a storage has lost is an error of its own."""
        return True

    @contextmanager
    def taken(self, outputs: Outputs) -> Iterator[list[Path]]:
        """Copy files; the copies are gone afterwards."""
        make_private(self._scratch)
        with tempfile.TemporaryDirectory(prefix="handed-", dir=self._scratch) as folder:
            yield [self._fetched(output, Path(folder)) for output in outputs]

    def note(self, note: str, outputs: Outputs, *, told_by_sink: bool) -> None:  # noqa: ARG002
        """Put a note."""
        self._storage.put(f"{_NOTES}/{note}", b"")

    def forget(self, outputs: Outputs) -> None:
        """Remove files that are published."""
        for output in outputs:
            self._storage.delete(f"{KEPT}/{output.file.name}")

    def sweep(self, manifest: Manifest) -> None:
        """Remove what earlier tries left, and notes about earlier epochs."""
        for folder, until in ((KEPT, manifest.epoch), (_NOTES, manifest.epoch - 1)):
            for name in self._storage.list(folder):
                if is_over(name.removeprefix(f"{folder}/"), until, manifest.checkpoint):
                    self._storage.delete(name)

    def _fetched(self, output: OutputFile, folder: Path) -> Path:
        kept = FileRef(f"{KEPT}/{output.file.name}", output.file.size_bytes, output.file.sha256)
        path = folder / output.file.name
        try:
            path.write_bytes(get_content(self._storage, kept))
        except OSError as error:
            raise StorageError(
                "MP356",
                f"can't copy {output.file.name} to where it is published",
                expected=f"room in {self._scratch}, and the right to write there",
                found=str(error.strerror or error),
                hint="the epoch is committed; repair the folder, and a new start publishes its replies",
            ) from error
        return path


def notes_of(manifest: Manifest, sink: str, outputs: Outputs) -> tuple[str, ...]:
    """Return the names of the notes that a sink has got these files of an epoch, the usual one first.

    Older versions made them for whatever files the epoch had. Such a note says nothing of a later epoch that got its
    number by a repair: what it is about was written in format 1.
    """
    usual = _note(manifest, "\0".join((sink, *(output.file.name for output in outputs))))
    return (usual, _note(manifest, sink)) if manifest.format == 1 else (usual,)


def _note(manifest: Manifest, about: str) -> str:
    mark = staging_mark(manifest.epoch, manifest.checkpoint)
    return f"{mark}-{hashlib.sha256(about.encode()).hexdigest()[:16]}"
