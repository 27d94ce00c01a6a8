"""A new checkpoint that begins at an epoch of another one, without copying it.

A fork has a genesis of its own, so that its timeline and its local stores are never taken for those of its base, and
one manifest, that of the epoch it begins at, with the same state. What that manifest names is read from the base
(`storage/composed/layered.py`), where a savepoint holds it as long as the fork is there. The stream's place is not
taken over: the first batch of any query is the fork's first one. Bounded runs and loads up to there count as done.

In order: the savepoint in the base, the file that names the base, the manifest, the genesis. A fork without a genesis
is none: whoever dies before that leaves a folder that nobody opens. Whoever fails takes the savepoint back.

Neither may lie inside the other: what is collected in the outer one could be the inner's.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from msgspec.structs import replace

from millpond.checkpoint.read.history import History, Point
from millpond.checkpoint.records.heads import Heads
from millpond.checkpoint.records.manifest import (
    EPOCH_DIGITS,
    FORMAT,
    GENESIS_NAME,
    Ancestor,
    Genesis,
    Manifest,
    decode_genesis,
    encode_genesis,
    encode_manifest,
    manifest_hash,
)
from millpond.checkpoint.records.offers import Forked
from millpond.checkpoint.recovery import read_genesis
from millpond.checkpoint.retention.reachable import names_of
from millpond.checkpoint.retention.savepoints import (
    FORK_PREFIX,
    Savepoint,
    add_savepoint,
    find_savepoint,
    named_point,
    remove_savepoint,
)
from millpond.clock import Clock, SystemClock
from millpond.crashpoints import crashpoint
from millpond.errors import EpochError, MillpondError, StateError
from millpond.ids import ManifestHash
from millpond.storage.addresses import shown_url
from millpond.storage.composed.elements import SCHEME as ELEMENTS
from millpond.storage.composed.layered import BASE_NAME, Base, LayeredStorage, encode_base
from millpond.storage.composed.spread import SCHEME as SPREAD
from millpond.storage.content import get_content
from millpond.storage.contract import PutOutcome, Storage
from millpond.storage.open import folder_of, forks, holds_password, open_storage, roots_of

Told = Callable[[int], None]
Begun = Callable[[int], Told]
"""Is told how many bytes there are to copy, and gives what is told of each file."""

_CLOCK = SystemClock()
_EMPTY = "a place where nothing is"


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork that was made: where, from what, and whether it needs its base."""

    url: str = field(repr=False)
    uuid: str
    base: str = field(repr=False)
    epoch: int
    hash: ManifestHash
    copied: bool
    files: int
    size_bytes: int


def fork(
    source: str | Path,
    new: str | Path,
    epoch: int | str | None = None,
    *,
    copy: bool = False,
    clock: Clock = _CLOCK,
    begun: Begun = lambda _size_bytes: lambda _read_bytes: None,
) -> Fork:
    """Make a new checkpoint that begins at an epoch of another one: a number, the name of a savepoint, or the newest.

    With `copy`, its files are copied, and nothing is written to the source; without, they are read from there for as
    long as the new checkpoint names them, so the source must stay. Give `new` to `Program.on(checkpoint=...)`.
    """
    base = open_storage(str(source))
    if overlap(places_behind(base), places_of(str(new))):
        found = f"{shown_url(str(new))}, and {shown_url(base.url)}, one inside the other, or the base of one"
        raise _unfit_place("a place outside the source", found, "choose another one")
    target = open_storage(str(new))
    point = point_of(History(base), epoch)
    manifest = _fit(base, point)
    if not copy and not forks(str(new)):
        raise _unfit_place("a folder, log:// or perkey://", shown_url(target.url), "copy it: copy=True, or --copy")
    if not copy and holds_password(base.url):
        hint = "leave the password to MILLPOND_REDIS_PASSWORD; or copy it: copy=True, or --copy"
        raise _unfit_place("a source whose address may be written down", shown_url(base.url), hint)
    if target.list(""):
        raise _unfit_place(_EMPTY, f"files in {shown_url(target.url)}", "choose another one")
    origin = History(base).genesis
    lineage = (*origin.lineage, Ancestor(origin.uuid, point.epoch))
    genesis = replace(origin, format=FORMAT, uuid=str(uuid.uuid4()), created_ms=clock.now_ms(), lineage=lineage)
    states = (*manifest.snapshot, *(state for delta in manifest.deltas for state in delta.files))
    sizes = {state.file.name: state.file.size_bytes for state in states}
    if copy:
        _copy(base, target, point, begun(sum(sizes.values())))
        _begin(target, genesis, manifest, origin.uuid)
    else:
        with _held(base, target, genesis, point, clock):
            about = Base(base.url, origin.uuid, point.epoch, point.hash)
            if target.put(BASE_NAME, encode_base(about)) is PutOutcome.PRESENT:
                raise _unfit_place(_EMPTY, "another fork, made at the same time", "choose another one")
            crashpoint("fork.based")
            _begin(target, genesis, manifest, origin.uuid)
    return Fork(target.url, genesis.uuid, base.url, point.epoch, point.hash, copy, len(sizes), sum(sizes.values()))


def point_of(history: History, which: int | str | None) -> Point:
    """Return the state after an epoch, given by its number, by a savepoint or not at all."""
    if not isinstance(which, str):
        return history.point(which)
    if which.isascii() and which.isdecimal():
        # Python reads no numbers of thousands of digits, and no epoch has more than ten.
        digits = which.lstrip("0")[: EPOCH_DIGITS + 1]
        return history.point(int(digits or "0"))
    return named_point(history, find_savepoint(history.storage, which))


def forget_fork(storage: Storage, savepoint: Savepoint) -> None:
    """Take away the savepoint of a fork that is gone; one that is there still needs it."""
    try:
        there = read_genesis(open_storage(savepoint.fork))
    except MillpondError:
        there = None
    if there is not None and savepoint.name == f"{FORK_PREFIX}{there[0].uuid}":
        raise StateError(
            "MP248",
            "a fork still reads its files from here",
            expected="a fork that is gone",
            found=shown_url(savepoint.fork),
            hint="remove the fork first; or fork it once more with --copy, and go on with the copy",
        )
    remove_savepoint(storage, savepoint.name)


def _fit(base: Storage, point: Point) -> Manifest:
    manifest = point.manifest
    if manifest is None:
        raise _unfit_epoch("an epoch from 1 on", "the empty state before the first one", "use a new checkpoint")
    if manifest.pending:
        found = f"epoch {point.epoch}, which left messages for the next one"
        raise _unfit_epoch("an epoch that ends its batch", found, "choose the next epoch, or one before")
    for state in point.files():
        if not base.contains(state.file.name):
            found = f"no {state.file.name}, which epoch {point.epoch} needs"
            hint = "choose another epoch; changes that are only logged (durability replay) must be in a snapshot first"
            raise _unfit_epoch("every file of the state", found, hint)
    return manifest


def _copy(base: Storage, target: Storage, point: Point, told: Told) -> None:
    """Copy what a manifest names; what the epoch needs is looked at on the way, so that no damage is copied unseen."""
    assert point.manifest is not None, point.epoch
    needed = {state.file.name: state.file for state in point.files()}
    for name in sorted(names_of(point.manifest)):
        if base.contains(name):
            data = get_content(base, needed[name]) if name in needed else base.get(name)
            target.put(name, data)
            crashpoint("fork.copied")
            told(len(data))


@contextmanager
def _held(base: Storage, target: Storage, genesis: Genesis, point: Point, clock: Clock) -> Iterator[None]:
    """Hold an epoch in the base for a fork while it is made, and after that; not if making it fails."""
    name = f"{FORK_PREFIX}{genesis.uuid}"
    try:
        add_savepoint(base, name, point.epoch, fork=target.url, clock=clock)
        crashpoint("fork.held")
        yield
    except BaseException:
        with suppress(MillpondError):
            if not _is_there(target, genesis):
                remove_savepoint(base, name)
        raise


def _is_there(target: Storage, genesis: Genesis) -> bool:
    """Say whether a fork is there although making it failed: a put that raises may have been done."""
    return target.contains(GENESIS_NAME) and decode_genesis(target.get(GENESIS_NAME)).uuid == genesis.uuid


def _begin(target: Storage, genesis: Genesis, manifest: Manifest, base_uuid: str) -> None:
    """Write the first manifest, and then the genesis: it is a checkpoint from that put on."""
    born = encode_genesis(genesis)
    # Epoch 1 stands on the genesis, and that is another one now.
    root = manifest_hash(born)
    deltas = tuple(replace(delta, parent=root) if delta.epoch == 1 else delta for delta in manifest.deltas)
    first = replace(
        manifest,
        format=FORMAT,
        checkpoint=genesis.uuid,
        parent=deltas[-1].parent,
        deltas=deltas,
        offer=Forked(base_uuid),
        # What the base published is not published again, and the stream goes on with the base.
        outputs=(),
        stream=None,
        # All that was near a host is in the checkpoint as a whole, or the epoch had not been fit.
        saves=(),
    )
    mine = target.put(first.name, encode_manifest(first)) is PutOutcome.WON
    if mine:
        Heads(target).note(first.epoch, manifest_hash(encode_manifest(first)))
    crashpoint("fork.begun")
    if not mine or target.put(GENESIS_NAME, born) is PutOutcome.PRESENT:
        raise _unfit_place(_EMPTY, "another checkpoint, made at the same time", "choose another one")


def _unfit_epoch(expected: str, found: str, hint: str) -> EpochError:
    return EpochError("MP424", "this epoch can't have a savepoint or a fork", expected=expected, found=found, hint=hint)


def _unfit_place(expected: str, found: str, hint: str) -> EpochError:
    return EpochError("MP423", "a fork can't be made here", expected=expected, found=found, hint=hint)


Place = tuple[str, PurePosixPath]
"""A machine or a bucket, and a folder there, with no links on the way."""

_OBJECTS = ("s3://", "gs://", "az://")


def places_of(url: str) -> list[Place]:
    """Return the folders in which the storage at an address keeps its files; none if it keeps them in none."""
    if url.lower().startswith((f"{SPREAD}://", f"{ELEMENTS}://")):
        return [place for root in roots_of(url) for place in places_of(root)]
    folder = folder_of(url)
    if folder is not None:
        return [("", PurePosixPath(os.path.realpath(folder)))]
    if url.lower().startswith(_OBJECTS):
        parts = urlsplit(url)
        return [(f"{parts.scheme}://{parts.netloc}?{parts.query}", PurePosixPath("/", parts.path.strip("/")))]
    return []


def places_behind(storage: Storage) -> list[Place]:
    """Return the places of a storage and of all its bases."""
    found = places_of(storage.url)
    while isinstance(storage, LayeredStorage):
        storage = storage.behind
        found += places_of(storage.url)
    return found


def overlap(some: Iterable[Place], others: Iterable[Place]) -> bool:
    """Say whether one of some places lies inside one of others, or is it, or the other way round."""
    found = list(others)
    return any(
        machine == another and (folder.is_relative_to(outer) or outer.is_relative_to(folder))
        for machine, folder in some
        for another, outer in found
    )
