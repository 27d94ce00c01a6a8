"""What sharing costs: calls of `combine`, slices made, slices kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class Counters:
    """Calls of `combine`, and how many slices and windows there were.

    `fold_calls` combine records into the running slice: one per record, whatever is computed. The reduce calls of the
    document are the others: `update_calls` keep the store up to date, `merge_calls` compute results.
    """

    records: int = 0
    windows: int = 0
    fold_calls: int = 0
    update_calls: int = 0
    merge_calls: int = 0
    partials: int = 0
    live_slices: int = 0
    live_slices_max: int = 0
    lookups: int = 0

    @property
    def reduce_calls(self) -> int:
        """Calls of `combine` with slices: those that depend on how slices are made and kept."""
        return self.update_calls + self.merge_calls

    def keep(self, slices: int) -> None:
        """Note how many slices are kept now."""
        self.live_slices = slices
        self.live_slices_max = max(self.live_slices_max, slices)

    def export(self) -> dict[str, int]:
        """Return all counters by name."""
        return asdict(self)
