"""One file per key as S4 writes it: opened under its final name, written and closed, and never synced.

So a reader may see half of a value, a process that dies leaves half of it under the name for ever, and a power cut may
take away what was acknowledged. It is here to be measured, and can't hold a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from millpond.storage.backends.perkey import file_of_key, key_of_file
from millpond.storage.contract import Names, PutOutcome, check_name, folder_url, inside, missing
from millpond.storage.door import coded


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
