"""A bank: transfers between two accounts and salaries for a list of them, exact, each all or nothing.

A transfer visits one element under two keys, so no order of the elements makes it exact. But its keys are its
arguments, so it runs *gathered*: the rows of an epoch that share accounts, directly or through others, run in one
place, in input order. What a method has changed when it calls `self.abort(reason)` is undone, and the reason is told.

The example runs the class as plain Python, then on three partitions with a checkpoint, and lets an auditor read the
checkpoint alone: the money in all accounts is the same at every committed epoch.
"""

from __future__ import annotations

import random
import sys
from collections import Counter as Tally
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from examples.audit import State, constant, measured
from examples.refusals import play
from examples.rows import Row, hot
from millpond import Map, Partitioned, Program, entry
from millpond.compiler.compile import compile_program
from millpond.engine.simulated import Simulated
from millpond.storage.backends.files import FileStorage

SEED = 5
ROWS = 4_000
EPOCHS = 8
PARTITIONS = 3
ACCOUNTS = tuple(f"account-{number:02}" for number in range(24))
SHOWN = 6


class Bank(Program):
    """Keeps balances in cents, and moves money between accounts."""

    balances = Partitioned(Map[str, int])

    @entry
    def deposit(self, account: str, cents: int) -> int:
        """Put money into an account; answers with the new balance."""
        self.balances[account] = self.balances.get(account, 0) + cents
        return self.balances[account]

    @entry
    def balance(self, account: str) -> int:
        """Answer with the balance of an account."""
        return self.balances.get(account, 0)

    @entry
    def transfer(self, source: str, target: str, cents: int) -> int:
        """Move money; answers with what is left."""
        if cents <= 0:
            self.abort("there is nothing to move")
        self._withdraw(source, cents)
        self.balances[target] = self.balances.get(target, 0) + cents
        return self.balances[source]

    @entry
    def salaries(self, employer: str, employees: list[str], cents: int) -> int:
        """Pay all of a list, or nobody; answers with what is left."""
        for employee in employees:
            self._withdraw(employer, cents)
            self.balances[employee] = self.balances.get(employee, 0) + cents
        return self.balances.get(employer, 0)

    def _withdraw(self, account: str, cents: int) -> None:
        if self.balances.get(account, 0) < cents:
            self.abort(f"{account} lacks the money")
        self.balances[account] -= cents


def make_rows(seed: int, count: int) -> list[Row]:
    """Make up the opening deposits, then transfers, salaries and questions; the first accounts are in most of them."""
    chance = random.Random(seed)
    rows: list[Row] = [("deposit", (account, chance.randrange(50_000, 90_000))) for account in ACCOUNTS]
    while len(rows) < count:
        account, other = hot(chance, ACCOUNTS), hot(chance, ACCOUNTS)
        (kind,) = chance.choices(("transfer", "salaries", "balance"), (8, 2, 1))
        if kind == "transfer":
            rows.append(("transfer", (account, other, chance.randrange(0, 40_000))))
        elif kind == "salaries":
            employees = chance.sample(ACCOUNTS, chance.randrange(1, 5))
            rows.append(("salaries", (account, employees, chance.randrange(1, 20_000))))
        else:
            rows.append(("balance", (account,)))
    return rows[:count]


def money(state: State) -> int:
    """All that is in the accounts."""
    return sum(state["balances"].values())


def main() -> int:
    """Run the bank both ways, and show where the money is, and that it is all there."""
    bank, rows = Bank(), make_rows(SEED, ROWS)
    replies, refused = play(bank, rows)
    with TemporaryDirectory() as name:
        folder = Path(name)
        run = Simulated(compile_program(Bank), folder, PARTITIONS)
        opening, each = len(ACCOUNTS), -(-ROWS // EPOCHS)
        run.epoch(rows[:opening])
        for start in range(opening, ROWS, each):
            run.epoch(rows[start : start + each])
        same = run.replies() == dict(enumerate(replies))
        totals = measured(FileStorage(folder / "checkpoint"), Bank.elements(), money)
    paid_in = sum(arguments[1] for name, arguments in rows if name == "deposit")

    console = Console(highlight=False)
    table = Table("account", "balance", title="The largest balances", title_justify="left")
    for account, cents in sorted(bank.balances.items(), key=lambda pair: -pair[1])[:SHOWN]:
        table.add_row(account, f"{cents / 100:,.2f}")
    console.print(table)
    asked, lacking = Tally(name for name, _ in rows), Tally(rows[number][0] for number in refused)
    for name in ("transfer", "salaries"):
        console.print(f"{name}: {asked[name] - lacking[name]:,} done, {lacking[name]:,} refused and undone")
    console.print(f"{PARTITIONS} partitions and {len(totals)} epochs answer {'alike' if same else 'OTHERWISE'}.")
    table = Table("epoch", "in all accounts", title="What the checkpoint says", title_justify="left")
    for epoch, cents in totals.items():
        table.add_row(str(epoch), f"{cents / 100:,.2f}")
    console.print(table)
    whole = constant(totals) and totals[1] == paid_in
    console.print(f"Paid in: {paid_in / 100:,.2f}. {'No cent is lost or made.' if whole else 'MONEY IS MISSING.'}")
    return 0 if same and whole else 1


if __name__ == "__main__":
    sys.exit(main())
