"""What the row at work has touched in plain Python, so that it can be kept as values or undone as a whole.

A journal belongs to one program, and all its entries know it. A call of an entry point opens a frame; one that is made
by another call opens a frame of its own inside, since it may be undone alone. What a frame notes of an entry is how it
was when the frame first met it.

>>> class Entries(dict):
...     def restore(self, key, first):
...         self[key] = first
>>> journal, entries = Journal(), Entries(a=1)
>>> journal.begin()
>>> journal.note(entries, "a", entries.get)
>>> entries["a"] = 2
>>> journal.undo()
>>> entries
{'a': 1}
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

ABSENT: Final = object()
"""Says that there was no such entry; `None` may be a value."""


class Noted(Protocol):
    """Entries that a journal can restore."""

    def restore(self, key: Any, first: Any) -> None:
        """Make an entry what a journal noted of it."""
        ...

    def end_row(self, key: Any) -> None:
        """Make a value of an entry that a row touched."""
        ...


class Framed(Protocol):
    """Entries that note by themselves what they were."""

    def begin(self) -> None:
        """Begin to note."""
        ...

    def end_rows(self) -> None:
        """Make values of all entries that were noted."""
        ...

    def keep(self) -> None:
        """Let what was changed since `begin` stay."""
        ...

    def undo(self) -> None:
        """Restore what was there at `begin`."""
        ...


Frame = dict[tuple[int, Any], tuple[Noted, Any]]


class Journal:
    """The frames of the row at work, the outermost first; there are none between two rows."""

    __slots__ = ("_framed", "_frames")

    def __init__(self) -> None:
        self._frames: list[Frame] = []
        self._framed: list[Framed] = []

    def also(self, entries: Framed) -> None:
        """Let entries take part that note by themselves what they were."""
        self._framed.append(entries)

    @property
    def in_row(self) -> bool:
        """Whether a row is at work."""
        return bool(self._frames)

    def note(self, entries: Noted, key: Any, first: Any) -> None:
        """Note what an entry is, unless the frame knows it; `first` is called if it does not."""
        frame = self._frames[-1]
        mark = (id(entries), key)
        if mark not in frame:
            frame[mark] = entries, first(key)

    def begin(self) -> None:
        """Open a frame."""
        self._frames.append({})
        for entries in self._framed:
            entries.begin()

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Keep what the block changes if it comes to its end, and else nothing of it."""
        self.begin()
        try:
            yield
            self.keep()
        except BaseException:
            self.undo()
            raise

    def keep(self) -> None:
        """Close a frame whose changes stay; with the outermost, all that was touched becomes values."""
        frame = self._frames[-1]
        if len(self._frames) == 1:
            # First, since a misfit is an error of the row, which is then undone.
            self.end_row()
        self._frames.pop()
        if self._frames:
            self._frames[-1] = frame | self._frames[-1]
        for framed in self._framed:
            framed.keep()

    def end_row(self) -> None:
        """Make values of all that was touched in the innermost frame."""
        for (_, key), (entries, _) in self._frames[-1].items():
            entries.end_row(key)
        for framed in self._framed:
            framed.end_rows()

    def undo(self) -> None:
        """Close a frame, and restore all that it met."""
        for (_, key), (entries, first) in self._frames.pop().items():
            entries.restore(key, first)
        for framed in self._framed:
            framed.undo()
