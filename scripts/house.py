"""Measure the house: its files, lines and folders, files with one importer, and how far one record has to walk.

    .venv/bin/python scripts/house.py [--list]

The walk is that of one row through one simulated epoch: which files of the package its calls go through, and how often
they go back to a file that was seen before. Files with one importer are passes, backends, commands or public names if
that importer is a list of such; the others are ideas of their own, or belong to it. Prints one JSON line last. With
`--list`, the files with one importer and the walk, call by call, come first.
"""

from __future__ import annotations

import ast
import json
import statistics
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
PACKAGE = ROOT / "millpond"

LISTS = frozenset(
    {
        "millpond.cli.commands",
        "millpond.cli.state",
        "millpond.compiler.compile",
        "millpond.compiler.explain",
        "millpond.loops.vertices.ready",
        "millpond.storage.open",
    }
)
"""Files that list commands, passes, drawings, algorithms and backends, each of which is a file; packages list names."""


def module_name(file: Path) -> str:
    """A file as it is imported."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def importers(files: list[Path]) -> dict[str, set[str]]:
    """Which modules of the package import each of them."""
    names = {module_name(file) for file in files}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for file in files:
        own = module_name(file)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            asked: list[str] = []
            if isinstance(node, ast.Import):
                asked = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                asked = [f"{node.module}.{alias.name}" for alias in node.names]
                asked = [name if name in names else str(node.module) for name in asked]
            for name in asked:
                if name in names and name != own:
                    found[name].add(own)
    return found


def is_listed(file: Path, known: dict[str, set[str]]) -> bool:
    """Say whether the one importer of a file is a list of files like it."""
    (importer,) = known[module_name(file)]
    return importer in LISTS or (ROOT / importer.replace(".", "/")).is_dir()


def walk() -> list[tuple[str, str]]:
    """Follow one row through one simulated epoch: each change of file, with the function that is called there."""
    from examples.kv_store import KeyValueStore
    from millpond.compiler.compile import compile_program
    from millpond.engine.simulated import Simulated

    steps: list[tuple[str, str]] = []

    def follow(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            file = frame.f_code.co_filename
            if file.startswith(str(PACKAGE)) and (not steps or steps[-1][0] != file):
                steps.append((file, frame.f_code.co_qualname))

    program = compile_program(KeyValueStore)
    with tempfile.TemporaryDirectory() as folder:
        run = Simulated(program, Path(folder), 2)
        run.epoch([("put", ("a", "1"))])
        sys.setprofile(follow)
        try:
            run.epoch([("put", ("b", "2"))])
        finally:
            sys.setprofile(None)
    return steps


def main() -> None:
    """Print the figures."""
    files = sorted(PACKAGE.rglob("*.py"))
    lines = {file: file.read_text(encoding="utf-8").count("\n") for file in files}
    folders = Counter(file.parent for file in files)
    known = importers(files)
    single = [file for file in files if file.name != "__init__.py" and len(known[module_name(file)]) == 1]
    steps = walk()
    seen = len({file for file, _ in steps})
    figures = {
        "files": len(files),
        "lines": sum(lines.values()),
        "median_lines": round(statistics.median(lines.values())),
        "folders": len(folders),
        "largest_folder": max(folders.values()),
        "single_importer_files": len(single),
        "single_importer_unlisted": len([file for file in single if not is_listed(file, known)]),
        "walk_files": seen,
        "walk_returns": len(steps) - seen,
    }
    if "--list" in sys.argv[1:]:
        for file in single:
            (importer,) = known[module_name(file)]
            listed = ", a list of such" if is_listed(file, known) else ""
            print(f"{lines[file]:>5}  {file.relative_to(PACKAGE)} <- {importer}{listed}")
        for name, called in steps:
            print(f"       {Path(name).relative_to(PACKAGE)}  {called}")
    for name, figure in figures.items():
        print(f"{name.replace('_', ' '):>22}  {figure:,}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
