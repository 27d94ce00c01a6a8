"""A frozen reading of a local store, which checks every entry that it hands out.

An entry that does not match its checksum is never handed out. Whoever reads may be the user's code, which could swallow
the error or be blamed for it; so it is remembered, and `check` raises it again to whoever runs that code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import lmdb
import msgspec

from millpond.clock import SystemClock
from millpond.errors import DamagedStoreError, MillpondError, StateError
from millpond.state.local.storecheck import SUM_BYTES, is_whole, values_of
from millpond.state.local.storekey import GROUP_BYTES, PREFIX_BYTES, group_of
from millpond.state.local.storeuse import mark_damaged
from millpond.state.local.storeversion import Ranges, Stamp, groups_in

if TYPE_CHECKING:
    from millpond.state.local.localstore import LocalStore, Restored

KEY_BYTES_MAX = 511
"""LMDB's compiled-in limit."""


DAMAGES = (
    lmdb.BadTxnError,
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.VersionMismatchError,
)
"""What LMDB says of a file that is not as it was."""


def long_place(key: bytes) -> bytes:
    """Return where a key above LMDB's limit is kept: under its group, by its digest; the value has it in full."""
    return key[:PREFIX_BYTES] + hashlib.sha256(key).digest()


def fenced_store(path: Path) -> StateError:
    """Return the error for a store that another run of the checkpoint moves while this one reads it."""
    return StateError(
        "MP222",
        "the local store is fenced off by another run of the same checkpoint",
        found=str(path),
        hint="stop the other run, or give each its own local root",
    )


def damaged(path: Path, found: str) -> DamagedStoreError:
    """Return the error for a store that can't be believed, and leave word for whoever opens it next."""
    mark_damaged(path, found)
    return DamagedStoreError(
        "MP225",
        "the local store is damaged",
        expected="entries as they were written",
        found=f"{path}: {found}",
        hint="nothing of it was used: the epoch is tried again, and the store is set aside and rebuilt",
    )


class StoreView:
    """A frozen reading of a store: the base of an epoch's overlays. `store_version` is where the store stands in it.

    `restore_s` is how long it waited for key groups that had to be restored, in seconds.
    """

    restore_s = 0.0

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._damage: StateError | None = None
        self._begin()
        store.views.add(self)

    def _begin(self) -> None:
        store = self._store
        self._txn = txn = store.begin_reading()
        self.store_version = store.read_store_version(txn)
        self._has_main = txn.stat(store._main)["entries"] > 0  # noqa: SLF001
        self._has_long = txn.stat(store._long)["entries"] > 0  # noqa: SLF001

    def pause(self) -> None:
        """Let go of the reading for a moment, in which nothing is read; `resume` goes on with it."""
        self._txn.abort()

    def resume(self) -> None:
        """Go on reading what was read before a pause; a coded error if the store has moved meanwhile."""
        self.pause()
        before = self.store_version
        self._begin()
        if self.store_version != before:
            raise fenced_store(self._store.path)

    @property
    def stamp(self) -> Stamp | None:
        """The committed state that this is; None if it can't be trusted."""
        return self.store_version.stamp

    @property
    def held(self) -> Ranges | None:
        """The key groups that are here, None for all."""
        return self.store_version.held

    @property
    def restored(self) -> Restored | None:
        """What had to be restored here last, because the store did not have it."""
        return self._store.read_restored(self._txn)

    def busy(self, epoch: int) -> dict[int, float]:
        """Return how long steps of an epoch took on this host, before this view was opened."""
        return self._store.read_busy(self._txn, epoch)

    def check(self) -> None:
        """Raise what went wrong while this was read, if that was not raised to the one who can tell it."""
        if self._damage is not None:
            raise self._damage

    def _refuse(self, key: bytes) -> StateError:
        self._damage = damaged(self._store.path, f"an entry of {len(key)} bytes of key, {key[:40].hex()}")
        return self._damage

    def _value(self, key: bytes, raw: bytes | memoryview) -> bytes:
        stored = bytes(raw)
        if not is_whole(key, stored):
            raise self._refuse(key)
        return stored[:-SUM_BYTES]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the reading, so that the store may reuse its pages."""
        self._store.views.discard(self)
        self._txn.abort()

    @property
    def entries(self) -> int:
        """How many entries the store holds."""
        store = self._store
        count: int = self._txn.stat(store._main)["entries"] + self._txn.stat(store._long)["entries"]  # noqa: SLF001
        return count

    def get(self, key: bytes) -> bytes | None:
        """Return one entry, or None."""
        try:
            return self._get(key)
        except DAMAGES as error:
            raise self._refuse(key) from error

    def _get(self, key: bytes) -> bytes | None:
        if len(key) > KEY_BYTES_MAX:
            place = long_place(key)
            raw = self._txn.get(place, db=self._store._long) if self._has_long else None  # noqa: SLF001
            return None if raw is None else _long_entry(self._value(place, raw))[1]
        value = self._txn.get(key, db=self._store._main) if self._has_main else None  # noqa: SLF001
        return None if value is None else self._value(key, value)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of different `keys`, None where there is none: one sorted pass."""
        if not (self._has_main or self._has_long):
            return [None] * len(keys)
        if max(map(len, keys), default=0) > KEY_BYTES_MAX:
            return [self.get(key) for key in keys]
        ordered = sorted(keys)
        with self._txn.cursor(db=self._store._main) as cursor:  # noqa: SLF001
            try:
                pairs: list[tuple[bytes, bytes]] = cursor.getmulti(ordered)  # type: ignore[assignment]
            except DAMAGES as error:
                raise self._refuse(ordered[0]) from error
        values = values_of(pairs)
        if values is None:
            raise self._refuse(next(key for key, stored in pairs if not is_whole(key, stored)))
        if len(pairs) == len(keys) and ordered == keys:
            return list(values)
        found = dict(zip((key for key, _ in pairs), values, strict=True))
        return [found.get(key) for key in keys]

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Return all entries whose key starts with `prefix`, in key order."""
        entries = self._scanned(prefix)
        return iter(sorted(entries)) if self._has_long else entries

    def _scanned(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        try:
            yield from self._scan_main(prefix)
            if self._has_long:
                yield from self._scan_long(prefix)
        except DAMAGES as error:
            raise self._refuse(prefix) from error

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
                    yield bytes(key), self._value(bytes(key), value)
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
                key, value = _long_entry(self._value(bytes(place), raw))
                if key.startswith(prefix):
                    yield key, value


_long_decoder: msgspec.msgpack.Decoder[tuple[bytes, bytes]] = msgspec.msgpack.Decoder(tuple[bytes, bytes])


def _long_entry(raw: bytes | memoryview) -> tuple[bytes, bytes]:
    return _long_decoder.decode(raw)


Restore = Callable[[int], bool]
"""Restores a key group into the store, maybe with others; False if the store no longer stands where it stood."""

_FIRST, _END = GROUP_BYTES
_CLOCK = SystemClock()


class OnDemandView(StoreView):
    """A frozen view over `whole`, the key groups of a partition; those that the store lacks are restored on demand.

    Key groups that come in are those of the same stamp, so nothing that was read changes.
    """

    def __init__(self, store: LocalStore, whole: Sequence[int], restore: Restore) -> None:
        self._whole = frozenset(whole)
        self._restore = restore
        self._failed: MillpondError | None = None
        super().__init__(store)

    def _begin(self) -> None:
        super()._begin()
        groups = self._whole if self.held is None else groups_in(self.held)
        # As they stand in store keys, so that many keys are looked through fast.
        self._here = {group.to_bytes(_END - _FIRST, "big") for group in groups}
        self._lacks = len(self._here) < len(self._whole)

    def resume(self) -> None:
        """Go on after a pause: other key groups may be held by now, but at the same stamp."""
        self.pause()
        before = self.store_version
        self._begin()
        if (self.store_version.stamp, self.store_version.whole) != (before.stamp, before.whole):
            raise fenced_store(self._store.path)

    def check(self) -> None:
        """Raise what went wrong while key groups were restored."""
        super().check()
        if self._failed is not None:
            raise self._failed

    def get(self, key: bytes) -> bytes | None:
        """Return one entry, or None."""
        if self._lacks:
            self._need((key[_FIRST:_END],))
        return super().get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of different `keys`, None where there is none."""
        if self._lacks:
            self._need({key[_FIRST:_END] for key in keys})
        return super().get_many(keys)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Return all entries whose key starts with `prefix`, in key order."""
        if self._lacks:
            groups: Iterable[int] = (group_of(prefix),) if len(prefix) >= PREFIX_BYTES else self._whole
            self._need(group.to_bytes(_END - _FIRST, "big") for group in groups)
        return super().scan(prefix)

    def _need(self, groups: Iterable[bytes]) -> None:
        for group in sorted(groups):
            number = int.from_bytes(group, "big")
            # A group of another partition has nothing here, as in any view.
            if group not in self._here and number in self._whole:
                self._restore_group(number)

    def _restore_group(self, group: int) -> None:
        # Writing may have to enlarge the map, for which no reading may be open; nor must old pages be held for it.
        self.pause()
        begun = _CLOCK.ticks()
        try:
            if not self._restore(group):
                raise fenced_store(self._store.path)
            self.resume()
        except MillpondError as error:
            self._failed = error
            raise
        finally:
            self.restore_s += _CLOCK.ticks() - begun
