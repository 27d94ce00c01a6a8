"""What the files of programs held when they were imported: what is compiled must be what runs as plain Python."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import FunctionType
from weakref import WeakKeyDictionary

_DIGESTS: WeakKeyDictionary[type, dict[str, bytes]] = WeakKeyDictionary()


def note_files(owner: type) -> None:
    """Remember the files that the methods of a new class are in, as they are now; cells of a notebook are in none."""
    methods = (member for member in vars(owner).values() if isinstance(member, FunctionType))
    digests = {path: _digest(path) for path in {method.__code__.co_filename for method in methods}}
    _DIGESTS[owner] = {path: digest for path, digest in digests.items() if digest is not None}


def is_changed(owner: type, function: FunctionType) -> bool:
    """Whether the file of a method is another since; one that is not where it was is no sign of it."""
    path = function.__code__.co_filename
    now = _digest(path)
    noted = (_DIGESTS[base].get(path) for base in owner.__mro__ if base in _DIGESTS)
    return now is not None and any(digest not in (None, now) for digest in noted)


def _digest(path: str) -> bytes | None:
    try:
        return hashlib.blake2b(Path(path).read_bytes(), digest_size=16).digest()
    except (OSError, ValueError):
        return None
