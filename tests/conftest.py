"""How every test runs: hypothesis without deadlines, from a seed that is shown and can be given again; files in memory.

Tests sync very many small files, and none of them can tell a disk from memory: power cuts are simulated. With a TMPDIR
the files lie there, and those of failed tests stay.
"""

from __future__ import annotations

import gc
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import settings

from millpond.state.localstore import LocalStore
from tests.sizes import EXAMPLES

MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30
OURS = "millpond-tests-"

IN_CI = os.environ.get("CI", "").lower() == "true"

settings.register_profile("local", deadline=None, print_blob=True, max_examples=EXAMPLES)
settings.register_profile("ci", deadline=None, print_blob=True, max_examples=EXAMPLES, derandomize=True)
settings.load_profile("ci" if IN_CI else "local")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(100_000, 20, 100)
    # Chosen before hypothesis and xdist read the options, so that all workers use the one that is shown.
    if not IN_CI and config.getoption("hypothesis_seed") is None:
        config.option.hypothesis_seed = str(secrets.randbelow(2**32))
    if "TMPDIR" not in os.environ and _room_in_memory():
        # Workers and other children get it with the environment.
        folder = MEMORY / f"{OURS}{os.getpid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_collection_finish() -> None:
    # Thousands of tests and what they import stay: looking through them again and again was a quarter of all time.
    gc.collect()
    gc.freeze()


def _room_in_memory() -> bool:
    """Whether there is room for temporary files, without what runs that were killed left behind."""
    if not os.access(MEMORY, os.W_OK):
        return False
    for left in MEMORY.glob(f"{OURS}[0-9]*"):
        if not psutil.pid_exists(int(left.name.removeprefix(OURS))):
            shutil.rmtree(left, ignore_errors=True)
    return min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available) >= ROOM_BYTES


@pytest.fixture(autouse=True)
def _close_stores(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close what a test opened, on Spark in its folder: a process may have no more than some hundred files open."""
    folder = Path("/")
    if request.node.get_closest_marker("spark"):
        folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    if folder is not None:
        LocalStore.close_below(folder)


def pytest_report_header(config: pytest.Config) -> str:
    seed = config.getoption("hypothesis_seed")
    return "hypothesis: derandomized" if seed is None else f"replay with: --hypothesis-seed={seed}"


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    for report in (*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ())):
        for line in (told for name, told in report.user_properties if name == "told" and report.when == "call"):
            terminalreporter.write_line(line)
    if terminalreporter.stats.get("failed") and config.getoption("hypothesis_seed") is not None:
        terminalreporter.write_line(pytest_report_header(config))
