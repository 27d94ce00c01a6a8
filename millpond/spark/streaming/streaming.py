"""The streaming query of a job: its batches come to the job one by one, wherever Spark runs the function for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from millpond.errors import EpochError, MillpondError
from millpond.spark.streaming.connect import OnBatch, Relay, over_connect, start_patiently
from millpond.spark.streaming.sparklog import queued_rows

START_SECONDS_MAX = 120
"""How long a first batch waits for Spark to name its query."""

AVAILABLE_NOW = "available now"
"""The trigger that reads what there is, and ends."""


class Streaming:
    """Starts the queries of a job, one after the other; its stores lie below `local_root`."""

    def __init__(self, spark: SparkSession, local_root: str) -> None:
        self._spark = spark
        self._local_root = local_root
        self._relay: Relay | None = None
        self.query: StreamingQuery | None = None

    def start(
        self, rows: DataFrame, on_batch: OnBatch, *, checkpoint: str, name: str | None, trigger: str | None
    ) -> StreamingQuery:
        """Start a query over rows, with Spark's own checkpoint in a folder; None triggers as fast as it goes."""
        named = threading.Event()
        identity: list[str] = []

        def here(batch: DataFrame, batch_id: int) -> None:
            if not named.wait(START_SECONDS_MAX):
                raise EpochError(
                    "MP435",
                    "Spark did not name the query in time",
                    found=f"{START_SECONDS_MAX} s",
                    hint="start again; is the driver overloaded?",
                )
            on_batch(identity[0], batch, batch_id)

        self._relay = Relay(self._spark, self._local_root) if over_connect(self._spark) else None
        writer = rows.writeStream.foreachBatch(self._relay.function if self._relay else here)
        writer = writer.option("checkpointLocation", checkpoint)
        if name is not None:
            writer = writer.queryName(name)
        if trigger == AVAILABLE_NOW:
            writer = writer.trigger(availableNow=True)
        elif trigger is not None:
            writer = writer.trigger(processingTime=trigger)
        query = start_patiently(writer.start) if self._relay else writer.start()
        self.query = query
        identity.append(str(query.id))
        named.set()
        if self._relay is not None:
            self._relay.start(query, on_batch)
        return query

    def wait(self, query: StreamingQuery, own_error: Callable[[], MillpondError | None]) -> None:
        """Wait for the end of a query; raise why it failed, if it did."""
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            own = own_error()
            if own is not None:
                # Spark wraps it in pages of its own trace, which tell nothing more.
                raise own from None
            raise EpochError(
                "MP436",
                "Spark ended the query",
                found=str(error).partition("\n")[0][:500],
                hint="the cause is Spark's or a source's; nothing uncommitted is lost, a new start goes on",
            ) from error
        finally:
            self.settle()

    def queued_rows(self) -> int | None:
        """Say how many rows wait in the sources at least, by what Spark tells of the batch before.

        None if it does not.
        """
        # No figure is worth an epoch: what is wrong with the query will show elsewhere.
        with suppress(Exception):
            told = self.query.lastProgress if self.query else None
            return queued_rows(told.json) if told else None
        return None

    def check_wanted(self) -> None:
        """Raise if the batch that is worked on is of a query that was stopped; without Connect, Spark sees to it."""
        if self._relay is not None:
            self._relay.check_wanted()

    def settle(self) -> None:
        """Wait for a batch that is still under way though its query has ended."""
        if self._relay is not None:
            self._relay.end()
            self._relay = None
