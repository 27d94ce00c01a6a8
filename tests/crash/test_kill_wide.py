"""kill -9 at every point and at any moment, again and again, on every storage in plain files (R5, R6)."""

from __future__ import annotations

import itertools
import os
import random
import signal
import traceback

import pytest

from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.clock import SystemClock
from millpond.crashpoints import VARIABLE
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.log.log import LogStorage
from millpond.storage.backends.perkey import PerKeyStorage
from tests.programs.keyed import fresh_seed
from tests.programs.ledger import BATCHES, open_ledger, run_batch, state_after

BACKENDS = {
    "files": FileStorage,
    "perkey": PerKeyStorage,
    "log": lambda root: LogStorage(root, file_bytes_max=900, index_records_min=3),
}
POINTS = (
    *("checkpoint.created", "epoch.offered", "epoch.computed", "segment.written", "snapshot.chunk", "snapshot.merged"),
    *("manifest.staged", "manifest.linked", "manifest.committed", "publish.started", "publish.finished"),
)
ONCE = {"checkpoint.created"}


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)


def run_all(backend, folder):
    storage = BACKENDS[backend](folder / "checkpoint")
    checkpoint = open_ledger(storage)
    for batch in range(max(checkpoint.epoch - 1, 0), len(BATCHES)):
        run_batch(checkpoint, storage, batch, lambda manifest: None)


def start_child(backend, folder, crash_at=""):
    child = os.fork()
    if child == 0:
        os.environ[VARIABLE] = crash_at
        try:
            run_all(backend, folder)
        except BaseException:  # noqa: BLE001 - a child of a test must never return into pytest
            traceback.print_exc()
            os._exit(70)
        os._exit(0)
    return child


def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def epochs_left(backend, folder):
    """How many epochs are there; what they hold must be what they held."""
    storage = BACKENDS[backend](folder / "checkpoint")
    epochs = len(storage.list("manifests"))
    assert read_state(storage) == state_after(epochs)
    return epochs


def kill_at(backend, folder, *chain):
    """One process after the other, each killed at its point, then one that nobody kills."""
    before = 0
    for point in chain:
        assert ended(start_child(backend, folder, point)) in {-signal.SIGKILL, 0}
        after = epochs_left(backend, folder)
        assert after >= before, "a committed epoch is gone"
        before = after
    assert ended(start_child(backend, folder)) == 0
    assert epochs_left(backend, folder) == len(BATCHES)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_process_killed_at_some_points_is_followed_by_one_that_finishes(tmp_path, backend):
    for point in POINTS[::4]:
        (tmp_path / point).mkdir()
        kill_at(backend, tmp_path / point, f"{point}:1")


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("occurrence", [1, 2, 3])
def test_a_process_killed_at_any_point_is_followed_by_one_that_finishes(tmp_path, backend, occurrence):
    for point in POINTS:
        folder = tmp_path / point
        folder.mkdir()
        times = 1 if point.startswith("snapshot.") else occurrence
        killed = ended(start_child(backend, folder, f"{point}:{times}"))
        assert killed == (0 if point in ONCE and occurrence > 1 else -signal.SIGKILL), point
        kill_at(backend, folder)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_processes_killed_in_recovery_one_after_the_other_lose_nothing(tmp_path, backend):
    points = POINTS[1:]
    rng = random.Random(f"{backend} 1")
    for number in range(15):
        folder = tmp_path / str(number)
        folder.mkdir()
        chain = [f"{rng.choice(points)}:{rng.randrange(1, 3)}" for _ in range(rng.choice((2, 3)))]
        kill_at(backend, folder, *chain)


@pytest.mark.campaign
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_pair_of_points_in_a_row_loses_nothing(tmp_path, backend):
    for number, pair in enumerate(itertools.product(POINTS, repeat=2)):
        folder = tmp_path / str(number)
        folder.mkdir()
        kill_at(backend, folder, *(f"{point}:1" for point in pair), f"{pair[0]}:2")


def kill_at_random(backend, folder, kills):
    """Kill by the clock: whatever the process is doing, also in code that is not ours."""
    clock = SystemClock()
    rng = random.Random(fresh_seed())
    begun = clock.ticks()
    assert ended(start_child(backend, folder / "timed")) == 0
    usual = clock.ticks() - begun
    left = kills
    for number in itertools.count():
        place = folder / str(number)
        place.mkdir()
        before = 0
        while left:
            child = start_child(backend, place)
            clock.sleep(rng.random() * usual)
            os.kill(child, signal.SIGKILL)
            left -= 1
            finished = ended(child) == 0
            after = epochs_left(backend, place)
            assert after >= before
            before = after
            if finished:
                break
        kill_at(backend, place)
        if not left:
            return


@pytest.mark.campaign
@pytest.mark.parametrize("backend", BACKENDS)
def test_processes_killed_at_any_moment_lose_nothing(tmp_path, backend):
    (tmp_path / "timed").mkdir()
    kill_at_random(backend, tmp_path, 750)
