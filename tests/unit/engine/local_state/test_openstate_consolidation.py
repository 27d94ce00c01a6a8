"""The head start after a commit: stores are brought to it, and nothing depends on that."""

from __future__ import annotations

import shutil
from pathlib import Path
from unittest.mock import patch

import pytest

from millpond.checkpoint.recovery import read_state
from millpond.engine.local_state import openstate
from millpond.engine.local_state.openstate import Consolidation, store_path
from millpond.keygroups import Layout
from millpond.state.local.localstore import LocalStore
from tests.unit.engine.local_state.test_openstate import LAYOUT, Job


@pytest.fixture
def job(tmp_path):
    made = Job(tmp_path / "checkpoint", tmp_path / "local")
    yield made
    LocalStore.close_below(tmp_path)


def consolidate(job, layout=LAYOUT):
    made = Consolidation(job.storage, job.local)
    made.start(job.checkpoint.parent, layout)
    made.wait()
    return made


def stamps(job):
    views = []
    for partition in range(LAYOUT.partitions):
        with LocalStore.at(store_path(job.local, job.checkpoint.parent.uuid, partition)).view() as view:
            views.append(view.stamp and view.stamp.epoch)
    return views


def test_stores_that_are_behind_are_brought_to_the_commit_and_its_time_is_told_once(job):
    job.run(["a", "b"])
    job.run(["c"])
    assert stamps(job) == [1, 1, 1]
    made = consolidate(job)
    assert stamps(job) == [2, 2, 2]
    assert made.take_seconds() > 0
    assert made.take_seconds() is None
    with patch.object(LocalStore, "advance", side_effect=AssertionError), patch.object(LocalStore, "rebuild"):
        assert job.opened() == read_state(job.storage)


def test_stores_that_are_not_there_or_must_be_rebuilt_are_left_to_the_tasks_that_need_them(job):
    job.run(["a"])
    shutil.rmtree(job.local)
    assert consolidate(job).take_seconds() is None
    assert not Path(job.local).exists()
    consolidate(job, Layout(8, 8, 4, aligned=True))
    assert job.opened() == read_state(job.storage)
    assert consolidate(job).take_seconds() is None, "nothing to do"


def test_what_goes_wrong_is_left_to_the_next_task(job):
    job.run(["a", "b", "c"])
    job.run(["d"])
    (delta,) = (Path(job.storage.url) / job.checkpoint.head.deltas[-1].files[0].file.name,)
    whole = delta.read_bytes()
    delta.write_bytes(b"damaged")
    assert consolidate(job).take_seconds() is None or len(set(stamps(job))) > 1
    delta.write_bytes(whole)
    assert job.opened() == read_state(job.storage)


def test_tasks_that_open_their_state_at_the_same_time_get_what_they_asked_for(job):
    words = [[chr(97 + (number * 7 + at) % 26) for at in range(5)] for number in range(30)]
    made = Consolidation(job.storage, job.local)
    for some in words:
        job.run(some)
        made.start(job.checkpoint.parent, LAYOUT)
        # In this process the thread and the task share a store, which tasks of Spark never do.
        made.wait()
        assert job.opened() == read_state(job.storage)
    made.close()


def test_the_end_waits_for_what_is_under_way_and_closes_the_stores(job, monkeypatch):
    job.run(["a"])
    job.run(["b"])
    seen = []
    caught_up = openstate.catch_up
    monkeypatch.setattr(openstate, "catch_up", lambda *args: (seen.append(args[-1]), caught_up(*args))[1])
    made = Consolidation(job.storage, job.local)
    made.start(job.checkpoint.parent, LAYOUT)
    made.close()
    assert seen == [0, 1, 2][: len(seen)], "what was not begun is left"
    assert not [place for _, place in LocalStore._open if place.startswith(job.local)]
