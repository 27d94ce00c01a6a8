"""Settings of a program: values that are chosen when it is started, and stay the same for all rows.

They are the parameters of its `__init__`, or without one the constants of its class. What `__init__` leaves in `self`
becomes constants of a subclass, which is compiled, shipped and run as any program is: so every way to run sees one and
the same value, and rows may read it but not change it.

>>> from millpond import Counter, Partitioned, Program, entry
>>> class Alarm(Program):
...     seen = Partitioned(Counter[str])
...
...     def __init__(self, limit: int = 3) -> None:
...         super().__init__()
...         self.limit = limit
...
...     @entry
...     def hit(self, name: str) -> bool:
...         self.seen[name] += 1
...         return self.seen[name] >= self.limit
>>> Alarm(limit=1).hit("ann"), configured(Alarm, {"limit": 2}).limit
(True, 2)
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from types import MappingProxyType, new_class
from typing import Any, Final, cast

from millpond.errors import FeedError
from millpond.program.program import ProgramBase, dropped_elements, is_constant
from millpond.program.semantics.rows import JOURNAL
from millpond.state.codec.canonical import UNFIT, encode_canonical
from millpond.state.codec.shown import shown
from millpond.state.copying import copied

SETTINGS: Final = "_millpond_settings"
"""The attribute of a class that has been given its settings: their values by name."""

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


def configured(program: type[ProgramBase], settings: Mapping[str, Any] | None = None) -> type[ProgramBase]:
    """Return a program with its settings: a class whose constants they are; one that was given them stays as it is.

    MP533 if they are not those that the program takes, MP534 if a value has no stored form, MP535 if `__init__` does
    more than set them.
    """
    if SETTINGS in vars(program):
        if settings:
            raise FeedError(
                "MP533",
                f"{program.__name__} has its settings already",
                expected="settings= once",
                found=", ".join(sorted(settings)),
                hint="give all of them at once, to the class as it is written",
            )
        return program
    if not settings and program.__init__ is ProgramBase.__init__:
        return program
    values = _values(program, dict(settings or {}))
    given = copied(dict(settings or {}))

    def start(self: Any) -> None:
        program.__init__(self, **copied(given))

    start.__name__ = start.__qualname__ = "__init__"
    dropped = dropped_elements(program)
    members = {
        "__module__": program.__module__,
        "__qualname__": program.__qualname__,
        "__doc__": program.__doc__,
        "__init__": start,
        SETTINGS: MappingProxyType(values),
        **values,
    }
    return cast(
        "type[ProgramBase]",
        new_class(program.__name__, (program,), {"dropped": dropped}, lambda body: body.update(members)),
    )


def settings_of(program: type[ProgramBase]) -> Mapping[str, Any]:
    """Return the settings that a program was given, by name: none if it takes none."""
    found: Mapping[str, Any] = vars(program).get(SETTINGS, _NONE)
    return found


def settings_marks(program: type[ProgramBase]) -> dict[str, str]:
    """Return what a checkpoint notes of each setting: a mark that equal values have in common, and not the value."""
    return {name: _mark(program, name, value) for name, value in sorted(settings_of(program).items())}


def _values(program: type[ProgramBase], settings: dict[str, Any]) -> dict[str, Any]:
    """Return what an instance that is made with settings has beside its state."""
    why = _why_not(program, settings)
    if why:
        raise FeedError(
            "MP533",
            f"{program.__name__} can't be started with these settings",
            expected=f"{program.__name__}{_signature(program)}",
            found=f"{', '.join(sorted(settings)) or 'none'} ({why})",
            hint="settings={...} has a value for each parameter of __init__ that has no default",
        )
    held = vars(program(**copied(settings)))
    if JOURNAL not in held:
        raise _beyond(program, "does not call super().__init__()", "super().__init__() first")
    for name in program.elements():
        if not _is_empty(held.get(name)):
            raise _beyond(program, f"fills self.{name}", f'job.load("{name}", frame), or an entry point')
    values = {name: value for name, value in held.items() if name not in program.elements() and name != JOURNAL}
    for name, value in values.items():
        _mark(program, name, value)
    return values


def _why_not(program: type[ProgramBase], settings: dict[str, Any]) -> str:
    """Return why a program does not take settings; nothing if it does."""
    if program.__init__ is ProgramBase.__init__:
        unknown = sorted(name for name in settings if not is_constant(program, name))
        return f"there is no constant `{unknown[0]}`" if unknown else ""
    try:
        inspect.signature(program.__init__).bind(None, **settings)
    except TypeError as error:
        return str(error)
    return ""


def _signature(program: type[ProgramBase]) -> str:
    if program.__init__ is ProgramBase.__init__:
        names = sorted({name for base in program.__mro__ for name in vars(base) if is_constant(program, name)})
        return f"({', '.join(f'{name}=...' for name in names)})"
    _, *parameters = inspect.signature(program.__init__).parameters.values()
    return f"({', '.join(map(str, parameters))})"


def _is_empty(container: Any) -> bool:
    if hasattr(container, "__len__"):
        return len(container) == 0
    get = getattr(container, "get", None)
    return not callable(get) or get(None) is None


def _mark(program: type[ProgramBase], name: str, value: Any) -> str:
    try:
        stored = encode_canonical(value)
    except UNFIT as error:
        raise FeedError(
            "MP534",
            f"the setting `{name}` of {program.__name__} has no stored form",
            expected="numbers, text, bytes, dates, None, collections, dataclasses, named tuples, enums",
            found=f"{shown(value)} ({error})"[:300],
            hint="let __init__ set what follows from such values, and make the rest of it where a row needs it",
        ) from None
    return hashlib.sha256(type(value).__qualname__.encode() + b"\0" + stored).hexdigest()[:16]


def _beyond(program: type[ProgramBase], does: str, instead: str) -> FeedError:
    return FeedError(
        "MP535",
        f"__init__ of {program.__name__} {does}",
        expected="settings alone: self.name = value, after super().__init__()",
        hint=f"write {instead}",
    )
