"""Programs of the world run as they are written, and give what plain Python gives, on any cut and partitions."""

from __future__ import annotations

import pytest

from millpond.testing import assert_equals_plain, crash, simulate
from tests.programs.world import banks, graphs, shops, streams

CASES = [*shops.CASES, *banks.CASES, *streams.CASES, *graphs.CASES]
MERGES = {"shown": sum, "clicked": sum}


@pytest.mark.parametrize(("program", "rows"), CASES, ids=[program.__name__ for program, _ in CASES])
def test_a_program_as_it_is_written_equals_plain_python(program, rows):
    merge = {name: how for name, how in MERGES.items() if name in program.elements()}
    for epochs, partitions in ((1, 3), (3, 2), (len(rows), 1)):
        assert_equals_plain(simulate(program, rows, epochs=epochs, partitions=partitions), merge=merge)
    killed = simulate(program, rows, epochs=2, partitions=2, faults=[crash(at="written", epoch=2)])
    assert_equals_plain(killed, merge=merge)
