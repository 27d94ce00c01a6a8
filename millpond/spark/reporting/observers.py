"""Whoever watches a job: its own memory of the last epochs, Python's logging, a function of the user, metrics.

Nobody who watches can stop a job: what goes wrong there is logged.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from millpond.checkpoint.read.plain import printable
from millpond.errors import MetricsError, MillpondError
from millpond.spark.reporting.metrics import Metrics
from millpond.spark.reporting.reports import EpochReport

REPORTS_MAX = 1000
"""How many reports a job remembers; older ones went to whoever wanted them."""

OnEpoch: TypeAlias = Callable[[EpochReport], object]
"""Is told of each epoch after its commit."""

_log = logging.getLogger("millpond.job")


class Observers:
    """Tells of the epochs of one job; `on_epoch` and `metrics` are those of the query that runs."""

    def __init__(self, title: str) -> None:
        self._title = printable(title)
        self.reports: deque[EpochReport] = deque(maxlen=REPORTS_MAX)
        self.on_epoch: OnEpoch | None = None
        self.metrics: Metrics | None = None
        self.url: str | None = None

    def watch(self, on_epoch: OnEpoch | None, address: str | None) -> None:
        """Tell another function from now on, and show metrics at another address; those of before end."""
        if on_epoch is not None and not callable(on_epoch):
            raise MetricsError(
                "MP843",
                "on_epoch= is not a function",
                expected="a function of an EpochReport, such as print",
                found=repr(on_epoch)[:80],
            )
        self.close()
        self.on_epoch = on_epoch
        if address is not None:
            metrics = Metrics(self._title)
            self.url = metrics.listen(address)
            self.metrics = metrics
            _log.info("%s: metrics at %s", self._title, self.url)

    def close_after(self, wait: Callable[[], object]) -> None:
        """Stop showing metrics once something is over, in a thread of its own."""
        shown = self.metrics

        def end() -> None:
            # How a query ended is told elsewhere.
            with suppress(Exception):
                wait()
            if shown is not None and shown is self.metrics:
                self.close()

        threading.Thread(target=end, name="millpond-metrics", daemon=True).start()

    def epoch(self, report: EpochReport) -> None:
        """Tell of an epoch that is committed."""
        self.reports.append(report)
        self._write(report)
        try:
            if self.metrics is not None:
                self.metrics.epoch(report)
            if self.on_epoch is not None:
                self.on_epoch(report)
        except Exception:  # noqa: BLE001 - whatever the function of a user raises
            # The epoch is committed, and a report of it is not worth the next one.
            _log.exception("%s: epoch %d is committed, but whoever is told of it failed", self._title, report.epoch)

    def failed(self, error: MillpondError) -> None:
        """Tell that an epoch was not committed."""
        if self.metrics is not None:
            self.metrics.failed()
        _log.error("%s: %s", self._title, error, extra={"millpond_code": error.code})

    def started(self, epoch: int) -> None:
        """Tell that a query or a run begins after an epoch."""
        _log.info("%s: starting after epoch %d", self._title, epoch)

    def _write(self, report: EpochReport) -> None:
        _log.info(
            "%s: epoch %d committed: %d rows in %.3f s, %d state entries",
            self._title,
            report.epoch,
            report.rows,
            report.seconds,
            report.entries,
            extra={"millpond_report": report},
        )
        if report.bad_rows or report.late_rows:
            told = "%s: epoch %d had %d bad and %d late rows"
            _log.warning(told, self._title, report.epoch, report.bad_rows, report.late_rows)
        for advice in report.advice:
            _log.warning("%s: %s", self._title, printable(advice))
        _log.debug("%s: epoch %d: %s", self._title, report.epoch, report.task_seconds)

    def close(self) -> None:
        """Stop listening for whoever reads metrics."""
        if self.metrics is not None:
            self.metrics.close()
            self.metrics = self.url = None
