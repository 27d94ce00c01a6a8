"""Every order of events that two drivers, a forgetful Spark, and crashes can produce within two epochs (R1).

A world is what is durable plus two drivers, each a real machine with the actions it still has to perform and at most
one answer not yet delivered. One transition performs one action or delivers one answer, so a crash can fall between
any two of them. Small budgets bound what goes wrong: two crashes, one aborted job, one mistake. A second, smaller
exploration has three epochs, one of which may change the number of instances; two smaller ones have an evolution of
state elements, or a load of initial state.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, replace

import pytest

from millpond.checkpoint.commit.machine import (
    ACCEPTED,
    ADOPTABLE,
    Aborted,
    Compute,
    Computed,
    Done,
    Event,
    Fail,
    Head,
    MachineState,
    ManifestPut,
    Offered,
    Phase,
    Publish,
    Published,
    PutManifest,
    Reason,
    Resumed,
    WriteSegment,
    advance,
    judge,
    start,
    step,
)
from millpond.checkpoint.records.manifest import elements_mark
from millpond.checkpoint.records.offers import Batch, BoundedRun, Evolved, Loaded, Lost, Offer, Rescaled, Ticked
from millpond.storage.contract import PutOutcome

FEEDS = ("rate",)
EPOCHS = 2
RETRIES = 1
RESCALE = Rescaled(2)
EVOLVE = Evolved(elements_mark(()))
LOAD = Loaded("seed")
TICK = Ticked()
LOSS = Lost()

pytestmark = pytest.mark.slow


@dataclass(frozen=True, slots=True)
class Driver:
    """One process: its machine, what it has to do, an answer on its way, and the offer it works on."""

    machine: MachineState
    todo: tuple[object, ...] = ()
    answer: Event | None = None
    offered: Offered | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    offer: Offer
    adopted: bool
    leaves: bool = False


@dataclass(frozen=True, slots=True)
class World:
    """What survives (commits, publications, Spark's own log) and what does not (the drivers)."""

    commits: tuple[Committed, ...] = ()
    published: frozenset[int] = frozenset()
    spark_done: int = -1
    drivers: tuple[Driver | None, ...] = (None, None)
    crashes: int = 2
    aborts: int = 1
    mistakes: int = 1
    leftovers: int = 1
    epochs: int = EPOCHS
    change: Offer | None = None


def head_of(world):
    head = Head()
    for commit in world.commits:
        head = advance(head, commit.offer, leaves=commit.leaves)
    return head


def with_driver(world, index, driver):
    drivers = list(world.drivers)
    drivers[index] = driver
    return replace(world, drivers=tuple(drivers))


def finished(world):
    return len(world.commits) >= world.epochs


def all_done(world):
    return finished(world) and world.published == frozenset(range(1, len(world.commits) + 1))


def offers(world):
    """What Spark may hand over, and its price: the batch after its log, or by mistake something that it should not."""
    following = Batch("q", world.spark_done + 1, FEEDS)
    head = head_of(world)
    yield Offered(following, retries=RETRIES), 0
    if world.change is not None:
        yield Offered(world.change), 0
    if head.unfinished is not None:
        # A driver goes on with what it finds unfinished before anything else.
        yield Offered(head.unfinished, retries=RETRIES), 0
    if judge(head, following) in ADOPTABLE:
        yield Offered(following, adopt=True), 0
    if "june" in head.runs:
        yield Offered(BoundedRun("june", FEEDS)), 0
    strange = [
        Batch("q", max(0, world.spark_done), FEEDS),
        Batch("q", world.spark_done + 2, FEEDS),
        Batch("q", world.spark_done + 3, FEEDS),
        Batch("other", 0, FEEDS),
        Batch("other", 1, FEEDS),
        Batch("q", world.spark_done + 1, ("rate", "more")),
        BoundedRun("june", FEEDS),
    ]
    for offer in strange:
        yield Offered(offer), 1
    yield Offered(Batch("q", world.spark_done + 2, FEEDS), adopt=True), 1


def successors(world):
    for index, driver in enumerate(world.drivers):
        if driver is None:
            yield from begin(world, index)
            continue
        if world.crashes:
            yield replace(with_driver(world, index, None), crashes=world.crashes - 1)
        if driver.answer is not None:
            machine, actions = step(driver.machine, driver.answer)
            yield with_driver(world, index, replace(driver, machine=machine, todo=actions, answer=None))
        elif driver.todo:
            yield from perform(world, index, driver)
        else:
            yield from idle(world, index, driver)


def begin(world, index):
    """The first driver is always started again; a second one beside it is a mistake."""
    mistakes = world.mistakes - index
    if not all_done(world) and mistakes >= 0:
        yield replace(with_driver(world, index, Driver(start(head_of(world)))), mistakes=mistakes)


def idle(world, index, driver):
    if driver.machine.phase is Phase.STOPPED:
        yield with_driver(world, index, replace(driver, answer=Resumed()))
        return
    if not driver.machine.head_published:
        yield with_driver(world, index, replace(driver, answer=Resumed()))
    if finished(world):
        if driver.machine.head.epoch < len(world.commits):
            # It was overtaken. One more batch would end at the fence, and beyond the epochs that we look at.
            yield with_driver(world, index, None)
        return
    for offered, price in offers(world):
        if world.mistakes >= price:
            after = with_driver(world, index, replace(driver, answer=offered, offered=offered))
            yield replace(after, mistakes=world.mistakes - price)


def perform(world, index, driver):
    action, rest = driver.todo[0], driver.todo[1:]
    waiting = replace(driver, todo=rest)
    match action:
        case Compute(epoch):
            assert epoch == driver.machine.head.epoch + 1
            assert driver.machine.head.epoch in world.published | {0}, "computing on what the world has not seen"
            yield with_driver(world, index, replace(waiting, answer=Computed()))
            if world.leftovers and driver.offered.offer != world.change:
                left = with_driver(world, index, replace(waiting, answer=Computed(leaves=True)))
                yield replace(left, leftovers=world.leftovers - 1)
            if world.aborts:
                yield replace(with_driver(world, index, replace(waiting, answer=Aborted())), aborts=world.aborts - 1)
        case WriteSegment():
            yield with_driver(world, index, waiting)
        case PutManifest(epoch):
            yield put_manifest(world, index, waiting, epoch)
        case Publish(epoch):
            assert epoch <= len(world.commits), "publishing what is not committed"
            after = replace(world, published=world.published | {epoch})
            yield with_driver(after, index, replace(waiting, answer=Published()))
        case Done(reason):
            yield with_driver(acknowledged(world, driver, reason), index, replace(waiting, offered=None))
        case Fail():
            # The call raises: the process ends and is started anew, or somebody calls it again.
            yield with_driver(world, index, None)
            yield with_driver(world, index, replace(waiting, offered=None))


def put_manifest(world, index, waiting, epoch):
    if len(world.commits) >= epoch:
        return with_driver(world, index, replace(waiting, answer=ManifestPut(PutOutcome.PRESENT)))
    assert len(world.commits) == epoch - 1, "an epoch without a parent"
    attempt = waiting.machine.attempt
    commit = Committed(waiting.offered.offer, attempt.verdict is Reason.ADOPTED, attempt.leaves)
    after = replace(world, commits=(*world.commits, commit))
    return with_driver(after, index, replace(waiting, answer=ManifestPut(PutOutcome.WON)))


def follows(offer):
    return isinstance(offer, Batch) and offer.query == "q"


def acknowledged(world, driver, reason):
    """Spark writes its own log when the call returns; only then it goes on to the next batch."""
    if reason is Reason.RESUMED or not follows(driver.offered.offer) or driver.machine.head.unfinished:
        return world
    return replace(world, spark_done=max(world.spark_done, driver.offered.offer.number))


def check(world):
    """No batch twice, none skipped, unless adopted; epochs are published in their order."""
    head = Head()
    for commit in world.commits:
        verdict = judge(head, commit.offer)
        going_on = ACCEPTED - {Reason.ADOPTED}
        assert commit.adopted or verdict in going_on, world
        head = advance(head, commit.offer, leaves=commit.leaves)
    # A batch that left something is committed once more for each time that it did, and no more.
    # Ticks and losses have no rows: there may be any number of them.
    done = [commit for commit in world.commits if not isinstance(commit.offer, Ticked | Lost)]
    ended = [commit for commit in done if not commit.adopted and not commit.leaves]
    applied = Counter(commit.offer for commit in ended)
    assert all(times == 1 for times in applied.values()), world
    assert world.published >= set(range(1, len(world.commits))), world


def reasons_in(world):
    for driver in world.drivers:
        if driver is not None:
            yield from (action.reason for action in driver.todo if isinstance(action, Done | Fail))
            if driver.machine.attempt is not None and driver.machine.attempt.verdict is not None:
                yield driver.machine.attempt.verdict


def explore(first):
    """Breadth first: every world, and for each the worlds it can come from."""
    origins = {first: []}
    frontier = deque([first])
    while frontier:
        world = frontier.popleft()
        check(world)
        for after in successors(world):
            if after not in origins:
                origins[after] = []
                frontier.append(after)
            origins[after].append(world)
    return origins


@pytest.fixture(scope="module")
def worlds():
    return explore(World())


@pytest.fixture(scope="module")
def rescaled_worlds():
    return explore(World(epochs=3, change=RESCALE, crashes=1, aborts=0, leftovers=0))


@pytest.fixture(scope="module")
def evolved_worlds():
    return explore(World(change=EVOLVE, crashes=1, aborts=0, leftovers=0))


@pytest.fixture(scope="module")
def loaded_worlds():
    return explore(World(change=LOAD, crashes=1, aborts=0, leftovers=0))


@pytest.fixture(scope="module")
def ticked_worlds():
    return explore(World(change=TICK, crashes=1, aborts=0, leftovers=0))


@pytest.fixture(scope="module")
def losing_worlds():
    return explore(World(change=LOSS, crashes=1, aborts=0, leftovers=0))


def test_no_order_of_events_applies_a_batch_twice_or_skips_one(worlds):
    # `check` ran on every world; this is the number of worlds it ran on.
    assert len(worlds) > 10_000, len(worlds)


def test_every_reason_is_reached(worlds, rescaled_worlds, evolved_worlds, loaded_worlds, ticked_worlds, losing_worlds):
    explored = (*worlds, *rescaled_worlds, *evolved_worlds, *loaded_worlds, *ticked_worlds, *losing_worlds)
    reached = {reason for world in explored for reason in reasons_in(world)}
    assert reached == set(Reason)


def ends_of(worlds):
    """What was committed in worlds where all is done: batches by their query, other offers as they are."""
    done = [world for world in worlds if all_done(world)]
    offers = ([commit.offer for commit in world.commits] for world in done)
    return {tuple(offer.query if isinstance(offer, Batch) else offer for offer in each) for each in offers}


def test_a_rescale_between_any_two_batches_is_committed_once_and_loses_no_batch(rescaled_worlds):
    ends = ends_of(rescaled_worlds)
    assert {(RESCALE, "q", "q"), ("q", RESCALE, "q"), ("q", "q", RESCALE)} <= ends
    assert all(end.count(RESCALE) <= 1 for end in ends)


@pytest.mark.parametrize(("explored", "change"), [("evolved_worlds", EVOLVE), ("loaded_worlds", LOAD)])
def test_an_evolution_or_a_load_is_committed_once_and_loses_no_batch(explored, change, request):
    ends = ends_of(request.getfixturevalue(explored))
    assert {(change, "q"), ("q", change), ("q", "q")} <= ends
    assert all(end.count(change) <= 1 for end in ends)


@pytest.mark.parametrize(("explored", "change"), [("ticked_worlds", TICK), ("losing_worlds", LOSS)])
def test_ticks_and_losses_may_come_between_any_two_batches_and_lose_none(explored, change, request):
    ends = ends_of(request.getfixturevalue(explored))
    assert {(change, "q"), ("q", change), ("q", "q")} <= ends


@pytest.mark.parametrize(
    "explored",
    ["worlds", "rescaled_worlds", "evolved_worlds", "loaded_worlds", "ticked_worlds", "losing_worlds"],
)
def test_from_every_world_the_work_can_still_be_finished(explored, request):
    worlds = request.getfixturevalue(explored)
    reaching = {world for world in worlds if all_done(world)}
    frontier = deque(reaching)
    while frontier:
        for before in worlds[frontier.popleft()]:
            if before not in reaching:
                reaching.add(before)
                frontier.append(before)
    assert reaching == set(worlds)


def test_a_machine_that_forgets_to_publish_first_would_be_caught():
    world = World(commits=(Committed(Batch("q", 0, FEEDS), adopted=False),))
    careless = replace(start(head_of(world)), head_published=True)
    with pytest.raises(AssertionError, match="not seen"):
        explore(with_driver(world, 0, Driver(careless)))


def test_a_commit_without_a_fence_would_be_caught():
    first = Committed(Batch("q", 0, FEEDS), adopted=False)
    with pytest.raises(AssertionError):
        check(World(commits=(first, first), published=frozenset({1, 2})))
