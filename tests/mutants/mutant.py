"""A fault made by hand, and the test that must see it; how one is tried.

The package is copied to a folder of its own, one place in it is changed, and only the named test runs there. It must
fail: an error while tests are gathered, or no test at all, is no catch.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CAUGHT, MISSED = 1, 0
"""How pytest ends if a test failed, and if none did."""
SECONDS_MAX = 800


@dataclass(frozen=True)
class Mutant:
    """Each of `edits` is an old text, there exactly once, and what stands there instead."""

    name: str
    module: str
    test: str
    edits: tuple[tuple[str, str], ...]

    def __str__(self):
        return self.name


def mutant(name: str, module: str, test: str, *edits: str) -> Mutant:
    """A mutant with its texts in turn: old, new, old, new."""
    return Mutant(name, f"millpond/{module}", f"tests/{test}", tuple(zip(edits[::2], edits[1::2], strict=True)))


def source_of(one: Mutant) -> str:
    return (ROOT / one.module).read_text(encoding="utf-8")


def changed(one: Mutant) -> str:
    """The text of the module with the fault in it."""
    text = source_of(one)
    for old, new in one.edits:
        assert text.count(old) == 1, f"{one.name}: {old!r} is there {text.count(old)} times in {one.module}"
        text = text.replace(old, new)
    return text


def copy_project(folder: Path) -> None:
    """The package as a copy, and beside it all that its tests need, as links."""
    shutil.copytree(ROOT / "millpond", folder / "millpond", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("tests", "docs", "examples", "benchmarks", "scripts", "pyproject.toml", "README.md"):
        (folder / name).symlink_to(ROOT / name)


def run_test(folder: Path, *tests: str) -> tuple[int, str]:
    """Run tests over the copy in a folder; how pytest ended, and what it said."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MILLPOND_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
        cwd=folder,
        env=environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return done.returncode, done.stdout[-4000:] + done.stderr[-1000:]


def try_mutant(folder: Path, one: Mutant) -> tuple[int, str]:
    """Make the fault in a fresh copy, and run the test that must see it."""
    copy_project(folder)
    (folder / one.module).write_text(changed(one), encoding="utf-8")
    return run_test(folder, one.test)
