"""What storages share that are not part of Millpond itself: packages that may be missing, servers that may be away."""

from __future__ import annotations

import importlib
from typing import Any

from millpond.errors import StorageError


def need_package(package: str, extra: str) -> Any:
    """Import a package of an extra, or say which extra brings it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise StorageError(
            "MP330",
            f"this storage needs the package {package}",
            found=f"{type(error).__name__}: {error}",
            hint=f"pip install 'millpond[{extra}]', on every machine that runs tasks",
        ) from error


def unreachable(doing: str, url: str, found: str) -> StorageError:
    """Return the error for a server that does not answer, or not with what was asked for."""
    return StorageError(
        "MP331",
        f"can't {doing}",
        expected=f"an answer of {url}",
        found=found,
        hint="check address, network, rights and the server's log, then start again; what was committed is not touched",
    )
