"""Metrics over HTTP: the names that are documented, the figures of epochs, and nobody outside of this machine."""

from __future__ import annotations

import re
import sys
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import pytest

from millpond.clock import ManualClock
from millpond.errors import MetricsError
from millpond.spark.reporting.metrics import Metrics, parse_address
from millpond.spark.reporting.observers import Observers
from millpond.spark.reporting.reports import EpochReport

PAGE = Path(__file__).parents[4] / "docs" / "OBSERVING.md"


@pytest.fixture
def observers():
    observers = Observers("Visits")
    yield observers
    observers.close()


def scraped(url):
    with urllib.request.urlopen(url) as answer:
        text = answer.read().decode()
    found = re.findall(r"^(millpond_\w+)\{(.*?)\} (\S+)$", text, re.MULTILINE)
    return text, {(name, labels): float(value) for name, labels, value in found}


def test_the_endpoint_has_the_metrics_that_are_documented_and_no_others(observers):
    observers.watch(None, ":0")
    text, _ = scraped(observers.url)
    shown = dict(re.findall(r"^# TYPE (millpond_\w+) (\w+)$", text, re.MULTILINE))
    shown = {name: kind for name, kind in shown.items() if not name.endswith("_created")}
    documented = dict(re.findall(r"^\| `(millpond_\w+)` \| (\w+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert shown == documented


def test_epochs_are_counted(observers):
    observers.watch(None, ":0")
    moment = datetime(2024, 2, 29, 12, tzinfo=UTC)
    first = {"ways": {"keyed": 7, "gathered": 2, "in sequence": 1}, "snapshot_epoch": 0, "checkpoint_bytes": 99}
    observers.epoch(EpochReport(4, 10, 3, 2, 5, 0.5, 0.1, {}, late_rows=1, aborted=1, queued_rows=12, **first))
    second = {"ways": {"keyed": 5, "gathered": 0, "in sequence": 0}, "snapshot_epoch": 3}
    observers.epoch(EpochReport(5, 5, 0, 0, 6, 0.25, 0.1, {}, watermark=moment, **second))
    observers.metrics.failed()
    _, found = scraped(observers.url)
    one = 'program="Visits"'
    assert found["millpond_rows_total", f'{one},way="keyed"'] == 12
    assert found["millpond_rows_total", f'{one},way="gathered"'] == 2
    assert found["millpond_rows_total", f'{one},way="in sequence"'] == 1
    wanted = {
        "epochs_total": 2,
        "bad_rows_total": 3,
        "late_rows_total": 1,
        "aborted_rows_total": 1,
        "replies_total": 2,
        "failures_total": 1,
        "epoch": 5,
        "state_entries": 6,
        "state_bytes": 0,
        "snapshot_age_epochs": 2,
        "watermark_timestamp_seconds": moment.timestamp(),
        "epoch_seconds_count": 2,
        "epoch_seconds_sum": 0.75,
        "commit_seconds_count": 2,
    }
    assert {name: found[f"millpond_{name}", one] for name in wanted} == wanted
    assert found["millpond_source_lag_rows", one] != found["millpond_source_lag_rows", one], "NaN: nobody tells"


def test_the_age_of_a_snapshot_goes_on():
    clock = ManualClock(1_000_000)
    metrics = Metrics("Visits", clock)
    age = lambda: metrics.registry.get_sample_value("millpond_snapshot_age_seconds", {"program": "Visits"})  # noqa: E731
    metrics.epoch(EpochReport(1, 1, 0, 0, 1, 0.1, 0.1, {}))
    clock.advance(5000)
    assert age() == 5
    metrics.epoch(EpochReport(2, 1, 0, 0, 1, 0.1, 0.1, {}))
    assert age() == 5
    metrics.epoch(EpochReport(3, 1, 0, 0, 1, 0.1, 0.1, {}, snapshot_epoch=2))
    assert age() == 0


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (":9108", ("127.0.0.1", 9108)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:9108", ("::1", 9108)),
        ("node-1.example:9108", ("node-1.example", 9108)),
    ],
)
def test_without_a_host_it_is_this_machine_alone(address, place):
    assert parse_address(address) == place


@pytest.mark.parametrize("address", ["", "9108", ":", ":70000", ":91o8", "http://host:1", 9108, None, "a b:1"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(MetricsError, match="MP840"):
        parse_address(address)


def test_an_address_that_is_taken_is_refused_and_one_that_was_closed_is_free(observers):
    observers.watch(None, ":0")
    port = observers.url.split(":")[-1].split("/")[0]
    with pytest.raises(MetricsError, match="MP841"):
        Observers("Other").watch(None, f":{port}")
    observers.close()
    assert observers.url is None
    observers.watch(None, f":{port}")


def test_without_the_package_it_is_told_what_to_install(observers, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MetricsError, match=r"MP842[\s\S]*millpond\[metrics\]"):
        observers.watch(None, ":0")


def test_the_endpoint_ends_with_its_query(observers):
    import threading

    ended = threading.Event()
    observers.watch(None, ":0")
    metrics = observers.metrics
    observers.close_after(ended.wait)
    (waiting,) = [thread for thread in threading.enumerate() if thread.name == "millpond-metrics"]
    ended.set()
    waiting.join()
    assert observers.metrics is None
    assert metrics._server is None
