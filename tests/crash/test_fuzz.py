"""Readers of every kind of file, given nonsense with right checksums: a coded error or a value, nothing else (S2)."""

from __future__ import annotations

import os
import random
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest

from millpond.epochs.compaction import MERGED, last_merged
from millpond.epochs.deltas import FOLDERS
from millpond.epochs.manifest import StateFile, decode_genesis, decode_manifest
from millpond.epochs.recovery import read_changes
from millpond.errors import EpochError, MillpondError, StorageError
from millpond.runtime.pending import read_pending
from millpond.storage.content import put_content
from millpond.storage.frame import FrameKind, seal, unseal
from millpond.storage.logindex import LogIndex
from millpond.storage.logrecord import FILE_HEADER_BYTES, Replay, acknowledged_after
from millpond.storage.memory import MemoryStorage
from tests.crash.mutations import BOMBS, spoilt
from tests.crash.pending import pending_plan

FROZEN = Path(__file__).parents[1] / "frozen" / "format-1"
PEAK_BYTES_MAX = 64 << 20


def payload_of(case, folder, kind):
    place = FROZEN / case / "checkpoint"
    path = max((place / folder).rglob("*")) if folder else place / "genesis"
    return unseal(kind, path.read_bytes(), path.name)


def read_as_changes(kind):
    def read(payload):
        storage = MemoryStorage()
        ref = put_content(storage, FOLDERS[kind], seal(kind, payload))
        read_changes(storage, StateFile(ref, 0, 11, 3))

    return read


def read_as_merged(payload):
    storage = MemoryStorage()
    storage.put(f"{MERGED}/0000000001", seal(FrameKind.MERGED, payload))
    last_merged(storage)


def read_as_pending(payload):
    storage = MemoryStorage()
    read_pending(storage, pending_plan(), [put_content(storage, "pending", seal(FrameKind.PENDING, payload))])


def read_as_log(data):
    def read_at(size, offset):
        return data[offset : offset + size]

    replay = Replay(read_at, 1, FILE_HEADER_BYTES)
    for record in replay:
        assert record.end <= len(data) + 8
    acknowledged_after(read_at, 1, replay.end, len(data))


def read_as_index(data):
    LogIndex.load(data)


def readers():
    return {
        "genesis": (payload_of("exact", "", FrameKind.GENESIS), lambda p: decode_genesis(seal(FrameKind.GENESIS, p))),
        "manifest": (
            payload_of("rescaled", "manifests", FrameKind.MANIFEST),
            lambda p: decode_manifest(seal(FrameKind.MANIFEST, p), "m"),
        ),
        "delta": (payload_of("exact", "deltas", FrameKind.DELTA), read_as_changes(FrameKind.DELTA)),
        "snapshot": (payload_of("snapshot", "snapshots", FrameKind.SNAPSHOT), read_as_changes(FrameKind.SNAPSHOT)),
        "merged": (payload_of("snapshot", "merged", FrameKind.MERGED), read_as_merged),
        "pending": (payload_of("pending", "pending", FrameKind.PENDING), read_as_pending),
        "log": ((FROZEN / "log/checkpoint/log-0000000001").read_bytes(), read_as_log),
        "index": (next((FROZEN / "log/checkpoint").glob("index-*")).read_bytes(), read_as_index),
    }


KINDS = ("genesis", "manifest", "delta", "snapshot", "log", "index", "merged", "pending")


def fuzz(kind, count):
    good, read = readers()[kind]
    seed = int.from_bytes(os.urandom(4), "big")
    rng = random.Random(seed)
    refused = 0
    for number in range(count):
        bad = rng.randbytes(rng.randrange(200)) if number % 10 == 0 else spoilt(rng, good)
        try:
            read(bad)
        except (StorageError, EpochError):
            refused += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}, number {number}: {bad[:200]!r}") from error
    return refused


@pytest.mark.parametrize("kind", KINDS)
def test_nonsense_is_a_value_or_a_coded_error(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = fuzz(kind, 400)
    assert refused > 100 or kind in {"merged", "log", "index"}
    assert list(tmp_path.iterdir()) == [], "a pickle was loaded"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_much_nonsense_is_a_value_or_a_coded_error(kind):
    fuzz(kind, 8_000)


@pytest.mark.campaign
@pytest.mark.parametrize("kind", KINDS)
def test_a_lot_of_nonsense_is_a_value_or_a_coded_error(kind):
    fuzz(kind, 500_000)


@pytest.mark.parametrize("kind", KINDS)
def test_no_length_is_believed_before_its_bytes_are_there(kind):
    good, read = readers()[kind]
    tracemalloc.start()
    try:
        for bomb in BOMBS:
            for bad in (bomb, bomb + good, good[: len(good) // 2] + bomb + good[len(good) // 2 :]):
                try:
                    read(bad)
                except MillpondError:
                    continue
        assert tracemalloc.get_traced_memory()[1] < PEAK_BYTES_MAX
    finally:
        tracemalloc.stop()


def test_messages_of_another_shape_are_named():
    storage = MemoryStorage()
    sink = pa.BufferOutputStream()
    table = pa.table({"part": [1]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    ref = put_content(storage, "pending", seal(FrameKind.PENDING, sink.getvalue().to_pybytes()))
    with pytest.raises(StorageError) as caught:
        read_pending(storage, pending_plan(), [ref])
    assert caught.value.code == "MP357"
