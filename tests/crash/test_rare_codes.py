"""Errors that hardly anybody meets, each by its code."""

from __future__ import annotations

import os

import pytest

from millpond import Map, Partitioned, Program, Tuning, entry
from millpond.engine.simulated import Simulated
from millpond.errors import FeedError, RowError, StateError
from millpond.state.local.localstore import LocalStore
from tests.sizes import compile_once


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give a folder away")
def test_a_local_store_of_somebody_else_is_refused(tmp_path):
    (tmp_path / "store").mkdir()
    os.chown(tmp_path / "store", 12345, -1)
    with pytest.raises(StateError) as caught:
        LocalStore(tmp_path / "store")
    assert caught.value.code == "MP223"


class Liar(Program):
    held = Partitioned(Map[int, int])

    @entry
    def ask(self, key: int) -> int:
        self.held[key] = 1
        return "no number"


def test_a_reply_that_is_not_of_its_type_fails_and_commits_nothing(tmp_path):
    run = Simulated(compile_once(Liar), tmp_path, 2)
    with pytest.raises(RowError) as caught:
        run.epoch([("ask", (1,))])
    assert caught.value.code == "MP604"
    assert run.storage.list("manifests") == []


@pytest.mark.parametrize("steps", [0, -1, True, 1.5, "2", None])
def test_a_number_of_steps_that_is_none_is_refused(steps):
    with pytest.raises(FeedError) as caught:
        Tuning(steps=steps)
    assert caught.value.code == "MP519"


@pytest.mark.parametrize("memory_mb", [0, -1, True, 1.5, "2"])
def test_memory_that_is_no_number_of_megabytes_is_refused(memory_mb):
    with pytest.raises(FeedError) as caught:
        Tuning(memory_mb=memory_mb)
    assert caught.value.code == "MP525"
