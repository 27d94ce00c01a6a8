"""The secret with which a checkpoint's files are signed, if its user wants that: where it comes from.

It comes from the environment of each process that reads or writes the checkpoint, and from nowhere else: so it is in no
address, plan, message, shuffled row or log. On a cluster the executors' environment is set as that of any program is.
The names hold the word that Spark looks for when it hides values from its pages and logs.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

from millpond.errors import StorageError

VARIABLE = "MILLPOND_SECRET"
"""Holds the secret itself, in hex."""

FILE_VARIABLE = "MILLPOND_SECRET_FILE"
"""Holds the path of a file with the secret, in hex; such a path may be seen by anybody."""

SECRET_BYTES_MIN = 32
"""As long as the digest: a shorter one would be the weakest part."""

_HEX = re.compile(r"(?:[0-9A-Fa-f]{2})+")


def current_secret() -> bytes | None:
    """The secret of this process; None if there is none, and then files are neither signed nor asked for it."""
    given, path = os.environ.get(VARIABLE), os.environ.get(FILE_VARIABLE)
    if given is not None and path is not None:
        raise _unusable("one variable", f"{VARIABLE} and {FILE_VARIABLE}")
    if path is not None:
        return _read(path)
    return None if given is None else _parse(given, VARIABLE)


@lru_cache(maxsize=4)
def _read(path: str) -> bytes:
    try:
        text = Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(f"a file with the secret in hex at {path}", type(error).__name__) from None
    return _parse(text, path)


@lru_cache(maxsize=4)
def _parse(text: str, source: str) -> bytes:
    digits = text.strip()
    # Whatever is wrong with it, it may be half of somebody's password: only its length is told.
    if _HEX.fullmatch(digits) is None or len(digits) < 2 * SECRET_BYTES_MIN:
        raise _unusable(f"at least {2 * SECRET_BYTES_MIN} hex digits in {source}", f"{len(digits)} characters")
    return bytes.fromhex(digits)


def _unusable(expected: str, found: str) -> StorageError:
    return StorageError(
        "MP344",
        "the secret of the checkpoint can't be used",
        expected=expected,
        found=found,
        hint="make one with `openssl rand -hex 32`, and keep it where only your jobs can read it",
    )
