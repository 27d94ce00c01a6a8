"""One committed epoch as a follower has it: its elements as tables, and its entry points that change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millpond.checkpoint.read.history import History, Point
from millpond.checkpoint.records.times import is_over
from millpond.front.opened import OpenCheckpoint
from millpond.front.tables import Unit
from millpond.program.program import ProgramBase
from millpond.serve.entrypoints import Answering
from millpond.serve.replica import Held
from millpond.state.local.storekey import store_prefix


class ReplicaGroups:
    """Reads the entries of one element from a follower's copy."""

    def __init__(self, held: Held, index: int, over_us: Mapping[int, int]) -> None:
        self._held, self._index, self._over = held, index, over_us

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a store key; None if there is none, or if its time is over."""
        value = self._held.get(key)
        return None if self._over and is_over(key, value, self._over) else value

    def entries(self, group: int) -> list[Unit]:
        """Return the entries of a key group by store key, ascending."""
        found = self._held.scan(store_prefix(self._index, group))
        return [pair for pair in found if not is_over(*pair, self._over)] if self._over else found

    def close(self) -> None:
        """Leave the copy to its follower."""


class Followed(OpenCheckpoint):
    """The state after one epoch, out of a follower's copy; whoever reads it sees that epoch alone.

    It is used by one reader after the other, or by several at once.
    """

    def __init__(
        self,
        history: History,
        point: Point,
        held: Held,
        program: type[ProgramBase] | None = None,
        answering: Answering | None = None,
    ) -> None:
        self._held = held
        self._answering = answering
        super().__init__(history.storage, program, found=(history, point))

    def _entries(self, index: int) -> ReplicaGroups:
        return ReplicaGroups(self._held, index, self._point.over_us)

    def ask(self, entry: str, /, *arguments: Any, **named: Any) -> Any:
        """Run an entry point that changes nothing, as plain Python on the state of this epoch, and return its reply.

        `self.now` is the time of the epoch. One that changes state is refused (MP882), and leaves nothing.
        """
        return self.answering.ask(self._held, self._point, entry, arguments, named)

    @property
    def answering(self) -> Answering:
        """What runs entry points; without a program there is none (MP881)."""
        if self._answering is None:
            raise Answering.nobody()
        return self._answering
