"""Damage at random in every kind of frozen checkpoint: a coded error, or exactly a state that was committed (R12)."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from millpond.checkpoint.records.manifest import decode_manifest
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots.compaction import last_merged
from millpond.engine.durability.pending import read_pending
from millpond.errors import EpochError, StorageError
from millpond.storage.backends.log.log import LogStorage
from millpond.storage.backends.memory import MemoryStorage
from tests.crash.mutations import spoilt
from tests.crash.pending import pending_plan
from tests.programs.keyed import fresh_seed

FROZEN = Path(__file__).parents[1] / "frozen"
NEWEST = max(FROZEN.glob("format-?")).name
CASES = sorted(path.relative_to(FROZEN).as_posix() for path in FROZEN.glob("format-?/*") if path.name != "log")
DAMAGED = {"MP301", "MP302", "MP303", "MP304", "MP310", "MP414", "MP457"}
"""What a file that is not what was written is told as; which it is depends on where the damage is."""


def files_of(case):
    folder = FROZEN / case / "checkpoint"
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def states_of(case):
    told = json.loads((FROZEN / case / "expected.json").read_text(encoding="utf-8"))["states"]
    return {
        int(epoch): {bytes.fromhex(key): bytes.fromhex(value) for key, value in state.items()}
        for epoch, state in told.items()
    }


def harmed(rng, files):
    """One file spoilt, emptied, filled with zeros, taken away, or two of them exchanged; the name of one of them."""
    bad = dict(files)
    name, other = rng.choice(list(files)), rng.choice(list(files))
    match rng.randrange(7):
        case 0:
            bad[name] = b""
        case 1:
            bad[name] = bytes(len(files[name]))
        case 2:
            del bad[name]
        case 3:
            bad[name], bad[other] = bad[other], bad[name]
        case _:
            bad[name] = spoilt(rng, files[name])
    return bad


def recoveries(case, count):
    files, states = files_of(case), states_of(case)
    newest = max(states)
    seed = fresh_seed()
    rng = random.Random(seed)
    codes = set()
    for number in range(count):
        bad = harmed(rng, files)
        storage = MemoryStorage()
        for name, data in bad.items():
            storage.put(name, data)
        try:
            state = read_state(storage)
        except (StorageError, EpochError) as error:
            codes.add(error.code)
            continue
        # Nothing tells that a newest manifest was ever there; everything else is missed.
        wanted = states[newest] if f"manifests/{newest:010}" in bad else states[newest - 1]
        assert state == wanted, (seed, number)
    return codes


@pytest.mark.parametrize("case", CASES)
def test_damage_is_told_or_does_not_matter(case):
    assert recoveries(case, 60) <= DAMAGED | {"MP413", "MP412"}


@pytest.mark.campaign
@pytest.mark.parametrize("case", CASES)
def test_damage_is_told_or_does_not_matter_in_many_cases(case):
    assert recoveries(case, 50_000) <= DAMAGED | {"MP413", "MP412"}


def every_fault(good):
    """Each byte with one of its bits flipped, and each length."""
    yield from (good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :] for at in range(len(good)))
    yield from (good[:length] for length in range(len(good)))


def replaced(case, name, data):
    storage = MemoryStorage()
    for other, held in files_of(case).items():
        storage.put(other, data if other == name else held)
    return storage


def test_every_fault_in_messages_that_were_left_is_told():
    newest = max(name for name in files_of(f"{NEWEST}/pending") if name.startswith("manifests/"))
    ref = decode_manifest(files_of(f"{NEWEST}/pending")[newest], newest).pending[0]
    for bad in every_fault(files_of(f"{NEWEST}/pending")[ref.name]):
        storage = MemoryStorage()
        storage.put(ref.name, bad)
        with pytest.raises(StorageError) as caught:
            read_pending(storage, pending_plan(), [ref])
        assert caught.value.code == "MP310"
        assert ref.name in caught.value.summary


def test_a_finished_snapshot_with_any_fault_is_as_good_as_none():
    """What it was made of is still there."""
    name = max(name for name in files_of(f"{NEWEST}/snapshot") if name.startswith("merged/"))
    assert last_merged(replaced(f"{NEWEST}/snapshot", name, files_of(f"{NEWEST}/snapshot")[name])) is not None
    for bad in every_fault(files_of(f"{NEWEST}/snapshot")[name]):
        storage = MemoryStorage()
        storage.put(name, bad)
        assert last_merged(storage) is None


def log_recoveries(folder, count):
    """Several faults at once in a log and its index: what is read is what some epoch was, never a mix."""
    files, states = files_of(f"{NEWEST}/log"), states_of(f"{NEWEST}/log")
    seed = fresh_seed()
    rng = random.Random(seed)
    for number in range(count):
        place = folder / str(number)
        place.mkdir()
        for name, data in files.items():
            damaged = name != "lock" and rng.random() < 0.4
            (place / name).write_bytes(spoilt(rng, data) if damaged else data)
        try:
            state = read_state(LogStorage(place))
        except (StorageError, EpochError):
            continue
        assert state in [{}, *states.values()], (seed, number)
        shutil.rmtree(place)


def test_a_log_with_many_faults_is_refused_or_read_as_some_epoch(tmp_path):
    log_recoveries(tmp_path, 150)


@pytest.mark.campaign
def test_many_logs_with_many_faults_are_refused_or_read_as_some_epoch(tmp_path):
    log_recoveries(tmp_path, 30_000)
