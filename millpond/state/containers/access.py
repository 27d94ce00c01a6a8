"""What each operation of a container does to state: which key it touches, and whether it may change something.

The compiler classifies every access by these tables; a method that a table does not name is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: `keyed` if its first argument is (or holds) the key, `writes` if it may change the container.

    `axis` names the only direction of a matrix in which the operation stays under one key ("row", "column"), or "".
    `shares` is true when the result may be the stored object itself, so that changing it changes the state.
    """

    keyed: bool
    writes: bool
    axis: str = ""
    shares: bool = False


READ_KEY = Operation(keyed=True, writes=False)
READ_VALUE = Operation(keyed=True, writes=False, shares=True)
WRITE_KEY = Operation(keyed=True, writes=True)
TAKE_KEY = Operation(keyed=True, writes=True, shares=True)
READ_ALL = Operation(keyed=False, writes=False)
READ_VALUES = Operation(keyed=False, writes=False, shares=True)
WRITE_ALL = Operation(keyed=False, writes=True)

MAP_OPERATIONS: Mapping[str, Operation] = {
    "__getitem__": READ_VALUE,
    "__setitem__": WRITE_KEY,
    "__delitem__": WRITE_KEY,
    "__contains__": READ_KEY,
    "get": READ_VALUE,
    "setdefault": TAKE_KEY,
    "pop": TAKE_KEY,
    "__iter__": READ_ALL,
    "__len__": READ_ALL,
    "keys": READ_ALL,
    "values": READ_VALUES,
    "items": READ_VALUES,
    "update": WRITE_ALL,
    "clear": WRITE_ALL,
}
"""Operations of everything that looks like a dict."""
