"""A view of a store that does not hold all of its key groups yet: what is missing is brought in when it is asked for.

To its reader it is a frozen view like any other. Key groups that come in are those of the same stamp, so nothing that
was read changes. An error while they are brought in may be raised below the user's code, which could swallow it or be
blamed for it; so it is remembered, and `check` raises it again to whoever runs that code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from millpond.clock import SystemClock
from millpond.errors import MillpondError
from millpond.state.local.localstore import LocalStore
from millpond.state.local.storekey import GROUP_BYTES, PREFIX_BYTES, group_of
from millpond.state.local.storeversion import groups_in
from millpond.state.local.storeview import StoreView, fenced_store

Bring = Callable[[int], bool]
"""Brings a key group into the store, maybe with others; False if the store no longer stands where it stood."""

_FIRST, _END = GROUP_BYTES
_CLOCK = SystemClock()


class OnDemandView(StoreView):
    """A frozen view over `whole`, the key groups of a partition."""

    def __init__(self, store: LocalStore, whole: Sequence[int], bring: Bring) -> None:
        self._whole = frozenset(whole)
        self._bring = bring
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
        """Raise what went wrong while key groups were brought in."""
        super().check()
        if self._failed is not None:
            raise self._failed

    def get(self, key: bytes) -> bytes | None:
        """One entry, or None."""
        if self._lacks:
            self._need((key[_FIRST:_END],))
        return super().get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of different `keys`, None where there is none."""
        if self._lacks:
            self._need({key[_FIRST:_END] for key in keys})
        return super().get_many(keys)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All entries whose key starts with `prefix`, in key order."""
        if self._lacks:
            groups: Iterable[int] = (group_of(prefix),) if len(prefix) >= PREFIX_BYTES else self._whole
            self._need(group.to_bytes(_END - _FIRST, "big") for group in groups)
        return super().scan(prefix)

    def _need(self, groups: Iterable[bytes]) -> None:
        for group in sorted(groups):
            number = int.from_bytes(group, "big")
            # A group of another partition has nothing here, as in any view.
            if group not in self._here and number in self._whole:
                self._bring_in(number)

    def _bring_in(self, group: int) -> None:
        # Writing may have to enlarge the map, for which no reading may be open; nor must old pages be held for it.
        self.pause()
        begun = _CLOCK.ticks()
        try:
            if not self._bring(group):
                raise fenced_store(self._store.path)
            self.resume()
        except MillpondError as error:
            self._failed = error
            raise
        finally:
            self.restore_s += _CLOCK.ticks() - begun
