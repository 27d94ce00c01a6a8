"""kill -9 of a simulated driver of the bank at every point of an epoch, then a new start: the truth, every cent."""

from __future__ import annotations

import random
import shutil
import signal

import pyarrow.parquet as pq
import pytest

from examples.audit import constant, measured
from millpond import parquet
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.crashpoints import IN_EPOCHS
from millpond.engine.plan import BadRows
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from millpond.keygroups import DEFAULT_KEY_GROUPS, Layout
from millpond.storage.backends.files import FileStorage
from tests.children import in_child
from tests.fuzz.transactions.truth import truth_of
from tests.fuzz.transactions.worlds.bank import Bank, make_rows, surplus
from tests.programs.keyed import fresh_seed, say
from tests.sizes import compile_once

ROWS = make_rows(17, 150)
EPOCH_ROWS = 25
TRUTH = truth_of(Bank, ROWS, Layout(DEFAULT_KEY_GROUPS, 1, 1, aligned=False))
PARTITIONS = (1, 2, 3)


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 60)


def go_on(folder, partitions):
    """Feed the rows that are not committed yet, as a source with offsets would."""
    sinks = {name: parquet(folder / "out" / name) for name in Bank.entries()}
    run = Simulated(compile_once(Bank), folder, partitions, sinks=sinks, bad_rows=BadRows.SKIP)
    while run.fed < len(ROWS):
        run.epoch(ROWS[run.fed : run.fed + EPOCH_ROWS])


def check_the_end(folder):
    found = [row for path in sorted((folder / "out").glob("*/*.parquet")) for row in pq.read_table(path).to_pylist()]
    assert len({row["row"] for row in found}) == len(found), "a reply is there twice"
    refused = {row["row"]: row["aborted"] for row in found if row.get("aborted") is not None}
    assert refused == TRUTH.aborted
    assert {row["row"]: repr(row["reply"]) for row in found if row["row"] not in refused} == TRUTH.replies
    storage = FileStorage(folder / "checkpoint")
    assert read_state(storage) == TRUTH.state
    assert constant(measured(storage, Bank.elements(), surplus))


@pytest.mark.campaign
@pytest.mark.parametrize("occurrence", [1, 2])
@pytest.mark.parametrize("point", IN_EPOCHS)
def test_a_process_killed_at_any_point_is_followed_by_one_that_finishes(tmp_path, point, occurrence):
    ended = in_child(lambda: go_on(tmp_path, 2), f"{point}:{occurrence}")
    assert ended == (-signal.SIGKILL if (point, occurrence) != ("checkpoint.created", 2) else 0)
    go_on(tmp_path, 3)
    check_the_end(tmp_path)


@pytest.mark.slow
def test_many_kills_in_a_row_on_changing_partitions_lose_nothing(tmp_path):
    seed = fresh_seed()
    rng = random.Random(seed)
    for _ in range(14):
        crash_at = f"{rng.choice(IN_EPOCHS[1:])}:{rng.randrange(1, 4)}"
        say(crash_at)
        partitions = rng.choice(PARTITIONS)
        ended = in_child(lambda partitions=partitions: go_on(tmp_path, partitions), crash_at)
        assert ended in (-signal.SIGKILL, 0)
        if rng.random() < 0.3:
            shutil.rmtree(tmp_path / "local-2", ignore_errors=True)
    go_on(tmp_path, 2)
    check_the_end(tmp_path)


def test_a_run_that_nobody_kills_comes_to_the_same_end(tmp_path):
    go_on(tmp_path, 3)
    check_the_end(tmp_path)
