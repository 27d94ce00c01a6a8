"""The examples whose methods touch several keys answer as their classes do, on any partitions and with any epochs."""

from __future__ import annotations

import random
from collections import Counter as Tally
from itertools import pairwise

import pytest

from examples import bank, inventory, matching
from examples.audit import constant, measured, states
from millpond import Aborted
from millpond.engine.simulated import Simulated
from millpond.graph.model import Dispatch
from millpond.testing import Refused, assert_equals_plain, random_faults, simulate
from tests.sizes import compile_once

ROWS = 250
EXAMPLES = {"bank": (bank, bank.Bank), "inventory": (inventory, inventory.Inventory)} | {
    "matching": (matching, matching.Exchange)
}

pytestmark = pytest.mark.slow

each_example = pytest.mark.parametrize(("module", "program"), EXAMPLES.values(), ids=EXAMPLES)


def cut(rows, seed):
    chance = random.Random(seed)
    places = sorted(chance.randrange(len(rows) + 1) for _ in range(chance.randrange(5)))
    return [rows[start:end] for start, end in pairwise([0, *places, len(rows)])]


@pytest.mark.parametrize("partitions", [1, 2, 3, 7])
@each_example
def test_a_run_equals_the_plain_class_whatever_goes_wrong(module, program, partitions):
    rows = [(name, *arguments) for name, arguments in module.make_rows(partitions, ROWS)]
    run = simulate(program, rows, epochs=4, partitions=partitions, faults=random_faults(partitions, 3, epochs=4))
    assert 0 < sum(isinstance(reply, Refused) for reply in run.replies) < 0.7 * ROWS
    assert_equals_plain(run)


@each_example
def test_all_entry_points_run_gathered(module, program):
    entries = compile_once(program).entries
    assert {entry.tasks[0].dispatch for entry in entries.values()} == {Dispatch.GATHERED}
    assert not any(entry.point.relaxed for entry in entries.values())


@each_example
def test_an_example_runs_as_a_module_and_follows_from_its_seed(module, program, capsys):
    assert module.main() == 0
    said = capsys.readouterr().out
    assert module.main() == 0
    assert capsys.readouterr().out == said
    assert "refused" in said or "put back" in said


def test_the_auditor_of_the_bank_reads_the_same_sum_at_every_epoch(tmp_path):
    rows = bank.make_rows(3, 400)
    run = Simulated(compile_once(bank.Bank), tmp_path, 3)
    opening = len(bank.ACCOUNTS)
    run.epoch(rows[:opening])
    for start in range(opening, len(rows), 40):
        run.epoch(rows[start : start + 40])
    totals = measured(run.storage, bank.Bank.elements(), bank.money)
    assert len(totals) == 1 + -(-(len(rows) - opening) // 40)
    assert constant(totals)
    assert totals[1] == sum(arguments[1] for name, arguments in rows if name == "deposit")
    balances = [state["balances"] for _, state in states(run.storage, bank.Bank.elements())]
    assert len({tuple(sorted(held.items())) for held in balances}) == len(balances), "money moves in every epoch"
    assert min(min(held.values()) for held in balances) >= 0


def test_a_basket_that_lacks_its_last_item_takes_nothing():
    stock = inventory.Inventory()
    stock.deliver("mill", "rye", 2)
    with pytest.raises(Aborted) as refused:
        stock.basket(1, "mill", ["rye", "oats"])
    assert refused.value.reason == "mill has no oats"
    assert stock.in_stock(["mill"], "rye") == 2
    assert 1 not in stock.orders
    assert stock.shelves["mill", "rye"] == inventory.Shelf(2, 0)


def test_pieces_of_an_inventory_are_delivered_sold_or_there(tmp_path):
    rows = inventory.make_rows(4, ROWS)
    run = Simulated(compile_once(inventory.Inventory), tmp_path, 2)
    for epoch in cut(rows, 4):
        run.epoch(epoch)
    *_, (_, state) = states(run.storage, inventory.Inventory.elements())
    found: Tally[str] = Tally()
    for (_, item), shelf in state["shelves"].items():
        found[item] += shelf.pieces + shelf.sold
        assert shelf.pieces >= 0
    delivered: Tally[str] = Tally()
    for name, arguments in rows:
        if name == "deliver":
            delivered[arguments[1]] += arguments[2]
    assert +found == +delivered


def test_cash_and_pieces_of_an_exchange_change_hands_only(tmp_path):
    rows = matching.make_rows(9, ROWS)
    run = Simulated(compile_once(matching.Exchange), tmp_path, 3)
    joined = len(matching.TRADERS)
    for start, end in pairwise([0, joined, *range(joined + 30, ROWS, 30)]):
        run.epoch(rows[start:end])

    def sums(state):
        offered = sum(offer.pieces for book in state["offers"].values() for offer in book)
        return sum(state["cash"].values()), offered + sum(state["holdings"].values())

    found = measured(run.storage, matching.Exchange.elements(), sums)
    assert constant(found)
    assert found[1] == (matching.CASH * joined, matching.PIECES * joined)
