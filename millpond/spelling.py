"""What calls no longer take, or never took: an error that shows how it is written.

Options that belong together are records, such as `tuning=Tuning(retries=5)`. Whoever gives one of their fields to the
call itself, or a plain value where the record belongs, is shown the record.

>>> check_word("restore", "lazy")
Traceback (most recent call last):
    ...
millpond.errors.FeedError: MP526 restore "lazy" is called "on_demand" now
  expected  "on_demand"
  found     "lazy"
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import wraps
from typing import Any, Final, TypeVar

from millpond.errors import FeedError

T = TypeVar("T")

_WORDS: Final[Mapping[str, Mapping[object, str]]] = {
    "level": {"lazy": "bounded_loss"},
    "restore": {"lazy": "on_demand"},
}
"""Values that have another name now, by the field that takes them."""

_NAMES: Final = {"Lazy": "BoundedLoss"}
"""Public names that are others now."""

_SECONDS: Final = {"grace_s": "grace", "ignored_s": "ignored", "seconds": "within"}
"""Fields that were a number of seconds, and take a length of time under another name now."""


def check_call(
    call: str, given: Mapping[str, object], taken: Iterable[str], records: Mapping[str, tuple[type, object]]
) -> None:
    """Refuse keywords that a call does not take, and what is given in the place of its records.

    `given` are the keywords that it does not know, `taken` those that it does; `records` are its records: the class of
    each, and what was given for it, None for nothing.
    """
    for keyword, (record, value) in records.items():
        names = [field.name for field in fields(record)]
        moved = {name: given[name] for name in names if name in given}
        if value is not None and not isinstance(value, record):
            raise _moved(call, keyword, record, {keyword: value, **moved}, _now(names[0], value))
        if moved:
            raise _moved(call, keyword, record, moved, "")
    for name in given:
        raise _unknown(call, name, taken, records)


def check_word(field: str, value: object) -> None:
    """Refuse a value that has another name now."""
    word = _WORDS[field].get(value) if isinstance(value, str) else None
    if word is not None:
        raise FeedError(
            "MP526",
            f'{field} "{value}" is called "{word}" now',
            expected=f'"{word}"',
            found=f'"{value}"',
        )


def check_unit(given: object, what: str) -> None:
    """Refuse a length of time without a unit, which was in microseconds."""
    if type(given) is int:
        raise FeedError(
            "MP526",
            f"a {what} of {given} has no unit: lengths of time have one",
            expected=f'"{given} us", or a timedelta' if given else '"0 s", or a timedelta',
            found=repr(given)[:40],
        )


def missing_name(name: str) -> Exception:
    """Return what to raise for a name that the package has not: a name that it had shows the one that it has now."""
    if name not in _NAMES:
        return AttributeError(f"module 'millpond' has no attribute {name!r}")
    return FeedError(
        "MP526",
        f"`{name}` is called `{_NAMES[name]}` now",
        expected=f"from millpond import {_NAMES[name]}",
        found=f"from millpond import {name}",
    )


def in_seconds_no_more(record: type[T]) -> type[T]:
    """Let a dataclass show how a field is written now that was a number of seconds."""
    made: Callable[..., None] = record.__init__

    @wraps(made)
    def init(self: T, *args: Any, **given: Any) -> None:
        for old in _SECONDS.keys() & given.keys():
            new = f'{_SECONDS[old]}="{given[old]} s"'
            raise FeedError(
                "MP526",
                f"{record.__name__} does not take `{old}=`: lengths of time have units",
                expected=f"{record.__name__}({new}), or a timedelta",
                found=f"{old}={given[old]!r:.40}",
            )
        made(self, *args, **given)

    setattr(record, "__init__", init)  # noqa: B010 - a class decorator may
    return record


def _moved(call: str, keyword: str, record: type, found: Mapping[str, object], first: str) -> FeedError:
    inside = [f"{name}={_now(name, value)}" for name, value in found.items() if name != keyword]
    return FeedError(
        "MP526",
        f"{call} takes {', '.join(f'`{name}=`' for name in found)} as one record",
        expected=f"{keyword}={record.__name__}({', '.join([first, *inside] if first else inside)})",
        found=", ".join(f"{name}={value!r:.80}" for name, value in found.items()),
        hint=f"from millpond import {record.__name__}",
    )


def _now(field: str, value: object) -> str:
    """Return a value as it is written now."""
    return repr(_WORDS.get(field, {}).get(value, value) if isinstance(value, str) else value)[:80]


def _unknown(call: str, name: str, taken: Iterable[str], records: Mapping[str, tuple[type, object]]) -> FeedError:
    known = {one: f"{one}=" for one in taken}
    inside = {
        field.name: f"{keyword}={record.__name__}({field.name}=...)"
        for keyword, (record, _) in records.items()
        for field in fields(record)
    }
    close = difflib.get_close_matches(name, {**known, **inside}, 1)
    return FeedError(
        "MP526",
        f"{call} does not take `{name}=`",
        expected={**inside, **known}[close[0]] if close else ", ".join(known.values()),
        found=f"{name}=",
    )
