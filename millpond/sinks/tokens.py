"""Tokens: names of what is published, the same however often it is, and of nothing else.

>>> token = Token("0b9f4e0e-5c56-4d0b-8a0e-0c8f7f6f2a11", (), "add.replies", 7)
>>> str(token)
'millpond:1:0b9f4e0e-5c56-4d0b-8a0e-0c8f7f6f2a11::add.replies:0000000007:'
>>> Token.parse(str(token)) == token
True
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import quote, unquote

from millpond.checkpoint.records.manifest import EPOCH_DIGITS, Ancestor
from millpond.errors import FeedError

_FORM = "millpond:1"
_PARTS = 7


@dataclass(frozen=True, order=True, slots=True)
class Token:
    """What an epoch publishes to a sink, or one file of it: `file` is empty for all of it.

    `checkpoint` is the UUID of the checkpoint, and `lineage` the forks that led to it, the oldest first: each a
    checkpoint and the epoch up to which its history is that of the fork, too. A fork has tokens of its own, so what it
    publishes is never taken for what its base has published under the same numbers. `sink` is the name of the feed
    with what goes to the sink: `add.replies`, `add.dead-letters`, `add.late`.
    """

    checkpoint: str
    lineage: tuple[Ancestor, ...]
    sink: str
    epoch: int
    file: str = ""

    def of_file(self, name: str) -> Token:
        """Return the token of one file of this epoch."""
        return replace(self, file=name)

    @property
    def writer(self) -> str:
        """The text that all epochs of this sink share: a transactional id of Kafka, or an application id of a table."""
        lineage = "+".join(f"{base.checkpoint}@{base.epoch}" for base in self.lineage)
        return f"{_FORM}:{self.checkpoint}:{lineage}:{quote(self.sink, safe='')}"

    def __str__(self) -> str:
        return f"{self.writer}:{self.epoch:0{EPOCH_DIGITS}}:{quote(self.file, safe='')}"

    @classmethod
    def parse(cls, text: str) -> Token:
        """Read the text of a token again."""
        parts = text.split(":")
        try:
            if len(parts) == _PARTS:
                _, _, checkpoint, bases, sink, epoch, file = parts
                pairs = [base.split("@") for base in bases.split("+") if base]
                lineage = tuple(Ancestor(base, int(until)) for base, until in pairs)
                token = cls(checkpoint, lineage, unquote(sink), int(epoch), unquote(file))
                if str(token) == text:
                    return token
        except ValueError:
            pass
        raise FeedError(
            "MP530",
            "this is not a token of a publication",
            expected=f"{_FORM}:<checkpoint>:<lineage>:<sink>:<epoch>:<file>, as str(token) gives it",
            found=ascii(text[:120]),
        )
