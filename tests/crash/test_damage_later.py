"""Damage to logged rows, saves, notes and the file of a base: told by name, or without a wrong state (R12)."""

from __future__ import annotations

import random
import shutil

import pytest

from millpond.checkpoint.read.history import kept_epochs
from millpond.checkpoint.read.verify import verify
from millpond.checkpoint.records.manifest import EpochInput, decode_manifest
from millpond.checkpoint.records.notes import decode_note
from millpond.checkpoint.records.saves import read_save, saves_of
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.retention.collection import collect_all
from millpond.checkpoint.retention.deletionlist import read_lists
from millpond.checkpoint.retention.retention import Keep
from millpond.checkpoint.retention.retired import Retired
from millpond.checkpoint.retention.savepoints import savepoints
from millpond.clock import ManualClock
from millpond.engine.durability.inputlog import read_input
from millpond.engine.plan import Level
from millpond.errors import MillpondError, StorageError
from millpond.ids import ManifestHash
from millpond.state.local.storekey import element_of
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.composed.layered import BASE_NAME, read_base
from millpond.storage.door import through
from millpond.storage.open import open_storage
from tests.crash.mutations import spoilt
from tests.crash.stories.driven import Drawn, models
from tests.crash.stories.place import UnsyncedDoor
from tests.frozen.cases import LATER, Frozen
from tests.programs.keyed import fresh_seed, say
from tests.unit.checkpoint.keeping import check_kept

BITS = [1, pytest.param(8, marks=pytest.mark.slow)]
"""How many bits of each byte are flipped, one at a time."""


def every_fault(good, bits):
    """Each byte with some of its bits flipped, and each length."""
    for at in range(len(good)):
        for bit in range(bits):
            yield good[:at] + bytes([good[at] ^ 1 << (at + bit) % 8]) + good[at + 1 :]
    yield from (good[:length] for length in range(len(good)))


def file_of(case, folder):
    """The name and the bytes of one file of a frozen checkpoint."""
    place = LATER / case / folder
    path = max(place.iterdir(), key=lambda path: path.stat().st_size) if place.is_dir() else place
    return path.relative_to(LATER / case / folder.split("/")[0]).as_posix(), path.read_bytes()


def stored(name, data):
    storage = MemoryStorage()
    storage.put(name, data)
    return storage


def newest_of(case):
    manifests = LATER / case / "checkpoint" / "manifests"
    name = max(path.name for path in manifests.iterdir())
    return decode_manifest((manifests / name).read_bytes(), name)


def as_input(storage, name):
    told = EpochInput(sources=(), now_us=0, partitions=1, instances=1, steps_max=1, rows=((0, name),))
    return read_input(storage, told)


def as_save(storage, name):
    return read_save(storage, next(ref for ref in newest_of("lazy").saves if ref.file.name == name))


KINDS = {
    "inputs": ("replay", "checkpoint/inputs", as_input),
    "saves": ("lazy", "checkpoint/saves", as_save),
    "savepoints": ("forked", "base/savepoints", lambda storage, _: savepoints(storage)),
    "retired": ("tidied", "checkpoint/retired", lambda storage, name: decode_note(Retired, storage.get(name), name)),
    "base": ("forked", "checkpoint/base", lambda storage, _: read_base(storage)),
}


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_fault_is_a_coded_error_that_names_the_file(kind, bits):
    case, folder, read = KINDS[kind]
    name, good = file_of(case, folder)
    if kind == "saves":
        name = newest_of("lazy").saves[0].file.name
        good = (LATER / case / "checkpoint" / name).read_bytes()
    assert read(stored(name, good), name) is not None
    for bad in every_fault(good, bits):
        with pytest.raises(StorageError) as caught:
            read(stored(name, bad), name)
        assert caught.value.code in {"MP301", "MP310"}
        assert name in caught.value.summary


@pytest.mark.parametrize("bits", BITS)
def test_a_damaged_list_condemns_nothing(bits):
    name, good = file_of("tidied", "checkpoint/condemned")
    assert read_lists(stored(name, good))[name].names
    for bad in every_fault(good, bits):
        assert read_lists(stored(name, bad))[name].names == ()


def test_a_save_that_nobody_named_and_that_is_damaged_is_passed_over():
    head = newest_of("lazy")
    name, good = file_of("lazy", "checkpoint/saves")
    bare = head.__class__(**{field: getattr(head, field) for field in head.__struct_fields__} | {"saves": ()})
    for bad in every_fault(good, 1):
        assert list(saves_of(stored(name, bad), bare, ManifestHash(""), 0)) == []


@pytest.mark.parametrize(("case", "folder"), [("replay", "inputs"), ("lazy", "saves"), ("forked", "savepoints")])
def test_verify_names_every_file_that_is_damaged_and_needed(case, folder, tmp_path):
    frozen = Frozen(case, tmp_path)
    root = frozen.folder / ("base" if case == "forked" else "checkpoint")
    storage = open_storage(str(root))
    named = {ref.file.name for ref in newest_of("lazy").saves}
    names = [name for name in storage.list(folder) if folder != "saves" or name in named]
    assert names
    for name in names:
        path = root / name
        good = path.read_bytes()
        path.chmod(0o600)
        path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        found = {problem.file for problem in verify(storage, everything=True).problems}
        assert name in found, name
        path.write_bytes(good)


def harm(rng, folder):
    """One file spoilt, emptied, filled with zeros, taken away, or two of them exchanged."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "expected.json")
    path, other = rng.choice(paths), rng.choice(paths)
    say(path.relative_to(folder))
    for each in (path, other):
        each.chmod(0o600)
    good = path.read_bytes()
    match rng.randrange(6):
        case 0:
            path.write_bytes(b"")
        case 1:
            path.write_bytes(bytes(len(good)))
        case 2:
            path.unlink()
        case 3:
            path.write_bytes(other.read_bytes())
            other.write_bytes(good)
        case _:
            path.write_bytes(spoilt(rng, good))
    return path


def is_newest_manifest(frozen, path):
    """Nothing tells that a newest manifest was ever there."""
    own = path.is_relative_to(frozen.folder / "checkpoint") and path.parent.name == "manifests"
    return own and int(path.name) == max(frozen.states)


def gone_on(frozen):
    """Start what the checkpoint is for, and return its state; None if that was looked at already."""
    match frozen.folder.name:
        case "replay":
            return read_state(frozen.run(durability=Level.REPLAY).storage)
        case "lazy":
            return read_state(frozen.run().storage)
        case "tidied":
            driver = Drawn(
                FileStorage(frozen.folder / "checkpoint"), Keep(last=2, grace="0 s"), 2, lambda manifest: None
            )
            newest = driver.checkpoint.epoch
            driver.go(newest + 6)
            check_kept(driver.storage, models(newest + 6))
            return None
        case _:
            return read_state(frozen.kept)


def alike(frozen, state, wanted):
    if frozen.folder.name != "lazy":
        return state is None or state == wanted
    # What is near may be lost, and is told then: each key is as it was at some time, or not there.
    exact = {key: value for key, value in state.items() if element_of(key) == 0}
    held = [each.get(key) for key in state if element_of(key) == 1 for each in frozen.states.values()]
    lazy = [value for key, value in state.items() if element_of(key) == 1]
    return exact == {k: v for k, v in wanted.items() if element_of(k) == 0} and set(lazy) <= set(held)


@pytest.mark.parametrize(
    "count", [5, pytest.param(20, marks=pytest.mark.slow), pytest.param(5_000, marks=pytest.mark.campaign)]
)
@pytest.mark.parametrize("case", ["evolved", "forked", "lazy", "replay", "spread", "tidied", "timed"])
def test_damage_is_told_or_does_not_matter(tmp_path, case, count):
    rng = random.Random(fresh_seed())
    for number in range(count):
        folder = tmp_path / str(number)
        with through(UnsyncedDoor()):
            frozen = Frozen(case, folder)
            path = harm(rng, frozen.folder)
            before = max(frozen.states) - is_newest_manifest(frozen, path) * (not path.exists())
            try:
                state = gone_on(frozen)
            except MillpondError as error:
                say(error.code)
            else:
                assert alike(frozen, state, frozen.states[before]), number
        shutil.rmtree(folder)


def test_a_damaged_savepoint_is_told_before_anything_is_deleted(tmp_path):
    frozen = Frozen("forked", tmp_path)
    base = FileStorage(frozen.folder / "base")
    path = frozen.folder / "base" / "savepoints" / "before"
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1])
    there = kept_epochs(base)[0]
    with pytest.raises(StorageError) as caught:
        collect_all(base, Keep(last=1, grace="0 s"), ManualClock(2**44))
    assert caught.value.code == "MP301"
    assert kept_epochs(base)[0] == there


def test_a_fork_without_the_file_of_its_base_misses_what_it_needs(tmp_path):
    frozen = Frozen("forked", tmp_path)
    (frozen.folder / "checkpoint" / BASE_NAME).unlink()
    with pytest.raises(StorageError) as caught:
        read_state(frozen.kept)
    assert caught.value.code == "MP304"
