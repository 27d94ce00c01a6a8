"""kill -9 of the bank's driver on Spark, at named points and at random times: the same replies, state and sums."""

from __future__ import annotations

import random
import signal

import pyarrow.parquet as pq
import pytest

from examples.audit import constant, measured
from millpond.storage.backends.files import FileStorage
from tests.fuzz.transactions.truth import truth_of
from tests.fuzz.transactions.worlds.bank import Bank, make_rows, surplus
from tests.programs.keyed import fresh_seed, say
from tests.spark.transactions_feeding import LAYOUT, ROW, compare, write
from tests.spark.transactions_job import BankDriver

POINTS = (
    "epoch.computed:2",
    "manifest.linked:1",
    "publish.started:2",
    "publish.file:5",
)
"""Where the driver dies, one start after the other."""

FEW_POINTS = ("publish.started:2",)

PARTS = 8
PART_ROWS = 60


def epochs_in(folder):
    return len(list((folder / "ck" / "manifests").glob("*")))


def input_order(folder, rows):
    """The rows in the order of their epochs, within an epoch by number.

    Spark decides which parts of several feeds meet in an epoch: a source that had noted its next file when the driver
    died is a file ahead of the others. A part without a reply has only rows that raised, which leave no trace.
    """
    epochs = {}
    for path in (folder / "out").glob("*/*.parquet"):
        for number in pq.read_table(path)[ROW].to_pylist():
            epoch = int(path.name[:10])
            assert epochs.setdefault((path.parent.name, number // PART_ROWS), epoch) == epoch
    placed = [(epochs.get((name, number // PART_ROWS)), number) for number, (name, _) in enumerate(rows)]
    return [number for epoch, number in sorted(pair for pair in placed if pair[0] is not None)]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("points", "random_kills"),
    [pytest.param(FEW_POINTS, 0, id="few"), pytest.param(POINTS, 1, id="all", marks=pytest.mark.campaign)],
)
def test_a_driver_of_the_bank_killed_again_and_again_neither_loses_nor_makes_a_cent(tmp_path, points, random_kills):
    seed = fresh_seed()
    rng = random.Random(seed)
    rows = make_rows(seed, PARTS * PART_ROWS)
    write(tmp_path / "in", Bank, rows, PARTS)
    for number, point in enumerate(points):
        # Both ways to run an epoch, since a restart may change over.
        driver = BankDriver(tmp_path, crash_at=point, small_epoch=number % 2 * PART_ROWS)
        assert driver.end() == -signal.SIGKILL, point
        say(point, "left", epochs_in(tmp_path), "epochs")
    for _ in range(random_kills):
        driver = BankDriver(tmp_path, small_epoch=rng.choice((0, PART_ROWS)))
        driver.kill_at_random(lambda: epochs_in(tmp_path), rng)
        say("killed at random with", epochs_in(tmp_path), "epochs")
    assert epochs_in(tmp_path) < PARTS, "there was nothing left to recover"
    assert BankDriver(tmp_path, small_epoch=PART_ROWS).end() == 0
    order = input_order(tmp_path, rows)
    truth = truth_of(Bank, [rows[number] for number in order], LAYOUT)
    compare(tmp_path, truth, dict(enumerate(order)))
    found = measured(FileStorage(tmp_path / "ck"), Bank.elements(), surplus)
    assert (constant(found), found[1]) == (True, 0)
