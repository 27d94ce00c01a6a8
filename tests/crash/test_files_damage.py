"""Every flipped bit and every truncation of every kind of file, and files that are not where they belong (R12)."""

from __future__ import annotations

import pytest

from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.errors import MillpondError
from millpond.storage.backends.memory import MemoryStorage
from tests.programs.ledger import BATCHES, open_ledger, small_checkpoint, state_after

pytestmark = pytest.mark.slow

KINDS = ("genesis", "manifests", "deltas", "snapshots")
PICKLE = b"cposix\nsystem\n(S'touch pickle-was-loaded'\ntR."


@pytest.fixture
def checkpoint(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
    storage = small_checkpoint()
    return {name: storage.get(name) for name in storage.list("")}


def in_use(files, kind):
    """A file of this kind that recovery reads: the newest, which for content is any that the head names."""
    names = [name for name in files if name.split("/")[0] == kind]
    for name in reversed(names):
        if outcome({**files, name: b""}) != "fine":
            return name
    raise AssertionError(kind)


def outcome(files):
    """Open the checkpoint and read all of its state: the code of the error, or fine if all is as it was written."""
    storage = MemoryStorage()
    for name, data in files.items():
        storage.put(name, data)
    try:
        open_ledger(storage)
        state = read_state(storage)
    except MillpondError as error:
        return error.code
    assert state == state_after(len(BATCHES)), "a wrong state was returned"
    return "fine"


@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_bit_is_a_coded_error(checkpoint, kind):
    name = in_use(checkpoint, kind)
    good = checkpoint[name]
    codes = set()
    for position in range(len(good)):
        for bit in range(8):
            bad = bytearray(good)
            bad[position] ^= 1 << bit
            codes.add(outcome({**checkpoint, name: bytes(bad)}))
    assert codes <= {"MP301", "MP310"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncation_is_a_coded_error(checkpoint, kind):
    name = in_use(checkpoint, kind)
    good = checkpoint[name]
    assert {outcome({**checkpoint, name: good[:length]}) for length in range(len(good))} <= {"MP301", "MP310"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "damage",
    [
        lambda good: b"",
        lambda good: b"\0" * len(good),
        lambda good: good + b"\0",
        lambda good: good + good,
        lambda good: good[:8] + b"\xff" * 8 + good[16:],
        lambda good: PICKLE,
        lambda good: good[:20] + PICKLE + good[20:],
    ],
    ids=["empty", "zeros", "trailing", "doubled", "length", "pickle", "pickle-inside"],
)
def test_other_damage_is_a_coded_error_and_runs_nothing(checkpoint, kind, damage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = in_use(checkpoint, kind)
    assert outcome({**checkpoint, name: damage(checkpoint[name])}) in {"MP301", "MP310"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_file_is_a_coded_error(checkpoint, kind):
    name = in_use(checkpoint, kind)
    rest = {other: data for other, data in checkpoint.items() if other != name}
    assert outcome(rest) in {"MP304", "MP414", "MP457"}


def test_two_files_that_changed_places_are_a_coded_error(checkpoint):
    in_place = {kind: in_use(checkpoint, kind) for kind in KINDS}
    for one in KINDS:
        for other in KINDS:
            if one != other:
                swapped = {in_place[one]: checkpoint[in_place[other]], in_place[other]: checkpoint[in_place[one]]}
                assert outcome({**checkpoint, **swapped}) in {"MP303", "MP310"}
