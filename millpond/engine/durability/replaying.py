"""Epochs computed again from their logged input, because what they changed was kept near and is lost.

The same program, state and rows give the same changes, byte by byte, and the manifest has their hashes: so if
something else comes out, it is seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa

from millpond.checkpoint.commit.checkpoint import Checkpoint
from millpond.checkpoint.commit.commit import write_segment
from millpond.checkpoint.records.deltas import VERSIONS, encode_changes
from millpond.checkpoint.records.manifest import EpochDeltas, EpochInput, Genesis, Manifest, StateFile, elements_of
from millpond.checkpoint.records.work import EpochWork, Parent
from millpond.checkpoint.recovery import read_changes
from millpond.compiler.compiled import CompiledProgram
from millpond.crashpoints import crashpoint
from millpond.engine.assemble import assemble
from millpond.engine.durability.boundedloss import bounded_loss_settings
from millpond.engine.durability.inputlog import feeds_of, read_input
from millpond.engine.durability.pending import read_pending
from millpond.engine.failures import leaving_out
from millpond.engine.messages import decode_control
from millpond.engine.onetask import run_in_one_task
from millpond.engine.plan import BadRows, EpochPlan, Excluded, Level, ProgramPlan
from millpond.engine.sequence.ways import plan_for
from millpond.errors import EpochError, StorageError
from millpond.graph.model import Dispatch
from millpond.ids import EpochId
from millpond.keygroups import Layout
from millpond.program.durability import BoundedLoss
from millpond.state.timers import TimersType
from millpond.storage.composed.elements import unplaced
from millpond.storage.composed.unsynced import unsynced_of
from millpond.storage.content import FileRef, get_content
from millpond.storage.contract import Storage
from millpond.storage.frame import FrameKind, seal

Tell = Callable[[int, int], None]
"""Takes how many epochs are computed again so far, and of how many."""


def _tell_nobody(_done: int, _total: int) -> None:
    pass


def check_durability(program: CompiledProgram, durability: Level | BoundedLoss, *, one_host: bool = True) -> Level:
    """Return the level of a run; what the program or the session can't have is refused."""
    level = Level.BOUNDED_LOSS if isinstance(durability, BoundedLoss) else durability
    bounded = bounded_loss_settings(program, durability)
    if (bounded or level is Level.REPLAY) and not one_host:
        raise EpochError(
            "MP493",
            'Durability("replay") and "bounded_loss" need all tasks on one host',
            expected="a session whose driver and executors are on one host",
            found="a cluster",
            hint='leave durability at "exactly_once"',
        )
    unfit = _unfit(program) if level is Level.REPLAY else ""
    if unfit:
        raise EpochError(
            "MP492",
            f"{program.name} can't be replayed from its input",
            expected="entry points that run by key or on partial state, without a time to live and without timers",
            found=unfit,
            hint='leave durability at "exactly_once"',
        )
    return level


def could_replay(program: CompiledProgram) -> bool:
    """Say whether a program may have its rows logged instead of what they change."""
    try:
        check_durability(program, Level.REPLAY)
    except EpochError:
        return False
    return True


def _unfit(program: CompiledProgram) -> str:
    """Say what of a program does not follow from its rows alone: where gathered rows run is decided anew every time."""
    gathered = [name for name, entry in program.entries.items() if entry.tasks[0].dispatch is Dispatch.GATHERED]
    if gathered:
        return f"gathered: {', '.join(gathered)}"
    timed = [name for name, e in program.elements.items() if e.ttl is not None or isinstance(e.type, TimersType)]
    return f"state that time changes: {', '.join(timed)}" if timed else ""


def replay_lost(plan: ProgramPlan, storage: Storage, checkpoint: Checkpoint, tell: Tell = _tell_nobody) -> int:
    """Compute every epoch since the last snapshot whose changes are lost; return how many there were."""
    head = checkpoint.head
    if head is None:
        return 0
    since = [(delta, delta.input) for delta in head.deltas if delta.input and delta.epoch > head.snapshot_epoch]
    lost = [(delta, told) for delta, told in since if not _whole(storage, delta)]
    # What is near has no places: the files are those that it had.
    storage = unsynced_of(unplaced(storage))
    plan = replace(plan, storage_url=storage.url)
    for done, (delta, told) in enumerate(lost):
        tell(done, len(lost))
        _check_feeds(plan, delta, told)
        parent = _parent_of(checkpoint.genesis, head, delta, told)
        work = _compute(_plan_of(plan, told), storage, parent, told)
        computed = (*write_segment(storage, work, parent.mark), *(state for one in work.changed for state in one.files))
        crashpoint("replay.computed")
        _put_as_named(storage, delta, computed)
        if not _whole(storage, delta):
            raise _another_outcome(delta)
    return len(lost)


def _put_as_named(storage: Storage, delta: EpochDeltas, computed: Iterable[StateFile]) -> None:
    """Put what was computed again under the names that its epoch gave it, as whichever version of files had it then."""
    named = {state.file.sha256: state.file.name for state in delta.files}
    for state in computed:
        changes = read_changes(storage, state)
        for version in VERSIONS:
            data = seal(FrameKind.DELTA, encode_changes(changes, version))
            name = named.get(hashlib.sha256(data).hexdigest())
            if name is not None:
                storage.put(name, data)
        if state.file.name not in named.values():
            storage.delete(state.file.name)


def _whole(storage: Storage, delta: EpochDeltas) -> bool:
    """Say whether all that an epoch changed can be read; near files may be torn, and are cleared away then."""
    torn = [state.file.name for state in delta.files if not _readable(storage, state.file)]
    for name in torn:
        storage.delete(name)
    return not torn


def _readable(storage: Storage, file: FileRef) -> bool:
    try:
        get_content(storage, file)
    except StorageError:
        return False
    return True


def _check_feeds(plan: ProgramPlan, delta: EpochDeltas, told: EpochInput) -> None:
    found = feeds_of(plan)
    if told.sources != found:
        raise EpochError(
            "MP490",
            f"epoch {delta.epoch} must be replayed, and it had other feeds",
            expected="; ".join(told.sources),
            found="; ".join(found),
            hint="start the job once with the feeds it had, then change them",
        )


def _parent_of(genesis: Genesis, head: Manifest, delta: EpochDeltas, told: EpochInput) -> Parent:
    return Parent(
        uuid=genesis.uuid,
        epoch=EpochId(delta.epoch - 1),
        hash=delta.parent,
        key_groups=genesis.key_groups,
        instances=told.instances,
        snapshot_epoch=head.snapshot_epoch,
        snapshot=head.snapshot,
        deltas=tuple(before for before in head.deltas if before.epoch < delta.epoch),
        pending=told.pending,
        elements=elements_of(genesis, head),
        mark=f"{delta.parent}/replayed",
    )


def _plan_of(plan: ProgramPlan, told: EpochInput) -> ProgramPlan:
    """Return the plan that the epoch had, without what others have seen of it already.

    Replies and dead letters are out.
    """
    feeds = tuple(
        replace(
            feed,
            replies=None,
            dead_letters=None,
            bad_rows=feed.bad_rows if feed.bad_rows is BadRows.FAIL else BadRows.SKIP,
        )
        for feed in plan.feeds
    )
    key_groups = plan.layout.key_groups
    owners = None if told.ownership is None else told.ownership.owners(key_groups)
    layout = Layout(key_groups, told.partitions, told.instances, plan.layout.aligned, owners)
    return replace(
        plan,
        layout=layout,
        feeds=feeds,
        steps_max=told.steps_max,
        durability=Level.EXACTLY_ONCE,
        bounded_loss=frozenset(),
        # It ran at once, so that its files are the same whatever memory there is now.
        memory_bytes=0,
    )


def _compute(plan: ProgramPlan, storage: Storage, parent: Parent, told: EpochInput) -> EpochWork:
    continues = bool(told.pending)
    rows = read_pending(storage, plan, told.pending) if continues else read_input(storage, told)

    def run(plan: ProgramPlan, excluded: tuple[Excluded, ...], until: Excluded | None) -> EpochWork:
        epoch = EpochPlan(
            parent.epoch + 1,
            parent,
            told.source_prefix,
            continues=continues,
            now_us=told.now_us,
            excluded=excluded,
            until=until,
        )
        told_by_tasks = run_in_one_task(plan, epoch, [] if rows is None else rows.to_batches())
        controls = [decode_control(body) for body in told_by_tasks.column("body").to_pylist()]
        return assemble(plan, controls, {}, tried=excluded)

    return leaving_out(plan if continues or rows is None else plan_for(plan, _fed(rows)), run)


def _fed(rows: pa.Table) -> set[int]:
    """Return the feeds that rows are of."""
    return set(rows.column("feed").to_pylist()) if "feed" in rows.column_names else {0}


def _another_outcome(delta: EpochDeltas) -> EpochError:
    return EpochError(
        "MP491",
        f"epoch {delta.epoch} was replayed from its input, and gave another state",
        expected="the same program as when the epoch ran, and code whose outcome depends on its input alone",
        hint="run the program as it was, until a snapshot is written, then change it; nothing was changed",
    )
