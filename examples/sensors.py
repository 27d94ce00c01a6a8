"""Sensor warnings: a warning is told once when the mean of the last minute rises above a limit, until it falls again.

Shows windows as a state element (`@on_window`): readings come out of order, a handler is told the minutes that are
over, and other state remembers what was told. The same as a one-liner over a DataFrame is `warnings_in`.
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

from millpond import Map, Partitioned, Program, entry, on_window
from millpond.testing import Fired, event_time, fire_timers
from millpond.windowing import ClosedWindow, mean_of, sliding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SEED = 4
READINGS = 20_000
LIMIT = 40.0
MINUTE, EVERY = timedelta(minutes=1), timedelta(seconds=10)
DISORDER = 5_000_000
SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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


class Sensors(Program):
    """Computes the mean of every minute of each sensor, one beginning every ten seconds, and tells what is too hot."""

    hot = Partitioned(Map[int, datetime])  # The end of the last minute of a sensor that was too hot.

    @entry
    def read(self, sensor: int, celsius: float) -> None:
        """Take a reading, at the time at which it was made."""
        self.minute.add(sensor, celsius=celsius)

    @on_window(sliding(MINUTE, EVERY), mean=mean_of("celsius"))
    def minute(self, sensor: int, closed: list[ClosedWindow]) -> list[tuple[datetime, float]]:
        """Tell the minutes that are too hot, by their ends, if the one before was not."""
        last = self.hot.get(sensor)
        told = []
        for one in closed:
            if one["mean"] > LIMIT:
                # Told once: not if the window before, which ended ten seconds ago, was too hot as well.
                if last != one.end - EVERY:
                    told.append((one.end, one["mean"]))
                last = one.end
        if last is not None:
            self.hot[sensor] = last
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
    """All warnings of readings that come in batches, at most `DISORDER` out of order, as an epoch is one batch."""
    program = Sensors()
    fired: list[Fired] = []
    latest = OPENS
    for begin in range(0, len(readings), batch):
        for sensor, at, celsius in readings[begin : begin + batch]:
            with event_time(at):
                program.read(sensor, celsius)
            latest = max(latest, at)
        fired += fire_timers(program, moment(latest - DISORDER))
    fired += fire_timers(program, datetime.max.replace(tzinfo=UTC))
    return sorted(Warned(one.key, microseconds(end), mean) for one in fired for end, mean in one.reply)


def moment(us: int) -> datetime:
    """Microseconds since 1970 as a moment."""
    return EPOCH + timedelta(microseconds=us)


def microseconds(at: datetime) -> int:
    """A moment in microseconds since 1970."""
    return (at - EPOCH) // timedelta(microseconds=1)


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
