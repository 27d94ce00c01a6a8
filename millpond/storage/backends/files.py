"""Storage in a folder of a POSIX file system: a put is staged, synced, then linked to its name, which one wins."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from millpond.clock import Clock, SystemClock
from millpond.crashpoints import crashpoint
from millpond.storage.contract import COMMITS, Names, PutOutcome, Span, check_name, missing
from millpond.storage.door import Door, Durable, EntryKind, coded, not_plain, usual_door

STAGING = ".staging"
STAGING_AGE_MAX_MS = 60 * 60 * 1000
"""No put takes an hour, so a staged file this old belongs to a process that died."""

_CLOCK = SystemClock()


class FileStorage:
    """A storage under one folder; it makes the folder at the first put.

    After a failed sync this object refuses every further put: what the disk holds is known only to a new start.
    """

    def __init__(self, root: str | Path, door: Door | None = None, clock: Clock = _CLOCK) -> None:
        self._root = Path(root).absolute()
        self._door = door or usual_door()
        self._durable = Durable(self._root, self._door)
        self._sweep(clock.now_ms() - STAGING_AGE_MAX_MS)

    @property
    def url(self) -> str:
        """The folder's path."""
        return str(self._root)

    def put(self, name: str, data: bytes) -> PutOutcome:
        """Store `data` under a free name, durable on return."""
        path = self._path_of(name)
        self._durable.check(name)
        self._durable.make_folder(self._root / STAGING)
        self._durable.make_folder(path.parent)
        staged = self._root / STAGING / uuid.uuid4().hex
        try:
            self._write(staged, data, name)
            if name.startswith(COMMITS):
                crashpoint("manifest.staged")
            else:
                crashpoint("file.staged")
            outcome = self._link(staged, path, name)
            if name.startswith(COMMITS):
                crashpoint("manifest.linked")
            else:
                crashpoint("file.linked")
            # Also when the name was taken: its writer may have died before this sync, and our caller builds on it.
            with self._durable.syncing(name):
                self._door.sync_folder(path.parent)
            return outcome
        finally:
            # Whatever is left in the staging folder is never read, so failing to clean up changes nothing.
            with suppress(OSError):
                self._door.unlink(staged)

    def get(self, name: str) -> bytes:
        """Return the bytes under a name."""
        path = self._path_of(name)
        self._refuse_links(path.parent)
        try:
            with coded("read", name, FileNotFoundError):
                return self._door.read(path)
        except FileNotFoundError:
            raise missing(name, self.url) from None

    def get_parts(self, name: str, spans: Sequence[Span]) -> Sequence[bytes]:
        """Return the bytes under a name from one place to another, for each pair of places."""
        path = self._path_of(name)
        self._refuse_links(path.parent)
        try:
            with coded("read", name, FileNotFoundError):
                return self._read_parts(path, spans)
        except FileNotFoundError:
            raise missing(name, self.url) from None

    def contains(self, name: str) -> bool:
        """Say whether there is something under a name."""
        path = self._path_of(name)
        self._refuse_links(path)
        with coded("look up", name):
            entry = self._door.entry(path)
        return entry is not None and entry.kind is EntryKind.FILE

    def list(self, prefix: str) -> Names:
        """Return all names inside a folder, sorted."""
        folder = self._root / check_name(prefix) if prefix else self._root
        self._refuse_links(folder)
        return sorted(self._walk(folder))

    def delete(self, name: str) -> None:
        """Take a name away if it is there."""
        path = self._path_of(name)
        self._refuse_links(path.parent)
        with suppress(FileNotFoundError), coded("delete", name, FileNotFoundError):
            self._door.unlink(path)

    def _path_of(self, name: str) -> Path:
        return self._root / check_name(name)

    def _write(self, staged: Path, data: bytes, name: str) -> None:
        with coded("write", name):
            descriptor = self._door.create(staged)
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[self._door.write(descriptor, rest) :]
                with self._durable.syncing(name):
                    self._door.sync(descriptor)
            finally:
                self._door.close(descriptor)

    def _read_parts(self, path: Path, spans: Sequence[Span]) -> Sequence[bytes]:
        descriptor = self._door.open_to_read(path)
        try:
            return [self._read_part(descriptor, start, end) for start, end in spans]
        finally:
            self._door.close(descriptor)

    def _read_part(self, descriptor: int, start: int, end: int) -> bytes:
        parts = [self._door.read_at(descriptor, end - start, start)]
        while parts[-1] and (read := sum(map(len, parts))) < end - start:
            parts.append(self._door.read_at(descriptor, end - start - read, start + read))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _link(self, staged: Path, path: Path, name: str) -> PutOutcome:
        try:
            with coded("link", name, FileExistsError):
                self._door.link(staged, path)
        except FileExistsError:
            self._refuse_links(path)
            return PutOutcome.PRESENT
        return PutOutcome.WON

    def _refuse_links(self, path: Path) -> None:
        """Refuse a symbolic link below the root, which could lead a read or a write out of the checkpoint."""
        parts = path.relative_to(self._root).parts
        for count in range(len(parts), 0, -1):
            name = "/".join(parts[:count])
            with coded("look up", name):
                entry = self._door.entry(path)
            if entry is not None and entry.kind is EntryKind.OTHER:
                raise not_plain(name, "a plain file or folder")
            path = path.parent

    def _walk(self, folder: Path) -> Iterator[str]:
        name = folder.relative_to(self._root).as_posix()
        try:
            with coded("list", name, (FileNotFoundError, NotADirectoryError)):
                entries = self._door.listdir(folder)
        except (FileNotFoundError, NotADirectoryError):
            return
        for part in entries:
            if part.startswith("."):
                continue
            path = folder / part
            name = path.relative_to(self._root).as_posix()
            with coded("look up", name):
                found = self._door.entry(path)
            if found is None:
                continue
            if found.kind is EntryKind.FOLDER:
                yield from self._walk(path)
            else:
                # Links and special files too: whoever asks for one is refused, and nobody else need care.
                yield name

    def _sweep(self, before_ms: int) -> None:
        staging = self._root / STAGING
        # Sweeping is a courtesy: another process may be sweeping too, and a reader may lack the right to.
        with suppress(OSError):
            for part in self._door.listdir(staging):
                entry = self._door.entry(staging / part)
                if entry is not None and entry.kind is EntryKind.FILE and entry.modified_ms < before_ms:
                    self._door.unlink(staging / part)
