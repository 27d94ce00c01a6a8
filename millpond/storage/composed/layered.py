"""Storages on top of others: a fork reads from its base what it lacks, and a trial run changes nothing.

A fork is a checkpoint with a file `base`, which holds the address of another checkpoint. Files that are named by their
content are looked for there too; everything else is the fork's own. Nothing is ever written to or deleted from the
base. Bytes of a base are believed no more than others: who reads them compares them with the hash in a manifest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

import msgspec

from millpond.errors import MissingError, StorageError
from millpond.storage.addresses import shown_url
from millpond.storage.content import NAME_DIGITS
from millpond.storage.contract import Names, PutOutcome, Storage, check_name, inside, missing
from millpond.storage.frame import FrameKind, seal, unseal

BASE_NAME = "base"

_CONTENT = re.compile(rf"(.*/)?[0-9a-f]{{{NAME_DIGITS}}}(-[0-9]+)?")
"""The names that are looked for in the base: those of content, and of its parts."""

DEPTH_MAX = 64
"""Forks of forks; a longer chain is one that comes back to itself."""


class Base(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="base"):
    """Where a fork began: the address and the uuid of its base, and the epoch with its hash."""

    url: str
    uuid: str
    epoch: int
    hash: str


def encode_base(base: Base) -> bytes:
    """Return the bytes of the file that makes a checkpoint a fork."""
    return seal(FrameKind.MERGED, msgspec.json.encode(base, order="sorted"))


def read_base(storage: Storage) -> Base | None:
    """Return what a fork says of its base; None if this is no fork."""
    if not storage.contains(BASE_NAME):
        return None
    payload = unseal(FrameKind.MERGED, storage.get(BASE_NAME), BASE_NAME)
    try:
        return msgspec.json.decode(payload, type=Base)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _strange(str(error)[:200]) from error


class LayeredStorage:
    """A fork: its own storage, and behind it that of its base, which is opened when it is needed first."""

    def __init__(self, own: Storage, base: Base, opener: Callable[[str], Storage]) -> None:
        self.below = own
        self._base = base
        self._opener = opener
        self._behind: Storage | None = None

    @property
    def url(self) -> str:
        """The fork's own address: whoever opens it finds the base again."""
        return self.below.url

    def put(self, name: str, data: bytes) -> PutOutcome:
        """Store `data` in the fork, whatever the base has."""
        return self.below.put(name, data)

    def get(self, name: str) -> bytes:
        """Return the bytes under a name, from the base if the fork has none."""
        try:
            return self.below.get(name)
        except MissingError:
            if not _CONTENT.fullmatch(name):
                raise
        with suppress(MissingError):
            return self.behind.get(name)
        raise missing(name, f"{shown_url(self.below.url)}, nor in its base {shown_url(self._base.url)}")

    def contains(self, name: str) -> bool:
        """Say whether there is something under a name, here or in the base."""
        return self.below.contains(name) or (_CONTENT.fullmatch(name) is not None and self.behind.contains(name))

    def list(self, prefix: str) -> Names:
        """Return the fork's own names."""
        return self.below.list(prefix)

    def delete(self, name: str) -> None:
        """Take one of the fork's own names away."""
        self.below.delete(name)

    @property
    def behind(self) -> Storage:
        """The storage of the base, which may be a fork itself."""
        if self._behind is None:
            behind = self._opener(self._base.url)
            if _depth(behind, {self.below.url}) > DEPTH_MAX:
                raise _strange("a chain of bases without an end")
            self._behind = behind
        return self._behind


def layered(storage: Storage, opener: Callable[[str], Storage]) -> Storage:
    """Return the storage as it is, or with its base behind it if it is a fork's."""
    base = read_base(storage)
    return storage if base is None else LayeredStorage(storage, base, opener)


def _depth(storage: Storage, seen: set[str]) -> int:
    depth = 0
    while isinstance(storage, LayeredStorage):
        if storage.url in seen:
            return DEPTH_MAX + 1
        seen.add(storage.url)
        depth += 1
        storage = storage._opener(storage._base.url)  # noqa: SLF001 - its own kind
    return depth + (DEPTH_MAX if storage.url in seen else 0)


def _strange(found: str) -> StorageError:
    return StorageError(
        "MP312",
        f"{BASE_NAME} can't be understood",
        expected="the address of the checkpoint that this one was forked from",
        found=found,
        hint="run the version of Millpond that wrote the checkpoint, or a newer one",
    )


class TrialStorage:
    """A storage as it would be: what is put and deleted is remembered here, and the one below is not changed."""

    def __init__(self, below: Storage) -> None:
        self.below = below
        self._put: dict[str, bytes] = {}
        self.deleted: set[str] = set()

    @property
    def url(self) -> str:
        """The address of the storage below."""
        return self.below.url

    def put(self, name: str, data: bytes) -> PutOutcome:
        """Remember `data` under a free name."""
        if self.contains(check_name(name)):
            return PutOutcome.PRESENT
        self._put[name] = bytes(data)
        return PutOutcome.WON

    def get(self, name: str) -> bytes:
        """Return the bytes that would be there."""
        if name in self._put:
            return self._put[name]
        if name in self.deleted:
            raise missing(name, self.url)
        return self.below.get(name)

    def contains(self, name: str) -> bool:
        """Say whether there would be something under a name."""
        return name in self._put or (name not in self.deleted and self.below.contains(name))

    def list(self, prefix: str) -> Names:
        """Return all names that there would be inside a folder, sorted."""
        below = [name for name in self.below.list(prefix) if name not in self.deleted]
        return sorted({*below, *inside(prefix, self._put)})

    def delete(self, name: str) -> None:
        """Remember that a name is taken away."""
        self._put.pop(name, None)
        self.deleted.add(name)
