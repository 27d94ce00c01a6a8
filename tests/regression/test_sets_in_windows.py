"""How records of a window were put together is not seen in the order of a set that an aggregate keeps."""

from __future__ import annotations

import random

from millpond.windowing import aggregate, several
from millpond.windowing.aggregates.aggregates import Aggregate


def gathered(whole: Aggregate, records: list[int], dice: random.Random) -> object:
    """The result of records in their order, put together in groups by chance."""
    parts = [whole.lift(record) for record in records]
    while len(parts) > 1:
        at = dice.randrange(len(parts) - 1)
        parts[at : at + 2] = [whole.combine(parts[at], parts[at + 1])]
    return whole.result(parts[0])


def test_every_grouping_gives_the_same_result():
    distinct = aggregate(
        lift=lambda record: frozenset((record, record * 8)),
        combine=lambda left, right: left | right,
        lower=lambda partial: ",".join(map(str, partial)),
        identity=frozenset(),
    )
    lists = aggregate(
        lift=lambda record: ({record * 16},),
        combine=lambda left, right: ({*left[0], *right[0]},),
        lower=lambda partial: list(partial[0]),
        identity=(set(),),
    )
    dice = random.Random(5)
    records = [8 * dice.randrange(40) for _ in range(25)]
    both = several(one=distinct, other=lists)
    assert len({str(gathered(both, records, dice)) for _ in range(60)}) == 1
