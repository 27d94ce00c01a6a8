"""How every test runs: with fixed chance and without deadlines; files in memory.

A run of all tests decides: it must be the same every time, on every machine. So hypothesis draws what follows from each
test alone, as do UUIDs, `random` and the hashes of texts in children. Campaigns (`make crash`) draw anew, by
MILLPOND_TEST_SEED.

Tests sync very many small files, and none of them can tell a disk from memory: power cuts are simulated. With a TMPDIR
the files lie there, and those of failed tests stay.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from millpond.state.local.localstore import LocalStore
from tests.chance import SEED, Chance, seed_of
from tests.sizes import EXAMPLES, SMALL, few_of

MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30
OURS = "millpond-tests-"

TERMINAL = ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "PY_COLORS", "CLICOLOR", "CLICOLOR_FORCE", "GITHUB_ACTIONS")
SETTINGS = ("AWS_", "AZURE_", "GOOGLE_", "HADOOP_", "PYSPARK_", "SPARK_", "TTY_")
"""What terminals, services of CI and people who have clusters set: commands, storages and Spark would heed it."""

CHANCE = Chance()

# How long an example takes says more about the machine than about us; what failed in an earlier run is no part of this.
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
USUAL = settings(print_blob=True, max_examples=EXAMPLES, database=None, **UNTIMED)
settings.register_profile("fixed", USUAL, derandomize=True)
settings.register_profile("campaign", USUAL)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(100_000, 20, 100)
    for name in filter(_is_setting, list(os.environ)):
        del os.environ[name]
    # Before xdist starts its workers: they and all other children get it with the environment.
    os.environ.setdefault("PYTHONHASHSEED", str(seed_of("hash")) if SEED else "0")
    if SEED and config.getoption("hypothesis_seed") is None:
        config.option.hypothesis_seed = str(seed_of("hypothesis"))
    if config.getoption("hypothesis_seed") is None:
        settings.load_profile("fixed")
        # It would try numbers and texts that stand in modules which other tests happened to import before.
        if hasattr(providers, "_get_local_constants"):
            providers._get_local_constants = lambda: providers._local_constants
    else:
        settings.load_profile("campaign")
    if "TMPDIR" not in os.environ and _room_in_memory():
        # Workers and other children get it with the environment.
        folder = MEMORY / f"{OURS}{os.getpid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def _is_setting(name: str) -> bool:
    """Whether a variable of the environment would let a test see who runs it, or our own settings of a job."""
    ours = name.startswith("MILLPOND_") and not name.startswith("MILLPOND_TEST_")
    return ours or name in TERMINAL or name.startswith(SETTINGS)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Whoever asks for a test by its name gets all of it.
    if SMALL and not config.option.keyword:
        kept = few_of(items)
        chosen = set(kept)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = kept


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


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    CHANCE.begin(item.nodeid)
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest) -> Iterator[None]:
    if fixturedef.scope == "function":
        return (yield)
    with CHANCE.apart(f"{fixturedef.argname} {request.param_index}"):
        return (yield)


def pytest_report_header(config: pytest.Config) -> str:
    seed = config.getoption("hypothesis_seed")
    return "chance: fixed" if seed is None else f"replay with: MILLPOND_TEST_SEED={SEED} --hypothesis-seed={seed}"


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    for report in (*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ())):
        for line in (told for name, told in report.user_properties if name == "told" and report.when == "call"):
            terminalreporter.write_line(line)
    if terminalreporter.stats.get("failed") and config.getoption("hypothesis_seed") is not None:
        terminalreporter.write_line(pytest_report_header(config))
