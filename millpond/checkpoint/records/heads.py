"""Notes of the newest committed epoch, apart from the manifests: so that a lost manifest is missed.

A checkpoint whose newest manifests are gone looks as if they had never been put, and one without any like a new one. So
after a manifest was put, and before anybody is told, a note is put that has the epoch and the manifest's hash in its
name. The newest note never tells of more than was committed: a death between the two puts leaves a manifest without its
note, which the next start adds. A note without its manifest says that the manifest is lost (MP457).

Whoever compares looks for notes first and for manifests after that: then another driver that commits meanwhile is seen
with its manifest or not at all. Only the newest note counts; a few more are kept, older ones are deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from millpond.checkpoint.records.manifest import EPOCH_DIGITS
from millpond.checkpoint.records.naming import HEADS, given_in
from millpond.checkpoint.records.notes import decode_note, encode_note
from millpond.crashpoints import crashpoint
from millpond.ids import ManifestHash
from millpond.storage.content import NAME_DIGITS
from millpond.storage.contract import Storage

KEPT = 4
"""How many notes stay: one is enough, and some more cost nothing."""


class CommittedHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="head"):
    """An epoch was committed by the manifest with this hash."""

    epoch: int
    hash: str


@dataclass(frozen=True, slots=True, order=True)
class NotedHead:
    """What the name of a note tells."""

    epoch: int
    digits: str
    name: str

    def is_of(self, digest: str) -> bool:
        """Say whether the note speaks of the manifest with this hash."""
        return digest.startswith(self.digits)


def noted_heads(storage: Storage) -> list[NotedHead]:
    """Return the notes that there are, ascending."""
    return sorted(map(_read_name, given_in(storage, HEADS)))


def newest_head(storage: Storage) -> NotedHead | None:
    """Return what is noted of the newest epoch; None if nothing ever was."""
    heads = noted_heads(storage)
    return heads[-1] if heads else None


def head_name(epoch: int, digest: str) -> str:
    """Return the name of the note of an epoch."""
    return f"{HEADS}/{epoch:0{EPOCH_DIGITS}}-{digest[:NAME_DIGITS]}"


def read_head(storage: Storage, head: NotedHead) -> CommittedHead:
    """Return what a note holds."""
    return decode_note(CommittedHead, storage.get(head.name), head.name)


class Heads:
    """The notes that one driver makes."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._there: list[NotedHead] | None = None

    def note(self, epoch: int, digest: ManifestHash) -> None:
        """Note that an epoch is committed, durable on return, and forget old notes."""
        name = head_name(epoch, digest)
        self._storage.put(name, encode_note(CommittedHead(epoch, digest)))
        crashpoint("head.noted")
        there = noted_heads(self._storage) if self._there is None else self._there
        there = sorted({*there, _read_name(name)})
        for old in there[:-KEPT]:
            self._storage.delete(old.name)
            crashpoint("head.forgotten")
        self._there = there[-KEPT:]


def _read_name(name: str) -> NotedHead:
    digits, _, digest = name.removeprefix(f"{HEADS}/").partition("-")
    return NotedHead(int(digits), digest, name)
