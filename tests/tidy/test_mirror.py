"""Unit tests stand in the folders of the package, named by what they test; a name of a file means one thing."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath

from tests.tidy.tree import ROOT

ELSEWHERE = frozenset({"benchmarks", "compiler", "examples", "fuzz"})
"""Folders of unit tests that mirror other trees, or one that is still to be divided as its room is."""

OF_ALL = frozenset({"test_doctests.py", "test_package.py", "test_site.py"})
"""Tests of the package as a whole."""

ONE_MEANING = {
    "access": "how a piece of a program gets at state",
    "aged": "entries with a time to live",
    "ambient": "what a row may ask of the world: time and chance",
    "columntypes": "which types columns have",
    "compute": "an epoch as an engine computes it",
    "disk": "a disk, and what it does wrong",
    "element": "an element of state",
    "elements": "the elements of a checkpoint",
    "entries": "entry points, and entries of state",
    "evolution": "state after a program changed",
    "explain": "what a program becomes",
    "intake": "rows as they are taken in",
    "kinds": "kinds of things",
    "memory": "what is kept in this process",
    "model": "a representation as frozen data",
    "objects": "objects, in a program or in a store",
    "options": "what users set",
    "overlay": "changes on top of what is stored",
    "plain": "plain Python",
    "program": "a program",
    "rows": "rows of an epoch",
    "session": "a Spark session",
    "state": "the state of a program",
    "streaming": "rows that are taken as they come",
    "tables": "tables of Arrow",
    "text": "the text form of a representation",
    "timers": "timers",
    "values": "values of a program",
    "windows": "windows",
}
"""What a name says that several files have, in whatever room."""

TWO_MEANINGS = frozenset({"assemble", "blocks", "check", "merging", "notes", "order", "ordering"})
"""Names that are still to be told apart."""


def package() -> list[PurePosixPath]:
    """Return every module of the package, without its suffix."""
    files = (ROOT / "millpond").rglob("*.py")
    modules = (PurePosixPath(file.relative_to(ROOT / "millpond").with_suffix("").as_posix()) for file in files)
    return sorted(module for module in modules if module.name != "__init__")


def unmirrored(tests: list[PurePosixPath], modules: list[PurePosixPath]) -> list[str]:
    """Return the tests that stand for no module: beside it `test_module.py`, or `test_module_` and what of it."""
    names = {str(module) for module in modules}
    wrong = []
    for test in tests:
        words = test.stem.removeprefix("test_").split("_")
        stands_for = {str(test.parent / "_".join(words[:count])) for count in range(1, len(words) + 1)}
        if not stands_for & names:
            wrong.append(str(test))
    return wrong


def test_a_test_that_stands_for_no_module_is_found():
    modules = [PurePosixPath("state/overlay"), PurePosixPath("clock")]
    fine = ["state/test_overlay.py", "state/test_overlay_odd.py", "test_clock.py"]
    assert unmirrored([PurePosixPath(name) for name in fine], modules) == []
    wrong = ["test_overlay.py", "state/test_over.py", "state/test_overlays.py"]
    assert unmirrored([PurePosixPath(name) for name in wrong], modules) == wrong


def test_unit_tests_mirror_the_package():
    folder = ROOT / "tests" / "unit"
    tests = [PurePosixPath(file.relative_to(folder).as_posix()) for file in sorted(folder.rglob("test_*.py"))]
    mirrored = [test for test in tests if test.parts[0] not in ELSEWHERE and test.name not in OF_ALL]
    assert unmirrored(mirrored, package()) == []


def test_a_name_means_one_thing():
    often = {name for name, count in Counter(module.name for module in package()).items() if count > 1}
    assert sorted(often - ONE_MEANING.keys() - TWO_MEANINGS) == [], "say what the name means, or find another"
    assert sorted((ONE_MEANING.keys() | TWO_MEANINGS) - often) == []
