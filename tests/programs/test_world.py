"""Programs of the world run as they are written, and give what plain Python gives, on any cut and partitions."""

from __future__ import annotations

import random

import pytest

from millpond.testing import assert_equals_plain, crash, simulate
from tests.programs.world import banks, graphs, markets, rides, services, shops, streams, structures

CASES = [
    case for module in (shops, banks, streams, graphs, rides, services, structures, markets) for case in module.CASES
]
MERGES = {"shown": sum, "clicked": sum, "totals": sum, "seen": sum, "flags": lambda told: told[0]}


def name_of(program):
    return f"{program.__module__.rpartition('.')[2]}.{program.__name__}"


def test_there_are_many_of_them():
    assert len({name_of(program) for program, _ in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize(("program", "rows"), CASES, ids=[name_of(program) for program, _ in CASES])
def test_a_program_as_it_is_written_equals_plain_python(program, rows):
    merge = {name: how for name, how in MERGES.items() if name in program.elements()}
    chance = random.Random(name_of(program))
    cuts = sorted(chance.sample(range(1, len(rows)), chance.randint(1, min(3, len(rows) - 1))))
    whole = simulate(program, rows, partitions=chance.randint(2, 7), on_bad_row="skip")
    assert_equals_plain(whole, merge=merge)
    faults = [crash(at="written", epoch=2)]
    killed = simulate(program, rows, epochs=cuts, partitions=chance.randint(1, 7), faults=faults, on_bad_row="skip")
    assert_equals_plain(killed, merge=merge)
