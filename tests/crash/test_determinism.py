"""Graphs, key groups, owners, bytes of state and replies under other hash seeds, time zones and locales (R18)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

WORLDS = (
    {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"},
    {"PYTHONHASHSEED": "1", "TZ": "XYZ-13:45", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "42", "TZ": "XYZ-13:45", "LC_ALL": "C.UTF-8"},
    {"PYTHONHASHSEED": "65537", "TZ": "UTC", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "4294967295", "TZ": "ABC+11:30", "LC_ALL": "POSIX", "PYTHONUTF8": "0"},
)


def told_in(world):
    environ = {name: value for name, value in os.environ.items() if name not in {"LANG", "LC_CTYPE"}}
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.determinism_child"],
        cwd=ROOT,
        env=environ | world,
        capture_output=True,
        check=False,
    )
    assert (done.stderr.decode(), done.returncode) == ("", 0)
    return done.stdout


@pytest.mark.slow
def test_nothing_depends_on_hash_seed_time_zone_or_locale():
    first, *others = map(told_in, WORLDS)
    assert b"program Shop" in first
    assert b"deltas/" in first
    assert b"snapshots/" in first
    for world, other in zip(WORLDS[1:], others, strict=True):
        assert other == first, world
