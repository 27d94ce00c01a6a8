"""Transactional programs on Spark: batches and streams, small epochs and large ones, equal plain Python to the byte."""

from __future__ import annotations

import shutil
import time

import pytest

from examples.audit import constant, measured
from millpond.errors import ProgramError, RowError
from millpond.spark import job
from millpond.storage.backends.files import FileStorage
from tests.fuzz.loading import loaded, program_in
from tests.fuzz.transactions.campaign import case_of
from tests.fuzz.transactions.truth import truth_of
from tests.fuzz.transactions.worlds import WORLDS
from tests.fuzz.transactions.worlds.bank import Bank, make_rows, surplus
from tests.programs.keyed import fresh_seed
from tests.sizes import compile_once
from tests.spark.listening import LOOPBACK, addresses
from tests.spark.transactions_feeding import LAYOUT, check, run_job, streams, tables, write
from tests.spark.transactions_job import BankDriver

ROWS = 160
SEED = 20_261_117
GENERATED = 16


@pytest.mark.parametrize(("name", "partitions"), [*zip(WORLDS, (2, 3, 1, 2), strict=True)])
def test_a_batch_of_a_world_equals_plain_python(spark, tmp_path, name, partitions):
    program = program_in(WORLDS[name])
    rows = WORLDS[name].make_rows(fresh_seed(), ROWS)
    write(tmp_path / "in", program, rows, 3)
    report = run_job(spark, program, tables(spark, program, tmp_path / "in"), tmp_path, partitions=partitions)
    assert len(report.epochs) == 1
    truth = check(tmp_path, program, rows)
    assert min(len(truth.aborted), len(truth.raised)) > 0


@pytest.mark.parametrize(("partitions", "small_epoch"), [(2, 0), (3, 0), (3, 10_000)])
def test_a_stream_of_the_bank_equals_plain_python(spark, tmp_path, partitions, small_epoch):
    rows = make_rows(fresh_seed(), ROWS)
    write(tmp_path / "in", Bank, rows, 4)
    frames = streams(spark, Bank, tmp_path / "in")
    report = run_job(spark, Bank, frames, tmp_path, partitions=partitions, small_epoch=small_epoch)
    assert len(report.epochs) == 4
    check(tmp_path, Bank, rows)
    found = measured(FileStorage(tmp_path / "ck"), Bank.elements(), surplus)
    assert (constant(found), len(found), found[1]) == (True, 4, 0)


@pytest.mark.parametrize("chain", [True, False], ids=["one component", "many components"])
def test_rows_go_to_their_component_as_on_several_hosts(spark, tmp_path, monkeypatch, chain):
    monkeypatch.setattr("millpond.spark.placement.placement.one_host", lambda _: False)
    accounts = [f"account-{number}" for number in range(40)]
    rows = [("deposit", (account, 20)) for account in accounts]
    rows += [("transfer", (accounts[at], accounts[at + (chain or at % 2 == 0)], at)) for at in range(39)]
    rows += [("close", (accounts[7], "nobody")), ("balance", (accounts[7],))]
    write(tmp_path / "in", Bank, rows, 1)
    run_job(spark, Bank, tables(spark, Bank, tmp_path / "in"), tmp_path, partitions=3)
    check(tmp_path, Bank, rows)


@pytest.mark.connect
def test_a_row_that_raises_fails_its_epoch_unless_it_is_to_be_skipped(spark, tmp_path):
    rows = [("deposit", ("a", 5)), ("close", ("a", "nobody"))]
    write(tmp_path / "in", Bank, rows, 1)
    made = job.Job(Bank, spark, checkpoint=tmp_path / "ck", local_root=tmp_path / "local", progress=False)
    for name, frame in tables(spark, Bank, tmp_path / "in").items():
        made.feed(name, frame, order_by="row_number")
    with pytest.raises(RowError, match="raised KeyError") as caught:
        made.run()
    assert caught.value.code == "MP603"
    assert measured(FileStorage(tmp_path / "ck"), Bank.elements(), surplus) == {}


def test_generated_transactions_equal_plain_python(spark, tmp_path):
    ran = 0
    for number in range(GENERATED):
        case = case_of(SEED, number)
        folder = tmp_path / str(number)
        with loaded(case.text) as program:
            try:
                compile_once(program)
            except ProgramError:
                continue
            rows = truth_of(program, case.rows, LAYOUT).rows
            write(folder / "in", program, rows, 1)
            frames = tables(spark, program, folder / "in")
            run_job(spark, program, frames, folder, partitions=1 + number % 3)
            check(folder, program, rows)
        shutil.rmtree(folder)
        ran += 1
    assert ran > GENERATED / 2


@pytest.mark.timeout(1800)
def test_the_bank_on_a_cluster_of_two_executors_equals_plain_python_and_listens_on_loopback(tmp_path):
    rows = make_rows(11, ROWS)
    write(tmp_path / "in", Bank, rows, 2)
    driver = BankDriver(tmp_path, master="local-cluster[2,1,1024]")
    listened = []
    while not driver.ended():
        listened.append(addresses(driver.below()))
        time.sleep(0.5)
    assert driver.end() == 0
    assert set().union(*listened) <= LOOPBACK
    assert any(listened)
    check(tmp_path, Bank, rows)
