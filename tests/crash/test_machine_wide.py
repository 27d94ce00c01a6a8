"""The protocol in a small world with every change, and in worlds far larger than every run has time for (R1).

The world, its rules and its checks are those of `test_machine_exhaustive.py`. An answer that is lost is a driver that
dies before it is delivered; one that comes twice is a batch that Spark offers again.
"""

from __future__ import annotations

import pytest

from millpond.checkpoint.records.offers import Rescaled
from tests.unit.checkpoint.commit.test_machine_exhaustive import World, all_done, check, explore, successors

QUICK = World(epochs=2, crashes=1, aborts=0, mistakes=0, leftovers=1)


def test_a_small_world_has_no_bad_state_and_no_dead_end():
    worlds = explore(QUICK)
    assert any(map(all_done, worlds))
    reaching = {world for world in worlds if all_done(world)}
    frontier = list(reaching)
    while frontier:
        for before in worlds[frontier.pop()]:
            if before not in reaching:
                reaching.add(before)
                frontier.append(before)
    assert reaching == set(worlds)


def count_worlds(first, most):
    """Look at worlds level by level and remember only a number for each: so there may be millions."""
    seen, level = {hash(first)}, [first]
    while level and len(seen) < most:
        following = []
        for world in level:
            check(world)
            for after in successors(world):
                if hash(after) not in seen:
                    seen.add(hash(after))
                    following.append(after)
        level = following
    return len(seen)


@pytest.mark.campaign
@pytest.mark.parametrize(
    "world",
    [
        World(epochs=3, crashes=2, aborts=1, mistakes=1, leftovers=1),
        World(epochs=3, crashes=3, aborts=0, mistakes=2, leftovers=0),
        World(epochs=4, crashes=2, aborts=0, mistakes=1, leftovers=0, change=Rescaled(2)),
    ],
    ids=["3 epochs", "3 crashes", "4 epochs and a rescale"],
)
def test_large_worlds_have_no_bad_state(world):
    assert count_worlds(world, 1_500_000) > 50_000
