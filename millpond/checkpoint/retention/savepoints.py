"""Epochs with a name, which stay until the name is taken away; forks hold theirs in their base in the same way."""

from __future__ import annotations

import msgspec

from millpond.checkpoint.read.history import History, Point
from millpond.checkpoint.records.manifest import manifest_name
from millpond.checkpoint.records.naming import SAVEPOINT, given_in
from millpond.checkpoint.records.notes import decode_note, encode_note
from millpond.checkpoint.retention.deletionlist import read_lists
from millpond.clock import Clock, SystemClock
from millpond.crashpoints import crashpoint
from millpond.errors import EpochError
from millpond.ids import ManifestHash
from millpond.storage.contract import PutOutcome, Storage

SAVEPOINTS = "savepoints"

FORK_PREFIX = "fork-"
"""How the savepoint begins that a fork holds in its base; its uuid follows."""

_CLOCK = SystemClock()


class Savepoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag="savepoint"):
    """A name for an epoch; `fork` is the address of the fork that needs it, if one does."""

    name: str
    epoch: int
    hash: ManifestHash
    created_ms: int
    fork: str = ""


def savepoints(storage: Storage) -> tuple[Savepoint, ...]:
    """Return all savepoints by name; one that can't be read is an error, since its epoch would be lost without it."""
    return tuple(_read(storage, name) for name in given_in(storage, SAVEPOINTS))


def find_savepoint(storage: Storage, name: str) -> Savepoint:
    """Return the savepoint with a name, or an error that tells which there are."""
    if SAVEPOINT.fullmatch(name) is not None and storage.contains(_file(name)):
        return _read(storage, _file(name))
    there = [file.removeprefix(f"{SAVEPOINTS}/") for file in given_in(storage, SAVEPOINTS)]
    raise EpochError(
        "MP425",
        "there is no such savepoint",
        expected=", ".join(there[:12]) or "none yet",
        found=ascii(name)[:120],
        hint="`millpond state ls` shows them",
    )


def named_point(history: History, savepoint: Savepoint) -> Point:
    """Return the state that a savepoint names; an error if its epoch is not kept, or is another one by now."""
    point = history.point(savepoint.epoch)
    if point.hash == savepoint.hash:
        return point
    raise EpochError(
        "MP413",
        f"the savepoint `{savepoint.name}` does not belong to this timeline",
        expected=f"epoch {savepoint.epoch} with hash {savepoint.hash}",
        found=f"hash {point.hash}",
        hint="the checkpoint went back behind the savepoint, and came here another way: delete the savepoint",
    )


def check_savepoint(history: History, file: str) -> None:
    """Raise unless a savepoint can be read and its epoch is there."""
    named_point(history, _read(history.storage, file))


def add_savepoint(
    storage: Storage, name: str, epoch: int | None = None, *, fork: str = "", clock: Clock = _CLOCK
) -> Savepoint:
    """Name an epoch, by default the newest; it stays until the name is taken away.

    The same name for the same epoch is fine, for another epoch it is an error.
    """
    _check_name(name, fork=bool(fork))
    point = History(storage).point(epoch)
    if point.manifest is None:
        raise EpochError(
            "MP424",
            "this epoch can't have a savepoint or a fork",
            expected="an epoch from 1 on",
            found="the empty state before the first one",
            hint="run the job first; for an empty state, use a new checkpoint",
        )
    wanted = Savepoint(name, point.epoch, point.hash, clock.now_ms(), fork)
    if storage.put(_file(name), encode_note(wanted)) is PutOutcome.PRESENT:
        there = _read(storage, _file(name))
        if (there.epoch, there.hash) != (point.epoch, point.hash):
            raise _taken(there, point)
        wanted = there
    crashpoint("savepoint.named")
    _check_alive(storage, wanted)
    return wanted


def remove_savepoint(storage: Storage, name: str) -> Savepoint:
    """Take a name away; the epoch is kept or deleted as any other from now on."""
    there = find_savepoint(storage, name)
    storage.delete(_file(name))
    return there


def pinned(storage: Storage) -> frozenset[int]:
    """Return the epochs that savepoints hold."""
    return frozenset(savepoint.epoch for savepoint in savepoints(storage))


def _check_alive(storage: Storage, savepoint: Savepoint) -> None:
    """Refuse an epoch that is about to be deleted.

    Whoever deletes lists what is condemned first, and then looks for savepoints. We put ours first, and then look for
    lists: so one of the two sees the other.
    """
    name = manifest_name(savepoint.epoch)
    condemned = any(name in listed.names for listed in read_lists(storage).values())
    if not condemned and storage.contains(name):
        return
    storage.delete(_file(savepoint.name))
    raise EpochError(
        "MP427",
        f"epoch {savepoint.epoch} is being deleted",
        expected="an epoch that is kept",
        found="one that garbage collection deletes",
        hint="choose a newer one; `millpond state ls` shows them, and Durability(keep=Keep(last=...)) keeps more",
    )


def _check_name(name: str, *, fork: bool) -> None:
    if SAVEPOINT.fullmatch(name) is None or name.startswith(FORK_PREFIX) is not fork:
        raise EpochError(
            "MP428",
            "this can't be the name of a savepoint",
            expected="up to 100 letters, digits and . _ = -, not digits alone, and not beginning with `fork-`",
            found=ascii(name)[:120],
            hint='for example "before-upgrade"',
        )


def _taken(there: Savepoint, point: Point) -> EpochError:
    return EpochError(
        "MP428",
        "this can't be the name of a savepoint",
        expected=f"a name that is free, for epoch {point.epoch}",
        found=f"`{there.name}`, which names epoch {there.epoch}",
        hint="choose another name, or delete this one first: `millpond state savepoint CHECKPOINT NAME --delete`",
    )


def _read(storage: Storage, file: str) -> Savepoint:
    found = decode_note(Savepoint, storage.get(file), file)
    if _file(found.name) == file:
        return found
    raise EpochError(
        "MP413",
        f"{file} does not belong where it is",
        expected=f"the savepoint `{file.removeprefix(f'{SAVEPOINTS}/')}`",
        found=f"the savepoint `{found.name[:120]}`",
        hint="a file was moved or renamed inside the checkpoint: put it back, or restore it from a copy",
    )


def _file(name: str) -> str:
    return f"{SAVEPOINTS}/{name}"
