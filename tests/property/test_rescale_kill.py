"""kill -9 at every point of a rescale, then a new start: the number is the old one or the new one, and all is whole."""

from __future__ import annotations

import random
import signal

import pyarrow.parquet as pq
import pytest

from millpond import parquet
from millpond.checkpoint.recovery import last_manifest, read_genesis
from millpond.checkpoint.snapshots import snapshots
from millpond.checkpoint.upkeep import rescale
from millpond.engine.simulated import Simulated
from millpond.storage.backends.files import FileStorage
from tests.children import in_child
from tests.programs.keyed import committed_state, fresh_seed, say
from tests.property.rescaled import COMPILED, KEY_GROUPS, random_rows

pytestmark = pytest.mark.slow

POINTS = (
    "epoch.offered",
    "delta.written",
    "epoch.computed",
    "segment.written",
    "manifest.staged",
    "manifest.linked",
    "manifest.committed",
    "publish.started",
    "publish.finished",
)
EPOCH_ROWS = 12
SCHEDULE = (4, 9, 2, 4)
"""How many instances there are at each epoch: more, fewer, and as many as in the genesis."""

ALL = EPOCH_ROWS * len(SCHEDULE)
ROWS = random_rows(8, ALL)


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
    monkeypatch.setattr(rescale, "CHUNK_BYTES", 300)


def fed_rows(folder):
    """How many rows are committed, read without opening the checkpoint for work."""
    storage = FileStorage(folder / "checkpoint")
    genesis = read_genesis(storage)
    head = None if genesis is None else last_manifest(storage, genesis[1])
    return 0 if head is None else sum(n for name, n in head[0].counters.items() if name.startswith("total.fed."))


def go_on(folder, until):
    """Feed the rows that are not committed yet, each epoch with the number of instances that belongs to it.

    The last start feeds nothing, and publishes what a killed one may have committed and left.
    """
    fed = 0
    while fed < until:
        fed = fed_rows(folder)
        sinks = {name: parquet(folder / name) for name in COMPILED.entries}
        instances = SCHEDULE[min(fed, until - 1) // EPOCH_ROWS]
        simulated = Simulated(COMPILED, folder, 2, KEY_GROUPS, instances, sinks=sinks)
        if fed < until:
            simulated.epoch(ROWS[fed : fed + EPOCH_ROWS])


def told(folder):
    """All replies that are out, by row."""
    paths = [path for name in COMPILED.entries for path in sorted((folder / name).glob("*.parquet"))]
    rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
    assert len({row["row"] for row in rows}) == len(rows), "a reply twice"
    return {row["row"]: row["reply"] for row in rows}


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    assert in_child(lambda: go_on(folder, ALL)) == 0
    return committed_state(folder / "checkpoint"), told(folder)


@pytest.mark.parametrize(
    "occurrence", [1, 2, *(pytest.param(later, marks=pytest.mark.campaign) for later in (3, 4, 5))]
)
@pytest.mark.parametrize("point", POINTS)
def test_a_rescale_killed_at_any_point_is_followed_by_a_start_that_finishes(tmp_path, wanted, point, occurrence):
    assert in_child(lambda: go_on(tmp_path, EPOCH_ROWS)) == 0
    before = committed_state(tmp_path / "checkpoint")
    assert in_child(lambda: go_on(tmp_path, ALL), f"{point}:{occurrence}") == -signal.SIGKILL
    storage = FileStorage(tmp_path / "checkpoint")
    head, _ = last_manifest(storage, read_genesis(storage)[1])
    assert (head.epoch == 1) == (committed_state(tmp_path / "checkpoint") == before)
    assert head.epoch > 1 or head.instances is None
    assert in_child(lambda: go_on(tmp_path, ALL)) == 0
    assert (committed_state(tmp_path / "checkpoint"), told(tmp_path)) == wanted


def test_many_kills_in_a_row_lose_nothing(tmp_path, wanted):
    rng = random.Random(fresh_seed())
    for _ in range(12):
        crash_at = f"{rng.choice(POINTS)}:{rng.randrange(1, 5)}"
        say(crash_at)
        assert in_child(lambda: go_on(tmp_path, ALL), crash_at) in (-signal.SIGKILL, 0)
    assert in_child(lambda: go_on(tmp_path, ALL)) == 0
    assert (committed_state(tmp_path / "checkpoint"), told(tmp_path)) == wanted
