"""PageRank of each window with ranks carried on: the fewer links changed, the fewer rounds it takes."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from millpond.loops import Vertex, persistent


class Rank(NamedTuple):
    """A row of results."""

    rank: float
    rounds: int


class CarriedRank(Vertex):
    """Ranks the vertices of each window, and begins with the ranks of the window before.

    Run it until `within(1e-6, of="change")`.
    """

    combine = sum
    aggregators: ClassVar = {"change": sum}
    rank: float = persistent(1.0)

    def compute(self, messages: list[float]) -> None:
        """Take what others give, and give it on."""
        if self.round > 0:
            # A vertex hears itself, by 0, so that it works in every round.
            fresh = 0.15 + 0.85 * sum(messages)
            self.report("change", abs(fresh - self.rank))
            self.rank = fresh
        self.send(self.id, 0.0)
        if not self.is_sink:
            self.send_out(self.rank / len(self.edges))

    def finalize(self) -> Rank:
        """Give the rank, and the round in which it settled."""
        return Rank(self.rank, self.round)
