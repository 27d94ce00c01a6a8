"""Values as people see them in errors: short, whatever they are.

>>> shown(["a"]), shown("long " * 100, 20), shown(1 << 10_000)
("list: ['a']", "str: 'long long long", 'int of 10001 bits')
"""

from __future__ import annotations

from typing import Any

SHOWN_CHARS_MAX = 80
"""Longer values are cut."""


def shown(value: Any, limit: int = SHOWN_CHARS_MAX) -> str:
    """Return the type and the text of a value; a value that can't be written as text is shown by its type alone."""
    kind = type(value)
    if kind is int and value.bit_length() > 8 * limit:
        # Python refuses to write integers of thousands of digits, and takes long for fewer.
        return f"int of {value.bit_length()} bits"
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        return ascii_surrogates(f"{name}: {value!r}"[:limit])
    except Exception as error:  # noqa: BLE001 - a class of the user may fail in any way when it shows itself
        return f"{name}, which can't be shown ({type(error).__name__})"


def ascii_surrogates(text: str) -> str:
    """Return the text with lone surrogates escaped, so that it can be printed and stored."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
