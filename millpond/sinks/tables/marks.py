"""What a table remembers of a writer: the last epoch, and which files this was made of.

An epoch is one commit of the table, so one mark is enough for all of its files. The number of the epoch alone would
not do: after a repair that goes back, it comes again with other files.

>>> from millpond.sinks.tokens import Token
>>> token = Token("uuid", (), "add.replies", 7)
>>> mark_of(token, [token.of_file("b"), token.of_file("a")]) == mark_of(token, [token.of_file("a"), token.of_file("b")])
True
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from millpond.sinks.protocol import Staged
from millpond.sinks.tokens import Token

ATTEMPTS = 10
"""How often a commit is tried anew because another one came first: each time some writer has made progress."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An epoch, and a number that stands for its files; both fit into 63 bits."""

    epoch: int
    files: int


def mark_of(token: Token, files: Sequence[Token]) -> Mark:
    """Return the mark of these files of an epoch."""
    names = "\0".join(sorted(file.file for file in files))
    return Mark(token.epoch, int.from_bytes(hashlib.sha256(names.encode()).digest()[:8]) >> 1)


def mark_of_staged(token: Token, staged: Staged) -> Mark:
    """Return the mark of an epoch that is published."""
    return mark_of(token, [file.token for file in staged.files])
