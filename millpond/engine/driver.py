"""The driver of a program on its checkpoint: how a run starts, and how its epochs follow each other.

A start publishes what is pending, computes lost epochs again, settles bounded loss, evolves the state elements, goes on
with messages that were left, fires the timers that are owed, rescales, and loads. Then each epoch is offered, computed
by the engine, committed with its times, published, consolidated and reported; messages that it left and timers that are
due follow in epochs of their own. It is the same on Spark and in the simulator: only the engine differs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Generic

from millpond.checkpoint.commit.checkpoint import (
    RETRIES,
    Checkpoint,
    ComputeEpoch,
    EpochOutcome,
    EpochResult,
    EpochWork,
)
from millpond.checkpoint.commit.refusal import sources_changed
from millpond.checkpoint.records.manifest import Loss, Manifest, Ownership
from millpond.checkpoint.records.offers import Offer, Ticked, Upkeep, sources_of
from millpond.checkpoint.records.work import Parent
from millpond.checkpoint.retention.retention import Keep
from millpond.checkpoint.upkeep.rescale import Rescale
from millpond.checkpoint.upkeep.rewriting import Evolving
from millpond.clock import SystemClock
from millpond.compiler.compiled import CompiledProgram
from millpond.engine.compute import Committed, Computed, Engine, Entries, Request, Rows
from millpond.engine.durability.boundedloss import BoundedLossRun, bounded_loss_settings
from millpond.engine.durability.pending import read_pending
from millpond.engine.durability.replaying import check_durability, replay_lost
from millpond.engine.local_state.initialstate import Load, check_empty, load_offer, load_work, target_of
from millpond.engine.local_state.openstate import Consolidation, Restore
from millpond.engine.local_state.rescaling import Instances, Schemas, check_elements, check_instances, shown_scratch
from millpond.engine.plan import FeedPlan, Level, ProgramPlan
from millpond.engine.publish.publish import Publisher
from millpond.engine.schema import element_schemas
from millpond.engine.time.timekeeping import Left, Timekeeper
from millpond.engine.time.timers import due_at_end, due_in_turn, nothing_fed
from millpond.keygroups import Layout
from millpond.program.durability import BoundedLoss
from millpond.program.settings import settings_marks
from millpond.storage.composed.unsynced import UnsyncedStorage
from millpond.storage.contract import Storage

_CLOCK = SystemClock()
_LOG = logging.getLogger("millpond")


class Driver(Generic[Rows, Entries]):
    """Opens the checkpoint of a program; `start` makes it ready for epochs, which an engine computes.

    `unsynced` is the storage with what is not durable yet in front of it. Local stores lie below `local_root`, and are
    brought up to each commit by a thread if it `consolidates`. Epochs are offered one at a time, from any thread.
    """

    def __init__(
        self,
        program: CompiledProgram,
        storage: Storage,
        unsynced: UnsyncedStorage,
        local_root: str,
        *,
        durability: Level | BoundedLoss,
        one_host: bool = True,
        keep: Keep,
        key_groups: int | None,
        instances: int | None,
        partitions: int | None,
        usual_partitions: int,
        retries: int = RETRIES,
        shown: bool | None = None,
        consolidates: bool = False,
        threaded: bool = True,
    ) -> None:
        self.program = program
        self.level = check_durability(program, durability, one_host=one_host)
        self._bounded_loss = BoundedLossRun(bounded_loss_settings(program, durability), threaded=threaded)
        self._unsynced = unsynced
        self.storage = unsynced if self.level is Level.REPLAY or self._bounded_loss.settings else storage
        schemas = element_schemas(program)
        self.checkpoint = Checkpoint.open(self.storage, schemas, key_groups, instances, evolving=True, keep=keep)
        self.checkpoint.settings = settings_marks(program.made_of)
        _tell_changed(program.name, self.checkpoint)
        self._schemas = Schemas(self.checkpoint, program)
        self._instances = Instances(self.checkpoint, program, instances)
        self.layout = self._instances.last_layout(partitions, usual_partitions)
        self.times = Timekeeper(program, self.checkpoint)
        self._consolidation = Consolidation(self.storage, local_root) if consolidates else None
        self._local_root, self._shown, self._retries = Path(local_root), shown, retries
        self._one_epoch = threading.RLock()
        self._last = False
        self.loss: Loss | None = None
        self.replayed = 0

    def plan(
        self,
        feeds: Iterable[FeedPlan],
        local_root: str,
        steps_max: int,
        memory_bytes: int,
        restore: Restore = "on_demand",
    ) -> ProgramPlan:
        """Plan a run over feeds, with the stores of partitions below `local_root`, on whichever host they are."""
        return ProgramPlan(
            self.program,
            self.layout,
            tuple(feeds),
            self.storage.url,
            local_root,
            steps_max,
            restore,
            self.level,
            bounded_loss=frozenset(self._bounded_loss.settings),
            memory_bytes=memory_bytes,
        )

    def start(
        self,
        engine: Engine[Rows, Entries],
        plan: ProgramPlan,
        publisher: Publisher,
        sources: tuple[str, ...],
        loads: Sequence[Load[Entries]] = (),
    ) -> None:
        """Make the checkpoint ready for the epochs of a run, whatever the last run left."""
        self._engine, self._publisher, self._sources = engine, publisher, sources
        self._last = False
        feeds = {feed.name: feed.time for feed in plan.feeds if feed.entry not in self.times.handlers}
        self.times.follow(feeds, self.level)
        publisher.begin(self.checkpoint)
        self._plan = self._up_to_date(plan)
        self.replayed = replay_lost(self._plan, self.storage, self.checkpoint, engine.on_replay)
        self.loss = None
        self._settle()
        self._change(self._schemas.due)
        self._follow(self._up_to_date(plan))
        self._bounded_loss.begin(self._unsynced, self._plan)
        self._finish(self.times.going_on())
        self._fire_owed()
        self._go_on()
        # Messages that were left are for the instances that were, so these are worked on first.
        if (rescale := self._instances.due) is not None:
            self._settle()
            self._change(rescale)
            self._follow(self._up_to_date(plan))
            self._bounded_loss.begin(self._unsynced, self._plan)
        for load in loads:
            self.load(load)

    def _up_to_date(self, plan: ProgramPlan) -> ProgramPlan:
        """Return the plan with the state elements and the instances that the checkpoint has."""
        self.layout = self._instances.renewed(self.layout)
        return replace(plan, layout=self.layout, elements=self._schemas.elements)

    def _follow(self, plan: ProgramPlan) -> None:
        self._plan = plan
        self._engine.follow(plan)

    def _settle(self) -> None:
        """Make durable what is unsynced of state with bounded loss: what is done past its saver must come after it."""
        self._bounded_loss.settle(self._unsynced, self.checkpoint, self._upkeep, self._engine.on_loss)
        self.loss = self._bounded_loss.loss or self.loss

    def _change(self, due: Rescale | Evolving | None) -> None:
        """Change the state as a whole, if that is due."""
        if due is None:
            return
        with shown_scratch(self.program.name, due.doing, self._local_root, shown=self._shown) as scratch:
            self._upkeep(due.offer, lambda parent: due.compute(self.storage, parent, scratch))

    def _upkeep(self, offer: Upkeep, compute: ComputeEpoch) -> None:
        """Run an epoch that no rows and no timers run in."""
        self.checkpoint.run_epoch(offer, compute, self._publisher.publish, partitions=1, retries=self._retries)

    def own(self, layout: Layout) -> None:
        """Let key groups have other owners from the next epoch on."""
        self.layout = layout
        self._follow(replace(self._plan, layout=layout))

    def epoch(
        self, offer: Offer, rows: Rows, *, adopt: bool = False, ends: bool = False, last: bool = False
    ) -> EpochOutcome:
        """Run an epoch over rows, and all that belongs to it: messages that it leaves, and timers that are due then.

        With `adopt`, a batch is taken that does not follow the last one. If it `ends`, event time does: the watermark
        moves to the end of time. None follows it if it is the `last` one.
        """
        with self._one_epoch:
            self._last = last
            moment = self.times.moment()
            layout = self._engine.rebalanced(self.layout)
            if layout is not self.layout:
                self.own(layout)

            def compute(request: Request) -> Computed:
                self.times.check_open()
                return self._engine.compute_rows(rows, request)

            outcome = self._commit(offer, compute, moment, adopt=adopt, ends=ends)
            outcome = self._finish(moment) or outcome
            self._fire_owed()
            self._go_on()
            return outcome

    def tick(self, wanted: Callable[[], bool] = lambda: True) -> EpochOutcome | None:
        """Let the time move on without rows, if that changes anything, and is `wanted` when its turn comes."""
        with self._one_epoch:
            if not wanted() or not self.times.ticks():
                return None
            outcome = self._fire(self.times.moment())
            self._fire_owed()
            return outcome

    def end_time(self) -> None:
        """Move the watermark to the end of time, in an epoch without rows, unless that is done."""
        if self.times.by_event and not self.times.ended:
            self._fire(self.times.moment(), ends=True)
            self._fire_owed()
            self._go_on()

    def load(self, load: Load[Entries]) -> None:
        """Fill a state element in an epoch of its own, unless that was done before."""
        name, plan = load.element.name, self._plan
        offer = load_offer(self.checkpoint, name, load.name)
        if offer is None:
            return
        target = target_of(load.element, plan.element_index(name), self.layout, load.into, self.times.moment())

        def compute(parent: Parent) -> EpochWork:
            check_empty(self.storage, parent, target.index, name)
            work = load_work(self._engine.compute_load(replace(target, mark=parent.mark), load.entries))
            return self.times.noted(work, target.moment_us, plan.element_indexes)

        self._settle()
        self._upkeep(offer, compute)
        self._bounded_loss.begin(self._unsynced, plan)

    def close(self) -> None:
        """End the run: let go of a snapshot that is under way and of the stores, and save what is unsynced."""
        self.checkpoint.close()
        if self._consolidation is not None:
            self._consolidation.close()
        self._bounded_loss.close()

    def _finish(self, moment: int) -> EpochOutcome | None:
        """Go on with the messages that the last epoch left, in as many epochs as that takes."""
        outcome = None
        while (head := self.checkpoint.head) is not None and head.pending:
            self._check_sources(head)

            def compute(request: Request) -> Computed:
                left = read_pending(self.storage, self._plan, request.parent.pending)
                return self._engine.compute_messages(left, request)

            outcome = self._commit(head.offer, compute, moment)
        return outcome

    def _check_sources(self, head: Manifest) -> None:
        if sources_of(head.offer) != self._sources:
            raise sources_changed(head.offer, self._sources)

    def _fire_owed(self) -> None:
        """Fire the timers that are due at the end of the last epoch, in epochs that belong to it."""
        while (moment := self.times.owed()) is not None:
            self._fire(moment)

    def _go_on(self) -> None:
        """After the end of time, let handlers that go on fire in epochs of their own, until no timer of them is set."""
        while self.times.goes_on and self._fire_on(self.times.moment()):
            pass

    def _fire_on(self, moment: int) -> bool:
        """Fire the timers that go on after the end of time, in an epoch; say whether there were any."""
        left = Left()
        found = False

        def compute(request: Request) -> Computed:
            nonlocal left, found
            if self._consolidation is not None:
                self._consolidation.wait()
            firing = self.times.firing(moment)
            assert firing.until_us is not None
            due = due_at_end(self._plan, lambda look: self._engine.look(look, request), firing.until_us)
            left, found = Left(due.next_us), bool(due.timers)
            if not found:
                return Computed(nothing_fed(request.before))
            then = firing.done()
            return self._engine.compute_timers(due, then, replace(request, watermark=then.watermark(request.watermark)))

        self._commit(Ticked(), compute, moment, left=lambda: left)
        return found

    def _fire(self, moment: int, *, ends: bool = False) -> EpochOutcome:
        """Run an epoch without rows of any feed: timers that are due fire, all of them if it `ends` event time."""
        left = Left()

        def compute(request: Request) -> Computed:
            nonlocal left
            if not self.times.handlers:
                return Computed(nothing_fed(request.before))
            if self._consolidation is not None:
                # It may enlarge the stores, below which nobody of this process may be reading.
                self._consolidation.wait()
            firing = self.times.firing(moment, ends=ends)
            due, then = due_in_turn(self._plan, firing, lambda look: self._engine.look(look, request))
            left = Left(due.next_us, then.noted)
            if not due.timers:
                return Computed(nothing_fed(request.before))
            return self._engine.compute_timers(due, then, replace(request, watermark=then.watermark(request.watermark)))

        return self._commit(Ticked(), compute, moment, left=lambda: left, ends=ends)

    def _commit(
        self,
        offer: Offer,
        compute: Callable[[Request], Computed],
        moment: int,
        *,
        adopt: bool = False,
        left: Callable[[], Left | None] = lambda: None,
        ends: bool = False,
    ) -> EpochOutcome:
        """Offer an epoch, and hand on what came of it."""
        begun, plan = _CLOCK.ticks(), self._plan
        computed: Computed | None = None

        def work(parent: Parent) -> EpochWork:
            nonlocal computed
            check_instances(parent, plan.layout)
            check_elements(parent, plan.elements)
            head = self.checkpoint.head
            before = {} if head is None else head.counters
            computed = compute(Request(parent, before, moment, self.times.watermark(), self._last))
            noted = self.times.noted(computed.work, moment, plan.element_indexes, left=left(), ends=ends)
            return self._bounded_loss.noted(noted) if self._bounded_loss.settings else noted

        outcome = self.checkpoint.run_epoch(
            offer,
            work,
            self._publisher.publish,
            partitions=plan.layout.partitions,
            retries=self._retries,
            adopt=adopt,
            ownership=Ownership.of(plan.layout),
        )
        if outcome.result is EpochResult.COMMITTED:
            assert computed is not None
            if self._bounded_loss.settings:
                self._bounded_loss.committed(outcome, self.checkpoint.head_hash, moment)
            seconds = _CLOCK.ticks() - begun
            self._engine.on_commit(Committed(outcome, computed.controls, seconds, self._consolidate()))
        return outcome

    def _consolidate(self) -> float | None:
        """Bring the stores of this host to the epoch, behind its back; return what that took for the one before it."""
        if self._consolidation is None or self._last:
            return None
        seconds = self._consolidation.take_seconds()
        self._consolidation.start(self.checkpoint.parent, self.layout)
        return seconds


def _tell_changed(name: str, checkpoint: Checkpoint) -> None:
    """Say which settings are others than those of the last epoch: rows see them from the next one on."""
    head = checkpoint.head
    if head is None or head.settings == checkpoint.settings:
        return
    before, now = head.settings, checkpoint.settings
    changed = sorted(one for one in before.keys() | now.keys() if before.get(one) != now.get(one))
    _LOG.warning("%s: settings changed since epoch %d: %s", name, head.epoch, ", ".join(changed))
