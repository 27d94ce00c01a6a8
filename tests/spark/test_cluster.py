"""Separate executors: partitions stay where their state is, and nothing is lost or repeated when executors die (R8)."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys

import pytest

from tests.crash.small_disk import fill, small_disk
from tests.programs.keyed import Mixed, fresh_seed, random_rows, say
from tests.spark.clusters import EXECUTOR, WORKER, ClusterDriver, Nemesis, epochs_in, told
from tests.spark.drivers import ROOT, wait_for
from tests.spark.feeding import write_parts
from tests.spark.gated import Gated
from tests.spark.test_driver_kill import check, rows_for
from tests.spark.two_queries_job import LONG, SHORT

THREE, TWO_BY_TWO = "local-cluster[3,1,1024]", "local-cluster[2,2,1024]"
HITS_MIN = 0.95
BACK_IN_USE_EPOCHS = 14
"""After something has moved, executors are looked for 1, 2, 4 and 8 epochs later; a new one needs seconds to start."""


def run_to_end(folder, master, rows, parts, **options):
    write_parts(folder / "in", Gated, rows, parts)
    (folder / "options").write_text(json.dumps(options))
    driver = ClusterDriver(folder, master=master)
    assert driver.end() == 0
    check(folder, rows)
    return told(folder)


def moved(epoch):
    return epoch["caught_up"] + epoch["restored"]


def hits(epochs):
    found = sum(epoch["local_hits"] for epoch in epochs)
    return found / (found + sum(moved(epoch) for epoch in epochs))


@pytest.mark.campaign
@pytest.mark.timeout(1500)
def test_partitions_stay_on_their_executors_and_use_all_of_them_again_after_a_kill(tmp_path):
    rows = rows_for(21, 26)
    write_parts(tmp_path / "in", Gated, rows, 26)
    driver = ClusterDriver(tmp_path, master=THREE)
    wait_for(lambda: len(told(tmp_path)) >= 6 or driver.ended(), "some epochs")
    found = driver.processes(EXECUTOR)
    assert len(found) == 3
    found[0].kill()
    killed_at = len(told(tmp_path))
    wait_for(lambda: len(told(tmp_path)) >= killed_at + 3 or driver.ended(), "epochs after the kill")
    driver.kill_one(WORKER, random.Random(1))
    assert driver.end() == 0
    assert "Lost executor" in driver.log()
    check(tmp_path, rows)
    epochs = told(tmp_path)
    say([(one["epoch"], one["executors"], one["local_hits"], moved(one)) for one in epochs])
    assert all(one["local_hits"] + moved(one) == 3 for one in epochs[1:])
    before = epochs[1 : killed_at - 1]
    assert all(moved(one) == 0 and one["executors"] == 3 for one in before)
    after = epochs[killed_at : killed_at + 3]
    assert sum(one["restored"] for one in after) >= 1, "the killed executor had no partition"
    assert any(one["executors"] == 3 for one in epochs[killed_at + 1 :][:BACK_IN_USE_EPOCHS])
    assert epochs[-1]["executors"] == 3
    assert len(json.loads((tmp_path / "stores").read_text())) >= 3
    assert json.loads((tmp_path / "stores.after").read_text()) == []


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("master", [THREE, TWO_BY_TWO])
def test_over_200_epochs_nearly_all_partitions_find_their_state(tmp_path, master):
    epochs = run_to_end(tmp_path, master, rows_for(22, 200), 200, partitions=4)
    share = hits(epochs[1:])
    say(master, "found locally:", share)
    assert share >= HITS_MIN


class TwoQueries(ClusterDriver):
    JOB = "tests.spark.two_queries_job"


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_two_queries_at_once_keep_stores_of_their_own_and_each_takes_only_these_with_it(tmp_path):
    rows = {name: rows_for(seed, parts) for name, seed, parts in ((SHORT, 24, 3), (LONG, 25, 20))}
    for name, own in rows.items():
        write_parts(tmp_path / name / "in", Gated, own, 3 if name == SHORT else 20)
    assert TwoQueries(tmp_path, master=TWO_BY_TWO).end() == 0
    for name, own in rows.items():
        check(tmp_path / name, own)
    both, one, none = json.loads((tmp_path / "held").read_text())
    say(both, one)
    assert both[SHORT]
    assert both[LONG]
    assert not {*both[SHORT]} & {*both[LONG]}
    assert one[SHORT] == []
    assert one[LONG], "the one that goes on has lost its stores"
    assert none == {SHORT: [], LONG: []}


HARM_SECONDS = 150
EXPECTED_ENDS = ("MP3", "MP4", "MP5", "Job aborted", "Connection refused", "SparkContext was shut down")
"""What a driver may tell that was not killed itself: storage that is not there, and epochs that were tried in vain."""


def suffer(folder, master, name, epochs, seed, record_property):
    """Run a job of so many epochs to its end, with everything dying under it, and tell how long commits took then."""
    nemesis = Nemesis(lambda: ClusterDriver(folder, master=master), random.Random(seed))
    nemesis.harm_for(HARM_SECONDS, epochs)
    nemesis.finish()
    for line in nemesis.told():
        record_property("told", f"{master}, {name}: {line}")
    done = nemesis.counts()
    say(done, [code for code, _ in nemesis.ends], nemesis.story())
    assert {"executor", "worker", "driver", "checkpoint"} <= done.keys()
    assert sum(done.values()) >= 8
    unexpected = [
        log[-3000:]
        for code, log in nemesis.ends
        if code not in {0, -signal.SIGKILL} and not any(word in log for word in EXPECTED_ENDS)
    ]
    assert unexpected == []


@pytest.mark.campaign
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("master", "program", "options"),
    [(THREE, Gated, {}), (TWO_BY_TWO, Mixed, {}), (THREE, Mixed, {"resizes": True})],
    ids=["two steps", "several keys and partial state", "partitions that come and go"],
)
def test_a_feed_with_everything_dying_under_it_equals_plain_python(tmp_path, record_property, master, program, options):
    seed = fresh_seed()
    parts = 60
    rows = rows_for(seed, parts) if program is Gated else random_rows(program, seed, parts * 60)
    write_parts(tmp_path / "in", program, rows, parts)
    (tmp_path / "options").write_text(json.dumps({"program": program.__name__, **options}))
    suffer(tmp_path, master, program.__name__, parts, seed, record_property)
    check(tmp_path, rows, program)


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_a_local_disk_that_is_full_for_a_while_is_told_and_costs_nothing_but_time(tmp_path):
    parts = 24
    rows = rows_for(23, parts)
    write_parts(tmp_path / "in", Gated, rows, parts)
    with small_disk(tmp_path / "local", 16 << 20) as disk:
        (tmp_path / "options").write_text(json.dumps({"local_root": str(disk), "tuning": {"retries": 2}}))
        driver = ClusterDriver(tmp_path, master=THREE)
        wait_for(lambda: epochs_in(tmp_path) >= 5 or driver.ended(), "some epochs")
        for store in disk.iterdir():
            shutil.rmtree(store)
        ballast = fill(disk)
        wait_for(driver.ended, "the end of a job without room")
        full_at = epochs_in(tmp_path)
        assert driver.end() != 0
        assert any(code in driver.log() for code in ("MP220", "MP221")), driver.log()[-4000:]
        assert full_at < parts
        ballast.unlink()
        assert ClusterDriver(tmp_path, master=THREE).end() == 0
    check(tmp_path, rows)


@pytest.mark.campaign
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (("placement", "--epochs", "3", "--keys", "40"), {"local_hits_on", "local_hits_off", "epoch_ratio"}),
        (("recovery", "--kills", "1", "--keys", "40,90"), {"recovery_seconds", "restore_seconds"}),
    ],
)
def test_benchmarks_on_executors_tell_their_figures_and_were_checked(tmp_path, arguments, keys):
    command = [sys.executable, "-m", "benchmarks", *arguments, "--rows", "50", "--executors", "2", "--partitions", "2"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    figures = json.loads(ran.stdout.splitlines()[-1])
    assert figures.keys() >= keys
    assert figures["checked"] is True
