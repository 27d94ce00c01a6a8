"""Publication: after the commit, the files of an epoch become visible; doing it twice changes nothing.

Between the commit and this, files wait on a disk. So each is compared with what its manifest says of it before anybody
sees it: a file that is not the one that was staged is an error (MP321), and nothing of its sink is handed over. When
all files of a sink are out, a note says so before the staged ones go: without it, files that are nowhere are lost and
not published (MP320).
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from millpond.checkpoint.records.manifest import Manifest, OutputFile
from millpond.crashpoints import crashpoint
from millpond.engine.plan import SinkPlan
from millpond.engine.publish.keptreplies import HANDED, KeptReplies, handed_note, is_kept
from millpond.engine.publish.replies import IN_CHECKPOINT, STAGING, is_over, staging_mark
from millpond.errors import StorageError
from millpond.program.sinks import ConsoleSink, EpochSink, MemorySink, Sink
from millpond.storage.backends.files import FileStorage
from millpond.storage.diskerrors import not_plain
from millpond.storage.door import Door, Entry, EntryKind

HandOver = Callable[[EpochSink, list[Path], int], None]
"""Gives the files of an epoch to a user's function; Spark makes a DataFrame of them."""

Show = Callable[[str, pa.Table, int, int], None]
"""Prints a table: the feed, its rows, the epoch, and how many rows to show."""


_PIECE_BYTES = 1 << 20


class Publisher:
    """Makes the outputs of committed epochs visible; `kept` are those that wait in the checkpoint's storage, if any."""

    def __init__(
        self,
        sinks: Mapping[str, tuple[Sink, SinkPlan]],
        hand_over: HandOver,
        show: Show,
        kept: KeptReplies | None = None,
    ) -> None:
        self._sinks = sinks
        self._kept = kept
        self._hand_over = hand_over
        self._show = show
        self._door = Door()

    def publish(self, manifest: Manifest) -> None:
        """Publish an epoch's outputs; what is out already is left as it is."""
        by_sink: dict[tuple[str, str], list[OutputFile]] = {}
        for output in manifest.outputs:
            _check_mark(output, manifest)
            by_sink.setdefault((output.sink, output.root), []).append(output)
        for (name, root), outputs in by_sink.items():
            if not is_kept(outputs[0]):
                self._check_folder(Path(root) / STAGING)
            files = [Path(root) / STAGING / output.file.name for output in outputs]
            if outputs[0].visible:
                # Where the epoch said, also if the feed has another sink by now.
                self._move(files, Path(root), outputs, handed_note(manifest, name))
            elif name in self._sinks and is_kept(outputs[0]) and self._kept is not None:
                sink = self._sinks[name][0]
                self._kept.deliver(manifest, name, outputs, partial(self._give, sink, name, manifest.epoch, outputs))
            elif name in self._sinks:
                self._deliver(self._sinks[name][0], name, Path(root), files, manifest, outputs)
        self._sweep(manifest)

    def _sweep(self, manifest: Manifest) -> None:
        """Remove what earlier tries left: a try on other partitions stages other files than the one that won."""
        roots = {plan.root for _, plan in self._sinks.values()}
        if self._kept is not None and IN_CHECKPOINT in roots:
            self._kept.sweep(manifest)
        for root in sorted(roots - {IN_CHECKPOINT}):
            for part, until in ((STAGING, manifest.epoch), (HANDED, manifest.epoch - 1)):
                folder = Path(root) / part
                if self._entry(folder) is not None:
                    self._check_folder(folder)
                    with _coded("list", folder):
                        names = self._door.listdir(folder)
                    self._forget([folder / n for n in names if is_over(n, until, manifest.checkpoint)])

    def _move(self, staged: list[Path], root: Path, outputs: list[OutputFile], name: str) -> None:
        note = root / HANDED / name
        if self._is_published(staged, root, outputs, note):
            # Since then the files are their readers' business.
            self._forget(staged)
            return
        both = list(zip(staged, outputs, strict=True))
        waiting = [(path, output) for path, output in both if not self._is_out(root, output)]
        for path, output in waiting:
            if self._entry(path) is None:
                raise _missing(output.file.name, f"{path} or {root / output.file.name}")
            self._compare(path, output)
        for path, output in both:
            target = root / output.file.name
            if (path, output) in waiting:
                # Another driver may be publishing the same epoch: the same file under the same name.
                with suppress(FileExistsError), _coded("link", target, FileExistsError):
                    self._door.link(path, target)
            crashpoint("publish.file")
        with _coded("sync", root):
            self._door.sync_folder(root)
        self._note_published(staged[0], note)
        self._forget(staged)

    def _is_published(self, staged: list[Path], root: Path, outputs: list[OutputFile], note: Path) -> bool:
        """Whether all files were seen under their names, wherever their readers have moved them since."""
        if self._entry(note) is not None:
            return True
        if any(self._entry(path) for path in staged):
            return False
        # A sink whose folders are all gone was emptied by its owner; versions without notes began to clean up with the
        # first file.
        return not outputs[0].noted or not (self._entry(root / STAGING) or self._entry(root / HANDED))

    def _note_published(self, staged: Path, note: Path) -> None:
        """Make a note of the first staged file: in one step, so that one of the two is always there."""
        folder = note.parent
        if self._entry(folder) is None:
            with suppress(FileExistsError), _coded("make", folder, FileExistsError):
                self._door.mkdir(folder)
        self._check_folder(folder)
        # If it is gone, another driver has published the epoch meanwhile.
        with suppress(FileNotFoundError), _coded("rename", staged, FileNotFoundError):
            self._door.rename(staged, note)

    def _is_out(self, root: Path, output: OutputFile) -> bool:
        return self._entry(root / output.file.name) is not None

    def _deliver(
        self,
        sink: Sink,
        name: str,
        root: Path,
        files: list[Path],
        manifest: Manifest,
        outputs: list[OutputFile],
    ) -> None:
        """Hand files over, unless a note says that this is done; it is durable before the first file goes.

        Whatever a driver stages that has been overtaken meanwhile is told from that by the note.
        """
        notes, note = FileStorage(root), f"{HANDED}/{handed_note(manifest, name)}"
        # Versions without notes began to clean up with the first file.
        if not notes.contains(note) and (outputs[0].noted or self._entry(files[0]) is not None):
            for path in files:
                if self._entry(path) is None:
                    raise _missing(path.name, str(path))
            self._give(sink, name, manifest.epoch, outputs, files)
            notes.put(note, b"")
        self._forget(files)

    def _give(self, sink: Sink, name: str, epoch: int, outputs: list[OutputFile], files: list[Path]) -> None:
        both = list(zip(files, outputs, strict=True))
        match sink:
            case MemorySink():
                tables = [self._read(path, output) for path, output in both]
                sink.put(epoch, [row for table in tables for row in table.to_pylist()])
            case ConsoleSink(limit):
                self._show(name, pa.concat_tables([self._read(path, output) for path, output in both]), epoch, limit)
            case EpochSink():
                for path, output in both:
                    self._compare(path, output)
                self._hand_over(sink, files, epoch)

    def _read(self, path: Path, output: OutputFile) -> pa.Table:
        """The rows of a file, from the very bytes that were compared."""
        with _coded("read", path):
            data = self._door.read(path)
        _refuse_others(output, len(data), hashlib.sha256(data).hexdigest())
        return pq.read_table(pa.BufferReader(data))

    def _compare(self, path: Path, output: OutputFile) -> None:
        """Refuse a file that is not the one that was staged, piece by piece: it may be large."""
        digest, size = hashlib.sha256(), 0
        with _coded("read", path):
            descriptor = self._door.open_to_read(path)
            try:
                while data := self._door.read_at(descriptor, _PIECE_BYTES, size):
                    digest.update(data)
                    size += len(data)
            finally:
                self._door.close(descriptor)
        _refuse_others(output, size, digest.hexdigest())

    def _check_folder(self, folder: Path) -> None:
        """Refuse a link where files wait: it could lead what is moved and deleted anywhere."""
        entry = self._entry(folder)
        if entry is not None and entry.kind is not EntryKind.FOLDER:
            raise not_plain(str(folder), "a folder")

    def _forget(self, staged: list[Path]) -> None:
        for path in staged:
            with suppress(FileNotFoundError), _coded("unlink", path, FileNotFoundError):
                self._door.unlink(path)

    def _entry(self, path: Path) -> Entry | None:
        with _coded("look up", path):
            return self._door.entry(path)


def _missing(name: str, expected: str) -> StorageError:
    return StorageError(
        "MP320",
        f"a committed file of replies is missing: {name}",
        expected=expected,
        hint="restore it from a copy, or re-create the replies from a fork of the checkpoint",
    )


def _check_mark(output: OutputFile, manifest: Manifest) -> None:
    """Refuse a file that no task of this epoch can have staged: it would be moved and deleted."""
    mark = staging_mark(manifest.epoch, manifest.checkpoint)
    if not output.file.name.startswith(f"{mark}-"):
        raise StorageError(
            "MP305",
            "this can't be the name of a stored file",
            expected=f"a file of replies of epoch {manifest.epoch}, whose name begins with {mark}",
            found=ascii(output.file.name[:80]),
            hint="names come from Millpond itself; a manifest that names such a file did not",
        )


def _refuse_others(output: OutputFile, size_bytes: int, sha256: str) -> None:
    file = output.file
    if (size_bytes, sha256) != (file.size_bytes, file.sha256):
        raise StorageError(
            "MP321",
            f"a committed file of replies is damaged: {file.name}",
            expected=f"{file.size_bytes} bytes with SHA-256 {file.sha256}",
            found=f"{size_bytes} bytes with SHA-256 {sha256}",
            hint="restore it from a copy, or re-create the replies from a fork of the checkpoint; nothing of it was "
            "handed over",
        )


@contextmanager
def _coded(doing: str, path: Path, passing: type[OSError] | tuple[()] = ()) -> Iterator[None]:
    """Turn what the disk says into a coded error, but for the one answer that the caller wants to judge."""
    try:
        yield
    except passing:
        raise
    except OSError as error:
        code = "MP307" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "MP308" if doing == "sync" else "MP309"
        raise StorageError(
            code,
            f"can't {doing} {path} while publishing replies",
            found=str(error.strerror or error),
            hint="check the disk and the rights on the sink's folder; the epoch is committed, and a new start goes on "
            "with its publication",
        ) from error
