"""The local store: a copy of a partition's committed state in LMDB, shared by all worker processes of a host.

It is never the only copy of anything, so it is not synced; instead its stamp names the boot of the machine, and a store
from before a reboot is rebuilt. Rules learnt by trial: opened in the worker, once per process, never inherited over a
fork; dead readers are cleared at every open; the map grows by steps, with no reading open in the process; keys above
LMDB's limit live in their own table.

A store need not hold all key groups of its partition. Which ones it holds stands beside the stamp, in one record: all
of them are at the stamp, and whatever brings a group in does it in one transaction. So does whatever makes it the store
of other groups, because others own some of them now. What brings the stamp further may take several transactions;
between them the record says so, and nobody reads the store.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from weakref import WeakSet

import lmdb
import msgspec

from millpond.errors import StateError
from millpond.state.standing import Ranges, Stamp, Standing, groups_in, ranges_of
from millpond.state.storekey import ELEMENTS_MAX, PREFIX_BYTES, element_of, group_of, store_prefix

MAP_BYTES_START = 1 << 30
MAP_BYTES_MAX = 1 << 44
READERS_MAX = 1024
KEY_BYTES_MAX = 511
"""LMDB's compiled-in limit."""

PIECE_ENTRIES = 1 << 14
PIECE_BYTES = 1 << 25
"""What one transaction writes of deltas, about. LMDB holds every page that it changes in memory, 4 kB for each entry
if these lie far apart: in one transaction it would be up to half a gigabyte, the more the larger the state is.
"""

_STAMP = b"stamp"
_BROUGHT = b"brought"
_BUSY = b"busy"
_MOVING = " moving"
"""Behind the boot's name in the stamp of a store that is moving, so that nobody trusts it who does not know of that."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

Loaded = tuple[Sequence[bytes], Sequence[bytes | None]]
"""Sorted store keys and their values; None deletes."""

ReadGroups = Callable[[Ranges], Iterable[Loaded]]
"""Reads all entries of some key groups, as files that apply one after the other."""

T = TypeVar("T")


class Brought(msgspec.Struct, frozen=True):
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
    """One partition's store; `view` reads a frozen state, `advance` and `rebuild` bring it to a new stamp.

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
        if store is None or not path.exists():
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
        self._views: WeakSet[StoreView] = WeakSet()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._refuse_foreign()
            self._env = self._open_environment()
            self._env.reader_check()
            self._main, self._long, self._meta = map(self._env.open_db, (b"main", b"long", b"meta"))
        except (lmdb.Error, OSError) as error:
            raise StateError(
                "MP220",
                "the local store can't be opened",
                found=f"{path}: {error}",
                hint="free space or remove the directory: it is only a copy and will be rebuilt",
            ) from error

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
        return StoreView(self)

    def begin_reading(self) -> lmdb.Transaction:
        """A reading of the store as it is now."""
        while True:
            try:
                return self._env.begin()
            except lmdb.MapResizedError:
                self._resize(0)

    def note_view(self, view: StoreView, *, is_open: bool) -> None:
        """Know which readings are open in this process."""
        if is_open:
            self._views.add(view)
        else:
            self._views.discard(view)

    def read_standing(self, txn: lmdb.Transaction) -> Standing:
        """Where the store stands within a transaction."""
        raw = txn.get(_STAMP, db=self._meta)
        if raw is None:
            return Standing()
        try:
            stamped = msgspec.msgpack.decode(raw, type=_Stamped)
        except msgspec.MsgspecError:
            return Standing()
        if stamped.towards is not None and stamped.boot == self._boot + _MOVING:
            return Standing(None, stamped.held, stamped.whole, (stamped.stamp, stamped.towards))
        return Standing(stamped.stamp, stamped.held, stamped.whole) if stamped.boot == self._boot else Standing()

    def advance(self, before: Standing, after: Stamp, deltas: Sequence[Loaded]) -> bool:
        """Apply deltas and move the stamp, in one transaction, or in several if they are large.

        Of those, each writes other entries, and until the last one the store is moving: whoever finds it so applies
        all of them again, also while another process still does. False if the store no longer stands at `before`.
        """
        assert before.origin is not None
        pieces = list(_pieces(deltas))
        for number, piece in enumerate(pieces, 1):
            moving = Standing(None, before.held, before.whole, (before.origin, after))
            now = before if number == 1 else moving
            then = moving if number < len(pieces) else Standing(after, before.held, before.whole)
            if not self._write(partial(self._move, now, then, piece)):
                return False
        return True

    def _move(self, now: Standing, then: Standing, deltas: Sequence[Loaded], txn: lmdb.Transaction) -> bool:
        if self.read_standing(txn) != now:
            return False
        self._apply(txn, deltas)
        if then.moving:
            moved = _Stamped(then.moving[0], self._boot + _MOVING, then.held, then.whole, then.moving[1])
            txn.put(_STAMP, msgspec.msgpack.encode(moved), db=self._meta)
        elif then.stamp:
            self._put_stamp(txn, then.stamp, then.held, then.whole)
        return True

    def hand_over(self, before: Standing, groups: Sequence[int]) -> bool:
        """Make it the store of these key groups: what it holds of others is dropped, what it lacks comes by `take`.

        False if it no longer stands at `before`, or if it holds none of them: then it is of no use.
        """
        here = groups_in((before.whole if before.held is None else before.held) or ())
        kept = here & frozenset(groups)

        def hand(txn: lmdb.Transaction) -> bool:
            if before.stamp is None or not kept or self.read_standing(txn) != before:
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
        """Bring in key groups, those that are not there yet, in one transaction; `whole` is all that there may be.

        What they hold is read while other processes wait: they would read the same. False if the store no longer
        stands at the stamp, or is that of other key groups by now.
        """
        every, ranges = frozenset(whole), ranges_of(whole)

        def fill(txn: lmdb.Transaction) -> bool:
            standing = self.read_standing(txn)
            if standing.stamp != stamp or standing.whole not in (None, ranges):
                return False
            here = every if standing.held is None else groups_in(standing.held)
            missing = (frozenset(groups) & every) - here
            if missing:
                for loaded in read(ranges_of(missing)):
                    self._apply(txn, (loaded,))
                now = here | missing
                self._put_stamp(txn, stamp, None if now >= every else ranges_of(now), standing.whole)
            return True

        return self._write(fill)

    def remove(self, stamp: Stamp, keys: Sequence[bytes]) -> bool:
        """Drop entries that nobody can see any more; False if the store no longer stands at the stamp."""

        def drop(txn: lmdb.Transaction) -> bool:
            if self.read_standing(txn).stamp != stamp:
                return False
            for key in keys:
                self._apply_one(txn, key, None)
            return True

        return self._write(drop)

    def rebuild(self, after: Stamp, files: Iterable[Loaded], whole: Ranges | None = None) -> None:
        """Forget everything and fill the store anew, in one transaction."""
        held = list(files)

        def fill(txn: lmdb.Transaction) -> None:
            self._forget(txn)
            self._apply(txn, held)
            self._put_stamp(txn, after, whole=whole)

        self._write(fill)

    def note_brought(self, brought: Brought) -> None:
        """Remember that the state of an epoch was not here and had to be brought."""
        note = msgspec.msgpack.encode(brought)
        self._write(lambda txn: txn.put(_BROUGHT, note, db=self._meta))

    def read_brought(self, txn: lmdb.Transaction) -> Brought | None:
        """What was brought last; None if nothing ever was."""
        raw = txn.get(_BROUGHT, db=self._meta)
        return None if raw is None else msgspec.msgpack.decode(raw, type=Brought)

    def note_busy(self, epoch: int, step: int, seconds: float) -> None:
        """Remember how long a step of an epoch took; those of other epochs are forgotten."""

        def note(txn: lmdb.Transaction) -> None:
            known = {**self.read_busy(txn, epoch), step: seconds}
            txn.put(_BUSY, msgspec.msgpack.encode((epoch, known)), db=self._meta)

        self._write(note)

    def read_busy(self, txn: lmdb.Transaction, epoch: int) -> dict[int, float]:
        """How long steps of an epoch took, as far as they ran here."""
        raw = txn.get(_BUSY, db=self._meta)
        noted, steps = (0, {}) if raw is None else msgspec.msgpack.decode(raw, type=tuple[int, dict[int, float]])
        return steps if noted == epoch else {}

    def _write(self, change: Callable[[lmdb.Transaction], T]) -> T:
        while True:
            try:
                with self._env.begin(write=True) as txn:
                    return change(txn)
            except lmdb.MapResizedError:
                self._resize(0)
            except lmdb.MapFullError as error:
                self._grow(error)
            except lmdb.Error as error:
                # A full disk has a class of its own, a quota that is used up has none.
                raise self._unwritable(error) from error

    def _grow(self, cause: lmdb.Error) -> None:
        wanted = self._env.info()["map_size"] * 2
        if wanted > MAP_BYTES_MAX:
            raise self._unwritable(cause) from cause
        self._resize(wanted)

    def _resize(self, map_bytes: int) -> None:
        """Change the size of the map, 0 for what another process made it: no reading may be open here meanwhile."""
        views = list(self._views)
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
        txn.put(_STAMP, msgspec.msgpack.encode(_Stamped(stamp, self._boot, held, whole)), db=self._meta)

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


def taken_away(path: Path) -> StateError:
    """Return the error for a store that another run of the checkpoint moves while this one reads it."""
    return StateError(
        "MP222",
        "the local store is taken away by another run of the same checkpoint",
        found=str(path),
        hint="stop the other run, or give each its own local root",
    )


def _pieces(deltas: Sequence[Loaded]) -> Iterator[Sequence[Loaded]]:
    """Deltas as they are written by transactions; those of several have no key in common."""
    if sum(len(keys) for keys, _ in deltas) <= PIECE_ENTRIES and _bytes_in(deltas) <= PIECE_BYTES:
        yield deltas
        return
    newest: dict[bytes, bytes | None] = {}
    for keys, values in deltas:
        newest.update(zip(keys, values, strict=True))
    ordered = sorted(newest)
    values = list(map(newest.__getitem__, ordered))
    # A piece ends where one of the two limits is passed.
    ends, first = [held // PIECE_BYTES for held in accumulate(len(value or b"") for value in values)], 0
    while first < len(ordered):
        last = min(bisect_right(ends, ends[first], first), first + PIECE_ENTRIES)
        yield [(ordered[first:last], values[first:last])]
        first = last


def _bytes_in(deltas: Sequence[Loaded]) -> int:
    return sum(len(value or b"") for _, values in deltas for value in values)


def _room_for(expected_bytes: int) -> int:
    """How large a map so many bytes of files take, about: pages are three quarters full, and some are being freed."""
    size = MAP_BYTES_START
    while size < min(2 * expected_bytes, MAP_BYTES_MAX):
        size *= 2
    return size


class StoreView:
    """A frozen reading of a store: the base of an epoch's overlays. `standing` is where the store stands in it.

    `restore_s` is how long it waited for key groups that had to be brought in, in seconds.
    """

    restore_s = 0.0

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._begin()
        store.note_view(self, is_open=True)

    def _begin(self) -> None:
        store = self._store
        self._txn = txn = store.begin_reading()
        self.standing = store.read_standing(txn)
        self._has_main = txn.stat(store._main)["entries"] > 0  # noqa: SLF001
        self._has_long = txn.stat(store._long)["entries"] > 0  # noqa: SLF001

    def pause(self) -> None:
        """Let go of the reading for a moment, in which nothing is read; `resume` goes on with it."""
        self._txn.abort()

    def resume(self) -> None:
        """Go on reading what was read before a pause; a coded error if the store has moved meanwhile."""
        self.pause()
        before = self.standing
        self._begin()
        if self.standing != before:
            raise taken_away(self._store.path)

    @property
    def stamp(self) -> Stamp | None:
        """The committed state that this is; None if it can't be trusted."""
        return self.standing.stamp

    @property
    def held(self) -> Ranges | None:
        """The key groups that are here, None for all."""
        return self.standing.held

    @property
    def brought(self) -> Brought | None:
        """What had to be brought here last, because the store did not have it."""
        return self._store.read_brought(self._txn)

    def busy(self, epoch: int) -> dict[int, float]:
        """How long steps of an epoch took on this host, before this view was opened."""
        return self._store.read_busy(self._txn, epoch)

    def check(self) -> None:
        """Raise what went wrong while this was read, if that was not raised to the one who can tell it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the reading, so that the store may reuse its pages."""
        self._store.note_view(self, is_open=False)
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
        start: bytes | None = prefix
        while start is not None:
            txn, begin, start = self._txn, start, None
            with txn.cursor(db=self._store._main) as cursor:  # noqa: SLF001
                if not cursor.set_range(begin):
                    return
                for key, value in cursor:
                    if not bytes(key).startswith(prefix):
                        return
                    yield bytes(key), bytes(value)
                    if self._txn is not txn:
                        # The reading was resumed since: the same entries, by another cursor.
                        start = bytes(key) + b"\0"
                        break

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
