"""The source tree as the tidy rules see it: each module read and parsed once."""

from __future__ import annotations

import ast
import gc
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


@dataclass(frozen=True, slots=True, eq=False)
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
def modules(folder: str) -> tuple[Module, ...]:
    """Read every Python file below a folder."""
    files = sorted((ROOT / folder).rglob("*.py"))
    gc.disable()
    try:
        found = tuple(parse(file.read_text(encoding="utf-8"), file.relative_to(ROOT).as_posix()) for file in files)
    finally:
        gc.freeze()  # They stay, and are too many to be looked through again and again.
        gc.enable()
    assert found, f"no Python file below {folder}"
    return found


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """Read every file that people read, code included: its path and its text."""
    below = [file for folder in TEXT for file in (ROOT / folder).rglob("*")]
    read = [
        file
        for file in sorted([*(file for file in ROOT.iterdir() if file.name != ".git"), *below])
        if "__pycache__" not in file.parts and not any(part.startswith(FROZEN) for part in file.parts)
    ]
    return tuple(
        (file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8"))
        for file in read
        if file.suffix in TEXT_SUFFIXES and file.is_file()
    )


@cache
def nodes(module: Module) -> tuple[ast.AST, ...]:
    """Every node of a module: all rules go through them."""
    return tuple(ast.walk(module.tree))


def statements(module: Module) -> Iterator[ast.stmt]:
    """Every statement of a module, wherever it stands, without what it is made of."""
    left: list[ast.AST] = [module.tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.stmt):
            yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            left += getattr(node, name, ())


@cache
def imports(module: Module) -> tuple[tuple[ast.stmt, str], ...]:
    """Every name that a module imports, wherever it does so, dotted and absolute."""
    package = module.path.removesuffix(".py").split("/")[:-1]
    found: list[tuple[ast.stmt, str]] = []
    for node in statements(module):
        if isinstance(node, ast.Import):
            found += ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *filter(None, [node.module])])
            found += ((node, f"{source}.{alias.name}") for alias in node.names)
    return tuple(found)


@cache
def calls(module: Module) -> tuple[tuple[ast.Call, str], ...]:
    """Every call of a plain name or of an attribute, with the name as written."""
    return tuple(
        (node, ast.unparse(node.func))
        for node in nodes(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
    )
