from __future__ import annotations

import subprocess
import sys

import pytest

from millpond.checkpoint.commit.checkpoint import (
    Changed,
    Checkpoint,
    EpochResult,
    EpochWork,
    JobAborted,
)
from millpond.checkpoint.commit.commit import DELTAS_KEPT
from millpond.checkpoint.records.manifest import ElementSchema, StateFile, manifest_hash, manifest_name
from millpond.checkpoint.records.offers import Batch, BoundedRun, Rescaled
from millpond.checkpoint.records.work import UnsyncedChanges, UnsyncedFile
from millpond.checkpoint.recovery import last_manifest, read_genesis, read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.clock import ManualClock
from millpond.errors import EpochError
from millpond.state.changes import Changes
from millpond.state.local.storekey import store_key
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.content import FileRef
from millpond.storage.contract import PutOutcome
from tests.programs.ledger import (
    BATCHES,
    ELEMENTS,
    FEEDS,
    KEY_GROUPS,
    PARTITIONS,
    QUERY,
    MemorySink,
    compute,
    open_ledger,
    run_batch,
    state_after,
)

NOTHING = EpochWork((), (), {})


@pytest.fixture
def storage():
    return MemoryStorage()


@pytest.fixture
def sink():
    return MemorySink()


@pytest.fixture
def often(monkeypatch):
    """Make a snapshot due at every second epoch."""
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)


def code_of(call):
    with pytest.raises(EpochError) as caught:
        call()
    return caught.value.code


def offer_to(checkpoint, offer, **options):
    return checkpoint.run_epoch(offer, lambda parent: NOTHING, lambda manifest: None, partitions=2, **options)


def test_a_new_checkpoint_is_empty_and_has_a_genesis(storage):
    checkpoint = Checkpoint.open(storage, ELEMENTS, clock=ManualClock(1234))
    assert checkpoint.head is None
    assert checkpoint.epoch == 0
    assert checkpoint.genesis.key_groups == 128
    assert checkpoint.genesis.instances == 8
    assert checkpoint.genesis.created_ms == 1234
    assert checkpoint.head_hash == manifest_hash(storage.get("genesis"))


def test_a_checkpoint_opened_again_is_the_same(storage):
    one = open_ledger(storage)
    other = Checkpoint.open(storage, ELEMENTS)
    assert one.genesis == other.genesis


def test_few_key_groups_have_no_more_instances_than_groups(storage):
    assert Checkpoint.open(storage, ELEMENTS, key_groups=4).genesis.instances == 4


def test_a_racing_creator_uses_the_genesis_that_won(storage):
    class SlowStorage(MemoryStorage):
        def put(self, name, data):
            if name == "genesis" and not self.contains(name):
                winner = MemoryStorage()
                Checkpoint.open(winner, ELEMENTS, key_groups=KEY_GROUPS)
                super().put(name, winner.get(name))
            return super().put(name, data)

    slow = SlowStorage()
    checkpoint = open_ledger(slow)
    genesis, digest = read_genesis(slow)
    assert checkpoint.genesis == genesis
    assert checkpoint.head_hash == digest


@pytest.mark.parametrize(
    "elements",
    [
        (),
        (ElementSchema("seen", "counter", "partitioned", "", "str", "float"),),
        (ElementSchema("other", "counter", "partitioned", "", "str", "int"),),
        (*ELEMENTS, ElementSchema("more", "map", "partial", "row", "str", "int")),
    ],
)
def test_another_program_is_refused_with_both_sides_shown(storage, elements):
    open_ledger(storage)
    with pytest.raises(EpochError) as caught:
        Checkpoint.open(storage, elements)
    assert caught.value.code == "MP401"
    assert caught.value.expected != caught.value.found


def test_another_number_of_key_groups_is_refused(storage):
    open_ledger(storage)
    assert code_of(lambda: Checkpoint.open(storage, ELEMENTS, key_groups=16)) == "MP402"


def test_another_number_of_instances_waits_for_a_rescale(storage):
    open_ledger(storage)
    checkpoint = Checkpoint.open(storage, ELEMENTS, instances=3)
    assert checkpoint.instances == 8
    assert storage.list("manifests") == []


def test_a_rescale_is_an_epoch_of_its_own_and_the_stream_goes_on_where_it_was(storage):
    checkpoint = Checkpoint.open(storage, ELEMENTS)
    offer_to(checkpoint, Batch("q", 0, FEEDS))
    outcome = offer_to(checkpoint, Rescaled(3))
    assert (outcome.result, outcome.manifest.epoch, outcome.manifest.instances) == (EpochResult.COMMITTED, 2, 3)
    assert offer_to(checkpoint, Rescaled(3)).result is EpochResult.ALREADY_COMMITTED
    again = Checkpoint.open(storage, ELEMENTS)
    assert again.instances == again.parent.instances == 3
    assert offer_to(again, Batch("q", 0, FEEDS)).result is EpochResult.ALREADY_COMMITTED
    assert code_of(lambda: offer_to(again, Batch("q", 2, FEEDS))) == "MP405"
    assert offer_to(again, Batch("q", 1, FEEDS)).manifest.instances == 3
    assert offer_to(again, BoundedRun("june", FEEDS)).manifest.instances == 3


def test_a_rescale_back_to_the_number_of_the_genesis_leaves_no_mark(storage):
    checkpoint = Checkpoint.open(storage, ELEMENTS)
    offer_to(checkpoint, Rescaled(3))
    assert offer_to(checkpoint, Rescaled(8)).manifest.instances is None
    assert Checkpoint.open(storage, ELEMENTS).instances == 8


def test_a_fresh_checkpoint_can_be_rescaled_before_its_first_batch(storage):
    Checkpoint.open(storage, ELEMENTS)
    checkpoint = Checkpoint.open(storage, ELEMENTS)
    assert offer_to(checkpoint, Rescaled(3)).manifest.epoch == 1
    assert offer_to(checkpoint, Batch("q", 0, FEEDS)).manifest.epoch == 2


def test_of_two_drivers_that_rescale_at_once_one_loses_and_stops(storage):
    one, other = Checkpoint.open(storage, ELEMENTS), Checkpoint.open(storage, ELEMENTS)
    offer_to(one, Rescaled(3))
    assert code_of(lambda: offer_to(other, Rescaled(5))) == "MP408"
    assert code_of(lambda: offer_to(other, Batch("q", 0, FEEDS))) == "MP408"
    assert Checkpoint.open(storage, ELEMENTS).instances == 3


def test_the_state_after_each_epoch_is_that_of_the_batches_so_far(storage, sink, often):
    checkpoint = open_ledger(storage)
    for batch in range(len(BATCHES)):
        outcome = run_batch(checkpoint, storage, batch, sink.publish)
        assert outcome.result is EpochResult.COMMITTED
        assert outcome.manifest == checkpoint.head
        assert read_state(storage) == state_after(batch + 1)
    assert sorted(sink.published) == [1, 2, 3, 4]


def test_a_snapshot_is_taken_when_it_is_due_and_deltas_before_it_stay_listed(storage, sink, often):
    checkpoint = open_ledger(storage)
    for batch in range(len(BATCHES)):
        run_batch(checkpoint, storage, batch, sink.publish)
    assert checkpoint.head.snapshot_epoch == 2
    assert [delta.epoch for delta in checkpoint.head.deltas] == [1, 2, 3, 4]


def test_after_a_snapshot_only_the_last_deltas_stay_listed(storage, monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 12)
    checkpoint = Checkpoint.open(storage, ELEMENTS, key_groups=1)
    for batch in range(20):
        offer = Batch("q", batch)
        checkpoint.run_epoch(offer, lambda parent: EpochWork((), (), {}), lambda manifest: None, partitions=1)
    head = checkpoint.head
    assert head.snapshot_epoch == 12
    assert [delta.epoch for delta in head.deltas] == list(range(20 - DELTAS_KEPT + 1, 21))


def test_manifests_are_chained_by_their_hashes(storage, sink):
    checkpoint = open_ledger(storage)
    before = checkpoint.head_hash
    for batch in range(3):
        run_batch(checkpoint, storage, batch, sink.publish)
        assert checkpoint.head.parent == before
        assert checkpoint.head.deltas[-1].parent == before
        before = manifest_hash(storage.get(manifest_name(batch + 1)))
        assert checkpoint.head_hash == before


def test_a_batch_offered_twice_is_applied_once(storage, sink):
    checkpoint = open_ledger(storage)
    run_batch(checkpoint, storage, 0, sink.publish)
    again = run_batch(checkpoint, storage, 0, sink.publish)
    assert again.result is EpochResult.ALREADY_COMMITTED
    assert again.manifest.epoch == 1
    assert read_state(storage) == state_after(1)


def test_a_restart_publishes_the_head_before_it_computes(storage):
    run_batch(open_ledger(storage), storage, 0, MemorySink().publish)
    calls = []
    checkpoint = open_ledger(storage)
    checkpoint.run_epoch(
        Batch(QUERY, 1, FEEDS),
        lambda parent: (calls.append("compute"), compute(storage, 1, parent))[1],
        lambda manifest: calls.append(f"publish {manifest.epoch}"),
        partitions=PARTITIONS,
    )
    assert calls == ["publish 1", "compute", "publish 2"]


def test_publication_is_finished_without_a_batch(storage):
    run_batch(open_ledger(storage), storage, 0, MemorySink().publish)
    sink = MemorySink()
    checkpoint = open_ledger(storage)
    checkpoint.finish_publication(sink.publish)
    checkpoint.finish_publication(lambda manifest: pytest.fail("published twice"))
    assert list(sink.published) == [1]


def test_an_error_in_publish_is_seen_and_the_next_call_publishes_again(storage, sink):
    checkpoint = open_ledger(storage)

    def fail(manifest):
        raise RuntimeError("the sink is away")

    with pytest.raises(RuntimeError, match="away"):
        run_batch(checkpoint, storage, 0, fail)
    assert run_batch(checkpoint, storage, 0, sink.publish).result is EpochResult.ALREADY_COMMITTED
    assert list(sink.published) == [1]
    assert read_state(storage) == state_after(1)


def test_an_error_in_compute_commits_nothing_and_the_batch_can_be_offered_again(storage, sink):
    checkpoint = open_ledger(storage)
    with pytest.raises(ZeroDivisionError):
        checkpoint.run_epoch(Batch(QUERY, 0, FEEDS), lambda parent: 1 // 0, sink.publish, partitions=2)
    assert checkpoint.epoch == 0
    assert sink.published == {}
    run_batch(checkpoint, storage, 0, sink.publish)
    assert read_state(storage) == state_after(1)


def test_an_aborted_job_runs_again_from_the_same_parent(storage, sink):
    checkpoint = open_ledger(storage)
    parents = []

    def flaky(parent):
        parents.append(parent)
        if len(parents) < 3:
            raise JobAborted("MP410", "executors lost")
        return compute(storage, 0, parent)

    checkpoint.run_epoch(Batch(QUERY, 0, FEEDS), flaky, sink.publish, partitions=PARTITIONS, retries=2)
    assert len(parents) == 3
    assert len(set(map(str, parents))) == 1
    assert read_state(storage) == state_after(1)


def test_a_job_aborted_too_often_fails_with_its_cause(storage, sink):
    checkpoint = open_ledger(storage)

    def abort(parent):
        raise JobAborted("MP410", "executors lost")

    with pytest.raises(EpochError) as caught:
        checkpoint.run_epoch(Batch(QUERY, 0, FEEDS), abort, sink.publish, partitions=2, retries=1)
    assert caught.value.code == "MP409"
    assert isinstance(caught.value.__cause__, JobAborted)
    assert checkpoint.epoch == 0


def test_kept_and_lost_checkpoints_in_all_four_combinations(storage):
    first = Batch("spark-1", 0, FEEDS)
    second = Batch("spark-1", 1, FEEDS)
    restarted = Batch("spark-2", 0, FEEDS)
    kept = Checkpoint.open(storage, ELEMENTS)
    offer_to(kept, first)
    assert offer_to(kept, second).manifest.epoch == 2
    assert code_of(lambda: offer_to(kept, restarted)) == "MP404"
    assert code_of(lambda: offer_to(Checkpoint.open(MemoryStorage(), ELEMENTS), second)) == "MP403"
    assert offer_to(Checkpoint.open(MemoryStorage(), ELEMENTS), restarted).manifest.epoch == 1


@pytest.mark.parametrize(
    ("offer", "code"),
    [
        (Batch("q", 4, FEEDS), "MP405"),
        (Batch("q", 0, FEEDS), "MP406"),
        (Batch("other", 2, FEEDS), "MP404"),
        (Batch("q", 2, ("words", "more")), "MP407"),
    ],
)
def test_what_does_not_follow_is_refused_until_it_is_adopted(storage, offer, code):
    checkpoint = Checkpoint.open(storage, ELEMENTS)
    offer_to(checkpoint, Batch("q", 0, FEEDS))
    offer_to(checkpoint, Batch("q", 1, FEEDS))
    assert code_of(lambda: offer_to(checkpoint, offer)) == code
    assert checkpoint.epoch == 2
    assert offer_to(checkpoint, offer, adopt=True).manifest.epoch == 3
    following = Batch(offer.query, offer.number + 1, offer.sources)
    assert offer_to(checkpoint, following).manifest.epoch == 4


def test_a_bounded_run_is_applied_once_and_the_stream_goes_on_where_it_was(storage):
    checkpoint = Checkpoint.open(storage, ELEMENTS)
    offer_to(checkpoint, BoundedRun("june", FEEDS))
    assert offer_to(checkpoint, BoundedRun("june", FEEDS)).result is EpochResult.ALREADY_COMMITTED
    offer_to(checkpoint, Batch("q", 0, FEEDS))
    offer_to(checkpoint, BoundedRun("july", FEEDS))
    again = Checkpoint.open(storage, ELEMENTS)
    assert again.head.runs == ("june", "july")
    assert offer_to(again, Batch("q", 0, FEEDS)).result is EpochResult.ALREADY_COMMITTED
    assert offer_to(again, Batch("q", 1, FEEDS)).manifest.epoch == 4


@pytest.mark.parametrize("newer_commits", [1, 2])
def test_a_driver_that_was_overtaken_loses_at_the_fence_and_stays_stopped(storage, sink, newer_commits):
    old = open_ledger(storage)

    def stalled(parent):
        newer = open_ledger(storage)
        for batch in range(newer_commits):
            run_batch(newer, storage, batch, sink.publish)
        return compute(storage, 0, parent)

    offer = Batch(QUERY, 0, FEEDS)
    never = MemorySink()
    assert code_of(lambda: old.run_epoch(offer, stalled, never.publish, partitions=PARTITIONS)) == "MP408"
    assert never.published == {}
    assert read_state(storage) == state_after(newer_commits)
    assert code_of(lambda: run_batch(old, storage, 1, never.publish)) == "MP408"
    assert code_of(lambda: old.finish_publication(never.publish)) == "MP408"
    assert last_manifest(storage, read_genesis(storage)[1])[0].epoch == newer_commits


def test_an_error_after_the_commit_is_not_a_second_application(sink):
    class UnsureStorage(MemoryStorage):
        broken = True

        def put(self, name, data):
            outcome = super().put(name, data)
            if self.broken and name.startswith("manifests/"):
                self.broken = False
                raise OSError("the answer was lost")
            return outcome

    storage = UnsureStorage()
    checkpoint = open_ledger(storage)
    with pytest.raises(OSError, match="lost"):
        run_batch(checkpoint, storage, 0, sink.publish)
    assert run_batch(checkpoint, storage, 0, sink.publish).result is EpochResult.ALREADY_COMMITTED
    assert list(sink.published) == [1]
    assert read_state(storage) == state_after(1)


@pytest.mark.parametrize("near", [False, True])
def test_work_that_does_not_fit_is_refused_before_it_is_written(storage, near):
    checkpoint = open_ledger(storage)
    file = StateFile(FileRef("deltas/x", 0, "0" * 64), 0, KEY_GROUPS, 1)
    changed = Changed(unsynced=UnsyncedChanges(files=(UnsyncedFile(file, b""),))) if near else Changed(files=(file,))
    work = EpochWork((changed,), (), {})
    call = lambda: checkpoint.run_epoch(Batch("q", 0), lambda parent: work, lambda m: None, partitions=2)  # noqa: E731
    assert code_of(call) == "MP415"
    assert checkpoint.epoch == 0


def test_two_partitions_with_one_key_commit_nothing(storage):
    checkpoint = open_ledger(storage)
    changes = Changes([store_key(0, 0, b"k")], [b"1"])
    work = EpochWork((Changed(changes), Changed(changes)), (), {})
    call = lambda: checkpoint.run_epoch(Batch("q", 0), lambda parent: work, lambda m: None, partitions=2)  # noqa: E731
    assert code_of(call) == "MP411"
    assert storage.list("manifests") == []


def test_an_epoch_without_changes_writes_no_segment(storage):
    checkpoint = Checkpoint.open(storage, ELEMENTS)
    assert offer_to(checkpoint, Batch("q", 0)).manifest.deltas[0].files == ()
    assert storage.list("deltas") == []


def test_the_time_of_an_epoch_is_told_by_its_parts(storage):
    clock = ManualClock()
    checkpoint = Checkpoint.open(storage, ELEMENTS, clock=clock)

    def slow(parent):
        clock.sleep(2)
        return NOTHING

    outcome = checkpoint.run_epoch(Batch("q", 0), slow, lambda manifest: clock.sleep(3), partitions=1)
    assert (outcome.timings.compute_s, outcome.timings.publish_s) == (2.0, 3.0)


def test_opening_makes_a_name_durable_that_its_writer_left_behind(storage, sink):
    run_batch(open_ledger(storage), storage, 0, sink.publish)
    puts = []
    put = storage.put
    storage.put = lambda name, data: puts.append((name, put(name, data))) or PutOutcome.PRESENT
    open_ledger(storage)
    (head,) = storage.list("heads")
    assert puts == [(name, PutOutcome.PRESENT) for name in ("genesis", manifest_name(1), head)]


def test_the_room_does_not_load_spark():
    program = "import sys, millpond.checkpoint.commit.checkpoint; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
