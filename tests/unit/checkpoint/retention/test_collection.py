"""Retention and collection against a dict for each epoch: crashes, second drivers, savepoints, names that come back."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from millpond.checkpoint.commit import commit
from millpond.checkpoint.commit.checkpoint import SURE_SECONDS
from millpond.checkpoint.read.history import kept_epochs
from millpond.checkpoint.records.manifest import manifest_name
from millpond.checkpoint.records.offers import Batch
from millpond.checkpoint.retention import collection, retired
from millpond.checkpoint.retention.collection import FAILURES_MAX, collect_all
from millpond.checkpoint.retention.deletionlist import CONDEMNED, DeletionList, put_list, read_lists
from millpond.checkpoint.retention.reachable import COLLECTED
from millpond.checkpoint.retention.retention import Keep
from millpond.checkpoint.retention.retired import (
    LARGE,
    RETIRED,
    SMALL,
    block_end,
    complete_until,
    give_away,
    is_retired,
)
from millpond.checkpoint.retention.savepoints import add_savepoint, pinned, remove_savepoint, savepoints
from millpond.checkpoint.snapshots import snapshots
from millpond.checkpoint.snapshots.compaction import compact
from millpond.clock import ManualClock
from millpond.errors import EpochError, MillpondError
from millpond.storage.backends.memory import MemoryStorage
from tests.sizes import slow_or_wide, some_of, thinned
from tests.unit.checkpoint.keeping import (
    GRACE_MS,
    KEY_GROUPS,
    QUERY,
    Died,
    Driver,
    Watched,
    after,
    check_kept,
    garbage,
    settle,
)

KEEP = Keep(last=3, every=10, grace=timedelta(milliseconds=GRACE_MS))

WORDS = "abcdefgh"
changes = st.dictionaries(st.sampled_from(WORDS), st.none() | st.sampled_from("xy"), max_size=3)
"""Few words and few values, so that equal deltas come again and again, and condemned names with them."""


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
    monkeypatch.setattr(commit, "DELTAS_KEPT", 1)


CYCLE = 18


def script(count):
    """Four times so many epochs that come round, slowly enough that files are written again that were condemned."""
    return [{"c": str(number % CYCLE), "a": "x" if number % 2 else None} for number in range(4 * count)]


def run(storage, clock, rows, keep=KEEP, models=None, step_ms=GRACE_MS // 2):
    models = {0: {}} if models is None else models
    driver = Driver(storage, keep, clock)
    for row in rows:
        clock.advance(step_ms)
        epoch = driver.checkpoint.epoch
        models[epoch + 1] = after(models[epoch], row)
        driver.epoch(row)
    return driver, models


def test_the_last_epochs_and_every_tenth_stay_and_nothing_else():
    storage, clock = MemoryStorage(), ManualClock()
    driver, models = run(storage, clock, script(12))
    newest = settle(driver, models, KEEP)
    check_kept(storage, models)
    epochs, _ = kept_epochs(storage)
    assert {10, 20, 30, 40, 50, 60, 70, 80} <= set(epochs)
    assert {newest - 2, newest - 1, newest} <= set(epochs)
    assert not {1, 2, 11, 25, 47, 55} & set(epochs)
    assert driver.checkpoint.collected.manifests == newest - len(epochs)
    assert driver.checkpoint.collected.files > 20
    assert len(storage.list(RETIRED)) <= newest // SMALL + 1
    assert len(storage.list(CONDEMNED)) <= 2 * collection.PASSES_PER_GRACE


def test_nothing_is_left_that_no_manifest_names_once_all_is_kept_or_gone():
    storage, clock = MemoryStorage(), ManualClock()
    Driver(storage, KEEP, clock)
    storage.put("deltas/" + "0" * 40, b"left by an epoch that did not commit")
    storage.put("snapshots/" + "1" * 40, b"left by a merge that died")
    storage.put("pending/" + "2" * 40, b"left")
    driver, models = run(storage, clock, script(4))
    settle(driver, models, KEEP)
    clock.advance(10 * GRACE_MS)
    for _ in range(2):
        collect_all(storage, KEEP, clock)
        clock.advance(GRACE_MS)
    assert set(garbage(storage)) <= collection._waiting_snapshot(storage, driver.checkpoint.epoch)
    epochs, _ = kept_epochs(storage)
    assert list(epochs) == KEEP.kept(epochs, ())
    check_kept(storage, models)


def test_nothing_is_deleted_before_the_grace_period_is_over():
    storage, clock = MemoryStorage(), ManualClock()
    run(storage, clock, script(8), Keep.all())
    clock = ManualClock()
    driver = Driver(storage, KEEP, clock)
    driver.epoch({})
    assert len(kept_epochs(storage)[0]) == driver.checkpoint.epoch
    listed = next(iter(read_lists(storage).values()))
    assert listed.at_ms == 0
    clock.advance(GRACE_MS - 1)
    driver.epoch({})
    assert driver.checkpoint.collected.manifests == 0
    clock.advance(1)
    driver.epoch({})
    assert driver.checkpoint.collected.manifests > 0


def test_keep_all_deletes_nothing_and_reads_no_manifest():
    storage, clock = MemoryStorage(), ManualClock()
    driver, models = run(storage, clock, script(8), Keep.all(), step_ms=10**9)
    assert len(kept_epochs(storage)[0]) == driver.checkpoint.epoch == 32
    assert storage.list(CONDEMNED) == []
    check_kept(storage, models)


def test_the_work_of_an_epoch_is_bounded(monkeypatch):
    monkeypatch.setattr(collection, "DELETES_MAX", 3)
    monkeypatch.setattr(collection, "READS_MAX", 2)
    monkeypatch.setattr(collection, "MARKS_MAX", 2)
    storage, clock = MemoryStorage(), ManualClock()
    _, models = run(storage, clock, script(20), Keep.all())
    calls = []
    watched = Watched(storage, lambda call, name: calls.append((call, name)))
    driver = Driver(watched, KEEP, clock)
    for _ in range(200):
        clock.advance(GRACE_MS)
        models[driver.checkpoint.epoch + 1] = models[driver.checkpoint.epoch]
        calls.clear()
        driver.epoch({})
        deleted = [name for call, name in calls if call == "delete" and name.startswith(COLLECTED)]
        assert len(deleted) <= 3
        assert len([name for call, name in calls if call == "put" and name.startswith(RETIRED)]) <= 2
    assert driver.checkpoint.collected.manifests > 60
    check_kept(storage, models)


def test_time_spent_on_tidying_is_told(monkeypatch):
    class Slow(ManualClock):
        def ticks(self):
            self.advance(10)
            return super().ticks()

    storage, clock = MemoryStorage(), Slow()
    driver, _ = run(storage, clock, script(2))
    assert driver.checkpoint.collected.seconds > 0


def every_death(rows, keep):
    """All moments at which a driver can die: before and after each call that changes something."""
    calls = []
    storage, clock = MemoryStorage(), ManualClock()
    run(Watched(storage, lambda call, name: calls.append(call)), clock, rows, keep)
    return len(calls)


ROWS = script(8)


def dies_at(deaths):
    for death in deaths:
        storage, clock = MemoryStorage(), ManualClock()
        left = [death]

        def before(call, name, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise Died

        models = {0: {}}
        with contextlib.suppress(Died):
            run(Watched(storage, before), clock, ROWS, models=models)
        check_kept(storage, models)
        # The dead driver may have committed what it did not live to tell.
        again = Driver(storage, KEEP, clock)
        for row in script(4):
            clock.advance(GRACE_MS)
            epoch = again.checkpoint.epoch
            models[epoch + 1] = after(models[epoch], row)
            again.epoch(row)
        check_kept(storage, models)
        newest = again.checkpoint.epoch
        assert set(KEEP.kept(range(1, newest + 1), ())) <= set(kept_epochs(storage)[0])


@pytest.mark.parametrize("every", [20, *slow_or_wide([3], [1])])
def test_a_driver_that_dies_anywhere_leaves_every_kept_epoch_whole(every):
    total = every_death(ROWS, KEEP)
    assert total > 200
    dies_at(range(every - 1, total, every))


BEFORE = 20
AWAKE = 9


def sleeps_at(stall, newer):
    """Run a driver that sleeps at one of its calls after some epochs, while another one runs; False if there is none.

    It may sleep in the middle of a commit or of deleting. The other one deletes too, and writes the same files again.
    """
    storage, clock = MemoryStorage(), ManualClock()
    models, truth, published, left = {0: {}}, {}, [], [None]

    def before(call, name):
        if left[0] is None:
            return
        left[0] -= 1
        if left[0] != -1:
            return
        successor = Driver(storage, KEEP, clock)
        for row in script(10)[:newer]:
            # Longer than the grace period in all, and shorter than a list lives.
            clock.advance((2 * GRACE_MS - 1) // newer)
            epoch = successor.checkpoint.epoch
            truth[epoch + 1] = after((models | truth)[epoch], row)
            successor.epoch(row)

    refused = ""
    driver = Driver(Watched(storage, before), KEEP, clock, lambda manifest: published.append(manifest.epoch))
    for number, row in enumerate(ROWS[: BEFORE + AWAKE]):
        if number == BEFORE:
            left[0] = stall
        clock.advance(GRACE_MS // 2)
        epoch = driver.checkpoint.epoch
        models[epoch + 1] = after(models[epoch], row)
        try:
            driver.epoch(row)
        except MillpondError as error:
            refused = error.code
            break
    if not truth:
        return False
    # It lost, or what it was just merging is gone.
    assert refused in {"", "MP408", "MP304"}
    assert kept_epochs(storage)[0][-1] == max(truth), "nobody commits on top of a driver that lost"
    held = KEEP.kept(range(1, max(truth) + 1), ())
    there = set(kept_epochs(storage)[0])
    assert set(held) <= there
    # Put too late, and known as such: nobody builds on it, and the next collection takes it away.
    late = there & {driver.checkpoint.epoch + 1} - set(held)
    check_kept(storage, models | truth, there - late)
    assert published[-1] < min(truth), "what lost is not published"
    after_all = models | truth
    settle(Driver(storage, KEEP, clock), after_all, KEEP)
    assert not late & set(kept_epochs(storage)[0])
    check_kept(storage, after_all)
    return True


@pytest.mark.parametrize(("newer", "every"), [*thinned([(9, 2), (9, 1), (1, 1), (30, 1)], 4)])
def test_a_driver_that_sleeps_anywhere_harms_nothing_when_it_wakes_up(newer, every):
    stall = 0
    while sleeps_at(stall, newer):
        stall += every
    assert stall > 50


@pytest.mark.parametrize("stall", range(3, 90, 12))
def test_a_driver_that_sleeps_somewhere_harms_nothing_when_it_wakes_up(stall):
    assert sleeps_at(stall, 30)


def test_a_number_that_was_deleted_is_not_taken_by_who_slept():
    storage, clock = MemoryStorage(), ManualClock()
    run(storage, clock, script(1))
    sleeper = Driver(storage, KEEP, clock)
    driver, models = run(storage, clock, script(10), models={4: {}})
    settle(driver, models, KEEP)
    assert not storage.contains(manifest_name(5))
    clock.advance(SURE_SECONDS * 1000)
    published = []
    sleeper.publish = lambda manifest: published.append(manifest.epoch)
    with pytest.raises(EpochError, match="MP408"):
        sleeper.epoch({"a": "x"})
    assert published == [4], "the head that it knew; not what it computed"
    assert not storage.contains(manifest_name(5))
    check_kept(storage, models)
    with pytest.raises(EpochError, match="MP408"):
        sleeper.epoch({"a": "x"})


def test_a_condemned_name_is_never_named_again():
    storage, clock = MemoryStorage(), ManualClock()
    driver, models = run(storage, clock, script(1))
    names = {}
    for row in script(30):
        clock.advance(GRACE_MS // 8)
        condemned = set().union(*(listed.names for listed in read_lists(storage).values()))
        epoch = driver.checkpoint.epoch
        models[epoch + 1] = after(models[epoch], row)
        driver.epoch(row)
        for state in driver.checkpoint.head.deltas[-1].files:
            assert state.file.name not in condemned
            names.setdefault(state.file.sha256, []).append(state.file.name)
    assert any(len(given) > 1 for given in names.values()), "no bytes came again"
    assert all(len(set(given)) == len(given) for given in names.values())
    check_kept(storage, models)


def test_two_drivers_never_give_one_name():
    storage, clock = MemoryStorage(), ManualClock()
    first, _ = run(storage, clock, script(1))
    second = Driver(storage, KEEP, clock)
    row = script(2)[-1]
    some, others = (driver.work(row, driver.checkpoint.parent.mark) for driver in (first, second))
    names = [{file.file.name for one in work.changed for file in one.files} for work in (some, others)]
    assert names[0]
    assert not names[0] & names[1]


def test_a_snapshot_with_condemned_chunks_is_not_named():
    storage, clock = MemoryStorage(), ManualClock()
    driver, _ = run(storage, clock, script(3))
    head = driver.checkpoint.head
    compact(storage, head, driver.checkpoint.head_hash, KEY_GROUPS)
    made = driver.checkpoint.waiting_snapshot()
    assert made is not None
    put_list(storage, DeletionList(clock.now_ms(), (made.files[0].file.name,)))
    assert driver.checkpoint.waiting_snapshot() is None


def test_a_list_of_a_driver_that_had_lost_is_not_acted_on():
    """It names files of epochs that it did not know."""
    storage, clock = MemoryStorage(), ManualClock()
    _, models = run(storage, clock, script(3))
    everything = [name for name in storage.list("") if name.startswith(("deltas/", "snapshots/", "manifests/"))]
    put_list(storage, DeletionList(clock.now_ms(), tuple(everything)))
    again = Driver(storage, KEEP, clock)
    settle(again, models, KEEP)
    check_kept(storage, models)


def test_a_list_from_a_clock_that_is_ahead_is_acted_on_in_time():
    storage, clock = MemoryStorage(), ManualClock()
    Driver(storage, KEEP, clock)
    storage.put("deltas/" + "0" * 40, b"left")
    put_list(storage, DeletionList(10**14, ("deltas/" + "0" * 40,)))
    driver, models = run(storage, clock, script(2))
    settle(driver, models, KEEP)
    assert not storage.contains("deltas/" + "0" * 40)
    assert not [name for name in storage.list(CONDEMNED) if "100000000000000" in name]


def test_a_damaged_list_deletes_nothing_and_goes_away():
    storage, clock = MemoryStorage(), ManualClock()
    Driver(storage, KEEP, clock)
    storage.put(f"{CONDEMNED}/000000000000001-0000000000000000", b"rubbish")
    driver, models = run(storage, clock, script(2))
    settle(driver, models, KEEP)
    check_kept(storage, models)
    assert not storage.contains(f"{CONDEMNED}/000000000000001-0000000000000000")


def test_a_manifest_that_cannot_be_read_stops_deleting_and_is_told():
    storage, clock = MemoryStorage(), ManualClock()
    run(storage, clock, script(5), Keep.all())
    storage._files[manifest_name(10)] = b"damaged"
    driver = Driver(storage, KEEP, clock)
    there = {name for name in storage.list("") if not name.startswith("heads/")}
    for _ in range(FAILURES_MAX - 1):
        driver.epoch({})
    with pytest.raises(EpochError, match="MP426") as caught:
        driver.epoch({})
    assert "manifests/0000000010" in str(caught.value)
    assert there <= set(storage.list(""))
    assert driver.checkpoint.epoch == 23, "the epoch is committed all the same"


def test_a_savepoint_keeps_its_epoch_until_it_is_removed():
    storage, clock = MemoryStorage(), ManualClock()
    driver, models = run(storage, clock, script(2))
    add_savepoint(storage, "before", 7, clock=clock)
    assert add_savepoint(storage, "before", 7, clock=clock) == savepoints(storage)[0]
    for row in script(8):
        clock.advance(GRACE_MS)
        models[driver.checkpoint.epoch + 1] = after(models[driver.checkpoint.epoch], row)
        driver.epoch(row)
    settle(driver, models, KEEP)
    assert 7 in kept_epochs(storage)[0]
    assert 6 not in kept_epochs(storage)[0]
    check_kept(storage, models)
    remove_savepoint(storage, "before")
    settle(driver, models, KEEP)
    assert 7 not in kept_epochs(storage)[0]


@pytest.mark.parametrize("name", ["", "12", "fork-1", "a/b", ".a", "-a", "a b", "a" * 101])
def test_a_bad_name_of_a_savepoint_is_refused(name):
    storage, clock = MemoryStorage(), ManualClock()
    run(storage, clock, script(1))
    with pytest.raises(EpochError, match="MP428"):
        add_savepoint(storage, name)


def test_savepoints_that_make_no_sense_are_refused():
    storage, clock = MemoryStorage(), ManualClock()
    run(storage, clock, [])
    with pytest.raises(EpochError, match="MP424"):
        add_savepoint(storage, "empty")
    run(storage, clock, script(1))
    add_savepoint(storage, "here", 2)
    with pytest.raises(EpochError, match="MP428"):
        add_savepoint(storage, "here", 3)
    with pytest.raises(EpochError, match="MP425"):
        remove_savepoint(storage, "there")
    with pytest.raises(EpochError, match="MP450"):
        add_savepoint(storage, "late", 30)
    data = storage.get("savepoints/here")
    storage.put("savepoints/moved", data)
    with pytest.raises(EpochError, match="MP413"):
        savepoints(storage)


def test_an_epoch_that_is_condemned_can_not_be_named():
    storage, clock = MemoryStorage(), ManualClock()
    run(storage, clock, script(8), Keep.all())
    driver = Driver(storage, KEEP, clock)
    driver.epoch({})
    assert manifest_name(1) in driver.checkpoint._collector.condemned
    with pytest.raises(EpochError, match="MP427"):
        add_savepoint(storage, "late", 1)
    assert savepoints(storage) == ()


def test_a_savepoint_that_came_between_looking_and_condemning_is_respected():
    """The list is written by who did not see the savepoint; whoever deletes looks once more."""
    clock = ManualClock()
    named = []

    class Between(MemoryStorage):
        def put(self, name, data):
            if name.startswith(CONDEMNED) and manifest_name(5).encode() in data and not named:
                named.append(add_savepoint(storage, "between", 5, clock=clock))
            return super().put(name, data)

    storage = Between()
    driver, models = run(storage, clock, script(10))
    settle(driver, models, KEEP)
    assert named[0].epoch == 5
    assert 5 in kept_epochs(storage)[0]
    check_kept(storage, models)


@pytest.mark.parametrize(
    "bad",
    [
        {"last": 0},
        {"every": 0},
        {"last": 1.5},
        {"grace": "-1 s"},
        {"grace": "1"},
        {"grace": 5},
        {"grace": "1000000 d"},
        {"last": True},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(bad):
    with pytest.raises(EpochError, match="MP429"):
        Keep(**bad)


def test_numbers_are_given_away_by_blocks_and_marks_stay_few():
    storage = MemoryStorage()
    until = 2 * LARGE + 3 * SMALL
    rounds = 1
    while not give_away(storage, until, 100):
        rounds += 1
    assert rounds == 1
    assert all(is_retired(storage, epoch) for epoch in (0, 1, LARGE, until - 1))
    assert not is_retired(storage, until)
    assert len(storage.list(RETIRED)) == 5
    more = 3 * LARGE - SMALL
    while not give_away(storage, more, 100):
        rounds += 1
    assert rounds > 5
    assert give_away(storage, 3 * LARGE, 100)
    assert len(storage.list(RETIRED)) == 3
    assert all(is_retired(storage, epoch) for epoch in range(1, 3 * LARGE, 97))
    assert not is_retired(storage, 3 * LARGE)


def test_a_death_while_marks_are_put_together_forgets_no_number(monkeypatch):
    monkeypatch.setattr(retired, "LARGE", large := 8 * SMALL)
    monkeypatch.setattr(retired, "SIZES", (SMALL, large))
    for death in range(2 * (large // SMALL) + 4):
        storage = MemoryStorage()
        assert give_away(storage, large - SMALL, large)
        left = [death]

        def before(call, name, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise Died

        with contextlib.suppress(Died):
            give_away(Watched(storage, before), large, large)
        assert is_retired(storage, large - SMALL - 1)
        assert is_retired(storage, 1)
        assert give_away(storage, large, large)
        assert len(storage.list(RETIRED)) == 1


def test_blocks_are_complete_when_their_last_number_is_committed():
    assert complete_until(SMALL - 2) == 0
    assert complete_until(SMALL - 1) == SMALL
    assert block_end(SMALL - 1) == SMALL
    assert block_end(SMALL) == 2 * SMALL
    assert retired.SIZES == (SMALL, LARGE)


class Keeping(RuleBasedStateMachine):
    """Any sequence of epochs, pauses, savepoints, collections by hand and new drivers, and a dict for each epoch."""

    @initialize(last=st.integers(1, 6), every=st.none() | st.integers(2, 9))
    def begin(self, last, every):
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
        self.keep = Keep(last, every, timedelta(milliseconds=GRACE_MS))
        self.clock = ManualClock()
        self.storage = MemoryStorage()
        self.models = {0: {}}
        self.named = {}
        self.driver = Driver(self.storage, self.keep, self.clock)

    def teardown(self):
        if hasattr(self, "driver"):
            settle(self.driver, self.models, self.keep, 30)
            for _ in range(3):
                self.clock.advance(2 * GRACE_MS)
                collect_all(self.storage, self.keep, self.clock)
            waiting = collection._waiting_snapshot(self.storage, self.driver.checkpoint.epoch)
            assert set(garbage(self.storage)) <= waiting
            epochs, _ = kept_epochs(self.storage)
            assert list(epochs) == self.keep.kept(epochs, pinned(self.storage))
            check_kept(self.storage, self.models)
            self.patch.undo()

    @rule(rows=st.lists(changes, min_size=1, max_size=12), pause_ms=st.integers(0, GRACE_MS))
    def epochs(self, rows, pause_ms):
        for row in rows:
            self.clock.advance(pause_ms)
            epoch = self.driver.checkpoint.epoch
            self.models[epoch + 1] = after(self.models[epoch], row)
            self.driver.epoch(row)

    @rule(last=st.integers(1, 6))
    def new_driver(self, last):
        """Another one takes over, maybe with another policy; the old one is just forgotten."""
        self.keep = Keep(last, self.keep.every, self.keep.grace)
        self.driver = Driver(self.storage, self.keep, self.clock)

    @rule(row=changes, death=st.integers(0, 12))
    def dying_driver(self, row, death):
        left = [death]

        def before(call, name):
            left[0] -= 1
            if left[0] < 0:
                raise Died

        epoch = self.driver.checkpoint.epoch
        self.models[epoch + 1] = after(self.models[epoch], row)
        with contextlib.suppress(Died):
            Driver(Watched(self.storage, before), self.keep, self.clock).epoch(row)
        self.driver = Driver(self.storage, self.keep, self.clock)

    @rule()
    def pause(self):
        self.clock.advance(3 * GRACE_MS)

    @rule(grace=st.booleans())
    def collect_by_hand(self, grace):
        keep = Keep(self.keep.last, self.keep.every, self.keep.grace if grace else "0 s")
        collect_all(self.storage, keep, self.clock)
        self.driver = Driver(self.storage, self.keep, self.clock)

    @precondition(lambda self: self.driver.checkpoint.epoch)
    @rule(data=st.data())
    def name_an_epoch(self, data):
        epoch = data.draw(st.sampled_from(kept_epochs(self.storage)[0]))
        condemned = set().union(*(listed.names for listed in read_lists(self.storage).values()))
        if manifest_name(epoch) in condemned:
            with pytest.raises(EpochError, match="MP427"):
                add_savepoint(self.storage, f"new{epoch}", epoch)
        else:
            add_savepoint(self.storage, f"s{epoch}", epoch)
            self.named[f"s{epoch}"] = epoch

    @precondition(lambda self: self.named)
    @rule(data=st.data())
    def forget_a_name(self, data):
        name = data.draw(st.sampled_from(sorted(self.named)))
        remove_savepoint(self.storage, name)
        del self.named[name]

    @invariant()
    def every_kept_epoch_reads_as_before(self):
        if not hasattr(self, "driver"):
            return
        check_kept(self.storage, self.models)
        epochs, _ = kept_epochs(self.storage)
        assert set(self.named.values()) <= set(epochs)
        newest = self.driver.checkpoint.epoch
        assert set(epochs) >= set(range(max(1, newest - 1), newest + 1))


Keeping.TestCase.settings = settings(max_examples=some_of(25), stateful_step_count=12, deadline=None)
test_keeping = Keeping.TestCase


@pytest.mark.parametrize("calls", [1, 2], ids=["listed", "deleted"])
def test_files_that_a_collector_beside_the_job_listed_are_not_committed(calls):
    clock, storage = ManualClock(), MemoryStorage()
    driver = Driver(storage, KEEP, clock)
    words = {f"word {number}": str(number) for number in range(40)}
    driver.epoch(words)

    def slow(parent):
        work = driver.work(dict.fromkeys(words, "two"), parent.mark)
        for _ in range(calls):
            collect_all(storage, KEEP, clock)
            clock.advance(max(GRACE_MS, 20_000))  # longer than a commit counts as sure
        return work

    offer = Batch(QUERY, driver.checkpoint.head.stream.number + 1, ("words",))
    with pytest.raises(EpochError, match="MP443"):
        driver.checkpoint.run_epoch(offer, slow, driver.publish, partitions=2)
    again = Driver(storage, KEEP, clock)
    again.epoch(dict.fromkeys(words, "two"))
    check_kept(storage, {1: words, 2: dict.fromkeys(words, "two")})
