"""What an untrusted file may import for real: Millpond itself, and modules of the standard library without effects."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

TRUSTED: Final = frozenset(
    (
        *("__future__", "abc", "array", "asyncio", "base64", "bisect", "builtins", "calendar"),
        *("collections", "collections.abc", "colorsys", "copy", "dataclasses", "datetime"),
        *("decimal", "enum", "fractions", "functools", "glob", "hashlib", "heapq", "hmac", "http"),
        *("http.client", "io", "itertools", "json", "keyword", "locale", "logging", "math"),
        *("numbers", "operator", "os", "os.path", "pathlib", "platform", "queue", "random", "re"),
        *("secrets", "shutil", "socket", "statistics", "string", "struct", "subprocess"),
        *("tempfile", "textwrap", "threading", "time", "types", "typing", "unicodedata", "urllib"),
        *("urllib.parse", "urllib.request", "uuid", "zlib", "zoneinfo"),
    )
)
"""Importing one of these does nothing but define names; the compiler knows the clocks and doors among them."""

_OWN: Final = "millpond"


def import_trusted(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Any]]:
    """The names that an import binds, with what they stand for; a module's name if that is not imported."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            if alias.asname is None:
                top = alias.name.split(".")[0]
                _module(alias.name)
                yield top, _module(top) or _placeholder(top)
            else:
                yield alias.asname, _module(alias.name) or _placeholder(alias.name)
        return
    source = "." * statement.level + (statement.module or "")
    module = None if statement.level else _module(source)
    for alias in statement.names:
        name = alias.asname or alias.name
        if module is not None and alias.name == "*":
            public = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
            yield from ((name, getattr(module, name)) for name in public if hasattr(module, name))
        elif module is not None and hasattr(module, alias.name):
            yield name, getattr(module, alias.name)
        else:
            inner = None if statement.level else _module(f"{source}.{alias.name}")
            yield name, inner or source


def _placeholder(name: str) -> types.ModuleType:
    return types.ModuleType(name)


def _module(name: str) -> types.ModuleType | None:
    """A trusted module, or None; a file that only has the name of one is not imported."""
    if name != _OWN and not name.startswith(f"{_OWN}.") and name not in TRUSTED:
        return None
    if name not in sys.modules and not _is_genuine(name):
        return None
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _is_genuine(name: str) -> bool:
    """Whether a module that is not loaded yet would come from Python's own library or from this package."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    if spec is None:
        return False
    if spec.origin in ("built-in", "frozen"):
        return True
    homes = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(Path(__file__).parents[1])]
    return spec.origin is not None and any(Path(spec.origin).is_relative_to(home) for home in homes)
