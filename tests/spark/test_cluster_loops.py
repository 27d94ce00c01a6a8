"""Loops and windows on separate executors, with everything dying under them (R16, R8): nothing is lost or repeated."""

from __future__ import annotations

import json
import random
from datetime import timedelta

import pyarrow as pa
import pytest

from millpond.compiler.compile import compile_program
from millpond.engine.sequential import Sequential
from millpond.engine.time.eventtime import FeedTime
from millpond.program.semantics.epoch_time import moment_of
from millpond.storage.backends.files import FileStorage
from tests.programs.keyed import committed_state, fresh_seed
from tests.programs.timed import SECOND, START
from tests.programs.timed import committed_state as state_by_element
from tests.programs.windowed import Corrected, Watched
from tests.spark.cluster_job import DISORDER, LATENESS
from tests.spark.continued_job import STEPS, Walks
from tests.spark.feeding import replies_in, visible, write_part, write_parts
from tests.spark.test_cluster import THREE, suffer

EVENTS = 1_500_000_000 * SECOND
HOPS = 9


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_a_loop_that_takes_several_epochs_ends_as_the_reference_interpreter_does(tmp_path, record_property):
    seed = fresh_seed()
    chance = random.Random(seed)
    parts, size = 24, 20
    rows = [("walk", (chance.randrange(23), chance.randrange(HOPS))) for _ in range(parts * size)]
    write_parts(tmp_path / "in", Walks, rows, parts)
    (tmp_path / "options").write_text(json.dumps({"program": "Walks", "tuning": {"retries": 20, "steps": STEPS}}))
    # A part leaves messages, and takes several epochs.
    suffer(tmp_path, THREE, "a loop", 3 * parts, seed, record_property)
    reference = Sequential(compile_program(Walks))
    wanted = [reply for at in range(0, len(rows), size) for reply in reference.epoch(rows[at : at + size])]
    assert replies_in(tmp_path / "out") == dict(enumerate(wanted))
    assert committed_state(tmp_path / "ck") == reference.state()


def rows_out_of_order(seed, parts):
    """Rows that happened up to 8 s before those of the part before: some are late, and some later than is allowed."""
    chance = random.Random(seed)
    return [
        [(chance.choice("abcdefgh"), chance.randrange(9), EVENTS + (part * 5 + at) * SECOND) for at in moments]
        for part, moments in enumerate([chance.randrange(-8, 5) for _ in range(40)] for _ in range(parts))
    ]


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_windows_that_late_rows_correct_are_told_once_each_and_as_plain_python_tells_them(tmp_path, record_property):
    seed = fresh_seed()
    parts = 40
    told = rows_out_of_order(seed, parts)
    for part, rows in enumerate(told):
        keys, numbers, moments = zip(*rows, strict=True)
        times = pa.array([moment_of(us) for us in moments])
        table = pa.table({"place": range(len(rows)), "key": keys, "n": numbers, "ts": times})
        write_part(tmp_path / "in" / "read", part, table)
    (tmp_path / "options").write_text(json.dumps({"program": "Corrected"}))
    suffer(tmp_path, THREE, "windows", 2 * parts, seed, record_property)
    feed = FeedTime(*(span // timedelta(microseconds=1) for span in (DISORDER, LATENESS)), None)
    plain = Watched(Corrected, {"read": feed}, late=False)
    for part, rows in enumerate([*told, []]):
        called = [("read", (key, n)) for key, n, _ in rows]
        # Event time is closed by an epoch without rows.
        plain.epoch(START + part, called, [us for _, _, us in rows], ends=part == parts)
    said = [row["reply"] for row in visible(tmp_path / "out" / "spans")]
    assert sorted(said) == sorted(reply for _, reply in plain.fired)
    assert any("True" in reply for reply in said), "no late row corrected a window"
    assert state_by_element(Corrected, FileStorage(tmp_path / "ck")) == plain.state()
