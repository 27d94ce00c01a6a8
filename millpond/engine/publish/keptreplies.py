"""Replies that wait in the checkpoint's own storage until they are handed over.

For checkpoints that are no folder. Such replies are as safe as the epoch itself: whatever other place is lost, an epoch
that was committed is still handed over. When that is done, a note says so, and it is durable before the first file
goes: deletions are not, in most storages. So an epoch is handed over at least once, and whole.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from millpond.checkpoint.records.manifest import Manifest, OutputFile
from millpond.engine.publish.replies import IN_CHECKPOINT, KEPT, is_over, staging_mark
from millpond.errors import StorageError
from millpond.state.local.ownfolders import make_private
from millpond.storage.content import FileRef, get_content
from millpond.storage.contract import Storage

HANDED = "_handed"
"""The folder of notes, beside the staged files, each about a sink's files of an epoch."""

_NOTES = f"outputs/{HANDED}"

Give = Callable[[list[Path]], None]
"""Hands files over; they are gone when it returns."""


class KeptReplies:
    """The replies in a checkpoint's storage; files are brought to a folder below `scratch` to be handed over."""

    def __init__(self, storage: Storage, scratch: Path) -> None:
        self._storage = storage
        self._scratch = scratch

    def deliver(self, manifest: Manifest, sink: str, outputs: Sequence[OutputFile], give: Give) -> None:
        """Hand the files of an epoch over to a sink, unless a note says that this is done."""
        note = f"{_NOTES}/{handed_note(manifest, sink)}"
        if not self._storage.contains(note):
            make_private(self._scratch)
            with tempfile.TemporaryDirectory(prefix="handed-", dir=self._scratch) as folder:
                give([self._brought(output, Path(folder)) for output in outputs])
            self._storage.put(note, b"")
        for output in outputs:
            self._storage.delete(f"{KEPT}/{output.file.name}")

    def sweep(self, manifest: Manifest) -> None:
        """Remove what earlier tries left, and notes about earlier epochs."""
        for folder, until in ((KEPT, manifest.epoch), (_NOTES, manifest.epoch - 1)):
            for name in self._storage.list(folder):
                if is_over(name.removeprefix(f"{folder}/"), until, manifest.checkpoint):
                    self._storage.delete(name)

    def _brought(self, output: OutputFile, folder: Path) -> Path:
        kept = FileRef(f"{KEPT}/{output.file.name}", output.file.size_bytes, output.file.sha256)
        path = folder / output.file.name
        try:
            path.write_bytes(get_content(self._storage, kept))
        except OSError as error:
            raise StorageError(
                "MP356",
                f"can't bring {output.file.name} to where it is handed over",
                expected=f"room in {self._scratch}, and the right to write there",
                found=str(error.strerror or error),
                hint="the epoch is committed; mend the folder, and a new start hands its replies over",
            ) from error
        return path


def is_kept(output: OutputFile) -> bool:
    """Whether a file waits in the checkpoint's storage."""
    return output.root == IN_CHECKPOINT


def handed_note(manifest: Manifest, sink: str) -> str:
    """The name of the note that a sink has got the files of an epoch."""
    mark = staging_mark(manifest.epoch, manifest.checkpoint)
    return f"{mark}-{hashlib.sha256(sink.encode()).hexdigest()[:16]}"
