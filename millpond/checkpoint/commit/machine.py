"""The commit protocol as a pure machine: events in, actions out, no clock, no disk.

One machine serves one driver from its start to its end. It knows the last committed epoch (the head) and whether that
epoch's outputs were published for sure; after a start they never are. Whoever drives it performs the actions in order
and answers each but the last word (`Done`, `Fail`) with an event. A driver that dies, or that sees an action raise,
forgets its machine and begins a new one from what is durable.

    IDLE --Offered--> PUBLISHING (the head, if unsure) --Published--> decide
    decide --> IDLE (done already, or refused) | COMPUTING --Computed--> COMMITTING --ManifestPut--> PUBLISHING
    COMPUTING --Aborted--> COMPUTING (again, from the same parent) | IDLE (given up)
    COMMITTING --ManifestPut(PRESENT)--> STOPPED: another driver committed this epoch
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto

from millpond.checkpoint.records.offers import Batch, BoundedRun, Evolved, Loaded, Offer, Rescaled
from millpond.storage.contract import PutOutcome

STORY_EVENTS_MAX = 32
"""Enough to tell what led to a bad state; a driver lives for millions of events."""


class Reason(Enum):
    """Why the machine did what it did; every one is reached by the exhaustive test."""

    FIRST_BATCH = "the first batch of a fresh checkpoint"
    NEXT_BATCH = "the batch after the last one"
    NEW = "what is no batch of a stream, and was not done before"
    CONTINUED = "what the last batch left to do"
    ADOPTED = "a batch that does not follow, adopted as new data"
    COMMITTED_BEFORE = "it is committed already"
    CHECKPOINT_LOST = "a later batch on a fresh checkpoint"
    QUERY_CHANGED = "a batch of another query"
    BATCHES_SKIPPED = "a batch that leaves a gap"
    BATCH_WENT_BACK = "a batch before the last one"
    SOURCES_CHANGED = "a batch of other feeds"
    UNFINISHED = "another batch while the last one has something left to do"
    COMMITTED = "the epoch is committed and published"
    RESUMED = "the last committed epoch is published"
    RETRIES_SPENT = "the job was aborted too often"
    FENCED = "another driver committed this epoch"


ACCEPTED = frozenset({Reason.FIRST_BATCH, Reason.NEXT_BATCH, Reason.NEW, Reason.CONTINUED, Reason.ADOPTED})
ADOPTABLE = frozenset(
    {
        Reason.CHECKPOINT_LOST,
        Reason.QUERY_CHANGED,
        Reason.BATCHES_SKIPPED,
        Reason.BATCH_WENT_BACK,
        Reason.SOURCES_CHANGED,
    }
)


class Phase(Enum):
    """What the machine waits for."""

    IDLE = auto()
    PUBLISHING = auto()
    COMPUTING = auto()
    COMMITTING = auto()
    STOPPED = auto()


@dataclass(frozen=True, slots=True)
class Head:
    """The last committed epoch, the last batch of a stream up to it, and the bounded runs up to it.

    `unfinished` is the batch of the head if it left messages, which the next epoch goes on with. `instances` is how
    many there are of partial state. `elements` is the mark of the state elements, and `loads` are the loads of initial
    state up to it.
    """

    epoch: int = 0
    stream: Batch | None = None
    runs: tuple[str, ...] = ()
    unfinished: Offer | None = None
    instances: int = 0
    elements: str = ""
    loads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """An offer under way: how it was judged (None: not yet), how often it was aborted, whether it leaves messages."""

    offer: Offer
    adopt: bool
    retries: int
    verdict: Reason | None = None
    aborts: int = 0
    leaves: bool = False


@dataclass(frozen=True, slots=True)
class MachineState:
    """All that a driver knows."""

    phase: Phase
    head: Head
    head_published: bool
    attempt: Attempt | None = None
    story: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Offered:
    """A batch was handed over."""

    offer: Offer
    adopt: bool = False
    retries: int = 0


@dataclass(frozen=True, slots=True)
class Resumed:
    """The driver starts and has no batch yet."""


@dataclass(frozen=True, slots=True)
class Computed:
    """The job of the epoch gave its result; `leaves` if messages are left for the next epoch."""

    leaves: bool = False


@dataclass(frozen=True, slots=True)
class Aborted:
    """The job of the epoch was given up."""


@dataclass(frozen=True, slots=True)
class ManifestPut:
    """The put of the manifest returned."""

    outcome: PutOutcome


@dataclass(frozen=True, slots=True)
class Published:
    """The outputs of the head are where the world sees them."""


Event = Offered | Resumed | Computed | Aborted | ManifestPut | Published


@dataclass(frozen=True, slots=True)
class Compute:
    """Run the epoch's job from the head; answer `Computed` or `Aborted`."""

    epoch: int


@dataclass(frozen=True, slots=True)
class WriteSegment:
    """Write the small changes of all partitions as one file; no answer."""

    epoch: int


@dataclass(frozen=True, slots=True)
class PutManifest:
    """Put the manifest if its name is free; answer `ManifestPut`."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish the head's outputs, idempotently; answer `Published`."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Done:
    """The offer ended well."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Fail:
    """The offer ended with an error that the user shall see."""

    reason: Reason


Action = Compute | WriteSegment | PutManifest | Publish | Done | Fail
Step = tuple[MachineState, tuple[Action, ...]]


def start(head: Head, *, published: bool = False) -> MachineState:
    """Begin from what is durable; whether a head's outputs were `published` is mostly not known."""
    return MachineState(Phase.IDLE, head, head_published=published or head.epoch == 0)


def step(state: MachineState, event: Event) -> Step:
    """Take one event: the new state, and what to do now."""
    told = replace(state, story=(*state.story, f"{state.phase.name} <- {event}")[-STORY_EVENTS_MAX:])
    after, actions = _react(told, event)
    validate(after)
    return after, actions


def judge(head: Head, offer: Offer) -> Reason:
    """Say how an offer relates to the head, whatever the user allows."""
    if head.unfinished is not None:
        return Reason.CONTINUED if offer == head.unfinished else Reason.UNFINISHED
    if not isinstance(offer, Batch):
        return Reason.COMMITTED_BEFORE if _is_done(head, offer) else Reason.NEW
    last = head.stream
    if last is None:
        return Reason.FIRST_BATCH if offer.number == 0 else Reason.CHECKPOINT_LOST
    if offer.query != last.query:
        return Reason.QUERY_CHANGED
    if offer.number == last.number:
        return Reason.COMMITTED_BEFORE
    if offer.number < last.number:
        return Reason.BATCH_WENT_BACK
    if offer.number > last.number + 1:
        return Reason.BATCHES_SKIPPED
    if offer.sources != last.sources:
        return Reason.SOURCES_CHANGED
    return Reason.NEXT_BATCH


def _is_done(head: Head, offer: Offer) -> bool:
    """Say whether the head has what an offer asks for; time moves on, and losses are told, each time."""
    match offer:
        case BoundedRun(name):
            return name in head.runs
        case Rescaled(instances):
            return instances == head.instances
        case Evolved(mark):
            return mark == head.elements
        case Loaded(name):
            return name in head.loads
        case _:
            return False


def validate(state: MachineState) -> None:
    """Assert what must hold in every state; the message tells how it came about."""
    story = "\n".join(("the machine is in a bad state", *state.story, str(state.phase)))
    busy = state.phase in {Phase.COMPUTING, Phase.COMMITTING}
    judged = state.attempt is not None and state.attempt.verdict is not None
    assert judged or not busy, story
    assert state.head_published or not busy, story
    assert not (state.phase is Phase.PUBLISHING and state.head_published), story
    assert state.attempt is None or state.phase not in {Phase.IDLE, Phase.STOPPED}, story
    assert state.attempt is None or state.attempt.aborts <= state.attempt.retries, story
    assert state.attempt is None or state.attempt.verdict in ACCEPTED | {None}, story
    fresh = Head(instances=state.head.instances, elements=state.head.elements)
    assert state.head.epoch > 0 or state.head == fresh, story


def _react(state: MachineState, event: Event) -> Step:
    match state.phase, event:
        case Phase.STOPPED, Offered() | Resumed():
            return state, (Fail(Reason.FENCED),)
        case Phase.IDLE, Offered(offer, adopt, retries):
            return _settle_head(replace(state, attempt=Attempt(offer, adopt, retries)))
        case Phase.IDLE, Resumed():
            return _settle_head(state)
        case Phase.PUBLISHING, Published():
            return _after_publication(replace(state, head_published=True))
        case Phase.COMPUTING, Computed(leaves):
            epoch = state.head.epoch + 1
            attempt = replace(_attempted(state), leaves=leaves)
            after = replace(state, phase=Phase.COMMITTING, attempt=attempt)
            return after, (WriteSegment(epoch), PutManifest(epoch))
        case Phase.COMPUTING, Aborted():
            return _try_again(state)
        case Phase.COMMITTING, ManifestPut(PutOutcome.WON):
            head = advance(state.head, _attempted(state).offer, leaves=_attempted(state).leaves)
            after = replace(state, phase=Phase.PUBLISHING, head=head, head_published=False)
            return after, (Publish(head.epoch),)
        case Phase.COMMITTING, ManifestPut(PutOutcome.PRESENT):
            return replace(state, phase=Phase.STOPPED, attempt=None), (Fail(Reason.FENCED),)
    raise AssertionError("\n".join(("an event came that nothing waits for", *state.story)))


def advance(head: Head, offer: Offer, *, leaves: bool = False) -> Head:
    """Return the head after an offer was committed on top of it."""
    after = replace(head, epoch=head.epoch + 1, unfinished=offer if leaves else None)
    match offer:
        case Batch():
            return replace(after, stream=offer)
        case BoundedRun(name) if name not in head.runs:
            return replace(after, runs=(*head.runs, name))
        case Rescaled(instances):
            return replace(after, instances=instances)
        case Evolved(mark):
            return replace(after, elements=mark)
        case Loaded(name) if name not in head.loads:
            return replace(after, loads=(*head.loads, name))
        case _:
            return after


def _settle_head(state: MachineState) -> Step:
    """Publish the head first if that is not certain: the next epoch must never be seen before this one."""
    if state.head_published:
        return _decide(state)
    return replace(state, phase=Phase.PUBLISHING), (Publish(state.head.epoch),)


def _after_publication(state: MachineState) -> Step:
    if state.attempt is not None and state.attempt.verdict is not None:
        return _idle(state), (Done(Reason.COMMITTED),)
    return _decide(state)


def _decide(state: MachineState) -> Step:
    if state.attempt is None:
        return _idle(state), (Done(Reason.RESUMED),)
    verdict = judge(state.head, state.attempt.offer)
    if verdict in ADOPTABLE and state.attempt.adopt:
        verdict = Reason.ADOPTED
    if verdict is Reason.COMMITTED_BEFORE:
        return _idle(state), (Done(verdict),)
    if verdict in ADOPTABLE or verdict is Reason.UNFINISHED:
        return _idle(state), (Fail(verdict),)
    attempt = replace(state.attempt, verdict=verdict)
    return replace(state, phase=Phase.COMPUTING, attempt=attempt), (Compute(state.head.epoch + 1),)


def _try_again(state: MachineState) -> Step:
    attempt = _attempted(state)
    if attempt.aborts == attempt.retries:
        return _idle(state), (Fail(Reason.RETRIES_SPENT),)
    return replace(state, attempt=replace(attempt, aborts=attempt.aborts + 1)), (Compute(state.head.epoch + 1),)


def _idle(state: MachineState) -> MachineState:
    return replace(state, phase=Phase.IDLE, attempt=None)


def _attempted(state: MachineState) -> Attempt:
    assert state.attempt is not None, "\n".join(state.story)
    return state.attempt
