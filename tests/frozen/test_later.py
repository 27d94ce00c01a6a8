"""Checkpoints with what was added since version 0.1 are read as they were meant, and gone on with (R17).

`format-1-later` and `format-2-later` were written by `make_later.py`, and are never written again: lazy and replayed
state, times, elements that changed, a fork with its base and a savepoint, several roots, and the notes that deleting
leaves.
"""

from __future__ import annotations

import shutil

import pytest

from millpond.checkpoint.read.history import History, kept_epochs
from millpond.checkpoint.read.verify import verify
from millpond.checkpoint.records.manifest import decode_manifest
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.retention.collection import collect_all
from millpond.checkpoint.retention.retention import Keep
from millpond.checkpoint.retention.retired import is_retired
from millpond.checkpoint.retention.savepoints import find_savepoint, savepoints
from millpond.engine.plan import Level
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.errors import MillpondError, StorageError
from millpond.program.semantics.epoch_time import epoch_time
from millpond.state.local.storekey import element_of
from millpond.storage.backends.files import FileStorage
from millpond.storage.frame import FrameKind, unseal
from tests.crash.stories.driven import Drawn, models
from tests.frozen.cases import LATER, LATERS, Frozen
from tests.frozen.make_later import KEY_GROUPS, compiled, moment
from tests.frozen.test_frozen import files_below, newer_frame
from tests.unit.checkpoint.keeping import check_kept

CASES = sorted(path.name for path in LATER.iterdir())


@pytest.fixture
def frozen(request, tmp_path):
    later, name = request.param
    return Frozen(name, tmp_path, later)


def of(*names):
    cases = [(later, name) for later in LATERS for name in names]
    return pytest.mark.parametrize("frozen", cases, indirect=True, ids=lambda case: f"{case[0].name}-{case[1]}")


def reference(frozen, instances=8):
    """What the rows come to, and the first of them once more."""
    sequential = Sequential(compiled(frozen.told["program"]), KEY_GROUPS, instances)
    for rows in [*frozen.fed, frozen.fed[0]]:
        sequential.epoch(rows)
    return sequential.state()


def test_what_was_added_is_frozen():
    assert CASES == ["evolved", "forked", "lazy", "replay", "spread", "tidied", "timed"]
    for later in LATERS:
        assert sorted(path.name for path in later.iterdir()) == CASES
        folders = {path.parent.name for path in later.rglob("*") if path.is_file()}
        assert {"saves", "inputs", "savepoints", "condemned", "swept", "retired", "spread-marked"} <= folders


@of(*(name for name in CASES if name != "replay"))
def test_every_epoch_is_read_as_it_was_written(frozen):
    before = files_below(frozen.folder)
    storage = frozen.storage
    for epoch, state in frozen.states.items():
        name = f"manifests/{epoch:010}"
        assert read_state(storage, decode_manifest(storage.get(name), name)) == state, epoch
    assert read_state(storage) == frozen.states[max(frozen.states)]
    assert files_below(frozen.folder) == before, "reading changes nothing"


@of(*CASES)
def test_nothing_is_wrong_with_it(frozen):
    findings = verify(frozen.kept, everything=True)
    assert findings.problems == []
    assert findings.epochs == len(frozen.states)


@of("forked", "spread")
def test_its_program_goes_on_with_it(frozen):
    frozen.run().epoch(frozen.fed[0])
    assert read_state(frozen.kept) == reference(frozen)


@of("lazy")
def test_lazy_state_that_is_near_is_kept(frozen):
    run = frozen.run()
    assert run.loss is None
    run.epoch(frozen.fed[0])
    assert read_state(frozen.storage) == reference(frozen)


def _counts(state, element):
    decode = compiled("Mixed").elements["hits"].type.values.decode
    return {key: decode(value) for key, value in state.items() if element_of(key) == element}


@of("lazy")
def test_lazy_state_that_is_lost_is_told_and_is_what_was_saved(frozen):
    true = read_state(frozen.storage)
    shutil.rmtree(frozen.folder / "near")
    run = frozen.run()
    state = read_state(run.storage)
    assert {key: value for key, value in state.items() if key[0] == 0} == {k: v for k, v in true.items() if k[0] == 0}
    codec = compiled("Mixed").elements["hits"].type.values
    lost = [
        codec.decode(value) - codec.decode(state.get(key, codec.encode(0))) for key, value in true.items() if key[0]
    ]
    assert max(lost) == 1, "every second change of a key was saved"
    assert run.loss is not None
    assert sum(lost) <= run.loss.updates


@of("replay")
def test_rows_are_computed_again(frozen):
    run = frozen.run(durability=Level.REPLAY)
    assert run.replayed == len(frozen.fed)
    storage = run.storage
    for epoch, state in frozen.states.items():
        name = f"manifests/{epoch:010}"
        assert read_state(storage, decode_manifest(storage.get(name), name)) == state, epoch
    run.epoch(frozen.fed[0])
    assert read_state(storage) == reference(frozen, 3)


@of("timed")
def test_times_go_on_where_they_were(frozen, tmp_path):
    fresh = tmp_path / "fresh"
    for number, rows in enumerate(frozen.fed):
        with epoch_time(moment(number)):
            Simulated(compiled("Reminders"), fresh, 1 + number % 3, KEY_GROUPS, keep=Keep.all()).epoch(rows)
    for folder in (frozen.folder, fresh):
        with epoch_time(moment(len(frozen.fed))):
            Simulated(compiled("Reminders"), folder, 2, keep=Keep.all()).epoch(frozen.fed[0])
        with epoch_time(moment(20)):
            Simulated(compiled("Reminders"), folder, 2, keep=Keep.all()).tick()
    heads = [History(FileStorage(folder / "checkpoint")).point() for folder in (frozen.folder, fresh)]
    assert read_state(frozen.kept) == read_state(FileStorage(fresh / "checkpoint"))
    assert heads[0].manifest.counters == heads[1].manifest.counters
    assert heads[0].manifest.times == heads[1].manifest.times


@of("evolved")
def test_elements_that_changed_are_as_they_became(frozen, tmp_path):
    kept = [None if element is None else element.name for element in History(frozen.kept).point().elements]
    assert kept == ["clients", "counts", "tags", "notes", "prices", None, None, "visits"]
    run = frozen.run()
    run.epoch([("visit", ("word",)), ("order", ("word", 2.0))])
    clients = compiled("ShopLater").elements["clients"].type
    orders = sum(name == "order" and given[0] == "word" for rows in frozen.fed for name, given in rows)
    before = [[(name, tuple(given)) for name, given in rows] for rows in frozen.told["before"]]
    for name, given in [row for rows in before for row in rows]:
        if given[0] == "word":
            orders = orders + 1 if name == "order" else 0 if name == "forget" else orders
    found = [clients.values.decode(value) for key, value in read_state(frozen.kept).items() if key[0] == 0]
    assert [client.orders for client in found if client.name == "word"] == [orders + 1]


@of("forked")
def test_a_base_is_read_and_holds_what_its_fork_needs(frozen):
    base = FileStorage(frozen.folder / "base")
    assert {int(epoch) for epoch in frozen.told["base_states"]} == set(kept_epochs(base)[0])
    assert find_savepoint(base, "before").epoch == 2
    collect_all(base, Keep(last=1, grace="0 s"), clock=_Late())
    assert read_state(frozen.kept) == frozen.states[max(frozen.states)]
    assert [bool(held.fork) for held in savepoints(base)] == [False, True]


class _Late:
    def now_ms(self):
        return 2**44

    def ticks(self):
        return 0.0


@of("tidied")
def test_deleting_goes_on_with_lists_and_marks(frozen):
    storage = frozen.kept
    condemned = storage.list("condemned")
    assert len(condemned) == 2
    assert is_retired(storage, 9)
    assert not is_retired(storage, 16)
    Drawn(storage, Keep(last=2, grace="3 s"), 3, lambda manifest: None).go(40)
    assert not set(condemned) & set(storage.list("condemned"))
    assert is_retired(storage, 16)
    check_kept(storage, models(40))


def gone_on(frozen):
    if frozen.told["program"] is None:
        Drawn(frozen.kept, Keep(last=2, grace="3 s"), 3, lambda manifest: None).go(24)
    else:
        replays = frozen.told["program"] == "Totals"
        frozen.run(durability=Level.REPLAY if replays else Level.EXACTLY_ONCE)


@pytest.mark.parametrize(
    ("case", "folder", "kind", "code"),
    [
        # A manifest has the hash of a save, which is looked at first.
        ("lazy", "saves", FrameKind.SAVED, "MP310"),
        ("replay", "inputs", FrameKind.INPUT, "MP302"),
        ("tidied", "condemned", FrameKind.MERGED, "MP302"),
        ("forked", "base", FrameKind.MERGED, "MP302"),
    ],
)
def test_a_newer_frame_is_refused_and_left_alone(case, folder, kind, code, tmp_path):
    frozen = Frozen(case, tmp_path)
    place = frozen.folder / "checkpoint" / folder
    for path in place.iterdir() if place.is_dir() else [place]:
        path.chmod(0o600)
        path.write_bytes(newer_frame(path.read_bytes()))
        with pytest.raises(StorageError) as caught:
            unseal(kind, path.read_bytes(), path.name)
        assert caught.value.code == "MP302"
    before = files_below(place) if place.is_dir() else place.read_bytes()
    shutil.rmtree(frozen.folder / "near", ignore_errors=True)
    with pytest.raises(MillpondError) as caught:
        gone_on(frozen)
    assert caught.value.code == code
    assert (files_below(place) if place.is_dir() else place.read_bytes()) == before
