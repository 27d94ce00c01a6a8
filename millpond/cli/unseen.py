r"""Programs out of a file that is not run: its declarations are read from the syntax tree, all else is a placeholder.

What happens here: names of Millpond and of some modules of the standard library are imported; state declarations, type
hints and literals are evaluated by hand; functions are compiled to code objects that nobody calls; classes are put
together from these. No statement, decorator, default or hint of the file is executed.

>>> text = "from millpond import *; print('not run')\nclass P(Program): m = Partitioned(Map[str, int])"
>>> seen = read_unseen("p.py", text, ast.parse(text))
>>> [(program.__name__, *program.elements().values()) for program in seen.programs]
[('P', Partitioned(Map[str, int]))]

Type hints and record classes out of syntax: evaluated by hand, from known types only.

>>> trusted = {}
>>> Hints({"Items": list}, trusted).of(ast.parse("dict[str, Items[int]]", mode="eval").body), trusted
(dict[str, list[int]], {})
"""

from __future__ import annotations

import abc
import ast
import builtins
import dataclasses
import enum
import importlib
import importlib.util
import sys
import sysconfig
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from millpond.errors import MillpondError, SetupError, SourcePlace
from millpond.program import Partial, Partitioned, ProgramBase, entry
from millpond.program.timers import on_timer
from millpond.program.windows import on_window
from millpond.windowing import count, tumbling

DECLARES: Final = (Partitioned, Partial)

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


class Unseen:
    """Stands for a value that only running the file would give."""

    def __init__(self, name: str, module: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = module

    def __call__(self, *_: object, **__: object) -> Any:
        """Say that there is a bug in Millpond: a placeholder is never called."""
        raise AssertionError(self.__name__)


@dataclass
class Seen:
    """What is known of a file: its programs, what was refused on the way, and the types taken on trust.

    `missing` are the elements that a program lacks since their declarations were refused.
    """

    programs: list[type[ProgramBase]] = field(default_factory=list)
    refused: dict[str, list[MillpondError]] = field(default_factory=dict)
    missing: dict[str, list[str]] = field(default_factory=dict)
    hidden: list[MillpondError] = field(default_factory=list)
    trusted: dict[str, None] = field(default_factory=dict)


def read_unseen(path: str, text: str, tree: ast.Module) -> Seen:
    """Find the programs of a parsed file without running it."""
    return _Reader(path, text, tree).read()


class _Reader:
    def __init__(self, path: str, text: str, tree: ast.Module) -> None:
        self._path = path
        self._lines = text.splitlines()
        self._tree = tree
        self._codes = dict(_codes(compile(tree, path, "exec", dont_inherit=True)))
        self._names: dict[str, Any] = {"__name__": "<not imported>", "__file__": path, "__builtins__": builtins}
        self._seen = Seen()
        self._hints = Hints(self._names, self._seen.trusted)

    def read(self) -> Seen:
        self._read_all(self._tree.body)
        return self._seen

    def _read_all(self, body: list[ast.stmt]) -> None:
        for statement in body:
            match statement:
                case ast.Import() | ast.ImportFrom():
                    self._import(statement)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    self._names[name] = self._function(statement, name)
                case ast.ClassDef(name=name):
                    self._names[name] = self._class(statement)
                case ast.If(test=test, orelse=orelse) if self._hints.reference(test) is False:
                    # TYPE_CHECKING: what is for type checkers alone is not there when the compiler asks for it.
                    self._read_all(orelse)
                case _:
                    self._assign(statement)
                    for inner in ("body", "orelse", "finalbody"):
                        self._read_all(getattr(statement, inner, []))
                    for handler in getattr(statement, "handlers", []):
                        self._read_all(handler.body)

    def _import(self, statement: ast.Import | ast.ImportFrom) -> None:
        for name, meaning in _import_trusted(statement):
            if name == "*":
                self._hide(statement, "names come from a `*` import", "the names themselves")
            else:
                self._names[name] = Unseen(name, str(meaning)) if isinstance(meaning, str) else meaning

    def _assign(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._names[name] = self._value(value, name)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self._names[name] = self._value(value, name)
            case _:
                for node in _stored(statement):
                    self._names.setdefault(node.id, Unseen(node.id, self._path))

    def _value(self, value: ast.expr, name: str) -> Any:
        """Return a literal, or a name for a type, or a placeholder."""
        try:
            return ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            found = self._hints.known(value)
            return Unseen(name, self._path) if found is None else found

    def _function(self, tree: ast.FunctionDef | ast.AsyncFunctionDef, qualified: str) -> Any:
        """Return a function with the right code and number of defaults; nothing is executed for it."""
        line = min([tree.lineno, *(decorator.lineno for decorator in tree.decorator_list)])
        code = self._codes.get((qualified, line))
        if code is None:
            return Unseen(tree.name, self._path)
        cells = tuple(types.CellType() for _ in code.co_freevars)
        defaults = tuple(self._value(default, "default") for default in tree.args.defaults)
        function = types.FunctionType(code, self._names, tree.name, defaults or None, cells)
        named = zip(tree.args.kwonlyargs, tree.args.kw_defaults, strict=True)
        function.__kwdefaults__ = {arg.arg: self._value(value, "default") for arg, value in named if value is not None}
        return function

    def _hint(self, function: Any, tree: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Give a function its hints; only those of entry points are ever read."""
        hinted = [arg for arg in ast.walk(tree.args) if isinstance(arg, ast.arg) and arg.annotation is not None]
        function.__annotations__ = {arg.arg: self._hints.of(arg.annotation) for arg in hinted if arg.annotation}
        if tree.returns is not None:
            function.__annotations__["return"] = self._hints.of(tree.returns)

    def _class(self, tree: ast.ClassDef) -> Any:
        bases = [self._hints.reference(base) for base in tree.bases]
        if any(isinstance(base, type) and issubclass(base, ProgramBase) for base in bases):
            return self._program(tree, bases)
        if any(isinstance(base, Unseen) and base.__name__.endswith("Program") for base in bases):
            self._hide(tree, f"the base of `{tree.name}` is in another module", "a class that derives from Program")
        made = self._hints.record(tree, bases, self._methods(tree))
        return Unseen(tree.name, self._path) if made is None else made

    def _methods(self, tree: ast.ClassDef) -> dict[str, Any]:
        """Return the plain methods of a class that is not a program; special ones might be called."""
        defs = [member for member in tree.body if isinstance(member, ast.FunctionDef) and not _is_special(member.name)]
        return {member.name: self._function(member, f"{tree.name}.{member.name}") for member in defs}

    def _program(self, tree: ast.ClassDef, bases: list[Any]) -> Any:
        if tree.keywords or tree.decorator_list or not all(isinstance(base, type) for base in bases):
            self._hide(tree, f"how `{tree.name}` is made can't be seen", "class Name(Program): and nothing else")
            return Unseen(tree.name, self._path)
        members: dict[str, Any] = {"__module__": self._names["__name__"], "__doc__": ast.get_docstring(tree)}
        refused = self._seen.refused.setdefault(tree.name, [])
        for statement in tree.body:
            try:
                members.update(self._members(statement, tree.name))
            except MillpondError as error:
                refused.append(self._placed(error, statement))
                self._seen.missing.setdefault(tree.name, []).extend(node.id for node in _stored(statement))
        try:
            program: type[ProgramBase] = type(tree.name, tuple(bases), members)
        except MillpondError as error:
            refused.append(self._placed(error, tree))
            return Unseen(tree.name, self._path)
        except TypeError as error:
            self._hide(tree, f"`{tree.name}` can't be put together", str(error))
            return Unseen(tree.name, self._path)
        self._seen.programs.append(program)
        return program

    def _members(self, statement: ast.stmt, owner: str) -> dict[str, Any]:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if _is_special(name):
                    return {}
                return {_mangled(name, owner): self._method(statement, owner)}
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return {_mangled(name, owner): self._declared(value, name)}
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                return {_mangled(name, owner): self._declared(value, name)}
            case ast.ClassDef(name=name):
                return {name: Unseen(name, self._path)}
        return {_mangled(node.id, owner): Unseen(node.id, self._path) for node in _stored(statement)}

    def _method(self, tree: ast.FunctionDef | ast.AsyncFunctionDef, owner: str) -> Any:
        function = member = self._function(tree, f"{owner}.{tree.name}")
        for decorator in reversed(tree.decorator_list):
            call = decorator if isinstance(decorator, ast.Call) else None
            meaning = self._hints.reference(call.func if call else decorator)
            if meaning in (staticmethod, classmethod, property):
                member = meaning(member)
            elif meaning is abc.abstractmethod:
                function.__isabstractmethod__ = True
            elif meaning is on_timer:
                self._hint(function, tree)
                return on_timer(member)
            elif meaning is on_window:
                self._hint(function, tree)
                # Which windows does not matter to the compiler, and only running the file tells.
                return on_window(tumbling("1 s"), many=count())(member)
            elif meaning is entry:
                options = self._options(call) if call else None
                self._hint(function, tree)
                mark: Callable[[Any], Any] = entry if options is None else entry(**options)
                member = mark(member)
        return member

    def _declared(self, value: ast.expr, name: str) -> Any:
        """Return a state element if this declares one, else a constant of the class."""
        match value:
            case ast.Call(func=func, args=[declared]) if self._hints.reference(func) in DECLARES:
                make: Callable[..., Any] = self._hints.reference(func)
                return make(self._hints.of(declared), **self._options(value))
        return self._value(value, name)

    def _options(self, call: ast.Call) -> dict[str, Any]:
        """Return the keywords of a call: literals, and names of what is not the file's own."""
        options: dict[str, Any] = {}
        for keyword in call.keywords:
            if keyword.arg == "ttl":
                # How long does not matter to the compiler, and is an expression that only running the file tells.
                options["ttl"] = timedelta(1)
                continue
            meaning = self._value(keyword.value, "option")
            if isinstance(meaning, Unseen):
                known = self._hints.reference(keyword.value)
                own = isinstance(known, types.FunctionType) and known.__globals__ is self._names
                meaning = meaning if known is None or own else known
            options[keyword.arg or ""] = meaning
        return options

    def _place(self, node: ast.stmt) -> SourcePlace:
        text = self._lines[node.lineno - 1] if node.lineno <= len(self._lines) else ""
        return SourcePlace(self._path, node.lineno, node.col_offset, text, max(1, len(text) - node.col_offset))

    def _placed(self, error: MillpondError, node: ast.stmt) -> MillpondError:
        """Return the same error at its line; a class that is imported fails without one."""
        return error.placed((self._place(node),))

    def _hide(self, node: ast.stmt, summary: str, expected: str) -> None:
        self._seen.hidden.append(
            SetupError(
                "MP719",
                f"this can't be seen without running the file: {summary}",
                places=(self._place(node),),
                expected=expected,
                hint="check the file without --no-import, if you trust it",
            )
        )


def _codes(code: types.CodeType) -> Iterator[tuple[tuple[str, int], types.CodeType]]:
    """Yield all functions' code in a module's, by qualified name and first line."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield (constant.co_qualname, constant.co_firstlineno), constant
            yield from _codes(constant)


def _stored(statement: ast.stmt) -> Iterator[ast.Name]:
    """Yield the names that a statement binds."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _mangled(name: str, owner: str) -> str:
    private = name.startswith("__") and not name.endswith("__") and owner.strip("_")
    return f"_{owner.lstrip('_')}{name}" if private else name


def _import_trusted(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Any]]:
    """Yield the names that an import binds, with what they stand for; a module's name if that is not imported."""
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
    """Return a trusted module, or None; a file that only has the name of one is not imported."""
    if name != _OWN and not name.startswith(f"{_OWN}.") and name not in TRUSTED:
        return None
    if name not in sys.modules and not _is_genuine(name):
        return None
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _is_genuine(name: str) -> bool:
    """Return whether a module that is not loaded yet would come from Python's own library or from this package."""
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


UNSEEN_TYPE: Final = int
"""What a type that can't be seen is taken for: it may be a key and a value, can't be changed, and travels."""

_SPECIAL: Final = (type(typing.Any), type(typing.Union), type(typing.List), type(typing.Callable))  # noqa: UP006
_ALIASES: Final = (types.GenericAlias, types.UnionType, type(typing.List[int]), type(typing.Union[int, str]))  # noqa: UP006, UP007


class Hints:
    """Evaluates hints over the names of a file; what it can't know is noted in `trusted` and taken for granted."""

    def __init__(self, names: dict[str, Any], trusted: dict[str, None]) -> None:
        self._names = names
        self._trusted = trusted
        self._made: set[int] = set()
        self._unseen = 0

    def of(self, node: ast.expr) -> Any:
        """Return the type that a hint stands for; the bare name itself if the file does not have it."""
        if isinstance(node, ast.Name) and node.id not in self._names and not hasattr(builtins, node.id):
            # A plain name can be looked up later without running anything, and is refused there.
            return node.id
        found = self.known(node)
        if found is None and not (isinstance(node, ast.Constant) and node.value is None):
            return self._trust(ast.unparse(node)[:60])
        return found

    def _trust(self, text: str) -> Any:
        self._trusted[text] = None
        self._unseen += 1
        return UNSEEN_TYPE

    def known(self, node: ast.expr) -> Any:
        """Return the type that an expression stands for, or None."""
        match node:
            case ast.Constant(value=str(text)):
                return self._quoted(text)
            case ast.Name() | ast.Attribute():
                found = self.reference(node)
                return found if _is_type(found) else None
            case ast.Subscript(value=base, slice=inside):
                return self._subscript(self.known(base), inside)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._joined(left, right)
        return None

    def reference(self, node: ast.expr) -> Any:
        """Return what a name, or an attribute of a module, stands for; None if it is unknown."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id, getattr(builtins, node.id, None))
        if isinstance(node, ast.Attribute):
            owner = self.reference(node.value)
            return getattr(owner, node.attr, None) if isinstance(owner, types.ModuleType) else None
        return None

    def _quoted(self, text: str) -> Any:
        try:
            inner = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        return self.of(inner) if not isinstance(inner, ast.Constant) else None

    def _joined(self, left: ast.expr, right: ast.expr) -> Any:
        known = self._unseen
        sides = [None if _is_none(side) else self._part(side) for side in (left, right)]
        if self._unseen > known and None not in sides:
            # A type that can't be seen together with another one is one that can't be seen.
            return UNSEEN_TYPE
        try:
            return typing.Union[sides[0], sides[1]]  # noqa: UP007 - the sides are known at run time only
        except TypeError:
            return None

    def _part(self, node: ast.expr) -> Any:
        """Return a type inside another; never a bare name, which would be evaluated as text."""
        found = self.of(node)
        if isinstance(found, str):
            return self._trust(found)
        return found

    def _subscript(self, base: Any, inside: ast.expr) -> Any:
        if base is None or id(base) in self._made:
            return None
        try:
            if base is typing.Literal:
                return base[ast.literal_eval(inside)]
            if isinstance(inside, ast.Tuple):
                return base[tuple(self._argument(part) for part in inside.elts)]
            return base[self._argument(inside)]
        except (TypeError, ValueError, SyntaxError):
            return None

    def _argument(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=None):
                return None
            case ast.Constant(value=value) if value is Ellipsis:
                return Ellipsis
            case ast.List(elts=parts):
                return [self._argument(part) for part in parts]
            case ast.Tuple(elts=[]):
                return ()
        return self._part(node)

    def record(self, tree: ast.ClassDef, bases: list[Any], methods: dict[str, Any]) -> Any:
        """Return a class of the file as a type: a dataclass, a named tuple, an enum or a plain class; else None."""
        fields = [(s.target.id, s.annotation, s.value) for s in tree.body if _is_field(s)]  # type: ignore[attr-defined]
        try:
            decorators = [self._decorator(decorator) for decorator in tree.decorator_list]
            made = self._made_of(tree, bases, fields, decorators, methods)
        except (TypeError, ValueError, AttributeError):
            made = None
        if made is not None:
            self._made.add(id(made))
        return made

    def _made_of(
        self,
        tree: ast.ClassDef,
        bases: list[Any],
        fields: list[tuple[str, ast.expr, ast.expr | None]],
        decorators: list[tuple[Any, dict[str, Any]]],
        methods: dict[str, Any],
    ) -> Any:
        if bases == [typing.NamedTuple] and not decorators:
            make: Callable[..., Any] = typing.NamedTuple
            return make(tree.name, [(name, self._part(hint)) for name, hint, _ in fields])
        if bases and all(isinstance(base, type) and issubclass(base, enum.Enum) for base in bases):
            targets = [s.targets[0] for s in tree.body if isinstance(s, ast.Assign)]
            members = {target.id: target.id for target in targets if isinstance(target, ast.Name)}
            return enum.Enum(tree.name, members)
        known = all(base is object or id(base) in self._made or base in (Exception, ValueError) for base in bases)
        if not known or tree.keywords or any(meaning is not dataclasses.dataclass for meaning, _ in decorators):
            return None
        body: dict[str, Any] = {**methods, "__annotations__": {name: self._part(hint) for name, hint, _ in fields}}
        if decorators:
            body |= {name: _default(value) for name, _, value in fields if value is not None}
        made = type(tree.name, tuple(bases), body)
        return dataclasses.dataclass(**decorators[0][1])(made) if decorators else made

    def _decorator(self, node: ast.expr) -> tuple[Any, dict[str, Any]]:
        call = node if isinstance(node, ast.Call) else None
        meaning = self.reference(call.func if call else node)
        keywords = call.keywords if call else []
        return meaning, {str(word.arg): ast.literal_eval(word.value) for word in keywords}


def _default(value: ast.expr) -> Any:
    """Return a default that says that there is one; no instance is ever made."""
    try:
        literal = ast.literal_eval(value)
        return literal if literal.__hash__ is not None else dataclasses.field(default=None)
    except ValueError:
        return dataclasses.field(default=None)


def _is_field(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_type(meaning: Any) -> bool:
    return isinstance(meaning, (type, *_SPECIAL, *_ALIASES))
