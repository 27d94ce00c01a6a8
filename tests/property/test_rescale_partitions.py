"""A checkpoint written on any number of partitions goes on with any other, from 1 to the number of key groups."""

from __future__ import annotations

import contextlib
import itertools
import random

import pytest

from millpond import Aborted, List, Map, Partitioned, Program, Value, entry
from millpond.checkpoint.snapshots import snapshots
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from millpond.errors import StateError
from millpond.graph.model import Dispatch
from tests.programs.keyed import Fraud, Recommender, Store, committed_state, fresh_seed, random_row, shown
from tests.property.rescaled import Kinds
from tests.property.rescaled import random_row as kinds_row
from tests.sizes import compile_once

pytestmark = pytest.mark.slow

KEY_GROUPS = 9


class Transfers(Program):
    """Rows over several keys, gathered; a single element among them, and aborts."""

    balances = Partitioned(Map[str, int])
    total = Partitioned(Value[int])
    log = Partitioned(List[str])

    @entry
    def deposit(self, account: str, amount: int) -> int:
        self.balances[account] = self.balances.get(account, 0) + amount
        self.total.set(self.total.get(0) + amount)
        return self.total.get(0)

    @entry
    def transfer(self, source: str, target: str, amount: int) -> int:
        if self.balances.get(source, 0) < amount:
            self.abort("not enough")
        self.balances[source] = self.balances.get(source, 0) - amount
        self.balances[target] = self.balances.get(target, 0) + amount
        return self.balances[target]

    @entry
    def note(self, text: str) -> int:
        self.log.append(text)
        return len(self.log)


def row_of(program, rng, number):
    if program is Kinds:
        return kinds_row(rng)
    if program is not Transfers:
        return random_row(program, rng, number)
    accounts = [f"account {n}" for n in range(30)]
    moved = ("transfer", (rng.choice(accounts), rng.choice(accounts), rng.randrange(12)))
    return rng.choice([moved, moved, ("deposit", (rng.choice(accounts), rng.randrange(20))), ("note", (str(number),))])


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Snapshots at every third epoch, and some deltas in files of their own."""
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 120)


def check_goes_on(program, folder, partitions, key_groups, instances, rows):
    """One epoch on each number of partitions, each a start of its own; replies and bytes are the sequential ones."""
    seed = fresh_seed()
    rng = random.Random(seed)
    compiled = compile_once(program)
    sequential = Sequential(compiled, key_groups, instances)
    number = 0
    for count in partitions:
        simulated = Simulated(compiled, folder, count, key_groups, instances)
        fed = [row_of(program, rng, number + at) for at in range(rows)]
        wanted = sequential.epoch(fed)
        simulated.epoch(fed)
        said, refusals = simulated.replies(), simulated.refusals()
        for at, (reply, (name, _)) in enumerate(zip(wanted, fed, strict=True), start=number):
            if isinstance(reply, Aborted):
                assert refusals[at] == reply.reason
            elif compiled.entries[name].point.replies:
                assert said[at] == shown(reply, compiled.entries[name].point.returns)
        number += rows
        assert committed_state(folder / "checkpoint") == sequential.state(), count


@pytest.mark.parametrize("program", [Store, Fraud, Recommender, Kinds, Transfers])
def test_every_number_of_partitions_follows_every_kind_of_number(program, tmp_path):
    up_and_down = [*range(1, KEY_GROUPS + 1), 1, KEY_GROUPS, 2, 7, 3]
    check_goes_on(program, tmp_path, up_and_down, KEY_GROUPS, 4, rows=14)


@pytest.mark.campaign
@pytest.mark.parametrize("program", [Kinds, Transfers])
def test_every_number_of_partitions_follows_every_other(program, tmp_path):
    pairs = itertools.chain.from_iterable(itertools.permutations((1, 2, 4, 5, KEY_GROUPS), 2))
    check_goes_on(program, tmp_path, list(pairs), KEY_GROUPS, 5, rows=6)


@pytest.mark.parametrize("program", [Kinds, Transfers])
def test_as_many_partitions_as_key_groups_of_a_common_checkpoint(program, tmp_path):
    check_goes_on(program, tmp_path, [2, 128, 1], 128, 8, rows=20)


def test_the_transfers_are_gathered():
    entries = compile_once(Transfers).entries
    assert {name for name, one in entries.items() if one.tasks[0].dispatch is Dispatch.GATHERED} >= {
        "deposit",
        "transfer",
    }


@pytest.mark.parametrize("partitions", [0, KEY_GROUPS + 1])
def test_more_partitions_than_key_groups_are_refused_and_nothing_is_written(tmp_path, partitions):
    compiled = compile_once(Transfers)
    Simulated(compiled, tmp_path, 2, KEY_GROUPS, 4).epoch([("deposit", ("a", 1))])
    before = committed_state(tmp_path / "checkpoint")
    with pytest.raises(StateError) as caught:
        Simulated(compiled, tmp_path, partitions)
    assert caught.value.code == "MP206"
    assert committed_state(tmp_path / "checkpoint") == before


def test_plain_python_agrees(tmp_path):
    rng = random.Random(4)
    rows = [row_of(Transfers, rng, number) for number in range(60)]
    plain = Transfers()
    for name, arguments in rows:
        with contextlib.suppress(Aborted):
            getattr(plain, name)(*arguments)
    compiled = compile_once(Transfers)
    for at, partitions in zip(range(0, 60, 20), (3, 1, 8), strict=True):
        Simulated(compiled, tmp_path, partitions, KEY_GROUPS).epoch(rows[at : at + 20])
    codec = Transfers.elements()["balances"].type
    state = committed_state(tmp_path / "checkpoint")
    found = {codec.keys.decode(key[3:]): codec.values.decode(value) for key, value in state.items() if key[0] == 0}
    assert found == dict(plain.balances)
