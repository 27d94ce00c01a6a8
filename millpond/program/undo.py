"""All or nothing in plain Python: a call of an entry point that may abort leaves no trace if it does.

While such a call runs, the program's containers are others over the same entries: what is touched is kept as it was
first, what is written stays on top. In the end the changes go into the entries, or what was kept does. The cost goes by
what the call touches, not by what the state holds.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from millpond.errors import Aborted
from millpond.program.ambient import WRITTEN, as_written, names_in
from millpond.state.checked import Checked
from millpond.state.counter import Counter
from millpond.state.element import ElementType
from millpond.state.expiry import Expiring
from millpond.state.map import Map
from millpond.state.matrix import Matrix
from millpond.state.vector import Vector
from millpond.windowing.element import Windows

ABORT: Final = "abort"
"""What a program calls to refuse a row."""

_UNDONE: Final = "__millpond_undone__"
_MISSING: Final = object()


def abort(reason: str) -> NoReturn:
    """Refuse the row that is being worked on."""
    if not isinstance(reason, str):
        raise TypeError(f"self.abort() takes the reason as text, not {type(reason).__name__}")
    raise Aborted(reason)


def wrap_aborting(program: type, mark: str) -> None:
    """Let the entry points of a class that may abort undo what they changed when they do."""
    for name in {name for base in program.__mro__ for name in vars(base)}:
        member = inspect.getattr_static(program, name)
        if getattr(member, mark, False) and not hasattr(member, _UNDONE) and _may_abort(program, name):
            setattr(program, name, _undoing(member))


def _may_abort(program: type, entry: str) -> bool:
    """Whether a method, or one that it may call, names `abort`."""
    seen: set[str] = set()
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name == ABORT:
            return True
        if name not in seen:
            seen.add(name)
            waiting += names_in(inspect.getattr_static(program, name, None))
    return False


def _undoing(function: Any) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with all_or_nothing(self):
            return function(self, *args, **kwargs)

    setattr(call, WRITTEN, as_written(function))
    setattr(call, _UNDONE, True)
    return call


@contextmanager
def all_or_nothing(program: Any) -> Iterator[None]:
    """Let the state of a plain program be as it was if the block raises."""
    held = vars(program)
    elements = type(program).elements()
    aged = [_aged_entries(held[name]) for name, element in elements.items() if element.ttl is not None]
    before = {name: held[name] for name, element in elements.items() if name in held and element.ttl is None}
    for entries in aged:
        entries.begin()
    working = {name: _working(type(program).elements()[name].type, container) for name, container in before.items()}
    held.update((name, container) for name, (container, _) in working.items())
    try:
        yield
    except BaseException:
        for entries in aged:
            entries.undo()
        for _, others in working.values():
            others.undo()
        raise
    else:
        for entries in aged:
            entries.keep()
        for _, others in working.values():
            others.keep()
    finally:
        held.update(before)


def _working(element: ElementType, container: Any) -> tuple[Any, Working]:
    """A container over the entries of another one, and its own entries."""
    below = container if element.is_dict else _entries_of(container)
    entries = _WORKING[element.container if element.is_dict else Map]()
    entries.key_codec, entries.value_codec = element.keys, element.values
    entries.below, entries.first, entries.found = below, {}, 0
    working = element.wrap(entries)
    if isinstance(container, Windows):
        working.clock = container.clock
    return working, entries


def _aged_entries(container: Any) -> Expiring:
    """The entries of a container that expire, which can undo by themselves."""
    entries = container if isinstance(container, Expiring) else container._entries  # noqa: SLF001
    assert isinstance(entries, Expiring)
    return entries


def _entries_of(container: Any) -> Checked:
    entries = container._lines if isinstance(container, Matrix) else container._entries  # noqa: SLF001
    assert isinstance(entries, Checked)
    return entries


class Working(Checked):
    """Entries over others: touched ones are here, and `first` keeps what they were; `found` of them were there."""

    below: Checked
    first: dict[Any, Any]
    found: int

    __slots__ = ("below", "first", "found")

    def _touch(self, key: Any) -> None:
        if key in self.first:
            return
        value = self.below.get(key, _MISSING)
        self.first[key] = _MISSING if value is _MISSING else copy.deepcopy(value)
        if value is not _MISSING:
            self.found += 1
            dict.__setitem__(self, key, value)

    def _touch_all(self) -> None:
        below = self.below
        for key in list(below) if isinstance(below, Working) else list(dict.__iter__(below)):
            self._touch(key)

    def keep(self) -> None:
        """Put what was changed into the entries below."""
        for key in self.first:
            if dict.__contains__(self, key):
                dict.__setitem__(self.below, key, dict.__getitem__(self, key))
            else:
                dict.pop(self.below, key, None)

    def undo(self) -> None:
        """Put what was there first into the entries below: a value that was touched may have been changed in place."""
        for key, value in self.first.items():
            if value is not _MISSING:
                dict.__setitem__(self.below, key, value)

    def __getitem__(self, key: Any) -> Any:
        self._touch(key)
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        """The entry, or `default`."""
        self._touch(key)
        return dict.get(self, key, default)

    def __contains__(self, key: object) -> bool:
        self._touch(key)
        return dict.__contains__(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._touch(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        self._touch(key)
        dict.__delitem__(self, key)

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove and return the entry, or `default`."""
        self._touch(key)
        return dict.pop(self, key, *default)

    def clear(self) -> None:
        """Remove all entries."""
        self._touch_all()
        dict.clear(self)

    def __iter__(self) -> Iterator[Any]:
        self._touch_all()
        return super().__iter__()

    def __len__(self) -> int:
        return len(self.below) - self.found + dict.__len__(self)

    def __eq__(self, other: object) -> bool:
        self._touch_all()
        return dict.__eq__(self, other)

    __hash__ = None  # type: ignore[assignment]


class WorkingCounter(Working, Counter[Any]):
    """Working entries of a counter."""

    __slots__ = ()


class WorkingVector(Working, Vector[Any]):
    """Working entries of a vector."""

    __slots__ = ()


_WORKING: Final[Mapping[type, type[Working]]] = {Map: Working, Counter: WorkingCounter, Vector: WorkingVector}
