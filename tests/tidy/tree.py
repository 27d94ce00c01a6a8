"""The source tree as the tidy rules see it: each module read and parsed once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

CODE = ("millpond", "tests", "examples", "benchmarks", "scripts")
TEXT = (*CODE, "docs", ".ci")
TEXT_SUFFIXES = frozenset({".py", ".md", ".sh", ".toml", ".txt", ".properties", ""})
FROZEN = "format-"
"""Checkpoints that earlier versions wrote: bytes, not text."""


@dataclass(frozen=True, slots=True)
class Module:
    """A file of Python; `path` is relative to the root, with slashes."""

    path: str
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """The part of the package that the module belongs to; empty for the package itself."""
        second = self.path.split("/")[1].removesuffix(".py")
        return "" if second == "__init__" else second

    def at(self, node: ast.stmt | ast.expr, words: str) -> str:
        """Describe what is wrong with a node."""
        return f"{self.path}:{node.lineno}: {words}"


def parse(text: str, path: str = "millpond/graph/sample.py") -> Module:
    """Make a module out of a few lines, as if they stood in `path`."""
    return Module(path, text, ast.parse(text))


@cache
def modules(*folders: str) -> tuple[Module, ...]:
    """Read every Python file below the folders."""
    files = sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))
    found = tuple(parse(file.read_text(encoding="utf-8"), file.relative_to(ROOT).as_posix()) for file in files)
    assert found, f"no Python file below {folders}"
    return found


def texts() -> Iterator[tuple[str, str]]:
    """Read every file that people read, code included: its path and its text."""
    below = [file for folder in TEXT for file in (ROOT / folder).rglob("*")]
    for file in sorted([*ROOT.iterdir(), *below]):
        if "__pycache__" in file.parts or any(part.startswith(FROZEN) for part in file.parts):
            continue
        if file.is_file() and file.suffix in TEXT_SUFFIXES:
            yield file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")


def imports(module: Module) -> Iterator[tuple[ast.stmt, str]]:
    """Every name that a module imports, wherever it does so, dotted and absolute."""
    package = module.path.removesuffix(".py").split("/")[:-1]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *filter(None, [node.module])])
            yield from ((node, f"{source}.{alias.name}") for alias in node.names)


def calls(module: Module) -> Iterator[tuple[ast.Call, str]]:
    """Every call of a plain name or of an attribute, with the name as written."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield node, ast.unparse(node.func)
