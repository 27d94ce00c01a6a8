"""All errors of all programs in some files at once: each entry point is compiled alone, then all of them together."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import importlib.util
import re
import sys
import tokenize
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from millpond.cli.terminal import json_of
from millpond.cli.unseen import Seen, read_unseen
from millpond.compiler.back.sequence import with_copies
from millpond.compiler.compile import draft_program
from millpond.compiler.draft import Draft
from millpond.compiler.independent import independent_errors
from millpond.errors import MillpondError, ProgramError, SetupError, SourcePlace
from millpond.program import EntryPoint, ProgramBase
from millpond.program.entries import HANDLER, MARK, abstract_methods, entry_points, handler_entry
from millpond.program.semantics.ambient import as_written


@dataclass
class Checked:
    """What was found out about one program.

    `gathered` are the entry points that run gathered, each with the reason, `sequence` those that run in sequence;
    `trusted` are the types that were not looked at; `copies` says where an object of state is stored as a copy.
    """

    name: str
    errors: list[MillpondError]
    gathered: dict[str, str] = field(default_factory=dict)
    trusted: list[str] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)
    sequence: dict[str, str] = field(default_factory=dict)


@dataclass
class Report:
    """What was found out about one file; `errors` are those that kept its programs from being looked at."""

    file: str
    programs: list[Checked] = field(default_factory=list)
    errors: list[MillpondError] = field(default_factory=list)


def check_paths(paths: Sequence[Path], *, importing: bool) -> list[Report]:
    """Check every program in files and folders."""
    reports: list[Report] = []
    for path in paths:
        try:
            files = list(_python_files(path))
        except SetupError as error:
            reports.append(Report(str(path), errors=[error]))
            continue
        for file in files:
            report = _check_file(file, importing=importing)
            named = file == path
            if named and not report.programs and not report.errors:
                report.errors.append(_no_program(file))
            if named or report.programs or report.errors:
                reports.append(report)
    return reports


def exit_code(reports: Sequence[Report]) -> int:
    """Return 0 if all programs compile, 1 if some are refused, 2 if some files can't be looked at."""
    if any(report.errors for report in reports):
        return 2
    return 1 if any(program.errors for report in reports for program in report.programs) else 0


def _check_file(file: Path, *, importing: bool) -> Report:
    report = Report(str(file))
    try:
        text, tree = _parse_file(file)
        if importing:
            report.programs = _check_imported(file, text, tree)
        else:
            _add_unseen(report, _read(file, text, tree))
    except SetupError as error:
        report.errors.append(error)
    return report


def _check_imported(file: Path, text: str, tree: ast.Module) -> list[Checked]:
    try:
        module = _import_file(file)
    except SetupError:
        raise
    except MillpondError as error:
        # A declaration was refused while the module ran. Its tree tells where, and what else is wrong; but where it
        # hides something, what it lacks is no error of the file's.
        seen = _read(file, text, tree)
        found = [] if seen.hidden else list(_refused(seen))
        if not any(str(known) == str(error) for checked in found for known in checked.errors):
            _add_error(found, _class_at(tree, error) or file.stem, error)
        return found
    return [check_program(program) for program in _programs_of(module)]


def _class_at(tree: ast.Module, error: MillpondError) -> str:
    """Return the name of the class whose body an error is in."""
    lines = [place.line for place in error.places[:1]]
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    around = (node.name for node in classes for line in lines if node.lineno <= line <= (node.end_lineno or 0))
    return next(around, "")


def _add_error(found: list[Checked], name: str, error: MillpondError) -> None:
    known = next((checked for checked in found if checked.name == name), None)
    if known is None:
        found.append(Checked(name, [error]))
    elif not any(one.code == error.code for one in known.errors):
        known.errors.append(error)


def _read(file: Path, text: str, tree: ast.Module) -> Seen:
    try:
        return read_unseen(str(file), text, tree)
    except (RecursionError, MemoryError, ValueError, SyntaxError) as error:
        raise SetupError(
            "MP714", f"{file} can't be read", expected="a Python file", found=f"{type(error).__name__}: {error}"
        ) from None


def _add_unseen(report: Report, seen: Seen) -> None:
    report.errors += seen.hidden
    report.programs = [replace(checked, trusted=list(seen.trusted)) for checked in _refused(seen)]


def _refused(seen: Seen) -> Iterator[Checked]:
    programs = {program.__name__: program for program in seen.programs}
    bases = {base for program in seen.programs for base in program.__mro__[1:]}
    for name, errors in seen.refused.items():
        program = programs.get(name)
        if program is None:
            yield Checked(name, errors)
        elif errors:
            # What it says of the elements that were refused follows from that.
            missing = seen.missing.get(name, [])
            others = (error for error in check_program(program).errors if not _speaks_of(error, missing))
            yield Checked(name, [*errors, *others])
        elif not abstract_methods(program) and (program not in bases or _marked(program)):
            yield replace(check_program(program), name=name)


def _speaks_of(error: MillpondError, elements: Sequence[str]) -> bool:
    """Return whether an error is at a line that names one of some elements."""
    asked = re.compile(rf"\.({'|'.join(map(re.escape, elements))})\b") if elements else None
    return asked is not None and any(asked.search(place.text) for place in error.places)


def _python_files(path: Path) -> Iterator[Path]:
    """Yield the file itself, or the files below a folder that import Millpond; hidden folders are left out."""
    if not path.is_dir():
        yield path
        return
    for file in sorted(path.rglob("*.py")):
        hidden = any(part.startswith(".") or part == "__pycache__" for part in file.relative_to(path).parts)
        if not hidden and _imports_millpond(_parse_file(file)[1]):
            yield file


def _parse_file(file: Path) -> tuple[str, ast.Module]:
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


def _import_file(file: Path) -> types.ModuleType:
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


def _import_as(name: str, file: Path) -> types.ModuleType:
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


def _programs_of(module: types.ModuleType) -> list[type[ProgramBase]]:
    """Return the programs that a module defines, without bases that only others build on."""
    classes = [member for member in vars(module).values() if isinstance(member, type)]
    mine = (kind for kind in classes if issubclass(kind, ProgramBase) and kind.__module__ == module.__name__)
    own = list(dict.fromkeys(mine))
    bases = {base for program in own for base in program.__mro__[1:]}
    whole = [program for program in own if not abstract_methods(program)]
    return [program for program in whole if program not in bases or _has_entries(program)]


def _has_entries(program: type) -> bool:
    members = (member for base in program.__mro__ for member in vars(base).values())
    return any(getattr(member, "__millpond_entry__", False) for member in members)


def check_program(program: type[ProgramBase]) -> Checked:
    """Compile a program; if it is refused, find every error: at least one for each entry point that has any."""
    whole = _compiled(program)
    if isinstance(whole, Draft):
        gathered = {method.name: method.gathered for method in whole.methods if method.gathered}
        return Checked(program.__name__, [], gathered, copies=list(_copies(whole)), sequence=dict(whole.sequence))
    return Checked(program.__name__, _errors_of(program, whole))


def _copies(draft: Draft) -> Iterator[str]:
    """Say where an object of state is stored in a second place: when the row ends, it is two."""
    for method in (*draft.methods, *(with_copies(draft, method) for method in draft.whole)):
        for node, element, elsewhere in method.copies:
            place = method.source.place(node)
            yield f"{place.file}:{place.line}: stored as a copy in self.{element}, since it is also in {elsewhere}"


def _errors_of(program: type[ProgramBase], whole: MillpondError) -> list[MillpondError]:
    points, found = _points(program)
    sound: dict[str, EntryPoint] = {}
    for name, point in points.items():
        alone = _compiled(_with_entries(program, {name: point}))
        if isinstance(alone, Draft):
            sound[name] = point
            continue
        for error in _once([alone, *_independent(program, point)]):
            found.setdefault(str(error), error)
    # What one entry point can't be blamed for: they disagree, or the program itself is wrong.
    together = _compiled(_with_entries(program, sound)) if sound and found else None
    if isinstance(together, MillpondError):
        found.setdefault(str(together), together)
    return list(found.values()) or [whole]


def _points(program: type[ProgramBase]) -> tuple[dict[str, EntryPoint], dict[str, MillpondError]]:
    """Return the entry points whose signatures can be read, and why others can't."""
    points: dict[str, EntryPoint] = {}
    found: dict[str, MillpondError] = {}
    for name, member in _marked(program).items():
        try:
            if hasattr(member, HANDLER):
                points[name] = handler_entry(program, name, getattr(member, HANDLER))
                continue
            # In a class of its own: reading a program's signatures stops at the first that is wrong.
            points |= entry_points(type(program.__name__, (), {name: member}))
        except MillpondError as error:
            for each in (error, *_independent(program, EntryPoint(name, as_written(member), (), None))):
                found.setdefault(str(each), each)
    return points, found


def _independent(program: type[ProgramBase], point: EntryPoint) -> list[ProgramError]:
    """Return the errors of the single statements of an entry point, and of the helpers that it uses."""
    try:
        return independent_errors(_with_entries(program, {point.name: point}))
    except Exception:  # noqa: BLE001 - there is an error to tell already, and this was to find more of them
        return []


def _once(errors: Sequence[MillpondError]) -> list[MillpondError]:
    """Return errors in the order of their lines, without what is known of the statement that the first one is about."""
    first, *others = errors
    line = _line(first)
    kept = [first, *(error for error in others if line is None or _line(error) != line)]
    return sorted(kept, key=lambda error: _line(error) or ("", 0))


def _line(error: MillpondError) -> tuple[str, int] | None:
    return next(((place.file, place.line) for place in error.places), None)


def _compiled(program: type[ProgramBase]) -> Draft | MillpondError:
    try:
        return draft_program(program)
    except MillpondError as error:
        return error
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a bug of the compiler's and must be reported
        return _failed(program, error)


def _marked(program: type) -> dict[str, Any]:
    """Return the entry points of a class by name, whether their signatures can be read or not."""
    members: dict[str, Any] = {}
    for base in reversed(program.__mro__):
        members.update(vars(base))
    return {name: member for name, member in members.items() if hasattr(member, MARK) or hasattr(member, HANDLER)}


class _Some(dict[str, EntryPoint]):
    """Some of the entry points: only they are compiled, but the others are known to be entry points."""

    def __init__(self, points: dict[str, EntryPoint], names: Iterable[str]) -> None:
        super().__init__(points)
        self._names = frozenset(names)

    def __contains__(self, name: object) -> bool:
        return name in self._names


def _with_entries(program: type[ProgramBase], points: dict[str, EntryPoint]) -> type[ProgramBase]:
    """Return the same program with some of its entry points."""
    some = _Some(points, _marked(program))
    members: dict[str, Any] = {
        "__module__": program.__module__,
        "__qualname__": program.__qualname__,
        "__doc__": program.__doc__,
    }
    members["entries"] = classmethod(lambda _: some)
    return types.new_class(program.__name__, (program,), exec_body=lambda body: body.update(members))


def _failed(program: type, error: Exception) -> MillpondError:
    return SetupError(
        "MP717",
        f"the compiler failed on {program.__name__}",
        expected="a program or a refusal",
        found=f"{type(error).__name__}: {error}"[:200],
        hint="report it with the program: this is a bug",
    )


def _no_program(file: Path) -> MillpondError:
    return SetupError(
        "MP716",
        f"{file} has no program",
        expected="a class that derives from millpond.Program",
        found="none",
        hint="name the file that holds the program, or a folder to look through",
    )


def as_json(reports: Sequence[Report]) -> str:
    """Render reports as one JSON object."""
    shown = {
        "ok": exit_code(reports) == 0,
        "files": [
            {
                "file": report.file,
                "errors": [_error(error) for error in report.errors],
                "programs": [
                    {
                        "name": program.name,
                        "ok": not program.errors,
                        "errors": [_error(error) for error in program.errors],
                        "gathered": program.gathered,
                        "sequence": program.sequence,
                        "copies": program.copies,
                        "trusted": program.trusted,
                    }
                    for program in report.programs
                ],
            }
            for report in reports
        ],
    }
    return json_of(shown)


def _error(error: MillpondError) -> dict[str, Any]:
    places = [
        {"file": place.file, "line": place.line, "column": place.column + 1, "text": place.text, "width": place.width}
        for place in error.places
    ]
    return {
        "code": error.code,
        "summary": error.summary,
        "places": places,
        "expected": error.expected,
        "found": error.found,
        "hint": error.hint,
    }


def as_text(reports: Sequence[Report]) -> Iterator[tuple[str, bool]]:
    """Yield the lines of the reports for people, each with whether it tells of something bad."""
    for report in reports:
        yield report.file, False
        for error in report.errors:
            yield str(error), True
        for program in report.programs:
            if program.errors:
                yield f"  {program.name}: refused", True
            else:
                trust = f" (taken on trust: {', '.join(program.trusted)})" if program.trusted else ""
                yield f"  {program.name}: ok{trust}", False
            yield from ((f"    {entry} runs gathered: {why}", False) for entry, why in program.gathered.items())
            yield from ((f"    {entry} runs in sequence: {why}", False) for entry, why in program.sequence.items())
            yield from ((f"    warning: {copy}", False) for copy in program.copies)
            for error in program.errors:
                yield str(error), True
    programs = [program for report in reports for program in report.programs]
    refused = sum(1 for program in programs if program.errors)
    errors = sum(len(program.errors) for program in programs) + sum(len(report.errors) for report in reports)
    yield f"programs: {len(programs)}, refused: {refused}, errors: {errors}", False
