"""Deleting what no kept epoch needs: manifests first, then the files that only they named, a little at a time.

Two phases, a grace period apart. The first writes a list of condemned names: manifests that are not kept, and files
that no kept manifest names. The second deletes them. Why that takes nothing that anybody needs:

- A name never comes back: it is of one driver and of one epoch, or of a snapshot of one (`storage/content.py`). So
  once that epoch is committed, whoever committed it, it is known for good whether a file is named. A slow deleter is no
  danger. A snapshot that was merged and has condemned chunks is merged anew, from a later epoch.
- A list may be wrong only about commits that it did not know, whose driver did not know the list: then one of the two
  drivers had lost already. So a driver acts on a list only after it won a commit itself, later than the list: from
  then on, nobody commits without having seen it.
- Before a file is deleted, all manifests that are there are looked at once more. What any of them names stays.
- Before a manifest is deleted, savepoints are looked at once more, after the list is durable; a savepoint is put
  first, and then looks for lists. Its number is marked as given away, so that no late driver commits it (`retired.py`).
- Names that Millpond never gives are no business of ours: they are not listed, and so not deleted (`naming.py`).
- A snapshot that is being merged beside the epochs is named by nobody yet: while one is due, chunks of snapshots are
  not condemned.

All this happens after an epoch is published, when nothing of this driver is in flight. Each call does a bounded piece
of it. Whoever dies in between leaves lists, which the next driver goes on with. When all of a list is deleted, it is
forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from millpond.checkpoint.read.history import kept_epochs
from millpond.checkpoint.records.manifest import Manifest, decode_manifest, manifest_name
from millpond.checkpoint.records.naming import given_in
from millpond.checkpoint.retention.deletionlist import (
    CONDEMNED,
    DeletionList,
    forget_list,
    put_list,
    read_lists,
)
from millpond.checkpoint.retention.reachable import UNNAMED_SNAPSHOTS, Names, files_there, names_of
from millpond.checkpoint.retention.retention import Keep
from millpond.checkpoint.retention.retired import block_end, complete_until, give_away
from millpond.checkpoint.retention.savepoints import pinned
from millpond.checkpoint.snapshots.compaction import MERGED, last_merged
from millpond.clock import Clock
from millpond.crashpoints import crashpoint
from millpond.errors import EpochError, MillpondError
from millpond.storage.contract import Storage

DELETES_MAX: Final = 64
DELETES_MIN: Final = 8
"""An epoch leaves about three files to delete later, so this many at a time are enough to keep up."""

SLICE_SECONDS: Final = 0.01
"""After the fewest deletes, so much time ends a slice: disks take from microseconds to milliseconds for one."""

READS_MAX: Final = 32
"""Manifests read at a time."""

MARKS_MAX: Final = 4
"""Marks of numbers put at a time, each of which waits for the disk; one is enough for eight epochs."""

LIST_NAMES_MAX: Final = 10_000

PASSES_PER_GRACE: Final = 8
"""How often in a grace period garbage is looked for: often enough that lists are short, so few that all are read."""

IDLE_FACTOR: Final = 50
"""After looking for garbage for a second, so many seconds pass before it is looked for again."""

FAILURES_MAX: Final = 3


@dataclass(slots=True)
class Collected:
    """What a driver did for tidiness since it started."""

    seconds: float = 0.0
    condemned: int = 0
    manifests: int = 0
    files: int = 0


@dataclass(slots=True)
class _Sweep:
    """A list that is acted on; `files` are those still to be deleted, None while manifests are."""

    name: str
    listed: DeletionList
    files: list[str] | None = None


@dataclass(slots=True)
class _Known:
    """A list, and since when it counts."""

    listed: DeletionList
    since_ms: int


class Collector:
    """The tidiness of one driver; `tick` after each epoch that it commits."""

    def __init__(self, storage: Storage, keep: Keep, clock: Clock) -> None:
        self._storage = storage
        self._keep = keep
        self._clock = clock
        self._lists: dict[str, _Known] = {}
        self._names = Names(storage)
        self._sweep: _Sweep | None = None
        self._since_look: set[str] = set()
        self._due_ms = 0
        self._failures = 0
        self.condemned: frozenset[str] = frozenset()
        self.done = Collected()

    def refresh(self) -> None:
        """Look for lists of others."""
        there = set(given_in(self._storage, CONDEMNED))
        found = read_lists(self._storage, self._lists) if there - self._lists.keys() else {}
        for name in [name for name in self._lists if name not in there]:
            del self._lists[name]
        now = self._clock.now_ms()
        for name, listed in found.items():
            # The clock of who wrote it may have been ahead of ours.
            self._lists[name] = _Known(listed, min(listed.at_ms, now))
        self._recount()

    def committed(self, manifest: Manifest) -> None:
        """Take up what a commit of this driver names."""
        self._names.note(manifest)
        self._since_look |= names_of(manifest)

    def tick(self, newest: int, *, merging: bool) -> None:
        """Do a piece of the work; `merging` if a snapshot may be under way.

        To be called after a commit was won, so that all lists that are known were known before it.
        """
        if self._keep.last is None:
            return
        begun = self._clock.ticks()
        try:
            self._work(newest, merging=merging)
        except MillpondError as error:
            self._failures += 1
            self._sweep = None
            if self._failures >= FAILURES_MAX:
                raise _failing(error) from error
        else:
            self._failures = 0
        finally:
            self.done.seconds += self._clock.ticks() - begun

    def _work(self, newest: int, *, merging: bool) -> None:
        now = self._clock.now_ms()
        self._sweep = self._sweep or self._ripe(now)
        if self._sweep is not None:
            if self._go_on(self._sweep, newest):
                self._sweep = None
        elif now >= self._due_ms:
            begun = self._clock.ticks()
            if self.condemn(newest, spared=UNNAMED_SNAPSHOTS if merging else ()):
                took_ms = (self._clock.ticks() - begun) * 1000
                self._due_ms = now + max(self._keep.grace_ms // PASSES_PER_GRACE, int(took_ms * IDLE_FACTOR))

    def condemn(self, newest: int, *, spared: tuple[str, ...] = (), needed: frozenset[str] = frozenset()) -> bool:
        """Write a list of what no kept epoch needs; False if manifests are left to be read before.

        Names that begin with what is `spared`, and those that are `needed` by others, are left out.
        """
        epochs, _ = kept_epochs(self._storage)
        kept = self._keep.kept(epochs, pinned(self._storage))
        self._names.forget_all_but(epochs)
        if not self._names.read(kept, READS_MAX):
            return False
        named = self._names.of(kept)
        gone = set(epochs) - set(kept)
        names = [manifest_name(epoch) for epoch in sorted(gone) if epoch < complete_until(newest)]
        names += [name for name in files_there(self._storage) if name not in named and not name.startswith(spared)]
        fresh = [name for name in names if name not in self.condemned and name not in needed][:LIST_NAMES_MAX]
        if fresh:
            listed = DeletionList(self._clock.now_ms(), tuple(fresh))
            self._lists[put_list(self._storage, listed)] = _Known(listed, listed.at_ms)
            self._recount()
            self.done.condemned += len(fresh)
        return True

    def sweep_all(self, newest: int) -> None:
        """Act on every list that is old enough, to the end: for a checkpoint that no job runs on."""
        now = self._clock.now_ms()
        while (sweep := self._ripe(now)) is not None:
            while not self._go_on(sweep, newest):
                if sweep.files is None:
                    # A put of a name that is taken makes its folder durable, as a commit would.
                    self._storage.put(manifest_name(newest), self._storage.get(manifest_name(newest)))

    def _recount(self) -> None:
        self.condemned = frozenset(name for known in self._lists.values() for name in known.listed.names)

    def _ripe(self, now: int) -> _Sweep | None:
        for name, known in self._lists.items():
            if now >= known.since_ms + self._keep.grace_ms:
                return _Sweep(name, known.listed)
        return None

    def _go_on(self, sweep: _Sweep, newest: int) -> bool:
        """Delete some of a list; True if nothing of it is left to do."""
        if sweep.name not in self._lists or not self._storage.contains(sweep.name):
            # Somebody else is done with it.
            self._lists.pop(sweep.name, None)
            self._recount()
            return True
        if sweep.files is None:
            if self._delete_manifests(sweep, newest):
                return False
            return not self._look_at_files(sweep)
        return self._delete_files(sweep)

    def _delete_manifests(self, sweep: _Sweep, newest: int) -> bool:
        """Delete manifests that are still not kept; False if there are none.

        Files are deleted after the next commit only: that syncs the folder of manifests, so that after a power cut no
        manifest is there again whose files are gone.
        """
        epochs, _ = kept_epochs(self._storage)
        kept = set(self._keep.kept(epochs, pinned(self._storage)))
        listed = set(sweep.listed.names)
        gone = [epoch for epoch in epochs if epoch not in kept and manifest_name(epoch) in listed]
        doomed = [epoch for epoch in gone if epoch < complete_until(newest)]
        if not doomed:
            return False
        if give_away(self._storage, block_end(doomed[-1]), MARKS_MAX):
            self.done.manifests += self._delete_some([manifest_name(epoch) for epoch in doomed])
        return True

    def _delete_some(self, names: list[str]) -> int:
        """Delete a slice of some names; return how many."""
        begun = self._clock.ticks()
        for done, name in enumerate(names[:DELETES_MAX], 1):
            self._storage.delete(name)
            crashpoint("garbage.deleted")
            if done >= DELETES_MIN and self._clock.ticks() - begun > SLICE_SECONDS:
                return done
        return min(len(names), DELETES_MAX)

    def _look_at_files(self, sweep: _Sweep) -> bool:
        """Find out which files of a list are there and named by nobody; False if there are none."""
        epochs, _ = kept_epochs(self._storage)
        if not self._names.read(epochs, READS_MAX):
            return True
        named = self._names.of(epochs)
        self._since_look.clear()
        listed = set(sweep.listed.names)
        sweep.files = [name for name in files_there(self._storage) if name in listed and name not in named]
        return not self._delete_files(sweep)

    def _delete_files(self, sweep: _Sweep) -> bool:
        assert sweep.files is not None
        # A save that was listed before a commit named it, say.
        sweep.files = [name for name in sweep.files if name not in self._since_look]
        done = self._delete_some(sweep.files)
        self.done.files += done
        del sweep.files[:done]
        if sweep.files:
            return False
        forget_list(self._storage, sweep.name)
        del self._lists[sweep.name]
        self._recount()
        return True


def collect_all(storage: Storage, keep: Keep, clock: Clock) -> Collected:
    """Do all that can be done now, for a checkpoint that no job runs on: condemn, and delete what was long enough."""
    collector = Collector(storage, keep, clock)
    collector.refresh()
    epochs, _ = kept_epochs(storage)
    if keep.last is None or not epochs:
        return collector.done
    newest = epochs[-1]
    needed = _waiting_snapshot(storage, newest)
    while not collector.condemn(newest, needed=needed):
        pass
    collector.sweep_all(newest)
    return collector.done


def _waiting_snapshot(storage: Storage, newest: int) -> frozenset[str]:
    """Return the files of a snapshot that was finished, and that the next commit names."""
    made = last_merged(storage)
    name = manifest_name(newest)
    if made is None or made.epoch <= decode_manifest(storage.get(name), name).snapshot_epoch:
        return frozenset()
    return frozenset((*given_in(storage, MERGED)[-1:], *(file.file.name for file in made.files)))


def _failing(error: MillpondError) -> EpochError:
    return EpochError(
        "MP426",
        "garbage collection failed: epochs that are not kept can't be deleted",
        expected="a checkpoint whose manifests can be read and whose files can be deleted",
        found=f"{error.code} {error.summary}: {error.found or ''}"[:500],
        hint="nothing is lost, and this epoch is committed. `millpond state verify --all` says what is wrong; "
        "keep=Keep.all() deletes nothing",
    )
