"""Some generated loops and graphs; `make crash` looks at far more."""

from __future__ import annotations

import pytest

from tests.property.loops import check


@pytest.mark.parametrize("seed", range(60))
def test_generated_loops_and_graphs_give_what_their_oracles_give(seed):
    check(seed)
