"""Sensor warnings: a warning is told once when the mean of the last minute rises above a limit, until it falls again.

Shows sliding windows over columns with rows out of order (`Watch`, batch by batch with a watermark), and the same as a
one-liner over a DataFrame (`warnings_in`).
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.table import Table

from millpond.windowing import mean_of, sliding
from millpond.windowing.vectorised import ColumnWindows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SEED = 4
READINGS = 20_000
LIMIT = 40.0
MINUTE, EVERY = timedelta(minutes=1), timedelta(seconds=10)
DISORDER = 5_000_000
SECOND = 1_000_000
OPENS = int(datetime(2024, 5, 1, 8, 0, tzinfo=UTC).timestamp()) * SECOND


class Reading(NamedTuple):
    """What a sensor says: its number, the microsecond, and the temperature."""

    sensor: int
    at: int
    celsius: float


class Warned(NamedTuple):
    """A sensor, the end of the first minute that was too hot, and its mean."""

    sensor: int
    at: int
    mean: float


class Watch:
    """Takes batches of readings, at most `disorder` microseconds out of order, and tells warnings."""

    def __init__(self, disorder: int = DISORDER) -> None:
        self._windows = ColumnWindows(sliding(MINUTE, EVERY), {"mean": mean_of("celsius")})
        self._disorder = disorder
        self._latest = -(2**61)
        self._hot_until: dict[int, int] = {}  # The end of the last minute of a sensor that was too hot.

    def add(self, readings: Sequence[Reading]) -> list[Warned]:
        """Take a batch; the warnings of all minutes that are over."""
        if not readings:
            return []
        sensors, times, celsius = zip(*readings, strict=True)
        self._windows.add(sensors, times, {"celsius": celsius})
        self._latest = max(self._latest, *times)
        return self._warnings(self._latest - self._disorder)

    def end(self) -> list[Warned]:
        """The warnings of all minutes that are left."""
        return self._warnings(2**61)

    def _warnings(self, watermark: int) -> list[Warned]:
        closed = self._windows.close(watermark)
        told: list[Warned] = []
        means = closed.values["mean"].tolist()
        for sensor, end, mean in zip(closed.keys.tolist(), closed.ends.tolist(), means, strict=True):
            if mean <= LIMIT:
                continue
            # Told once: not if the window before, which ended ten seconds ago, was too hot as well.
            if self._hot_until.get(sensor) != end - EVERY // timedelta(microseconds=1):
                told.append(Warned(sensor, end, mean))
            self._hot_until[sensor] = end
        return told


def warnings_in(readings: DataFrame) -> DataFrame:
    """The same of a DataFrame with the columns sensor, at (a timestamp) and celsius."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    import millpond

    hot = (
        millpond.windows(readings, key="sensor", time="at")
        .aggregate(sliding(MINUTE, EVERY), mean=mean_of("celsius"))
        .where(F.col("mean") > LIMIT)
    )
    before = F.lag("window_end").over(Window.partitionBy("sensor").orderBy("window_end"))
    once = hot.withColumn("before", before).where("before is null or before < window_end - interval 10 seconds")
    return once.select("sensor", F.col("window_end").alias("at"), "mean")


def make_readings(seed: int, count: int) -> list[Reading]:
    """Make up readings in the order of their arrival: each sensor warms up and cools down."""
    chance = random.Random(seed)
    celsius = [chance.uniform(20, 40) for _ in range(20)]
    arrived: list[tuple[int, Reading]] = []
    for number in range(count):
        at = OPENS + number * SECOND // 10 + chance.randrange(SECOND)
        sensor = chance.randrange(20)
        celsius[sensor] += chance.gauss((35 - celsius[sensor]) / 50, 1.5)
        delay = chance.randrange(DISORDER // 2)
        arrived.append((at + delay, Reading(sensor, at, round(celsius[sensor], 2))))
    return [reading for _, reading in sorted(arrived, key=itemgetter(0))]


def watched(readings: Sequence[Reading], batch: int) -> list[Warned]:
    """All warnings of readings that come in batches."""
    watch = Watch()
    told: list[Warned] = []
    for begin in range(0, len(readings), batch):
        told += watch.add(readings[begin : begin + batch])
    return sorted(told + watch.end())


def main() -> int:
    """Watch made-up sensors, and show the first warnings."""
    told = watched(make_readings(SEED, READINGS), 500)
    console = Console(highlight=False)
    table = Table("at", "sensor", "mean of the last minute", title="The first warnings", title_justify="left")
    for sensor, at, mean in sorted(told, key=itemgetter(1))[:5]:
        table.add_row(f"{datetime.fromtimestamp(at / SECOND, UTC):%H:%M:%S}", str(sensor), f"{mean:.2f} °C")
    console.print(table)
    console.print(f"{READINGS:,} readings, {len(told):,} warnings.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
