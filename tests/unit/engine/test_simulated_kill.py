"""kill -9 at every point of an epoch, user code and files of replies included, then a new start (R5)."""

from __future__ import annotations

import random
import shutil
import signal

import pyarrow.parquet as pq
import pytest

from millpond import parquet
from millpond.checkpoint.snapshots import snapshots
from millpond.crashpoints import IN_EPOCHS
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from tests.children import in_child
from tests.programs.keyed import Recommender, committed_state, fresh_seed, oracle, random_rows, say
from tests.sizes import compile_once

pytestmark = pytest.mark.slow

ROWS = random_rows(Recommender, 11, 60)
EPOCH_ROWS = 12
WANTED = oracle(Recommender, ROWS)
PARTITIONS = (2, 3)


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 60)


def go_on(folder, partitions):
    """Feed the rows that are not committed yet, as a source with offsets would."""
    simulated = Simulated(compile_once(Recommender), folder, partitions, sinks={"recommend": parquet(folder / "out")})
    while simulated.fed < len(ROWS):
        simulated.epoch(ROWS[simulated.fed : simulated.fed + EPOCH_ROWS])


def check_the_end(folder):
    rows = [row for path in sorted((folder / "out").glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    assert sorted(row["row"] for row in rows) == sorted(WANTED.replies), "a reply twice, or none"
    assert {row["row"]: row["reply"] for row in rows} == WANTED.replies
    assert committed_state(folder / "checkpoint") == WANTED.state


@pytest.mark.parametrize("occurrence", [1, 2])
@pytest.mark.parametrize("point", IN_EPOCHS)
def test_a_process_killed_at_any_point_is_followed_by_one_that_finishes(tmp_path, point, occurrence):
    ended = in_child(lambda: go_on(tmp_path, 2), f"{point}:{occurrence}")
    once = point in ("checkpoint.created", "head.forgotten")
    assert ended == (-signal.SIGKILL if occurrence == 1 or not once else 0)
    go_on(tmp_path, 2)
    check_the_end(tmp_path)
    assert list((tmp_path / "out" / "_staged").iterdir()) == [], "a retry writes the same files, and none is left"


def test_many_kills_in_a_row_on_changing_partitions_lose_nothing(tmp_path):
    seed = fresh_seed()
    rng = random.Random(seed)
    for _ in range(12):
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
