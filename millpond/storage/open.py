"""From a checkpoint's address to its storage."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from millpond.errors import StorageError
from millpond.storage.contract import Storage
from millpond.storage.files import FileStorage

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def open_storage(url: str) -> Storage:
    """Open the storage at a plain path or a `file://` address; a worker opens the driver's storage by its `url`."""
    path = url if _SCHEME.match(url) is None else _path_of(url)
    if path and "\0" not in path:
        return FileStorage(path)
    raise StorageError(
        "MP311",
        "can't open a storage at this address",
        expected="a path (/data/checkpoint) or a file:// address (file:///data/checkpoint)",
        found=ascii(url[:120]),
        hint="other kinds of storage are not supported: mount them as a file system with hard links",
    )


def _path_of(url: str) -> str | None:
    parts = urlsplit(url)
    ours = parts.scheme == "file" and parts.netloc in {"", "localhost"} and not parts.query and not parts.fragment
    return unquote(parts.path) if ours else None
