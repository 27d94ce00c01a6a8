"""Key groups change owners between epochs, as it comes: replies and state stay those of the sequential run."""

from __future__ import annotations

import random
import signal

import pyarrow.parquet as pq
import pytest

from millpond import Aborted, parquet
from millpond.checkpoint.recovery import last_manifest, read_genesis, read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.engine.local_state import openstate
from millpond.engine.plan import Level
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from millpond.storage.backends.files import FileStorage
from tests.children import in_child
from tests.programs.keyed import Fraud, Recommender, Store, committed_state, fresh_seed, say, shown
from tests.property.rescaled import Kinds
from tests.property.test_rescale_partitions import Transfers, row_of
from tests.sizes import compile_once, sized, slow_or_wide

KEY_GROUPS = 9
INSTANCES = 4


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Snapshots at every third epoch, and some deltas in files of their own."""
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 120)


def random_owners(rng, layout, partitions):
    """Any owners that there can be; some partitions may own nothing."""
    chosen = {group: rng.randrange(partitions) for atom in layout.atoms for group in atom}
    return [chosen[atom[0]] for atom in layout.atoms for _ in atom]


def some_moved(rng, layout):
    """The owners as they are, but for one atom."""
    owners = list(layout.owners())
    target = rng.randrange(layout.partitions)
    for group in rng.choice(layout.atoms):
        owners[group] = target
    return owners


def check_epochs(program, folder, rng, epochs, rows, durability=Level.EXACTLY_ONCE):
    compiled = compile_once(program)
    sequential = Sequential(compiled, KEY_GROUPS, INSTANCES)
    simulated = Simulated(compiled, folder, 2, KEY_GROUPS, INSTANCES, durability=durability)
    wanted_replies, wanted_refusals, said, refused = {}, {}, {}, {}
    number = 0
    for epoch in range(epochs):
        what = rng.randrange(4)
        if what == 0:
            partitions = rng.randrange(1, KEY_GROUPS + 1)
            owners = random_owners(rng, simulated.layout, partitions)
            before = simulated.layout.owners()
            spread = rng.choice([None, [rng.randrange(partitions) for _ in range(KEY_GROUPS)]])
            moved = simulated.assign(owners, partitions, spread)
            assert moved == sum(a != b for a, b in zip(owners, before, strict=True))
        elif what == 1:
            simulated.assign(some_moved(rng, simulated.layout))
        elif what == 2:
            # A start of its own goes on with the owners that there were.
            said |= simulated.replies()
            refused |= simulated.refusals()
            before = simulated.layout
            simulated = Simulated(compiled, folder, durability=durability)
            assert epoch == 0 or before.assigned is None or simulated.layout.owners() == committed_owners(folder)
        fed = [row_of(program, rng, number + at) for at in range(rows)]
        for at, (reply, (name, _)) in enumerate(zip(sequential.epoch(fed), fed, strict=True), start=number):
            if isinstance(reply, Aborted):
                wanted_refusals[at] = reply.reason
            elif compiled.entries[name].point.replies:
                wanted_replies[at] = shown(reply, compiled.entries[name].point.returns)
        simulated.epoch(fed)
        number += rows
        assert committed_state(folder / "checkpoint") == sequential.state(), epoch
        assert committed_owners(folder) in (None, simulated.layout.owners())
    refused |= simulated.refusals()
    assert refused == wanted_refusals
    assert {at: reply for at, reply in (said | simulated.replies()).items() if at not in refused} == wanted_replies


def committed_owners(folder):
    storage = FileStorage(folder / "checkpoint")
    head, _ = last_manifest(storage, read_genesis(storage)[1])
    return None if head.ownership is None else head.ownership.owners(KEY_GROUPS)


@pytest.mark.parametrize("restore", ["at once", "by and by"])
@pytest.mark.parametrize("program", sized([Store, Fraud, Recommender, Kinds, Transfers], [Store, Kinds]))
def test_owners_may_change_before_any_epoch(program, restore, tmp_path, monkeypatch):
    if restore == "by and by":
        monkeypatch.setattr(openstate, "AT_ONCE_BYTES_MAX", 0)
    check_epochs(program, tmp_path, random.Random(fresh_seed()), epochs=8, rows=12)


@pytest.mark.parametrize("turns", slow_or_wide([2], [8]))
@pytest.mark.parametrize("program", [Store, Fraud, Recommender, Kinds, Transfers])
def test_owners_may_change_before_any_of_many_epochs(program, turns, tmp_path, monkeypatch):
    seed = fresh_seed()
    for turn in range(turns):
        rng = random.Random(seed + turn)
        monkeypatch.setattr(openstate, "AT_ONCE_BYTES_MAX", rng.choice([0, 500, 1 << 25]))
        check_epochs(program, tmp_path / str(turn), rng, epochs=20, rows=10)


@pytest.mark.parametrize("program", [Store, Recommender])
def test_epochs_on_assigned_owners_are_computed_again_from_their_input(program, tmp_path):
    rng = random.Random(fresh_seed())
    compiled = compile_once(program)
    simulated = Simulated(compiled, tmp_path, 3, KEY_GROUPS, INSTANCES, durability=Level.REPLAY)
    for number in range(2):
        simulated.assign(random_owners(rng, simulated.layout, 3))
        simulated.epoch([row_of(program, rng, 20 * number + at) for at in range(20)])
    wanted = read_state(simulated.storage)
    for path in (tmp_path / "near").rglob("*"):
        if path.is_file():
            path.unlink()
    again = Simulated(compiled, tmp_path, durability=Level.REPLAY)
    assert again.replayed == 2
    assert read_state(again.storage) == wanted


POINTS = (
    "store.advanced",
    "task.started",
    "epoch.computed",
    "manifest.linked",
    "manifest.committed",
    "publish.started",
)
EPOCH_ROWS = 10
OWNERS = (
    (0, 0, 0, 0, 0, 1, 1, 1, 1),
    (0, 0, 1, 0, 0, 1, 1, 1, 1),
    (2, 0, 1, 0, 3, 1, 1, 3, 1),
    (2, 0, 1, 0, 0, 1, 1, 2, 1),
    (0, 0, 0, 0, 0, 0, 0, 0, 0),
    (4, 4, 4, 0, 0, 1, 1, 2, 2),
)
ALL = EPOCH_ROWS * len(OWNERS)
COMPILED = compile_once(Store)


def go_on(folder):
    """Feed the rows that are not committed yet, each epoch with its own owners."""
    rng = random.Random(3)
    rows = [row_of(Store, rng, number) for number in range(ALL)]
    sinks = {name: parquet(folder / name) for name in COMPILED.entries}
    simulated = Simulated(COMPILED, folder, 2, KEY_GROUPS, sinks=sinks)
    while simulated.fed < ALL:
        owners = OWNERS[simulated.fed // EPOCH_ROWS]
        simulated.assign(owners, max(owners) + 1)
        simulated.epoch(rows[simulated.fed : simulated.fed + EPOCH_ROWS])


def told(folder):
    paths = [path for name in COMPILED.entries for path in sorted((folder / name).glob("*.parquet"))]
    rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
    assert len({row["row"] for row in rows}) == len(rows), "a reply twice"
    return {row["row"]: row["reply"] for row in rows}


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    assert in_child(lambda: go_on(folder)) == 0
    return committed_state(folder / "checkpoint"), told(folder)


@pytest.mark.slow
@pytest.mark.parametrize("occurrence", [1, 2, 3, 5, pytest.param(8, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("point", POINTS)
def test_a_run_killed_while_owners_change_is_followed_by_one_that_finishes(tmp_path, wanted, point, occurrence):
    assert in_child(lambda: go_on(tmp_path), f"{point}:{occurrence}") in (-signal.SIGKILL, 0)
    assert in_child(lambda: go_on(tmp_path)) == 0
    assert (committed_state(tmp_path / "checkpoint"), told(tmp_path)) == wanted


@pytest.mark.slow
def test_many_kills_in_a_row_while_owners_change_lose_nothing(tmp_path, wanted):
    rng = random.Random(fresh_seed())
    killed = 0
    for _ in range(10):
        crash_at = f"{rng.choice(POINTS)}:{rng.randrange(1, 6)}"
        say(crash_at)
        killed += in_child(lambda: go_on(tmp_path), crash_at) == -signal.SIGKILL
    assert killed
    assert in_child(lambda: go_on(tmp_path)) == 0
    assert (committed_state(tmp_path / "checkpoint"), told(tmp_path)) == wanted
