"""What a load gains from a move."""

from __future__ import annotations

import numpy as np
import pytest

from millpond.engine.elastic import Observed
from millpond.engine.elastic.standard import Move, Weighed
from millpond.keygroups import Layout


def observed(layout):
    return Observed(1, layout.owners(), layout.partitions, layout.atoms, (), (0.0,) * layout.partitions, 1.0)


def weighed(rows, costs, free=()):
    return Weighed(np.array(rows), np.array(free or [0.0] * len(rows)), costs)


def test_a_move_is_as_good_as_the_highest_cost_that_it_lowers():
    layout = Layout(8, 2, 1, aligned=False)
    move = weighed([10.0] * 4 + [1.0] * 4, [1.0, 1.0]).best_move(observed(layout), 1.1)
    assert move.relieves == pytest.approx(1.8, abs=0.05)
    assert weighed([1.0] * 8, [1.0, 1.0]).best_move(observed(layout), 1.1).relieves == 1.0


def test_free_rows_are_enough_if_they_are_many():
    layout = Layout(8, 2, 1, aligned=False)
    move = weighed([2.0] * 4 + [1.0] * 4, [1.0, 1.0], [5.0] * 8).best_move(observed(layout), 1.1)
    assert move.owners == layout.owners()
    assert max(move.after) < 1.1


def test_a_move_fills_partitions_that_have_too_little_unless_others_get_too_much():
    owners = (0, 0, 1, 2)
    filling = Move(owners, None, [1.2, 1.2, 0.25], [1.1, 1.0, 0.9], changes=True)
    assert filling.fills([2]) == 4
    assert filling.fills([]) == 1
    assert Move(owners, None, [1.2, 1.2, 0.25], [1.2, 1.2, 0.25], changes=False).fills([2]) == 1
    assert Move(owners, None, [1.2, 1.2, 0.25], [1.3, 1.0, 0.9], changes=True).fills([2]) == 1
