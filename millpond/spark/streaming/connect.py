"""Batches of a stream through Spark Connect: planned on the server, worked on by the client.

Spark Connect runs the function of `foreachBatch` in a process of the server, which can't hold the job. So that function
only hands over: it names the batch, so that the client can read it, and waits until the client is done with it. The
client works on the batch and commits it as it does without Connect, by Spark's own query and batch numbers. The two
talk through settings of the session that they share: public API, over the connection that is there anyway.

Whichever of them dies, nothing is lost or repeated. A batch that was not committed is offered again by the next query,
and one that was committed is known by its numbers. A client that is gone no longer beats: its query ends, and removes
the stores of the job from the executors, since the client can't.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from millpond.clock import SystemClock
from millpond.errors import ConnectError, QueryStopped
from millpond.spark.placement.forgetting import forget_stores

OnBatch: TypeAlias = Callable[[str, DataFrame, int], None]
"""What is done with a batch: by the id of its query and its own number."""

POLL_S = 0.01
"""How often either side looks for the other's word; a look takes about 2 ms."""

IDLE_POLL_S = 0.05
"""How often the client looks when there was nothing for a while."""

IDLE_POLLS = 200
"""So many looks in vain are a while."""

BEAT_S = 0.5
"""How often the client says that it lives, and looks whether its query does: together about 20 ms."""

PATIENCE_S = 60.0
"""How long the server waits for a client that says nothing."""

FORGET_TASKS = 64
"""So many short tasks come to all executors of a server, or to most of them if it has very many."""

START_TRIES = 6
"""How often a query is started whose process for batches is late: Spark waits 10 s for it, however busy the host is."""

_LATE = "Python worker failed to connect back"
_FAILURE_CHARS_MAX = 500
_CLOCK = SystemClock()


def over_connect(spark: SparkSession) -> bool:
    """Say whether a session is a client of Spark Connect; told by its class, since that needs packages of its own."""
    return any(kind.__module__.startswith("pyspark.sql.connect.") for kind in type(spark).__mro__)


def start_patiently(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Start a query on the server, again if its process for batches was late: then nothing has begun."""
    for _ in range(START_TRIES):
        try:
            return start()
        except PySparkException as error:
            if _LATE not in str(error):
                raise
    raise ConnectError(
        "MP672",
        "the server could not start its process for batches",
        expected="a Python that answers within the 10 s that Spark gives it",
        found=f"{START_TRIES} times none",
        hint="look whether the host of the server is overloaded, or its Python lacks packages of millpond[connect]",
    )


@dataclass(frozen=True, slots=True)
class Words:
    """The settings and the view by which the two sides of one query talk; no other query has them."""

    token: str

    @property
    def batch(self) -> str:
        """The number of the batch that waits for the client."""
        return f"millpond.{self.token}.batch"

    @property
    def done(self) -> str:
        """The number of the batch that the client is done with, and why it failed if it did."""
        return f"millpond.{self.token}.done"

    @property
    def beat(self) -> str:
        """Changes as long as the client lives."""
        return f"millpond.{self.token}.beat"

    @property
    def view(self) -> str:
        """The batch itself. Spark gives each query a session of its own, and only such a view is seen by others."""
        return f"millpond_{self.token}"


@dataclass(frozen=True, slots=True)
class Handing:
    """The function that the server runs for each batch; `session` is the client's, as the server knows it.

    The stores of the job lie below `local_root`.
    """

    session: SparkSession
    words: Words
    local_root: str = ""
    patience_s: float = PATIENCE_S

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Name a batch, and return when the client has committed it."""
        batch.createOrReplaceGlobalTempView(self.words.view)
        self.session.conf.set(self.words.batch, str(batch_id))
        # If the server is gone there is nothing to tidy up, and asking it takes many minutes of trying again.
        failure = self._wait(str(batch_id))
        self.session.catalog.dropGlobalTempView(self.words.view)
        if failure:
            raise ConnectError(
                "MP671",
                f"the client could not work on batch {batch_id}",
                found=failure,
                hint="nothing of the batch is committed; the error itself is in `job.error` of the client",
            )

    def _wait(self, batch_id: str) -> str:
        """Wait for the client; what it says of a failure, or ""."""
        beat, heard = "", _CLOCK.ticks()
        next_listen = heard
        while True:
            number, _, failure = self._told(self.words.done).partition(" ")
            if number == batch_id:
                return failure
            now = _CLOCK.ticks()
            if now >= next_listen:
                next_listen = now + min(BEAT_S, self.patience_s / 2)
                before, beat = beat, self._told(self.words.beat)
                heard = now if beat != before else heard
            if now - heard > self.patience_s:
                self.session.catalog.dropGlobalTempView(self.words.view)
                # Stores that stay because nobody can be reached take disk, and nothing else.
                with suppress(PySparkException):
                    forget_stores(self.session, self.local_root, FORGET_TASKS)
                raise ConnectError(
                    "MP670",
                    f"batch {batch_id} waits for a client that is gone",
                    expected="a sign of life every few seconds",
                    found=f"none for {self.patience_s:.0f} s",
                    hint="nothing of the batch is lost; start the job again",
                )
            _CLOCK.sleep(POLL_S)

    def _told(self, name: str) -> str:
        return self.session.conf.get(name, "") or ""


class Relay:
    """The client's side of one query: takes the batches that its server hands over, one by one, in a thread."""

    def __init__(self, spark: SparkSession, local_root: str = "", *, patience_s: float = PATIENCE_S) -> None:
        self._spark = spark
        self._words = Words(uuid4().hex)
        self._ended = threading.Event()
        self._taking: threading.Thread | None = None
        self._query: StreamingQuery | None = None
        self.function = Handing(spark, self._words, local_root, patience_s)

    def start(self, query: StreamingQuery, on_batch: OnBatch) -> None:
        """Take the batches of a query as long as it lives."""
        self._query = query

        def beat() -> None:
            try:
                self._beat(query)
                # Without Connect, Spark itself gives up the jobs of a query that is stopped.
                self._spark.interruptTag(self._words.view)
            except PySparkException:
                # A session that ends takes the query and the settings with it.
                pass
            finally:
                self._ended.set()

        beats = threading.Thread(target=beat, name="millpond-beats", daemon=True)

        def take() -> None:
            try:
                self._spark.addTag(self._words.view)
                self._take(str(query.id), on_batch)
            except PySparkException:
                pass
            finally:
                self._ended.set()
                beats.join()
                self._tidy_up()

        self._taking = threading.Thread(target=take, name="millpond-batches", daemon=True)
        beats.start()
        self._taking.start()

    def check_wanted(self) -> None:
        """Raise if the query was stopped, so that its batch may be another one's by now."""
        if self._query is not None and not self._query.isActive:
            raise QueryStopped

    def end(self) -> None:
        """Take no more batches, and wait for the one that is under way."""
        self._ended.set()
        if self._taking is not None:
            self._taking.join()

    def _tidy_up(self) -> None:
        with suppress(PySparkException):
            for name in (self._words.batch, self._words.done, self._words.beat):
                self._spark.conf.unset(name)

    def _take(self, query: str, on_batch: OnBatch) -> None:
        seen, idle = "", 0
        while not self._ended.wait(POLL_S if idle < IDLE_POLLS else IDLE_POLL_S):
            idle += 1
            number = self._spark.conf.get(self._words.batch, "") or ""
            if number != seen:
                seen, idle = number, 0
                failure = self._run(query, number, on_batch)
                self._spark.conf.set(self._words.done, f"{number} {failure}".strip())

    def _run(self, query: str, number: str, on_batch: OnBatch) -> str:
        try:
            on_batch(query, self._spark.table(f"global_temp.{self._words.view}"), int(number))
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the query, as it does without Connect
            return f"{type(error).__name__}: {error}"[:_FAILURE_CHARS_MAX]
        return ""

    def _beat(self, query: StreamingQuery) -> None:
        count = 0
        while not self._ended.is_set() and query.isActive:
            count += 1
            self._spark.conf.set(self._words.beat, str(count))
            self._ended.wait(BEAT_S)
