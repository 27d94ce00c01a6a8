"""From `module:Class` on the command line to the program it names."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Protocol, TypeGuard

from millpond.errors import MillpondError, SetupError
from millpond.program import ProgramBase


class Explained(Protocol):
    """A program class, as far as this command needs it."""

    def explain(self, *, format: str) -> str:  # noqa: A002 - the name that programs give it
        """Show the graph that the program compiles to."""
        ...


def load_program(target: str) -> Explained:
    """Import the class that `target` names, with the current folder in reach; raise MP710 to MP713 if that fails."""
    module_name, colon, class_name = target.partition(":")
    if not (colon and class_name.isidentifier() and all(part.isidentifier() for part in module_name.split("."))):
        raise SetupError(
            "MP710",
            "this does not name a class",
            expected="module:Class, as in `examples.recommender:Recommender`",
            found=f"`{target}`",
            hint="write the module as in an import, a colon, and the name of the class",
        )
    module = _load_module(module_name)
    if not hasattr(module, class_name):
        raise SetupError(
            "MP712",
            f"the module `{module_name}` has no `{class_name}`",
            expected="the name of a class that derives from Program",
            found=", ".join(_programs(module)) or "no program in this module",
            hint="check the spelling of the class",
        )
    named: object = getattr(module, class_name)
    if not _is_program(named):
        raise SetupError(
            "MP713",
            f"`{target}` is not a program",
            expected="a class that derives from millpond.Program",
            found=f"the class `{named.__name__}`"
            if isinstance(named, type)
            else f"a value of type {type(named).__name__}",
            hint=f"write `class {class_name}(Program):`",
        )
    return named


def save(file: Path, text: str) -> None:
    """Write what is shown to a file, or raise MP718."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SetupError(
            "MP718",
            "the output can't be written",
            expected="a file in a folder that exists and may be written to",
            found=f"{file}: {error.strerror or error}",
            hint="choose another --output",
        ) from None


def _load_module(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except MillpondError:
        raise
    except Exception as error:
        absent = _absent_module(name, error)
        raise SetupError(
            "MP711",
            f"the module `{name}` can't be imported",
            expected="a module in the current folder or among the installed packages",
            found=f"no module `{absent}`" if absent else f"{type(error).__name__}: {error}",
            hint="run from the folder that holds the module" if absent else f"see why `import {name}` fails",
        ) from error


def _absent_module(name: str, error: Exception) -> str | None:
    """Return the part of `name` that does not exist; None if the module exists and fails for a reason of its own."""
    if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
        return error.name
    return None


def _programs(module: ModuleType) -> list[str]:
    members = vars(module).items()
    return sorted(name for name, value in members if _is_program(value) and value.__module__ == module.__name__)


def _is_program(value: object) -> TypeGuard[Explained]:
    return isinstance(value, type) and issubclass(value, ProgramBase) and hasattr(value, "explain")
