"""Bounded loss under kills and lost machines in a row: what is gone is never more than what manifests say is gone."""

from __future__ import annotations

import random
import shutil
import signal
from datetime import timedelta
from functools import partial

import msgspec
import pytest

from millpond import BoundedLoss, Counter, Keep, Partitioned, Program, entry
from millpond.checkpoint.read.verify import verify
from millpond.checkpoint.records.manifest import decode_manifest
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from millpond.state.local.storekey import element_of
from millpond.storage.backends.files import FileStorage
from millpond.storage.composed.unsynced import UnsyncedStorage
from tests.children import in_child
from tests.programs.keyed import fresh_seed, oracle, say
from tests.sizes import compile_once

EPOCH_ROWS = 8

POINTS = (
    "delta.written",
    "segment.written",
    "manifest.linked",
    "manifest.committed",
    "task.finished",
    "store.advanced",
    "save.written",
    "unsynced.kept",
    "snapshot.merged",
)


class Visits(Program):
    """Every visit counts once in an element that is exact, and once in one with bounded loss."""

    exact = Partitioned(Counter[str])
    hits = Partitioned(Counter[str], durability=BoundedLoss(events=4, within=timedelta(seconds=1_000_000)))

    @entry
    def visit(self, page: str) -> None:
        self.exact[page] += 1
        self.hits[page] += 1


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 60)
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 5)


def run_on(folder, partitions, rows):
    """Feed what is not committed yet."""
    run = Simulated(compile_once(Visits), folder, partitions, keep=Keep.all())
    while run.fed < len(rows):
        run.epoch(rows[run.fed : run.fed + EPOCH_ROWS])
    return run


def lose(folder, rng):
    """All that was near, or some of it, torn; local stores may stay, and know more than the checkpoint does."""
    if rng.random() < 0.5:
        shutil.rmtree(folder / "near", ignore_errors=True)
    for path in sorted((folder / "near").rglob("*")):
        if path.is_file() and rng.random() < 0.3:
            path.chmod(0o600)
            path.write_bytes(path.read_bytes()[: rng.randrange(30)])
    for local in sorted(folder.glob("local-*")):
        if rng.random() < 0.5:
            shutil.rmtree(local)


def counts(state, element):
    return {key[1:]: msgspec.msgpack.decode(value) for key, value in state.items() if element_of(key) == element}


def told(folder):
    """The updates that manifests say are lost at most, over the life of the checkpoint."""
    kept = FileStorage(folder / "checkpoint")
    own = [decode_manifest(kept.get(name), name).deltas[-1] for name in kept.list("manifests")]
    return sum(delta.loss.updates for delta in own if delta.loss is not None)


@pytest.mark.parametrize("deaths", [4, pytest.param(25, marks=pytest.mark.slow)])
def test_no_loss_is_silent_and_what_is_exact_stays_so(tmp_path, deaths):
    rng = random.Random(fresh_seed())
    rows = [("visit", (f"p{rng.randrange(9)}",)) for _ in range(40 * deaths)]
    for number in range(deaths):
        crash_at = f"{rng.choice(POINTS)}:{rng.randrange(1, 5)}"
        say(crash_at)
        fed = partial(run_on, tmp_path, rng.choice((1, 2)), rows[: 40 * (number + 1)])
        ended = in_child(fed, crash_at)
        assert ended in (-signal.SIGKILL, 0)
        if rng.random() < 0.6:
            lose(tmp_path, rng)
    run_on(tmp_path, 2, rows)
    kept = FileStorage(tmp_path / "checkpoint")
    assert verify(kept, everything=True).problems == []
    state = read_state(UnsyncedStorage(kept, tmp_path / "near"))
    wanted = oracle(Visits, rows).state
    assert counts(state, 0) == counts(wanted, 0)
    found, true = counts(state, 1), counts(wanted, 1)
    assert all(found.get(page, 0) <= visits for page, visits in true.items())
    gone = sum(true.values()) - sum(found.values())
    say("gone", gone, "told", told(tmp_path))
    assert gone <= told(tmp_path)
