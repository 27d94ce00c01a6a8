"""Storage in RocksDB: one database in a folder, a key per name.

RocksDB lets one process write a database, and nobody else see what it writes. Tasks run in processes of their own, so
by default a storage has the database open only during a call, in turns: whoever wants to call waits for the lock on
the file `turn`, opens, reads or writes with a sync, and closes. That is right for any number of processes on one
machine, and slow: opening takes milliseconds. With `?owner=one` the first process to call keeps the database for
itself, which is fast; any other process is then refused (MP333) instead of being left to wait.

How far the database was durable when it last acknowledged something is written down beside it (`witness.py`), by its
sequence numbers, which only grow: RocksDB takes a log of writes that was cut for one whose writer died.

Both hold on one machine only: the folder must be on a local disk. Damage is found by RocksDB's own checksums and by the
frame around each value. RocksDB writes through its own code, which our model of a power cut can't see: what is tested
is that processes may be killed at any time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from millpond.clock import Clock, SystemClock
from millpond.errors import StorageError
from millpond.storage.backends.remote import need_package
from millpond.storage.backends.witness import NOWHERE, Place, Witness, needs_witness, rolled_back
from millpond.storage.contract import Names, PutOutcome, check_name, folder_url, missing
from millpond.storage.door import Door, Durable, coded

TURN, DATABASE = "turn", "db"
TURN_WAIT_S = 120.0
SMALL_FILES_MAX = 64
SMALL_FILE_BYTES = 1 << 20
_PAUSE_S_MIN, _PAUSE_S_MAX = 0.000_5, 0.02

_DOOR = Door()
_CLOCK = SystemClock()


class RocksStorage:
    """A storage in a RocksDB database; with `one_owner` it stays open in this process until `close`."""

    def __init__(self, root: str | Path, *, one_owner: bool = False, door: Door = _DOOR, clock: Clock = _CLOCK) -> None:
        self._root = Path(root).absolute()
        self._one_owner = one_owner
        self._door = door
        self._clock = clock
        self._durable = Durable(self._root, door)
        self._witness = Witness(self._root, door, self._durable)
        self._package = need_package("rocksdict", "rocksdb")
        self._mutex = threading.RLock()
        self._kept: tuple[Any, int, int] | None = None
        """The database, the lock and the process, while this process owns it."""

    @property
    def url(self) -> str:
        """The address of the database's folder."""
        return folder_url("rocksdb", self._root) + ("?owner=one" if self._one_owner else "")

    def put(self, name: str, data: bytes) -> PutOutcome:
        """Store `data` under a free name, durable on return."""
        key = check_name(name).encode()
        self._durable.make_folder(self._root)
        with self._database(name) as database:
            if key in database:
                # Its writer may have died before its sync; what was replayed at opening is not synced by that alone.
                database.flush_wal(True)
                self._bear_witness(name, database)
                return PutOutcome.PRESENT
            options = self._package.WriteOptions()
            options.sync = True
            database.put(key, bytes(data), write_opt=options)
            self._bear_witness(name, database)
            return PutOutcome.WON

    def accept_rollback(self) -> None:
        """Take the database as it is for all that there is, on the user's word."""
        if self._exists():
            with self._database(TURN, believing=True) as database:
                self._witness.reset(_place_of(database))

    def _bear_witness(self, name: str, database: Any) -> None:
        if needs_witness(name):
            self._witness.raise_to(_place_of(database))

    def get(self, name: str) -> bytes:
        """Return the bytes under a name."""
        key = check_name(name).encode()
        if self._exists():
            with self._database(name) as database:
                data = database.get(key)
            if data is not None:
                return bytes(data)
        raise missing(name, self.url)

    def contains(self, name: str) -> bool:
        """Say whether there is something under a name."""
        key = check_name(name).encode()
        if not self._exists():
            return False
        with self._database(name) as database:
            return key in database

    def list(self, prefix: str) -> Names:
        """Return all names inside a folder, sorted."""
        start = f"{check_name(prefix)}/".encode() if prefix else b""
        if not self._exists():
            return []
        names = []
        with self._database(prefix or "all names") as database:
            for key in database.keys(from_key=start) if start else database.keys():
                if not key.startswith(start):
                    break
                names.append(key.decode())
        return names

    def delete(self, name: str) -> None:
        """Take a name away if it is there."""
        key = check_name(name).encode()
        if self._exists():
            with self._database(name) as database:
                database.delete(key)

    def close(self) -> None:
        """Let others have the database, if this process keeps it."""
        with self._mutex:
            if self._kept is not None and self._kept[2] == os.getpid():
                database, held, _ = self._kept
                self._kept = None
                database.close()
                self._door.unlock(held)

    def _exists(self) -> bool:
        with coded("look up", TURN):
            return self._door.entry(self._root / TURN) is not None or self._witness.exists()

    @contextmanager
    def _database(self, name: str, *, believing: bool = False) -> Iterator[Any]:
        with self._mutex:
            if self._kept is not None:
                if self._kept[2] != os.getpid():
                    raise self._owned("the process that started this one")
                with self._speaking(name):
                    yield self._kept[0]
                return
            held = self._take_turn(name)
            try:
                with self._speaking(name):
                    database = self._open()
                    try:
                        if not believing:
                            self._compare_with_witness(database)
                        if self._one_owner:
                            self._kept = (database, held, os.getpid())
                            yield database
                            return
                        yield database
                        # Each opening leaves a small file, and a visit is too short for RocksDB to merge them itself.
                        if sum(file["size"] < SMALL_FILE_BYTES for file in database.live_files()) > SMALL_FILES_MAX:
                            self._merge(database)
                    finally:
                        if self._kept is None:
                            database.close()
            finally:
                if self._kept is None:
                    self._door.unlock(held)

    def _open(self) -> Any:
        options = self._package.Options(raw_mode=True)
        options.create_if_missing(True)
        # A small checkpoint must not take 64 MB of memory in every process that visits it.
        options.set_write_buffer_size(16 << 20)
        options.set_keep_log_file_num(2)
        # Half a record at the end is a writer that died; anything else that can't be read is damage and must be said.
        options.set_wal_recovery_mode(self._package.DBRecoveryMode.tolerate_corrupted_tail_records())
        return self._package.Rdict(str(self._root / DATABASE), options)

    def _compare_with_witness(self, database: Any) -> None:
        place, here = self._witness.read(), _place_of(database)
        if place is not None and here < place:
            expected, found = (f"write {number:,}" for _, number in (place, here))
            raise rolled_back(f"the database in {self._root}", expected, found)

    def _merge(self, database: Any) -> None:
        options = self._package.CompactOptions()
        options.set_bottommost_level_compaction(self._package.BottommostLevelCompaction.force())
        database.compact_range(None, None, options)

    def _take_turn(self, name: str) -> int:
        until = self._clock.ticks() + TURN_WAIT_S
        pause = _PAUSE_S_MIN
        while True:
            with coded("lock", name):
                held = self._door.lock(self._root / TURN, shared=False)
            if held is not None:
                if self._one_owner or self._owner():
                    self._note_owner(held)
                return held
            owner = self._owner()
            if _lives(owner) or self._clock.ticks() > until:
                raise self._owned(f"process {owner}" if owner else "a process that has it open")
            self._clock.sleep(pause)
            pause = min(2 * pause, _PAUSE_S_MAX)

    def _owner(self) -> str:
        """Return the process that keeps the database, if one says so."""
        with suppress(OSError):
            return (self._root / TURN).read_text(encoding="ascii", errors="replace").strip()
        return ""

    def _note_owner(self, held: int) -> None:
        """Write into the lock's file who keeps the database, or that nobody does any more."""
        with coded("write", TURN):
            self._door.truncate(held, 0)
            if self._one_owner:
                self._door.write_at(held, memoryview(str(os.getpid()).encode()), 0)

    def _owned(self, owner: str) -> StorageError:
        return StorageError(
            "MP333",
            f"the database at {self.url} is in use",
            expected="one process, or several that take turns",
            found=owner,
            hint="RocksDB lets one process write: leave ?owner=one out of the address so that processes take turns, "
            "or end the other process",
        )

    @contextmanager
    def _speaking(self, name: str) -> Iterator[None]:
        """Turn what RocksDB says, which has no types, into a coded error."""
        try:
            yield
        except StorageError:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"[:300]
            if "Corruption" in text:
                raise StorageError(
                    "MP339",
                    f"RocksDB finds its database damaged at {name}",
                    found=text,
                    hint="restore the folder of the database from a copy of the checkpoint",
                ) from error
            raise StorageError(
                "MP309",
                f"can't use RocksDB for {name}",
                found=text,
                hint="check the disk and the rights on the checkpoint's folder; what was committed is not touched",
            ) from error


def _place_of(database: Any) -> Place:
    return NOWHERE[0], database.latest_sequence_number()


def _lives(process: str) -> bool:
    """Say whether there is such a process; what a dead one left in the lock's file says nothing."""
    try:
        os.kill(int(process), 0)
    except PermissionError:
        return True
    except (ValueError, OSError):
        return False
    return True
