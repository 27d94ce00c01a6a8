"""The parts of the benchmark of transfers that need no Spark: its input, its loop, and its checks."""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import transfers
from benchmarks.report import BenchmarkError
from benchmarks.transfers import Bank, Options, check_replies, check_state, plain_loop, write_transfers
from millpond.compiler.compile import compile_program
from millpond.engine.simulated import Simulated

COUNT, ACCOUNTS = 900, 40


@pytest.fixture(params=[None, 0.99], ids=["uniform", "zipf"])
def file(request, tmp_path):
    return write_transfers(tmp_path / "transfers.parquet", COUNT, ACCOUNTS, request.param, 1)


def rows_of(file):
    return [(row["source"], row["target"], row["amount"]) for row in pq.read_table(file).to_pylist()]


def test_the_loop_is_the_program_run_as_plain_python(file):
    bank = Bank()
    replies = [bank.transfer(*row) for row in rows_of(file)]
    balances, emitted = plain_loop(file)
    assert emitted == replies
    assert balances == dict(bank.balances.items())
    assert 0 < sum(emitted) < COUNT, "some transfers are made, some are not"


def test_no_money_is_lost_or_made(file):
    balances, _ = plain_loop(file)
    assert sum(balances.values()) == transfers.OPENING * len(balances)
    assert min(balances.values()) >= 0


@pytest.mark.parametrize("partitions", [1, 3])
def test_partitions_give_what_the_loop_gives(file, partitions, tmp_path):
    balances, emitted = plain_loop(file)
    run = Simulated(compile_program(Bank), tmp_path, partitions)
    rows = [("transfer", row) for row in rows_of(file)]
    run.epoch(rows[: COUNT // 3])
    run.epoch(rows[COUNT // 3 :])
    assert run.replies() == dict(enumerate(emitted))
    check_state(tmp_path / "checkpoint", balances)


def test_input_follows_from_its_seed(tmp_path):
    files = [write_transfers(tmp_path / f"{n}.parquet", 50, 9, 0.99, seed) for n, seed in enumerate((1, 1, 2))]
    first, again, other = map(rows_of, files)
    assert first == again != other


def test_zipf_prefers_few_accounts_and_uniform_none(tmp_path):
    shares = {}
    for skew in (None, 0.99):
        table = pq.read_table(write_transfers(tmp_path / f"{skew}.parquet", 20_000, 1_000, skew, 3))
        sources = table["source"].to_numpy()
        assert sources.min() >= 0
        assert sources.max() < 1_000
        shares[skew] = np.bincount(sources, minlength=1_000).max() / len(sources)
    # The share of rank 1 is one by the sum over all ranks.
    wanted = 1 / (np.arange(1, 1_001) ** -0.99).sum()
    assert shares[0.99] == pytest.approx(wanted, rel=0.1)
    assert shares[None] < 0.005


def reply_file(folder, numbers, replies):
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"number": numbers, "reply": replies}), folder / f"{len(list(folder.iterdir()))}.parquet")


def test_replies_are_checked_in_any_order_and_over_files(tmp_path):
    reply_file(tmp_path / "out", [2, 0], [True, False])
    reply_file(tmp_path / "out", [1], [True])
    check_replies(tmp_path / "out", [False, True, True])


@given(wrong=st.integers(0, 2))
def test_one_wrong_reply_is_found(tmp_path_factory, wrong):
    folder = tmp_path_factory.mktemp("replies")
    reply_file(folder / "out", [0, 1, 2], [True, False, True])
    want = [True, False, True]
    want[wrong] = not want[wrong]
    with pytest.raises(BenchmarkError, match="did not emit what the loop emitted"):
        check_replies(folder / "out", want)


@pytest.mark.parametrize("numbers", [[0, 1], [0, 1, 1], [0, 1, 2, 2], [0, 1, 3]])
def test_a_missing_or_doubled_reply_is_found(tmp_path, numbers):
    reply_file(tmp_path / "out", numbers, [True] * len(numbers))
    with pytest.raises(BenchmarkError, match="one reply for each transfer"):
        check_replies(tmp_path / "out", [True, True, True])


def test_a_checkpoint_without_the_balances_is_refused(tmp_path):
    with pytest.raises(BenchmarkError, match="checkpoint"):
        check_state(tmp_path / "empty", {1: 1})


def test_options_are_read_as_they_are_given():
    parser = argparse.ArgumentParser()
    transfers.add_options(parser)
    assert transfers.read_options(parser.parse_args([])) == Options()
    sizes = {"transfers": 50, "accounts": 5, "skew": 1.2, "partitions": 3, "repeat": 1, "seed": 9}
    words = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    assert transfers.read_options(parser.parse_args(words)) == Options(**sizes)
