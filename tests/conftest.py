"""How every test runs: hypothesis without deadlines, from a seed that is shown and can be given again."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest
from hypothesis import settings

from millpond.state.localstore import LocalStore

IN_CI = os.environ.get("CI", "").lower() == "true"

settings.register_profile("local", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if IN_CI else "local")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # Chosen before hypothesis and xdist read the options, so that all workers use the one that is shown.
    if not IN_CI and config.getoption("hypothesis_seed") is None:
        config.option.hypothesis_seed = str(secrets.randbelow(2**32))


@pytest.fixture(autouse=True)
def _close_stores(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close what a test opened in its folder: a process may have no more than some hundred files open."""
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
