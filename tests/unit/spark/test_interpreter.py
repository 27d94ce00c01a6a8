from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from millpond.errors import SetupError
from millpond.spark.interpreter import check_interpreter, worker_refusal

ROOT = Path(__file__).parents[3]


class Session:
    """As much of a session as is asked."""

    def __init__(self, **settings: str) -> None:
        self.conf = self
        self.get = settings.get


@pytest.fixture
def bare(tmp_path):
    """A Python without packages, elsewhere."""
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return python


def test_the_drivers_own_python_is_fine(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    check_interpreter(Session())


def test_another_python_with_millpond_is_fine(monkeypatch, tmp_path):
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    check_interpreter(Session())


def test_a_python_without_millpond_is_refused(monkeypatch, bare):
    monkeypatch.setenv("PYSPARK_PYTHON", str(bare))
    with pytest.raises(SetupError) as caught:
        check_interpreter(Session())
    assert caught.value.code == "MP703"
    assert str(bare) in caught.value.found
    assert f"PYSPARK_PYTHON={sys.executable}" in caught.value.hint


def test_without_a_word_it_is_the_first_python_of_the_path(monkeypatch, bare):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PATH", f"{bare.parent}:{os.environ['PATH']}")
    with pytest.raises(SetupError) as caught:
        check_interpreter(Session())
    assert caught.value.found.startswith("python3 (")


def test_a_python_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "no-such-python")
    with pytest.raises(SetupError) as caught:
        check_interpreter(Session())
    assert "no such program" in caught.value.found


def test_with_files_that_are_shipped_the_workers_decide(monkeypatch, bare):
    monkeypatch.setenv("PYSPARK_PYTHON", str(bare))
    check_interpreter(Session(**{"spark.submit.pyFiles": "millpond.zip"}))


@pytest.mark.parametrize(
    ("text", "named", "next_step"),
    [
        ("Traceback\nModuleNotFoundError: No module named 'millpond'", "`millpond`", "PYSPARK_PYTHON="),
        ("ModuleNotFoundError: No module named 'pyarrow.lib'", "`pyarrow.lib`", "PYSPARK_PYTHON="),
        ("ModuleNotFoundError: No module named 'pricing'", "`pricing`", "addArtifacts"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version", "`millpond`", "PYSPARK_PYTHON="),
    ],
)
def test_what_a_worker_can_not_import_is_told_by_name(text, named, next_step):
    error = worker_refusal(text)
    assert error.code == "MP703"
    assert named in error.summary
    assert next_step in error.hint


def test_other_failures_are_none_of_its_python():
    assert worker_refusal("ZeroDivisionError: division by zero") is None


@pytest.mark.parametrize(("seed", "found"), [("7", "PYTHONHASHSEED=7"), ("random", "PYTHONHASHSEED=random"), ("0", "")])
def test_a_worker_with_another_hash_seed_says_so_to_the_driver(seed, found):
    code = "from millpond.spark.interpreter import check_hash_seed; check_hash_seed()"
    environ = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    told = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False).stderr
    error = worker_refusal(told)
    assert (error.code, error.found) == ("MP704", found) if found else error is None
