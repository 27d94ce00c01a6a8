"""What every storage backend promises, and which names a file may have."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from pathlib import Path
from typing import Protocol, runtime_checkable
from urllib.parse import quote

from millpond.errors import MissingError, StorageError
from millpond.storage.addresses import shown_url

NAME_CHARS_MAX = 512
PART_CHARS_MAX = 200
"""Below the 255 bytes that common file systems allow, to leave room for what a backend adds."""

_PART = re.compile(rf"[A-Za-z0-9_=-][A-Za-z0-9._=%-]{{0,{PART_CHARS_MAX - 1}}}", re.ASCII)

COMMITS = "manifests/"
"""The folder whose puts are commit points: the crash tests look inside these puts."""

Names = list[str]
"""Named here because a class with a method `list` can't say `list[str]`."""


Span = tuple[int, int]
"""Where bytes begin in a file, and where they end."""


class PutOutcome(Enum):
    """How a put ended: the name was free and is ours, or it was taken."""

    WON = auto()
    PRESENT = auto()


class Storage(Protocol):
    """Bytes under names, each written once. A backend passes `tests/contract/test_storage.py`."""

    @property
    def url(self) -> str:
        """How another process opens the same storage, with `open_storage`."""
        ...

    def put(self, name: str, data: bytes) -> PutOutcome:
        """Store `data` under a free name, whole or not at all.

        On return what stands under the name is durable, also if it is PRESENT and somebody else's. Of several writers
        exactly one wins. If it raises, the data may or may not be there.
        """
        ...

    def get(self, name: str) -> bytes:
        """Return the bytes under a name; `MissingError` if there are none."""
        ...

    def contains(self, name: str) -> bool:
        """Say whether there is something under a name."""
        ...

    def list(self, prefix: str) -> Names:
        """Return all names inside the folder `prefix`, at any depth, sorted; an empty prefix lists everything.

        What others put there is listed too, under names that no put takes, and also if it is no plain file.
        """
        ...

    def delete(self, name: str) -> None:
        """Take a name away if it is there; after a power cut it may be there again."""
        ...


@runtime_checkable
class Witnessed(Protocol):
    """What a storage has that knows by itself how far it was durable, and refuses to be less (`witness.py`)."""

    def accept_rollback(self) -> None:
        """Take what is there for all that there is, on the user's word."""
        ...


@runtime_checkable
class InParts(Protocol):
    """What a storage may also have: parts of a file, for whoever has compared the whole of it before."""

    def get_parts(self, name: str, spans: Sequence[Span]) -> Sequence[bytes]:
        """Return the bytes under a name from one place to another, for each pair of places.

        Fewer only if it ends before.
        """
        ...


@runtime_checkable
class OnTop(Protocol):
    """What a storage has that stands on top of another one: what is put goes there."""

    @property
    def below(self) -> Storage:
        """The storage below."""
        ...


def bottom(storage: Storage) -> Storage:
    """Return the storage that files are put into, without what is on top of it to read from elsewhere."""
    while isinstance(storage, OnTop):
        storage = storage.below
    return storage


def is_name(name: str) -> bool:
    """Say whether this is a relative path of plain parts, as the names of stored files are."""
    return len(name) <= NAME_CHARS_MAX and all(_PART.fullmatch(part) for part in name.split("/"))


def check_name(name: str) -> str:
    """Return the name if it is a relative path of plain parts; anything that could lead elsewhere is refused."""
    if is_name(name):
        return name
    raise StorageError(
        "MP305",
        "this can't be the name of a stored file",
        expected="parts of letters, digits and _ = - . % that do not begin with a dot or a %, joined by /",
        found=ascii(name[:80]),
        hint="names come from Millpond itself; a manifest that names such a file did not",
    )


def inside(prefix: str, names: Iterable[str]) -> Names:
    """Return the names inside the folder `prefix`, sorted; all of them if it is empty."""
    return sorted(name for name in names if name.startswith(f"{prefix}/")) if prefix else sorted(names)


def folder_url(scheme: str, folder: Path) -> str:
    """Return the address of a folder of this machine, whatever characters its path has."""
    return f"{scheme}://{quote(os.fsencode(folder))}"


def missing(name: str, url: str) -> MissingError:
    """Return the error for a name under which nothing is stored."""
    return MissingError(
        "MP304",
        f"{name} is missing",
        expected=f"a file in {shown_url(url)}",
        hint="restore it from a copy of the checkpoint; check that the checkpoint's path is the right one",
    )
