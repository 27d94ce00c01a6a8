"""Bounded loss: while the host lives nothing is lost, and with it no more than is due, key by key, and told."""

from __future__ import annotations

import random
import shutil
from collections import Counter as Tally
from datetime import timedelta
from functools import cache

import msgspec
import pytest
from msgspec.structs import replace

from millpond import BoundedLoss, Counter, List, Map, Partitioned, Program, entry
from millpond.checkpoint.read.history import History
from millpond.checkpoint.read.verify import verify
from millpond.checkpoint.records.offers import Lost
from millpond.checkpoint.records.saves import read_save
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.checkpoint.snapshots.compaction import compact, last_merged
from millpond.engine.durability.boundedloss import Saving, bounded_loss_settings
from millpond.engine.durability.replaying import check_durability
from millpond.engine.plan import Level
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from millpond.errors import MillpondError
from millpond.program.semantics.epoch_time import epoch_time
from millpond.state.local.storekey import element_of
from millpond.storage.backends.files import FileStorage
from millpond.storage.composed.unsynced import UnsyncedStorage
from tests.fuzz.transactions.worlds.bank import Bank
from tests.programs.keyed import PROGRAMS, Recommender, Totals, Words, fresh_seed, oracle, random_rows, say
from tests.sizes import compile_once

SECOND = 1_000_000
NEVER = 10**6
"""Seconds and events that no test reaches."""


class Mixed(Program):
    """An element that is exactly once beside one with bounded loss; every row changes both."""

    exact = Partitioned(Counter[str])
    hits = Partitioned(Counter[str], durability=BoundedLoss(events=3, within=timedelta(seconds=NEVER)))

    @entry
    def hit(self, key: str) -> int:
        self.exact[key] += 1
        self.hits[key] += 1
        return self.exact[key]


@pytest.fixture(autouse=True)
def _files(monkeypatch):
    """Small changes become files too."""
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 60)


def both(folder):
    return UnsyncedStorage(FileStorage(folder / "checkpoint"), folder / "near")


def kept(folder):
    return FileStorage(folder / "checkpoint")


def start(program, folder, partitions=2, durability=Level.EXACTLY_ONCE, **options):
    return Simulated(compile_once(program), folder, partitions, durability=durability, **options)


def lose(folder, rng=None, share=1.0):
    """What a lost machine leaves: nothing that was near, or some of it, whole or torn; stores may be there or not."""
    for path in sorted((folder / "near").rglob("*")):
        if path.is_file() and (rng is None or rng.random() < share):
            path.chmod(0o600)
            if rng is not None and rng.random() < 0.5:
                path.write_bytes(path.read_bytes()[: rng.randrange(30)])
            else:
                path.unlink()
    for local in sorted(folder.glob("local-*")):
        if rng is not None and rng.random() < 0.5:
            shutil.rmtree(local)


def check_loss(loss, state, histories, times, settings):
    """Each key is as it was after some epoch, and what came after that is within the bound and in the report."""
    head = len(histories) - 1
    gone: Tally[bytes] = Tally()
    for key in {key for history in histories for key in history} | set(state):
        points = [at for at, history in enumerate(histories) if history.get(key) == state.get(key)]
        assert points, key
        lost = [at for at in range(points[-1] + 1, head + 1) if histories[at].get(key) != histories[at - 1].get(key)]
        assert len(lost) < settings.events
        assert all(times[at] > times[head] - settings.within_us for at in lost)
        if lost:
            gone[key] = len(lost)
    if loss is None:
        assert not gone
        return
    assert len(gone) <= loss.keys
    assert gone.total() <= loss.updates


@pytest.mark.parametrize("every", [1_000, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_lost_host_takes_no_more_of_a_key_than_is_due(tmp_path, monkeypatch, program, every):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", every)
    rng = random.Random(fresh_seed())
    settings = BoundedLoss(events=rng.choice((1, 2, 4, 9)), within=timedelta(seconds=rng.choice((2, 5, NEVER))))
    say(settings)
    rows = random_rows(program, rng.randrange(1_000), 70)
    histories, times, fed = [{}], [0], 0
    now = 100 * SECOND
    run = start(program, tmp_path, durability=settings)
    for _ in range(rng.randrange(3, 9)):
        now += rng.randrange(3 * SECOND)
        with epoch_time(now):
            if rng.random() < 0.3:
                run = start(program, tmp_path, rng.choice((1, 2, 3)), settings)
                assert run.loss is None
            size = rng.randrange(1, 9)
            run.epoch(rows[fed : fed + size])
        fed += size
        times.append(now)
        histories.append(oracle(program, rows[:fed]).state)
        assert read_state(both(tmp_path)) == histories[-1]
    lose(tmp_path, rng, rng.choice((0.3, 1.0)))
    run = start(program, tmp_path, rng.choice((1, 2, 3)), settings)
    say(run.loss)
    check_loss(run.loss, read_state(kept(tmp_path)), histories, times, settings)
    assert verify(kept(tmp_path), everything=True).problems == []


@cache
def key_of(program, row, element=0):
    """The store key that a row of a counting program changes in an element."""
    return next(key for key in oracle(program, [row]).state if element_of(key) == element)


@pytest.mark.parametrize("keeps_stores", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_job_goes_on_from_what_is_left_wherever_its_state_is(tmp_path, keeps_stores):
    rng = random.Random(fresh_seed())
    # Many of them are met too seldom to be saved.
    words = [f"w{number}" for number in range(40)]
    rows = [("hit", (rng.choice(words),)) for _ in range(160)]
    run = start(Mixed, tmp_path, 3)
    for at in range(0, 60, 10):
        run.epoch(rows[at : at + 10])
    lose(tmp_path)
    if not keeps_stores:
        shutil.rmtree(tmp_path / "local-3")
    run = start(Mixed, tmp_path, 3)
    assert run.loss is not None
    model = {key: msgspec.msgpack.decode(value) for key, value in read_state(both(tmp_path)).items()}
    for at in range(60, 160, 10):
        run.epoch(rows[at : at + 10])
        for row in rows[at : at + 10]:
            for element in (0, 1):
                key = key_of(Mixed, row, element)
                model[key] = model.get(key, 0) + 1
        if at % 40 == 0:
            run = start(Mixed, tmp_path, rng.choice((1, 3)))
            assert run.loss is None
        found = {key: msgspec.msgpack.decode(value) for key, value in read_state(both(tmp_path)).items()}
        assert found == model


def test_elements_beside_one_with_bounded_loss_are_exact_and_kept_at_once(tmp_path):
    rows = [("hit", (f"k{number % 7}",)) for number in range(40)]
    run = start(Mixed, tmp_path)
    for at in range(0, 40, 8):
        run.epoch(rows[at : at + 8])
        names = {state.file.name for state in run._checkpoint.head.deltas[-1].files}
        assert {name for name in names if kept(tmp_path).contains(name)} == names - run._checkpoint.head.deltas[
            -1
        ].lazy_names
    lose(tmp_path)
    run = start(Mixed, tmp_path)
    wanted = {key: value for key, value in oracle(Mixed, rows).state.items() if element_of(key) == 0}
    assert {key: value for key, value in read_state(kept(tmp_path)).items() if element_of(key) == 0} == wanted
    assert run.loss is not None
    assert run.loss.epochs == (1, 2, 3, 4, 5)


def test_a_loss_is_told_once_and_in_the_manifest(tmp_path):
    rows = [("hit", (f"k{number % 5}",)) for number in range(30)]
    run = start(Mixed, tmp_path)
    for at in range(0, 30, 10):
        run.epoch(rows[at : at + 10])
    lose(tmp_path)
    run = start(Mixed, tmp_path)
    head = run._checkpoint.head
    assert head.offer == Lost()
    assert head.deltas[-1].loss == run.loss
    assert head.counters["lazy.lost_updates"] == run.loss.updates
    assert "were lost with their host" in str(run.loss)
    assert start(Mixed, tmp_path).loss is None
    assert run._checkpoint.head.stream.number == 2


@pytest.mark.parametrize("epochs", [6, 7])
def test_nothing_is_lost_that_a_snapshot_holds(tmp_path, monkeypatch, epochs):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
    settings = BoundedLoss(events=NEVER, within=timedelta(seconds=NEVER))
    rows = random_rows(Totals, 7, 10 * epochs)
    run = start(Totals, tmp_path, durability=settings)
    for at in range(0, 10 * epochs, 10):
        run.epoch(rows[at : at + 10])
    # After 6 epochs, one waits for a manifest to name it.
    newest = last_merged(kept(tmp_path)).epoch
    assert (newest > run._checkpoint.head.snapshot_epoch) == (epochs == 6)
    lose(tmp_path)
    run = start(Totals, tmp_path, durability=settings)
    assert (run.loss.epochs if run.loss else ()) == tuple(range(newest + 1, epochs + 1))
    assert read_state(kept(tmp_path)) == oracle(Totals, rows[: newest * 10]).state


def test_a_snapshot_from_before_a_loss_does_not_bring_back_what_was_given_up(tmp_path, monkeypatch):
    settings = BoundedLoss(events=NEVER, within=timedelta(seconds=NEVER))
    rows = random_rows(Totals, 7, 60)
    run = start(Totals, tmp_path, durability=settings)
    for at in range(0, 30, 10):
        run.epoch(rows[at : at + 10])
    head, digest = run._checkpoint.head, run._checkpoint.head_hash
    near = UnsyncedStorage(kept(tmp_path), tmp_path / "copy")
    shutil.copytree(tmp_path / "near", tmp_path / "copy")
    lose(tmp_path)
    run = start(Totals, tmp_path, durability=settings)
    assert read_state(kept(tmp_path)) == {}
    # Whoever merged in the background wakes up late.
    compact(near, head, digest, run._checkpoint.genesis.key_groups)
    run = start(Totals, tmp_path, durability=settings)
    run.epoch(rows[30:40])
    assert run._checkpoint.head.snapshot_epoch == 0
    assert read_state(both(tmp_path)) == oracle(Totals, rows[30:40]).state


def test_a_save_does_not_hide_what_came_after_it(tmp_path):
    settings = BoundedLoss(events=2, within=timedelta(seconds=NEVER))
    rows = [("add", (1, 1.0)), ("add", (1, 1.0)), ("add", (1, 1.0)), ("add", (2, 1.0))]
    run = start(Totals, tmp_path, durability=settings)
    for epoch in (rows[:2], rows[2:3], rows[3:]):
        run.epoch(epoch)
    for name in run._checkpoint.head.deltas[-1].lazy_names:
        (tmp_path / "near" / name).unlink()
    run = start(Totals, tmp_path, durability=settings)
    assert run.loss.epochs == (3,)
    assert (run.loss.keys, run.loss.updates) == (1, 1)
    assert read_state(kept(tmp_path)) == oracle(Totals, rows[:3]).state


@pytest.mark.parametrize("overflow", ["wait", "skip"])
def test_a_full_queue_leaves_the_newest_out_or_nothing(tmp_path, overflow):
    settings = BoundedLoss(events=1, within=timedelta(seconds=NEVER), queue=2, overflow=overflow)
    run = start(Totals, tmp_path, durability=settings)
    keys = [key_of(Totals, ("add", (number, 1.0))) for number in range(6)]
    for number in range(6):
        with epoch_time((number + 1) * SECOND):
            run.epoch([("add", (number, 1.0)), ("add", (0, 1.0)), ("add", (1, 1.0))])
    dirty = run._driver._bounded_loss._saving._saver.dirty_keys
    counters = run.epoch([]).manifest.counters
    if overflow == "wait":
        assert dirty == 0
        assert run._checkpoint.head.counters["lazy.skipped"] == 0
        lose(tmp_path)
        run = start(Totals, tmp_path, durability=settings)
        assert run.loss is None or run.loss.updates == 0
        return
    # Of three that are due, two fit: the third waits, and is the oldest in the next epoch.
    assert dirty > 0
    assert counters["lazy.skipped"] > 0
    saved = {key for ref in run._checkpoint.head.saves for key in saved_keys(tmp_path, ref)}
    assert keys[2] in saved


def saved_keys(folder, ref):
    return read_save(kept(folder), ref).keys


def test_a_key_that_nobody_meets_again_is_saved_in_time(tmp_path):
    settings = BoundedLoss(events=NEVER, within=timedelta(seconds=5))
    run = start(Totals, tmp_path, durability=settings)
    for second in range(10):
        with epoch_time((second + 1) * SECOND):
            run.epoch([("add", (second % 3 + 3 if second else 1, 1.0))])
        book = run._driver._bounded_loss._saving._saver
        assert (key_of(Totals, ("add", (1, 1.0))) in book._book) == (second < 5)


def test_saving_in_a_thread_gives_the_same_and_ends_clean(tmp_path):
    rng = random.Random(fresh_seed())
    settings = BoundedLoss(events=2, within=timedelta(seconds=0.05), queue=3)
    run = start(Totals, tmp_path, durability=settings)
    run._driver._bounded_loss._saving = Saving(both(tmp_path), {0: settings})
    rows = random_rows(Totals, rng.randrange(1_000), 90)
    for at in range(0, 90, 6):
        run.epoch(rows[at : at + 6])
    run._driver._bounded_loss._saving.close()
    run._driver._bounded_loss._saving = None
    lose(tmp_path)
    run = start(Totals, tmp_path, durability=settings)
    assert read_state(kept(tmp_path)) == oracle(Totals, rows).state
    assert verify(kept(tmp_path), everything=True).problems == []


def test_a_saver_that_can_not_read_what_is_near_stops_the_run(tmp_path):
    settings = BoundedLoss(events=3, within=timedelta(seconds=NEVER))
    run = start(Totals, tmp_path, durability=settings)
    run.epoch([("add", (1, 1.0)), ("add", (2, 1.0)), ("add", (2, 1.0))])
    saver = run._driver._bounded_loss._saving._saver
    saver._due = dict.fromkeys(saver._book)
    saver._unsynced = UnsyncedStorage(kept(tmp_path), tmp_path / "elsewhere")
    run._driver._bounded_loss._saving._work()
    assert code_of(lambda: run.epoch([("add", (1, 1.0))])) == "MP498"


def test_a_start_keeps_what_is_near(tmp_path):
    rows = random_rows(Totals, 3, 40)
    run = start(Totals, tmp_path, durability=BoundedLoss(events=NEVER, within=timedelta(seconds=NEVER)))
    run.epoch(rows[:20])
    assert kept(tmp_path).list("deltas") == []
    history = History(kept(tmp_path))
    assert code_of(lambda: history.reader("totals", history.point())) == "MP456"
    assert verify(kept(tmp_path), everything=True).problems == []
    start(Totals, tmp_path, durability=BoundedLoss(events=NEVER, within=timedelta(seconds=NEVER)))
    assert read_state(kept(tmp_path)) == oracle(Totals, rows[:20]).state
    assert History(kept(tmp_path)).reader("totals", history.point()) is not None


LEVELS = (Level.EXACTLY_ONCE, Level.REPLAY, BoundedLoss(events=4))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BoundedLoss(events=4), Level.EXACTLY_ONCE),
        *(pytest.param(before, after, marks=pytest.mark.slow) for before in LEVELS for after in LEVELS),
    ],
    ids=lambda level: type(level).__name__ if isinstance(level, BoundedLoss) else level.value,
)
def test_levels_follow_each_other_in_any_order(tmp_path, before, after):
    rng = random.Random(fresh_seed())
    for program in (Totals, Recommender):
        folder = tmp_path / program.__name__
        folder.mkdir()
        rows = random_rows(program, rng.randrange(1_000), 60)
        for number, level in enumerate((before, after, before)):
            run = start(program, folder, rng.choice((1, 2, 3)), level)
            assert run.loss is None
            run.epoch(rows[number * 20 : number * 20 + 10])
            run.epoch(rows[number * 20 + 10 : number * 20 + 20])
        assert read_state(both(folder)) == oracle(program, rows).state


def test_another_number_of_instances_after_epochs_with_bounded_loss(tmp_path):
    rows = random_rows(Words, 5, 40)
    settings = BoundedLoss(events=NEVER, within=timedelta(seconds=NEVER))
    start(Words, tmp_path, durability=settings, instances=4).epoch(rows[:20])
    run = start(Words, tmp_path, durability=settings, instances=8)
    run.epoch(rows[20:])
    wanted = oracle(Words, rows).replies
    assert {row: reply for row, reply in run.replies().items() if row >= 20} == {
        row: reply for row, reply in wanted.items() if row >= 20
    }


def test_gathered_rows_may_have_bounded_loss(tmp_path):
    compiled = compile_once(Bank)
    level = BoundedLoss(events=NEVER, within=timedelta(seconds=NEVER))
    assert check_durability(compiled, level) is Level.BOUNDED_LOSS
    assert bounded_loss_settings(compiled, level)


def test_a_save_that_a_manifest_names_must_be_there(tmp_path):
    run = start(Totals, tmp_path, durability=BoundedLoss(events=1, within=timedelta(seconds=NEVER)))
    for number in range(3):
        run.epoch([("add", (number, 1.0))])
    ref = run._checkpoint.head.saves[0]
    path = tmp_path / "checkpoint" / ref.file.name
    path.chmod(0o600)
    path.unlink()
    assert [problem.error.code for problem in verify(kept(tmp_path), everything=True).problems] == ["MP304"]
    lose(tmp_path)
    assert code_of(lambda: start(Totals, tmp_path, durability=BoundedLoss(events=1))) == "MP304"


def test_a_save_that_tells_something_else_is_refused(tmp_path):
    run = start(Totals, tmp_path, durability=BoundedLoss(events=1, within=timedelta(seconds=NEVER)))
    for number in range(3):
        run.epoch([("add", (number, 1.0))])
    ref = run._checkpoint.head.saves[0]
    assert code_of(lambda: read_save(kept(tmp_path), replace(ref, entries=ref.entries + 1))) == "MP315"


def code_of(call):
    with pytest.raises(MillpondError) as caught:
        call()
    return caught.value.code


class Listed(Program):
    """A list and a map: the list stays exactly once."""

    log = Partitioned(List[str])
    seen = Partitioned(Map[str, int])

    @entry
    def see(self, key: str) -> None:
        self.seen[key] = 1

    @entry
    def note(self, line: str) -> None:
        self.log.append(line)


def test_what_can_not_have_it_is_refused_or_stays_exact():
    assert code_of(lambda: Partitioned(Map[str, int], durability="replay")) == "MP496"
    assert code_of(lambda: Partitioned(List[str], durability="bounded_loss")) == "MP497"
    for wrong in ({"events": 0}, {"within": "0 s"}, {"within": 5}, {"queue": True}, {"overflow": "drop"}):
        assert code_of(lambda wrong=wrong: BoundedLoss(**wrong)) == "MP499"
    compiled = compile_once(Listed)
    assert set(bounded_loss_settings(compiled, Level.BOUNDED_LOSS)) == {"seen"}
    assert check_durability(compiled, Level.BOUNDED_LOSS) is Level.BOUNDED_LOSS
    assert code_of(lambda: check_durability(compiled, Level.BOUNDED_LOSS, one_host=False)) == "MP493"
    mixed = compile_once(Mixed)
    assert set(bounded_loss_settings(mixed, Level.BOUNDED_LOSS)) == {"exact", "hits"}
    assert code_of(lambda: check_durability(mixed, Level.REPLAY)) == "MP496"
    assert code_of(lambda: check_durability(mixed, Level.EXACTLY_ONCE, one_host=False)) == "MP493"


class Relaxed(Program):
    """An entry point that may leave messages."""

    one = Partitioned(Counter[str])
    two = Partitioned(Counter[str])

    @entry(relaxed=True)
    def both(self, key: str, other: str) -> None:
        self.one[key] += 1
        self.two[other] += 1
        self.one[other] += 1


def test_relaxed_programs_are_refused():
    assert code_of(lambda: check_durability(compile_once(Relaxed), Level.BOUNDED_LOSS)) == "MP497"


class Hits(Program):
    """One element with bounded loss, saved at every change."""

    hits = Partitioned(Counter[str], durability=BoundedLoss(events=1, within=timedelta(seconds=NEVER)))

    @entry
    def hit(self, key: str) -> None:
        self.hits[key] += 1


def test_what_is_left_of_a_torn_file_does_not_hide_the_same_from_the_snapshot_that_follows(tmp_path, monkeypatch):
    """What is restored from saves has the bytes, and so the name, of the file that is lost."""
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
    start(Hits, tmp_path, 1).epoch([("hit", ("a",))])
    for path in (tmp_path / "near" / "deltas").iterdir():
        path.chmod(0o600)
        path.write_bytes(b"torn")
    run = start(Hits, tmp_path, 1)
    assert run.loss is not None
    run.epoch([("hit", ("a",))])
    assert History(kept(tmp_path)).point().manifest.snapshot_epoch == 2
    assert list(read_state(both(tmp_path)).values()) == [msgspec.msgpack.encode(2)]
