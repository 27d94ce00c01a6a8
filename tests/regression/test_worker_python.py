"""The Python of the workers is the driver's, and all of them walk sets alike; or the error says what to set."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.sizes import thinned

SCRIPT = Path(__file__).with_name("walks_sets.py")
pytestmark = [pytest.mark.spark, pytest.mark.slow]


def told(*words: str, **environ: str) -> list[str]:
    """What the job tells in a process of its own; an empty variable is not set at all."""
    given = os.environ | {"PYTHONPATH": "", "PYSPARK_PYTHON": sys.executable} | environ
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        cwd=tempfile.gettempdir(),
        env={name: value for name, value in given.items() if value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_the_order_of_a_set_is_the_same_whatever_the_drivers_hash_seed_and_whose_session_it_is():
    one, other = told("--session", "own", PYTHONHASHSEED=""), told("--session", "ours", PYTHONHASHSEED="7")
    assert len(one) == 12
    assert one == other


@pytest.mark.campaign
@pytest.mark.parametrize("seed", ["1", "2", "4294967295"])
def test_any_hash_seed_of_the_driver_gives_the_same(seed):
    assert told("--session", "ours", PYTHONHASHSEED=seed) == told("--session", "ours", PYTHONHASHSEED="0")


@pytest.mark.parametrize("seed", thinned(["random", "7"], 2))
def test_workers_with_another_hash_seed_are_refused(seed):
    code, summary, found, hint = told("--session", "own", PYTHONHASHSEED=seed)
    assert code == "MP704"
    assert "hash seed" in summary
    assert found == f"found PYTHONHASHSEED={seed}"
    assert "PYTHONHASHSEED=0" in hint


@pytest.fixture
def elsewhere(tmp_path):
    """A path on which `python3` is a Python without Millpond, as in an environment that is not activated."""
    (tmp_path / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    (tmp_path / "python3").chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


@pytest.mark.parametrize("conf", ["", f"spark.submit.pyFiles={SCRIPT}"], ids=["at the start", "by the workers"])
def test_a_python_without_millpond_is_told_with_what_to_set(elsewhere, conf):
    code, summary, found, hint = told("--session", "own", "--conf", conf, PATH=elsewhere, PYSPARK_PYTHON="")
    assert code == "MP703"
    assert "can't import `millpond`" in summary
    assert "python3" in found or conf
    assert f"PYSPARK_PYTHON={sys.executable}" in hint
