"""Relaxed entry points: steps on many partitions give what the reference interpreter gives, whatever the budget."""

from __future__ import annotations

import random

import pyarrow.parquet as pq
import pytest

from millpond import Counter, Map, Partial, Partitioned, Program, each, entry, merged, parquet
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.errors import EpochError
from tests.sizes import compile_once, sized

KEY_GROUPS, INSTANCES = 16, 4


class Bank(Program):
    """Two keys of one element, a loop whose steps depend on data, a comprehension over keys, and partial state."""

    accounts = Partitioned(Map[int, int])
    ends = Partitioned(Counter[str])
    visits = Partial(Counter[int])

    @entry(relaxed=True)
    def transfer(self, source: int, target: int, cents: int) -> int:
        balance = self.accounts.get(source, 10)
        if balance < cents:
            return -1
        self.accounts[source] = balance - cents
        self.accounts[target] = self.accounts.get(target, 10) + cents
        return balance

    @entry(relaxed=True)
    def walk(self, account: int, hops: int) -> int:
        total = 0
        seen = []
        while hops > 0:
            total += self.accounts.get(account, 10)
            seen.append(account)
            account = (account + self.accounts.get(account, 1)) % 5
            self.accounts[account] = self.accounts.get(account, 10) + 1
            hops -= 1
            self.visits[account] += 1
        self.ends[str(seen[-1:])] += 1
        return total + merged(each(self.visits).get(account, 0), sum)

    @entry(relaxed=True)
    def balances(self, count: int) -> list[int]:
        return [self.accounts.get(account, 10) for account in range(count)]

    @entry
    def balance(self, account: int) -> int:
        return self.accounts.get(account, 10)


def random_rows(dice, count):
    kinds = {
        "transfer": lambda: (dice.randrange(5), dice.randrange(5), dice.randrange(12)),
        "walk": lambda: (dice.randrange(5), dice.randrange(7)),
        "balances": lambda: (dice.randrange(5),),
        "balance": lambda: (dice.randrange(5),),
    }
    names = [dice.choice(list(kinds)) for _ in range(count)]
    return [(name, kinds[name]()) for name in names]


@pytest.mark.parametrize("seed", range(sized(8, 3)))
def test_steps_of_partitions_equal_the_reference_interpreter(tmp_path, seed):
    dice = random.Random(seed)
    compiled = compile_once(Bank)
    rows = random_rows(dice, 25)
    reference = Sequential(compiled, KEY_GROUPS, INSTANCES)
    simulated = Simulated(
        compiled, tmp_path, dice.choice([1, 2, 3, 7]), KEY_GROUPS, INSTANCES, steps_max=dice.choice([1, 2, 3, 8])
    )
    expected = {}
    start = 0
    while start < len(rows):
        size = dice.randrange(1, 20)
        simulated.epoch(rows[start : start + size])
        expected |= dict(enumerate(reference.epoch(rows[start : start + size]), start))
        start += size
    assert simulated.replies() == expected


def test_money_is_neither_made_nor_lost(tmp_path):
    dice = random.Random(1)
    simulated = Simulated(compile_once(Bank), tmp_path, 3)
    for _ in range(3):
        simulated.epoch([row for row in random_rows(dice, 60) if row[0] == "transfer"])
    simulated.epoch([("balances", (5,))])
    assert sum(simulated.replies()[simulated.fed - 1]) == 50


class StoppedError(Exception):
    """The driver dies."""


def test_what_an_epoch_left_goes_on_after_a_crash(tmp_path, monkeypatch):
    compiled = compile_once(Bank)
    rows = random_rows(random.Random(3), 20)
    expected = dict(enumerate(Sequential(compiled, KEY_GROUPS, INSTANCES).epoch(rows)))
    sinks = {name: parquet(tmp_path / "out" / name) for name in compiled.entries}
    whole = Simulated.compute_messages
    left: list[int] = []

    def once(self, messages, request):
        """Each driver finishes one more epoch of what is left, and dies."""
        if left:
            raise StoppedError
        left.append(request.parent.epoch)
        return whole(self, messages, request)

    monkeypatch.setattr(Simulated, "compute_messages", once)
    with pytest.raises(StoppedError):
        Simulated(compiled, tmp_path, 2, KEY_GROUPS, INSTANCES, steps_max=2, sinks=sinks).epoch(rows)
    for life in range(50):
        left.clear()
        try:
            Simulated(compiled, tmp_path, 1 + life % 3, KEY_GROUPS, INSTANCES, steps_max=2, sinks=sinks)
        except StoppedError:
            continue
        break
    tables = [pq.read_table(path) for path in (tmp_path / "out").rglob("*.parquet")]
    replies = [(row["row"], row["reply"]) for table in tables for row in table.to_pylist()]
    assert life > 1
    assert len(replies) == len(expected)
    assert dict(replies) == expected


def test_a_changed_program_is_not_given_the_messages_of_the_old_one(tmp_path, monkeypatch):
    compiled = compile_once(Bank)
    first = Simulated(compiled, tmp_path, 2, steps_max=1)

    def die(*_):
        raise StoppedError

    monkeypatch.setattr(first, "compute_messages", die)
    with pytest.raises(StoppedError):
        first.epoch([("walk", (1, 5))])

    class Changed(Bank):
        @entry(relaxed=True)
        def walk(self, account: int, hops: int) -> int:
            return self.accounts.get(account, 10) + hops

    with pytest.raises(EpochError) as caught:
        Simulated(compile_once(Changed), tmp_path, 2, steps_max=1)
    assert caught.value.code == "MP417"
