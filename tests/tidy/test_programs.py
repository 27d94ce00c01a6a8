"""Programs that tests of several folders run are in tests/programs, where the next one looks for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.tree import Module, imports, modules, nodes, parse

SHARED = "tests/programs/"
KEPT = frozenset(
    {
        # What frozen checkpoints were written by.
        "tests/frozen/programs.py",
        # Still beside the tests that are about them.
        "tests/property/test_spread.py",
        "tests/regression/test_damaged_local_stores.py",
        "tests/regression/test_windows_that_feed_windows.py",
        "tests/unit/engine/test_simulated_relaxed.py",
        "tests/values/campaign.py",
    }
)


def has_programs(module: Module) -> bool:
    """Whether a module defines classes that people would write."""
    classes = (node for node in nodes(module) if isinstance(node, ast.ClassDef))
    return any(isinstance(base, ast.Name) and base.id == "Program" for one in classes for base in one.bases)


def folder(path: str) -> str:
    return path.split("/")[1]


def shared(found: tuple[Module, ...]) -> Iterator[str]:
    """Modules with programs that other folders import, outside of the folder for them."""
    own = {module.path.removesuffix(".py").replace("/", "."): module for module in found if has_programs(module)}
    used = {
        own[name].path
        for module in found
        for _, imported in imports(module)
        for name in (imported, imported.rpartition(".")[0])
        if name in own and folder(own[name].path) != folder(module.path)
    }
    yield from sorted(path for path in used if not path.startswith(SHARED))


def test_a_program_that_another_folder_imports_is_found():
    program = parse("class Words(Program): ...", "tests/unit/words.py")
    assert list(shared((program, parse("from tests.unit.words import Words", "tests/unit/test_words.py")))) == []
    assert list(shared((program, parse("from tests.unit.words import Words", "tests/spark/test_words.py")))) == [
        "tests/unit/words.py"
    ]
    assert list(shared((program, parse("from tests.unit import words", "tests/spark/test_words.py")))) == [
        "tests/unit/words.py"
    ]


def test_programs_that_several_folders_run_are_where_they_are_looked_for():
    assert set(shared(modules("tests"))) == KEPT
