"""From paths on the command line to modules and the programs in them."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import importlib.util
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from millpond.errors import MillpondError, SetupError, SourcePlace
from millpond.program import ProgramBase
from millpond.program.entries import abstract_methods


def python_files(path: Path) -> Iterator[Path]:
    """The file itself, or the files below a folder that import Millpond; hidden folders are left out."""
    if not path.is_dir():
        yield path
        return
    for file in sorted(path.rglob("*.py")):
        hidden = any(part.startswith(".") or part == "__pycache__" for part in file.relative_to(path).parts)
        if not hidden and _imports_millpond(parse_file(file)[1]):
            yield file


def parse_file(file: Path) -> tuple[str, ast.Module]:
    """Read and parse a file, or raise MP714."""
    try:
        with tokenize.open(file) as opened:
            text = opened.read()
        return text, ast.parse(text, str(file))
    except SyntaxError as error:
        line = error.lineno or 1
        shown = (error.text or "").rstrip("\n")
        places = (SourcePlace(str(file), line, max(0, (error.offset or 1) - 1), shown),) if error.lineno else ()
        raise SetupError(
            "MP714", f"{file} can't be read", places=places, expected="a Python file", found=f"{error.msg}"
        ) from None
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise SetupError(
            "MP714",
            f"{file} can't be read",
            expected="a Python file",
            found=f"{type(error).__name__}: {error}",
            hint="check the path",
        ) from None


def _imports_millpond(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        if any(name.split(".")[0] == "millpond" for name in names):
            return True
    return False


def import_file(file: Path) -> ModuleType:
    """Import a file as what it is: a module of its package, or a module beside its neighbours; MP715 if that fails."""
    file = file.resolve()
    root, parts = file.parent, [file.stem]
    while (root / "__init__.py").exists():
        root, parts = root.parent, [root.name, *parts]
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    name = ".".join(parts).removesuffix(".__init__")
    try:
        # What a module prints must not end up in a report that a machine reads.
        with contextlib.redirect_stdout(sys.stderr):
            return _import_as(name, file)
    except MillpondError:
        raise
    except (Exception, SystemExit) as error:
        raise SetupError(
            "MP715",
            f"{file.name} can't be imported",
            expected="a module that can be imported from anywhere",
            found=f"{type(error).__name__}: {error}",
            hint="see why the import fails, or check the file with --no-import",
        ) from error


def _import_as(name: str, file: Path) -> ModuleType:
    if "." in name:
        module = importlib.import_module(name)
        if module.__file__ and Path(module.__file__).resolve() == file:
            return module
    # Alone, or hidden by another module of its name: under a name of its own, so that two files never mix.
    own = f"{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(own, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module can be made of {file.name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[own] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[own]
        raise
    return module


def programs_of(module: ModuleType) -> list[type[ProgramBase]]:
    """The programs that a module defines, without bases that only others build on."""
    classes = [member for member in vars(module).values() if isinstance(member, type)]
    mine = (kind for kind in classes if issubclass(kind, ProgramBase) and kind.__module__ == module.__name__)
    own = list(dict.fromkeys(mine))
    bases = {base for program in own for base in program.__mro__[1:]}
    whole = [program for program in own if not abstract_methods(program)]
    return [program for program in whole if program not in bases or _has_entries(program)]


def _has_entries(program: type) -> bool:
    members = (member for base in program.__mro__ for member in vars(base).values())
    return any(getattr(member, "__millpond_entry__", False) for member in members)
