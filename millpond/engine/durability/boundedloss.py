"""State with bounded loss: which elements of a run have it, and the thread that saves them behind the epochs.

A start settles what its predecessor left unsynced. Files that are whole are copied into the checkpoint, under the names
that manifests have for them. So after a start everything up to the last commit is durable. If files with bounded loss
are gone or torn, an epoch of its own goes on without them: each key is then as the newest of what is left has it, a
file or a save, and the manifest says how much is lost at most.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from millpond.checkpoint.commit.checkpoint import Checkpoint, ComputeEpoch
from millpond.checkpoint.commit.saver import PREFIX, Saved, Saver
from millpond.checkpoint.records.deltas import write_delta
from millpond.checkpoint.records.manifest import EpochDeltas, Loss, Manifest
from millpond.checkpoint.records.offers import Lost, Upkeep
from millpond.checkpoint.records.saves import saves_of
from millpond.checkpoint.records.work import Changed, EpochOutcome, EpochWork, Parent
from millpond.checkpoint.recovery import read_changes
from millpond.checkpoint.snapshots.snapshots import Snapshot
from millpond.clock import Clock, SystemClock
from millpond.compiler.compiled import CompiledProgram
from millpond.crashpoints import crashpoint
from millpond.engine.plan import Level, ProgramPlan
from millpond.errors import EpochError, MillpondError, StorageError
from millpond.ids import ManifestHash
from millpond.program.declare import Element
from millpond.program.durability import BoundedLoss
from millpond.state.changes import Changes
from millpond.state.containers.element import ElementType
from millpond.state.containers.list import List
from millpond.state.expiry import AgedType
from millpond.storage.composed.unsynced import UnsyncedStorage
from millpond.storage.content import FileRef, get_content
from millpond.storage.contract import PutOutcome, Storage

IDLE_SECONDS = 0.05
"""The thread looks at the clock no more often than that while no epoch comes."""

_CLOCK = SystemClock()

RunUpkeep = Callable[[Upkeep, ComputeEpoch], None]
"""Runs an epoch that changes the state as a whole."""


def bounded_loss_settings(program: CompiledProgram, durability: Level | BoundedLoss) -> dict[str, BoundedLoss]:
    """Return the elements with bounded loss, by name.

    Those that say so themselves, and if the run does, all that can have it.

    What a program can't have is refused.
    """
    told = {name: element.durability for name, element in program.elements.items()}
    found = {name: settings for name, settings in told.items() if isinstance(settings, BoundedLoss)}
    if durability is Level.REPLAY and found:
        raise EpochError(
            "MP496",
            'Durability("replay") is for all state of a program',
            expected="elements without a durability of their own",
            found=f"bounded loss: {', '.join(sorted(found))}",
            hint='choose "exactly_once" or "bounded_loss" for the job, or take it from the elements',
        )
    if durability is Level.BOUNDED_LOSS or isinstance(durability, BoundedLoss):
        settings = durability if isinstance(durability, BoundedLoss) else BoundedLoss()
        others = (name for name, element in program.elements.items() if told[name] is None and _by_entry(element))
        found |= dict.fromkeys(others, settings)
    relaxed = [name for name, entry in program.entries.items() if entry.point.relaxed]
    if found and relaxed:
        raise EpochError(
            "MP497",
            "a program with relaxed entry points can't have state with bounded loss",
            expected="exact entry points: messages that an epoch leaves would go on with state that is gone",
            found=f"relaxed: {', '.join(relaxed)}",
            hint='leave durability at "exactly_once"',
        )
    return found


def _by_entry(element: Element) -> bool:
    """Say whether each entry of an element means something without the others: no lists, no timers."""
    return type(element.type) in (ElementType, AgedType) and element.type.container is not List


@dataclass(frozen=True, slots=True)
class _Told:
    """A committed epoch that the saver is to take up."""

    outcome: EpochOutcome
    digest: ManifestHash
    now_us: int

    @property
    def keys(self) -> int:
        return sum(file.state.entries for file in self.outcome.unsynced)

    @property
    def size_bytes(self) -> int:
        return sum(file.state.file.size_bytes for file in self.outcome.unsynced)

    @property
    def updates(self) -> int:
        return sum(count for _, count in self.outcome.manifest.deltas[-1].lazy)


class Saving:
    """Saves such elements in a thread of its own: told of every commit, it writes what is due while others go on.

    Without a thread (`threaded=False`) it does so at once. What goes wrong is told with the next epoch.
    """

    def __init__(
        self,
        storage: UnsyncedStorage,
        settings: Mapping[int, BoundedLoss],
        *,
        threaded: bool = True,
        clock: Clock = _CLOCK,
    ) -> None:
        self._saver = Saver(storage, storage.kept, settings)
        self._waited_for = [one for one in settings.values() if one.overflow == "wait"]
        self._clock = clock
        self._changed = threading.Condition()
        # All below is guarded by the condition; the saver belongs to who works.
        self._told: list[_Told] = []
        self._done = Saved()
        self._offered = Saved()
        self._dirty = (0, 0)
        self._due_us: int | None = None
        self._ending = False
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None
        if threaded:
            # A daemon: what it does not get to is near the host, where the next start finds it.
            self._thread = threading.Thread(target=self._run, name="millpond-saving", daemon=True)
            self._thread.start()

    def noted(self, work: EpochWork) -> EpochWork:
        """Return the work with what was saved since the last one, for its manifest to name, and what is dirty."""
        with self._changed:
            self._raise()
            self._offered = saved = self._done
            keys = self._dirty[0] + sum(told.keys for told in self._told)
            updates = self._dirty[1] + sum(told.updates for told in self._told)
        counters = {
            "dirty_keys": keys,
            "dirty_updates": updates,
            "saved_keys": saved.keys,
            "saved_bytes": saved.size_bytes,
            "skipped": saved.skipped,
        }
        told = {f"{PREFIX}{name}": count for name, count in counters.items()}
        return replace(work, counters={**work.counters, **told}, saves=saved.refs)

    def committed(self, outcome: EpochOutcome, digest: ManifestHash, now_us: int) -> None:
        """Take up a committed epoch; where a full queue shall be waited for, that is here."""
        with self._changed:
            self._done = self._done.without(self._offered)
            self._offered = Saved()
            self._told.append(_Told(outcome, digest, now_us))
            self._changed.notify_all()
            if self._thread is not None:
                self._changed.wait_for(lambda: self._error is not None or self._has_room())
        if self._thread is None:
            self._work()

    def _has_room(self) -> bool:
        """Say whether what waits for the thread is within the queue of every element that is to be waited for."""
        keys, size_bytes = sum(told.keys for told in self._told), sum(told.size_bytes for told in self._told)
        return all(keys <= one.queue and size_bytes <= one.queue_bytes for one in self._waited_for)

    def close(self) -> None:
        """Save whatever is dirty, and end."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        else:
            self._work()
        self._raise()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._told or self._ending, timeout=self._idle_seconds())
                ending = self._ending
            self._work()
            if ending or self._error is not None:
                return

    def _idle_seconds(self) -> float | None:
        """Say how long nothing is due if no epoch comes."""
        if self._due_us is None:
            return None
        return max(IDLE_SECONDS, self._due_us / 1_000_000 - self._clock.now_ms() / 1000)

    def _work(self) -> None:
        with self._changed:
            told, ending = list(self._told), self._ending
        try:
            for one in told:
                self._saver.note(one.outcome.manifest, one.digest, one.outcome.unsynced, one.now_us)
            if ending:
                self._saver.save_all()
            else:
                self._saver.save(self._clock.now_ms() * 1000 if self._thread is not None else None)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next epoch tells it
            with self._changed:
                self._error = error
                self._changed.notify_all()
            return
        done, due_us = self._saver.take(), self._saver.next_due_us()
        with self._changed:
            del self._told[: len(told)]
            self._done = self._done.and_then(done)
            self._dirty = (self._saver.dirty_keys, self._saver.dirty_updates)
            self._due_us = due_us
            self._changed.notify_all()

    def _raise(self) -> None:
        error = self._error
        if error is None:
            return
        found = f"{error.code} {error.summary}" if isinstance(error, MillpondError) else f"{error!r}"
        raise EpochError(
            "MP498",
            "keys of elements with bounded loss can't be saved",
            expected="unsynced files on this host that can be read, and a checkpoint that can be written",
            found=found[:300],
            hint="this epoch was not committed; a new start syncs what is on the host, or says what is lost",
        ) from error


class BoundedLossRun:
    """The elements of a job with bounded loss: what a start finds of them, and who saves them while it runs."""

    def __init__(self, settings: Mapping[str, BoundedLoss], *, threaded: bool = True) -> None:
        self.settings = settings
        self._threaded = threaded
        self.loss: Loss | None = None
        self._saving: Saving | None = None

    def settle(
        self,
        unsynced: UnsyncedStorage,
        checkpoint: Checkpoint,
        upkeep: RunUpkeep,
        tell: Callable[[Loss], None],
    ) -> None:
        """Make durable what the last run left near its host, and tell what of it is lost."""
        # What an earlier run of this job could not save is looked at now.
        with suppress(EpochError):
            self.close()
        self.loss = None
        if self.settings or may_be_lost(checkpoint.head):
            self.loss = settle(unsynced, checkpoint, upkeep)
        if self.loss is not None:
            tell(self.loss)

    def begin(self, unsynced: UnsyncedStorage, plan: ProgramPlan) -> None:
        """Begin to save what epochs change."""
        if self.settings:
            settings = {plan.element_index(name): one for name, one in self.settings.items()}
            self._saving = Saving(unsynced, settings, threaded=self._threaded)

    def noted(self, work: EpochWork) -> EpochWork:
        """Return an epoch's work, with what was saved since the last one."""
        return work if self._saving is None else self._saving.noted(work)

    def committed(self, outcome: EpochOutcome, digest: ManifestHash, now_us: int) -> None:
        """Take up a committed epoch."""
        if self._saving is not None:
            self._saving.committed(outcome, digest, now_us)

    def close(self) -> None:
        """Save what is dirty, and end."""
        saving, self._saving = self._saving, None
        if saving is not None:
            saving.close()


def may_be_lost(head: Manifest | None) -> bool:
    """Say whether some of a state may be near a host alone, and its loss is borne."""
    return head is not None and any(delta.lazy for delta in _after(head, head.snapshot_epoch))


def _after(head: Manifest, epoch: int) -> list[EpochDeltas]:
    return [delta for delta in head.deltas if delta.epoch > epoch]


def settle(storage: UnsyncedStorage, checkpoint: Checkpoint, upkeep: RunUpkeep) -> Loss | None:
    """Make durable what is near; return what is lost, once the checkpoint says so too.

    A snapshot that was finished and that no manifest names yet may hold it: then nothing is.
    """
    head = checkpoint.head
    if head is None:
        return None
    lost: set[str] = set()
    for delta in _after(head, head.snapshot_epoch):
        for name in (state.file.name for state in delta.files if not _kept(storage, state.file)):
            # Any other file is told as missing by whoever needs it.
            if name in delta.lazy_names:
                lost.add(name)
    if not lost:
        return None
    told: list[Loss] = []

    def compute(parent: Parent) -> EpochWork:
        work = _without(storage.kept, head, parent, frozenset(lost), checkpoint.waiting_snapshot())
        assert work.loss is not None
        told.append(work.loss)
        for name in filter(storage.kept.contains, lost):
            # What is left of it must not hide a file that holds the same and is kept: the commit may merge a snapshot.
            storage.forget_unsynced(name)
        return work

    upkeep(Lost(), compute)
    crashpoint("loss.reported")
    for name in lost:
        storage.forget_unsynced(name)
        crashpoint("unsynced.forgotten")
    return told[-1] if told[-1].epochs else None


def _kept(storage: UnsyncedStorage, file: FileRef) -> bool:
    """Say whether a file is in the checkpoint, or is now; what is near may be gone, or torn."""
    if storage.kept.contains(file.name):
        storage.forget_unsynced(file.name)
        return True
    try:
        data = get_content(storage, file)
    except StorageError:
        return False
    if storage.kept.put(file.name, data) is PutOutcome.PRESENT:
        get_content(storage.kept, file)
    crashpoint("unsynced.kept")
    storage.forget_unsynced(file.name)
    return True


def _without(
    kept: Storage, head: Manifest, parent: Parent, lost: frozenset[str], snapshot: Snapshot | None
) -> EpochWork:
    since = head.snapshot_epoch if snapshot is None else snapshot.epoch
    restored = _restored(kept, head, parent, lost, since)
    files = write_delta(kept, restored, parent.mark) if restored.keys else ()
    loss = _loss(head, lost, since, len(restored.keys))
    told = {"lost_keys": loss.keys, "lost_updates": loss.updates, "restored_keys": loss.restored}
    return EpochWork(
        changed=(Changed(files=files),),
        outputs=(),
        counters={f"{PREFIX}{name}": count for name, count in told.items()},
        loss=loss,
        lost=lost,
        snapshot=snapshot,
    )


def _restored(kept: Storage, head: Manifest, parent: Parent, lost: frozenset[str], since: int) -> Changes:
    """Return the saved keys that no file has as they were later."""
    epochs: dict[bytes, int] = {}
    values: dict[bytes, bytes | None] = {}
    for save in saves_of(kept, head, parent.hash, since):
        epochs.update(dict.fromkeys(save.keys, save.epoch))
        values.update(zip(save.keys, save.values, strict=True))
    oldest = min(epochs.values(), default=head.epoch)
    for delta in _after(head, since):
        if delta.epoch <= oldest:
            continue
        for state in delta.files:
            if state.file.name not in lost:
                for key in read_changes(kept, state).keys:
                    if epochs.get(key, delta.epoch) < delta.epoch:
                        del epochs[key], values[key]
    return Changes.of(values)


def _loss(head: Manifest, lost: frozenset[str], since: int, restored: int) -> Loss:
    """Say how much is gone at most: what the lost files held, or what was not durable when the head was committed."""
    deltas = [delta for delta in _after(head, since) if delta.lazy_names & lost]
    files = [state for delta in deltas for state in delta.files if state.file.name in lost]
    keys = sum(state.entries for state in files)
    updates = sum(count for delta in deltas for name, count in delta.lazy if name in lost)
    own = head.deltas[-1]
    if f"{PREFIX}dirty_keys" in head.counters:
        fresh = sum(state.entries for state in own.files if state.file.name in own.lazy_names)
        keys = min(keys, head.counters[f"{PREFIX}dirty_keys"] + fresh)
        updates = min(updates, head.counters[f"{PREFIX}dirty_updates"] + sum(count for _, count in own.lazy))
    return Loss(tuple(int(delta.epoch) for delta in deltas), len(files), keys, updates, restored)
