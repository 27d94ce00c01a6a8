"""The local store: a copy of a partition's committed state in LMDB, shared by all worker processes of a host.

It is never the only copy of anything, so it is not synced; instead its stamp names the boot of the machine, and a store
from before a reboot is rebuilt. Rules learnt by trial: opened in the worker, once per process, never inherited over a
fork; dead readers are cleared at every open; the map grows by steps; keys above LMDB's limit live in their own table.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import lmdb
import msgspec

from millpond.errors import StateError
from millpond.state.storekey import PREFIX_BYTES

MAP_BYTES_START = 1 << 30
MAP_BYTES_MAX = 1 << 44
READERS_MAX = 1024
KEY_BYTES_MAX = 511
"""LMDB's compiled-in limit."""

_STAMP = b"stamp"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

Loaded = tuple[Sequence[bytes], Sequence[bytes | None]]
"""Sorted store keys and their values; None deletes."""

T = TypeVar("T")


class Stamp(msgspec.Struct, frozen=True):
    """Which committed state a store holds: never a bare number, since another timeline has the same numbers."""

    uuid: str
    epoch: int
    hash: str


class _Stamped(msgspec.Struct, frozen=True):
    stamp: Stamp
    boot: str


def boot_id() -> str:
    """Name the current run of the machine, since unsynced pages of an earlier one may be lost; "" if it has no name.

    Without a name a store from before a reboot could not be told apart, so it is synced instead.
    """
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


class LocalStore:
    """One partition's store; `view` reads a frozen state, `advance` and `rebuild` bring it to a new stamp."""

    _open: dict[tuple[int, str], LocalStore] = {}  # noqa: RUF012 - LMDB forbids opening a file twice in a process

    @classmethod
    def at(cls, path: Path) -> LocalStore:
        """Open the store at `path`, or return the one that this process has open there."""
        key = (os.getpid(), str(path))
        store = cls._open.get(key)
        if store is None and any(place == key[1] for _, place in cls._open):
            # LMDB can neither use nor close it here: both would take the pages of the parent's readers away.
            raise StateError(
                "MP224",
                "the local store was opened before this process was forked",
                found=str(path),
                hint="fork first and open stores in the child, or start the child as a new process",
            )
        if store is None or not path.exists():
            if store is not None:
                store.close()
            store = cls._open[key] = cls(path)
        return store

    @classmethod
    def close_below(cls, folder: Path) -> None:
        """Close the stores that this process has open below a folder, which is about to go away."""
        mine = [key for key in cls._open if key[0] == os.getpid() and Path(key[1]).is_relative_to(folder)]
        for key in mine:
            cls._open.pop(key).close()

    def __init__(self, path: Path) -> None:
        self.path = path
        self._boot = boot_id()
        self._pid = os.getpid()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._refuse_foreign()
            self._env = self._open_environment()
        except (lmdb.Error, OSError) as error:
            raise StateError(
                "MP220",
                "the local store can't be opened",
                found=f"{path}: {error}",
                hint="free space or remove the directory: it is only a copy and will be rebuilt",
            ) from error
        self._env.reader_check()
        self._main = self._env.open_db(b"main")
        self._long = self._env.open_db(b"long")
        self._meta = self._env.open_db(b"meta")

    def _refuse_foreign(self) -> None:
        # The default root lies in a folder that others may write to; what they put there must not become state.
        owner = self.path.stat().st_uid
        if owner != os.getuid():
            raise StateError(
                "MP223",
                "the local store belongs to somebody else",
                expected=f"a directory of user {os.getuid()}",
                found=f"{self.path} of user {owner}",
                hint="give a local_root of your own",
            )

    def _open_environment(self) -> lmdb.Environment:
        return lmdb.open(
            str(self.path),
            map_size=MAP_BYTES_START,
            max_dbs=3,
            max_readers=READERS_MAX,
            sync=not self._boot,
            metasync=not self._boot,
            readahead=False,
            mode=0o600,
        )

    def close(self) -> None:
        """Close the files; open views must be gone. In a forked child nothing happens: the files are the parent's."""
        if self._pid == os.getpid():
            self._env.close()
            self._open.pop((self._pid, str(self.path)), None)

    def view(self) -> StoreView:
        """A frozen view of the store as it is now; close it when done."""
        while True:
            try:
                return StoreView(self, self._env.begin())
            except lmdb.MapResizedError:
                self._env.set_mapsize(0)

    def read_stamp(self, txn: lmdb.Transaction) -> Stamp | None:
        """The stamp within a transaction; None for a store that can't be trusted."""
        raw = txn.get(_STAMP, db=self._meta)
        if raw is None:
            return None
        try:
            stamped = msgspec.msgpack.decode(raw, type=_Stamped)
        except msgspec.MsgspecError:
            return None
        return stamped.stamp if stamped.boot == self._boot else None

    def advance(self, before: Stamp, after: Stamp, deltas: Sequence[Loaded]) -> bool:
        """Apply deltas and move the stamp in one transaction; False if the store no longer stands at `before`."""

        def apply(txn: lmdb.Transaction) -> bool:
            if self.read_stamp(txn) != before:
                return False
            self._apply(txn, deltas)
            self._put_stamp(txn, after)
            return True

        return self._write(apply)

    def rebuild(self, after: Stamp, files: Iterable[Loaded]) -> None:
        """Forget everything and fill the store anew, in one transaction."""
        held = list(files)

        def fill(txn: lmdb.Transaction) -> None:
            txn.drop(self._main, delete=False)
            txn.drop(self._long, delete=False)
            self._apply(txn, held)
            self._put_stamp(txn, after)

        self._write(fill)

    def _write(self, change: Callable[[lmdb.Transaction], T]) -> T:
        while True:
            try:
                with self._env.begin(write=True) as txn:
                    return change(txn)
            except lmdb.MapResizedError:
                self._env.set_mapsize(0)
            except lmdb.MapFullError as error:
                self._grow(error)
            except lmdb.DiskError as error:
                raise self._unwritable(error) from error

    def _grow(self, cause: lmdb.Error) -> None:
        wanted = self._env.info()["map_size"] * 2
        if wanted > MAP_BYTES_MAX:
            raise self._unwritable(cause) from cause
        self._env.set_mapsize(wanted)

    def _unwritable(self, cause: lmdb.Error) -> StateError:
        return StateError(
            "MP221",
            "the local store can't be written",
            found=f"{self.path}: {cause}",
            hint="free disk space: nothing committed is lost, the store is only a copy",
        )

    def _put_stamp(self, txn: lmdb.Transaction, stamp: Stamp) -> None:
        txn.put(_STAMP, msgspec.msgpack.encode(_Stamped(stamp, self._boot)), db=self._meta)

    def _apply(self, txn: lmdb.Transaction, deltas: Sequence[Loaded]) -> None:
        for keys, values in deltas:
            if not keys:
                continue
            if max(map(len, keys)) <= KEY_BYTES_MAX and None not in values:
                with txn.cursor(db=self._main) as cursor:
                    cursor.putmulti(zip(keys, values, strict=True))  # type: ignore[arg-type]
                continue
            for key, value in zip(keys, values, strict=True):
                self._apply_one(txn, key, value)

    def _apply_one(self, txn: lmdb.Transaction, key: bytes, value: bytes | None) -> None:
        table = self._main
        place = key
        if len(key) > KEY_BYTES_MAX:
            table = self._long
            place = long_place(key)
            value = None if value is None else msgspec.msgpack.encode((key, value))
        if value is None:
            txn.delete(place, db=table)
        else:
            txn.put(place, value, db=table)


def long_place(key: bytes) -> bytes:
    """Where a key above LMDB's limit is kept: under its group, by its digest; the full key stands in the value."""
    return key[:PREFIX_BYTES] + hashlib.sha256(key).digest()


class StoreView:
    """A frozen reading of a store: the base of an epoch's overlays."""

    def __init__(self, store: LocalStore, txn: lmdb.Transaction) -> None:
        self._store = store
        self._txn = txn
        self.stamp = store.read_stamp(txn)
        self._has_main = txn.stat(store._main)["entries"] > 0  # noqa: SLF001
        self._has_long = txn.stat(store._long)["entries"] > 0  # noqa: SLF001

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the reading, so that the store may reuse its pages."""
        self._txn.abort()

    @property
    def entries(self) -> int:
        """How many entries the store holds."""
        store = self._store
        count: int = self._txn.stat(store._main)["entries"] + self._txn.stat(store._long)["entries"]  # noqa: SLF001
        return count

    def get(self, key: bytes) -> bytes | None:
        """One entry, or None."""
        if len(key) > KEY_BYTES_MAX:
            raw = self._txn.get(long_place(key), db=self._store._long) if self._has_long else None  # noqa: SLF001
            return None if raw is None else _long_entry(raw)[1]
        value = self._txn.get(key, db=self._store._main) if self._has_main else None  # noqa: SLF001
        return None if value is None else bytes(value)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of different `keys`, None where there is none: one sorted pass."""
        if not (self._has_main or self._has_long):
            return [None] * len(keys)
        if max(map(len, keys), default=0) > KEY_BYTES_MAX:
            return [self.get(key) for key in keys]
        ordered = sorted(keys)
        with self._txn.cursor(db=self._store._main) as cursor:  # noqa: SLF001
            pairs: list[tuple[bytes, bytes]] = cursor.getmulti(ordered)  # type: ignore[assignment]
        if len(pairs) == len(keys) and ordered == keys:
            return [value for _, value in pairs]
        found = dict(pairs)
        return [found.get(key) for key in keys]

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All entries whose key starts with `prefix`, in key order."""
        entries = self._scan_main(prefix)
        if not self._has_long:
            return entries
        both = [*entries, *self._scan_long(prefix)]
        return iter(sorted(both))

    def _scan_main(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        with self._txn.cursor(db=self._store._main) as cursor:  # noqa: SLF001
            if not cursor.set_range(prefix):
                return
            for key, value in cursor:
                if not bytes(key).startswith(prefix):
                    return
                yield bytes(key), bytes(value)

    def _scan_long(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        with self._txn.cursor(db=self._store._long) as cursor:  # noqa: SLF001
            if not cursor.set_range(prefix[:PREFIX_BYTES]):
                return
            for place, raw in cursor:
                if not bytes(place).startswith(prefix[:PREFIX_BYTES]):
                    return
                key, value = _long_entry(raw)
                if key.startswith(prefix):
                    yield key, value


_long_decoder: msgspec.msgpack.Decoder[tuple[bytes, bytes]] = msgspec.msgpack.Decoder(tuple[bytes, bytes])


def _long_entry(raw: bytes | memoryview) -> tuple[bytes, bytes]:
    return _long_decoder.decode(raw)
