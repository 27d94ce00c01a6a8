"""Checkpoints that earlier versions wrote are read as they were meant, and gone on with (R17).

`format-1` was written by version 0.1 and is never written again: `make.py` says how. A version that changes the format
adds a folder of its own beside it, as `format-2`. What was added to format 1 without a new number: `test_later.py`.
"""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from pathlib import Path

import msgspec
import pytest

from millpond.checkpoint.commit.checkpoint import Checkpoint
from millpond.checkpoint.forking import fork
from millpond.checkpoint.read.history import History
from millpond.checkpoint.read.verify import verify
from millpond.checkpoint.records.manifest import FORMAT, decode_manifest
from millpond.checkpoint.recovery import read_state
from millpond.compiler.compile import compile_program
from millpond.engine.schema import element_schemas
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.errors import EpochError, MillpondError, StorageError
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.log.log import LogStorage
from millpond.storage.frame import FrameKind, seal, unseal
from millpond.storage.open import open_storage
from tests.frozen import programs
from tests.programs.ledger import BATCHES, KEY_GROUPS, MemorySink, open_ledger, run_batch, state_after

FROZEN = Path(__file__).parent
FORMATS = sorted(FROZEN.glob("format-?"))
CASES = [case for folder in FORMATS for case in sorted(folder.iterdir())]
RUN = [case for case in CASES if (case / "checkpoint" / "genesis").exists()]
KINDS = {"exact", "partial", "rescaled", "pending", "gathered", "snapshot", "log"}
FOLDERS = {"manifests": 2, "deltas": 3, "snapshots": 4, "pending": 5, "merged": 6}


def case_id(case):
    return f"{case.parent.name}-{case.name}"


@pytest.fixture
def copied(request, tmp_path):
    """The frozen checkpoint in a folder that may be changed, opened, and what it must be read as."""
    case = request.param
    shutil.copytree(case, tmp_path / "job", dirs_exist_ok=True)
    place = tmp_path / "job" / "checkpoint"
    storage = LogStorage(place) if case.name == "log" else FileStorage(place)
    return tmp_path / "job", storage, json.loads((case / "expected.json").read_text(encoding="utf-8"))


def in_bytes(texts):
    return {bytes.fromhex(key): bytes.fromhex(value) for key, value in texts.items()}


def files_below(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def test_every_kind_of_checkpoint_is_frozen():
    assert [folder.name for folder in FORMATS] == [f"format-{number}" for number in range(1, FORMAT + 1)]
    assert all({case.name for case in folder.iterdir()} == KINDS for folder in FORMATS)
    named = {path.parent.name for case in RUN for path in (case / "checkpoint").rglob("*") if path.is_file()}
    assert named >= set(FOLDERS)


@pytest.mark.parametrize("copied", CASES, indirect=True, ids=case_id)
def test_every_epoch_is_read_as_it_was_written(copied):
    folder, storage, expected = copied
    before = files_below(folder)
    for epoch, state in expected["states"].items():
        name = f"manifests/{int(epoch):010}"
        assert read_state(storage, decode_manifest(storage.get(name), name)) == in_bytes(state), epoch
    newest = max(expected["states"], key=int)
    assert read_state(storage) == in_bytes(expected["states"][newest])
    assert files_below(folder) == before, "reading changes nothing"


@pytest.mark.parametrize("copied", RUN, indirect=True, ids=case_id)
def test_nothing_is_wrong_with_it(copied):
    _, storage, expected = copied
    findings = verify(storage, everything=True)
    assert findings.problems == []
    assert findings.epochs == len(expected["states"])


OTHERWISE = ("rescaled", "pending")
"""Cases with a test of their own."""


@pytest.mark.parametrize("copied", [case for case in RUN if case.name not in OTHERWISE], indirect=True, ids=case_id)
def test_its_program_goes_on_with_it(copied):
    folder, storage, expected = copied
    compiled = compile_program(getattr(programs, expected["program"]))
    fed = [[(name, tuple(given)) for name, given in rows] for rows in expected["fed"]]
    genesis = History(storage).genesis
    reference = Sequential(compiled, genesis.key_groups, expected["instances"])
    for rows in [*fed, fed[0]]:
        reference.epoch(rows)
    Simulated(compiled, folder, 3).epoch(fed[0])
    assert read_state(storage) == reference.state()


@pytest.mark.parametrize("copied", [case for case in RUN if case.name != "pending"], indirect=True, ids=case_id)
def test_a_fork_of_it_is_written_as_checkpoints_are_now(copied, tmp_path):
    _, storage, expected = copied
    fork(storage.url, tmp_path / "fork", copy=True)
    name = f"manifests/{max(map(int, expected['states'])):010}"
    forked = open_storage(str(tmp_path / "fork"))
    assert decode_manifest(forked.get(name), name).format == FORMAT
    assert read_state(forked) == read_state(storage)


def pending(wanted):
    cases = [case for case in RUN if case.name == "pending" and (case.parent.name == "format-1") is wanted]
    return pytest.mark.parametrize("copied", cases, indirect=True, ids=case_id)


@pending(False)
def test_messages_that_were_left_are_gone_on_with(copied):
    folder, storage, expected = copied
    run = Simulated(compile_program(getattr(programs, expected["program"])), folder, 3)
    assert not run._checkpoint.head.pending
    assert run._checkpoint.head.epoch > max(map(int, expected["states"]))
    assert verify(storage, everything=True).problems == []


@pending(True)
def test_messages_of_a_relaxed_program_that_is_cut_otherwise_by_now_are_refused_and_stay(copied):
    folder, storage, expected = copied
    before = read_state(storage)
    with pytest.raises(EpochError, match="MP417"):
        Simulated(compile_program(getattr(programs, expected["program"])), folder, 3)
    assert read_state(storage) == before


@pytest.mark.parametrize("copied", [case for case in RUN if case.name == "rescaled"], indirect=True, ids=case_id)
def test_its_instances_are_as_many_as_they_were_made(copied):
    folder, storage, expected = copied
    compiled = compile_program(programs.Copies)
    run = Simulated(compiled, folder, 2)
    run.epoch([("counted", ("word", 0))])
    assert run._checkpoint.instances == expected["instances"]
    counts = sum(
        programs.Copies.elements()["counts"].type.values.decode(value)
        for key, value in read_state(storage).items()
        if key[0] == 1 and key[3:] == programs.Copies.elements()["counts"].type.keys.encode("word")
    )
    rows = [row for rows in expected["fed"] for row in rows]
    assert counts == sum(given[1] for name, given in rows if name == "count" and given[0] == "word")


@pytest.mark.parametrize("copied", [case for case in CASES if case.name == "log"], indirect=True, ids=case_id)
def test_a_log_goes_on(copied):
    _, storage, _ = copied
    checkpoint = open_ledger(storage)
    assert checkpoint.genesis.key_groups == KEY_GROUPS
    run_batch(checkpoint, storage, len(BATCHES) - 1, MemorySink().publish)
    assert read_state(storage) == state_after(len(BATCHES))
    assert checkpoint.epoch == len(BATCHES), "the last batch was committed before"


def newer_frame(data):
    """The same frame, as a later version of the frame would number it."""
    head = data[:4] + struct.pack(">H", 99) + data[6:16]
    return head + struct.pack(">I", zlib.crc32(head)) + data[20:]


@pytest.mark.parametrize("kind", [*FOLDERS, "genesis"])
def test_a_newer_frame_is_refused_by_its_number_and_left_alone(kind, tmp_path):
    case = FORMATS[-1] / ("pending" if kind == "pending" else "snapshot")
    shutil.copytree(case / "checkpoint", tmp_path / "c")
    for path in (tmp_path / "c" / kind).rglob("*") if kind != "genesis" else [tmp_path / "c" / kind]:
        path.write_bytes(newer_frame(path.read_bytes()))
        number = FrameKind(FOLDERS.get(kind, 1))
        with pytest.raises(StorageError) as caught:
            unseal(number, path.read_bytes(), path.name)
        assert caught.value.code == "MP302"
    before = files_below(tmp_path / "c")
    storage = FileStorage(tmp_path / "c")
    if kind in {"genesis", "manifests"}:
        with pytest.raises(StorageError) as caught:
            read_state(storage)
        assert caught.value.code == "MP302"
        with pytest.raises(StorageError):
            Checkpoint.open(storage, element_schemas(compile_program(programs.Shop)))
    assert files_below(tmp_path / "c") == before


@pytest.mark.parametrize("name", ["genesis", "manifests/0000000005"])
@pytest.mark.parametrize("change", [{"format": FORMAT + 1}, {"surprise": 1}])
def test_a_newer_record_is_refused_and_left_alone(name, change, tmp_path):
    shutil.copytree(FORMATS[-1] / "snapshot" / "checkpoint", tmp_path / "c")
    path = tmp_path / "c" / name
    kind = FrameKind.GENESIS if name == "genesis" else FrameKind.MANIFEST
    record = msgspec.json.decode(unseal(kind, path.read_bytes(), name)) | change
    path.write_bytes(seal(kind, msgspec.json.encode(record, order="sorted")))
    before = files_below(tmp_path / "c")
    with pytest.raises(MillpondError) as caught:
        read_state(FileStorage(tmp_path / "c"))
    assert caught.value.code == "MP312"
    assert files_below(tmp_path / "c") == before


def test_a_newer_log_is_refused_and_left_alone(tmp_path):
    shutil.copytree(FORMATS[-1] / "log" / "checkpoint", tmp_path / "c")
    for path in (tmp_path / "c").glob("index-*"):
        path.unlink()
    path = tmp_path / "c" / "log-0000000001"
    head = path.read_bytes()[:4] + struct.pack(">H", 99) + path.read_bytes()[6:12]
    path.write_bytes(head + struct.pack(">I", zlib.crc32(head)) + path.read_bytes()[16:])
    before = files_below(tmp_path / "c")
    with pytest.raises(StorageError) as caught:
        read_state(LogStorage(tmp_path / "c"))
    assert caught.value.code == "MP302"
    assert files_below(tmp_path / "c") == before
