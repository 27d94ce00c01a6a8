"""The check of the benchmark of snapshots sees a wrong state."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import committed, snapshots
from benchmarks.report import BenchmarkError
from benchmarks.snapshots import Data, Store, Way, check_state, snapshots_taken
from millpond.checkpoint.snapshots import background
from millpond.checkpoint.snapshots import snapshots as due
from millpond.compiler.compile import compile_program
from millpond.engine.simulated import Simulated


@pytest.fixture
def filled(tmp_path):
    """A checkpoint of three keys whose second has been written twice."""
    data = Data(5)
    run = Simulated(compile_program(Store), tmp_path)
    run.epoch([("put", (key, data.value(key, 0))) for key in range(3)])
    run.epoch([("put", (1, data.value(1, 1)))])
    return tmp_path / "checkpoint", data


@pytest.mark.parametrize("piece_bytes", [committed.PIECE_BYTES, 3000, 1])
def test_the_right_state_passes(filled, monkeypatch, piece_bytes):
    monkeypatch.setattr(committed, "PIECE_BYTES", piece_bytes)
    checkpoint, data = filled
    check_state(checkpoint, data, np.array([0, 1, 0]))


@pytest.mark.parametrize("versions", [[0, 0, 0], [0, 1, 0, 0], [1, 1, 0]])
def test_another_state_does_not(filled, versions):
    checkpoint, data = filled
    with pytest.raises(BenchmarkError):
        check_state(checkpoint, data, np.array(versions))


def test_a_missing_checkpoint_does_not(tmp_path):
    with pytest.raises(BenchmarkError, match="no checkpoint"):
        check_state(tmp_path, Data(5), np.array([0]))


def test_the_ways_differ_in_when_and_where_a_snapshot_is_made():
    def now():
        return due.DELTA_EPOCHS_MAX, due.DELTA_BYTES_MIN, background.AT_ONCE_BYTES

    def seen(every):
        found = {}
        for way in Way:
            with snapshots_taken(way, every):
                found[way] = now()
        return found

    before, never = now(), snapshots.NEVER
    none = {Way.NONE: (never, never, 0)}
    assert seen(7) == none | {Way.BACKGROUND: (7, never, 0), Way.SYNCHRONOUS: (7, never, never)}
    usual = before[:2]
    assert seen(None) == none | {Way.BACKGROUND: (*usual, 0), Way.SYNCHRONOUS: (*usual, never)}
    assert before == now()


def test_what_a_checkpoint_holds_is_measured_by_its_files(filled):
    checkpoint, _ = filled
    files = [path for path in checkpoint.rglob("*") if path.is_file() and path.parent.name in snapshots.KINDS_OF_FILES]
    assert snapshots.stored_bytes(checkpoint) == sum(path.stat().st_size for path in files) > 2_000
