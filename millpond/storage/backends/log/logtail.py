"""The files of the append-only log as one process sees them: loading, catching up with others, appending, rotating.

All of it happens in turns: a turn is a lock on the file `lock` in the log's folder, shared for looking and exclusive
for changing. Whoever has an exclusive turn first catches up with what others appended, then cuts off what a writer left
that died in the middle of a record, and only then appends. So records never overlap, and a name is found if anybody
has put it: which makes put-if-absent hold across processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from millpond.crashpoints import crashpoint
from millpond.errors import StorageError
from millpond.storage.backends.log.logindex import LogIndex
from millpond.storage.backends.log.logrecord import (
    FILE_HEADER_BYTES,
    WINDOW_BYTES,
    ReadAt,
    Record,
    RecordKind,
    Replay,
    acknowledged_after,
    encode,
    file_header,
    file_header_fits,
    is_witnessed,
    log_damaged,
    mark_of,
)
from millpond.storage.backends.witness import NOWHERE, Place, Witness, rolled_back, unwitnessed
from millpond.storage.contract import missing
from millpond.storage.door import Door, Durable, coded

FILE_BYTES_MAX = 128 << 20
"""A file that would grow above this is closed and the next one begun; a larger record has a file of its own."""

RESERVE_BYTES_MIN, RESERVE_BYTES_MAX = 256 << 10, 1 << 20
"""Room is made ahead of the records, as much as there is already: then a sync writes data and no sizes. Whoever opens
the log looks through it once."""

_LOG_NAME = re.compile(r"log-(\d{10})")
_INDEX_NAME = re.compile(r"index-(\d{10})-(\d{16})")


def log_name(number: int) -> str:
    """Return the name of a file of the log."""
    return f"log-{number:010d}"


def index_name(number: int, end: int) -> str:
    """Return the name of an index that covers the log up to a place."""
    return f"index-{number:010d}-{end:016d}"


@dataclass(slots=True)
class OpenFile:
    """The file that records are appended to; kept open while somebody syncs it, also after it was left."""

    number: int
    descriptor: int
    users: int = 0
    left: bool = False
    """Nobody appends to it any more from here; it is closed when nobody syncs it."""
    synced: bool = False
    """It was left for the next file, and made durable before that."""


class LogTail:
    """What a process knows of the log. Every method asks for a turn, and the storage's own lock, to be held."""

    def __init__(self, root: Path, door: Door, durable: Durable, file_bytes_max: int) -> None:
        self._root = root
        self._door = door
        self._durable = durable
        self._witness = Witness(root, door, durable)
        self._file_bytes_max = file_bytes_max
        # After a power cut anything may follow the last record; while processes come and go, only half a record.
        self._validated = False
        self._swept = False
        self.index = LogIndex()
        self.file: OpenFile | None = None
        self.end = 0
        self.durable_end = 0
        """Up to here the current file is known to be durable."""
        self.sizes: dict[int, int] = {}
        """The lengths of the files before the current one."""
        self.damaged: set[int] = set()
        """Files that compaction leaves alone."""
        self.unindexed_records = 0
        self._last: Record | None = None
        """The last record of the current file that was applied, or that the index knows."""
        self._indexed: Record | None = None

    @property
    def number(self) -> int:
        """The number of the current file."""
        assert self.file is not None
        return self.file.number

    def is_behind(self) -> bool:
        """Say whether something follows the last record that we know of; asks for no turn."""
        if self.file is None:
            return True
        with coded("read", log_name(self.file.number)):
            return bool(self._door.read_at(self.file.descriptor, 4, self.end).strip(b"\0"))

    def catch_up(self, *, exclusive: bool) -> None:
        """Learn of everything that was appended; in an exclusive turn, leave the end ready for the next record."""
        if self.file is None:
            if not self._load():
                self._compare_with_witness()
                return
        elif self._validated and (self._swept or not exclusive) and not self.is_behind():
            return
        stopped = self._replay()
        assert self.file is not None
        if stopped is not None or not self._validated:
            self._judge_end(stopped or "zeros")
            self._compare_with_witness()
            self._validated = True
        if exclusive and (stopped is not None or not self._swept):
            with coded("cut", log_name(self.number)):
                if self._door.size(self.file.descriptor) > self.end:
                    self._door.truncate(self.file.descriptor, self.end)
            self._swept = True

    def accept_end(self) -> Place:
        """Load the log as it is, whatever its witness and its indexes say; return where it ends."""
        for _, _, path in self.indexes():
            with coded("delete", path.name):
                self._door.unlink(path)
        if not self._load():
            return NOWHERE
        self._judge_end(self._replay() or "zeros")
        return self.number, self.end

    def is_current(self) -> bool:
        """Say whether the log is still the one that is known: its file has its name, and the last record is there."""
        if self.file is None:
            return True
        name, descriptor = log_name(self.number), self.file.descriptor
        with coded("look up", name):
            if not self._door.is_named(descriptor, self._root / name) or self._door.size(descriptor) < self.end:
                return False
        last = self._last
        if last is None:
            return True
        with coded("read", name):
            found = next(iter(Replay(self._read_from(descriptor), self.number, last.start)), None)
        return found is not None and replace(found, marked=last.marked) == last

    def append(self, kind: RecordKind, name: str, payload: bytes) -> Record:
        """Write a record after the last one, in a new file if this one is full; it is not synced."""
        if self.file is None:
            self._begin_file(1)
        if self.end > FILE_HEADER_BYTES and self.end + len(payload) > self._file_bytes_max:
            self._rotate()
        return self._write_record(kind, name, payload)

    def sync(self) -> None:
        """Make everything that was appended durable; files before the current one are."""
        assert self.file is not None
        with self._durable.syncing(log_name(self.number)):
            self._door.sync_data(self.file.descriptor)
        self.durable_end = self.end

    @contextmanager
    def reading(self, number: int) -> Iterator[ReadAt]:
        """Read a file of the log; `FileNotFoundError` if it is gone."""
        if self.file is not None and self.file.number == number:
            yield self._read_from(self.file.descriptor)
            return
        descriptor = self._door.open_to_read(self._root / log_name(number))
        try:
            yield self._read_from(descriptor)
        finally:
            # Nothing was written through it, so there is nothing to lose.
            with suppress(OSError):
                self._door.close(descriptor)

    def unlink(self, number: int) -> None:
        """Take away a file that nothing lives in any more, for good."""
        name = log_name(number)
        with suppress(FileNotFoundError), coded("delete", name, FileNotFoundError):
            self._door.unlink(self._root / name)
        crashpoint("logfile.unlinked")
        # Deletions that a later file records are needed until this is certain.
        with self._durable.syncing(name):
            self._door.sync_folder(self._root)
        self.index.forget_file(number)
        self.sizes.pop(number, None)

    def forget_gone(self) -> None:
        """Forget files that others have taken away, and names that were in them when we last looked.

        A name that still points there was deleted by a record that is gone as well, or was moved to a later file.
        """
        listed = set(self._listed())
        known = {*self.index.live, *self.index.deletions, *self.sizes}
        for number in [number for number in known if log_name(number) not in listed]:
            self.index.forget_file(number)
            self.sizes.pop(number, None)

    def release(self, file: OpenFile) -> None:
        """Close a file if nobody needs it any more."""
        if file.left and not file.users:
            with coded("close", log_name(file.number)):
                self._door.close(file.descriptor)

    def indexes(self) -> list[tuple[int, int, Path]]:
        """Return the index files, newest first."""
        found = [(match, name) for name in self._listed() if (match := _INDEX_NAME.fullmatch(name))]
        return sorted(((int(match[1]), int(match[2]), self._root / name) for match, name in found), reverse=True)

    def holds_files(self) -> bool:
        """Say whether there is a file of the log; asks for no turn."""
        return any(map(_LOG_NAME.fullmatch, self._listed()))

    def _listed(self) -> list[str]:
        try:
            with coded("list", str(self._root), FileNotFoundError):
                return self._door.listdir(self._root)
        except FileNotFoundError:
            return []

    def _read_from(self, descriptor: int) -> ReadAt:
        def read(size: int, offset: int) -> bytes:
            if size > WINDOW_BYTES:
                # No length is believed before its bytes are there.
                size = max(0, min(size, self._door.size(descriptor) - offset))
            data = self._door.read_at(descriptor, size, offset)
            while 0 < len(data) < size:
                more = self._door.read_at(descriptor, size - len(data), offset + len(data))
                if not more:
                    break
                data += more
            return data

        return read

    def _load(self) -> bool:
        """Read the newest index and go on from where it ends; False if there is no log yet."""
        numbers = sorted(int(match[1]) for name in self._listed() if (match := _LOG_NAME.fullmatch(name)))
        if not numbers:
            if self.indexes():
                raise missing(log_name(self.indexes()[0][0]), str(self._root))
            return False
        number, end = self._load_index()
        self.forget_gone()
        first = next((each for each in numbers if each >= number), None)
        if first is None:
            raise missing(log_name(number), str(self._root))
        if not self._open_file(first, end if first == number else FILE_HEADER_BYTES):
            if first == 1:
                return False
            raise log_damaged(log_name(first), 0, "another header")
        if first == number:
            self._last = self._indexed
        for each in numbers:
            if each < first:
                self.sizes[each] = self._size_of(each)
        return True

    def _load_index(self) -> tuple[int, int]:
        for _, _, path in self.indexes():
            with suppress(FileNotFoundError), coded("read", path.name, FileNotFoundError):
                loaded = LogIndex.load(self._door.read(path))
                if loaded is not None:
                    self.index, number, end = loaded
                    self._indexed = self._last_of_index(number)
                    return number, end
        return 0, 0

    def _last_of_index(self, number: int) -> Record | None:
        """Refuse a log without the last record that its index knows: it was durable before the index was written."""
        name = self.index.last_in(number)
        spot = None if name is None else self.index.find(name)
        if name is None or spot is None:
            return None
        with suppress(FileNotFoundError), coded("read", log_name(number), FileNotFoundError):
            with self.reading(number) as read:
                found = next(iter(Replay(read, number, spot.start)), None)
            if found is None or (found.name, found.payload_bytes) != (name, spot.payload_bytes):
                raise log_damaged(log_name(number), spot.start, f"no record of {name}, which the log's index knows")
            return found
        return None

    def _size_of(self, number: int) -> int:
        with coded("look up", log_name(number)):
            entry = self._door.entry(self._root / log_name(number))
        return 0 if entry is None else entry.size_bytes

    def _open_file(self, number: int, end: int) -> bool:
        """Make a file the current one; False if its making was never finished, so that nothing was ever in it."""
        name = log_name(number)
        with coded("open", name):
            try:
                descriptor = self._door.open(self._root / name)
            except PermissionError:
                # Whoever may only read can still catch up.
                descriptor = self._door.open_to_read(self._root / name)
        with coded("read", name):
            size = self._door.size(descriptor)
            fits = file_header_fits(self._door.read_at(descriptor, FILE_HEADER_BYTES, 0), number, name)
        if not fits or end > size:
            with coded("close", name):
                self._door.close(descriptor)
            if not fits and size <= FILE_HEADER_BYTES and end <= FILE_HEADER_BYTES:
                return False
            raise log_damaged(name, size if fits else 0, "the file's end" if fits else "another header")
        self.file = OpenFile(number, descriptor)
        self._last = None
        self.end = self.durable_end = max(end, FILE_HEADER_BYTES)
        return True

    def _replay(self) -> str | None:
        """Apply all records that follow, file after file; return what is wrong after the last one, if anything."""
        while True:
            assert self.file is not None
            replay = Replay(self._read_from(self.file.descriptor), self.number, self.end)
            rotated = False
            with coded("read", log_name(self.number)):
                for record in replay:
                    self._apply(record)
                    rotated = record.kind is RecordKind.ROTATED
            self.end = replay.end
            if not rotated:
                return replay.stopped
            self._leave_for(self._following())

    def _following(self) -> int:
        numbers = sorted(int(match[1]) for name in self._listed() if (match := _LOG_NAME.fullmatch(name)))
        following = next((number for number in numbers if number > self.number), None)
        if following is None:
            raise missing(log_name(self.number + 1), str(self._root))
        if following > self.number + 1:
            self.forget_gone()
        return following

    def _leave_for(self, following: int) -> None:
        left = self.file
        assert left is not None
        self.sizes[left.number] = self.end
        if not self._open_file(following, FILE_HEADER_BYTES):
            raise log_damaged(log_name(following), 0, "another header")
        left.left = left.synced = True
        self.release(left)

    def _apply(self, record: Record) -> None:
        self._last = record
        self.unindexed_records += 1
        if record.kind is RecordKind.PUT:
            self.index.set(record.name, self.number, record.start, record.payload_bytes)
        elif record.kind is RecordKind.DELETE:
            self.index.remove(record.name)
            self.index.deletions[self.number] += record.end - record.start
        if record.marked:
            # What was written before it, was written before the sync that it tells of.
            self.durable_end = record.end

    def _judge_end(self, stopped: str) -> None:
        """Tell what a writer left that died from what was acknowledged and is damaged; the latter is an error."""
        assert self.file is not None
        name = log_name(self.number)
        with coded("read", name):
            size = self._door.size(self.file.descriptor)
            lost = acknowledged_after(self._read_from(self.file.descriptor), self.number, self.end, size)
        if lost:
            raise log_damaged(name, self.end, stopped)
        later = (int(match[1]) for each in self._listed() if (match := _LOG_NAME.fullmatch(each)))
        if any(number > self.number and self._size_of(number) > FILE_HEADER_BYTES for number in later):
            raise log_damaged(name, self.end, "the file's end, and a next file in use")

    def _compare_with_witness(self) -> None:
        """Refuse a log that ends before what was acknowledged, or of which nobody can tell whether it does."""
        place = self._witness.read()
        here = NOWHERE if self.file is None else (self.number, self.end)
        if place is None:
            if self.file is not None and self._is_witnessed():
                raise unwitnessed(f"the log in {self._root}")
        elif here < place:
            expected, found = (f"byte {end} of {log_name(number)}" for number, end in (place, here))
            raise rolled_back(
                f"the log in {self._root}", expected, "no log" if self.file is None else f"its end at {found}"
            )

    def _is_witnessed(self) -> bool:
        assert self.file is not None
        with coded("read", log_name(self.number)):
            return is_witnessed(self._door.read_at(self.file.descriptor, FILE_HEADER_BYTES, 0))

    def _begin_file(self, number: int) -> None:
        # First, because the header says that it is there.
        self._witness.begin()
        name = log_name(number)
        path = self._root / name
        try:
            with coded("write", name, FileExistsError):
                descriptor = self._door.create(path)
        except FileExistsError:
            # Somebody died while making it: nothing was ever appended to it.
            with coded("open", name):
                descriptor = self._door.open(path)
                size = self._door.size(descriptor)
            if size > FILE_HEADER_BYTES:
                with coded("close", name):
                    self._door.close(descriptor)
                raise log_damaged(name, 0, "records in a file that was never begun") from None
        try:
            with coded("write", name):
                self._door.truncate(descriptor, 0)
                self._write_all(descriptor, file_header(number), 0)
            with self._durable.syncing(name):
                self._door.sync(descriptor)
        finally:
            with coded("close", name):
                self._door.close(descriptor)
        with self._durable.syncing(name):
            self._door.sync_folder(self._root)
        if self.file is None:
            self._open_file(number, FILE_HEADER_BYTES)
            self._validated = self._swept = True

    def _rotate(self) -> None:
        """Begin the next file: it is durable before the last record of this one points to it."""
        old = self.file
        assert old is not None
        self.sync()
        self._begin_file(old.number + 1)
        crashpoint("logfile.begun")
        record = self._write_record(RecordKind.ROTATED, "", b"")
        crashpoint("logfile.rotated")
        self.sync()
        with suppress(OSError):
            self._write_all(old.descriptor, mark_of(old.number, record.start), record.mark_start)
            self._door.truncate(old.descriptor, self.end)
        self._leave_for(old.number + 1)

    def _write_record(self, kind: RecordKind, name: str, payload: bytes) -> Record:
        assert self.file is not None
        data, record = encode(kind, name, payload, self.number, self.end)
        try:
            with coded("write", name or log_name(self.number)):
                self._reserve(record.end)
                self._write_all(self.file.descriptor, data, self.end)
        except StorageError:
            # What is half there must not stay in the way of the next one, who would cut it off anyway.
            with suppress(OSError):
                self._door.truncate(self.file.descriptor, self.end)
            raise
        self._apply(record)
        self.end = record.end
        return record

    def _reserve(self, end: int) -> None:
        assert self.file is not None
        size = self._door.size(self.file.descriptor)
        if end > size:
            room = min(max(end, RESERVE_BYTES_MIN), RESERVE_BYTES_MAX)
            # Only for speed: if there is no room ahead, there may still be enough for the record.
            with suppress(OSError):
                self._door.reserve(self.file.descriptor, size, end - size + room)

    def _write_all(self, descriptor: int, data: bytes, offset: int) -> None:
        rest = memoryview(data)
        while rest:
            taken = self._door.write_at(descriptor, rest, offset)
            rest = rest[taken:]
            offset += taken
