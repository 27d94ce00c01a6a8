"""Drivers that sleep while others take their jobs over, with all their executors, and wake up later (R9)."""

from __future__ import annotations

import random

import pytest

from tests.programs.keyed import fresh_seed, say
from tests.spark.clusters import ClusterDriver, epochs_in
from tests.spark.drivers import wait_for
from tests.spark.feeding import write_parts
from tests.spark.gated import Gated
from tests.spark.test_driver_kill import check, rows_for

TWO = "local-cluster[2,1,1024]"
COMMITS_MEANWHILE = (0, 1, 2, 0, 3)
"""How many epochs are committed by the next driver before the one that slept goes on, one after the other."""

FENCED = ("MP40", "MP43")
"""What a driver says that was overtaken: it lost a commit, or Spark found the notes of another query."""


def wait_until(folder, epoch, driver):
    """Wait until an epoch is committed, whoever does it, as long as a driver lives."""
    wait_for(lambda: epochs_in(folder) >= epoch or driver.ended(), f"epoch {epoch}")


def overtaken(first, second):
    """Wait until one of two drivers has ended; return the other one, and that."""
    wait_for(lambda: first.ended() or second.ended(), "the end of one of them")
    return (second, first) if first.ended() else (first, second)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_a_driver_that_sleeps_while_another_one_takes_over_changes_nothing_when_it_wakes_up(tmp_path):
    seed = fresh_seed()
    chance = random.Random(seed)
    parts = 80
    rows = rows_for(seed, parts)
    write_parts(tmp_path / "in", Gated, rows, parts)
    driver = ClusterDriver(tmp_path, master=TWO, log="log.0")
    for number, commits in enumerate(COMMITS_MEANWHILE, 1):
        wait_until(tmp_path, epochs_in(tmp_path) + 1, driver)
        driver.pause(chance.uniform(0, 1.5))
        with driver.asleep():
            following = ClusterDriver(tmp_path, master=TWO, log=f"log.{number}")
            following.wait_until_started()
            wait_until(tmp_path, epochs_in(tmp_path) + commits, following)
        # Both are at work now: whoever commits first goes on.
        left, lost = overtaken(driver, following)
        assert lost.end() != 0
        assert any(word in lost.log() for word in FENCED), lost.log()[-4000:]
        if commits:
            assert lost is driver, "the one that slept was overtaken before it woke up"
        driver = left
        say("after", number, "sleeps:", epochs_in(tmp_path), "epochs")
    assert epochs_in(tmp_path) < parts, "there was nothing left to do"
    assert driver.end() == 0
    check(tmp_path, rows)
