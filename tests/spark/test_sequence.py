"""Programs that run in sequence on Spark: whatever the way of each epoch, and if the driver is killed in between."""

from __future__ import annotations

import random
import signal

import pytest

from tests.fuzz.transactions.truth import truth_of
from tests.programs import sequence_shops, sequence_structures
from tests.programs.sequence_shops import Carts, carts
from tests.spark.sequence_job import CartsDriver
from tests.spark.test_transactions_kill import PART_ROWS, PARTS, epochs_in, input_order
from tests.spark.transactions_feeding import LAYOUT, check, compare, run_job, streams, tables, write

PROGRAMS = {**sequence_shops.PROGRAMS, **sequence_structures.PROGRAMS}
ROWS = 120
POINTS = ("epoch.computed:2", "publish.started:3")
FEW_POINTS = ("publish.started:3",)


@pytest.mark.parametrize("small_epoch", [0, 1000])
@pytest.mark.parametrize("program", [Carts, sequence_structures.Derived], ids=lambda program: program.__name__)
def test_a_stream_in_sequence_equals_plain_python(spark, program, small_epoch, tmp_path):
    rows = list(PROGRAMS[program](random.Random(3), ROWS))
    write(tmp_path / "in", program, rows, 3)
    run_job(spark, program, streams(spark, program, tmp_path / "in"), tmp_path, partitions=2, small_epoch=small_epoch)
    assert check(tmp_path, program, rows).replies


@pytest.mark.parametrize("program", [sequence_shops.NewOrder, sequence_structures.Whole], ids=lambda one: one.__name__)
def test_a_bounded_run_in_sequence_equals_plain_python(spark, program, tmp_path):
    rows = list(PROGRAMS[program](random.Random(4), ROWS))
    write(tmp_path / "in", program, rows, 2)
    run_job(spark, program, tables(spark, program, tmp_path / "in"), tmp_path, partitions=3)
    assert check(tmp_path, program, rows).replies


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "points",
    [pytest.param(FEW_POINTS, id="few"), pytest.param(POINTS, id="all", marks=pytest.mark.campaign)],
)
def test_a_driver_that_is_killed_goes_on_in_sequence(tmp_path, points):
    rows = list(carts(random.Random(5), PARTS * PART_ROWS))
    write(tmp_path / "in", Carts, rows, PARTS)
    for number, point in enumerate(points):
        driver = CartsDriver(tmp_path, crash_at=point, small_epoch=number % 2 * PART_ROWS)
        assert driver.end() == -signal.SIGKILL, point
    assert epochs_in(tmp_path) < PARTS, "there was nothing left to recover"
    assert CartsDriver(tmp_path, small_epoch=PART_ROWS).end() == 0
    order = input_order(tmp_path, rows)
    compare(tmp_path, truth_of(Carts, [rows[number] for number in order], LAYOUT), dict(enumerate(order)))
