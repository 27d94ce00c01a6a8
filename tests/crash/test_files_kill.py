"""kill -9 at every named point of storage and epochs, once and twice, then a new start (R5, R6)."""

from __future__ import annotations

import os
import signal
import traceback

import pytest

from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.crashpoints import VARIABLE
from millpond.storage.backends.files import FileStorage
from tests.programs.ledger import BATCHES, open_ledger, run_batch, state_after

pytestmark = pytest.mark.slow

POINTS = (
    "checkpoint.created",
    "epoch.offered",
    "epoch.computed",
    "segment.written",
    "manifest.staged",
    "manifest.linked",
    "manifest.committed",
    "publish.started",
    "publish.finished",
)
EVERY_EPOCH = POINTS[1:]


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)


def publish_into(folder):
    """An idempotent sink: stage under a name of one's own, then rename."""

    def publish(manifest):
        for output in manifest.outputs:
            staged = folder / f"staged-{os.getpid()}"
            staged.write_text(f"{output.file.name} {output.rows}")
            staged.rename(folder / output.file.name)

    return publish


def run_all(folder):
    """Offer the batches as Spark does: from the one after its own log, which is written when a call has returned."""
    storage = FileStorage(folder / "checkpoint")
    log = folder / "spark-log"
    done = int(log.read_text()) if log.exists() else -1
    checkpoint = open_ledger(storage)
    for batch in range(done + 1, len(BATCHES)):
        run_batch(checkpoint, storage, batch, publish_into(folder / "sink"))
        (folder / "staged-log").write_text(str(batch))
        (folder / "staged-log").rename(log)


def run_in_child(folder, crash_at):
    """Run in a process of its own; return how it ended, as a negative signal or an exit code."""
    child = os.fork()
    if child == 0:
        os.environ[VARIABLE] = crash_at
        try:
            run_all(folder)
        except BaseException:  # noqa: BLE001 - a child of a test must never return into pytest
            traceback.print_exc()
            os._exit(70)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check_what_is_left(folder):
    """The state is that of a whole number of batches; outputs are published up to it, or all but the last."""
    state = read_state(FileStorage(folder / "checkpoint"))
    manifests = folder / "checkpoint" / "manifests"
    epochs = len(list(manifests.iterdir())) if manifests.exists() else 0
    assert state == state_after(epochs)
    published = {path.name for path in (folder / "sink").iterdir() if not path.name.startswith("staged")}
    all_of = {f"{epoch}-{epoch - 1}" for epoch in range(1, epochs + 1)}
    assert published in (all_of, all_of - {f"{epochs}-{epochs - 1}"})


def check_the_end(folder):
    assert read_state(FileStorage(folder / "checkpoint")) == state_after(len(BATCHES))
    contents = {path.name: path.read_text() for path in (folder / "sink").iterdir() if path.name[0].isdigit()}
    assert contents == {
        f"{batch + 1}-{batch}": f"{batch + 1}-{batch} {len(rows)}" for batch, rows in enumerate(BATCHES)
    }


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sink").mkdir()
    return tmp_path


@pytest.mark.parametrize("occurrence", [1, 2, 3])
@pytest.mark.parametrize("point", POINTS)
def test_a_process_killed_at_a_point_leaves_whole_epochs_and_the_next_one_finishes(folder, point, occurrence):
    ended = run_in_child(folder, f"{point}:{occurrence}")
    reached = point != "checkpoint.created" or occurrence == 1
    assert ended == (-signal.SIGKILL if reached else 0)
    check_what_is_left(folder)
    run_all(folder)
    check_the_end(folder)


@pytest.mark.parametrize("second", EVERY_EPOCH)
@pytest.mark.parametrize("first", ["segment.written", "manifest.linked", "publish.started"])
def test_a_process_killed_during_recovery_leaves_whole_epochs_too(folder, first, second):
    assert run_in_child(folder, f"{first}:2") == -signal.SIGKILL
    check_what_is_left(folder)
    assert run_in_child(folder, f"{second}:1") == -signal.SIGKILL
    check_what_is_left(folder)
    run_all(folder)
    check_the_end(folder)


def test_a_run_that_nobody_kills_comes_to_the_same_end(folder):
    assert run_in_child(folder, "task.started") == 0
    check_the_end(folder)
