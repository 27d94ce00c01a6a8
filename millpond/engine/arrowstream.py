"""Tables that are kept as Arrow's stream of bytes, read back with care: the bytes may be damaged."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from millpond.errors import StorageError


def read_stream(payload: bytes, nonsense: Callable[[str], StorageError]) -> pa.Table:
    """Return the table in some bytes; raises what `nonsense` makes of the reason if they hold none."""
    try:
        with pa.ipc.open_stream(payload) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise nonsense(str(error)) from error
    return table
