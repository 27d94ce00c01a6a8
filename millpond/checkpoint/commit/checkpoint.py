"""The performer of the commit protocol over a storage: opens a checkpoint and runs epochs on it, each exactly once."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest

from millpond.checkpoint.commit import machine
from millpond.checkpoint.commit.commit import (
    check_work,
    head_of,
    next_manifest,
    parent_of,
    write_segment,
    write_unsynced,
)
from millpond.checkpoint.commit.machine import Reason
from millpond.checkpoint.commit.refusal import refusal
from millpond.checkpoint.records.heads import Heads
from millpond.checkpoint.records.manifest import (
    FORMAT,
    GENESIS_NAME,
    Elements,
    ElementSchema,
    Genesis,
    Manifest,
    Ownership,
    StateFile,
    elements_mark,
    encode_genesis,
    encode_manifest,
    manifest_hash,
)
from millpond.checkpoint.records.offers import Offer, Rescaled
from millpond.checkpoint.records.work import (
    Changed,
    EpochOutcome,
    EpochResult,
    EpochTimings,
    EpochWork,
    JobAborted,
    Parent,
    UnsyncedFile,
)
from millpond.checkpoint.recovery import last_manifest, read_genesis
from millpond.checkpoint.retention.collection import Collected, Collector
from millpond.checkpoint.retention.reachable import names_of, was_followed
from millpond.checkpoint.retention.retention import Keep
from millpond.checkpoint.retention.retired import is_retired
from millpond.checkpoint.snapshots.background import Snapshots
from millpond.checkpoint.snapshots.compaction import last_merged
from millpond.checkpoint.snapshots.snapshots import Snapshot, fits, snapshot_due
from millpond.clock import Clock, SystemClock
from millpond.crashpoints import crashpoint
from millpond.errors import EpochError
from millpond.ids import EpochId, ManifestHash
from millpond.keygroups import DEFAULT_INSTANCES, DEFAULT_KEY_GROUPS
from millpond.storage.composed.elements import check_elements as check_places
from millpond.storage.composed.elements import tell_elements
from millpond.storage.composed.unsynced import unsynced_of
from millpond.storage.contract import PutOutcome, Storage

__all__ = [
    "Changed",
    "Checkpoint",
    "EpochOutcome",
    "EpochResult",
    "EpochTimings",
    "EpochWork",
    "JobAborted",
    "Parent",
]

ComputeEpoch = Callable[[Parent], EpochWork]
PublishEpoch = Callable[[Manifest], None]

RETRIES = 3
"""How often an aborted job is tried again before the user sees it; Spark has tried its tasks itself by then."""

SURE_SECONDS = 10.0
"""For so long after a commit, the next number is looked up after its put only, and not before it too."""

_CLOCK = SystemClock()
_KEEP_ALL = Keep.all()


class Checkpoint:
    """A checkpoint opened by one driver.

    If another driver commits meanwhile, this one loses at its next commit and stays stopped. After any other error the
    next call reads the storage again, since the error may have come after the commit.
    """

    def __init__(
        self, storage: Storage, genesis: Genesis, genesis_hash: ManifestHash, clock: Clock, keep: Keep = _KEEP_ALL
    ) -> None:
        self._storage = storage
        self._genesis = genesis
        self._genesis_hash = genesis_hash
        self._clock = clock
        self._driver = uuid.uuid4().hex
        self._heads = Heads(storage)
        self._snapshots = Snapshots(storage, genesis.key_groups)
        self._collector = Collector(storage, keep, clock)
        self.settings: Mapping[str, str] = {}
        """Marks of the settings that epochs are computed with, by name; whoever computes them says so."""
        self._load_head()

    @classmethod
    def open(
        cls,
        storage: Storage,
        elements: tuple[ElementSchema, ...],
        key_groups: int | None = None,
        instances: int | None = None,
        clock: Clock = _CLOCK,
        *,
        evolving: bool = False,
        keep: Keep = _KEEP_ALL,
    ) -> Checkpoint:
        """Open a checkpoint, made now if there is none; one that does not fit the program is a coded error.

        `instances` is for one that is made now. One that is there may have another number, and keeps it until a
        rescale is offered (`Rescaled`). Likewise it may have other elements if the caller is `evolving`, and
        keeps them until an evolution is offered (`Evolved`). Epochs that are not to `keep` are deleted in time.
        """
        # Before anything is written.
        check_places(storage, [element.name for element in elements])
        genesis, genesis_hash = _open_genesis(storage, elements, key_groups, instances, clock)
        checkpoint = cls(storage, genesis, genesis_hash, clock, keep)
        if not evolving:
            _check_elements(checkpoint.elements, elements)
        return checkpoint

    @property
    def genesis(self) -> Genesis:
        """What is fixed for the life of the checkpoint."""
        return self._genesis

    @property
    def head(self) -> Manifest | None:
        """The last committed epoch's manifest; None before the first one."""
        return self._head

    @property
    def head_hash(self) -> ManifestHash:
        """The hash of the head; before the first epoch, that of the genesis."""
        return self._head_hash

    @property
    def epoch(self) -> EpochId:
        """The number of the last committed epoch; 0 before the first one."""
        return self._head.epoch if self._head else EpochId(0)

    @property
    def parent(self) -> Parent:
        """The point that the next epoch starts from."""
        return self._parent

    @property
    def instances(self) -> int:
        """How many instances of partial state there are."""
        return self.parent.instances

    @property
    def elements(self) -> Elements:
        """The state elements by index; None where one was dropped."""
        return self.parent.elements

    @property
    def collected(self) -> Collected:
        """What was done to delete epochs that are not kept, since this driver opened the checkpoint."""
        return self._collector.done

    def run_epoch(
        self,
        offer: Offer,
        compute: ComputeEpoch,
        publish: PublishEpoch,
        *,
        partitions: int,
        retries: int = RETRIES,
        adopt: bool = False,
        ownership: Ownership | None = None,
    ) -> EpochOutcome:
        """Apply a batch exactly once: compute, commit, publish; return at once if it is committed already.

        `compute` runs again from the same parent when it raises `JobAborted`, at most `retries` times. `publish` must
        be idempotent: after a crash the head is published again, before anything else. `ownership` says who owns which
        key groups, if that was assigned.
        """
        crashpoint("epoch.offered")
        attempt = _Attempt(offer, compute, publish, partitions, ownership)
        reason = self._perform(machine.Offered(offer, adopt, retries), attempt)
        assert self._head is not None, reason
        result = EpochResult.COMMITTED if reason is Reason.COMMITTED else EpochResult.ALREADY_COMMITTED
        if result is EpochResult.COMMITTED:
            # While one is due, a snapshot may be on its way that nobody names yet.
            self._collector.tick(self._head.epoch, merging=snapshot_due(self._head))
        return EpochOutcome(result, self._head, EpochTimings(**attempt.seconds), attempt.unsynced)

    def finish_publication(self, publish: PublishEpoch) -> None:
        """Publish the head if that is not certain yet; for a start after which no batch may come for long."""
        self._perform(machine.Resumed(), _Attempt(None, _compute_nothing, publish, 1))

    def close(self) -> None:
        """Let go of a snapshot that is under way: for the end of a run, after which no epoch comes."""
        self._snapshots.close(self._head)

    def _move(self, head: Manifest | None, head_hash: ManifestHash) -> None:
        self._head, self._head_hash = head, head_hash
        self._parent = parent_of(self._genesis, head, head_hash, self._driver)

    def _load_head(self) -> None:
        self._sure_at = self._clock.ticks()
        self._collector.refresh()
        found = last_manifest(self._storage, self._genesis_hash)
        self._move(*(found or (None, self._genesis_hash)))
        if self._head is not None:
            # Its writer may have died before the name was durable; a put of a name that is taken makes it so.
            self._storage.put(self._head.name, self._storage.get(self._head.name))
            self._heads.note(self._head.epoch, self._head_hash)
            self._snapshots.look()
        published = self._head is not None and was_followed(self._storage, self._head.epoch, self._head_hash)
        self._state = machine.start(
            head_of(self._head, self.instances, elements_mark(self.elements)), published=published
        )
        self._tell_places()
        self._unsure = False

    def _tell_places(self) -> None:
        tell_elements(self._storage, [None if element is None else element.name for element in self.elements])

    def _perform(self, event: machine.Event, attempt: _Attempt) -> Reason:
        if self._unsure:
            self._load_head()
        # Until the machine has its last word, an error may come before or after the commit.
        self._unsure = True
        actions = deque(self._step(event))
        while True:
            action = actions.popleft()
            match action:
                case machine.Compute():
                    actions.extend(self._step(self._compute(attempt)))
                case machine.WriteSegment():
                    self._write_segment(attempt)
                case machine.PutManifest():
                    actions.extend(self._step(machine.ManifestPut(self._put_manifest(attempt))))
                case machine.Publish():
                    actions.extend(self._step(self._publish(attempt)))
                case machine.Done(reason):
                    self._unsure = False
                    return reason
                case machine.Fail(reason):
                    self._unsure = False
                    raise refusal(reason, self._state.head, attempt.offer, attempt.abort) from attempt.abort

    def _step(self, event: machine.Event) -> tuple[machine.Action, ...]:
        self._state, actions = machine.step(self._state, event)
        return actions

    def _compute(self, attempt: _Attempt) -> machine.Computed | machine.Aborted:
        attempt.abort = None
        with attempt.timed("compute_s", self._clock):
            try:
                attempt.work = attempt.compute(self.parent)
            except JobAborted as abort:
                attempt.abort = abort
                return machine.Aborted()
        check_work(attempt.work, self._genesis.key_groups)
        crashpoint("epoch.computed")
        return machine.Computed(leaves=bool(attempt.work.pending))

    def _write_segment(self, attempt: _Attempt) -> None:
        assert attempt.work is not None
        with attempt.timed("segment_s", self._clock):
            unsynced, mark = unsynced_of(self._storage), self.parent.mark
            attempt.segment = write_segment(
                self._storage if attempt.work.input is None else unsynced, attempt.work, mark
            )
            attempt.unsynced = write_unsynced(unsynced, attempt.work, mark)
        crashpoint("segment.written")

    def _put_manifest(self, attempt: _Attempt) -> PutOutcome:
        assert attempt.offer is not None
        assert attempt.work is not None
        snapshot = self._ready_snapshot() if attempt.work.snapshot is None else attempt.work.snapshot
        parent = self.parent
        count = attempt.offer.instances if isinstance(attempt.offer, Rescaled) else parent.instances
        elements = parent.elements if attempt.work.elements is None else attempt.work.elements
        manifest = next_manifest(
            parent,
            self._head,
            attempt.offer,
            attempt.work,
            attempt.segment,
            unsynced=attempt.unsynced,
            partitions=attempt.partitions,
            instances=None if count == self._genesis.instances else count,
            elements=None if elements == self._genesis.elements else elements,
            snapshot=snapshot,
            ownership=attempt.ownership,
            settings=self.settings,
        )
        data = encode_manifest(manifest)
        with attempt.timed("commit_s", self._clock):
            outcome = self._put_if_ours(manifest, data)
        if outcome is PutOutcome.WON:
            digest = manifest_hash(data)
            self._heads.note(manifest.epoch, digest)
            crashpoint("manifest.committed")
            self._move(manifest, digest)
            self._tell_places()
            self._collector.committed(manifest)
            self._snapshots.committed(manifest, self._head_hash)
        return outcome

    def _put_if_ours(self, manifest: Manifest, data: bytes) -> PutOutcome:
        """Put a manifest; a number that others took and gave away is not ours, although its name may be free."""
        long_ago = self._clock.ticks() - self._sure_at > SURE_SECONDS
        if long_ago and is_retired(self._storage, manifest.epoch):
            return PutOutcome.PRESENT
        if long_ago:
            self._check_deletion_lists(manifest)
        outcome = self._storage.put(manifest.name, data)
        if outcome is PutOutcome.WON and is_retired(self._storage, manifest.epoch):
            return PutOutcome.PRESENT
        self._sure_at = self._clock.ticks()
        return outcome

    def _check_deletion_lists(self, manifest: Manifest) -> None:
        """Refuse files that `millpond state gc` took for garbage while the epoch was on its way."""
        self._collector.refresh()
        known = frozenset() if self._head is None else names_of(self._head)
        fresh = names_of(manifest) - known
        listed = fresh & self._collector.condemned
        if manifest.deltas and manifest.deltas[-1].input is None:
            # A list that all is deleted of is forgotten. What can be computed again may lie elsewhere.
            listed |= {name for name in fresh if not self._storage.contains(name)}
        if listed:
            raise EpochError(
                "MP443",
                f"garbage collection beside the job listed files of epoch {manifest.epoch} before it was committed",
                expected="`millpond state gc` only where no job runs: a job collects its garbage itself",
                found=f"{len(listed)} files on a deletion list, or deleted, such as {min(listed)}",
                hint="nothing is lost: start the job again, which computes the epoch anew",
            )

    def waiting_snapshot(self) -> Snapshot | None:
        """Return a snapshot that was finished, and that the next manifest may name; None if there is none."""
        made = last_merged(self._storage)
        return made if made is not None and self._may_name(made) else None

    def _ready_snapshot(self) -> Snapshot | None:
        made = self._snapshots.take()
        return made if made is not None and self._may_name(made) else None

    def _may_name(self, made: Snapshot) -> bool:
        if self._head is None or not fits(made, self._head, self._head_hash, self._genesis.key_groups):
            return False
        # Whoever tidies up behind us may have taken chunks that no manifest named yet, or be about to.
        self._collector.refresh()
        named = {state.file.name for state in self._head.snapshot}
        names = {file.file.name for file in made.files} - named
        return not names & self._collector.condemned and all(map(self._storage.contains, names))

    def _publish(self, attempt: _Attempt) -> machine.Published:
        assert self._head is not None
        crashpoint("publish.started")
        with attempt.timed("publish_s", self._clock):
            attempt.publish(self._head)
        crashpoint("publish.finished")
        return machine.Published()


@dataclass(slots=True)
class _Attempt:
    """One offer on its way through the machine, with what its actions leave for each other."""

    offer: Offer | None
    compute: ComputeEpoch
    publish: PublishEpoch
    partitions: int
    ownership: Ownership | None = None
    work: EpochWork | None = None
    segment: tuple[StateFile, ...] = ()
    unsynced: tuple[UnsyncedFile, ...] = ()
    abort: JobAborted | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, what: str, clock: Clock) -> Iterator[None]:
        begun = clock.ticks()
        try:
            yield
        finally:
            self.seconds[what] = self.seconds.get(what, 0.0) + clock.ticks() - begun


def _compute_nothing(parent: Parent) -> EpochWork:
    raise AssertionError(f"nothing was offered on top of epoch {parent.epoch}")


def _open_genesis(
    storage: Storage, elements: tuple[ElementSchema, ...], key_groups: int | None, instances: int | None, clock: Clock
) -> tuple[Genesis, ManifestHash]:
    """Return the checkpoint's genesis and its hash, made now if there is none; it is durable on return.

    Of several creators one wins, and all use the winner's. Only key groups are fixed for good: the number of instances
    of partial state and the elements can be changed later, and who opens it says whether they may have been.
    """
    there = read_genesis(storage)
    if there is None:
        groups = DEFAULT_KEY_GROUPS if key_groups is None else key_groups
        copies = min(DEFAULT_INSTANCES, groups) if instances is None else instances
        fresh = Genesis(FORMAT, str(uuid.uuid4()), groups, copies, elements, clock.now_ms())
        storage.put(GENESIS_NAME, encode_genesis(fresh))
        crashpoint("checkpoint.created")
        there = read_genesis(storage)
        assert there is not None, "a genesis was put a moment ago"
    else:
        # Its creator may have died before the name was durable; a put of a name that is taken makes it so.
        storage.put(GENESIS_NAME, storage.get(GENESIS_NAME))
    _check_key_groups(there[0].key_groups, key_groups)
    return there


def _check_elements(there: Elements, wanted: tuple[ElementSchema, ...]) -> None:
    """Refuse elements that are not just those of the checkpoint: for who opens it without a way to change them."""
    kept = tuple(element for element in there if element is not None)
    if kept == wanted:
        return
    pairs = [(old, new) for old, new in zip_longest(kept, wanted) if old != new]
    raise EpochError(
        "MP401",
        "the program's state elements are not those of the checkpoint",
        expected="; ".join("nothing more" if old is None else str(old) for old, _ in pairs),
        found="; ".join("nothing" if new is None else str(new) for _, new in pairs),
        hint="give the program its old elements in their old order, or use a new checkpoint",
    )


def _check_key_groups(kept: int, wanted: int | None) -> None:
    if wanted is None or wanted == kept:
        return
    raise EpochError(
        "MP402",
        "the number of key groups is fixed when a checkpoint is made",
        expected=str(kept),
        found=str(wanted),
        hint="leave out `key_groups` to use the checkpoint's own, or use a new checkpoint",
    )
