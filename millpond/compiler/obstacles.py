"""What stands in the way of a faster way to run an entry point: facts that passes find, from which the way follows."""

from __future__ import annotations

import enum

from millpond.errors import ProgramError, SourcePlace


class Bars(enum.Enum):
    """What an obstacle bars: with no order or cut a method runs gathered, with no keys or sight in sequence."""

    ORDER = "one order of the elements that all entry points keep"
    CUT = "a cut between two steps"
    KEYS = "keys that follow from the columns of a row"
    SIGHT = "seeing which state is touched, and when"


class ObstacleError(ProgramError):
    """Why an entry point can't run in a certain way; it is a refusal only if the entry point asks for that way."""

    def __init__(
        self,
        code: str,
        summary: str,
        *,
        bars: Bars = Bars.SIGHT,
        places: tuple[SourcePlace, ...] = (),
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(code, summary, places=places, expected=expected, found=found, hint=hint)
        self.bars = bars

    def describe(self) -> str:
        """Say what it is, and at which lines, in the middle of a sentence."""
        lines = list(dict.fromkeys(place.line for place in self.places))
        told = f"line {lines[0]}" if len(lines) == 1 else f"lines {', '.join(map(str, lines))}"
        return f"{self.summary} ({told})" if lines else self.summary

    def after(self, first: ObstacleError) -> ObstacleError:
        """Return the obstacle to levels that came first, with this one to running gathered added."""
        return ObstacleError(
            first.code,
            first.summary,
            bars=first.bars,
            places=tuple(dict.fromkeys((*first.places, *self.places))),
            expected=first.expected,
            found=_sentences(first.found, f"It can't run gathered: {self.code} {self.summary}"),
            hint=_sentences(first.hint, f"To run it gathered: {self.hint}"),
        )


def _sentences(first: str | None, second: str) -> str:
    return second if first is None else f"{first}. {second}"
