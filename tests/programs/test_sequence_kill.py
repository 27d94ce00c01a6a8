"""kill -9 of a simulated driver of carts at points of an epoch in sequence, then a new start on other partitions."""

from __future__ import annotations

import random
import signal

import pyarrow.parquet as pq
import pytest

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
from tests.programs.sequence_shops import Carts, carts
from tests.sizes import compile_once, sized

ROWS = list(carts(random.Random(17), 120))
EPOCH_ROWS = 20
TRUTH = truth_of(Carts, ROWS, Layout(DEFAULT_KEY_GROUPS, 1, 1, aligned=False))


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 60)


def go_on(folder, partitions):
    """Feed the rows that are not committed yet, as a source with offsets would."""
    sinks = {name: parquet(folder / "out" / name) for name in Carts.entries()}
    run = Simulated(compile_once(Carts), folder, partitions, sinks=sinks, bad_rows=BadRows.SKIP)
    while run.fed < len(ROWS):
        run.epoch(ROWS[run.fed : run.fed + EPOCH_ROWS])


def check_the_end(folder):
    found = [row for path in sorted((folder / "out").glob("*/*.parquet")) for row in pq.read_table(path).to_pylist()]
    assert len({row["row"] for row in found}) == len(found), "a reply is there twice"
    refused = {row["row"]: row["aborted"] for row in found if row.get("aborted") is not None}
    assert refused == TRUTH.aborted
    assert {row["row"]: repr(row["reply"]) for row in found if row["row"] not in refused} == TRUTH.replies
    assert read_state(FileStorage(folder / "checkpoint")) == TRUTH.state


@pytest.mark.parametrize("occurrence", [2])
@pytest.mark.parametrize("point", sized(IN_EPOCHS[1:], IN_EPOCHS[1::3]))
def test_a_process_killed_in_an_epoch_in_sequence_is_followed_by_one_that_finishes(tmp_path, point, occurrence):
    assert in_child(lambda: go_on(tmp_path, 2), f"{point}:{occurrence}") == -signal.SIGKILL
    go_on(tmp_path, 3)
    check_the_end(tmp_path)


def test_many_kills_in_a_row_on_changing_partitions_lose_nothing(tmp_path):
    rng = random.Random(23)
    for _ in range(8):
        crash_at = f"{rng.choice(IN_EPOCHS[1:])}:{rng.randrange(1, 4)}"
        partitions = rng.choice((1, 2, 3))
        assert in_child(lambda partitions=partitions: go_on(tmp_path, partitions), crash_at) in (-signal.SIGKILL, 0)
    go_on(tmp_path, 2)
    check_the_end(tmp_path)
