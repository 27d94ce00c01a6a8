"""What a declaration says about the state that an older program left: names that changed, and how values are migrated
over.

>>> Evolves(was="carts").was, check_dropped(("carts",), elements={"stock": ...})
('carts', ('carts',))
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from millpond.errors import StateError
from millpond.state.codec.classes import UNRESOLVED

Migrate: TypeAlias = Callable[..., Any]
"""Makes a new value of an old one; or, with two parameters, a new entry (key and value, or None) of an old one."""

Renamed: TypeAlias = Mapping[str, str | None]
"""New names of fields by their old ones, as `field` or `Class.field`; None drops the field."""


@dataclass(frozen=True, slots=True)
class Evolves:
    """How a declared element takes over what the checkpoint holds of an older declaration."""

    was: str | None = None
    renamed: Renamed = field(default_factory=dict)
    migrate: Migrate | None = None

    def __post_init__(self) -> None:
        # What users write is not checked before.
        was: object = self.was
        renamed: object = self.renamed
        migrate: object = self.migrate
        if was is not None and not _is_name(was):
            raise _misfit("was= is not the old name of an element", 'was="old_name"', was)
        names = renamed.items() if isinstance(renamed, Mapping) else [(None, None)]
        if not all(_is_name(old) and (new is None or _is_name(new)) for old, new in names):
            raise _misfit("renamed= does not give new names of fields by old ones", 'renamed={"old": "new"}', renamed)
        if migrate is not None and not (callable(migrate) and self._parameter_count() in (1, 2)):
            expected = "a function of the old value, or of the old key and the old value"
            raise _misfit("migrate= is not a function of one or two parameters", expected, migrate)

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers never migrate state, so the function need not travel.
        return type(self), (self.was, self.renamed)

    @property
    def moves_keys(self) -> bool:
        """Whether the function makes whole entries, keys included."""
        return self.migrate is not None and self._parameter_count() > 1

    def old_hint(self) -> Any:
        """Return the declared type of the function's old value; None if it has none."""
        assert self.migrate is not None
        if isinstance(self.migrate, type):
            # Its hints are those of what it makes.
            return None
        target = inspect.unwrap(self.migrate)
        try:
            hints = typing.get_type_hints(target, include_extras=True)
        except UNRESOLVED:
            hints = getattr(target, "__annotations__", {})
        return hints.get(self._parameters()[-1].name)

    def _parameters(self) -> list[inspect.Parameter]:
        assert self.migrate is not None
        given = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        try:
            found = inspect.signature(self.migrate).parameters.values()
        except (ValueError, TypeError):
            return []
        return [one for one in found if one.kind in given and one.default is inspect.Parameter.empty]

    def _parameter_count(self) -> int:
        # Built-in types such as float have no signature that can be read, and take one value.
        return len(self._parameters()) or int(isinstance(self.migrate, type))


def check_dropped(dropped: object, elements: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names of elements that a program gives up; refuses those that it declares."""
    names = tuple(dropped) if isinstance(dropped, tuple | list | set | frozenset) else None
    if names is None or not all(map(_is_name, names)):
        raise _bad_drop("a tuple of names of elements", repr(dropped)[:80])
    declared = sorted(set(names) & set(elements))
    if declared:
        raise _bad_drop("elements that the program does not declare any more", ", ".join(declared))
    return tuple(sorted(set(names)))


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(name)


def _misfit(summary: str, expected: str, found: object) -> StateError:
    return StateError("MP260", summary, expected=expected, found=repr(found)[:80])


def _bad_drop(expected: str, found: str) -> StateError:
    return StateError(
        "MP261",
        "dropped= does not name elements that the program had and has no more",
        expected=expected,
        found=found,
        hint='write class Shop(Program, dropped=("carts",)): the state of these elements is deleted at the next start',
    )


NOTHING_SAID = Evolves()
