"""The local store: a copy of a partition's committed state in LMDB, shared by all worker processes of a host.

It is never the only copy of anything, so it is not synced; instead its stamp names the boot of the machine, and a store
from before a reboot is rebuilt. Rules learnt by trial: opened in the worker, once per process, never inherited over a
fork; dead readers are cleared at every open; the map grows by steps, with no reading open in the process; keys above
LMDB's limit live in their own table.

A store need not hold all key groups of its partition. Which ones it holds stands beside the stamp, in one record: all
of them are at the stamp, and whatever restores a group does it in one transaction. So does whatever makes it the store
of other groups, because others own some of them now. What advances the stamp may take several transactions;
between them the record says so, and nobody reads the store.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     store = LocalStore.at(Path(folder) / "store")
...     store.rebuild(Stamp("uuid", 1, "hash"), [([b"key"], [b"value"])])
...     with store.view() as view:
...         print(view.store_version.stamp.epoch, view.get(b"key"))
...     store.close()
1 b'value'
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

import lmdb
import msgspec

from millpond.errors import StateError
from millpond.state.changes import Changes
from millpond.state.local.ownfolders import make_private, refuse_links
from millpond.state.local.storecheck import DATA, LOCK, SUM_BYTES, damage_in, is_whole, summed, summed_all
from millpond.state.local.storekey import ELEMENTS_MAX, element_of, group_of, store_prefix
from millpond.state.local.storeuse import StoreUse, mark_damaged, set_aside, size_of
from millpond.state.local.storeversion import Ranges, Stamp, StoreVersion, groups_in, ranges_of
from millpond.state.local.storeview import DAMAGES, KEY_BYTES_MAX, StoreView, damaged, long_place

MAP_BYTES_START = 1 << 30
MAP_BYTES_MAX = 1 << 44
READERS_MAX = 1024
OPEN_ATTEMPTS_MAX = 8
"""Other tasks may remove a store that is just being opened, or find it damaged; then it is made again."""

PIECE_ENTRIES = 1 << 14
PIECE_BYTES = 1 << 25
"""What one transaction writes of deltas, about. LMDB holds every page that it changes in memory, 4 kB for each entry
if these lie far apart: in one transaction it would be up to half a gigabyte, the more the larger the state is.
"""

_STAMP = b"stamp with chained sums"
"""Under another name than when entries had other sums, or none, so that such a store is not believed."""
_RESTORED = b"brought"
_BUSY = b"busy"
_MOVING = " moving"
"""Behind the boot's name in the stamp of a store that is moving, so that nobody trusts it who does not know of that."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

ReadGroups = Callable[[Ranges], Iterable[Changes]]
"""Reads all entries of some key groups, as files that apply one after the other."""

T = TypeVar("T")


class Restored(msgspec.Struct, frozen=True):
    """The epoch whose state was not in a store: how long bringing it took, and whether an old copy was of use."""

    epoch: int
    seconds: float
    had_copy: bool


class _Stamped(msgspec.Struct, frozen=True, omit_defaults=True):
    stamp: Stamp
    boot: str
    held: Ranges | None = None
    whole: Ranges | None = None
    towards: Stamp | None = None


def boot_id() -> str:
    """Name the current run of the machine, since unsynced pages of an earlier one may be lost; "" if it has no name.

    Without a name a store from before a reboot could not be told apart, so it is synced instead.
    """
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


class LocalStore:
    """One partition's store; `view` reads a frozen state, `advance` and `rebuild` move it to a new stamp.

    `begin` and `take` rebuild it by and by: first it holds no key group, then those that were taken. `hand_over` makes
    it the store of other key groups, of which it holds those that it had.
    """

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
        if store is None or store.is_gone():
            if store is not None:
                store.close()
            store = cls._open[key] = cls(path)
        return store

    @classmethod
    def close_below(cls, folder: Path, *, removed: bool = False) -> None:
        """Close the stores that this process has open below a folder: all, or those that somebody `removed`."""
        # After every step: with many stores open, comparing paths as such would cost more than the step.
        process, inside = os.getpid(), os.path.join(folder, "")  # noqa: PTH118
        for key in [key for key in cls._open if key[0] == process and f"{key[1]}/".startswith(inside)]:
            if not removed or not os.path.exists(key[1]):  # noqa: PTH110
                cls._open.pop(key).close()

    def __init__(self, path: Path) -> None:
        self.path = path
        self._boot = boot_id()
        self._pid = os.getpid()
        self.views: WeakSet[StoreView] = WeakSet()
        """The readings that are open in this process."""
        try:
            self._open_patiently()
        except (lmdb.Error, OSError) as error:
            raise StateError(
                "MP220",
                "the local store can't be opened",
                found=f"{path}: {error}",
                hint=f"free space, or remove {path}: it is only a copy and will be rebuilt",
            ) from error

    def _open_patiently(self) -> None:
        """Open the store, and make it again as often as another task removes it meanwhile as a copy of no use."""
        for attempt in range(1, OPEN_ATTEMPTS_MAX + 1):
            try:
                make_private(self.path)
                refuse_links(self.path, self.path.parent)
                self._refuse_foreign()
                self._open_all()
            except DAMAGES as error:
                # Not what the look before was for; still, it is only a copy.
                if attempt == OPEN_ATTEMPTS_MAX:
                    raise
                set_aside(self.path, str(error))
            except (lmdb.Error, OSError) as error:
                if attempt == OPEN_ATTEMPTS_MAX or not _is_missing(error):
                    raise
            else:
                return

    def _open_all(self) -> None:
        self._use = StoreUse(self.path)
        try:
            self._env = self._open_environment()
            self._env.reader_check()
            self._main, self._long, self._meta = map(self._env.open_db, (b"main", b"long", b"meta"))
            self._page_bytes: int = self._env.stat()["psize"]
            self._lock_bytes = size_of(self.path / LOCK)
            if self._use.alone:
                self._use.note_written()
        except BaseException:
            self._use.close()
            raise

    def _refuse_foreign(self) -> None:
        # The default root lies in a folder that others may write to; what they put there must not become state.
        owner = self.path.stat().st_uid
        if owner != os.getuid():
            raise StateError(
                "MP223",
                "the local store belongs to another user",
                expected=f"a directory of user {os.getuid()}",
                found=f"{self.path} of user {owner}",
                hint="give a local_root of your own",
            )

    def _open_environment(self) -> lmdb.Environment:
        opened = lmdb.open(
            str(self.path),
            map_size=MAP_BYTES_START,
            max_dbs=3,
            max_readers=READERS_MAX,
            sync=not self._boot,
            metasync=not self._boot,
            readahead=False,
            mode=0o600,
        )
        if self._use.is_over():
            # Another process has put a new store in its place, whose users do not know of us.
            opened.close()
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path))
        return opened

    def close(self) -> None:
        """Close the files; open views must be gone. In a forked child nothing happens: the files are the parent's."""
        if self._pid == os.getpid():
            self._env.close()
            self._use.close()
            self._open.pop((self._pid, str(self.path)), None)

    def is_gone(self) -> bool:
        """Return whether the store must be opened again: it was removed, or cut off, which would kill its readers."""
        self._mend_lock()
        if self._use.is_over() or self._use.is_short(self._env.info()["last_pgno"], self._page_bytes):
            return True
        return self._use.was_touched() and self._is_damaged()

    def _mend_lock(self) -> None:
        """Make a lock file that was cut off as long as it is mapped, since whoever touches it would be killed."""
        lock = self.path / LOCK
        if size_of(lock) < self._lock_bytes and lock.is_file() and not lock.is_symlink():
            with suppress(OSError):
                os.truncate(lock, self._lock_bytes)
            mark_damaged(self.path, f"{LOCK}, which was cut off while it was in use")

    def _is_damaged(self) -> bool:
        """Look through a store whose file somebody changed, while nobody may write to it."""
        if not self._use.is_changing():
            # It was another process that was about to note what it wrote.
            return False
        try:
            with self._env.begin(write=True):
                found = damage_in(self.path)
        except lmdb.Error as error:
            found = str(error)
        if found is None:
            self._use.note_written()
            return False
        mark_damaged(self.path, found)
        return True

    def view(self) -> StoreView:
        """Return a frozen view of the store as it is now; close it when done."""
        return StoreView(self)

    def begin_reading(self) -> lmdb.Transaction:
        """Return a reading of the store as it is now."""
        while True:
            try:
                return self._env.begin()
            except lmdb.MapResizedError:
                self._resize(0)

    def read_store_version(self, txn: lmdb.Transaction) -> StoreVersion:
        """Return where the store stands within a transaction."""
        raw = self._noted(txn, _STAMP)
        if raw is None:
            return StoreVersion()
        try:
            stamped = msgspec.msgpack.decode(raw, type=_Stamped)
        except msgspec.MsgspecError:
            return StoreVersion()
        if stamped.towards is not None and stamped.boot == self._boot + _MOVING:
            return StoreVersion(None, stamped.held, stamped.whole, (stamped.stamp, stamped.towards))
        return (
            StoreVersion(stamped.stamp, stamped.held, stamped.whole) if stamped.boot == self._boot else StoreVersion()
        )

    def _note(self, txn: lmdb.Transaction, name: bytes, value: bytes) -> None:
        txn.put(name, summed(name, value), db=self._meta)

    def _noted(self, txn: lmdb.Transaction, name: bytes) -> bytes | None:
        raw = txn.get(name, db=self._meta)
        if raw is None:
            return None
        stored = bytes(raw)
        if not is_whole(name, stored):
            raise damaged(self.path, f"its note `{name.decode()}`")
        return stored[:-SUM_BYTES]

    def advance(self, before: StoreVersion, after: Stamp, deltas: Sequence[Changes]) -> bool:
        """Apply deltas and move the stamp, in one transaction, or in several if they are large.

        Of those, each writes other entries, and until the last one the store is moving: whoever finds it so applies
        all of them again, also while another process still does. False if the store no longer stands at `before`.
        """
        origin, pieces = before.origin, list(_pieces(deltas))
        assert origin is not None
        for number, piece in enumerate(pieces, 1):
            moving = StoreVersion(None, before.held, before.whole, (origin, after))
            now = before if number == 1 else moving
            then = moving if number < len(pieces) else StoreVersion(after, before.held, before.whole)
            if not self._write(partial(self._move, now, then, piece)):
                return False
        return True

    def _move(self, now: StoreVersion, then: StoreVersion, deltas: Sequence[Changes], txn: lmdb.Transaction) -> bool:
        if self.read_store_version(txn) != now:
            return False
        self._apply(txn, deltas)
        if then.moving:
            moved = _Stamped(then.moving[0], self._boot + _MOVING, then.held, then.whole, then.moving[1])
            self._note(txn, _STAMP, msgspec.msgpack.encode(moved))
        elif then.stamp:
            self._put_stamp(txn, then.stamp, then.held, then.whole)
        return True

    def hand_over(self, before: StoreVersion, groups: Sequence[int]) -> bool:
        """Make it the store of these key groups: what it holds of others is dropped, what it lacks comes by `take`.

        False if it no longer stands at `before`, or if it holds none of them: then it is of no use.
        """
        here = groups_in((before.whole if before.held is None else before.held) or ())
        kept = here & frozenset(groups)

        def hand(txn: lmdb.Transaction) -> bool:
            if before.stamp is None or not kept or self.read_store_version(txn) != before:
                return False
            for first, last in ranges_of(here - kept):
                self._drop_groups(txn, self._main, first, last)
                self._drop_groups(txn, self._long, first, last)
            held = None if len(kept) == len(groups) else ranges_of(kept)
            self._put_stamp(txn, before.stamp, held, ranges_of(groups))
            return True

        return self._write(hand)

    def begin(self, after: Stamp, expected_bytes: int, whole: Ranges | None = None) -> None:
        """Forget everything: from here on the store stands at `after` and holds no key group yet."""
        if (wanted := _room_for(expected_bytes)) > self._env.info()["map_size"]:
            # Now, since later it may have to be done below readings that are under way.
            self._resize(wanted)

        def forget(txn: lmdb.Transaction) -> None:
            self._forget(txn)
            self._put_stamp(txn, after, (), whole)

        self._write(forget)

    def take(self, stamp: Stamp, groups: range, read: ReadGroups, whole: Sequence[int]) -> bool:
        """Restore key groups, those that are not there yet, in one transaction; `whole` is all that there may be.

        What they hold is read while other processes wait: they would read the same. False if the store no longer
        stands at the stamp, or is that of other key groups by now.
        """
        every, ranges = frozenset(whole), ranges_of(whole)

        def fill(txn: lmdb.Transaction) -> bool:
            store_version = self.read_store_version(txn)
            if store_version.stamp != stamp or store_version.whole not in (None, ranges):
                return False
            here = every if store_version.held is None else groups_in(store_version.held)
            missing = (frozenset(groups) & every) - here
            if missing:
                for loaded in read(ranges_of(missing)):
                    self._apply(txn, (loaded,))
                now = here | missing
                self._put_stamp(txn, stamp, None if now >= every else ranges_of(now), store_version.whole)
            return True

        return self._write(fill)

    def remove(self, stamp: Stamp, keys: Sequence[bytes]) -> bool:
        """Drop entries that nobody can see any more; False if the store no longer stands at the stamp."""

        def drop(txn: lmdb.Transaction) -> bool:
            if self.read_store_version(txn).stamp != stamp:
                return False
            for key in keys:
                self._apply_one(txn, key, None)
            return True

        return self._write(drop)

    def rebuild(self, after: Stamp, files: Iterable[Changes], whole: Ranges | None = None) -> None:
        """Forget everything and fill the store again, in one transaction."""
        held = list(files)

        def fill(txn: lmdb.Transaction) -> None:
            self._forget(txn)
            self._apply(txn, held)
            self._put_stamp(txn, after, whole=whole)

        self._write(fill)

    def note_restored(self, restored: Restored) -> None:
        """Remember that the state of an epoch was not here and had to be restored."""
        note = msgspec.msgpack.encode(restored)
        self._write(lambda txn: self._note(txn, _RESTORED, note))

    def read_restored(self, txn: lmdb.Transaction) -> Restored | None:
        """Return what was restored last; None if nothing ever was."""
        raw = self._noted(txn, _RESTORED)
        return None if raw is None else msgspec.msgpack.decode(raw, type=Restored)

    def note_busy(self, epoch: int, step: int, seconds: float) -> None:
        """Remember how long a step of an epoch took; those of other epochs are forgotten."""

        def note(txn: lmdb.Transaction) -> None:
            known = {**self.read_busy(txn, epoch), step: seconds}
            self._note(txn, _BUSY, msgspec.msgpack.encode((epoch, known)))

        self._write(note)

    def read_busy(self, txn: lmdb.Transaction, epoch: int) -> dict[int, float]:
        """Return how long steps of an epoch took, as far as they ran here."""
        raw = self._noted(txn, _BUSY)
        noted, steps = (0, {}) if raw is None else msgspec.msgpack.decode(raw, type=tuple[int, dict[int, float]])
        return steps if noted == epoch else {}

    def _write(self, change: Callable[[lmdb.Transaction], T]) -> T:
        while True:
            try:
                with self._env.begin(write=True) as txn:
                    done = change(txn)
            except lmdb.MapResizedError:
                self._resize(0)
            except lmdb.MapFullError as error:
                self._grow(error)
            except DAMAGES as error:
                raise damaged(self.path, str(error)) from error
            except lmdb.Error as error:
                # A full disk has a class of its own, a quota that is used up has none.
                raise self._unwritable(error) from error
            else:
                self._lengthen()
                self._use.note_written()
                return done

    def _lengthen(self) -> None:
        """Make the file as long as its header says: pages that were freed in the end may never have been written.

        So a file that is shorter than that was cut off, and is not mapped.
        """
        last = self._env.info()["last_pgno"]
        if self._use.is_short(last, self._page_bytes):
            with suppress(OSError):
                os.truncate(self.path / DATA, (last + 1) * self._page_bytes)

    def _grow(self, cause: lmdb.Error) -> None:
        wanted = self._env.info()["map_size"] * 2
        if wanted > MAP_BYTES_MAX:
            raise self._unwritable(cause) from cause
        self._resize(wanted)

    def _resize(self, map_bytes: int) -> None:
        """Change the size of the map, 0 for what another process made it: no reading may be open here meanwhile."""
        views = list(self.views)
        for view in views:
            view.pause()
        self._env.set_mapsize(map_bytes)
        for view in views:
            view.resume()

    def _forget(self, txn: lmdb.Transaction) -> None:
        txn.drop(self._main, delete=False)
        txn.drop(self._long, delete=False)

    def _drop_groups(self, txn: lmdb.Transaction, table: lmdb._Database, first: int, last: int) -> None:
        """Delete the entries of a range of key groups, of each element in turn."""
        with txn.cursor(db=table) as cursor:
            there = cursor.first()
            while there:
                element = bytes(cursor.key())[0]
                there = cursor.set_range(store_prefix(element, first))
                # Behind the last entry the key is empty.
                while there and (key := bytes(cursor.key())) and element_of(key) == element and group_of(key) <= last:
                    there = cursor.delete()
                there = element < ELEMENTS_MAX and cursor.set_range(bytes((element + 1,)))

    def _unwritable(self, cause: lmdb.Error) -> StateError:
        return StateError(
            "MP221",
            "the local store can't be written",
            found=f"{self.path}: {cause}",
            hint="free disk space: nothing committed is lost, the store is only a copy",
        )

    def _put_stamp(
        self, txn: lmdb.Transaction, stamp: Stamp, held: Ranges | None = None, whole: Ranges | None = None
    ) -> None:
        self._note(txn, _STAMP, msgspec.msgpack.encode(_Stamped(stamp, self._boot, held, whole)))

    def _apply(self, txn: lmdb.Transaction, deltas: Sequence[Changes]) -> None:
        for keys, values in deltas:
            if not keys:
                continue
            if max(map(len, keys)) <= KEY_BYTES_MAX and None not in values:
                with txn.cursor(db=self._main) as cursor:
                    cursor.putmulti(summed_all(keys, values))  # type: ignore[arg-type]
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
            txn.put(place, summed(place, value), db=table)


def _is_missing(error: Exception) -> bool:
    """Return whether a file or folder was not there; LMDB tells so by the system's words alone."""
    return isinstance(error, FileNotFoundError) or os.strerror(errno.ENOENT) in str(error)


def _pieces(deltas: Sequence[Changes]) -> Iterator[Sequence[Changes]]:
    """Yield deltas as they are written by transactions; those of several have no key in common."""
    if sum(len(keys) for keys, _ in deltas) <= PIECE_ENTRIES and _bytes_in(deltas) <= PIECE_BYTES:
        yield deltas
        return
    newest = Changes.joined(deltas)
    # A piece ends where one of the two limits is passed.
    ends, first = [held // PIECE_BYTES for held in accumulate(len(value or b"") for value in newest.values)], 0
    while first < len(newest.keys):
        last = min(bisect_right(ends, ends[first], first), first + PIECE_ENTRIES)
        yield [newest.sliced(first, last)]
        first = last


def _bytes_in(deltas: Sequence[Changes]) -> int:
    return sum(len(value or b"") for _, values in deltas for value in values)


def _room_for(expected_bytes: int) -> int:
    """Return about how large a map so many bytes of files take: pages are three quarters full, some being freed."""
    size = MAP_BYTES_START
    while size < min(2 * expected_bytes, MAP_BYTES_MAX):
        size *= 2
    return size
