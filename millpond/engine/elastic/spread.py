"""Where rows run that may run anywhere: dealt out so that partitions cost the same, with what state ties to them."""

from __future__ import annotations

from collections.abc import Sequence

from millpond.engine.elastic.balance import Cheapest


def dealt_out(held: Sequence[float], free: Sequence[float], unit_costs: Sequence[float]) -> tuple[int, ...]:
    """The partition for the free rows of every key group.

    `held` is the weight of the rows that each partition has anyway, `free` that of the free rows of each key group. The
    heaviest go first, each to where the cost is lowest then. So no cost is above the ideal one by more than that of one
    key group, unless what is held is above it already. Groups without rows go the same way, as if they had few.
    """
    cheapest = Cheapest(held, unit_costs)
    least = min((weight for weight in free if weight > 0), default=1.0) / 2
    chosen = [0] * len(free)
    for group in sorted(range(len(free)), key=lambda group: (-free[group], group)):
        chosen[group] = cheapest.take(free[group] or least)
    return tuple(chosen)
