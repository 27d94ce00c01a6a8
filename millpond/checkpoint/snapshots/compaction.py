"""Snapshots made of committed files alone: the last snapshot and the deltas after it, merged chunk by chunk.

Nothing here needs the state that workers hold, nor the epoch that runs meanwhile: a manifest names files that never
change, so the same manifest always gives the same snapshot. A chunk is a range of key groups. Its size bounds the
memory, and a chunk that no delta changed is not written again, unless it holds entries whose time to live is over:
these are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from tempfile import SpooledTemporaryFile
from typing import IO

import msgspec
import numpy as np
from numpy.typing import NDArray

from millpond.checkpoint.records.deltas import (
    FILE_BYTES,
    by_place,
    decode_changes,
    encode_changes,
    payload_of_parts,
    places,
    within,
    write_changes,
)
from millpond.checkpoint.records.manifest import EPOCH_DIGITS, Manifest, StateFile
from millpond.checkpoint.records.naming import given_in
from millpond.checkpoint.records.times import is_over
from millpond.checkpoint.recovery import read_changes
from millpond.checkpoint.snapshots.snapshots import Snapshot
from millpond.crashpoints import crashpoint
from millpond.errors import MillpondError
from millpond.ids import ManifestHash
from millpond.state.changes import Changes
from millpond.state.local.storekey import spans_within
from millpond.storage.contract import InParts, Span, Storage
from millpond.storage.frame import DIGEST_BYTES, HEADER_BYTES, SIGNATURE_BYTES, FrameKind, seal, unseal

MERGED = "merged"
"""The folder of snapshots that wait for a manifest to name them, each under the number of its epoch."""

HELD_BYTES_MAX = 4 * FILE_BYTES
"""Changes up to this size together wait in memory for their round; more of them wait in a temporary file."""

ROUND_BYTES = 8 * FILE_BYTES
"""About so many bytes of changes are held for chunks that are merged one after the other."""

Groups = tuple[int, int]
"""A range of key groups, both ends included."""

Chunk = tuple[Groups, tuple[StateFile, ...]]
"""A range, and the files of the last snapshot that cover exactly it: none, or one for each place of elements."""

_decoder = msgspec.msgpack.Decoder(Snapshot)


def compact(storage: Storage, manifest: Manifest, digest: ManifestHash, key_groups: int) -> Snapshot:
    """Write the state of a manifest as a snapshot, and leave it for the next commit to name."""
    deltas = _deltas(manifest)
    rounds = list(_rounds(chunk_ranges(manifest, key_groups), deltas))
    files: list[StateFile] = []
    with SpooledTemporaryFile(max_size=HELD_BYTES_MAX) as spool:
        divided = _Divided(storage, spool, (_span(chunks) for chunks in rounds))
        for file in deltas:
            divided.add(file, read_changes(storage, file))
        merge = _Merge(storage, manifest, digest)
        for chunks in rounds:
            changes = divided.of(_span(chunks))
            for groups, old in chunks:
                files += merge.write(groups, old, changes)
    snapshot = Snapshot(manifest.epoch, digest, tuple(files))
    storage.put(_name(manifest.epoch), seal(FrameKind.MERGED, msgspec.msgpack.encode(snapshot)))
    crashpoint("snapshot.merged")
    return snapshot


def last_merged(storage: Storage) -> Snapshot | None:
    """Return the newest snapshot that was finished; None if there is none that can be read.

    One that is damaged is as good as none: the files that it was made of are still there.
    """
    for name in given_in(storage, MERGED)[-1:]:
        try:
            return _decoder.decode(unseal(FrameKind.MERGED, storage.get(name), name))
        except (MillpondError, msgspec.MsgspecError, ValueError, RecursionError):
            return None
    return None


def _name(epoch: int) -> str:
    return f"{MERGED}/{epoch:0{EPOCH_DIGITS}}"


def chunk_ranges(manifest: Manifest, key_groups: int) -> Iterator[Chunk]:
    """Yield the chunks of the next snapshot: those of the last one, divided where they grew large."""
    deltas = _deltas(manifest)
    olds: dict[Groups, tuple[StateFile, ...]] = {} if manifest.snapshot else {(0, key_groups - 1): ()}
    for file in manifest.snapshot:
        groups = file.first_group, file.last_group
        olds[groups] = (*olds.get(groups, ()), file)
    for groups, old in sorted(olds.items()):
        size = sum(file.file.size_bytes for file in old) + sum(_share(file, groups) for file in deltas)
        width = groups[1] - groups[0] + 1
        count = min(max(1, round(size / FILE_BYTES)), width)
        if count == 1:
            yield groups, old
            continue
        bounds = [groups[0] + width * number // count for number in range(count + 1)]
        yield from (((first, end - 1), ()) for first, end in pairwise(bounds))


def _deltas(manifest: Manifest) -> list[StateFile]:
    since = [delta for delta in manifest.deltas if delta.epoch > manifest.snapshot_epoch]
    return [file for delta in since for file in delta.files]


def _share(file: StateFile, groups: Groups) -> float:
    """About how many bytes of a file lie in a range of key groups."""
    first, last = max(file.first_group, groups[0]), min(file.last_group, groups[1])
    if first > last:
        return 0.0
    return file.file.size_bytes * (last - first + 1) / (file.last_group - file.first_group + 1)


def _rounds(chunks: Iterable[Chunk], deltas: Sequence[StateFile]) -> Iterator[list[Chunk]]:
    """Chunks that follow each other, in lists whose changes fit into memory."""
    held: list[Chunk] = []
    held_bytes = 0.0
    for chunk in chunks:
        size = sum(_share(file, chunk[0]) for file in deltas)
        if held and held_bytes + size > ROUND_BYTES:
            yield held
            held, held_bytes = [], 0.0
        held.append(chunk)
        held_bytes += size
    yield held


def _span(chunks: Sequence[Chunk]) -> Groups:
    return chunks[0][0][0], chunks[-1][0][1]


@dataclass(frozen=True, slots=True)
class _Part:
    """Some changes of a file: how many, and where the bytes of their keys and values are."""

    name: str
    count: int
    keys: Sequence[Span]
    values: Sequence[Span]


class _Divided:
    """Changes by the round that they belong to, so that every delta is looked through once, whatever it reaches into.

    They wait as bytes, which is what they are worth: as objects, small entries would take ten times that. Where a
    storage gives parts of files they stay where they are, elsewhere they wait in a temporary file: to write gigabytes
    once more would cost the epochs more than the merge itself does.
    """

    def __init__(self, storage: Storage, spool: IO[bytes], ranges: Iterable[Groups]) -> None:
        self._storage = storage
        self._spool = spool
        self._parts: dict[Groups, list[_Part | tuple[int, int]]] = {groups: [] for groups in ranges}

    def add(self, file: StateFile, changes: Changes) -> None:
        """Take the changes of a file, which are newer than all before."""
        stay = self._stay(file, changes)
        for groups, parts in self._parts.items():
            if not file.overlaps(*groups):
                continue
            spans = list(spans_within(changes.keys, *groups))
            if spans and stay is not None:
                key_at, value_at = stay
                count = sum(high - low for low, high in spans)
                keys = [(int(key_at[low]), int(key_at[high])) for low, high in spans]
                values = [(int(value_at[low]), int(value_at[high])) for low, high in spans]
                parts.append(_Part(file.file.name, count, keys, values))
            elif spans:
                start = self._spool.tell()
                parts.append((start, self._spool.write(encode_changes(within(changes, *groups)))))

    def of(self, groups: Groups) -> Sequence[Changes]:
        """Return the changes of a round, oldest first."""
        return [decode_changes(self._payload(part), MERGED) for part in self._parts[groups]]

    def _stay(self, file: StateFile, changes: Changes) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Say where keys and values stand in a file whose parts can be read; None if they can't."""
        if not isinstance(self._storage, InParts):
            return None
        key_at, value_at = places(changes)
        # Other writers might write lengths in other ways than ours.
        behind = file.file.size_bytes - HEADER_BYTES - int(value_at[-1])
        if behind not in {DIGEST_BYTES, DIGEST_BYTES + SIGNATURE_BYTES}:
            return None
        return key_at + HEADER_BYTES, value_at + HEADER_BYTES

    def _payload(self, part: _Part | tuple[int, int]) -> bytes:
        if isinstance(part, _Part):
            assert isinstance(self._storage, InParts)
            found = self._storage.get_parts(part.name, (*part.keys, *part.values))
            return payload_of_parts(part.count, found[: len(part.keys)], found[len(part.keys) :])
        start, size = part
        self._spool.seek(start)
        return self._spool.read(size)


class _Merge:
    def __init__(self, storage: Storage, manifest: Manifest, mark: str) -> None:
        self._storage = storage
        self._snapshot = manifest.snapshot
        self._over_us = manifest.times.over_us
        self._mark = mark

    def write(self, groups: Groups, old: tuple[StateFile, ...], of_round: Sequence[Changes]) -> tuple[StateFile, ...]:
        """Write a chunk; the old files stay if nothing in their range changed."""
        changes = [own for own in (within(each, *groups) for each in of_round) if own.keys]
        if old and not changes and not any(map(self._expires, old)):
            return old
        state: dict[bytes, bytes | None] = {}
        for file in self._snapshot:
            if file.overlaps(*groups):
                state.update(within(read_changes(self._storage, file), *groups).pairs())
        for each in changes:
            state.update(each.pairs())
        live = sorted(key for key, value in state.items() if value is not None)
        if self._over_us:
            live = [key for key in live if not is_over(key, state[key], self._over_us)]
        whole = Changes(live, list(map(state.__getitem__, live)))
        # The first file speaks for the groups also if it has nothing to say.
        places = [(place, own) for place, own in by_place(self._storage, whole) if own.keys]
        places = places or [(self._storage, whole)]
        written = tuple(write_changes(place, FrameKind.SNAPSHOT, own, self._mark, groups) for place, own in places)
        crashpoint("snapshot.chunk")
        return written

    def _expires(self, old: StateFile) -> bool:
        """Say whether a chunk that nobody changed holds entries whose time is over."""
        if not self._over_us:
            return False
        return any(is_over(key, value, self._over_us) for key, value in read_changes(self._storage, old).pairs())
