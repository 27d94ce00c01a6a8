"""What the disk says while replies are published, as coded errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millpond.errors import StorageError
from millpond.storage.door import DISK_FULL


@contextmanager
def publishing(doing: str, path: Path, passing: type[OSError] | tuple[()] = ()) -> Iterator[None]:
    """Turn what the disk says into a coded error, but for the one answer that the caller wants to judge."""
    try:
        yield
    except passing:
        raise
    except OSError as error:
        code = "MP307" if error.errno in DISK_FULL else "MP308" if doing == "sync" else "MP309"
        raise StorageError(
            code,
            f"can't {doing} {path} while publishing replies",
            found=str(error.strerror or error),
            hint="check the disk and the rights on the sink's folder; the epoch is committed, and a new start goes on "
            "with its publication",
        ) from error
