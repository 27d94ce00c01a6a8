"""Rows of tasks without state run in any partition: replies and state stay those of the sequential run."""

from __future__ import annotations

import random

import numpy as np
import pytest

from millpond import Counter, Partitioned, Program, entry
from millpond.compiler.plan.routing import argument_hash
from millpond.engine.elastic.loadmetrics import task_loads
from millpond.engine.messages import decode_control
from millpond.engine.onetask import run_in_one_task
from millpond.engine.plan import EpochPlan
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Fed, Simulated
from millpond.errors import ElasticError
from millpond.keygroups import Layout
from tests.programs.keyed import committed_state, fresh_seed, shown
from tests.property.test_ownership import random_owners
from tests.sizes import compile_once

KEY_GROUPS = 9


class Words(Program):
    """A task without state before one by key: the key is only known once the text is looked at."""

    lengths = Partitioned(Counter[int])

    @entry
    def add(self, text: str) -> int:
        size = len(text.strip())
        self.lengths[size] += 1
        return self.lengths[size]

    @entry
    def shout(self, text: str) -> str:
        return text.upper()

    @entry
    def count(self, size: int) -> int:
        return self.lengths.get(size, 0)


COMPILED = compile_once(Words)


def random_row(rng):
    name = rng.choice(["add", "add", "shout", "count"])
    return name, (rng.randrange(6),) if name == "count" else ("x" * rng.randrange(6) + " " * rng.randrange(3),)


def random_spread(rng, partitions):
    return rng.choice([None, [rng.randrange(partitions) for _ in range(KEY_GROUPS)]])


@pytest.mark.parametrize("turn", range(3))
def test_rows_without_state_may_run_anywhere_in_any_epoch(tmp_path, turn):
    rng = random.Random(fresh_seed() + turn)
    sequential, simulated = Sequential(COMPILED, KEY_GROUPS, 1), Simulated(COMPILED, tmp_path, 2, KEY_GROUPS, 1)
    wanted = {}
    for epoch in range(6):
        partitions = rng.randrange(1, 5)
        owners = random_owners(rng, simulated.layout, partitions)
        simulated.assign(owners, partitions, random_spread(rng, partitions))
        rows = [random_row(rng) for _ in range(20)]
        for at, (reply, (name, _)) in enumerate(zip(sequential.epoch(rows), rows, strict=True), start=20 * epoch):
            wanted[at] = shown(reply, COMPILED.entries[name].point.returns)
        simulated.epoch(rows)
        assert committed_state(tmp_path / "checkpoint") == sequential.state()
    assert simulated.replies() == wanted


def test_rows_without_state_run_where_the_layout_says_and_others_with_their_state(tmp_path):
    simulated = Simulated(COMPILED, tmp_path, 3, KEY_GROUPS, 1)
    spread = [2, 2, 0, 0, 0, 1, 2, 2, 2]
    simulated.assign([0, 0, 0, 1, 1, 1, 1, 1, 1], 3, spread)
    rows = [("add", ("x" * number,)) for number in range(40)]
    parent = simulated._checkpoint.parent
    told = run_in_one_task(simulated._plan, EpochPlan(parent.epoch + 1, parent), simulated._route(Fed(rows)))
    controls = [decode_control(body) for body in told.column("body").to_pylist()]
    parse, count = task_loads(simulated.layout, controls, {"add.0"})
    assert (parse.free, count.free) == (True, False)
    point = COMPILED.entries["add"].point
    groups = [(argument_hash(point, arguments) or 0) % KEY_GROUPS for _, arguments in rows]
    assert list(parse.worked) == np.bincount([spread[group] for group in groups], minlength=3).tolist()
    owners = [simulated.layout.owner_of(simulated.layout.group_of(number)) for number in range(40)]
    assert list(count.worked) == np.bincount(owners, minlength=3).tolist()


def test_a_spread_that_names_a_partition_too_many_is_refused():
    with pytest.raises(ElasticError) as caught:
        Layout(4, 2, 1, aligned=False).with_spread([0, 1, 2, 0])
    assert caught.value.code == "MP680"
