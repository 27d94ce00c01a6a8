"""The way of each entry point, as it follows from what the passes found in its way: steps, gathered, or in sequence.

Needs: Draft.obstacles.
Leaves: nothing in a draft; the passes begin anew with the ways that were chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from millpond.compiler.diagnostics import refuse
from millpond.compiler.draft import Draft, Method
from millpond.compiler.obstacles import Bars, ObstacleError
from millpond.compiler.plan.gather import UNCUT, touched_by

_MET_BY_COMPUTED: Final = "the instance of partial state that it meets follows from a key that it computes"

_OTHER_HANDLER: Final = (
    "let it set a timer of another handler under the key that it needs: that one fires in the same turn, and meets its "
    "own key"
)
_FOR_HANDLERS: Final = {
    **dict.fromkeys(("MP150", "MP155", "MP181"), _OTHER_HANDLER),
    "MP151": "swap the accesses in one of them, or keep both under the same key so that no move lies between them",
    "MP152": "do what you need to do to it before each()",
    "MP180": "declare what is partial as Partitioned(...)",
}
"""Of what an obstacle advises, what handlers can have: they have no feed, and are never relaxed."""


class Ways:
    """Which entry points are known to run gathered, and which in sequence, each with the reason.

    `faster` says what to write instead of those in sequence.
    """

    def __init__(self, uncut: Iterable[str]) -> None:
        self._uncut = dict.fromkeys(uncut, UNCUT)
        self.gathered: Mapping[str, str] = dict(self._uncut)
        self.sequence: dict[str, str] = {}
        self.faster: dict[str, str] = {}
        # What keeps those that are gathered from being ordered or cut.
        self._disordered: dict[str, ObstacleError] = {}

    def slow_down(self, draft: Draft) -> bool:
        """Choose a slower way for entry points that met an obstacle, and say if there are any.

        One that asks for another way is refused.
        """
        if not draft.obstacles:
            return self._let_meet_alike(draft)
        disordered = {name: met for name, met in draft.obstacles.items() if self._may_gather(draft, name, met)}
        if _can_gather(draft, disordered):
            self.gathered = {**self.gathered, **{name: met.describe() for name, met in disordered.items()}}
            self._disordered |= disordered
            return True
        for method in _slowest(draft):
            self._in_sequence(method, draft.obstacles[method.name])
        # Those that remain may find levels without these.
        self.gathered = {name: why for name, why in self._uncut.items() if name not in self.sequence}
        self._disordered.clear()
        return True

    def _let_meet_alike(self, draft: Draft) -> bool:
        """Put entry points in sequence, too, whose instance of partial state no other way could tell.

        Epochs with rows in sequence and those without must meet the same instance.
        """
        if draft.compiled is None or not self.sequence:
            return False
        unsure = [method for method in draft.methods if not draft.compiled.entries[method.name].meets.sure]
        for method in unsure:
            if method.point.way is not None:
                raise refuse(
                    "MP189",
                    f"{method.name} has to run in sequence, and asks for a faster way",
                    method.source,
                    method.tree,
                    expected="partial state that is met under a key of the arguments, beside entry points in sequence",
                    found=_MET_BY_COMPUTED,
                    hint="meet partial state first, or give the key as an argument",
                )
            self.sequence[method.name] = _MET_BY_COMPUTED
        return bool(unsure)

    def _may_gather(self, draft: Draft, name: str, obstacle: ObstacleError) -> bool:
        """Whether a method only lacks an order or a cut; the cuts of a relaxed one are as its author wants them."""
        relaxed = any(method.relaxed for method in draft.methods if method.name == name)
        return name not in self.gathered and (
            obstacle.bars is Bars.ORDER or (obstacle.bars is Bars.CUT and not relaxed)
        )

    def _in_sequence(self, method: Method, obstacle: ObstacleError) -> None:
        if method.point.way is not None:
            first = self._disordered.get(method.name)
            raise obstacle.after(first) if first is not None and obstacle.bars is Bars.KEYS else obstacle
        self.sequence[method.name] = obstacle.describe()
        advice = _FOR_HANDLERS.get(obstacle.code, obstacle.hint) if method.point.timer else obstacle.hint
        if advice is not None:
            self.faster[method.name] = advice


def _can_gather(draft: Draft, names: Iterable[str]) -> bool:
    """Whether entry points have anything to gather: an element that is split by key."""
    methods = [method for method in draft.methods if method.name in names]
    touched = {element for method in methods for element in touched_by(draft, method)}
    return any(not draft.elements[element].partial for element in touched)


def _slowest(draft: Draft) -> list[Method]:
    """The entry points that run in sequence; of those that only disagree on an order the last one.

    It is one that asks for no way, if there is such a one.
    """
    met = [method for method in draft.methods if method.name in draft.obstacles]
    if all(obstacle.bars is Bars.ORDER for obstacle in draft.obstacles.values()):
        return sorted(met, key=lambda method: method.point.way is None)[-1:]
    return met
