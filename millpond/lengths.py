"""Lengths of time, wherever users give one: a timedelta, or a text such as "10 minutes" or "1.5 s".

A text is a number and a unit: `us`, `ms`, `s`, `min`, `h`, `d`, `w`, or the whole word, `microsecond` to `weeks`.

>>> def refuse(expected, found):
...     return MillpondError("MP000", "no length", expected=expected, found=found)
>>> length_us("1.5 s", "tick", refuse), length_us(timedelta(days=1), "tick", refuse)
(1500000, 86400000000)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from typing import Final

from millpond.errors import MillpondError

Length = timedelta | str
"""A length of time as users give it."""

Refuse = Callable[[str, str], MillpondError]
"""Makes the error of whoever was given a length, of what was expected and what was found."""

MICROSECOND: Final = timedelta(microseconds=1)

_LONGEST_US: Final = timedelta.max // MICROSECOND
_TEXT: Final = re.compile(r"([+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([a-z]+)")
_SHORT: Final = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_WORDS: Final = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week")
_UNITS: Final = {
    name: size for (short, size), word in zip(_SHORT.items(), _WORDS, strict=True) for name in (short, word, f"{word}s")
}


def length_us(given: object, name: str, refuse: Refuse, *, least: int | None = 0) -> int:
    """Return a length of time in whole microseconds.

    It is refused by the `name` that users know it by if it is none, or is below `least` microseconds; None takes
    lengths below zero, too.
    """
    sense = {None: "", 0: ", not below 0"}.get(least, ", above 0")
    expected = f'{name} as a length of time{sense}: a timedelta, or a text such as "10 minutes" or "1.5 s"'
    try:
        number = _parsed(given) if isinstance(given, str) else _whole(given)
    except ValueError as error:
        raise refuse(expected, f"{given!r:.60}: {error}") from None
    if least is not None and number < least:
        raise refuse(expected, f"{given!r:.60}")
    return number


def _whole(given: object) -> int:
    if not isinstance(given, timedelta):
        raise ValueError("a number without a unit" if isinstance(given, int | float) else type(given).__name__)  # noqa: TRY004
    return given // MICROSECOND


def _parsed(text: str) -> int:
    parts = _TEXT.fullmatch(text.strip())
    if parts is None:
        raise ValueError("no number with a unit")
    number, unit = parts.groups()
    if unit not in _UNITS:
        raise ValueError(f"no such unit; there are {', '.join(_SHORT)}, or whole words")
    micros = Fraction(number) * _UNITS[unit]
    if micros.denominator != 1:
        raise ValueError("no whole number of microseconds")
    if abs(micros) > _LONGEST_US:
        raise ValueError(f"longer than {timedelta.max.days:,} days")
    return int(micros)
