from __future__ import annotations

import socket

import pytest

from benchmarks import generator
from benchmarks.generator import LOOPBACK, events, send, sending
from benchmarks.latency import Arrivals, Options, delay_figures, loop_values
from benchmarks.report import BenchmarkError


class Query:
    """A query that is over."""

    isActive = False  # noqa: N815

    def exception(self):
        return "a broken row"


def read_lines(port: int, count: int) -> list[str]:
    with socket.create_connection((LOOPBACK, port), timeout=300) as connection, connection.makefile() as lines:
        return [next(lines).strip() for _ in range(count)]


def test_the_generator_sends_the_events_that_the_loop_checks():
    with sending(count=30, rate=1_000, keys=7, seed=3) as port:
        lines = [line.split(",") for line in read_lines(port, 30)]
    assert [(int(seq), int(key), float(amount)) for seq, key, amount, _ in lines] == list(events(30, 7, 3))


def test_events_are_stamped_when_sent_on_a_clock_that_both_sides_share():
    before = generator.now_ns()
    with sending(count=5, rate=1_000, keys=7, seed=3) as port:
        stamps = [int(line.split(",")[3]) for line in read_lines(port, 5)]
    assert before <= stamps[0]
    assert stamps == sorted(stamps)
    assert stamps[-1] <= generator.now_ns()


def test_events_are_sent_no_faster_than_asked(monkeypatch):
    from millpond.clock import ManualClock

    clock = ManualClock()
    monkeypatch.setattr(generator, "_CLOCK", clock)

    class Connection:
        sent = b""

        def sendall(self, data):
            self.sent += data
            assert self.sent.count(b"\n") <= clock.now_ms() * 2 + 1

    connection = Connection()
    send(connection, count=1_000, rate=2_000, keys=5, seed=1)
    assert connection.sent.count(b"\n") == 1_000
    assert clock.now_ms() in range(490, 510)


def test_a_value_that_arrives_twice_is_refused():
    arrivals = Arrivals()
    arrivals.take([(1, 0, 1, 2.0)])
    with pytest.raises(BenchmarkError, match="two results"):
        arrivals.take([(1, 0, 1, 2.0)])


def test_delays_are_taken_from_sending_to_arrival(monkeypatch):
    monkeypatch.setattr("benchmarks.latency.now_ns", lambda: 9_000_000)
    arrivals = Arrivals()
    arrivals.take([(0, 1_000_000, 1, 2.0), (1, 4_000_000, 2, 3.0)])
    assert arrivals.delays_ms == {0: 8.0, 1: 5.0}
    assert arrivals.values == {0: (1, 2.0), 1: (2, 3.0)}


def test_a_query_that_dies_is_reported_with_its_reason(monkeypatch):
    monkeypatch.setattr("benchmarks.latency.POLL_SECONDS", 0.01)
    with pytest.raises(BenchmarkError, match="Millpond stopped: a broken row"):
        Arrivals().wait(1, Query(), 1.0, "Millpond")


def test_a_query_that_gives_too_little_is_reported(monkeypatch):
    monkeypatch.setattr("benchmarks.latency.POLL_SECONDS", 0.01)
    monkeypatch.setattr(Query, "isActive", True)
    arrivals = Arrivals()
    arrivals.take([(0, 0, 1, 2.0)])
    with pytest.raises(BenchmarkError, match="1 of 2 results"):
        arrivals.wait(2, Query(), 0.02, "Millpond")


def test_the_loop_has_one_value_for_each_event():
    options = Options(rate=100, seconds=1.0, warm_up=1.0, keys=3)
    values = loop_values(options)
    assert sorted(values) == list(range(200))
    last = {key: seq for seq, key, _ in events(200, 3, options.seed)}
    assert sum(values[seq][0] for seq in last.values()) == 200


def test_drift_shows_who_can_not_keep_up():
    assert delay_figures([10.0] * 100)["drift"] == 1.0
    assert delay_figures([float(value) for value in range(1, 101)])["drift"] == 3.0
