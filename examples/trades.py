"""Trades: the volume-weighted price over windows that follow the market, and moving averages with their MACD.

Shows windows driven by data (`varying`: wide while prices are calm, narrow while they are not), an aggregate of one's
own, and two sliding windows that share one pass. The MACD here is that of plain averages, not of exponential ones.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table

from millpond.windowing import Result, SharedWindows, aggregate, count_sliding, mean_of, sliding, varying

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SEED = 6
TRADES = 6_000
SECOND = 1_000_000
MINUTE = timedelta(minutes=1)
OPENS = int(datetime(2024, 5, 1, 8, 0, tzinfo=UTC).timestamp()) * SECOND

CALM = (10 * MINUTE, 5 * MINUTE)
VOLATILE = (5 * MINUTE, 2 * MINUTE)
MOVE = 0.01
"""A trade that is further from the one before it, as a part of its price, shows a volatile market."""

FAST, SLOW, SIGNAL = 12, 26, 9
"""Minutes of the two averages, and how many differences of theirs make the signal."""

Trade = dict[str, Any]
"""`at` in microseconds, `stock`, `price`, `volume`, and `moved`: how far the price went since the last trade."""


class Crossing(NamedTuple):
    """A minute, the difference of the fast and the slow average, and the mean of the last differences."""

    at: int
    macd: float
    signal: float


vwap = aggregate(
    lift=lambda trade: (trade["price"] * trade["volume"], trade["volume"]),
    combine=lambda left, right: (left[0] + right[0], left[1] + right[1]),
    lower=lambda total: total[0] / total[1],
    identity=(0.0, 0),
    partial_type=tuple[float, int],
    name="vwap",
)


def shape(trade: Trade) -> tuple[timedelta, timedelta]:
    """The range and slide of the window that begins with a trade."""
    return VOLATILE if abs(trade["moved"]) > MOVE * trade["price"] else CALM


def weighted_prices(trades: Iterable[Trade]) -> list[Result]:
    """The weighted prices of one stock, over windows as long as the market wants."""
    windows = SharedWindows(vwap, {"vwap": varying(shape)})
    return [result for trade in trades for result in windows.add(trade, trade["at"])]


def crossings(trades: Iterable[Trade]) -> list[Crossing]:
    """MACD and signal of one stock, every minute: both averages in one pass over the trades."""
    averages = SharedWindows(
        mean_of("price"), {"fast": sliding(FAST * MINUTE, MINUTE), "slow": sliding(SLOW * MINUTE, MINUTE)}
    )
    signal = SharedWindows(mean_of(), {"signal": count_sliding(SIGNAL, 1)})
    fast: dict[int, float] = {}
    found: list[tuple[int, float]] = []
    told: list[float] = []

    def take(results: list[Result]) -> None:
        # Windows of one end are told together, the fast one may be the earlier or the later.
        fast.update({result.bounds[1]: result.value for result in results if result.query == "fast"})
        for result in results:
            if result.query == "slow" and result.bounds[1] in fast:
                macd = fast.pop(result.bounds[1]) - result.value
                told.extend(each.value for each in signal.add(macd))
                found.append((result.bounds[1], macd))

    last = 0
    for trade in trades:
        take(averages.add(trade, trade["at"]))
        last = trade["at"]
    take(averages.advance(last + 1))
    # A window over records ends before the record that follows it: the last one waits for that.
    return [Crossing(at, macd, mean) for (at, macd), mean in zip(found[SIGNAL - 1 :], told, strict=False)]


def averages_in(trades: DataFrame) -> DataFrame:
    """The two averages of a DataFrame of trades, by stock and minute, and their difference."""
    from pyspark.sql import functions as F  # noqa: N812

    import millpond

    both = millpond.windows(trades, key="stock", time="at").aggregate(
        {"fast": sliding(FAST * MINUTE, MINUTE), "slow": sliding(SLOW * MINUTE, MINUTE)}, average=mean_of("price")
    )
    by_end = both.groupBy("stock", F.col("window_end").alias("at"))
    pivoted = by_end.pivot("window", ["fast", "slow"]).agg(F.first("average"))
    return pivoted.where("fast is not null").withColumn("macd", F.col("fast") - F.col("slow"))


def make_trades(seed: int, count: int, stock: str = "MILL") -> list[Trade]:
    """Make up trades of a stock in the order of time: a calm market with storms in it."""
    chance = random.Random(seed)
    price, at = 10.0, OPENS
    trades: list[Trade] = []
    for number in range(count):
        at += chance.randrange(1, 5 * SECOND)
        storm = number // 400 % 5 == 2
        moved = round(chance.gauss(0, 0.15 if storm else 0.01), 2)
        price = round(max(1.0, price + moved), 2)
        trades.append({"at": at, "stock": stock, "price": price, "volume": chance.randrange(1, 100), "moved": moved})
    return trades


def show_time(at: int) -> str:
    """A moment of the day."""
    return f"{datetime.fromtimestamp(at / SECOND, UTC):%H:%M}"


def main() -> int:
    """Show where windows become narrow, and where the averages cross."""
    trades = make_trades(SEED, TRADES)
    console = Console(highlight=False)
    table = Table("from", "to", "VWAP", title="Windows where the market turns", title_justify="left")
    prices = weighted_prices(trades)
    lengths = [result.bounds[1] - result.bounds[0] for result in prices]
    for number in range(1, len(prices)):
        if lengths[number] != lengths[number - 1] and table.row_count < 6:
            begin, end = prices[number].bounds
            table.add_row(show_time(begin), show_time(end), f"{prices[number].value:.3f}")
    console.print(table)
    found = crossings(trades)
    turns = [b for a, b in pairwise(found) if (a.macd > a.signal) != (b.macd > b.signal)]
    console.print(f"{len(prices)} windows of {len(trades):,} trades; the MACD crosses its signal {len(turns)} times.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
