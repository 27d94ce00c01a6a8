"""Programs out of text: written to a file and imported, so that the compiler finds their source as a user's."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from millpond.program import ProgramBase

HEAD = """\
from __future__ import annotations
from millpond.program import Partial, Partitioned, ProgramBase as Program, each, entry, merged
from millpond.state.containers.counter import Counter
from millpond.state.containers.list import List
from millpond.state.containers.map import Map
from millpond.state.containers.matrix import Matrix
from millpond.state.containers.set import Set
from millpond.state.containers.value import Value
from millpond.state.containers.vector import Vector
"""


def load(text: str, folder: Path, *, head: str = HEAD) -> ModuleType:
    """Import a module made of `head` and `text`, under a name that follows from them."""
    name = f"program_{hashlib.sha256((head + text).encode()).hexdigest()[:12]}"
    path = folder / f"{name}.py"
    path.write_text(head + text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def program_in(module: ModuleType) -> type[ProgramBase]:
    """The program class that a module defines; the last one if it defines several."""
    own = [
        member
        for member in vars(module).values()
        if isinstance(member, type) and issubclass(member, ProgramBase) and member.__module__ == module.__name__
    ]
    return own[-1]
