"""Where a row starts when no key says it: a hash of its arguments that every runtime computes alike."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import Any, Final

from millpond.keygroups import hash_many
from millpond.program.columntypes import struct_fields
from millpond.program.entries import EntryPoint

HASHED: Final = (int, str, bytes, bool, datetime.date)
"""The declared types that take part; floats and others are left out, since Spark could not hash them alike."""


def hashed_parameters(point: EntryPoint) -> list[str]:
    """Return the parameters that take part: none that has a default, since Spark does not see that."""
    defaults = dict(point.defaults)
    return [name for name, hint in point.parameters if hint in HASHED and name not in defaults]


def argument_hash(point: EntryPoint, args: Sequence[Any]) -> int | None:
    """Hash the arguments of a call that take part, in order; None if one of them is, as in a bad row."""
    given = dict(zip((name for name, _ in point.parameters), args, strict=True))
    values = tuple(given[name] for name in hashed_parameters(point))
    return None if None in values else hash_many(values)


def hashes_alike(hint: Any) -> bool:
    """Whether Spark hashes the columns of a key as Python does; a Decimal is written in more ways than one."""
    return hint is not decimal.Decimal and all(hashes_alike(part) for _, part in struct_fields(hint) or ())
