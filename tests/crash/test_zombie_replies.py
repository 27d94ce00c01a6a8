"""A driver that was overtaken computes an epoch that is committed and published: what it stages must harm nobody."""

from __future__ import annotations

import contextlib

import pytest

from millpond import parquet
from millpond.engine.simulated import Simulated
from millpond.engine.task import delivery
from millpond.errors import MillpondError
from tests.programs.keyed import Store, committed_state, oracle, random_rows
from tests.sizes import compile_once

ROWS = random_rows(Store, 3, 40)
WANTED = oracle(Store, ROWS)


class ZombieDiedError(BaseException):
    """The process of the zombie ends here."""


def overtaken(folder, sinks, dies_after, monkeypatch):
    """Two drivers start; one commits and publishes, then the other stages so many files of the same epoch, and dies."""
    compiled = compile_once(Store)
    zombie = Simulated(compiled, folder, 2, sinks=sinks)
    driver = Simulated(compiled, folder, 2, sinks=sinks)
    driver.epoch(ROWS[:30])
    staged = []
    real = delivery.stage

    def stage(*args):
        if len(staged) == dies_after:
            raise ZombieDiedError
        staged.append(args)
        return real(*args)

    monkeypatch.setattr(delivery, "stage", stage)
    with contextlib.suppress(ZombieDiedError, MillpondError):
        zombie.epoch(ROWS[:30])
    monkeypatch.undo()
    return driver


@pytest.mark.parametrize("dies_after", [0, 99])
def test_a_zombie_that_stages_nothing_or_all_of_an_epoch_again_is_harmless(tmp_path, monkeypatch, dies_after):
    driver = overtaken(tmp_path, {}, dies_after, monkeypatch)
    Simulated(compile_once(Store), tmp_path, 2).epoch(ROWS[30:])
    assert committed_state(tmp_path / "checkpoint") == WANTED.state
    assert driver.replies() == {number: reply for number, reply in WANTED.replies.items() if number < 30}


def test_a_zombie_that_stages_a_part_of_an_epoch_again_is_harmless(tmp_path, monkeypatch):
    overtaken(tmp_path, {}, 1, monkeypatch)
    Simulated(compile_once(Store), tmp_path, 2).epoch(ROWS[30:])
    assert committed_state(tmp_path / "checkpoint") == WANTED.state


@pytest.mark.parametrize("dies_after", [0, 1, 99])
def test_published_files_stay_as_they_are_whatever_a_zombie_stages(tmp_path, monkeypatch, dies_after):
    sinks = {name: parquet(tmp_path / "out" / name) for name in ("get", "delete")}
    overtaken(tmp_path, sinks, dies_after, monkeypatch)
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.parquet") if "_staged" not in path.parts}
    Simulated(compile_once(Store), tmp_path, 2, sinks=sinks).epoch(ROWS[30:])
    assert before
    assert {path: path.read_bytes() for path in before} == before
    assert committed_state(tmp_path / "checkpoint") == WANTED.state
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file() and "_staged" in path.parts] == []
