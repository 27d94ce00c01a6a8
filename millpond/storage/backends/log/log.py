"""Storage in an append-only log with an index in memory: one sync per put, however many names there are.

What is durable, and when. A put appends a record and returns after a sync of the file that holds it; whoever puts at
the same time shares the sync. A record that was read from the log without the mark of its sync is synced before it is
handed out, because its writer may have died before doing so. A deletion is a record too, not synced: after a power cut
the name may be there again.

Files are named `log-` and a number, ten digits; only the last one grows. When it is full, the next one is made durable
first, then the last record of the full one says so. A file in which no name lives is deleted (by counting references);
one in which little lives is emptied by appending what lives in it again (compaction). The index is written beside the
log now and then, to a name of its own that says what it covers: a reader takes the newest one that is whole, replays
the log from there, and if none is whole, all of it.

Every task opens the checkpoint's storage by its address. A log is known as a whole by whoever reads it, so a process
that opened it once keeps what it knows (`shared_log`), and reads only what was appended since. It is asked before it is
used again whether the log is still the one that it read: one that was cut, emptied, replaced or deleted is read anew,
and compared with its witness.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from millpond.clock import Clock, SystemClock
from millpond.crashpoints import crashpoint
from millpond.errors import StorageError
from millpond.storage.backends.log.logcompact import collect, compact_all, compact_if_due
from millpond.storage.backends.log.logindex import Spot
from millpond.storage.backends.log.logrecord import Record, RecordKind, mark_of, payload_of, record_end
from millpond.storage.backends.log.logtail import FILE_BYTES_MAX, LogTail, OpenFile, index_name, log_name
from millpond.storage.backends.witness import NOWHERE, WITNESS, Place, Witness, needs_witness
from millpond.storage.contract import COMMITS, Names, PutOutcome, check_name, folder_url, inside, missing
from millpond.storage.door import Door, Durable, coded, usual_door

LOCK = "lock"
LOCK_WAIT_S = 120.0
"""Turns last as long as a write, a rotation or one compaction: whoever has one for two minutes was stopped."""
_LOCK_PAUSE_S_MIN, _LOCK_PAUSE_S_MAX = 0.000_05, 0.01

INDEX_RECORDS_MIN = 256
INDEX_SHARE = 16
"""An index is written when so many records follow the last one, and this part of all names: replay stays short, and
writing indexes costs a constant share."""

STAGED_AGE_MAX_MS = 60 * 60 * 1000
_READ_TRIES = 5

_CLOCK = SystemClock()


@dataclass(slots=True, eq=False)
class _Wanted:
    """A put that a thread waits for: what it wants, and what came of it."""

    name: str
    data: bytes
    record: Record | None = None
    """The record that was appended; None if the name was taken."""
    file: OpenFile | None = None
    end: int = 0
    """Up to here the file must be durable before anybody is told."""
    place: Place = NOWHERE
    """Where its record ends."""
    error: StorageError | None = None
    done: bool = False
    woken: threading.Event = field(default_factory=threading.Event)
    """Set when it is done, or when its thread shall lead."""


_Batch = list[_Wanted]


class LogStorage:
    """A storage in one log; it makes the log's folder at the first put. Any number of processes and threads may use it.

    After a failed sync this object refuses every further put: what the disk holds is known only to a new start.
    """

    def __init__(
        self,
        root: str | Path,
        door: Door | None = None,
        clock: Clock = _CLOCK,
        *,
        file_bytes_max: int = FILE_BYTES_MAX,
        index_records_min: int = INDEX_RECORDS_MIN,
    ) -> None:
        self._root = Path(root).absolute()
        self._door = door or usual_door()
        self._clock = clock
        self._file_bytes_max = file_bytes_max
        self._index_records_min = index_records_min
        self._durable = Durable(self._root, self._door)
        self._witness = Witness(self._root, self._door, self._durable)
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._mutex = threading.Lock()
        self._queue = threading.Lock()
        self._waiting: list[_Wanted] = []
        self._led = False
        self._tail = LogTail(self._root, self._door, self._durable, self._file_bytes_max)

    @property
    def url(self) -> str:
        """The address of the log's folder."""
        return folder_url("log", self._root)

    def put(self, name: str, data: bytes) -> PutOutcome:
        """Store `data` under a free name, durable on return."""
        check_name(name)
        self._durable.check(name)
        self._durable.make_folder(self._root)
        self._after_fork()
        if name.startswith(COMMITS):
            crashpoint("manifest.staged")
        wanted = _Wanted(name, bytes(data))
        with self._queue:
            self._waiting.append(wanted)
            leads, self._led = not self._led, True
        if not leads:
            wanted.woken.wait()
        if not wanted.done:
            self._lead(wanted)
        if wanted.error is not None:
            raise wanted.error
        self._write_index_if_due()
        return PutOutcome.WON if wanted.record else PutOutcome.PRESENT

    def _lead(self, wanted: _Wanted) -> None:
        """Put what all threads wait for until our own is done, then let the next one lead.

        While a leader syncs, others queue up: so the slower the disk, the more puts share a sync.
        """
        try:
            while not wanted.done:
                self._put_waiting()
        finally:
            with self._queue:
                if wanted in self._waiting:
                    self._waiting.remove(wanted)
                if self._waiting:
                    self._waiting[0].woken.set()
                else:
                    self._led = False

    def _put_waiting(self) -> None:
        """Put what all threads wait for, ours among it, with one turn and one sync."""
        batch: _Batch = []
        error: StorageError | None = _interrupted()
        try:
            self._append_waiting(batch)
            if any(wanted.name.startswith(COMMITS) for wanted in batch):
                crashpoint("manifest.linked")
            if batch:
                # Also for names that were taken: their writer may have died before this sync, and others build on them.
                self._sync(batch[-1].file, max(wanted.end for wanted in batch if wanted.file is batch[-1].file))
            crashpoint("record.synced")
            self._bear_witness(batch)
            for wanted in batch:
                self._mark(wanted)
            error = None
        except StorageError as caught:
            if not batch:
                raise
            error = caught
        finally:
            self._release(batch)
            for wanted in batch:
                wanted.error = error
                wanted.done = True
                wanted.woken.set()

    def _append_waiting(self, batch: _Batch) -> None:
        with self._turn("the log"):
            tail = self._tail
            tail.catch_up(exclusive=True)
            with self._queue:
                waiting, self._waiting = self._waiting, []
            try:
                while waiting:
                    self._append_one(waiting[0], batch)
                    waiting.pop(0)
            except StorageError as error:
                # Who comes next begins anew, with a turn of its own; what was appended before this is as it is.
                failed = waiting.pop(0)
                failed.error, failed.done = error, True
                failed.woken.set()
                self._forget()
            finally:
                with self._queue:
                    self._waiting[:0] = waiting

    def _append_one(self, wanted: _Wanted, batch: _Batch) -> None:
        tail = self._tail
        spot = tail.index.find(wanted.name)
        if spot is None:
            wanted.record = tail.append(RecordKind.PUT, wanted.name, wanted.data)
        assert tail.file is not None
        wanted.file = tail.file
        wanted.file.users += 1
        if spot is None:
            wanted.place = tail.number, tail.end
        else:
            wanted.place = spot.number, record_end(wanted.name, spot.start, spot.payload_bytes)
        if spot is None or (spot.number == tail.number and spot.start >= tail.durable_end):
            wanted.end = tail.end
        batch.append(wanted)

    def get(self, name: str) -> bytes:
        """Return the bytes under a name."""
        check_name(name)
        tries_left = _READ_TRIES
        while True:
            with self._refreshed():
                spot = self._tail.index.find(name)
                if spot is None:
                    raise missing(name, self.url)
                try:
                    return self._read(name, spot)
                except FileNotFoundError:
                    tries_left -= 1
                    if not tries_left:
                        raise missing(log_name(spot.number), self.url) from None
                    # The file was collected just now: what lived in it is found elsewhere by looking anew.
                    self._forget()

    def contains(self, name: str) -> bool:
        """Say whether there is something under a name."""
        check_name(name)
        with self._refreshed():
            return name in self._tail.index

    def list(self, prefix: str) -> Names:
        """Return all names inside a folder, sorted."""
        if prefix:
            check_name(prefix)
        with self._refreshed():
            names = self._tail.index.names()
        return inside(prefix, names)

    def delete(self, name: str) -> None:
        """Take a name away if it is there, and files in which nothing lives any more."""
        check_name(name)
        if not self.contains(name):
            return
        self._durable.check(name)
        with self._turn(name):
            self._tail.catch_up(exclusive=True)
            if name in self._tail.index:
                self._tail.append(RecordKind.DELETE, name, b"")
                crashpoint("record.deleted")
                collect(self._tail)
                compact_if_due(self._tail, self._file_bytes_max)

    def compact(self) -> None:
        """Take back the room of all deleted names in files before the last one."""
        if not self._exists():
            return
        with self._turn(LOCK):
            self._tail.catch_up(exclusive=True)
            collect(self._tail)
            compact_all(self._tail)

    def is_current(self) -> bool:
        """Say whether what this object knows of the log is still so.

        Its file was not cut, emptied, replaced or deleted.
        """
        self._after_fork()
        with self._mutex:
            return not self._durable.failed and self._tail.is_current()

    def let_go(self) -> None:
        """Close the log's file and know nothing of it; whoever goes on with this object reads it anew."""
        with self._mutex:
            self._forget()

    def accept_rollback(self) -> None:
        """Take the log as it is for all that there is, on the user's word: what its witness knows of beyond is lost."""
        if self._exists():
            with self._turn(WITNESS):
                self._forget()
                self._witness.reset(self._tail.accept_end())
                self._forget()

    def close(self) -> None:
        """Write the index, so that the next one to open the log need not replay it, and close the log's file."""
        with self._mutex:
            unindexed = self._tail.file is not None and self._tail.unindexed_records
        if unindexed:
            with suppress(StorageError):
                self.write_index()
        with self._mutex:
            self._forget()

    def write_index(self) -> None:
        """Write the index to a new file and delete older ones; others may go on meanwhile."""
        with self._refreshed():
            tail = self._tail
            if tail.file is None:
                return
            file, end = tail.file, tail.end
            name, data = index_name(file.number, end), tail.index.dump(file.number, end)
            tail.unindexed_records = 0
            file.users += 1
        try:
            # An index must not speak of records that a power cut can still take away.
            self._sync(file, end)
        finally:
            with self._mutex:
                file.users -= 1
                self._tail.release(file)
        staged = self._root / f"staged-{uuid.uuid4().hex}"
        try:
            self._write_staged(staged, data, name)
            crashpoint("index.staged")
            with coded("rename", name):
                self._door.rename(staged, self._root / name)
            crashpoint("index.named")
        finally:
            with suppress(OSError):
                self._door.unlink(staged)
        self._sweep(file.number, end)

    def _write_staged(self, staged: Path, data: bytes, name: str) -> None:
        with coded("write", name):
            descriptor = self._door.create(staged)
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[self._door.write(descriptor, rest) :]
                self._door.sync(descriptor)
            finally:
                self._door.close(descriptor)

    def _sweep(self, number: int, end: int) -> None:
        """Delete indexes that a newer one replaces, and what was staged by processes that died."""
        oldest_ms = self._clock.now_ms() - STAGED_AGE_MAX_MS
        with suppress(OSError, StorageError):
            for each_number, each_end, path in self._tail.indexes():
                if (each_number, each_end) < (number, end):
                    self._door.unlink(path)
                    crashpoint("index.replaced")
            for name in self._door.listdir(self._root):
                entry = self._door.entry(self._root / name) if name.startswith("staged-") else None
                if entry is not None and entry.modified_ms < oldest_ms:
                    self._door.unlink(self._root / name)

    def _write_index_if_due(self) -> None:
        with self._mutex:
            tail = self._tail
            due = tail.unindexed_records >= max(self._index_records_min, len(tail.index) // INDEX_SHARE)
        if due:
            # The put is durable: that the index could not be written only makes the next opening slower.
            with suppress(StorageError):
                self.write_index()

    def _forget(self) -> None:
        """Know nothing of the log, so that the next call reads it anew."""
        file = self._tail.file
        self._tail = LogTail(self._root, self._door, self._durable, self._file_bytes_max)
        if file is not None:
            file.left = True
            self._tail.release(file)

    def _exists(self) -> bool:
        # A lock is easily left behind when a folder is copied, as it holds nothing; the log is there all the same.
        return self._has_lock() or self._tail.holds_files() or self._witness.exists()

    def _has_lock(self) -> bool:
        with coded("look up", LOCK):
            return self._door.entry(self._root / LOCK) is not None

    @contextmanager
    def _refreshed(self) -> Iterator[None]:
        """Hold the lock of this object, knowing of everything that was put before."""
        self._after_fork()
        with self._mutex:
            if self._tail.is_behind() and self._exists():
                # A turn for changing makes a lock that is missing.
                with self._lock(LOCK, shared=self._has_lock()), self._knowing():
                    self._tail.catch_up(exclusive=False)
                    if self._tail.file is not None and self._tail.durable_end < self._tail.end:
                        self._tail.sync()
            yield

    @contextmanager
    def _turn(self, name: str) -> Iterator[None]:
        self._after_fork()
        with self._mutex, self._lock(name, shared=False), self._knowing():
            yield

    @contextmanager
    def _knowing(self) -> Iterator[None]:
        """After an error in a turn nobody knows how far it went: the next one reads the log anew."""
        try:
            yield
        except BaseException:
            self._forget()
            raise

    @contextmanager
    def _lock(self, name: str, *, shared: bool) -> Iterator[None]:
        until = self._clock.ticks() + LOCK_WAIT_S
        pause = _LOCK_PAUSE_S_MIN
        while True:
            with coded("lock", name):
                held = self._door.lock(self._root / LOCK, shared=shared)
            if held is not None:
                break
            if self._clock.ticks() > until:
                raise StorageError(
                    "MP335",
                    f"can't get the lock to write {name}",
                    expected=f"the lock of {self.url}, within {LOCK_WAIT_S:.0f} seconds",
                    found="another process that holds it all the time",
                    hint="look for a process that uses this checkpoint and was stopped; end it, then start again",
                )
            self._clock.sleep(pause)
            pause = min(2 * pause, _LOCK_PAUSE_S_MAX)
        try:
            yield
        finally:
            with coded("unlock", name):
                self._door.unlock(held)

    def _after_fork(self) -> None:
        """Forget everything in a child: its parent may have been in the middle of something."""
        if os.getpid() != self._process:
            self._begin()

    def _sync(self, file: OpenFile | None, end: int) -> None:
        """Make a file durable up to `end`, unless it is; others may append meanwhile."""
        assert file is not None
        with self._mutex:
            tail = self._tail
            if file.synced or (tail.file is file and tail.durable_end >= end):
                return
            reached = tail.end
        with self._durable.syncing(log_name(file.number)):
            self._door.sync_data(file.descriptor)
        with self._mutex:
            if tail.file is file:
                tail.durable_end = max(tail.durable_end, reached)

    def _bear_witness(self, batch: _Batch) -> None:
        """Write down how far the log is durable, before anybody is told: also for names that were taken."""
        places = [wanted.place for wanted in batch if needs_witness(wanted.name)]
        if places:
            with self._turn(WITNESS):
                self._witness.raise_to(max(places))

    def _mark(self, wanted: _Wanted) -> None:
        # Not synced, and not needed: without it, damage to the last record looks like a writer that died.
        if wanted.record is not None and wanted.file is not None:
            mark = mark_of(wanted.file.number, wanted.record.start)
            with suppress(OSError):
                self._door.write_at(wanted.file.descriptor, memoryview(mark), wanted.record.mark_start)

    def _release(self, batch: _Batch) -> None:
        with self._mutex:
            for wanted in batch:
                if wanted.file is not None:
                    wanted.file.users -= 1
                    self._tail.release(wanted.file)

    def _read(self, name: str, spot: Spot) -> bytes:
        with coded("read", name, FileNotFoundError), self._tail.reading(spot.number) as read:
            return payload_of(read, name, spot.number, spot.start, spot.payload_bytes)


def _interrupted() -> StorageError:
    return StorageError(
        "MP309",
        "can't write to the log: the thread that wrote for all was interrupted",
        hint="start again; what was committed is not touched",
    )


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
    """Return the log in a folder, as this process knows it already, or newly opened."""
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
