"""Objects as the compiler tells them apart: by where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

STATE: Final = "state"
COLUMN: Final = "column"
MADE: Final = "made"
OUTER: Final = "outer"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Obj:
    """An object: where it comes from (an element, a column, an instruction), and its type if it was not made here.

    Of state, `key` is the key as written, and `asked` says that it came by each().
    """

    kind: str
    name: str
    at: int = -1
    hint: Any = None
    key: str = ""
    asked: bool = False

    @property
    def root(self) -> tuple[str, str, int]:
        """What it has in common with its parts, as far as these have no origin of their own."""
        return self.kind, self.name, self.at


Objs = dict[Obj, bool]
"""Objects, and whether it is sure that one of them may be meant."""
