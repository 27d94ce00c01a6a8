"""Programs that run in sequence on Spark: whatever the way of each epoch, and if the driver is killed in between."""

from __future__ import annotations

import random
import signal

import pytest

from millpond.checkpoint.records.manifest import decode_manifest
from millpond.engine.sequence.cutting import PARTS as CUT
from millpond.storage.backends.files import FileStorage
from tests.fuzz.transactions.truth import truth_of
from tests.programs import sequence_shops, sequence_structures
from tests.programs.bank import Bank, bank_rows
from tests.programs.sequence_shops import Carts, carts
from tests.spark.sequence_job import SequenceDriver
from tests.spark.test_transactions_kill import PART_ROWS, PARTS, epochs_in, input_order
from tests.spark.transactions_feeding import LAYOUT, check, compare, run_job, streams, tables, write

PROGRAMS = {**sequence_shops.PROGRAMS, **sequence_structures.PROGRAMS}
ROWS = 120
CUT_SEED = 0
"""With it, rows in sequence are few among others."""
POINTS = ("epoch.computed:2", "publish.started:3")
CUT_POINTS = ("part.computed:1", "part.computed:4", "delta.written:3", "publish.started:2")
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


def test_a_bounded_run_is_cut_around_few_rows_in_sequence(spark, tmp_path):
    rows = list(bank_rows(random.Random(CUT_SEED), ROWS))
    write(tmp_path / "in", Bank, rows, 2)
    done = run_job(spark, Bank, tables(spark, Bank, tmp_path / "in"), tmp_path, partitions=3, small_epoch=0)
    assert check(tmp_path, Bank, rows).replies
    (epoch,) = done.epochs
    slow = sum(name in ("inherit", "report") for name, _ in rows)
    assert (epoch.ways["in sequence"], epoch.parts) == (slow, 2 * slow + 1)


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_stream_is_cut_around_few_rows_in_sequence(spark, partitions, tmp_path):
    rows = list(bank_rows(random.Random(CUT_SEED), ROWS))
    write(tmp_path / "in", Bank, rows, 2)
    run_job(spark, Bank, streams(spark, Bank, tmp_path / "in"), tmp_path, partitions=partitions, small_epoch=0)
    assert check(tmp_path, Bank, rows).replies
    kept = FileStorage(tmp_path / "ck")
    assert all(decode_manifest(kept.get(name), name).counters[CUT] > 1 for name in kept.list("manifests"))


def test_a_small_epoch_is_not_cut(spark, tmp_path):
    rows = list(bank_rows(random.Random(CUT_SEED), ROWS))
    write(tmp_path / "in", Bank, rows, 1)
    done = run_job(spark, Bank, tables(spark, Bank, tmp_path / "in"), tmp_path, partitions=2, small_epoch=ROWS)
    assert check(tmp_path, Bank, rows).replies
    assert [epoch.parts for epoch in done.epochs] == [1]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "points",
    [pytest.param(("part.computed:2",), id="few"), pytest.param(CUT_POINTS, id="all", marks=pytest.mark.campaign)],
)
def test_a_driver_that_is_killed_between_parts_goes_on(tmp_path, points):
    rows = list(bank_rows(random.Random(CUT_SEED), PARTS * PART_ROWS))
    write(tmp_path / "in", Bank, rows, PARTS)
    for point in points:
        assert SequenceDriver(tmp_path, crash_at=point).end() == -signal.SIGKILL, point
    assert SequenceDriver(tmp_path).end() == 0
    order = input_order(tmp_path, rows)
    compare(tmp_path, truth_of(Bank, [rows[number] for number in order], LAYOUT), dict(enumerate(order)))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "points",
    [pytest.param(FEW_POINTS, id="few"), pytest.param(POINTS, id="all", marks=pytest.mark.campaign)],
)
def test_a_driver_that_is_killed_goes_on_in_sequence(tmp_path, points):
    rows = list(carts(random.Random(5), PARTS * PART_ROWS))
    write(tmp_path / "in", Carts, rows, PARTS)
    for number, point in enumerate(points):
        driver = SequenceDriver(tmp_path, crash_at=point, small_epoch=number % 2 * PART_ROWS)
        assert driver.end() == -signal.SIGKILL, point
    assert epochs_in(tmp_path) < PARTS, "there was nothing left to recover"
    assert SequenceDriver(tmp_path, small_epoch=PART_ROWS).end() == 0
    order = input_order(tmp_path, rows)
    compare(tmp_path, truth_of(Carts, [rows[number] for number in order], LAYOUT), dict(enumerate(order)))
