"""Methods in sequence whose plainest accesses to state go straight to the entries, without a call in between.

What stands in for `self.m[k]` looks whether nothing speaks against it, which is a few comparisons; in every other case
the access is the one that was written. So there is no second meaning: only what the entries would find out themselves
at the cost of a call is found out in place.

There are two codes of each method: one that notes what it changes, and a quick one for as long as no row has raised.

>>> tree = ast.parse("def owed(self, name): return self.debts[name] + 1").body[0]
>>> made = _Direct({"debts": Plain(0, str, holds_objects=False, scalars=True)}, "self", None).method(tree)
>>> print(ast.unparse(made.body[0].value.left.test))
direct_type(name) is direct_0_key and (direct_t := direct_0_get(name, direct_missing)) is not direct_missing
>>> print(ast.unparse(made.body[0].value.left.body), "or", ast.unparse(made.body[0].value.left.orelse))
direct_t or self.debts[name]
"""

from __future__ import annotations
import __future__

import ast
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from millpond.compiler.front.source import parse_function
from millpond.errors import ProgramError
from millpond.program import Element
from millpond.state.containers.ondemand import MISSING
from millpond.state.expiry import AgedType
from millpond.state.sequence.entries import exact_type
from millpond.state.timers import TimersType

_BEGIN: Final = "direct_"
_SEES_LOCALS: Final = frozenset(("locals", "vars", "dir", "eval", "exec", "globals"))


@dataclass(frozen=True, slots=True)
class Plain:
    """An element whose entries can be reached directly: its number, the type of its keys, and what its values are."""

    number: int
    key: Any
    holds_objects: bool
    scalars: bool

    def name(self, what: str) -> str:
        """Return the name of something of the element in the code of a method."""
        return f"{_BEGIN}{self.number}_{what}"


@dataclass(frozen=True, slots=True)
class Sure:
    """What is sure of a method and saves looks: `columns` have values of their types, `fitting` elements get what fits.

    If it `nests`, an entry point of the program may call one, and what that does may be undone by itself.
    """

    columns: Mapping[str, Any] = field(default_factory=dict)
    fitting: frozenset[str] = frozenset()
    nests: bool = True


@dataclass(frozen=True, slots=True)
class DirectCode:
    """The code of a method, and the elements that it reaches directly, by their numbers in it.

    `keys` are the columns that are keys of elements, as pairs of an element and a column.
    """

    code: types.CodeType
    elements: tuple[str, ...]
    keys: tuple[tuple[str, str], ...] = ()

    def bound(self, function: types.FunctionType, reached: Mapping[str, Mapping[str, Any]]) -> types.FunctionType:
        """Return the method over entries: by element, what its accesses use."""
        given: dict[str, Any] = {f"{_BEGIN}type": type, f"{_BEGIN}missing": MISSING}
        for number, element in enumerate(self.elements):
            given |= {f"{_BEGIN}{number}_{what}": value for what, value in reached[element].items()}
        own = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        cells = tuple(own[name] if name in own else types.CellType(given[name]) for name in self.code.co_freevars)
        made = types.FunctionType(self.code, function.__globals__, function.__name__, function.__defaults__, cells)
        made.__kwdefaults__ = function.__kwdefaults__
        made.__qualname__ = function.__qualname__
        return made


@dataclass(frozen=True, slots=True)
class TwoCodes:
    """The code that notes what rows change, and the `quick` one, whose rows are undone all at once."""

    noting: DirectCode
    quick: DirectCode


def direct_elements(elements: Mapping[str, Element]) -> dict[str, Plain]:
    """Return the elements whose entries can be reached directly."""
    found: dict[str, Plain] = {}
    for name, element in elements.items():
        kind = element.type
        special = element.partial or element.ttl is not None or isinstance(kind, AgedType | TimersType)
        if not special and kind.is_dict and exact_type(kind.key_hint) is not None:
            objects = kind.holds_objects and not kind.values.immutable
            found[name] = Plain(len(found), kind.key_hint, objects, bool(kind.values.scalars))
    return found


def direct_codes(function: types.FunctionType, elements: Mapping[str, Element], sure: Sure) -> TwoCodes | None:
    """Return the codes of a method with direct accesses; None if it has none, or can't be written anew."""
    noting = _direct_code(function, elements, None)
    quick = None if noting is None else _direct_code(function, elements, sure)
    return None if noting is None or quick is None else TwoCodes(noting, quick)


def _direct_code(function: types.FunctionType, elements: Mapping[str, Element], sure: Sure | None) -> DirectCode | None:
    plain = direct_elements(elements)
    taken = {*function.__code__.co_names, *function.__code__.co_varnames, *function.__code__.co_freevars}
    if not plain or not function.__code__.co_argcount or not taken.isdisjoint(_SEES_LOCALS):
        return None
    if any(name.startswith(_BEGIN) for name in taken):
        return None
    try:
        _, tree = parse_function(function, function.__qualname__)
    except ProgramError:
        return None
    program = function.__code__.co_varnames[0]
    if not isinstance(tree, ast.FunctionDef) or _is_rebound(tree, program):
        return None
    rewriting = _Direct(plain, program, sure)
    made = rewriting.method(tree)
    if not rewriting.count:
        return None
    names = {element.number: name for name, element in plain.items()}
    keys = tuple(sorted((names[number], column) for number, column in rewriting.keys))
    return DirectCode(_compiled(made, function), tuple(plain), keys)


def _is_rebound(tree: ast.FunctionDef, program: str) -> bool:
    """Whether the name of the program may stand for anything else somewhere."""
    first = (*tree.args.posonlyargs, *tree.args.args)[0]
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if name == program:
                return True
            case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name) if name == program:
                return True
            case ast.arg(arg=name) if name == program and node is not first:
                return True
    return False


def _compiled(tree: ast.FunctionDef, function: types.FunctionType) -> types.CodeType:
    """Compile a method inside a function that has all its free names, and return its code alone."""
    tree.decorator_list, tree.returns = [], None
    for node in ast.walk(tree.args):
        if isinstance(node, ast.arg):
            node.annotation = None
    tree.args.defaults = [ast.Constant(None) for _ in tree.args.defaults]
    tree.args.kw_defaults = [None if one is None else ast.Constant(None) for one in tree.args.kw_defaults]
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id.startswith(_BEGIN)]
    own = {node.id for node in named if isinstance(node.ctx, ast.Store)}
    free = sorted({*function.__code__.co_freevars, *(node.id for node in named)} - own)
    arguments = ast.arguments(
        posonlyargs=[], args=[ast.arg(name) for name in free], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    around = ast.FunctionDef(name="around", args=arguments, body=[tree], decorator_list=[])
    module = ast.fix_missing_locations(ast.Module([around], []))
    flags = function.__code__.co_flags & __future__.annotations.compiler_flag
    whole = compile(module, function.__code__.co_filename, "exec", flags, dont_inherit=True)
    code = _inner(_inner(whole, "around"), tree.name)
    return code.replace(co_name=function.__code__.co_name, co_qualname=function.__code__.co_qualname)


def _inner(code: types.CodeType, name: str) -> types.CodeType:
    return next(one for one in code.co_consts if isinstance(one, types.CodeType) and one.co_name == name)


class _Direct(ast.NodeTransformer):
    """Puts direct accesses in the place of the plainest ones: quick ones if something is `sure` of the method."""

    def __init__(self, elements: Mapping[str, Plain], program: str, sure: Sure | None) -> None:
        self._elements = elements
        self._program = program
        self._quick = sure is not None
        self._sure = sure or Sure()
        self._fitting = {elements[name].number for name in self._sure.fitting if name in elements}
        self._columns: dict[str, Any] = {}
        self._bound: set[str] = set()
        self.keys: set[tuple[int, str]] = set()
        self.count = 0

    def method(self, tree: ast.FunctionDef) -> ast.FunctionDef:
        """Rewrite the body of a method."""
        removed = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)}
        caught = {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)}
        self._bound = {node.arg for node in ast.walk(tree.args) if isinstance(node, ast.arg)} - removed - caught
        bound = {
            node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }
        inner = {node.arg for one in tree.body for node in ast.walk(one) if isinstance(node, ast.arg)}
        other = {name for node in ast.walk(tree) for name in _other_names(node)}
        self._columns = {
            name: kind for name, kind in self._sure.columns.items() if name not in bound | inner | caught | other
        }
        tree.body = [made for statement in tree.body for made in self._statement(statement)]
        return tree

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        made = self.visit(node)
        return made if isinstance(made, list) else [made]

    # Names mean something else there, or a variable more would be seen.
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Leave a function inside as it is."""
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """Leave a function inside as it is."""
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Leave a class inside as it is."""
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """Leave a function inside as it is."""
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """Leave what is walked over as it is: nothing can be bound there."""
        node.ifs = [self.visit(one) for one in node.ifs]
        return node

    # --- reading

    def _element(self, node: ast.AST) -> Plain | None:
        """Return the element that an expression is, if it is `self.name`."""
        match node:
            case ast.Attribute(value=ast.Name(id=self._program), attr=name, ctx=ast.Load()):
                return self._elements.get(name)
        return None

    def _key(self, element: Plain, key: ast.expr) -> tuple[list[ast.expr], ast.expr]:
        """Return what looks whether a key is of its type, and the key from then on: a name, to which it is bound."""
        if self._is_sure(element, key):
            assert isinstance(key, ast.Name)
            self.keys.add((element.number, key.id))
            return [], key
        again = key
        if not isinstance(key, ast.Name | ast.Constant):
            # A key that lies inside of it has a name of its own.
            depth = sum(isinstance(node, ast.Subscript | ast.Call | ast.Compare) for node in ast.walk(key))
            again = _name(f"{_BEGIN}k{depth}")
            key = ast.NamedExpr(ast.Name(again.id, ast.Store()), self.visit(key))
        kind = ast.Compare(_call(_name(f"{_BEGIN}type"), key), [ast.Is()], [_name(element.name("key"))])
        return [kind], again

    def _is_sure(self, element: Plain, key: ast.expr) -> bool:
        """Whether a key is a column of the type of the element's keys."""
        return isinstance(key, ast.Name) and self._columns.get(key.id, element) is element.key

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Rewrite `self.m.get(k)` and `self.m.get(k, default)`."""
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="get" | "pop" as how), args=[key], keywords=[]):
                rest = list[ast.expr]()
            case ast.Call(func=ast.Attribute(value=owner, attr="get" | "pop" as how), args=[key, default], keywords=[]):
                rest = [default]
            case _:
                return self.generic_visit(node)
        element = self._element(owner)
        # What is the default is written twice.
        if element is None or isinstance(key, ast.Starred) or not all(map(_is_short, rest)):
            return self.generic_visit(node)
        tests, key = self._key(element, key)
        if how == "pop":
            # What the base has must be known: if it has the entry, it is to be removed there.
            tests += [*self._free(element), _in(element, "asked", key), *self._changing(element, key)]
            taken = _call(_name(element.name("pop")), key, *rest)
            return self._either(node, tests, taken, _call(node.func, key, *rest))
        slow, default = _call(node.func, key, *rest), rest[0] if rest else ast.Constant(None)
        if not self._is_bound(default, key) or (element.holds_objects and not self._quick):
            fast: ast.expr = _call(_name(element.name("get")), key, default)
            asked = self._quick or not element.holds_objects
            tests += [*([_in(element, "asked", key)] if asked else []), *self._touched(element, key)]
            return self._either(node, tests, fast, slow)
        # Most entries are there, and each look costs more than all else.
        tests += self._free(element) if element.holds_objects else []
        found = self._all([self._there(element, key), *self._marked(element, key)])
        fast = ast.IfExp(found, _name(f"{_BEGIN}t"), ast.IfExp(_in(element, "asked", key), default, slow))
        return self._either(node, tests, fast, slow)

    @staticmethod
    def _there(element: Plain, key: ast.expr) -> ast.expr:
        """Return what looks whether an entry is held, and binds it."""
        nothing = _name(f"{_BEGIN}missing")
        found = ast.NamedExpr(ast.Name(f"{_BEGIN}t", ast.Store()), _call(_name(element.name("get")), key, nothing))
        return ast.Compare(found, [ast.IsNot()], [nothing])

    @staticmethod
    def _all(tests: list[ast.expr]) -> ast.expr:
        return ast.BoolOp(ast.And(), tests) if len(tests) > 1 else tests[0]

    def _free(self, element: Plain) -> list[ast.expr]:
        """Return what looks whether notes are those of no part of a row."""
        return [] if self._quick and not self._sure.nests else [_name(element.name("free"))]

    def _is_bound(self, default: ast.expr, key: ast.expr) -> bool:
        """Whether a default has a value, so that nobody can tell whether it was looked up."""
        names = {node.id for node in ast.walk(default) if isinstance(node, ast.Name)}
        return names <= self._bound | ({key.id} if isinstance(key, ast.Name) else set())

    def _touched(self, element: Plain, key: ast.expr) -> list[ast.expr]:
        """Return what looks whether it is noted what an object was, and marks it as touched then."""
        if not element.holds_objects:
            return []
        noted = [] if self._quick else [self._noted(element, key)]
        return [*self._free(element), *noted, *self._marked(element, key)]

    def _marked(self, element: Plain, key: ast.expr) -> list[ast.expr]:
        """Return what marks an object as met, and as touched where it must become a value when the row ends."""
        if not element.holds_objects:
            return []
        marks = [*(["met"] if self._quick else []), *(["mark"] if element.number not in self._fitting else [])]
        return [ast.Compare(_call(_name(element.name(mark)), key), [ast.Is()], [ast.Constant(None)]) for mark in marks]

    def _noted(self, element: Plain, key: ast.expr) -> ast.expr:
        """Return what looks whether it is noted what an object was, and notes it where that is known."""
        note, nothing = _name(element.name("note")), _name(f"{_BEGIN}missing")
        code = _call(note, key, _call(_name(element.name("code")), key))
        has = _in(element, "held", key)
        coded = [_in(element, "coded", key), has, ast.Compare(code, [ast.IsNot()], [ast.Constant(None)])]
        gone = ast.Compare(_call(note, key, nothing), [ast.Is()], [nothing])
        absent = [_in(element, "asked", key), ast.UnaryOp(ast.Not(), has), gone]
        ways = [_in(element, "noted", key), ast.BoolOp(ast.And(), coded), ast.BoolOp(ast.And(), absent)]
        return ast.BoolOp(ast.Or(), ways)

    def _changing(self, element: Plain, key: ast.expr) -> list[ast.expr]:
        """Return what looks whether an entry was met, and notes what it is."""
        if self._quick:
            return self._marked(element, key)
        if element.holds_objects:
            return [self._noted(element, key)]
        noted = _call(_name(element.name("log")), ast.Tuple([key, _name(f"{_BEGIN}t")], ast.Load()))
        return [
            ast.BoolOp(ast.Or(), [self._there(element, key), _in(element, "asked", key)]),
            ast.Compare(noted, [ast.Is()], [ast.Constant(None)]),
        ]

    def _either(self, node: ast.AST, tests: list[ast.expr], fast: ast.expr, slow: ast.expr) -> ast.AST:
        self.count += 1
        made: ast.AST = _at(ast.IfExp(self._all(tests), fast, slow) if tests else fast, node)
        return made

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Rewrite `self.m[k]` where it is read."""
        element = self._element(node.value)
        if element is None or not isinstance(node.ctx, ast.Load) or isinstance(node.slice, ast.Slice):
            return self.generic_visit(node)
        tests, key = self._key(element, node.slice)
        if self._quick:
            tests += [*(self._free(element) if element.holds_objects else []), self._there(element, key)]
            tests += self._marked(element, key)
        else:
            tests += [*self._touched(element, key), self._there(element, key)]
        return self._either(node, tests, _name(f"{_BEGIN}t"), ast.Subscript(node.value, key, ast.Load()))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Rewrite `k in self.m` and `k not in self.m`."""
        match node:
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as how], comparators=[owner]):
                element = self._element(owner)
                if element is not None:
                    tests, key = self._key(element, left)
                    fast = ast.Compare(key, [how], [_name(element.name("held"))])
                    tests.append(_in(element, "asked", key))
                    return self._either(node, tests, fast, ast.Compare(key, [how], [owner]))
        return self.generic_visit(node)

    # --- writing

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        """Rewrite `self.m[k] = value`."""
        if not any(isinstance(target, ast.Subscript) and self._element(target.value) for target in node.targets):
            return self.generic_visit(node)
        value = f"{_BEGIN}v"
        made: list[ast.stmt] = [ast.Assign([ast.Name(value, ast.Store())], self.visit(node.value))]
        for target in node.targets:
            element = self._element(target.value) if isinstance(target, ast.Subscript) else None
            if element is None or not isinstance(target, ast.Subscript) or isinstance(target.slice, ast.Slice):
                made.append(ast.Assign([self.visit(target)], _name(value)))
            else:
                made += self._write(element, target, value)
        return [_at(one, node) for one in made]

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.stmt]:
        """Rewrite `self.m[k] += value`."""
        target = node.target
        element = self._element(target.value) if isinstance(target, ast.Subscript) else None
        if element is None or not isinstance(target, ast.Subscript) or isinstance(target.slice, ast.Slice):
            return self.generic_visit(node)
        # The key is looked up once, before the value that is added.
        value, key, made = f"{_BEGIN}v", target.slice, list[ast.stmt]()
        if not self._is_sure(element, key):
            key = _name(f"{_BEGIN}a")
            made.append(ast.Assign([ast.Name(key.id, ast.Store())], self.visit(target.slice)))
        made += [
            ast.Assign([ast.Name(value, ast.Store())], self.visit(ast.Subscript(target.value, key, ast.Load()))),
            ast.AugAssign(ast.Name(value, ast.Store()), node.op, self.visit(node.value)),
            *self._write(element, ast.Subscript(target.value, key, ast.Store()), value),
        ]
        return [_at(one, node) for one in made]

    def _write(self, element: Plain, target: ast.Subscript, value: str) -> list[ast.stmt]:
        self.count += 1
        tests, key = self._key(element, target.slice)
        known = not tests
        fits = element.number in self._fitting
        if element.scalars and not fits:
            kind = _call(_name(f"{_BEGIN}type"), _name(value))
            tests.append(ast.Compare(kind, [ast.In()], [_name(element.name("allowed"))]))
        tests += self._free(element)
        fast: list[ast.stmt] = []
        if self._quick:
            # A key that was never met is looked at first.
            met = [_in(element, "held", key), _in(element, "asked", key)]
            tests += [] if known else [ast.BoolOp(ast.Or(), met)]
            marks = ["met"] if element.holds_objects else []
        else:
            tests += self._changing(element, key)
            marks = []
        marks += [] if element.scalars or fits else ["mark"]
        fast += [ast.Expr(_call(_name(element.name(mark)), key)) for mark in marks]
        fast.append(ast.Assign([ast.Subscript(_name(element.name("held")), key, ast.Store())], _name(value)))
        slow = ast.Assign([ast.Subscript(target.value, key, ast.Store())], _name(value))
        return [ast.If(self._all(tests), fast, [slow])] if tests else fast


def _other_names(node: ast.AST) -> list[str]:
    """Return the names that a node binds otherwise than by a Name."""
    match node:
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return [name]
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return names
        case ast.alias(name=name, asname=other):
            return [other or name.partition(".")[0]]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
    return []


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _call(function: ast.expr, *arguments: ast.expr) -> ast.Call:
    return ast.Call(function, list(arguments), [])


def _in(element: Plain, what: str, key: ast.expr) -> ast.expr:
    """Return what looks for a key among those that were asked for, which are checked and read, or those of notes."""
    return ast.Compare(key, [ast.In()], [_name(element.name(what))])


_SHORT: Final = (ast.Name, ast.Constant, ast.List, ast.Dict, ast.Tuple, ast.UnaryOp, ast.unaryop, ast.expr_context)


def _is_short(node: ast.expr) -> bool:
    """Whether an expression is so plain that it may be written twice."""
    return all(isinstance(one, _SHORT) for one in ast.walk(node))


def _at(node: Any, place: ast.AST) -> Any:
    """Let all that was made stand where it was written."""
    for one in ast.walk(node):
        if "lineno" in getattr(one, "_attributes", ()) and not hasattr(one, "lineno"):
            ast.copy_location(one, place)
    return node
