"""Whoever watches a job is told of each epoch, and can't stop it."""

from __future__ import annotations

import logging

import pytest

from millpond.errors import EpochError, MetricsError
from millpond.spark.reporting.observers import REPORTS_MAX, Observers
from millpond.spark.reporting.reports import EpochReport


def report(epoch=1, **more):
    return EpochReport(epoch, 10, more.pop("bad_rows", 0), 0, 5, 0.5, 0.1, {}, **more)


def test_a_function_is_told_of_each_epoch_after_the_job_knows_it():
    observers = Observers("Visits")
    told = []
    observers.watch(lambda one: told.append((one.epoch, observers.reports[-1].epoch)), None)
    for epoch in (1, 2):
        observers.epoch(report(epoch))
    assert told == [(1, 1), (2, 2)]


def test_as_many_reports_are_kept_as_there_is_room_for():
    observers = Observers("Visits")
    for epoch in range(1, REPORTS_MAX + 3):
        observers.epoch(report(epoch))
    assert [observers.reports[0].epoch, observers.reports[-1].epoch, len(observers.reports)] == [
        3,
        REPORTS_MAX + 2,
        REPORTS_MAX,
    ]


def test_a_function_that_raises_is_logged_and_stops_nobody(caplog):
    observers = Observers("Visits")
    observers.watch(lambda one: 1 / 0, None)
    observers.epoch(report())
    observers.epoch(report(2))
    assert [one.epoch for one in observers.reports] == [1, 2]
    assert [line.exc_info[0] for line in caplog.records if line.exc_info] == [ZeroDivisionError] * 2


def test_what_is_no_function_is_refused():
    with pytest.raises(MetricsError, match="MP843"):
        Observers("Visits").watch("print", None)


def test_epochs_are_logged_under_millpond(caplog):
    observers = Observers("Visits")
    with caplog.at_level(logging.DEBUG, logger="millpond"):
        observers.started(0)
        observers.epoch(report(bad_rows=2, advice=("key 'a' has 43% of the rows",)))
        observers.failed(EpochError("MP434", "Spark aborted the job of an epoch"))
    assert {line.name for line in caplog.records} == {"millpond.job"}
    levels = [(line.levelname, line.getMessage()) for line in caplog.records]
    assert ("INFO", "Visits: epoch 1 committed: 10 rows in 0.500 s, 5 state entries") in levels
    assert ("WARNING", "Visits: epoch 1 had 2 bad and 0 late rows") in levels
    assert ("WARNING", "Visits: key 'a' has 43% of the rows") in levels
    assert ("ERROR", "Visits: MP434 Spark aborted the job of an epoch") in levels
    (committed,) = [line for line in caplog.records if hasattr(line, "millpond_report")]
    assert committed.millpond_report.rows == 10


def test_a_job_says_nothing_to_those_who_did_not_ask(capfd):
    Observers("Visits").epoch(report())
    assert capfd.readouterr() == ("", "")
