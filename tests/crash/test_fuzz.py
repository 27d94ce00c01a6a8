"""Readers of every kind of file, given nonsense with right checksums: a coded error or a value, nothing else (S2)."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import hashlib
import random
import shutil
import tempfile
import tracemalloc
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from millpond.checkpoint.records.deltas import FOLDERS
from millpond.checkpoint.records.manifest import EpochInput, SaveRef, StateFile, decode_genesis, decode_manifest
from millpond.checkpoint.records.notes import decode_note
from millpond.checkpoint.records.saves import read_save
from millpond.checkpoint.recovery import read_changes
from millpond.checkpoint.retention.deletionlist import DeletionList
from millpond.checkpoint.retention.reachable import SAVES
from millpond.checkpoint.retention.retired import Retired
from millpond.checkpoint.retention.savepoints import Savepoint
from millpond.checkpoint.snapshots.compaction import MERGED, last_merged
from millpond.engine.durability.inputlog import read_input
from millpond.engine.durability.pending import read_pending
from millpond.errors import EpochError, MillpondError, StateError, StorageError
from millpond.ids import EpochId
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.valuecodec import ValueCodec
from millpond.storage.backends.log.log import LogStorage
from millpond.storage.backends.log.logindex import LogIndex
from millpond.storage.backends.log.logrecord import FILE_HEADER_BYTES, Replay, acknowledged_after
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.composed.layered import BASE_NAME, read_base
from millpond.storage.content import put_content
from millpond.storage.frame import FrameKind, seal, unseal
from tests.crash.mutations import BOMBS, spoilt
from tests.crash.pending import pending_plan
from tests.programs.keyed import fresh_seed

FROZEN = Path(__file__).parents[1] / "frozen" / "format-2"
LATER = Path(__file__).parents[1] / "frozen" / "format-2-later"
FIRST = Path(__file__).parents[1] / "frozen" / "format-1"
HASH_BYTES = 32
INPUT = EpochInput(sources=(), now_us=0, partitions=1, instances=1, steps_max=1, rows=((0, "inputs/1"),))
PEAK_BYTES_MAX = 64 << 20


def payload_of(case, folder, kind, frozen=FROZEN):
    place = frozen / case / "checkpoint"
    path = max((place / folder).rglob("*")) if folder else place / "genesis"
    return unseal(kind, path.read_bytes(), path.name)


def read_as_changes(kind):
    def read(payload):
        storage = MemoryStorage()
        ref = put_content(storage, FOLDERS[kind], seal(kind, payload), mark="test")
        read_changes(storage, StateFile(ref, 0, 11, 3))

    return read


def read_as_merged(payload):
    storage = MemoryStorage()
    storage.put(f"{MERGED}/0000000001", seal(FrameKind.MERGED, payload))
    last_merged(storage)


def read_as_pending(payload):
    storage = MemoryStorage()
    read_pending(
        storage, pending_plan(), [put_content(storage, "pending", seal(FrameKind.PENDING, payload), mark="test")]
    )


def read_as_log(data):
    def read_at(size, offset):
        return data[offset : offset + size]

    replay = Replay(read_at, 1, FILE_HEADER_BYTES)
    for record in replay:
        assert record.end <= len(data) + 8
    acknowledged_after(read_at, 1, replay.end, len(data))


def read_as_index(data):
    """An index whose hash is right, beside the log that it does not belong to: names are read, put and deleted."""
    LogIndex.load(data + hashlib.sha256(data).digest())
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "checkpoint"
        shutil.copytree(FROZEN / "log" / "checkpoint", root)
        index = min(root.glob("index-*"))
        index.chmod(0o600)
        index.write_bytes(data + hashlib.sha256(data).digest())
        storage = LogStorage(root)
        for name in storage.list("")[:6]:
            with contextlib.suppress(StorageError):
                storage.get(name)
        storage.put("deltas/new", b"new")
        assert storage.get("deltas/new") == b"new"
        storage.delete("deltas/new")


def read_as_input(payload):
    storage = MemoryStorage()
    storage.put("inputs/1", seal(FrameKind.INPUT, payload))
    read_input(storage, INPUT)


def read_as_saved(payload):
    storage = MemoryStorage()
    ref = put_content(storage, SAVES, seal(FrameKind.SAVED, payload), mark="test")
    read_save(storage, SaveRef(EpochId(1), ref, 1))


def read_as_note(kind):
    return lambda payload: decode_note(kind, seal(FrameKind.MERGED, payload), "a note")


def read_as_base(payload):
    storage = MemoryStorage()
    storage.put(BASE_NAME, seal(FrameKind.MERGED, payload))
    read_base(storage)


def later_payload(case, folder, kind):
    """The payload of a file that `format-2-later` holds."""
    place = LATER / case / folder
    path = max(place.iterdir()) if place.is_dir() else place
    return unseal(kind, path.read_bytes(), path.name)


def readers():
    return {
        "genesis": (payload_of("exact", "", FrameKind.GENESIS), lambda p: decode_genesis(seal(FrameKind.GENESIS, p))),
        "manifest": (
            payload_of("rescaled", "manifests", FrameKind.MANIFEST),
            lambda p: decode_manifest(seal(FrameKind.MANIFEST, p), "m"),
        ),
        "manifest 1": (
            payload_of("rescaled", "manifests", FrameKind.MANIFEST, FIRST),
            lambda p: decode_manifest(seal(FrameKind.MANIFEST, p), "m"),
        ),
        "delta 1": (payload_of("exact", "deltas", FrameKind.DELTA, FIRST), read_as_changes(FrameKind.DELTA)),
        "delta": (payload_of("exact", "deltas", FrameKind.DELTA), read_as_changes(FrameKind.DELTA)),
        "snapshot": (payload_of("snapshot", "snapshots", FrameKind.SNAPSHOT), read_as_changes(FrameKind.SNAPSHOT)),
        "merged": (payload_of("snapshot", "merged", FrameKind.MERGED), read_as_merged),
        "pending": (payload_of("pending", "pending", FrameKind.PENDING), read_as_pending),
        "log": ((FROZEN / "log/checkpoint/log-0000000001").read_bytes(), read_as_log),
        "index": (min((FROZEN / "log/checkpoint").glob("index-*")).read_bytes()[:-HASH_BYTES], read_as_index),
        "input": (later_payload("replay", "checkpoint/inputs", FrameKind.INPUT), read_as_input),
        "saved": (later_payload("lazy", "checkpoint/saves", FrameKind.SAVED), read_as_saved),
        "savepoint": (later_payload("forked", "base/savepoints", FrameKind.MERGED), read_as_note(Savepoint)),
        "condemned": (later_payload("tidied", "checkpoint/condemned", FrameKind.MERGED), read_as_note(DeletionList)),
        "retired": (later_payload("tidied", "checkpoint/retired", FrameKind.MERGED), read_as_note(Retired)),
        "base": (later_payload("forked", "checkpoint/base", FrameKind.MERGED), read_as_base),
    }


KINDS = (
    *("genesis", "manifest", "delta", "snapshot", "log", "index", "merged", "pending"),
    *("manifest 1", "delta 1", "input", "saved", "savepoint", "condemned", "retired", "base"),
)
DISK = 20
"""Each case of an index is a log on the disk: so many times fewer are looked at."""


def fuzz(kind, count):
    good, read = readers()[kind]
    return fuzz_with(good, read, count // DISK if kind == "index" else count)


def fuzz_with(good, read, count):
    seed = fresh_seed()
    rng = random.Random(seed)
    refused = 0
    for number in range(count):
        bad = rng.randbytes(rng.randrange(200)) if number % 10 == 0 else spoilt(rng, good)
        try:
            read(bad)
        except (StorageError, EpochError, StateError):
            refused += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}, number {number}: {bad[:200]!r}") from error
    return refused


@pytest.mark.parametrize("kind", KINDS)
def test_nonsense_is_a_value_or_a_coded_error(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = fuzz(kind, 400)
    assert refused > 100 or kind in {"merged", "log", "index"}, refused
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
    assert peak_of(*readers()[kind]) < PEAK_BYTES_MAX


def peak_of(good, read):
    """How much memory is taken at most for what claims to be large."""
    tracemalloc.start()
    try:
        for bomb in BOMBS:
            for bad in (bomb, bomb + good, good[: len(good) // 2] + bomb + good[len(good) // 2 :]):
                try:
                    read(bad)
                except MillpondError:
                    continue
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_messages_of_another_shape_are_named():
    storage = MemoryStorage()
    sink = pa.BufferOutputStream()
    table = pa.table({"part": [1]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    ref = put_content(storage, "pending", seal(FrameKind.PENDING, sink.getvalue().to_pybytes()), mark="test")
    with pytest.raises(StorageError) as caught:
        read_pending(storage, pending_plan(), [ref])
    assert caught.value.code == "MP357"


@dataclass
class Tree:
    """A value that may hold itself."""

    name: str
    when: datetime.datetime | None = None
    weights: dict[str, float] = field(default_factory=dict)
    below: list[Tree] = field(default_factory=list)


MOMENT = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
VALUES = {
    "int": (int, -7),
    "text": (str | None, "ä word"),
    "decimal": (decimal.Decimal, decimal.Decimal("1.50")),
    "date": (datetime.date, MOMENT.date()),
    "row": (tuple[int, str, float], (1, "a", 2.5)),
    "lists": (dict[str, list[int]], {"a": [1, 2], "b": []}),
    "sets": (frozenset[tuple[int, str]], frozenset({(1, "a"), (2, "b")})),
    "tree": (Tree, Tree("a", MOMENT, {"x": 0.5}, [Tree("b"), Tree("c", below=[Tree("d")])])),
}
KEYS = {
    "int": (int, -7),
    "text": (str, "ä word"),
    "bytes": (bytes, b"\x00\xff"),
    "bool": (bool, True),
    "date": (datetime.date, MOMENT.date()),
    "pair": (tuple[str, int, bytes, datetime.date, bool], ("ä\x00", 3, b"\x00", MOMENT.date(), False)),
}


def codecs():
    for name, (hint, value) in VALUES.items():
        codec = ValueCodec(hint)
        yield f"value {name}", codec.encode(value), codec.decode
        yield f"values {name}", codec.encode(value), lambda data, codec=codec: codec.decode_many([data])
    for name, (hint, key) in KEYS.items():
        yield f"key {name}", KeyCodec(hint).encode(key), KeyCodec(hint).decode


CODECS = {name: (good, read) for name, good, read in codecs()}


@pytest.mark.parametrize(
    "count", [150, pytest.param(6_000, marks=pytest.mark.slow), pytest.param(200_000, marks=pytest.mark.campaign)]
)
@pytest.mark.parametrize("codec", CODECS)
def test_a_stored_key_or_value_that_is_nonsense_is_one_or_a_coded_error(codec, count):
    good, read = CODECS[codec]
    read(good)
    refused = fuzz_with(good, read, count)
    assert refused > count // 10 or codec in {"key bytes", "key bool", "key int"}


@pytest.mark.parametrize("codec", CODECS)
def test_no_length_in_a_key_or_value_is_believed_before_its_bytes_are_there(codec):
    good, read = CODECS[codec]
    assert peak_of(good, read) < PEAK_BYTES_MAX
