"""Bank transfers between accounts: no account goes below zero, and no cent is lost or made.

A transfer visits one element under two keys, so no order of the elements makes it exact; it is *relaxed*. What that
gives up: between the debit and the credit, other rows may see the money on its way. What it keeps: the check and the
debit are one task, and nobody comes between them.
"""

from __future__ import annotations

import random
import sys
from collections import Counter as Tally

from rich.console import Console
from rich.table import Table

from examples.rows import Row, hot, play
from millpond import Map, Partitioned, Program, entry

SEED = 5
ROWS = 4_000
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

    @entry(relaxed=True)
    def transfer(self, source: str, target: str, cents: int) -> bool:
        """Move money, if it is there; answers whether it was."""
        if cents <= 0 or self.balances.get(source, 0) < cents:
            return False
        self.balances[source] -= cents
        self.balances[target] = self.balances.get(target, 0) + cents
        return True


def make_rows(seed: int, count: int) -> list[Row]:
    """Make up deposits, transfers and questions; the first accounts are in most of them."""
    chance = random.Random(seed)
    rows: list[Row] = []
    for _ in range(count):
        account, other = hot(chance, ACCOUNTS), hot(chance, ACCOUNTS)
        (kind,) = chance.choices(("deposit", "transfer", "balance"), (2, 6, 1))
        if kind == "deposit":
            rows.append(("deposit", (account, chance.randrange(1, 20_000))))
        elif kind == "transfer":
            rows.append(("transfer", (account, other, chance.randrange(1, 15_000))))
        else:
            rows.append(("balance", (account,)))
    return rows


def main() -> int:
    """Run the bank as plain Python, and show where the money is."""
    bank, rows = Bank(), make_rows(SEED, ROWS)
    replies = play(bank, rows)
    made = Tally(reply for (name, _), reply in zip(rows, replies, strict=True) if name == "transfer")
    paid_in = sum(arguments[1] for name, arguments in rows if name == "deposit")

    console = Console(highlight=False)
    table = Table("account", "balance", title="The largest balances", title_justify="left")
    for account, cents in sorted(bank.balances.items(), key=lambda pair: -pair[1])[:SHOWN]:
        table.add_row(account, f"{cents / 100:,.2f}")
    console.print(table)
    console.print(f"{made[True]:,} transfers were made, {made[False]:,} lacked the money.")
    console.print(f"Paid in: {paid_in / 100:,.2f}; in the accounts: {sum(bank.balances.values()) / 100:,.2f}.")
    return 0 if paid_in == sum(bank.balances.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
