"""What the generated functions call that find the keys of rows: they run without state, and note every key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar

from millpond.errors import Passing, RowError

T = TypeVar("T")

KEYS_MAX: Final = 100_000
"""Keys of one row: what one row may bring together in one task."""

TURNS_MAX: Final = 100_000
"""Turns of a loop that only state may end earlier: without state, it might go on for ever."""


class Leave(BaseException):
    """The end of a part of a method that may or may not be run; no `except Exception` of the user's catches it."""


class _TooManyTurns(BaseException):
    """A loop took more than TURNS_MAX turns."""


def survey(out: list[Any], entry: str, row: Callable[..., None], columns: tuple[Iterable[Any], ...]) -> None:
    """Append the keys of each row: pairs of an element's name and a key."""
    for values in zip(*columns, strict=True):
        found: list[tuple[str, Any]] = []
        try:
            row(found.append, *values)
        except _TooManyTurns:
            raise _too_many(entry, f"a loop of more than {TURNS_MAX} turns, unless state ends it earlier") from None
        except (KeyboardInterrupt, Passing):
            raise
        except BaseException:  # noqa: BLE001, S110 - where the method raises or is left it touches nothing any more
            pass
        if len(found) > KEYS_MAX:
            found = _different(found)
            if len(found) > KEYS_MAX:
                raise _too_many(entry, f"{len(found)} keys")
        out.append(found)


def _different(found: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    try:
        return list(dict.fromkeys(found))
    except TypeError:
        return found


def _too_many(entry: str, found: str) -> RowError:
    return RowError(
        "MP607",
        f"a row of {entry} may touch too many keys",
        expected=f"at most {KEYS_MAX}",
        found=found,
        hint="cut the row into several, since all that a row may touch is gathered in one task; give loops an "
        "end that follows from the arguments",
    )


def perhaps(part: Callable[[], Any]) -> None:
    """Evaluate something that may or may not be evaluated in the real run: what it raises tells nothing."""
    with suppress(Exception, Leave):
        part()


def limited(items: Iterable[T]) -> Iterator[T]:
    """The items of a loop that state may end, but not without end."""
    for number, item in enumerate(items):
        if number >= TURNS_MAX:
            raise _TooManyTurns
        yield item


def ticking() -> Callable[[], bool]:
    """A condition that holds, but not without end."""
    turns = iter(range(TURNS_MAX))

    def tick() -> bool:
        if next(turns, None) is None:
            raise _TooManyTurns
        return True

    return tick
