"""A bank: transfers (also to oneself), payouts to a list of accounts, and accounts that are closed.

At every moment the balances together are what was paid in: `surplus` is zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millpond.program import Partitioned, ProgramBase, entry
from millpond.state.containers.map import Map
from tests.fuzz.dice import Dice
from tests.fuzz.rows import Row
from tests.fuzz.transactions.worlds.picking import Picker

ACCOUNTS = tuple(f"account-{number}" for number in range(12))
KEPT = 4


class Bank(ProgramBase):
    """Moves money; each movement is all or nothing."""

    balances = Partitioned(Map[str, int])
    paid_in = Partitioned(Map[str, int])
    history = Partitioned(Map[str, list[int]])

    def _note(self, account: str, amount: int) -> None:
        moves = self.history.setdefault(account, [])
        moves.append(amount)
        del moves[:-KEPT]

    @entry
    def deposit(self, account: str, amount: int) -> int:
        """Pay in."""
        self.balances[account] = self.balances.get(account, 0) + amount
        self.paid_in[account] = self.paid_in.get(account, 0) + amount
        if amount <= 0:
            self.abort("nothing to deposit")
        self._note(account, amount)
        return self.balances[account]

    @entry
    def transfer(self, source: str, target: str, amount: int) -> int:
        """Withdraw, then look whether that was allowed."""
        self.balances[source] = self.balances.get(source, 0) - amount
        self._note(source, -amount)
        if self.balances[source] < 0:
            self.abort(f"{source} lacks {-self.balances[source]}")
        self.balances[target] = self.balances.get(target, 0) + amount
        self._note(target, amount)
        return self.balances[source]

    @entry
    def offer(self, source: str, target: str, amount: int) -> bool:
        """Transfer between accounts that exist; answers whether both do."""
        try:
            self.balances[source] -= amount
        except KeyError:
            return False
        try:
            self.balances[target] += amount
        except KeyError:
            self.balances[source] += amount
            return False
        return True

    @entry
    def pay_out(self, source: str, targets: list[str], amount: int) -> int:
        """Pay the same to each of a list."""
        if not targets:
            return 0
        for target in targets:
            self.balances[source] -= amount
            if self.balances[source] < 0:
                raise ValueError(f"no money for {target}")
            self.balances[target] = self.balances.get(target, 0) + amount
        self._note(source, -amount * len(targets))
        return sum(self.balances[target] for target in targets)

    @entry
    def close(self, account: str, heir: str) -> int:
        """Give all that is left to an heir, who must have an account."""
        rest = self.balances.pop(account)
        self.history.pop(account, None)
        self.balances[heir] += rest
        return rest

    @entry
    def balance(self, account: str) -> int | None:
        """Answer with a balance."""
        return self.balances.get(account)

    @entry
    def statement(self, accounts: list[str]) -> dict[str, list[int]]:
        """Answer with the last moves of accounts that have any."""
        return {account: list(self.history[account]) for account in accounts if account in self.history}

    @entry
    def able(self, accounts: list[str], amount: int) -> str | None:
        """Answer with the first account that has an amount."""
        for account in accounts:
            if account not in self.balances:
                continue
            if self.balances[account] >= amount:
                return account
        return None


def make_rows(seed: int, count: int) -> list[Row]:
    """Rows over a few accounts."""
    dice = Dice(seed)
    pick = Picker(dice, ACCOUNTS[: dice.one((3, 6, len(ACCOUNTS)))])
    rows: list[Row] = []
    for _ in range(count):
        amount = dice.between(0, 60)
        row: tuple[str, tuple[Any, ...]] = dice.weighted(
            [
                (5, ("deposit", (pick.one(), amount * 3 - 9))),
                (8, ("transfer", (*pick.pair(), amount))),
                (3, ("offer", (*pick.pair(), amount))),
                (4, ("pay_out", (pick.one(), pick.several(), amount))),
                (1, ("close", pick.pair())),
                (1, ("balance", (pick.one(),))),
                (1, ("statement", (pick.several(),))),
                (1, ("able", (pick.several(), amount))),
            ]
        )
        rows.append(row)
    return rows


def surplus(state: Mapping[str, Mapping[Any, Any]]) -> int:
    """Money that nobody paid in: zero, or some was lost or made."""
    return int(sum(state["balances"].values()) - sum(state["paid_in"].values()))
