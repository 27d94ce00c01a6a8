"""Mending a checkpoint without guessing: what can be made again byte for byte, and going back to a whole epoch.

A chunk of a snapshot is a function of an older snapshot and the deltas in between. If those are still there, it is made
again, and believed only if its hash is the one that the manifest names. Nothing else can be made again: then the newest
epoch that is whole is the best there is, and going back to it is the user's decision. Newer manifests are set aside,
never deleted, and neither is what they name; so is what lies among manifests and is none.

For a checkpoint that no job runs on. A death on the way leaves a checkpoint that can be repaired again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from millpond.checkpoint.read.history import History, shown_epochs
from millpond.checkpoint.read.pieces import tell_nobody
from millpond.checkpoint.read.verify import Begun, Problem, verify
from millpond.checkpoint.records.deltas import VERSION, by_place, encode_changes, within
from millpond.checkpoint.records.heads import noted_heads
from millpond.checkpoint.records.manifest import (
    EPOCH_DIGITS,
    MANIFESTS,
    Manifest,
    StateFile,
    elements_of,
    manifest_name,
)
from millpond.checkpoint.records.times import is_over
from millpond.checkpoint.recovery import read_changes, restore_files
from millpond.checkpoint.retention.reachable import ASIDE, COLLECTED
from millpond.checkpoint.retention.retired import is_retired
from millpond.checkpoint.retention.savepoints import Savepoint, savepoints
from millpond.crashpoints import crashpoint
from millpond.errors import MillpondError, NotPlainError, StateError, StorageError
from millpond.keygroups import KEY_GROUPS_MAX
from millpond.state.changes import Changes
from millpond.storage.composed.elements import tell_elements
from millpond.storage.contract import Storage, is_name
from millpond.storage.frame import FrameKind, seal

_SHOWN_CHARS_MAX = 100
"""So much of a name is kept in the one under which a file is set aside."""


@dataclass(slots=True)
class Repair:
    """What was found, what was mended, and what can be gone back to."""

    problems: list[Problem] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Files that are damaged or missing, and can't be made again."""
    whole: list[int] = field(default_factory=list)
    """Epochs whose state can be read after the repair, ascending."""
    newest: int = 0
    """The newest epoch there is, whole or not."""
    went_back: list[int] = field(default_factory=list)
    """Epochs whose manifests were set aside."""
    savepoints_lost: list[str] = field(default_factory=list)
    in_the_way: list[str] = field(default_factory=list)
    """Files among manifests that are none: with one, no job starts."""

    @property
    def healthy(self) -> bool:
        """Whether a job can start: the newest epoch is whole, and nothing stands in its way."""
        return bool(self.whole) and self.whole[-1] == self.newest and not self.in_the_way


def repair(storage: Storage, to: int | None = None, *, begun: Begun = lambda _size_bytes: tell_nobody) -> Repair:
    """Make again what can be made again; with `to`, go back to that epoch, which must be whole.

    To see what would be done, give it a `TrialStorage`.
    """
    findings = verify(storage, everything=True, begun=begun)
    history = History(storage)
    newest = max(history.epochs[-1] if history.epochs else 0, history.head.epoch if history.head else 0)
    done = Repair(findings.problems, newest=newest, in_the_way=list(history.strays))
    manifests = _readable(history, {problem.file for problem in findings.problems})
    _tell_places(history, manifests)
    damaged = {problem.file for problem in findings.problems if not problem.file.startswith(f"{MANIFESTS}/")}
    for state in _chunks(manifests, damaged):
        data = _made_again(history, manifests, damaged, state)
        if data is not None:
            _replace(storage, state.file.name, data)
            damaged.discard(state.file.name)
            done.rebuilt.append(state.file.name)
    done.lost = sorted(name for name in damaged if name.partition("/")[0] in COLLECTED)
    done.whole = [epoch for epoch, manifest in sorted(manifests.items()) if not _needed(manifest) & damaged]
    if to is not None:
        _go_back(storage, history, done, to)
    return done


def _readable(history: History, damaged: set[str]) -> dict[int, Manifest]:
    """Return the manifests that can be believed; a file under a name that no manifest has is none."""
    return {epoch: history.manifest(epoch)[0] for epoch in history.epochs if manifest_name(epoch) not in damaged}


def _needed(manifest: Manifest) -> set[str]:
    """Return what a start from an epoch reads; deltas before its snapshot only save work."""
    states = restore_files(manifest, 0, KEY_GROUPS_MAX)
    return {state.file.name for state in states} | {ref.name for ref in manifest.pending}


def _chunks(manifests: dict[int, Manifest], damaged: set[str]) -> list[StateFile]:
    found = {state.file.name: state for manifest in manifests.values() for state in manifest.snapshot}
    return [state for name, state in sorted(found.items()) if name in damaged]


def _made_again(history: History, manifests: dict[int, Manifest], damaged: set[str], state: StateFile) -> bytes | None:
    """Return the bytes of a chunk, from an older snapshot and deltas; None if there is no way to them."""
    epochs = {int(m.snapshot_epoch) for m in manifests.values() if state in m.snapshot}
    groups = state.first_group, state.last_group
    for epoch in sorted(epochs):
        for files in _ways(history, manifests, epoch):
            needed = [file for file in files if file.overlaps(*groups)]
            if any(file.file.name in damaged for file in needed):
                continue
            over_us = manifests[epoch].times.over_us if epoch in manifests else {}
            for data in _merged(history.storage, needed, groups, over_us):
                if hashlib.sha256(data).hexdigest() == state.file.sha256:
                    return data
    return None


def _ways(history: History, manifests: dict[int, Manifest], epoch: int) -> Iterator[list[StateFile]]:
    """Yield the files that lead from an older snapshot, or from nothing, to the state of an epoch."""
    olds = {int(m.snapshot_epoch): m.snapshot for m in manifests.values() if m.snapshot_epoch < epoch}
    for since, snapshot in sorted({0: (), **olds}.items(), reverse=True):
        try:
            deltas = history.deltas(since, epoch)
        except MillpondError:
            # Not all of them are listed any more, or a manifest that lists them is damaged.
            continue
        yield [*snapshot, *(file for delta in deltas for file in delta.files)]


def _merged(
    storage: Storage, files: list[StateFile], groups: tuple[int, int], over_us: Mapping[int, int]
) -> Iterator[bytes]:
    """Yield the chunk that these files come to; entries whose time to live was over are left out, as merges do.

    Also its parts, if the address says that elements have places of their own.
    """
    state: dict[bytes, bytes | None] = {}
    try:
        for file in files:
            state.update(within(read_changes(storage, file), *groups).pairs())
    except MillpondError:
        return
    live = sorted(key for key, value in state.items() if value is not None and not is_over(key, value, over_us))
    changes = Changes(live, [state[key] for key in live])
    parts = [changes, *(own for _, own in by_place(storage, changes))]
    yield from (seal(FrameKind.SNAPSHOT, encode_changes(one, version)) for one in parts for version in (VERSION, 1))


def _tell_places(history: History, manifests: dict[int, Manifest]) -> None:
    """Tell a storage that is chosen by element which number each one has."""
    newest = manifests[max(manifests)] if manifests else None
    elements = elements_of(history.genesis, newest)
    tell_elements(history.storage, [None if element is None else element.name for element in elements])


def _replace(storage: Storage, name: str, data: bytes) -> None:
    """Put a file in the place of a damaged one, of which a copy stays."""
    try:
        found = storage.get(name)
    except StorageError:
        found = None
    if found is not None:
        digest = hashlib.sha256(found).hexdigest()[:16]
        storage.put(f"{ASIDE}/{name.replace('/', '-')}-{digest}", found)
        crashpoint("repair.copied")
        storage.delete(name)
        crashpoint("repair.removed")
    storage.put(name, data)
    crashpoint("repair.replaced")


def _go_back(storage: Storage, history: History, done: Repair, to: int) -> None:
    if to not in done.whole:
        whole = shown_epochs(done.whole) or "none"
        raise _no_way(f"one of the epochs that are whole: {whole}", str(to), "restore the checkpoint from a copy")
    newer = [epoch for epoch in history.epochs if epoch > to]
    if newer and is_retired(storage, to + 1):
        found = f"epoch {to}, and epochs after it that were deleted for good"
        raise _no_way("an epoch after which none was deleted", found, "fork it instead: `millpond state fork`")
    # Before the manifests: what is left of them then is more than what is noted, which is fine.
    for head in noted_heads(storage):
        if head.epoch > to:
            storage.delete(head.name)
            crashpoint("repair.unnoted")
    # The newest first: whoever dies in between leaves a chain that is whole up to its end.
    for epoch in reversed(newer):
        _set_aside(storage, manifest_name(epoch), f"{epoch:0{EPOCH_DIGITS}}")
        crashpoint("repair.went_back")
    for stray in done.in_the_way:
        if is_name(stray):
            _set_aside(storage, stray, stray.replace("/", "-"))
    done.in_the_way = [stray for stray in done.in_the_way if not is_name(stray)]
    # A put of a name that is taken makes its folder durable.
    storage.put(manifest_name(to), storage.get(manifest_name(to)))
    done.went_back = newer
    done.newest = to
    done.whole = [epoch for epoch in done.whole if epoch <= to]
    done.savepoints_lost = [savepoint.name for savepoint in _readable_savepoints(storage) if savepoint.epoch > to]


def _set_aside(storage: Storage, name: str, shown: str) -> None:
    """Take a name away and keep its bytes; a link or a special file has none of its own."""
    try:
        data = storage.get(name)
    except NotPlainError:
        pass
    else:
        digest = hashlib.sha256(data).hexdigest()[:16]
        storage.put(f"{ASIDE}/{shown[-_SHOWN_CHARS_MAX:]}-{digest}", data)
        crashpoint("repair.set_aside")
    storage.delete(name)


def _readable_savepoints(storage: Storage) -> tuple[Savepoint, ...]:
    try:
        return savepoints(storage)
    except MillpondError:
        return ()


def _no_way(expected: str, found: str, hint: str) -> StateError:
    return StateError(
        "MP249", "the checkpoint can't be rolled back to this epoch", expected=expected, found=found, hint=hint
    )
