from __future__ import annotations

import pytest

from millpond.clock import ManualClock
from millpond.engine.elastic import HotKey
from millpond.engine.plan import Level
from millpond.spark.reporting.progress import Progress
from millpond.spark.reporting.reports import EpochReport

ODD = ["[/b]", "[red]", "Counter[str]", "\x1b[2J", "a\nb", "\udcff"]


def report(**more):
    return EpochReport(1, 10, 0, 0, 5, 0.5, 0.1, {}, **more)


@pytest.mark.parametrize("key", ODD)
def test_keys_of_any_text_are_told_as_they_are(capsys, key):
    progress = Progress("Visits", shown=True)
    progress.epoch(report(advice=(f"key {key!r} has 43% of the rows",), hot_keys=(HotKey("visit.0", key, 0.43),)))
    progress.stop()
    told = capsys.readouterr().err
    assert f"Visits: key {key!r} has 43% of the rows" in told
    assert "\x1b" not in told


@pytest.mark.parametrize(("queued", "shown"), [(None, False), (0, False), (12_000, True)])
def test_rows_that_wait_are_shown(capsys, monkeypatch, queued, shown):
    monkeypatch.setenv("COLUMNS", "200")
    progress = Progress("Visits", shown=True)
    progress.epoch(report(queued_rows=queued))
    progress.stop()
    assert ("12,000 rows wait" in capsys.readouterr().err) is shown


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        ({"executors": 1, "local_hits": 3}, None),
        ({"executors": 3, "local_hits": 4}, "3 executors, 4 partitions in place"),
        ({"caught_up": 1, "restored": 2, "restore_seconds": 1.25}, "3 moved in 1.2 s"),
        ({"groups_moved": 9, "partitions": 4}, "9 key groups on 4 partitions moved"),
        ({"hot_keys": (HotKey("visit.0", "'whale'", 0.43),)}, "key 'whale' has 43% of the rows of visit.0"),
    ],
)
def test_where_partitions_ran_what_moved_and_hot_keys_are_shown(capsys, monkeypatch, seen, told):
    monkeypatch.setenv("COLUMNS", "300")
    progress = Progress("Visits", shown=True)
    progress.epoch(report(**seen))
    progress.stop()
    cells = capsys.readouterr().err.strip().split(" · ")[5:]
    assert cells == ([told] if told else [])


MB = 1_000_000


@pytest.mark.parametrize(
    ("level", "bytes_in", "bytes_changed", "other"),
    [
        (Level.EXACTLY_ONCE, 10 * MB, 41 * MB, "replay"),
        (Level.EXACTLY_ONCE, 10 * MB, 39 * MB, None),
        (Level.EXACTLY_ONCE, 0, 16 * MB, None),
        (Level.EXACTLY_ONCE, 90 * MB, 1 * MB, None),
        (Level.REPLAY, 41 * MB, 10 * MB, "exactly_once"),
        (Level.REPLAY, 39 * MB, 10 * MB, None),
        (Level.REPLAY, 10 * MB, 41 * MB, None),
        (Level.BOUNDED_LOSS, 10 * MB, 41 * MB, None),
    ],
)
def test_the_level_that_would_write_less_is_suggested(capsys, level, bytes_in, bytes_changed, other):
    Progress("Visits", shown=True).suggest_level(level, bytes_in, bytes_changed)
    told = capsys.readouterr().err
    assert (f'Durability("{other}") would write less' in told) if other else told == ""
    if other:
        assert f"{bytes_in // MB} MB of rows changed {bytes_changed // MB} MB of state" in told
    Progress("Visits", shown=False).suggest_level(level, bytes_in, bytes_changed)
    assert capsys.readouterr().err == ""


def test_outside_of_a_terminal_there_is_a_line_now_and_then(capsys):
    clock = ManualClock()
    progress = Progress("Visits", clock=clock)
    for seconds in (0, 4, 5, 2, 11):
        clock.sleep(seconds)
        progress.epoch(report())
    progress.stop()
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" rows ·")[0] for line in lines] == [
        "Visits: epoch 1 · 10",
        "Visits: epoch 1 · 40",
        "Visits: epoch 1 · 50",
    ]


def test_nothing_is_told_if_nothing_is_wanted(capsys):
    Progress("Visits", shown=False).epoch(report(advice=("move",)))
    assert capsys.readouterr().err == ""
