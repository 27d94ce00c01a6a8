"""Where a row starts when no key says it: a hash of its arguments that every runtime computes alike."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, Final

from millpond.keygroups import hash_many

HASHED: Final = (int, str, bytes, bool, datetime.date)
"""The declared types that take part; floats and others are left out, since Spark could not hash them alike."""


def argument_hash(hints: Sequence[Any], args: Sequence[Any]) -> int:
    """Hash the arguments of a call whose declared type can be a key, in order."""
    return hash_many(tuple(value for hint, value in zip(hints, args, strict=True) if hint in HASHED))
