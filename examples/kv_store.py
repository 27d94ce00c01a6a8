"""A key/value store: three feeds of one log of operations, applied in the order of the log."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from examples.files import OUT, fresh_folder, parts_of, read_rows, stream, write_parts
from millpond import Map, Partitioned, Program, entry, parquet
from millpond.spark.session import local_session

SEED = 7
KEYS = 40
OPERATIONS = 2_000
EPOCHS = 4
SHOWN = 8

COLUMNS = {
    "put": pa.schema([("at", pa.int64()), ("key", pa.string()), ("value", pa.string())]),
    "get": pa.schema([("at", pa.int64()), ("key", pa.string())]),
    "delete": pa.schema([("at", pa.int64()), ("key", pa.string())]),
}

Kind = Literal["put", "get", "delete"]
KINDS: tuple[Kind, ...] = ("put", "get", "delete")
LIKELY = (4, 5, 1)

Replies = dict[str, list[tuple[int, Any]]]
"""For `get` and `delete`: the operation and its reply, in the order of the log."""


class KeyValueStore(Program):
    """Keeps the last value of each key."""

    store = Partitioned(Map[str, str])

    @entry
    def put(self, key: str, value: str) -> None:
        """Set the value of a key."""
        self.store[key] = value

    @entry
    def get(self, key: str) -> str | None:
        """Answer with the value of a key, or None."""
        return self.store.get(key)

    @entry
    def delete(self, key: str) -> bool:
        """Forget a key; answers whether it was there."""
        return self.store.pop(key, None) is not None


@dataclass(frozen=True, slots=True)
class Operation:
    """One line of the log."""

    at: int
    kind: Kind
    key: str
    value: str = ""


def make_log(seed: int, operations: int, keys: int) -> list[Operation]:
    """Make up a log: half of it reads, some of them of keys that are not there."""
    chance = random.Random(seed)
    log = []
    for at in range(operations):
        (kind,) = chance.choices(KINDS, LIKELY)
        key = f"mill-{chance.randrange(keys):02}"
        log.append(Operation(at, kind, key, f"{chance.randrange(1000)} sacks" if kind == "put" else ""))
    return log


def plain_run(log: Sequence[Operation]) -> Replies:
    """Run the class as plain Python: what the run on Spark must equal."""
    program = KeyValueStore()
    replies: Replies = {"get": [], "delete": []}
    for operation in log:
        match operation.kind:
            case "put":
                program.put(operation.key, operation.value)
            case "get":
                replies["get"].append((operation.at, program.get(operation.key)))
            case "delete":
                replies["delete"].append((operation.at, program.delete(operation.key)))
    return replies


def spark_run(spark: SparkSession, log: Sequence[Operation], folder: Path, epochs: int) -> Replies:
    """Stream the log through the class on Spark: a feed for each kind of operation, one order for all."""
    ends = [len(log) * (number + 1) // epochs for number in range(epochs)]
    job = KeyValueStore.on(spark, checkpoint=folder / "checkpoint", local_root=folder / "local")
    for kind, columns in COLUMNS.items():
        rows = [{name: getattr(line, name) for name in columns.names} for line in log if line.kind == kind]
        written = write_parts(folder / kind, columns, parts_of(rows, "at", ends))
        sink = None if kind == "put" else parquet(folder / f"{kind}.replies")
        job.feed(kind, stream(spark, written), order_by="at", keep=["at"] if sink else None, to=sink)
    job.run()
    return {
        kind: sorted((row["at"], row["reply"]) for row in read_rows(folder / f"{kind}.replies"))
        for kind in ("get", "delete")
    }


def show(console: Console, log: Sequence[Operation], replies: Replies) -> None:
    """Show what happened to the key that was deleted last."""
    answers = dict(replies["get"] + replies["delete"])
    last = next(line for line in reversed(log) if line.kind == "delete" and answers[line.at])
    table = Table("at", "operation", "reply", title=f"The last operations on {last.key}", title_justify="left")
    for line in [line for line in log if line.key == last.key and line.at <= last.at][-SHOWN:]:
        words = f"put {line.value}" if line.kind == "put" else line.kind
        table.add_row(str(line.at), words, "" if line.kind == "put" else str(answers[line.at]))
    console.print(table)


def main() -> int:
    """Run the example; the exit code tells whether Spark and plain Python agree."""
    console = Console(highlight=False)
    folder = fresh_folder(OUT / "kv_store")
    log = make_log(SEED, OPERATIONS, KEYS)
    spark = local_session("kv_store")
    try:
        replies = spark_run(spark, log, folder, EPOCHS)
    finally:
        spark.stop()
    if replies != plain_run(log):
        console.print("[red]The replies differ from those of the plain Python run.[/]")
        return 1
    show(console, log, replies)
    console.print(f"{len(log):,} operations in {EPOCHS} epochs; all replies equal those of the plain Python run.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
