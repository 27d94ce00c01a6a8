"""What gives another result when it is run again: clocks, chance, identities, and the world outside.

A name is judged by the object behind it, whatever it is called. Functions and classes of the program's own package are
looked into, all the way down, as far as their code names things directly; others are taken as they are.
"""

from __future__ import annotations

import ast
import builtins
import bz2
import datetime
import dis
import functools
import gzip
import io
import lzma
import operator
import os
import pathlib
import random
import types
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

from millpond.compiler.front.meanings import Meanings
from millpond.compiler.front.scope import MISSING, Scope
from millpond.program.semantics.ambient import as_written
from millpond.program.semantics.epoch_time import moment_of

_CLOCK: Final = "the clock differs at every run; self.now does not"
_RANDOM: Final = "chance differs at every run; self.random does not"
_FILES: Final = "files may have changed when the row is run again"
_NETWORK: Final = "the network may answer otherwise when the row is run again"
_MACHINE: Final = "machines and processes differ"
_CODE: Final = "the compiler can't see what it does"
_HASH: Final = "hashes of text differ between processes; those of zlib.crc32 and hashlib do not"
_PARALLEL: Final = "what runs beside the row has no order"

_MODULES: Final = {
    "time": _CLOCK,
    "random": _RANDOM,
    "_random": _RANDOM,
    "secrets": _RANDOM,
    "numpy.random": _RANDOM,
    **dict.fromkeys(("shutil", "tempfile", "glob", "fileinput", "shelve", "dbm", "sqlite3"), _FILES),
    **dict.fromkeys(("linecache", "zipfile", "tarfile", "millpond.front.opened"), _FILES),
    **dict.fromkeys(("socket", "_socket", "ssl", "select", "selectors", "socketserver"), _NETWORK),
    **dict.fromkeys(("urllib.request", "http.client", "http.server", "ftplib", "smtplib", "imaplib"), _NETWORK),
    **dict.fromkeys(("poplib", "telnetlib", "xmlrpc.client", "requests", "httpx", "aiohttp", "urllib3"), _NETWORK),
    **dict.fromkeys(("boto3", "botocore", "grpc", "pymongo", "redis", "psycopg", "psycopg2", "kafka"), _NETWORK),
    **dict.fromkeys(("platform", "getpass", "pwd", "grp", "resource", "psutil", "gc", "tracemalloc"), _MACHINE),
    **dict.fromkeys(("threading", "_thread", "multiprocessing", "concurrent.futures", "asyncio"), _PARALLEL),
    **dict.fromkeys(("subprocess", "_posixsubprocess", "signal", "sched"), _PARALLEL),
    **dict.fromkeys(("weakref", "_weakref"), "when objects go away differs at every run"),
    **dict.fromkeys(("importlib", "runpy", "ctypes"), _CODE),
}
_FUNCTIONS: Final[tuple[tuple[Any, str], ...]] = (
    (builtins.id, "addresses differ at every run"),
    (builtins.hash, _HASH),
    (builtins.open, _FILES),
    *((function, _FILES) for function in (io.open_code, io.FileIO, gzip.open, bz2.open, lzma.open)),
    (gzip.compress, _CLOCK),
    *((kind, f"{_FILES}; pathlib.PurePath only computes") for kind in (pathlib.Path, pathlib.PosixPath)),
    (builtins.input, "nobody answers on a worker"),
    (builtins.breakpoint, "nobody answers on a worker"),
    (builtins.exec, _CODE),
    (builtins.eval, _CODE),  # noqa: S307
    (builtins.compile, _CODE),
    (builtins.globals, _CODE),
    (builtins.locals, _CODE),
    (builtins.vars, _CODE),
    (builtins.__import__, _CODE),
    (os.environ, _MACHINE),
    (uuid.uuid1, "it is made of the clock and the machine"),
    (uuid.uuid4, "it is made of chance; uuid.UUID(int=self.random.getrandbits(128)) is made of the row"),
    (uuid.getnode, _MACHINE),
)
_OS_PURE: Final = frozenset(("fspath", "fsencode", "fsdecode", "PathLike", "sep", "linesep", "pathsep", "curdir"))
_OS_PATH_ASKS: Final = frozenset(
    (
        *("exists", "lexists", "isfile", "isdir", "islink", "ismount", "samefile"),
        *("getsize", "getmtime", "getatime", "getctime"),
        *("abspath", "realpath", "relpath", "expanduser", "expandvars"),
    )
)
_PATH_ASKS: Final = frozenset(name for name in vars(pathlib.Path) if not name.startswith("_")) - frozenset(
    name for base in (pathlib.PurePath, pathlib.PurePosixPath) for name in vars(base)
)
_CHANCE: Final = random.Random  # noqa: S311
_NOW: Final = frozenset(("now", "today", "utcnow"))


def why_undetermined(node: ast.expr, scope: Scope) -> str:
    """Why a name or an attribute has no place in a method that may be run again, or "" if it has."""
    meaning = scope.resolve(node)
    if meaning is MISSING:
        return _of_instance(node, scope)
    if isinstance(node, ast.Attribute):
        why = _of_member(scope.resolve(node.value), node.attr)
        if why:
            return why
    return _of_meaning(meaning) or _inside(meaning, str(scope.module.get("__name__", "")), set())


def why_undetermined_through(node: ast.AST, meanings: Meanings, scope: Scope, moments: frozenset[str]) -> str:
    """Why something has no place that has no name of its own: a member of a variable, or one that is asked by its text.

    `moments` are the variables that hold a date or a time.
    """
    match node:
        case ast.Attribute(value=owner, attr=name):
            return _of_any_member(meanings.of(owner), name) or _of_moment(owner, name, scope, moments)
        case ast.Call(func=callee, args=[ast.Constant(value=str(path)), *_]) if _asks(scope.resolve(callee)):
            return _of_path(path)
        case ast.Call(func=callee, args=[owner, asked, *_]) if scope.resolve(callee) is getattr:
            found = meanings.of(owner)
            if isinstance(asked, ast.Constant):
                name = str(asked.value)
                return _of_any_member(found, name) or _of_moment(owner, name, scope, moments)
            hidden = any(_of_member(one, name) for one in found for name in dir(one))
            return _CODE if hidden else ""
    return ""


def _of_any_member(owners: list[object], name: str) -> str:
    if name == "__hash__":
        return _HASH
    for owner in owners:
        member = getattr(owner, name, None) if isinstance(owner, types.ModuleType | type) else None
        why = _of_member(owner, name) or ("" if member is None else _of_meaning(member))
        if why:
            return why
    return ""


def _of_moment(owner: ast.AST, name: str, scope: Scope, moments: frozenset[str]) -> str:
    """Why a member of a date or a time has no place: each of them can be asked for another one."""
    if name not in _NOW:
        return ""
    match owner:
        case ast.Name(id=variable):
            return _CLOCK if variable in moments else ""
        case ast.Call(func=callee):
            made = scope.resolve(callee)
            is_moment = made is moment_of or (isinstance(made, type) and issubclass(made, datetime.date))
            return _CLOCK if is_moment else ""
    return ""


def _asks(meaning: Any) -> bool:
    return meaning is operator.attrgetter or meaning is operator.methodcaller


def _of_path(path: str) -> str:
    """Why a member of anything has no place that is asked for by its text."""
    *_, last = path.split(".")
    return _CLOCK if last in _NOW else _HASH if last == "__hash__" else ""


def _of_instance(node: ast.expr, scope: Scope) -> str:
    """Why an attribute of an object of the module has no place: a generator of numbers, a path, the environment."""
    if not isinstance(node, ast.Attribute):
        return ""
    owner = scope.resolve(node.value)
    return "" if owner is MISSING else _of_member(owner, node.attr)


def _of_member(owner: Any, name: str) -> str:
    """Why `owner.name` has no place, where that is more than what the member itself tells."""
    if isinstance(owner, type) and issubclass(owner, datetime.date) and name in _NOW:
        return _CLOCK
    if isinstance(owner, type) and issubclass(owner, pathlib.Path) and name in ("cwd", "home"):
        return _FILES
    if isinstance(owner, pathlib.Path) and name in _PATH_ASKS:
        return _FILES
    if isinstance(owner, types.ModuleType):
        return _of_module_member(owner.__name__, name)
    return ""


def _of_module_member(module: str, name: str) -> str:
    if module in ("os", "posix", "nt"):
        known = name in _OS_PURE or name == "path" or name.isupper()
        return "" if known else _RANDOM if name in ("urandom", "getrandom") else _MACHINE
    if module in ("posixpath", "ntpath", "genericpath"):
        return _FILES if name in _OS_PATH_ASKS else ""
    if module == "sys":
        # Numbers and limits of the interpreter are the same on all workers; the rest is its inside.
        return "" if name in ("maxsize", "maxunicode", "float_info", "byteorder", "intern") else _MACHINE
    return ""


def _of_meaning(meaning: Any) -> str:
    """Why an object has no place, whatever it is called."""
    while isinstance(meaning, functools.partial):
        meaning = meaning.func
    if isinstance(meaning, _CHANCE) or isinstance(getattr(meaning, "__self__", None), _CHANCE):
        return _RANDOM
    if isinstance(meaning, types.ModuleType):
        return _of_module(meaning.__name__)
    for function, why in _FUNCTIONS:
        if meaning is function:
            return why
    if isinstance(meaning, operator.attrgetter | operator.methodcaller):
        asked = meaning.__reduce__()[1]
        return _of_path(asked[0]) if isinstance(asked, tuple) and asked and isinstance(asked[0], str) else ""
    if isinstance(getattr(meaning, "__self__", None), type):
        why = _of_member(meaning.__self__, getattr(meaning, "__name__", ""))
        if why:
            return why
    home, name = getattr(meaning, "__module__", None), getattr(meaning, "__name__", "")
    if not callable(meaning) or not isinstance(home, str):
        return _numpy_generator(meaning)
    return _of_module_member(home, name) or _of_module(home) or _numpy_generator(meaning)


def _numpy_generator(meaning: Any) -> str:
    owner = getattr(meaning, "__self__", meaning)
    home = getattr(type(owner), "__module__", "")
    return _RANDOM if isinstance(home, str) and home.startswith("numpy.random") else ""


def _of_module(home: str) -> str:
    """Why all that a module, or one that it is in, has to give has no place."""
    while home and home not in _MODULES:
        home = home.rpartition(".")[0]
    return _MODULES.get(home, "")


def _inside(meaning: Any, module: str, seen: set[int]) -> str:
    """Why a function or a class of the program's own package has no place: what its code names."""
    if id(meaning) in seen or not _is_own(meaning, module):
        return ""
    seen.add(id(meaning))
    for function in _functions_of(meaning):
        for text, named, member in _named(function):
            why = _of_member(named, member) if member else _of_meaning(named)
            if why:
                return f"it uses {text}: {why}"
            why = "" if member else _inside(named, module, seen)
            if why:
                return why
    return ""


def _is_own(meaning: Any, module: str) -> bool:
    home = getattr(meaning, "__module__", None)
    return isinstance(home, str) and home.partition(".")[0] == module.partition(".")[0] and home != "builtins"


def _functions_of(meaning: Any) -> Iterator[types.FunctionType]:
    # An entry point that is called through its class, as `Base.go(self, x)`.
    meaning = as_written(meaning)
    while not isinstance(meaning, types.FunctionType) and hasattr(meaning, "__wrapped__"):
        meaning = meaning.__wrapped__
    if isinstance(meaning, types.FunctionType):
        yield meaning
    elif isinstance(meaning, type):
        for name in ("__new__", "__init__", "__post_init__"):
            member = vars(meaning).get(name)
            if isinstance(member, staticmethod):
                member = member.__func__
            if isinstance(member, types.FunctionType):
                yield member


def _named(function: types.FunctionType) -> Iterator[tuple[str, Any, str]]:
    """What a function's code names outside itself: the text, the object (of `a.b`: a, then b), and the member asked."""
    outside: dict[str, Any] = {**vars(builtins), **function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            outside[name] = cell.cell_contents
        except ValueError:
            continue
    for code in _codes(function.__code__):
        yield from _chains(code, outside)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


_READS: Final = frozenset(("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"))
_VARIABLES: Final = frozenset(("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW"))
_MEMBERS: Final = frozenset(("LOAD_ATTR", "LOAD_METHOD"))
_BETWEEN: Final = frozenset(("CACHE", "PUSH_NULL", "EXTENDED_ARG"))


def _chains(code: types.CodeType, outside: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """The dotted names that code reads, as far as they lead through modules, classes and variables bound to them."""
    text, meaning, before = "", MISSING, MISSING
    known: dict[str, Any] = {}
    for instruction in dis.get_instructions(code):
        name = str(instruction.argval)
        if instruction.opname in _MEMBERS and name == "__hash__":
            yield "__hash__", hash, ""
        if instruction.opname in _MEMBERS and meaning is not MISSING:
            text = f"{text}.{name}"
            yield text, meaning, name
            inside = isinstance(meaning, types.ModuleType | type)
            meaning = getattr(meaning, name, MISSING) if inside else MISSING
        elif instruction.opname not in _BETWEEN:
            if meaning is not MISSING:
                yield text, meaning, ""
            if instruction.opname == "LOAD_CONST" and before is getattr and isinstance(instruction.argval, str):
                yield f"{text}.{name}", meaning, name
            if instruction.opname == "STORE_FAST":
                known[name] = meaning
            before = meaning
            text, meaning = name, _read(instruction.opname, name, outside, known)


def _read(operation: str, name: str, outside: Mapping[str, Any], known: Mapping[str, Any]) -> Any:
    """What an instruction gives, as far as it is outside the code or in a variable that was bound to it."""
    if operation in _VARIABLES:
        return known.get(name, MISSING)
    return outside.get(name, MISSING) if operation in _READS else MISSING
