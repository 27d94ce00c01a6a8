"""Fraud rules per account: each payment is judged by what the account did before it, in the order of time."""

from __future__ import annotations

import random
import sys
from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from examples.files import OUT, fresh_folder, parts_of, read_rows, stream, write_parts
from millpond import Map, Partitioned, Program, entry, parquet
from millpond.spark.session import local_session

SEED = 11
ACCOUNTS = 60
PAYMENTS = 3_000
EPOCHS = 4
SHOWN = 8

COUNTRIES = ("AT", "BR", "DE", "JP", "PT")

PAYMENT_COLUMNS = pa.schema(
    [("at", pa.int64()), ("account", pa.string()), ("cents", pa.int64()), ("country", pa.string())]
)
NOTICE_COLUMNS = pa.schema([("at", pa.int64()), ("account", pa.string()), ("country", pa.string())])


@dataclass(frozen=True, slots=True)
class Account:
    """What the rules remember of an account; times are in seconds."""

    payments: int = 0
    cents: int = 0
    recent: tuple[int, ...] = ()
    country: str = ""
    at: int = 0
    announced: tuple[str, ...] = ()


class FraudRules(Program):
    """Judges payments by the history of their account."""

    accounts = Partitioned(Map[str, Account])

    WINDOW = 600
    PAYMENTS_MAX = 4
    JUMP = 8
    HISTORY_MIN = 5
    TRAVEL = 7200

    @entry
    def pay(self, account: str, cents: int, country: str, at: int) -> list[str]:
        """Answer with the rules that a payment breaks, none if it looks fine."""
        before = self.accounts.get(account, Account())
        recent = (*(then for then in before.recent if at - then < self.WINDOW), at)
        alarms = []
        if len(recent) > self.PAYMENTS_MAX:
            alarms.append(f"velocity: {len(recent)} payments in {self.WINDOW // 60} minutes")
        if before.payments >= self.HISTORY_MIN and cents * before.payments > self.JUMP * before.cents:
            alarms.append(f"jump: more than {self.JUMP} times the usual amount")
        abroad = before.country not in ("", country) and country not in before.announced
        if abroad and at - before.at < self.TRAVEL:
            alarms.append(f"travel: {before.country} to {country} in {(at - before.at) // 60} minutes")
        self.accounts[account] = Account(
            before.payments + 1, before.cents + cents, recent, country, at, before.announced
        )
        return alarms

    @entry
    def announce(self, account: str, country: str) -> None:
        """Note that the owner of an account told us of a journey: payments from there are no surprise."""
        before = self.accounts.get(account, Account())
        self.accounts[account] = Account(
            before.payments, before.cents, before.recent, before.country, before.at, (*before.announced, country)
        )


@dataclass(frozen=True, slots=True)
class Payment:
    """A payment from an account."""

    at: int
    account: str
    cents: int
    country: str


@dataclass(frozen=True, slots=True)
class Notice:
    """The owner of an account announces a journey."""

    at: int
    account: str
    country: str


Event = Payment | Notice

Verdicts = list[tuple[int, str, list[str]]]
"""Time, account and broken rules of each payment, in the order of time."""


def make_events(seed: int, payments: int, accounts: int) -> list[Event]:
    """Make up payments of honest habits, with stolen cards, shopping sprees and announced journeys among them."""
    chance = random.Random(seed)
    homes = {f"account-{number:03}": chance.choice(COUNTRIES) for number in range(accounts)}
    usual = {account: chance.randrange(500, 5_000) for account in homes}
    events: list[Event] = []
    at = 0
    while len(events) < payments:
        account = chance.choice(list(homes))
        cents = round(usual[account] * chance.uniform(0.5, 1.5))
        at += chance.randrange(1, 60)
        (habit,) = chance.choices(("honest", "spree", "stolen", "journey"), (95, 1, 2, 2))
        if habit == "spree":
            for _ in range(6):
                at += chance.randrange(1, 20)
                events.append(Payment(at, account, cents, homes[account]))
        elif habit == "stolen":
            events.append(Payment(at, account, cents * 12, chance.choice(COUNTRIES)))
        elif habit == "journey":
            homes[account] = chance.choice(COUNTRIES)
            events.append(Notice(at, account, homes[account]))
        else:
            events.append(Payment(at, account, cents, homes[account]))
    return events


def plain_run(events: Sequence[Event]) -> Verdicts:
    """Run the class as plain Python: what the run on Spark must equal."""
    program = FraudRules()
    verdicts: Verdicts = []
    for event in events:
        if isinstance(event, Notice):
            program.announce(event.account, event.country)
        else:
            alarms = program.pay(event.account, event.cents, event.country, event.at)
            verdicts.append((event.at, event.account, alarms))
    return verdicts


def spark_run(spark: SparkSession, events: Sequence[Event], folder: Path, epochs: int) -> Verdicts:
    """Stream the events through the class on Spark."""
    ends = [events[len(events) * (number + 1) // epochs - 1].at + 1 for number in range(epochs)]
    payments = [
        {"at": e.at, "account": e.account, "cents": e.cents, "country": e.country}
        for e in events
        if isinstance(e, Payment)
    ]
    notices = [{"at": e.at, "account": e.account, "country": e.country} for e in events if isinstance(e, Notice)]
    paid = write_parts(folder / "payments", PAYMENT_COLUMNS, parts_of(payments, "at", ends))
    noted = write_parts(folder / "notices", NOTICE_COLUMNS, parts_of(notices, "at", ends))

    job = FraudRules.on(spark, checkpoint=folder / "checkpoint", local_root=folder / "local")
    job.feed("announce", stream(spark, noted), order_by="at")
    job.feed("pay", stream(spark, paid), order_by="at", keep=["at", "account"], to=parquet(folder / "verdicts"))
    job.run()
    return sorted((row["at"], row["account"], row["reply"]) for row in read_rows(folder / "verdicts"))


def show(console: Console, verdicts: Verdicts) -> None:
    """Show some alarms, and how many there were of each kind."""
    raised = [verdict for verdict in verdicts if verdict[2]]
    table = Table("at", "account", "alarms", title="The last alarms", title_justify="left")
    for at, account, alarms in raised[-SHOWN:]:
        table.add_row(str(at), account, "\n".join(alarms))
    console.print(table)
    kinds = Tally(alarm.partition(":")[0] for _, _, alarms in raised for alarm in alarms)
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    console.print(f"{len(raised)} of {len(verdicts):,} payments raised an alarm: {told}.")


def main() -> int:
    """Run the example; the exit code tells whether Spark and plain Python agree."""
    console = Console(highlight=False)
    folder = fresh_folder(OUT / "fraud_rules")
    events = make_events(SEED, PAYMENTS, ACCOUNTS)
    spark = local_session("fraud_rules")
    try:
        verdicts = spark_run(spark, events, folder, EPOCHS)
    finally:
        spark.stop()
    if verdicts != plain_run(events):
        console.print("[red]The verdicts differ from those of the plain Python run.[/]")
        return 1
    show(console, verdicts)
    console.print("All verdicts equal those of the plain Python run.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
