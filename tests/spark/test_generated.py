"""Generated programs on real Spark give what plain Python gives: replies and state."""

from __future__ import annotations

import shutil

import pytest

from millpond import Tuning
from millpond.checkpoint.recovery import read_state
from millpond.errors import ProgramError
from millpond.keygroups import Layout
from millpond.spark.job import Job
from millpond.storage.backends.files import FileStorage
from tests.fuzz.campaign import case_of
from tests.fuzz.grammar import Knobs
from tests.fuzz.loading import loaded
from tests.fuzz.oracle import call, committed_state, expect, plain_state
from tests.sizes import compile_once
from tests.spark.feeding import feed_all, replies_in, tables, write_parts

SEED = 20261116
BATCHES = 10
PROGRAMS_PER_BATCH = 12
KEY_GROUPS, INSTANCES = 16, 4
EXACT = Knobs(relaxed=0.0)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_generated_programs_equal_plain_python(spark, tmp_path, batch):
    ran = 0
    for number in range(batch * PROGRAMS_PER_BATCH, (batch + 1) * PROGRAMS_PER_BATCH):
        folder = tmp_path / str(number)
        ran += runs_equal(spark, folder, number)
        shutil.rmtree(folder, ignore_errors=True)
    assert ran >= PROGRAMS_PER_BATCH * 2 // 3


def runs_equal(spark, folder, number):
    """Compare one program of the campaign; False if the compiler refuses it."""
    case = case_of(SEED, number, EXACT)
    with loaded(case.text) as program:
        try:
            compiled = compile_once(program)
        except ProgramError:
            return False
        expected = expect(program, case.rows)
        if not expected.rows:
            return False
        write_parts(folder / "in", program, expected.rows, 1)
        job = Job(
            program,
            spark,
            checkpoint=folder / "ck",
            partitions=1 + number % 3,
            tuning=Tuning(key_groups=KEY_GROUPS, instances=INSTANCES),
            local_root=folder / "local",
            progress=False,
        )
        feed_all(job, program, tables(spark, program, folder / "in"), folder / "out").run()
        replies = {at: repr(reply) for at, reply in replies_in(folder / "out").items()}
        assert replies == expected.replies, case.text
        plain, points = program(), program.entries()
        for row in expected.rows:
            call(plain, points, row)
        layout = Layout(KEY_GROUPS, 1, INSTANCES, compiled.has_partial)
        held = read_state(FileStorage(folder / "ck"))
        assert committed_state(program.elements(), held) == plain_state(plain, layout), case.text
    return True
