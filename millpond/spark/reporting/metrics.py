"""Metrics of a job for Prometheus, over HTTP, on this machine alone unless another address is asked for.

docs/OBSERVING.md lists the names; a test compares the two. The endpoint only reads: it shows figures, and no keys,
values or addresses.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millpond.clock import Clock, SystemClock
from millpond.errors import MetricsError
from millpond.spark.reporting.reports import WAYS, EpochReport

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

LOOPBACK = "127.0.0.1"
_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[A-Za-z0-9.-]*)):(?P<port>[0-9]{1,5})", re.ASCII)
_PORT_MAX = 65535


def parse_address(address: object) -> tuple[str, int]:
    """Return the host and the port of `":9108"` or `"host:9108"`; without a host it is this machine's own loopback."""
    found = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if found is None or int(found["port"]) > _PORT_MAX:
        raise MetricsError(
            "MP840",
            "this is no address for metrics",
            expected='":9108" for this machine alone, "0.0.0.0:9108" for every network that it is in',
            found=repr(address)[:80],
        )
    return found["six"] or found["host"] or LOOPBACK, int(found["port"])


class Metrics:
    """Counters and gauges of one job, and the endpoint that shows them."""

    def __init__(self, program: str, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._prometheus = _prometheus()
        self.registry: CollectorRegistry = self._prometheus.CollectorRegistry()
        self._program = program
        self._snapshot = -1, self._clock.now_ms()
        self._kinds: dict[str, Any] = {}
        self._server: Any = None
        self._thread: threading.Thread | None = None
        made, histogram = self._made, self._prometheus.Histogram
        counter, gauge = self._prometheus.Counter, self._prometheus.Gauge
        self._rows = {way: made(counter, "rows", "rows that were fed, by the way they ran", way=way) for way in WAYS}
        self._epochs = made(counter, "epochs", "epochs that were committed")
        self._bad = made(counter, "bad_rows", "rows that were skipped or went to dead letters")
        self._late = made(counter, "late_rows", "rows that came behind the watermark")
        self._aborted = made(counter, "aborted_rows", "rows that the program refused")
        self._replies = made(counter, "replies", "replies that were committed")
        self._failures = made(counter, "failures", "epochs that failed and were not committed")
        self._epoch = made(gauge, "epoch", "the last committed epoch")
        self._committed = made(gauge, "last_commit_timestamp_seconds", "when the last epoch was committed, since 1970")
        self._entries = made(gauge, "state_entries", "entries of the state")
        self._bytes = made(gauge, "state_bytes", "bytes of the files that hold the state")
        self._lag = made(gauge, "source_lag_rows", "rows that wait in the sources, if they tell; NaN if not")
        self._watermark = made(gauge, "watermark_timestamp_seconds", "the watermark, since 1970; NaN without one")
        self._age = made(gauge, "snapshot_age_epochs", "epochs since the last snapshot")
        self._age_s = made(gauge, "snapshot_age_seconds", "seconds since this driver saw the last snapshot, or began")
        self._seconds = made(histogram, "epoch_seconds", "how long epochs took, from their offer to their commit")
        self._commit = made(histogram, "commit_seconds", "how long epochs took to commit and to publish")
        for unknown in (self._lag, self._watermark):
            unknown.set(float("nan"))
        self._age_s.set_function(lambda: (self._clock.now_ms() - self._snapshot[1]) / 1000)

    def _made(self, kind: Callable[..., Any], name: str, told: str, **labels: str) -> Any:
        """Return a metric of this program; those with other labels are made once for all of these."""
        known = {"program": self._program, **labels}
        if name not in self._kinds:
            self._kinds[name] = kind(f"millpond_{name}", told, tuple(known), registry=self.registry)
        return self._kinds[name].labels(**known)

    def epoch(self, report: EpochReport) -> None:
        """Count an epoch."""
        self._epochs.inc()
        for way, rows in report.ways.items():
            self._rows[way].inc(rows)
        for counter, count in (
            (self._bad, report.bad_rows),
            (self._late, report.late_rows),
            (self._aborted, report.aborted),
            (self._replies, report.replies),
        ):
            counter.inc(count)
        now = self._clock.now_ms()
        self._epoch.set(report.epoch)
        self._committed.set(now / 1000)
        self._entries.set(report.entries)
        self._bytes.set(report.checkpoint_bytes)
        self._lag.set(float("nan") if report.queued_rows is None else report.queued_rows)
        self._watermark.set(float("nan") if report.watermark is None else report.watermark.timestamp())
        self._age.set(report.snapshot_age)
        if self._snapshot[0] != report.snapshot_epoch:
            self._snapshot = report.snapshot_epoch, now
        self._seconds.observe(report.seconds)
        self._commit.observe(report.commit_seconds)

    def failed(self) -> None:
        """Count an epoch that failed."""
        self._failures.inc()

    def listen(self, address: str) -> str:
        """Show the metrics at an address from now on; return where. Port 0 takes any that is free."""
        host, port = parse_address(address)
        try:
            self._server, self._thread = self._prometheus.start_http_server(port, host, self.registry)
        except OSError as error:
            raise MetricsError(
                "MP841",
                "metrics can't be shown at this address",
                expected="a port that is free, at an address of this machine",
                found=f"{address}: {error.strerror or error}",
                hint='choose another port, or ":0" for any that is free: `job.metrics_url` tells which',
            ) from error
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self._server.server_port}/metrics"

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def _prometheus() -> Any:
    try:
        import prometheus_client
    except ImportError:
        raise MetricsError(
            "MP842",
            "metrics need a package that is not installed",
            expected="prometheus-client",
            found="no module of that name",
            hint='pip install "millpond[metrics]"',
        ) from None
    return prometheus_client
