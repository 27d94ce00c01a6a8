"""One file per key in one folder, as S4 keeps its checkpoints by default: a baseline to measure others against.

It keeps what `contract.py` promises, by the same steps as `files.py`; only the layout is S4's. What S4 itself does,
which writes in place and syncs nothing, is in the benchmarks and can't hold a checkpoint:
`open_storage` says so (MP336).
"""

from __future__ import annotations

from pathlib import Path

from millpond.errors import StorageError
from millpond.storage.addresses import shown_url
from millpond.storage.backends.files import FileStorage
from millpond.storage.contract import Names, check_name, folder_url, inside

_FILE_CHARS_MAX = 200
"""File systems take names of 255 bytes; a longer key is cut into folders."""

_CONTINUED, _CONTINUATION = "=_", "-"


def file_of_key(name: str) -> str:
    """Return the path of a key's file: the key in one part, unless it is too long for that."""
    quoted = name.replace("=", "=3D").replace("/", "=2F")
    parts = [quoted[at : at + _FILE_CHARS_MAX] for at in range(0, len(quoted), _FILE_CHARS_MAX)]
    folders = [part + _CONTINUED for part in parts[:-1]]
    return f"/{_CONTINUATION}".join([*folders, parts[-1]])


def key_of_file(path: str) -> str:
    """Return the key that a file is for: the reverse of `file_of_key`."""
    first, *rest = path.split("/")
    quoted = "".join(part.removesuffix(_CONTINUED) for part in (first, *(each[1:] for each in rest)))
    return quoted.replace("=2F", "/").replace("=3D", "=")


class PerKeyStorage(FileStorage):
    """Staged, synced, linked, like `FileStorage`, with all keys in one folder."""

    @property
    def url(self) -> str:
        """The address of the folder."""
        return folder_url("perkey", self._root)

    def list(self, prefix: str) -> Names:
        """Return all keys inside a folder of keys, sorted."""
        if prefix:
            check_name(prefix)
        return inside(prefix, map(key_of_file, self._walk(self._root)))

    def _path_of(self, name: str) -> Path:
        return self._root / file_of_key(check_name(name))


def not_for_checkpoints(url: str) -> StorageError:
    """Return the error for an address of the faithful variant."""
    return StorageError(
        "MP336",
        "this kind of storage can't hold a checkpoint",
        expected="a storage that keeps what it acknowledged, and in which one of several writers of a name wins",
        found=f"{shown_url(url)}: written in place and never synced, as S4 does",
        hint="use perkey:// for the same layout without its losses; the faithful variant is for measurements only",
    )
