"""The sink that calls a function of the user with each epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millpond.sinks.protocol import Sink, SinkDescription, Staged
from millpond.sinks.tokens import Token


@dataclass(frozen=True, slots=True)
class EpochSink(Sink):
    """Calls a function with each epoch's rows and its number; at least once, so make it idempotent by epoch."""

    function: Callable[[Any, int], None]

    def describe(self) -> SinkDescription:
        """Describe a place of which nothing is known."""
        return SinkDescription("the function given to foreach_epoch")

    def publish(self, token: Token, staged: Staged) -> None:
        """Call the function with the rows as a DataFrame."""
        self.function(staged.frame(), token.epoch)


def foreach_epoch(function: Callable[[Any, int], None]) -> EpochSink:
    """Call `function(df, epoch)` with each epoch's replies as a DataFrame.

    An epoch is handed over at least once: after a crash the last one may come again, so make what it does idempotent
    by the epoch number.
    """
    return EpochSink(function)
