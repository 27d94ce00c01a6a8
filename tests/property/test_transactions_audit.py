"""What must hold of a world holds at every committed epoch, as its checkpoint alone tells; and a leak is seen."""

from __future__ import annotations

import random

import pytest

from examples.audit import constant, kept_manifests, measured
from millpond import Map, Partitioned, Program, entry
from millpond.checkpoint.snapshots import snapshots
from millpond.engine.plan import BadRows
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from tests.fuzz.transactions.worlds import bank, inventory, matching, social
from tests.sizes import compile_once

HELD = {
    "bank": (bank, bank.Bank, bank.surplus, 0),
    "inventory": (inventory, inventory.Inventory, inventory.missing, 0),
    "social": (social, social.Social, social.torn, []),
    "matching": (matching, matching.Exchange, matching.out_of_balance, (0, 0)),
}


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Snapshots at every third epoch, and some deltas in files of their own: the auditor reads all of them."""
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 120)


@pytest.mark.campaign
@pytest.mark.parametrize("partitions", [1, 2, 3, 7])
@pytest.mark.parametrize(("world", "program", "measure", "wanted"), HELD.values(), ids=HELD)
def test_nothing_is_lost_or_made_at_any_epoch(world, program, measure, wanted, partitions, tmp_path):
    chance = random.Random(partitions)
    rows = world.make_rows(partitions, 240)
    run = Simulated(compile_once(program), tmp_path, partitions, bad_rows=BadRows.SKIP)
    epochs = 0
    while run.fed < len(rows):
        run.epoch(rows[run.fed : run.fed + chance.randrange(1, 40)])
        epochs += 1
    found = measured(run.storage, program.elements(), measure)
    assert list(found) == list(range(1, epochs + 1))
    assert constant(found)
    assert found[1] == wanted


class Leaky(Program):
    """Loses a cent of every transfer of more than ten."""

    balances = Partitioned(Map[str, int])

    @entry
    def deposit(self, account: str, cents: int) -> None:
        self.balances[account] = self.balances.get(account, 0) + cents

    @entry
    def transfer(self, source: str, target: str, cents: int) -> None:
        self.balances[source] = self.balances.get(source, 0) - cents
        self.balances[target] = self.balances.get(target, 0) + cents - (cents > 10)


def test_a_leak_is_seen_at_the_epoch_where_it_is(tmp_path):
    run = Simulated(compile_once(Leaky), tmp_path, 2)
    run.epoch([("deposit", ("a", 100)), ("deposit", ("b", 100))])
    run.epoch([("transfer", ("a", "b", 10))])
    run.epoch([("transfer", ("b", "c", 11)), ("transfer", ("c", "a", 5))])
    totals = measured(run.storage, Leaky.elements(), lambda state: sum(state["balances"].values()))
    assert totals == {1: 200, 2: 200, 3: 199}
    assert not constant(totals)
    assert constant({epoch: total for epoch, total in totals.items() if epoch < 3})


def test_nothing_to_look_at_is_not_taken_for_constant(tmp_path):
    run = Simulated(compile_once(Leaky), tmp_path, 1)
    assert list(kept_manifests(run.storage)) == []
    assert not constant(measured(run.storage, Leaky.elements(), len))


def test_epochs_can_be_left_out_at_the_beginning(tmp_path):
    run = Simulated(compile_once(Leaky), tmp_path, 1)
    for cents in (5, 6, 7):
        run.epoch([("deposit", ("a", cents))])
    found = measured(run.storage, Leaky.elements(), lambda state: state["balances"]["a"], since=2)
    assert found == {2: 11, 3: 18}
