"""Handlers that feed each other: where each stands, and which of what is due is called in one round.

A handler may add rows to windows and set timers, whose handlers are called in their turn. So what is due at a watermark
is called in rounds: the handlers of a stage when all that feed them are done. Inside a stage the order is that of the
watermarks at which each was due, whatever the watermarks were at which somebody looked: so it does not show how rows
were cut into epochs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

Timer = tuple[int, int, Any]
"""What is due: its moment, the number of its handler, and its key."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a handler stands among those of its program.

    It is called in its `stage`, behind those of a lower `rank` that are due with it, and `lag_us` after the watermark:
    so long the handlers that feed it wait for rows. If it is `timely`, it is called once for each moment, since it does
    something at that moment. It `feeds` other windows and timers, by name. Handlers of a stage that is `strict` are
    called in as many rounds as it takes to keep the order of moments. Windows that feed themselves in the end are
    `cyclic`; timers that are set in a circle fire `again` at the next epoch at the earliest. At the end of time they
    stay, but those that `go_on` fire in epoch after epoch, until none is set.
    """

    stage: int = 0
    rank: int = 0
    lag_us: int = 0
    timely: bool = False
    feeds: tuple[str, ...] = ()
    strict: bool = False
    cyclic: bool = False
    again: bool = False
    go_on: bool = False


ALONE: Final = Place()
"""Where a handler stands that feeds nobody, and that nobody feeds."""


class Handled(Protocol):
    """The type of the timers or windows of a handler, as far as its turn goes."""

    place: Place

    def earliest(self, at: int) -> int | None:
        """Return when what is added or set at a moment is due at the earliest; None if that is any time."""
        ...


@dataclass(frozen=True, slots=True)
class Turn:
    """How far the handlers that are due at a watermark have been called: all before a stage.

    Of a stage with handlers that are called in one round alone, the others are `left` to be called behind them: timers
    that are set in a circle, and at the end of time windows that feed themselves.
    """

    stage: int = 0
    left: bool = False

    @classmethod
    def of(cls, number: int) -> Turn:
        """Return a turn as it is noted."""
        return cls(number // 2, bool(number % 2))

    @property
    def number(self) -> int:
        """The turn as a number that grows."""
        return 2 * self.stage + self.left


class Round(NamedTuple):
    """What is called in one round, in this order, and whose turn it is then.

    `once` is the stage of handlers that feed themselves, if it is the end of time.
    """

    timers: list[Timer]
    turn: Turn
    once: int | None = None


@dataclass(frozen=True)
class Cascade:
    """The handlers of a program by name, in the order of their definition."""

    handlers: Mapping[str, Any]
    kinds: Sequence[Handled] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", list(self.handlers.values()))

    @property
    def cyclic(self) -> bool:
        """Whether some handler feeds itself in the end."""
        return any(kind.place.cyclic for kind in self.kinds)

    @property
    def going_on(self) -> frozenset[int]:
        """The numbers of the handlers that go on after the end of time."""
        return frozenset(number for number, kind in enumerate(self.kinds) if kind.place.go_on)

    @property
    def last(self) -> int:
        """The last stage."""
        return max((kind.place.stage for kind in self.kinds), default=0)

    @property
    def lag_us(self) -> int:
        """How long after the watermark the last handlers are called that are due at a moment."""
        return max((kind.place.lag_us for kind in self.kinds), default=0)

    def next_round(self, due: Sequence[Timer], turn: Turn, *, ends: bool) -> Round | None:
        """Return the next round of what is due; None if there is none from this turn on. It may be the end of time."""
        stage = min((self._place(one).stage for one in due if self._place(one).stage >= turn.stage), default=None)
        if stage is None:
            return None
        found = sorted((one for one in due if self._place(one).stage == stage), key=self._order)
        if not any(kind.place.strict for kind in self.kinds if kind.place.stage == stage):
            return Round(found, Turn(stage + 1))
        once = [one for one in found if self._once(self._place(one), ends=ends)]
        if once and not (turn.left and turn.stage == stage):
            return Round(once, Turn(stage, left=True), stage if ends else None)
        others = [one for one in found if not self._once(self._place(one), ends=ends)]
        if others:
            return Round(self._together(others), Turn(stage, left=True))
        return self.next_round(due, Turn(stage + 1), ends=ends)

    @staticmethod
    def _once(place: Place, *, ends: bool) -> bool:
        """Return whether a handler is called in one round alone: its order does not show, or it would never end."""
        return not place.strict or place.again or (ends and place.cyclic)

    def _together(self, found: list[Timer]) -> list[Timer]:
        """Return the beginning of what is due, up to where something may come in between that these have made due."""
        first = self._when(found[0])
        bound: tuple[float, int] | None = None
        soonest: dict[int, int] = {}
        for at, number, _ in found:
            soonest.setdefault(number, at)
        for number, at in soonest.items():
            for name in self.kinds[number].place.feeds:
                fed = self.handlers[name]
                if fed.place.stage != self.kinds[number].place.stage:
                    continue
                made = fed.earliest(at)
                due = (float("-inf") if made is None else made + fed.place.lag_us, fed.place.rank)
                bound = due if bound is None else min(bound, due)
        if bound is None:
            return found
        return [one for one in found if self._when(one) == first or self._when(one) < bound]

    def _place(self, timer: Timer) -> Place:
        return self.kinds[timer[1]].place

    def _when(self, timer: Timer) -> tuple[float, int]:
        place = self._place(timer)
        return timer[0] + place.lag_us, place.rank

    def _order(self, timer: Timer) -> tuple[Any, ...]:
        return (*self._when(timer), timer[1], timer[2])
