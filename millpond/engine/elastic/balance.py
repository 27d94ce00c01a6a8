"""Who shall own what: key groups dealt out by their weight, with as few of them moved as that takes.

A partition's cost is the weight of its key groups times what a unit of weight costs it: more on a slow executor. Key
groups that can only be owned together (`atoms`) move together.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace

TOLERANCE = 0.05
"""Above the ideal by so much, the highest cost is good enough: the last percents cost the most moves."""

SAME_WEIGHT = 0.5
"""Atoms that differ by less than this part of the mean weight are taken for equal when one is chosen to move: the last
of them goes, so that neighbours stay together."""

Atom = Sequence[int]
"""Key groups that are owned together."""


@dataclass(slots=True)
class _Share:
    """What one partition owns: its atoms by weight in steps, ascending, those of equal weight by number."""

    unit_cost: float
    step: float
    weight: float = 0.0
    atoms: list[tuple[int, int, float]] = field(default_factory=list)

    @property
    def cost(self) -> float:
        return self.weight * self.unit_cost

    def cost_with(self, weight: float) -> float:
        return (self.weight + weight) * self.unit_cost

    def add(self, weight: float, atom: int) -> None:
        insort(self.atoms, (self.steps(weight), atom, weight))
        self.weight += weight

    def steps(self, weight: float) -> int:
        return round(weight / self.step)

    def remove(self, place: int) -> tuple[float, int]:
        _, atom, weight = self.atoms.pop(place)
        # Sums of what is there, since differences of large numbers would leave crumbs in empty hands.
        self.weight = self.weight - weight if self.atoms else 0.0
        return weight, atom


class Cheapest:
    """Finds the partition that costs least with one more weight, in a time that hardly grows with their number."""

    def __init__(self, held: Sequence[float], unit_costs: Sequence[float]) -> None:
        # Of partitions whose units cost the same, the one that holds least is it whatever the weight.
        self._heaps: dict[float, list[tuple[float, int]]] = {}
        for at, (weight, unit) in enumerate(zip(held, unit_costs, strict=True)):
            self._heaps.setdefault(unit, []).append((weight, at))
        for heap in self._heaps.values():
            heapify(heap)

    def take(self, weight: float) -> int:
        """Give it the weight, and return its number; of equals, the first."""
        firsts = (((heap[0][0] + weight) * unit, heap[0][1], unit) for unit, heap in self._heaps.items())
        _, at, unit = min(firsts)
        heap = self._heaps[unit]
        heapreplace(heap, (heap[0][0] + weight, at))
        return at


def balanced(
    owners: Sequence[int],
    partitions: int,
    weights: Sequence[float],
    atoms: Sequence[Atom],
    unit_costs: Sequence[float] = (),
    tolerance: float = TOLERANCE,
) -> tuple[int, ...]:
    """Return the owner of every key group on so many partitions, from those that there are now.

    Atoms whose owner is gone are dealt out, the heaviest first. Then the partition of the highest cost gives atoms away
    as long as that lowers the highest cost of the two by more than nothing. So no cost is above the ideal one by more
    than the tolerance and what one atom costs, if all units cost the same. Whoever has atoms keeps at least one.
    """
    atom_weights = [sum(weights[group] for group in atom) for atom in atoms]
    step = SAME_WEIGHT * sum(atom_weights) / len(atoms) or 1.0
    shares = [_Share(unit_costs[number] if unit_costs else 1.0, step) for number in range(partitions)]
    homeless = []
    for number, atom in enumerate(atoms):
        owner = owners[atom[0]]
        if owner < partitions:
            shares[owner].add(atom_weights[number], number)
        else:
            homeless.append(number)
    cheapest = Cheapest([share.weight for share in shares], [share.unit_cost for share in shares])
    for number in sorted(homeless, key=lambda number: (-atom_weights[number], number)):
        shares[cheapest.take(atom_weights[number])].add(atom_weights[number], number)
    # Partitions without atoms would never be measured, so the first moves are theirs.
    _fill_empty(shares)
    ideal = sum(atom_weights) / sum(1 / share.unit_cost for share in shares)
    while _relieve(shares, ideal * (1 + tolerance)):
        pass
    placed = {number: owner for owner, share in enumerate(shares) for _, number, _ in share.atoms}
    owned = list(owners)
    for number, atom in enumerate(atoms):
        for group in atom:
            owned[group] = placed[number]
    return tuple(owned)


def _fill_empty(shares: list[_Share]) -> None:
    for share in shares:
        if not share.atoms:
            donor = max(shares, key=lambda one: (len(one.atoms) > 1, one.cost, len(one.atoms)))
            if len(donor.atoms) > 1:
                share.add(*donor.remove(_place(donor, (donor.cost - share.cost) / (donor.unit_cost + share.unit_cost))))


def _relieve(shares: list[_Share], enough: float) -> bool:
    """Move one atom away from the partition of the highest cost; say if there was one to move."""
    donor = max(shares, key=lambda share: share.cost)
    if donor.cost <= enough or len(donor.atoms) < 2:
        return False
    for receiver in sorted((share for share in shares if share is not donor), key=lambda share: share.cost):
        place = _best(donor, receiver)
        if place is not None:
            receiver.add(*donor.remove(place))
            return True
    return False


def _best(donor: _Share, receiver: _Share) -> int | None:
    """Say where the atom stands whose move leaves the lower of the two costs highest.

    None if none lowers the highest.
    """
    even = (donor.cost - receiver.cost) / (donor.unit_cost + receiver.unit_cost)
    below = _place(donor, even)
    weights = {place: donor.atoms[place][2] for place in (below, below + 1, 0) if place < len(donor.atoms)}
    highest = {
        place: max(donor.cost_with(-weight), receiver.cost_with(weight)) for place, weight in weights.items() if weight
    }
    best = min(highest, key=lambda place: (highest[place], -place), default=None)
    return best if best is not None and highest[best] < donor.cost * (1 - 1e-9) else None


def _place(share: _Share, weight: float) -> int:
    """Return the place of the heaviest atom that is not above a weight, and of those of equal weight the last one."""
    return max(0, bisect_right(share.atoms, share.steps(weight), key=lambda atom: atom[0]) - 1)


def cost_shares(
    owners: Sequence[int], partitions: int, weights: Sequence[float], unit_costs: Sequence[float] = ()
) -> list[float]:
    """Return the cost of each partition by the ideal one: all 1 for a perfect division."""
    held = [0.0] * partitions
    for group, owner in enumerate(owners):
        held[owner] += weights[group]
    units = unit_costs or [1.0] * partitions
    ideal = sum(held) / sum(1 / unit for unit in units)
    return [weight * unit / ideal if ideal else 1.0 for weight, unit in zip(held, units, strict=True)]
