"""How users say what a commit keeps of state: for a whole program, or for one state element.

>>> BoundedLoss(events=100, within="2 s").within_us
2000000
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, get_args

from millpond.errors import EpochError
from millpond.lengths import Length, length_us
from millpond.spelling import check_word, in_seconds_no_more

Overflow = Literal["wait", "skip"]
"""What happens when more is due than the queue takes: epochs wait, or the rest stays dirty and is counted."""


ElementLevel = Literal["exactly_once", "bounded_loss"]

QUEUE_ENTRIES = 100_000
QUEUE_BYTES = 64 * 1024 * 1024


@in_seconds_no_more
@dataclass(frozen=True, slots=True)
class BoundedLoss:
    """State that is saved key by key, behind the epochs: `BoundedLoss(events=1000, within="5 s")`.

    A key is saved when `events` rows met it since its last save, or `within` this time after the first of them,
    whichever is first. What is due waits in a queue of at most `queue` entries and `queue_bytes`. On overflow epochs
    `"wait"` until there is room; or the rest is left out (`"skip"`), counted, and due again, the oldest first.
    docs/DURABILITY.md says what is lost with a host.
    """

    events: int = 1000
    within: Length = timedelta(seconds=5)
    queue: int = QUEUE_ENTRIES
    queue_bytes: int = QUEUE_BYTES
    overflow: Overflow = "wait"

    def __post_init__(self) -> None:
        for name in ("events", "queue", "queue_bytes"):
            number = getattr(self, name)
            if not isinstance(number, int) or isinstance(number, bool) or number < 1:
                raise _wrong(f"{name}= a whole number from 1 on", number)
        _ = self.within_us
        if self.overflow not in get_args(Overflow):
            raise _wrong('overflow="wait" or "skip"', self.overflow)

    @property
    def within_us(self) -> int:
        """How long a key may wait, in microseconds."""
        return length_us(self.within, "within", _no_length, least=1)


def element_durability(durability: ElementLevel | BoundedLoss | None) -> BoundedLoss | Literal["exactly_once"] | None:
    """Return what a declaration says of one element; None if it leaves that to the job."""
    check_word("level", durability)
    if durability is None or durability == "exactly_once" or isinstance(durability, BoundedLoss):
        return durability
    if durability == "bounded_loss":
        return BoundedLoss()
    raise EpochError(
        "MP496",
        "a state element can't have this durability",
        expected='"exactly_once", "bounded_loss" or BoundedLoss(...)',
        found=repr(durability)[:60],
        hint='"replay" logs the rows of a whole program: give it to Program.on',
    )


def _wrong(expected: str, found: object) -> EpochError:
    return _no_length(expected, repr(found)[:60])


def _no_length(expected: str, found: str) -> EpochError:
    return EpochError("MP499", "BoundedLoss() does not take this", expected=expected, found=found)
