"""The base class of programs: collects declarations and entry points, and runs them as plain Python."""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

from millpond.errors import ProgramError
from millpond.program.declare import Element
from millpond.program.entries import MARK, EntryPoint, entry_points
from millpond.program.evolution import check_dropped
from millpond.program.semantics.ambient import RowClock, now_of, random_of
from millpond.program.semantics.row_random import RowRandom
from millpond.program.semantics.rows import JOURNAL, abort, wrap_entries
from millpond.program.semantics.written import note_files
from millpond.state.journal import Journal
from millpond.state.local.storekey import ELEMENTS_MAX


class ProgramBase:
    """The plain half of a program: what it declares, and an instance that runs it as ordinary sequential Python."""

    _elements: ClassVar[Mapping[str, Element]] = MappingProxyType({})
    _dropped: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, *, dropped: tuple[str, ...] = (), **options: Any) -> None:
        super().__init_subclass__(**options)
        elements: dict[str, Element] = {}
        for base in reversed(cls.__mro__):
            for name, member in vars(base).items():
                elements.pop(name, None)
                if isinstance(member, Element):
                    elements[name] = member.in_program(cls)
        if len(elements) > ELEMENTS_MAX:
            raise ProgramError(
                "MP107",
                f"{cls.__name__} has too many state elements",
                expected=f"at most {ELEMENTS_MAX}",
                found=str(len(elements)),
                hint="put some of them together, e.g. as fields of the values of one Map",
            )
        cls._elements = MappingProxyType(elements)
        cls._dropped = check_dropped(dropped, elements)
        note_files(cls)
        wrap_entries(cls, MARK)

    def __init__(self, **settings: Any) -> None:
        """Begin with empty state. A program without an `__init__` of its own takes its constants as settings."""
        for name, value in settings.items():
            if not is_constant(type(self), name):
                raise TypeError(f"{type(self).__name__} has no setting {name!r}")
            setattr(self, name, value)
        journal = vars(self)[JOURNAL] = Journal()
        for name, element in type(self)._elements.items():  # noqa: SLF001
            clock = RowClock(self)
            vars(self)[name] = element.plain(journal, clock, clock.turn)

    @classmethod
    def elements(cls) -> Mapping[str, Element]:
        """Return the program's state elements by name, in the order of their declaration."""
        return cls._elements

    @classmethod
    def entries(cls) -> Mapping[str, EntryPoint]:
        """Return the program's entry points by name, in the order of their definition."""
        return entry_points(cls)

    @property
    def now(self) -> datetime.datetime:
        """The time of the row, in UTC: its event time if its feed has one, else one moment for all rows of an epoch.

        In plain Python it is the system's time, one moment per call of an entry point; `epoch_time` and `event_time`
        set another.
        """
        return now_of(self)

    @property
    def random(self) -> RowRandom:
        """Random numbers that follow from the row: the entry point and its arguments.

        It has all that `random.Random` has, and gives the same numbers when the row is run again, anywhere.
        """
        return random_of(self)

    def abort(self, reason: str) -> NoReturn:
        """Refuse the row: all that the call changed is undone, and the reason is the answer.

        In plain Python the caller gets an `Aborted`; on Spark the replies have a column `aborted` with the reason.
        """
        abort(reason)


def is_constant(program: type[ProgramBase], name: str) -> bool:
    """Return whether a class has a value of this name that is no state, no method, and no part of every program."""
    member = inspect.getattr_static(program, name, None)
    kinds = (Element, property, staticmethod, classmethod)
    ours = name.startswith("_") or hasattr(ProgramBase, name)
    return member is not None and not ours and not isinstance(member, kinds) and not callable(member)


def dropped_elements(program: type[ProgramBase]) -> tuple[str, ...]:
    """Return the names of elements that a program had and gives up, with their state.

    Not a method, since a program may have an element or an entry point of any such name.
    """
    return program._dropped  # noqa: SLF001
