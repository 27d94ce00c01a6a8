"""The performer of the commit protocol over a storage: opens a checkpoint and runs epochs on it, each exactly once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from millpond.clock import Clock, SystemClock
from millpond.crashpoints import crashpoint
from millpond.epochs import machine
from millpond.epochs.background import Snapshots
from millpond.epochs.commit import check_work, next_manifest, parent_of, write_segment
from millpond.epochs.genesis import open_genesis
from millpond.epochs.machine import Head, Reason
from millpond.epochs.manifest import ElementSchema, Genesis, Manifest, Offer, StateFile, encode_manifest, manifest_hash
from millpond.epochs.recovery import last_manifest
from millpond.epochs.refusal import refusal
from millpond.epochs.snapshots import Snapshot, fits
from millpond.epochs.work import EpochOutcome, EpochResult, EpochTimings, EpochWork, JobAborted, Parent, PartResult
from millpond.ids import EpochId, ManifestHash
from millpond.storage.contract import PutOutcome, Storage

__all__ = [
    "Checkpoint",
    "EpochOutcome",
    "EpochResult",
    "EpochTimings",
    "EpochWork",
    "JobAborted",
    "Offer",
    "Parent",
    "PartResult",
]

ComputeEpoch = Callable[[Parent], EpochWork]
PublishEpoch = Callable[[Manifest], None]

RETRIES = 3
"""How often an aborted job is tried again before the user sees it; Spark has tried its tasks itself by then."""

_CLOCK = SystemClock()


class Checkpoint:
    """A checkpoint opened by one driver.

    If another driver commits meanwhile, this one loses at its next commit and stays stopped. After any other error the
    next call reads the storage again, since the error may have come after the commit.
    """

    def __init__(self, storage: Storage, genesis: Genesis, genesis_hash: ManifestHash, clock: Clock) -> None:
        self._storage = storage
        self._genesis = genesis
        self._genesis_hash = genesis_hash
        self._clock = clock
        self._head: Manifest | None = None
        self._head_hash = genesis_hash
        self._snapshots = Snapshots(storage, genesis.key_groups)
        self._load_head()

    @classmethod
    def open(
        cls,
        storage: Storage,
        elements: tuple[ElementSchema, ...],
        key_groups: int | None = None,
        instances: int | None = None,
        clock: Clock = _CLOCK,
    ) -> Checkpoint:
        """Open a checkpoint, made now if there is none; one that does not fit the program is a coded error.

        `instances` is for one that is made now. One that is there may have another number, and keeps it until a
        rescale is offered (`Offer.rescale`).
        """
        genesis, genesis_hash = open_genesis(storage, elements, key_groups, instances, clock)
        return cls(storage, genesis, genesis_hash, clock)

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
        return parent_of(self._genesis, self._head, self._head_hash)

    @property
    def instances(self) -> int:
        """How many instances of partial state there are."""
        return self.parent.instances

    def run_epoch(
        self,
        offer: Offer,
        compute: ComputeEpoch,
        publish: PublishEpoch,
        *,
        partitions: int,
        retries: int = RETRIES,
        adopt: bool = False,
    ) -> EpochOutcome:
        """Apply a batch exactly once: compute, commit, publish; return at once if it is committed already.

        `compute` runs again from the same parent when it raises `JobAborted`, at most `retries` times. `publish` must
        be idempotent: after a crash the head is published again, before anything else.
        """
        crashpoint("epoch.offered")
        course = _Course(offer, compute, publish, partitions)
        reason = self._perform(machine.Offered(offer, adopt, retries), course)
        assert self._head is not None, reason
        result = EpochResult.COMMITTED if reason is Reason.COMMITTED else EpochResult.ALREADY_COMMITTED
        return EpochOutcome(result, self._head, EpochTimings(**course.seconds))

    def finish_publication(self, publish: PublishEpoch) -> None:
        """Publish the head if that is not certain yet; for a start after which no batch may come for long."""
        self._perform(machine.Resumed(), _Course(None, _compute_nothing, publish, 1))

    def close(self) -> None:
        """Let go of a snapshot that is under way: for the end of a run, after which no epoch comes."""
        self._snapshots.close(self._head)

    def _load_head(self) -> None:
        found = last_manifest(self._storage, self._genesis_hash)
        self._head, self._head_hash = found or (None, self._genesis_hash)
        if self._head is not None:
            # Its writer may have died before the name was durable; a put of a name that is taken makes it so.
            self._storage.put(self._head.name, encode_manifest(self._head))
            self._snapshots.resume(self._head, self._head_hash)
        self._state = machine.start(head_of(self._head, self.instances))
        self._unsure = False

    def _perform(self, event: machine.Event, course: _Course) -> Reason:
        if self._unsure:
            self._load_head()
        # Until the machine has its last word, an error may come before or after the commit.
        self._unsure = True
        actions = deque(self._step(event))
        while True:
            action = actions.popleft()
            match action:
                case machine.Compute():
                    actions.extend(self._step(self._compute(course)))
                case machine.WriteSegment():
                    self._write_segment(course)
                case machine.PutManifest():
                    actions.extend(self._step(machine.ManifestPut(self._put_manifest(course))))
                case machine.Publish():
                    actions.extend(self._step(self._publish(course)))
                case machine.Done(reason):
                    self._unsure = False
                    return reason
                case machine.Fail(reason):
                    self._unsure = False
                    raise refusal(reason, self._state.head, course.offer, course.abort) from course.abort

    def _step(self, event: machine.Event) -> tuple[machine.Action, ...]:
        self._state, actions = machine.step(self._state, event)
        return actions

    def _compute(self, course: _Course) -> machine.Computed | machine.Aborted:
        course.abort = None
        with course.timed("compute_s", self._clock):
            try:
                course.work = course.compute(self.parent)
            except JobAborted as abort:
                course.abort = abort
                return machine.Aborted()
        check_work(course.work, self._genesis.key_groups, course.partitions)
        crashpoint("epoch.computed")
        return machine.Computed(leaves=bool(course.work.pending))

    def _write_segment(self, course: _Course) -> None:
        assert course.work is not None
        with course.timed("segment_s", self._clock):
            course.segment = write_segment(self._storage, course.work)
        crashpoint("segment.written")

    def _put_manifest(self, course: _Course) -> PutOutcome:
        assert course.offer is not None
        assert course.work is not None
        count = course.offer.instances or self.instances
        manifest = next_manifest(
            self.parent,
            self._head,
            course.offer,
            course.work,
            course.segment,
            partitions=course.partitions,
            instances=None if count == self._genesis.instances else count,
            snapshot=self._ready_snapshot(),
        )
        data = encode_manifest(manifest)
        with course.timed("commit_s", self._clock):
            outcome = self._storage.put(manifest.name, data)
        if outcome is PutOutcome.WON:
            crashpoint("manifest.committed")
            self._head, self._head_hash = manifest, manifest_hash(data)
            self._snapshots.committed(manifest, self._head_hash)
        return outcome

    def _ready_snapshot(self) -> Snapshot | None:
        made = self._snapshots.take()
        if made is None or self._head is None or not fits(made, self._head, self._head_hash, self._genesis.key_groups):
            return None
        # Whoever tidies up behind us may have taken chunks that no manifest named yet.
        return made if all(self._storage.contains(file.file.name) for file in made.files) else None

    def _publish(self, course: _Course) -> machine.Published:
        assert self._head is not None
        crashpoint("publish.started")
        with course.timed("publish_s", self._clock):
            course.publish(self._head)
        crashpoint("publish.finished")
        return machine.Published()


def head_of(manifest: Manifest | None, instances: int) -> Head:
    """What the machine knows of the last committed epoch, with so many instances of partial state."""
    if manifest is None:
        return Head(instances=instances)
    unfinished = manifest.offer if manifest.pending else None
    return Head(manifest.epoch, manifest.stream, manifest.runs, unfinished, instances)


@dataclass(slots=True)
class _Course:
    """One offer on its way through the machine, with what its actions leave for each other."""

    offer: Offer | None
    compute: ComputeEpoch
    publish: PublishEpoch
    partitions: int
    work: EpochWork | None = None
    segment: StateFile | None = None
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
