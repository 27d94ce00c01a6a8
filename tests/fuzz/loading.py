"""Programs out of text: imported as modules whose source the compiler can read, and forgotten afterwards."""

from __future__ import annotations

import hashlib
import importlib.util
import linecache
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from millpond.program import ProgramBase
from millpond.state.local.localstore import LocalStore

_IN_MEMORY: Final = Path("/dev/shm")


class _Loader(SourceFileLoader):
    """Loads a file that is soon gone: no bytecode is kept."""

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        """Write nothing."""


@contextmanager
def loaded(text: str) -> Iterator[type[ProgramBase]]:
    """The program class that a text defines, while it is needed."""
    name = f"millpond_generated_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    with temporary_folder() as folder:
        path = str(folder / f"{name}.py")
        Path(path).write_text(text, encoding="utf-8")
        loader = _Loader(name, path)
        spec = importlib.util.spec_from_file_location(name, path, loader=loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                loader.exec_module(module)
            yield program_in(module)
        finally:
            sys.modules.pop(name, None)
            linecache.cache.pop(path, None)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A directory for one run, in memory where the machine has it."""
    made = Path(tempfile.mkdtemp(prefix="millpond-generated-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None))
    try:
        yield made
    finally:
        LocalStore.close_below(made)
        shutil.rmtree(made, ignore_errors=True)


def program_in(module: ModuleType) -> type[ProgramBase]:
    """The last program class that a module defines."""
    own = [
        member
        for member in vars(module).values()
        if isinstance(member, type) and issubclass(member, ProgramBase) and member.__module__ == module.__name__
    ]
    return own[-1]
