"""What an epoch changed, as bytes: sorted store keys, and for each its new value or a tombstone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, islice, pairwise
from operator import lt

import msgspec
import numpy as np
from numpy.typing import NDArray

from millpond.checkpoint.records.manifest import StateFile
from millpond.errors import EpochError, StorageError
from millpond.state.changes import Changes
from millpond.state.local.storekey import PREFIX_BYTES, elements_in, group_of, group_span, spans_within
from millpond.storage.composed.elements import placing
from millpond.storage.content import put_content
from millpond.storage.contract import Storage
from millpond.storage.frame import FrameKind, seal

FOLDERS = {FrameKind.DELTA: "deltas", FrameKind.SNAPSHOT: "snapshots"}
"""Where each kind of state file lies in a checkpoint."""

FILE_BYTES = 16 * 1024 * 1024
"""About how large a file of state may be: whoever needs a range of key groups holds files of this size in memory."""

VERSION = 2
"""The version of a payload: it stands before the keys and the values. The first version had none."""

VERSIONS = (1, VERSION)

_HEAD = b"\x93" + bytes((VERSION,))
"""How MessagePack says that an array of three follows, of which the version is the first."""

_PAIR = b"\x92"
"""How it says that an array of two follows, as in the first version."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[int, list[bytes], list[bytes | None]])
_first_decoder = msgspec.msgpack.Decoder(Changes)


def encode_changes(changes: Changes, version: int = VERSION) -> bytes:
    """Return the payload of a delta or a snapshot; of the first version only where one must be the same again."""
    assert len(changes.keys) == len(changes.values), (len(changes.keys), len(changes.values))
    return _encoder.encode(changes if version == 1 else (version, *changes))


def decode_changes(payload: bytes | memoryview, name: str) -> Changes:
    """Read a payload, or raise a `StorageError` that names the file; order is checked by `check_changes`."""
    try:
        if payload[:1] == _PAIR:
            version, changes = VERSION, _first_decoder.decode(payload)
        else:
            version, keys, values = _decoder.decode(payload)
            changes = Changes(keys, values)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _bad_changes(name, "a version, an array of keys and an array of values", str(error)[:200]) from error
    if version != VERSION:
        raise StorageError(
            "MP302",
            f"this version of Millpond can't read {name}",
            expected=f"format version 1 to {VERSION}",
            found=f"version {version}",
            hint="run the version of Millpond that wrote the checkpoint, or a newer one",
        )
    if len(changes.keys) != len(changes.values):
        raise _bad_changes(name, f"{len(changes.keys)} values", f"{len(changes.values)}")
    return changes


def check_changes(keys: list[bytes], name: str) -> None:
    """Raise a `StorageError` unless these are store keys in ascending order, each once."""
    if keys and min(map(len, keys)) < PREFIX_BYTES:
        raise _bad_changes(name, f"keys of {PREFIX_BYTES} bytes or more", "a shorter one")
    if not all(map(lt, keys, islice(keys, 1, None))):
        raise _bad_changes(name, "keys in ascending order, each once", "another order")


def merge_segments(segments: list[Changes]) -> Changes:
    """Merge the changes of several partitions into one; partitions own disjoint keys, and sharing one is an error."""
    merged = Changes.joined(segments)
    total = sum(len(segment.keys) for segment in segments)
    if len(merged.keys) != total:
        raise EpochError(
            "MP411",
            "two partitions changed the same key in one epoch",
            expected="each key owned by one partition",
            found=f"{total - len(merged.keys)} of {total} changes for a key that another partition changed too",
            hint="this is a fault of Millpond, please report it; nothing was committed",
        )
    return merged


def within(changes: Changes, first: int, last: int) -> Changes:
    """Return the part of sorted changes that lies in a range of key groups, both ends included."""
    keys, values = changes
    own_keys: list[bytes] = []
    own_values: list[bytes | None] = []
    for low, high in spans_within(keys, first, last):
        own_keys += keys[low:high]
        own_values += values[low:high]
    return Changes(own_keys, own_values)


def places(changes: Changes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Say where in the payload of changes each key begins, and each value; behind them, where the last one ends."""
    head = len(_array_head(len(changes[0])))
    keys, values = (np.concatenate(([0], np.cumsum(_sizes(part)))) for part in changes)
    keys += len(_HEAD) + head
    return keys, values + keys[-1] + head


def payload_of_parts(count: int, keys: Sequence[bytes], values: Sequence[bytes]) -> bytes:
    """Return a payload made of the bytes of so many keys and values, as they stand in another one."""
    head = _array_head(count)
    return b"".join((_HEAD, head, *keys, head, *values))


def _sizes(parts: list[bytes] | list[bytes | None]) -> NDArray[np.int64]:
    """Say how many bytes each part takes in a payload: itself behind its length, or one byte if there is none."""
    lengths = np.fromiter((-1 if part is None else len(part) for part in parts), np.int64, len(parts))
    return lengths + 2 + (lengths >= 1 << 8) + 2 * (lengths >= 1 << 16)


def _array_head(count: int) -> bytes:
    if count < 1 << 4:
        return bytes((0x90 | count,))
    return b"\xdc" + count.to_bytes(2, "big") if count < 1 << 16 else b"\xdd" + count.to_bytes(4, "big")


def write_changes(
    storage: Storage, kind: FrameKind, changes: Changes, mark: str, covers: tuple[int, int] | None = None
) -> StateFile:
    """Store sorted changes as a delta or a snapshot chunk, under a name that is `mark`'s own.

    `covers` is the range of key groups that the file speaks for, by default the one its keys lie in. A chunk of a
    snapshot must say it, since groups without any key belong to the snapshot too.
    """
    name = FOLDERS[kind]
    check_changes(changes.keys, name)
    if kind is FrameKind.SNAPSHOT and None in changes.values:
        raise _bad_changes(name, "no tombstones in a snapshot", "one")
    first, last = covers or group_span(changes.keys)
    ref = put_content(storage, name, seal(kind, encode_changes(changes)), mark)
    return StateFile(ref, first, last, len(changes.keys))


def write_delta(storage: Storage, changes: Changes, mark: str) -> tuple[StateFile, ...]:
    """Store the sorted changes of an epoch in one file, or in several by ranges of key groups if they are many.

    If the storage is chosen by element, each place has files of its own.
    """
    placed = [(place, own) for place, own in by_place(storage, changes) if own.keys]
    return tuple(
        write_changes(place, FrameKind.DELTA, part, mark) for place, own in placed for part in delta_parts(own)
    )


def by_place(storage: Storage, changes: Changes) -> Iterator[tuple[Storage, Changes]]:
    """Sorted changes by the storage that their elements go to; the first is that of all others, if there are any."""
    spans = {element: (start, end) for element, start, end in elements_in(changes.keys)}
    for place, own in placing(storage, spans):
        if len(own) == len(spans):
            yield place, changes
        else:
            yield place, changes.at(at for element in sorted(own) for at in range(*spans[element]))


def delta_parts(changes: Changes) -> Iterator[Changes]:
    """Yield the changes of an epoch as they are divided among files."""
    if changes.size_bytes <= FILE_BYTES:
        yield changes
        return
    parts = (within(changes, first, last) for first, last in _ranges(changes))
    yield from (part for part in parts if part.keys)


def _ranges(changes: Changes) -> list[tuple[int, int]]:
    """Ranges of key groups that hold about a file's worth of bytes each; a group is never divided."""
    first, last = group_span(changes.keys)
    held = [0] * (last - first + 1)
    for key, value in changes.pairs():
        held[group_of(key) - first] += len(key) + len(value or b"")
    # A range ends where the bytes up to there pass the next multiple of the size.
    files = [before // FILE_BYTES for before in accumulate(held[:-1], initial=0)]
    starts = [at for at in range(len(files)) if at == 0 or files[at] != files[at - 1]]
    return [(first + start, first + end - 1) for start, end in pairwise([*starts, len(files)])]


def kind_of(state_file: StateFile) -> FrameKind:
    """Tell a delta from a snapshot chunk by the folder it lies in."""
    name = state_file.file.name
    for kind, folder in FOLDERS.items():
        if name.startswith(f"{folder}/"):
            return kind
    raise _bad_changes(name, f"a file in one of {sorted(FOLDERS.values())}", "another place")


def _bad_changes(name: str, expected: str, found: str) -> StorageError:
    return StorageError(
        "MP315",
        f"the state in {name} can't be decoded",
        expected=expected,
        found=found,
        hint="restore this file from a copy of the checkpoint",
    )
