"""The order of a set is refused where it would be seen, also through a format, a library or a function of one's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.regression.set_programs import FINE, SEEN

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def told():
    """What each program does under several hash seeds, each in a process of its own."""
    found = []
    for seed in ("0", "1", "2"):
        environ = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tests.regression.set_programs"]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        found.append(json.loads(done.stdout))
    return list(zip(*found, strict=True))


@pytest.mark.parametrize("number", range(len(SEEN)))
def test_an_order_that_would_be_seen_is_refused(told, number):
    assert set(map(str, told[number])) == {"MP177"}, SEEN[number]


@pytest.mark.parametrize("number", range(len(FINE)))
def test_what_shows_no_order_runs_and_is_the_same_under_every_seed(told, number):
    one, *others = told[len(SEEN) + number]
    assert isinstance(one, list), FINE[number]
    assert others == [one] * len(others)
