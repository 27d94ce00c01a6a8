"""What the files of programs held when they were imported: what is compiled must be what runs as plain Python."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import FunctionType
from weakref import WeakKeyDictionary

_DIGESTS: WeakKeyDictionary[type, dict[str, bytes]] = WeakKeyDictionary()


def note_files(owner: type) -> None:
    """Remember the files that the methods of a new class are in, as they are now; cells of a notebook are in none."""
    members = (member for base in owner.__mro__ for member in vars(base).values())
    functions = (getattr(member, "__func__", member) for member in members)
    paths = {function.__code__.co_filename for function in functions if isinstance(function, FunctionType)}
    known = {path: digest for base in reversed(owner.__mro__) for path, digest in _DIGESTS.get(base, {}).items()}
    found = {path: _digest(path) for path in paths - known.keys()}
    _DIGESTS[owner] = known | {path: digest for path, digest in found.items() if digest is not None}


def changed_file(owner: type) -> str | None:
    """Return a file of a class that is another since; one that is not where it was is no sign of it."""
    noted = _DIGESTS.get(owner, {})
    return next((path for path, digest in noted.items() if _digest(path) not in (None, digest)), None)


def _digest(path: str) -> bytes | None:
    try:
        return hashlib.blake2b(Path(path).read_bytes(), digest_size=16).digest()
    except (OSError, ValueError):
        return None
