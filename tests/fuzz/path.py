"""How a random method walks through state, so that the compiler can give every element one level.

All methods of a program visit groups of elements in one order. A group is under one key in a method; its elements may
be met in any order, and again, until a later group is visited. A loop stays in one group.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.fuzz.kinds import Kind


@dataclass(frozen=True, slots=True)
class Declared:
    """A state element of a random program."""

    name: str
    kind: Kind


Group = tuple[Declared, ...]
"""Elements that every method visits under one key."""


@dataclass(slots=True)
class Visit:
    """A method's visit to a group: the text of its key, or "" until a variable for it is assigned.

    A partial element is either changed where the record is, or `asked` everywhere.
    """

    group: Group
    key: str
    late: bool = False
    asked: bool = False

    @property
    def key_type(self) -> str:
        """The type of the key; "" if the group needs none."""
        return self.group[0].kind.key


@dataclass(slots=True)
class Path:
    """Where a method is on its way. `wild` methods go where they like, so that the compiler has something to refuse.

    While it is `silent`, not even a wild one uses state.
    """

    visits: list[Visit]
    wild: bool = False
    at: int = -1
    usable: bool = False
    touched: bool = False
    silent: bool = False
    _held: int = field(default=0)

    @property
    def current(self) -> Visit | None:
        """The visit whose state may be used now."""
        return self.visits[self.at] if self.usable and self.at >= 0 else None

    @property
    def is_held(self) -> bool:
        """Whether the method can't move on here."""
        return self._held > 0

    def next(self) -> Visit | None:
        """The visit that comes next, if the method may move on here."""
        if self.is_held or self.at + 1 >= len(self.visits):
            return None
        return self.visits[self.at + 1]

    def advance(self) -> None:
        """Move on to the next visit, whose key is known."""
        self.at += 1
        self.usable = True
        self.touched = False

    def leave(self) -> None:
        """Use the current group no longer."""
        self.usable = False

    @contextmanager
    def held(self, *, without_state: bool = False) -> Iterator[None]:
        """Stay in the current group; or use no state at all."""
        usable = self.usable
        self._held += 1
        self.usable = usable and not without_state
        yield
        self._held -= 1
        self.usable = usable

    @contextmanager
    def branches(self) -> Iterator[Branches]:
        """Several ways from here; afterwards the method is where the farthest has come."""
        branches = Branches(self)
        yield branches
        branches.join()


class Branches:
    """The ways that start at one point of a path."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = (path.at, path.usable, path.touched)
        self._ends: list[tuple[int, bool, bool]] = []

    @contextmanager
    def branch(self) -> Iterator[None]:
        """One way. Keys that are assigned on it have no meaning after it."""
        path = self._path
        path.at, path.usable, path.touched = self._start
        bound = [visit.key for visit in path.visits]
        yield
        usable = path.usable
        for place, visit in enumerate(path.visits):
            if visit.late and visit.key != bound[place]:
                visit.key = bound[place]
                usable = usable and place != path.at
        self._ends.append((path.at, usable, path.touched))

    def join(self) -> None:
        """Go on after the ways have met."""
        ends = [*self._ends, self._start]
        farthest = max(at for at, _, _ in ends)
        there = [end for end in self._ends if end[0] == farthest]
        self._path.at = farthest
        self._path.usable = all(usable for _, usable, _ in there) if there else self._start[1]
        self._path.touched = len(there) == len(self._ends) and all(touched for _, _, touched in there)
