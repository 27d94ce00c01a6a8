"""One file per key in one folder, as S4 keeps its checkpoints by default: a baseline to measure others against.

Two variants. The safe one keeps what `contract.py` promises, by the same steps as `files.py`; only the layout is S4's.
The faithful one does what S4 does: it opens the file under its final name, writes and closes it, and syncs nothing. So
a reader may see half of a value, a process that dies leaves half of it under the name for ever, and a power cut may
take away what was acknowledged. It can't hold a checkpoint, and `open_storage` says so (MP336).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from millpond.errors import StorageError
from millpond.storage.addresses import shown_url
from millpond.storage.backends.files import FileStorage
from millpond.storage.contract import Names, PutOutcome, check_name, folder_url, inside, missing
from millpond.storage.diskerrors import coded

_FILE_CHARS_MAX = 200
"""File systems take names of 255 bytes; a longer key is cut into folders."""

_CONTINUED, _CONTINUATION = "=_", "-"


def file_of_key(name: str) -> str:
    """The path of a key's file: the key in one part, unless it is too long for that."""
    quoted = name.replace("=", "=3D").replace("/", "=2F")
    parts = [quoted[at : at + _FILE_CHARS_MAX] for at in range(0, len(quoted), _FILE_CHARS_MAX)]
    folders = [part + _CONTINUED for part in parts[:-1]]
    return f"/{_CONTINUATION}".join([*folders, parts[-1]])


def key_of_file(path: str) -> str:
    """The key that a file is for: the reverse of `file_of_key`."""
    first, *rest = path.split("/")
    quoted = "".join(part.removesuffix(_CONTINUED) for part in (first, *(each[1:] for each in rest)))
    return quoted.replace("=2F", "/").replace("=3D", "=")


class PerKeyStorage(FileStorage):
    """The safe variant: staged, synced, linked, like `FileStorage`, with all keys in one folder."""

    @property
    def url(self) -> str:
        """The address of the folder."""
        return folder_url("perkey", self._root)

    def list(self, prefix: str) -> Names:
        """All keys inside a folder of keys, sorted."""
        if prefix:
            check_name(prefix)
        return inside(prefix, map(key_of_file, self._walk(self._root)))

    def _path_of(self, name: str) -> Path:
        return self._root / file_of_key(name)


class FaithfulPerKeyStorage:
    """The variant of S4: written in place and never synced, so it can lose and tear what it acknowledged."""

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root).absolute()

    @property
    def url(self) -> str:
        """The address of the folder; `open_storage` refuses it."""
        return folder_url("perkey+faithful", self._root)

    def put(self, name: str, data: bytes) -> PutOutcome:
        """Write `data` under a free name, in place: neither whole nor durable if anything happens meanwhile."""
        path = self._root / file_of_key(check_name(name))
        with coded("write", name):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with path.open("xb") as file:
                    file.write(data)
            except FileExistsError:
                return PutOutcome.PRESENT
        return PutOutcome.WON

    def get(self, name: str) -> bytes:
        """Return the bytes under a name: half of them, if a writer died."""
        try:
            with coded("read", name, FileNotFoundError):
                return (self._root / file_of_key(check_name(name))).read_bytes()
        except FileNotFoundError:
            raise missing(name, self.url) from None

    def contains(self, name: str) -> bool:
        """Whether there is something under a name."""
        return (self._root / file_of_key(check_name(name))).is_file()

    def list(self, prefix: str) -> Names:
        """All keys inside a folder of keys, sorted."""
        if prefix:
            check_name(prefix)
        return inside(prefix, self._keys())

    def delete(self, name: str) -> None:
        """Take a name away if it is there."""
        with suppress(FileNotFoundError), coded("delete", name, FileNotFoundError):
            (self._root / file_of_key(check_name(name))).unlink()

    def _keys(self) -> Iterator[str]:
        with coded("list", str(self._root)):
            for path in self._root.rglob("*"):
                if path.is_file():
                    yield key_of_file(path.relative_to(self._root).as_posix())


def not_for_checkpoints(url: str) -> StorageError:
    """Return the error for an address of the faithful variant."""
    return StorageError(
        "MP336",
        "this kind of storage can't hold a checkpoint",
        expected="a storage that keeps what it acknowledged, and in which one of several writers of a name wins",
        found=f"{shown_url(url)}: written in place and never synced, as S4 does",
        hint="use perkey:// for the same layout without its losses; the faithful variant is for measurements only",
    )
