"""Opening a partition's state at exactly the committed parent, whatever the local store holds.

A store that is a little behind is advanced by deltas. One that is lost, foreign or too far behind is restored: at once
if the state is small, else by ranges of key groups, all of them now (eager) or each on demand, when it is first asked
for. A store of other key groups, because some were given away or came since, keeps what it still has to do with; only
groups that came are restored.

A range is what is restored to the local store at once: about a chunk of the snapshot, so that its first key waits for
few files. Deltas after the snapshot may be for all key groups, and would be read again for every range. Small ones are
kept in memory meanwhile. Where the others would cost more than all files once more, ranges are joined.

After a commit the local stores of this host are advanced to it (consolidation) while nobody waits for them. That is
only a head start: a task opens its state at exactly its parent in any case, and does itself what is not done by then.
So whatever fails here is left to the next epoch, which meets it again and tells it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Literal

from millpond.checkpoint.records.deltas import FILE_BYTES, within
from millpond.checkpoint.records.manifest import StateFile
from millpond.checkpoint.records.work import Parent
from millpond.checkpoint.recovery import advance_files, read_changes, restore_files
from millpond.clock import Clock, SystemClock
from millpond.crashpoints import crashpoint
from millpond.ids import PartitionId
from millpond.keygroups import Layout
from millpond.state.changes import Changes
from millpond.state.local.localstore import LocalStore, Restored
from millpond.state.local.storeversion import Ranges, Stamp, StoreVersion, groups_in, ranges_of
from millpond.state.local.storeview import OnDemandView, StoreView, fenced_store
from millpond.storage.contract import Storage

Restore = Literal["on_demand", "eager"]
"""When a large state is restored: each key group when it is first used, or all before the first row."""

OPEN_ATTEMPTS_MAX = 8
"""Another driver of the same checkpoint may take the store away between check and use; then we look again."""

AT_ONCE_BYTES_MAX = 32 * 1024 * 1024
"""Files of this size together are restored in one go, which takes some tenths of a second."""

OLD_EPOCHS_MAX = 32
"""A copy this old is of little use to a partition that comes back, and takes its disk."""

_CLOCK = SystemClock()


def store_path(local_root: str, uuid: str, partition: PartitionId) -> Path:
    """Say where a partition's store lies, whatever key groups it owns."""
    return Path(local_root) / uuid / f"{partition:05}"


def default_local_root(checkpoint_url: str, temporary: str) -> str:
    """Return a directory for local stores that no other checkpoint uses."""
    digest = hashlib.sha256(checkpoint_url.encode()).hexdigest()[:16]
    return str(Path(temporary) / f"millpond-{os.getuid()}-{digest}")


def open_state(
    storage: Storage,
    local_root: str,
    parent: Parent,
    layout: Layout,
    partition: PartitionId,
    restore: Restore = "on_demand",
) -> StoreView:
    """Open a frozen view of a partition's state at the parent; the store is advanced or rebuilt first if it must be."""
    store = LocalStore.at(store_path(local_root, parent.uuid, partition))
    wanted = Stamp(parent.uuid, parent.epoch, parent.hash)
    groups = layout.groups_of(partition)
    ours = ranges_of(groups)
    for _ in range(OPEN_ATTEMPTS_MAX):
        view = store.view()
        store_version = view.store_version
        if store_version == StoreVersion(wanted, None, ours):
            return view
        view.close()
        if store_version.whole not in (None, ours) and _handed_over(store, store_version, storage, parent, groups):
            crashpoint("store.advanced")
            continue
        if store_version.stamp != wanted or store_version.whole != ours:
            _restore(store, store_version, wanted, storage, parent, groups, ours)
            crashpoint("store.advanced")
            continue
        lacking = sorted(set(groups) - groups_in(store_version.held or ()))
        if restore == "eager" or Restoring(storage, parent, lacking).size_bytes <= AT_ONCE_BYTES_MAX:
            _restore_all(store, wanted, Restoring(storage, parent, groups))
            continue
        view = OnDemandView(store, groups, partial(Restoring(storage, parent, groups).restore, store, wanted))
        if (view.stamp, view.store_version.whole) == (wanted, ours):
            return view
        view.close()
    raise fenced_store(store.path)


def _handed_over(
    store: LocalStore, store_version: StoreVersion, storage: Storage, parent: Parent, groups: Sequence[int]
) -> bool:
    """Make a store of other key groups the store of these, if it is of use; say if it was, or if somebody else did."""
    if not groups or store_version.whole is None:
        return False
    before = sorted(groups_in(store_version.whole))
    missing = _missed(store_version, parent, before or groups)
    if missing is None:
        return False
    if store_version.moving:
        # It has to be somewhere before it can be given away.
        wanted = Stamp(parent.uuid, parent.epoch, parent.hash)
        return (
            _advance(store, store_version, wanted, storage, missing, ranges_of(before))
            or _store_version(store) != store_version
        )
    return store.hand_over(store_version, groups) or _store_version(store) != store_version


def _restore(
    store: LocalStore,
    store_version: StoreVersion,
    wanted: Stamp,
    storage: Storage,
    parent: Parent,
    groups: Sequence[int],
    ours: Ranges,
) -> None:
    if not groups:
        store.rebuild(wanted, (), ours)
        return
    missing = _missed(store_version, parent, groups) if store_version.whole == ours else None
    begun, origin = _CLOCK.ticks(), store_version.origin
    if origin is not None and missing is not None:
        _advance(store, store_version, wanted, storage, missing, ours)
        if origin.epoch < wanted.epoch - 1:
            # The partition was elsewhere meanwhile.
            store.note_restored(Restored(wanted.epoch, _CLOCK.ticks() - begun, had_copy=True))
        return
    restoring = Restoring(storage, parent, groups)
    if restoring.size_bytes <= AT_ONCE_BYTES_MAX:
        store.rebuild(wanted, restoring.read(ours), ours)
    else:
        store.begin(wanted, restoring.size_bytes, ours)
        crashpoint("store.begun")
    store.note_restored(Restored(wanted.epoch, _CLOCK.ticks() - begun, had_copy=False))


def catch_up(storage: Storage, local_root: str, parent: Parent, layout: Layout, partition: PartitionId) -> bool:
    """Advance a store that is a little behind the parent, and leave any other as it is; say if it was advanced."""
    path = store_path(local_root, parent.uuid, partition)
    groups = layout.groups_of(partition)
    if not groups or not path.exists():
        return False
    store = LocalStore.at(path)
    store_version = _store_version(store)
    ours = ranges_of(groups)
    if store_version.whole not in (None, ours) and _handed_over(store, store_version, storage, parent, groups):
        store_version = _store_version(store)
    missing = _missed(store_version, parent, groups)
    wanted = Stamp(parent.uuid, parent.epoch, parent.hash)
    if store_version.stamp == wanted or store_version.whole != ours or missing is None:
        return False
    advanced = _advance(store, store_version, wanted, storage, missing, ours)
    crashpoint("store.caught_up")
    return advanced


def _store_version(store: LocalStore) -> StoreVersion:
    with store.view() as view:
        return view.store_version


def drop_old_copies(local_root: str, parent: Parent) -> list[Path]:
    """Remove stores that nobody opened for many epochs, since their partitions are elsewhere, and say which.

    Only where stores have a single owner; a process that still has one of them open makes it anew when it needs it. One
    that never stood anywhere stays: another task is about to fill it.
    """
    dropped: list[Path] = []
    folder = Path(local_root) / parent.uuid
    for path in sorted(folder.iterdir()) if _is_folder(folder) else []:
        if not path.name.isdigit():
            continue
        store = LocalStore.at(path)
        stamp = _store_version(store).origin
        if stamp is not None and stamp.epoch < parent.epoch - OLD_EPOCHS_MAX:
            store.close()
            shutil.rmtree(path, ignore_errors=True)
            dropped.append(path)
    return dropped


def drop_gone(local_root: str, parent: Parent, layout: Layout) -> list[Path]:
    """Remove the stores of partitions that there are no more, now and then, and say which.

    Not at once, since the number may soon be what it was. What somebody else removed is let go: its disk is free when
    nobody has it open any more.
    """
    folder = Path(local_root) / parent.uuid
    dropped: list[Path] = []
    if (parent.epoch + 1) % OLD_EPOCHS_MAX == 0 and _is_folder(folder):
        kept = {f"{partition:05}" for partition in range(layout.partitions)}
        dropped = sorted(path for path in folder.iterdir() if path.name.isdigit() and path.name not in kept)
        for path in dropped:
            shutil.rmtree(path, ignore_errors=True)
            crashpoint("store.dropped")
    LocalStore.close_below(folder, removed=True)
    return dropped


def _is_folder(folder: Path) -> bool:
    """Say whether stores may lie there; behind a link there is nothing of ours to delete."""
    return folder.is_dir() and not folder.is_symlink()


def _missed(store_version: StoreVersion, parent: Parent, groups: Sequence[int]) -> tuple[StateFile, ...] | None:
    """Return the deltas between a store and the parent; None if these do not lead there."""
    origin = store_version.origin
    if origin is None or origin.uuid != parent.uuid:
        return None
    if store_version.moving and not _passes(parent, store_version.moving[1]):
        # Some entries are those of another timeline, or of an epoch after the parent.
        return None
    return advance_files(parent, origin.epoch, origin.hash, groups[0], groups[-1])


def _passes(parent: Parent, stamp: Stamp) -> bool:
    """Say whether a stamp is that of the parent or of an epoch before it, as far as its deltas tell."""
    if stamp.epoch == parent.epoch:
        return stamp.hash == parent.hash
    return any(delta.epoch == stamp.epoch + 1 and delta.parent == stamp.hash for delta in parent.deltas)


def _advance(
    store: LocalStore,
    store_version: StoreVersion,
    wanted: Stamp,
    storage: Storage,
    missing: tuple[StateFile, ...],
    ours: Ranges,
) -> bool:
    ranges = ours if store_version.held is None else store_version.held
    return store.advance(store_version, wanted, list(_load(storage, missing, ranges)))


def _restore_all(store: LocalStore, stamp: Stamp, restoring: Restoring) -> None:
    """Restore all ranges, each in a transaction of its own: a start after a kill goes on where this one was."""
    for groups in restoring.ranges:
        if not restoring.restore(store, stamp, groups[0]):
            return
        crashpoint("store.advanced")


def _load(storage: Storage, files: tuple[StateFile, ...], ranges: Ranges) -> Iterator[Changes]:
    """Return what files change in some key groups; those that reach into none of them are not read."""
    for state_file in files:
        reached = [each for each in ranges if state_file.overlaps(*each)]
        if reached:
            changes = read_changes(storage, state_file)
            for first, last in reached:
                yield within(changes, first, last)


KEPT_BYTES_MAX = FILE_BYTES
"""Files of deltas up to this size together stay in memory while a state is restored."""

READ_AGAIN_MAX = 2
"""How many times the size of all files may be read in all, to have ranges that are small."""


class Restoring:
    """The state of some key groups at a parent, to be brought into a store by parts.

    Parts are ranges of groups, among which there may be some that the store has nothing to do with.
    """

    def __init__(self, storage: Storage, parent: Parent, groups: Sequence[int]) -> None:
        self._storage = storage
        ours = ranges_of(groups)
        files = restore_files(parent, groups[0], groups[-1])
        self._files = tuple(state for state in files if any(state.overlaps(*each) for each in ours))
        self._whole = groups
        self._groups = range(groups[0], groups[-1] + 1)
        self._kept: dict[str, Changes] = {}
        self._keeps = kept_names(self._files)
        snapshot = [state for state in parent.snapshot if state in self._files]
        self._starts = range_starts(self._files, snapshot, self._groups, self._keeps)

    @property
    def size_bytes(self) -> int:
        """The bytes of all files that hold some of it."""
        return sum(state.file.size_bytes for state in self._files)

    @property
    def ranges(self) -> list[range]:
        """The ranges of key groups that are brought in at once, in order; together they hold all groups."""
        return [range(first, end) for first, end in pairwise([*self._starts, self._groups.stop])]

    def restore(self, store: LocalStore, stamp: Stamp, group: int) -> bool:
        """Bring the range of a key group into a store; False if the store no longer stands at the stamp."""
        found = self.ranges[bisect_right(self._starts, group) - 1]
        return store.take(stamp, found, self.read, self._whole)

    def read(self, ranges: Ranges) -> Iterator[Changes]:
        """Return the entries of some key groups, file by file in the order in which they apply."""
        for state in self._files:
            reached = [each for each in ranges if state.overlaps(*each)]
            if reached:
                changes = self._changes(state)
                for first, last in reached:
                    yield within(changes, first, last)

    def _changes(self, state: StateFile) -> Changes:
        name = state.file.name
        changes = self._kept.get(name)
        if changes is None:
            changes = read_changes(self._storage, state)
            if name in self._keeps:
                self._kept[name] = changes
        return changes


def kept_names(files: Sequence[StateFile]) -> frozenset[str]:
    """Return the files that are worth keeping in memory: the last ones, which are deltas if there are any."""
    kept: set[str] = set()
    room = KEPT_BYTES_MAX
    for state in reversed(files):
        room -= state.file.size_bytes
        if room < 0:
            break
        kept.add(state.file.name)
    return frozenset(kept)


def range_starts(
    files: Sequence[StateFile], snapshot: Sequence[StateFile], groups: range, kept: frozenset[str]
) -> list[int]:
    """Say where ranges begin: where chunks of the snapshot do, or files of deltas if these are most of the state.

    They are joined while too much would be read again.
    """
    total = sum(state.file.size_bytes for state in files)
    most = 2 * sum(state.file.size_bytes for state in snapshot) >= total
    dividing = snapshot if snapshot and most else files
    starts = sorted({groups[0], *(state.first_group for state in dividing if state.first_group in groups)})
    starts = _wide_enough(starts, groups, total)
    while len(starts) > 1 and _read_in_all(files, starts, groups, kept) > READ_AGAIN_MAX * total:
        starts = starts[::2]
    return starts


def _wide_enough(starts: list[int], groups: range, total: int) -> list[int]:
    """Return the starts, without those whose range would hold much less than a file does."""
    count = max(1, round(total / FILE_BYTES))
    width = len(groups) / count
    chosen = [starts[0]]
    for start in starts[1:]:
        if start - chosen[-1] >= width / 2:
            chosen.append(start)
    return chosen


def _read_in_all(files: Sequence[StateFile], starts: list[int], groups: range, kept: frozenset[str]) -> int:
    """Say how many bytes are read to bring in all ranges."""
    bounds = [(first, end - 1) for first, end in pairwise([*starts, groups.stop])]
    times = {
        state.file.name: 1 if state.file.name in kept else sum(state.overlaps(*each) for each in bounds)
        for state in files
    }
    return sum(state.file.size_bytes * times[state.file.name] for state in files)


_AT_STORES = threading.Lock()
"""A process has each store open once, also if several of its jobs share one: none is closed while another uses it."""


class Consolidation:
    """Brings stores that are a little behind to the last commit, one commit at a time, in a thread of its own."""

    def __init__(self, storage: Storage, local_root: str, clock: Clock = _CLOCK) -> None:
        self._storage = storage
        self._local_root = local_root
        self._clock = clock
        self._thread: threading.Thread | None = None
        self._seconds: float | None = None
        self._ending = threading.Event()

    def start(self, parent: Parent, layout: Layout) -> None:
        """Begin with a committed epoch, unless an earlier one is still under way: a later one takes them together."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._ending.clear()
        # Not a daemon: the end of the program waits for the rest of a transaction, not for much.
        self._thread = threading.Thread(target=self._run, args=(parent, layout), name="millpond-consolidation")
        self._thread.start()

    def wait(self) -> None:
        """Wait until nothing is under way."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def take_seconds(self) -> float | None:
        """Say how long the last one took, once; None if there was none, or it is not over."""
        seconds, self._seconds = self._seconds, None
        return seconds

    def close(self) -> None:
        """End with nothing under way, and with no store open in this process; what is not begun yet is left."""
        self._ending.set()
        self.wait()
        with _AT_STORES:
            LocalStore.close_below(Path(self._local_root))

    def _run(self, parent: Parent, layout: Layout) -> None:
        begun = self._clock.ticks()
        caught_up = False
        for partition in range(layout.partitions):
            if self._ending.is_set():
                return
            # Whatever it is, the next task that opens this store meets the same, and tells it with its epoch.
            with suppress(Exception), _AT_STORES:
                caught_up |= catch_up(self._storage, self._local_root, parent, layout, PartitionId(partition))
        with suppress(Exception), _AT_STORES:
            # Tasks remove the stores of partitions that there are no more.
            LocalStore.close_below(Path(self._local_root), removed=True)
        if caught_up:
            self._seconds = self._clock.ticks() - begun
