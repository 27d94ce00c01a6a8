"""A job handed to a standalone cluster by spark-submit, as docs/deploy.md tells it, equals plain Python."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.spark.feeding import replies_in, write_parts
from tests.spark.listening import LOOPBACK, addresses
from tests.spark.programs import Recommender, committed_state, fresh_seed, oracle, random_rows, say
from tests.spark.standalone import standalone

HERE = Path(__file__).parent
DEPLOY = HERE.parents[1] / "docs" / "deploy.md"
WORKERS, PARTS = 2, 3


def documented_settings():
    """The settings of the page's first spark-submit, less those that are about another machine."""
    block = re.search(r"```\n(pip install millpond.*?)```", DEPLOY.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    found = dict(re.findall(r"--conf (\S+?)=(\S+)", block[1]))
    assert "--master spark://" in block[1]
    assert found.keys() == {"spark.pyspark.python", "spark.locality.wait.process", "spark.sql.shuffle.partitions"}
    del found["spark.pyspark.python"]
    return found


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_a_submitted_job_equals_plain_python_and_uses_all_workers(tmp_path):
    rows = random_rows(Recommender, fresh_seed(), 90)
    wanted = oracle(Recommender, rows)
    write_parts(tmp_path / "in", Recommender, rows, PARTS)
    conf = documented_settings() | {"spark.sql.shuffle.partitions": "4"}
    with standalone(tmp_path / "cluster", WORKERS) as cluster:
        done = cluster.submit(HERE / "submitted_job.py", str(tmp_path), conf=conf)
        say(done.stderr[-4000:])
        assert done.returncode == 0
        assert cluster.log("master").count("Registering app submitted") == 1
        assert addresses(cluster.processes()) <= LOOPBACK
    assert replies_in(tmp_path / "out") == wanted.replies
    assert committed_state(tmp_path / "ck") == wanted.state
    epochs = json.loads((tmp_path / "epochs").read_text())
    assert len(epochs) == PARTS
    assert epochs[-1]["executors"] == WORKERS
    assert epochs[-1]["local_hits"] == 4, "partitions did not stay where their state is"
