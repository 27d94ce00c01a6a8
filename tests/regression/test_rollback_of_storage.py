"""A checkpoint whose newest commits are gone is refused by a code: no job goes on from an older epoch in silence."""

from __future__ import annotations

import json
import random
import shutil
import zlib

import pytest
from typer.testing import CliRunner

from millpond.checkpoint.read.verify import verify
from millpond.checkpoint.records.manifest import manifest_name
from millpond.checkpoint.recovery import last_manifest, read_genesis, read_state
from millpond.checkpoint.retention.retention import Keep
from millpond.cli import app
from millpond.clock import ManualClock
from millpond.errors import MillpondError
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.log.log import LogStorage
from millpond.storage.backends.rocks import RocksStorage
from millpond.storage.open import accept_rollback, open_storage
from tests.programs.ledger import BATCHES, open_ledger, run_batch, state_after
from tests.unit.checkpoint.keeping import Driver

REFUSED = {"MP301", "MP304", "MP334", "MP361", "MP362", "MP414", "MP457"}
EPOCHS = len(BATCHES)


def written(root, make, epochs=EPOCHS, copies=None):
    """A ledger of some epochs; after each one, a copy of its folder, as a backup has it."""
    storage = make(root)
    for batch in range(epochs):
        run_batch(open_ledger(storage), storage, batch, lambda _manifest: None)
        if copies is not None:
            shutil.copytree(root, copies / str(batch + 1))
    if hasattr(storage, "close"):
        storage.close()


def believed(address):
    """The state that a start would go on from; the code of the error if it is refused."""
    try:
        storage = open_storage(address)
        open_ledger(storage)
        return read_state(storage)
    except MillpondError as error:
        return error.code


def log_file(root):
    return max(root.glob("log-*"))


def cut(path, size):
    with path.open("r+b") as file:
        file.truncate(size)


def zero(path, start):
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(start)
        file.write(bytes(size - start))


def log_ends(root):
    """Where the bytes of the last file end, without the room that is kept ahead."""
    return len(log_file(root).read_bytes().rstrip(b"\0"))


def damages_of_a_log(root, copies):
    """Every way to make the log shorter: by place, and by older copies of its file."""
    chance = random.Random(19)
    end = log_ends(root)
    places = sorted({0, 1, 15, 16, 17, end - 1, end - 9, end - 40, *(chance.randrange(end) for _ in range(60))})
    for place in places:
        yield f"cut at {place}", lambda folder, place=place: cut(log_file(folder), place)
        yield f"zeros from {place}", lambda folder, place=place: zero(log_file(folder), place)
    yield "emptied", lambda folder: log_file(folder).write_bytes(b"")
    yield "deleted", lambda folder: log_file(folder).unlink()
    yield "only the witness left", lambda folder: [p.unlink() for p in folder.iterdir() if p.name != "witness"]
    for epoch in range(1, EPOCHS):
        older = copies / str(epoch)
        yield f"as after epoch {epoch}", lambda folder, o=older: shutil.copy(log_file(o), log_file(folder))
    yield "without its witness", lambda folder: (folder / "witness").unlink()
    yield "with an empty witness", lambda folder: (folder / "witness").write_bytes(b"")


def test_a_log_that_was_made_shorter_in_any_way_is_refused_and_an_accepted_one_goes_on(tmp_path):
    written(tmp_path / "log", LogStorage, copies=tmp_path / "copies")
    whole = state_after(len(BATCHES))
    assert believed(f"log://{tmp_path / 'log'}") == whole
    tried = 0
    for number, (what, damage) in enumerate(damages_of_a_log(tmp_path / "log", tmp_path / "copies")):
        place = tmp_path / f"damaged-{number}"
        shutil.copytree(tmp_path / "log", place)
        if number % 2:
            for index in place.glob("index-*"):
                index.unlink()
        damage(place)
        found = believed(f"log://{place}")
        # Only the mark of the last record lies in the last bytes, and nothing is lost with it.
        refused = isinstance(found, str)
        assert found in REFUSED if refused else found == whole, what
        tried += refused
        if refused and found in {"MP361", "MP362"}:
            accept_rollback(f"log://{place}")
            assert believed(f"log://{place}") in [{}, *map(state_after, range(len(BATCHES) + 1))], what
        shutil.rmtree(place)
    assert tried > 100


def test_a_log_is_compared_with_its_witness_also_in_a_process_that_knows_it(tmp_path):
    address = f"log://{tmp_path / 'log'}"
    written(tmp_path / "log", LogStorage, copies=tmp_path / "copies")
    assert believed(address) == state_after(len(BATCHES))
    shutil.copy(log_file(tmp_path / "copies" / "1"), log_file(tmp_path / "log"))
    assert believed(address) == "MP334"
    for index in (tmp_path / "log").glob("index-*"):
        index.unlink()
    assert believed(address) == "MP361"


def test_a_whole_log_from_before_witnesses_is_read_and_has_one_after_the_next_commit(tmp_path):
    storage = LogStorage(tmp_path / "log")
    run_batch(open_ledger(storage), storage, 0, lambda _manifest: None)
    (tmp_path / "log" / "witness").unlink()
    data = bytearray(log_file(tmp_path / "log").read_bytes())
    data[6:8] = bytes(2)
    data[12:16] = zlib.crc32(bytes(data[:12])).to_bytes(4, "big")
    log_file(tmp_path / "log").write_bytes(bytes(data))
    again = LogStorage(tmp_path / "log")
    run_batch(open_ledger(again), again, 1, lambda _manifest: None)
    assert (tmp_path / "log" / "witness").exists()
    end = log_ends(tmp_path / "log")
    cut(log_file(tmp_path / "log"), end - 400)
    assert believed(f"log://{tmp_path / 'log'}") == "MP361"


@pytest.mark.parametrize("lost", ["all manifests", "the newest", "genesis and manifests", "all but deltas"])
@pytest.mark.parametrize("epochs", [1, 2, 3])
@pytest.mark.parametrize("scheme", ["", "perkey://", "log://", "memory"])
def test_a_young_checkpoint_that_lost_manifests_is_never_taken_for_a_new_one(tmp_path, scheme, epochs, lost):
    from millpond.storage.backends.memory import MemoryStorage

    storage = MemoryStorage() if scheme == "memory" else open_storage(f"{scheme}{tmp_path / 'c'}")
    for batch in range(epochs):
        run_batch(open_ledger(storage), storage, batch, lambda _manifest: None)
    for name in storage.list(""):
        gone = {
            "all manifests": name.startswith("manifests/"),
            "the newest": name == manifest_name(epochs),
            "genesis and manifests": name.startswith(("manifests/", "genesis")),
            "all but deltas": not name.startswith("deltas/"),
        }
        if gone[lost]:
            storage.delete(name)
    before = storage.list("")
    with pytest.raises(MillpondError) as caught:
        open_ledger(storage)
    assert caught.value.code in {"MP414", "MP457"}
    assert storage.list("") == before, "nothing is written to it"


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_whole_folder_of_manifests_that_was_removed_is_missed(tmp_path, epochs):
    written(tmp_path / "c", FileStorage, epochs)
    shutil.rmtree(tmp_path / "c" / "manifests")
    assert believed(str(tmp_path / "c")) == "MP457"


def test_a_newest_manifest_of_another_timeline_is_refused(tmp_path):
    written(tmp_path / "c", FileStorage, 2)
    storage = FileStorage(tmp_path / "c")
    mine = storage.get(manifest_name(2))
    genesis, digest = read_genesis(storage)
    head = storage.list("heads")[-1]
    storage.delete(head)
    storage.put(head[:-1] + ("0" if head[-1] != "0" else "1"), b"")
    with pytest.raises(MillpondError, match="MP413"):
        last_manifest(storage, digest)
    assert storage.get(manifest_name(2)) == mine
    assert genesis.key_groups


def test_a_database_that_was_cut_or_replaced_by_an_older_one_is_refused(tmp_path):
    pytest.importorskip("rocksdict")
    make = lambda root: RocksStorage(root, one_owner=True)  # noqa: E731
    written(tmp_path / "db", make, copies=None)
    older = RocksStorage(tmp_path / "older")
    run_batch(open_ledger(older), older, 0, lambda _manifest: None)
    address = f"rocksdb://{tmp_path / 'db'}"
    assert believed(address) == state_after(len(BATCHES))
    shutil.rmtree(tmp_path / "db" / "db")
    shutil.copytree(tmp_path / "older" / "db", tmp_path / "db" / "db")
    assert believed(address) == "MP361"
    shutil.rmtree(tmp_path / "db" / "db")
    assert believed(address) == "MP361"
    accept_rollback(address)
    assert believed(address) == {}


CHANGES = ({"a": "x", "b": "y"}, {"a": None, "c": "z"}, {"b": "w", "d": "v"})


def kept(root, make):
    """A checkpoint of three epochs, with a copy of its folder after each, and the state after each."""
    storage = make(root)
    driver, states = Driver(storage, Keep.all(), ManualClock()), [{}]
    for epoch, changes in enumerate(CHANGES, 1):
        driver.epoch(changes)
        states.append(read_state(storage))
        shutil.copytree(root, root.with_name(f"copy-{epoch}"))
    return states


def test_verify_tells_a_note_of_a_head_that_is_damaged_and_a_start_goes_on(tmp_path):
    states = kept(tmp_path / "c", FileStorage)
    storage = FileStorage(tmp_path / "c")
    assert verify(storage, everything=True).problems == []
    note = storage.list("heads")[-1]
    data = bytearray((tmp_path / "c" / note).read_bytes())
    data[-1] ^= 1
    (tmp_path / "c" / note).write_bytes(bytes(data))
    problems = [(problem.file, problem.error.code) for problem in verify(storage, everything=True).problems]
    assert problems == [(note, "MP301")]
    assert Driver(storage, Keep.all(), ManualClock()).checkpoint.epoch == 3
    assert read_state(storage) == states[3]


@pytest.mark.parametrize("scheme", ["", "log://"])
def test_a_rollback_that_is_accepted_by_the_command_goes_on_from_what_is_there(tmp_path, scheme):
    states = kept(tmp_path / "c", LogStorage if scheme else FileStorage)
    address = f"{scheme}{tmp_path / 'c'}"
    if scheme:
        shutil.copy(log_file(tmp_path / "copy-2"), log_file(tmp_path / "c"))
    else:
        (tmp_path / "c" / manifest_name(3)).unlink()
    assert CliRunner().invoke(app, ["state", "repair", address]).exit_code == 1
    accepted = CliRunner().invoke(app, ["state", "repair", address, "--accept-rollback", "--json"])
    assert accepted.exit_code == 0, accepted.output
    assert json.loads(accepted.stdout)["newest"] == 2
    storage = open_storage(address)
    assert read_state(storage) == states[2]
    Driver(storage, Keep.all(), ManualClock()).epoch(CHANGES[2])
    assert read_state(storage) == states[3]
