"""The sink that calls a function of the user with each epoch."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millpond.sinks.protocol import Sink, SinkDescription, Staged
from millpond.sinks.tokens import Token

Function = Callable[[Any, int], None] | Callable[[Any, int, Token], None]


@dataclass(frozen=True, slots=True)
class EpochSink(Sink):
    """Calls a function with each epoch's rows, number and token; at least once, so make it idempotent by the token."""

    function: Function

    def describe(self) -> SinkDescription:
        """Describe a place of which nothing is known."""
        return SinkDescription("the function given to foreach_epoch")

    def publish(self, token: Token, staged: Staged) -> None:
        """Call the function with the rows as a DataFrame, and with the token of these files if it takes one."""
        call: Callable[..., None] = self.function
        if _takes_token(self.function):
            call(staged.frame(), token.epoch, whole_token(token, staged))
        else:
            call(staged.frame(), token.epoch)


def foreach_epoch(function: Function) -> EpochSink:
    """Call `function(df, epoch)` or `function(df, epoch, token)` with each epoch's replies as a DataFrame.

    An epoch is handed over at least once: after a crash the last one may come again. The token is the same then, and
    another one for any other rows: of another epoch, a fork, a new checkpoint, or the same epoch after a repair that
    went back. So a function that writes `str(token)` in one transaction with the rows is exactly once.
    """
    return EpochSink(function)


def whole_token(token: Token, staged: Staged) -> Token:
    """Return a token that stands for just these files of an epoch.

    >>> from pathlib import Path
    >>> from millpond.sinks.protocol import StagedFile
    >>> token = Token("uuid", (), "add.replies", 7)
    >>> files = Staged((StagedFile(token.of_file("a.parquet"), Path("a.parquet"), rows=1),))
    >>> whole_token(token, files).file
    'a.parquet'
    """
    names = sorted(file.token.file for file in staged.files)
    if len(names) == 1:
        return token.of_file(names[0])
    return token.of_file(f"{len(names)}-files-{hashlib.sha256(chr(0).join(names).encode()).hexdigest()[:24]}")


def _takes_token(function: Callable[..., None]) -> bool:
    """Say whether a function asks for a token: by a third argument that it needs, or by that name."""
    try:
        known = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    by_place = [one for one in known if one.kind in {one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD}]
    # Others bind what they need by a default, as in `lambda rows, epoch, seen=seen: ...`.
    return len(by_place) > 2 and (by_place[2].name == "token" or by_place[2].default is inspect.Parameter.empty)
