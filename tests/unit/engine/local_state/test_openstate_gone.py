"""The stores of partitions that went with a scale-in go, too; the state stays what it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from millpond import Counter, Partitioned, Program, entry
from millpond.engine.local_state import openstate
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.state.local.localstore import LocalStore
from tests.programs.keyed import committed_state
from tests.sizes import compile_once

KEY_GROUPS = 8
EVERY = 4


class Counts(Program):
    counts = Partitioned(Counter[int])

    @entry
    def add(self, key: int) -> int:
        self.counts[key] += 1
        return self.counts[key]


def stores(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("local-*/*/*") if path.is_dir())


def open_stores(folder: Path) -> set[str]:
    return {Path(place).name for _, place in LocalStore._open if Path(place).is_relative_to(folder)}


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(openstate, "OLD_EPOCHS_MAX", EVERY)


def run(simulated, sequential, epochs):
    for _ in range(epochs):
        rows = [("add", (key,)) for key in range(40)]
        sequential.epoch(rows)
        simulated.epoch(rows)


@pytest.mark.usefixtures("often")
def test_stores_of_partitions_that_are_no_more_are_removed_and_closed(tmp_path):
    compiled = compile_once(Counts)
    sequential = Sequential(compiled, KEY_GROUPS, 1)
    simulated = Simulated(compiled, tmp_path, 4, KEY_GROUPS, 1)
    run(simulated, sequential, EVERY + 1)
    assert stores(tmp_path) == ["00000", "00001", "00002", "00003"], "nobody goes"
    simulated.assign([0, 0, 0, 0, 1, 1, 1, 1], 2)
    run(simulated, sequential, 1)
    assert stores(tmp_path) == ["00000", "00001", "00002", "00003"], "they may soon be wanted"
    run(simulated, sequential, EVERY)
    assert stores(tmp_path) == ["00000", "00001"]
    assert open_stores(tmp_path) == {"00000", "00001"}
    assert committed_state(tmp_path / "checkpoint") == sequential.state()
    # They come back, with all that belongs to them.
    simulated.assign([0, 0, 2, 2, 1, 1, 3, 3], 4)
    run(simulated, sequential, 2)
    assert stores(tmp_path) == ["00000", "00001", "00002", "00003"]
    assert committed_state(tmp_path / "checkpoint") == sequential.state()


@pytest.mark.usefixtures("often")
def test_a_number_that_goes_up_and_down_leaves_no_more_stores_than_there_are_partitions(tmp_path):
    compiled = compile_once(Counts)
    sequential = Sequential(compiled, KEY_GROUPS, 1)
    simulated = Simulated(compiled, tmp_path, 1, KEY_GROUPS, 1)
    for partitions in (8, 3, 5, 1):
        simulated.assign([group * partitions // KEY_GROUPS for group in range(KEY_GROUPS)], partitions)
        run(simulated, sequential, EVERY)
        assert len(stores(tmp_path)) == partitions
    assert committed_state(tmp_path / "checkpoint") == sequential.state()


@pytest.mark.usefixtures("often")
def test_what_somebody_else_removed_is_let_go(tmp_path):
    compiled = compile_once(Counts)
    simulated = Simulated(compiled, tmp_path, 2, KEY_GROUPS, 1)
    run(simulated, Sequential(compiled, KEY_GROUPS, 1), 1)
    assert open_stores(tmp_path) == {"00000", "00001"}
    simulated.assign([0] * KEY_GROUPS, 1)
    (gone,) = tmp_path.glob("local-*/*/00001")
    for path in gone.iterdir():
        path.unlink()
    gone.rmdir()
    run(simulated, Sequential(compiled, KEY_GROUPS, 1), 1)
    assert open_stores(tmp_path) == {"00000"}
