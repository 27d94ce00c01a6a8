"""How users say what a commit keeps of state: for a whole program, or for one state element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from millpond.errors import EpochError

Overflow = Literal["wait", "skip"]
"""What happens when more is due than the queue takes: epochs wait, or the rest stays dirty and is counted."""

ElementLevel = Literal["exactly_once", "lazy"]

SECONDS_MAX = 10**9
QUEUE_ENTRIES = 100_000
QUEUE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Lazy:
    """State that is saved key by key, behind the epochs: `durability=Lazy(events=1000, seconds=5)`.

    A key is saved when `events` rows met it since its last save, or `seconds` after the first of them, whichever is
    first. What is due waits in a queue of at most `queue` entries and `queue_bytes`. On overflow epochs `"wait"` until
    there is room; or the rest is left out (`"skip"`), counted, and due again, the oldest first. docs/DURABILITY.md says
    what is lost with a host.
    """

    events: int = 1000
    seconds: float = 5.0
    queue: int = QUEUE_ENTRIES
    queue_bytes: int = QUEUE_BYTES
    overflow: Overflow = "wait"

    def __post_init__(self) -> None:
        for name in ("events", "queue", "queue_bytes"):
            number = getattr(self, name)
            if not isinstance(number, int) or isinstance(number, bool) or number < 1:
                raise _wrong(f"{name}= a whole number from 1 on", number)
        seconds: object = self.seconds
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds <= SECONDS_MAX:
            raise _wrong(f"seconds= a number above 0, up to {SECONDS_MAX:,}", seconds)
        if self.overflow not in get_args(Overflow):
            raise _wrong('overflow="wait" or "skip"', self.overflow)

    @property
    def length_us(self) -> int:
        """The seconds, in microseconds."""
        return int(self.seconds * 1_000_000)


def element_durability(durability: ElementLevel | Lazy | None) -> Lazy | Literal["exactly_once"] | None:
    """What a declaration says of one element; None if it leaves that to the job."""
    if durability is None or durability == "exactly_once" or isinstance(durability, Lazy):
        return durability
    if durability == "lazy":
        return Lazy()
    raise EpochError(
        "MP496",
        "a state element can't have this durability",
        expected='"exactly_once", "lazy" or Lazy(...)',
        found=repr(durability)[:60],
        hint='"replay" logs the rows of a whole program: give it to Program.on',
    )


def _wrong(expected: str, found: object) -> EpochError:
    return EpochError("MP499", "Lazy() does not take this", expected=expected, found=repr(found)[:60])
