"""Modules of the user that workers may not be able to import: their source travels with the plan.

A script, a notebook or a project that is not installed lies where the driver looks for modules and workers do not. What
the plan names of such modules is found there: their source, and that of all modules of the user that they import, is
part of the shipment. A worker runs it only for a module that it does not find by itself.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.util
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

_OURS: Final = __name__.partition(".")[0]
_SUFFIX: Final = ".py"
_INSTALLED: Final = frozenset(("site-packages", "dist-packages"))
_LIBRARY: Final = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib")})


class Source(NamedTuple):
    """A module: its whole name, the file that it is shown as, its text, and whether it is a package."""

    name: str
    file: str
    text: str
    package: bool


def sources_of(names: Iterable[str]) -> tuple[Source, ...]:
    """Return the modules of the user among these, and all that they import, in the order of their names."""
    waiting, found = list(names), dict[str, Source]()
    while waiting:
        name = waiting.pop()
        source = None if name in found else _source_of(sys.modules.get(name), name)
        if source is not None:
            found[name] = source
            waiting += _imported(source)
            waiting.append(name.rpartition(".")[0])
    return tuple(found[name] for name in sorted(found))


def _source_of(module: ModuleType | None, name: str) -> Source | None:
    """Return a module that is written by the user; None for one that is installed, or part of Python or Millpond."""
    file = getattr(module, "__file__", None)
    if module is None or name in ("", "__main__") or not file or not file.endswith(_SUFFIX):
        return None
    path = Path(file)
    if name.partition(".")[0] == _OURS or not _INSTALLED.isdisjoint(path.parts) or file.startswith(_LIBRARY):
        return None
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return Source(name, file, text, hasattr(module, "__path__"))


def _imported(source: Source) -> Iterator[str]:
    """Yield the names that a module may import others by; those that are no modules are not found."""
    package = source.name if source.package else source.name.rpartition(".")[0]
    try:
        tree = ast.parse(source.text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: -(node.level - 1) or None] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds the modules that came with a plan, after all others had their turn."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}
        self._loaded: dict[str, ModuleType] = {}

    def offer(self, sources: Sequence[Source]) -> None:
        """Have these from now on; if one is another than it was, all that came before are forgotten."""
        if any(self._sources.get(source.name, source) != source for source in sources):
            for name, module in self._loaded.items():
                if sys.modules.get(name) is module:
                    del sys.modules[name]
            self._loaded.clear()
        self._sources |= {source.name: source for source in sources}
        if self not in sys.meta_path:
            sys.meta_path.append(self)

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        """Find a module that came with a plan."""
        source = self._sources.get(fullname)
        if source is None:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=source.file, is_package=source.package)

    def is_package(self, fullname: str) -> bool:
        """Tell whether a module has others in it."""
        return self._sources[fullname].package

    def get_source(self, fullname: str) -> str:
        """Return the text of a module."""
        return self._sources[fullname].text

    def exec_module(self, module: ModuleType) -> None:
        """Run the source of a module."""
        self._loaded[module.__name__] = module
        module.__file__ = self._sources[module.__name__].file
        super().exec_module(module)


_finder: Final = _Finder()


def offer(sources: Sequence[Source]) -> None:
    """Let a worker import these modules, unless it has them."""
    if sources:
        _finder.offer(sources)
