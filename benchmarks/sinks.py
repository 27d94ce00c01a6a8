"""Sinks: the same stream of replies to Kafka, PostgreSQL, Delta and Iceberg, each beside a folder of Parquet files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.brokers import KafkaServer, PostgresServer
from benchmarks.data import OUT, work_folder
from benchmarks.options import add_seed, positive
from benchmarks.report import BenchmarkError, Figures, Teller, rate, rounded, timed
from benchmarks.servers import ServerError
from millpond import Map, Partitioned, Program, entry, parquet
from millpond.sinks import Sink, delta, iceberg, jdbc, kafka

ROWS = 100_000
EPOCHS = 4
KEYS = 20_000

Told = tuple[int, int]
"""How many replies a sink holds, and their sum."""


class Totals(Program):
    """A total for each user; a row replies the new one."""

    totals = Partitioned(Map[int, int])

    @entry
    def add(self, user: int, amount: int) -> int:
        """Add an amount to a user's total."""
        self.totals[user] = self.totals.get(user, 0) + amount
        return self.totals[user]


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes of a run."""

    rows: int = ROWS
    epochs: int = EPOCHS
    keys: int = KEYS
    partitions: int = 2
    repeat: int = 3
    seed: int = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    parser.add_argument("--rows", type=positive, default=ROWS, help="rows of an epoch (default: %(default)s)")
    parser.add_argument("--epochs", type=positive, default=EPOCHS, help="epochs of a run (default: %(default)s)")
    parser.add_argument("--keys", type=positive, default=KEYS, help="keys of the rows (default: %(default)s)")
    parser.add_argument("--partitions", type=positive, default=2, help="partitions (default: %(default)s)")
    parser.add_argument("--repeat", type=positive, default=3, help="turns; the fastest counts (default: %(default)s)")
    add_seed(parser)


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    return Options(args.rows, args.epochs, args.keys, args.partitions, args.repeat, args.seed)


@dataclass(frozen=True, slots=True)
class Contestant:
    """A sink for the turn of a name, and what its readers see of that turn."""

    make: Callable[[str], Sink]
    read: Callable[[str], Told]


def run(options: Options, spark: SparkSession | None, teller: Teller, out: Path = OUT) -> Figures:
    """Measure and check every sink, turn by turn."""
    assert spark is not None
    with work_folder("sinks", out) as folder, servers(folder, teller) as contestants:
        want = write_input(options, folder / "in")
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        for turn in range(options.repeat + 1):
            # One after the other in each turn, so that a slow minute of the machine meets all; the first turn warms up.
            for name, contestant in contestants.items():
                with teller.doing(f"{name}: {options.epochs} epochs of {options.rows:,} rows"):
                    spent = measure(options, spark, folder, contestant, f"{name}_{turn}", want)
                if turn:
                    seconds[name].append(spent)
    rates = {name: rate(options.rows * options.epochs, spent) for name, spent in seconds.items()}
    ratios = {f"{name}_vs_parquet": round(each / rates["parquet"], 3) for name, each in rates.items()}
    del ratios["parquet_vs_parquet"]
    return {
        "benchmark": "sinks",
        **ratios,
        **{f"{name}_rows_per_s": each for name, each in rates.items()},
        "seconds": {name: rounded(spent) for name, spent in seconds.items()},
        "checked": True,
        "unit": "rows per second of a streaming job, from its start to its end, by that with a folder of Parquet files",
        "settings": asdict(options),
    }


def write_input(options: Options, folder: Path) -> Told:
    """Write a file for each epoch; return what a plain loop replies."""
    dice = np.random.default_rng(options.seed)
    folder.mkdir(parents=True)
    totals: dict[int, int] = {}
    sum_of_replies = 0
    for epoch in range(options.epochs):
        users, amounts = dice.integers(options.keys, size=options.rows), dice.integers(1000, size=options.rows)
        pq.write_table(pa.table({"user": users, "amount": amounts}), folder / f"{epoch:05}.parquet")
        for user, amount in zip(users.tolist(), amounts.tolist(), strict=True):
            totals[user] = totals.get(user, 0) + amount
            sum_of_replies += totals[user]
    return options.rows * options.epochs, sum_of_replies


def measure(
    options: Options, spark: SparkSession, folder: Path, contestant: Contestant, name: str, want: Told
) -> float:
    """Return the seconds of a job whose replies go to a sink, once these are found to be right."""
    schema = "user long, amount long"
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").parquet(str(folder / "in"))
    job = Totals.on(
        spark,
        checkpoint=folder / name / "checkpoint",
        partitions=options.partitions,
        local_root=folder / name / "local",
        progress=False,
    )
    job.feed("add", rows, to=contestant.make(name))
    seconds, _ = timed(job.run)
    if (found := contestant.read(name)) != want:
        raise BenchmarkError(f"{name} holds {found[0]} replies with the sum {found[1]}, and not {want}")
    return seconds


@contextmanager
def servers(folder: Path, teller: Teller) -> Iterator[dict[str, Contestant]]:
    """Start what there is, and return the sinks that can take part."""
    with ExitStack() as running:
        found = {"parquet": Contestant(lambda name: parquet(folder / name / "out"), _in_folder(folder))}
        found["parquet_joined"] = Contestant(lambda name: parquet(folder / name / "out", join=True), _in_folder(folder))
        for name, start in (("kafka", _kafka), ("jdbc", _jdbc)):
            try:
                found[name] = start(folder, running)
            except ServerError as error:
                teller.say(f"{name} is left out: {error}")
        found["delta"] = Contestant(lambda name: delta(folder / name / "out"), lambda name: _in_delta(folder, name))
        lake = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}
        found["iceberg"] = Contestant(
            lambda name: iceberg(f"turns.{name}", catalog="benchmark", options=lake),
            lambda name: _in_iceberg(lake, name),
        )
        yield found


def _kafka(folder: Path, running: ExitStack) -> Contestant:
    server = KafkaServer(folder / "kafka")
    running.callback(server.stop)
    return Contestant(lambda name: kafka(server.servers, name), lambda name: _in_topic(server.servers, name))


def _jdbc(folder: Path, running: ExitStack) -> Contestant:
    server = PostgresServer(folder / "postgres")
    running.callback(server.stop)
    return Contestant(lambda name: jdbc(server.url, name), lambda name: _in_table(server.url, name))


def _told(replies: Any) -> Told:
    return len(replies), int(np.asarray(replies, dtype=np.int64).sum())


def _in_folder(folder: Path) -> Callable[[str], Told]:
    def read(name: str) -> Told:
        table = ds.dataset(folder / name / "out", format="parquet").to_table(columns=["reply"])
        return _told(table.column("reply").to_numpy())

    return read


def _in_delta(folder: Path, name: str) -> Told:
    from deltalake import DeltaTable

    return _told(DeltaTable(folder / name / "out").to_pyarrow_table(columns=["reply"]).column("reply").to_numpy())


def _in_iceberg(lake: dict[str, str], name: str) -> Told:
    from pyiceberg.catalog import load_catalog

    table = load_catalog("benchmark", **lake).load_table(f"turns.{name}")
    return _told(table.scan(selected_fields=("reply",)).to_arrow().column("reply").to_numpy())


def _in_table(url: str, name: str) -> Told:
    import psycopg

    with psycopg.connect(url) as database:
        row = database.execute(f'SELECT count(*), sum(reply) FROM "{name}"'.encode()).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def _in_topic(servers: str, topic: str) -> Told:
    """Read a topic as readers of committed records do."""
    from confluent_kafka import Consumer, TopicPartition

    reads = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "benchmark",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        partitions = reads.list_topics(topic, timeout=30).topics[topic].partitions
        reads.assign([TopicPartition(topic, number, 0) for number in partitions])
        replies, ended = [], 0
        while ended < len(partitions):
            for record in reads.consume(10_000, timeout=1):
                value = None if record.error() is not None else record.value()
                ended += value is None
                if value is not None:
                    replies.append(json.loads(value)["reply"])
        return _told(replies)
    finally:
        reads.close()
