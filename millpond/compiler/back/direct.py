"""Methods in sequence whose plainest accesses to state go straight to the entries, without a call in between.

What stands in for `self.m[k]` looks whether nothing speaks against it, which is a few comparisons; in every other case
the access is the one that was written. So there is no second meaning: only what the entries would find out themselves
at the cost of a call is found out in place.

>>> tree = ast.parse("def owed(self, name): return self.debts[name] + 1").body[0]
>>> made = _Direct({"debts": Plain(0, holds_objects=False, scalars=True)}, "self").method(tree)
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
from dataclasses import dataclass
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
    """An element whose entries can be reached directly: its number, and what its values are."""

    number: int
    holds_objects: bool
    scalars: bool

    def name(self, what: str) -> str:
        """Return the name of something of the element in the code of a method."""
        return f"{_BEGIN}{self.number}_{what}"


@dataclass(frozen=True, slots=True)
class DirectCode:
    """The code of a method, and the elements that it reaches directly, by their numbers in it."""

    code: types.CodeType
    elements: tuple[str, ...]

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


def direct_elements(elements: Mapping[str, Element]) -> dict[str, Plain]:
    """Return the elements whose entries can be reached directly."""
    found: dict[str, Plain] = {}
    for name, element in elements.items():
        kind = element.type
        special = element.partial or element.ttl is not None or isinstance(kind, AgedType | TimersType)
        if not special and kind.is_dict and exact_type(kind.key_hint) is not None:
            found[name] = Plain(len(found), kind.holds_objects and not kind.values.immutable, bool(kind.values.scalars))
    return found


def direct_code(function: types.FunctionType, elements: Mapping[str, Element]) -> DirectCode | None:
    """Return the code of a method with direct accesses; None if it has none, or can't be written anew."""
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
    rewriting = _Direct(plain, program)
    made = rewriting.method(tree)
    if not rewriting.count:
        return None
    return DirectCode(_compiled(made, function), tuple(plain))


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
    """Puts direct accesses in the place of the plainest ones."""

    def __init__(self, elements: Mapping[str, Plain], program: str) -> None:
        self._elements = elements
        self._program = program
        self._bound: set[str] = set()
        self.count = 0

    def method(self, tree: ast.FunctionDef) -> ast.FunctionDef:
        """Rewrite the body of a method."""
        removed = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)}
        caught = {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)}
        self._bound = {node.arg for node in ast.walk(tree.args) if isinstance(node, ast.arg)} - removed - caught
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

    def _key(self, element: Plain, key: ast.expr) -> tuple[ast.expr, ast.expr]:
        """Return what looks whether a key is of its type, and the key from then on: a name, to which it is bound."""
        again = key
        if not isinstance(key, ast.Name | ast.Constant):
            # A key that lies inside of it has a name of its own.
            depth = sum(isinstance(node, ast.Subscript | ast.Call | ast.Compare) for node in ast.walk(key))
            again = _name(f"{_BEGIN}k{depth}")
            key = ast.NamedExpr(ast.Name(again.id, ast.Store()), self.visit(key))
        kind = ast.Compare(_call(_name(f"{_BEGIN}type"), key), [ast.Is()], [_name(element.name("key"))])
        return kind, again

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
        test, key = self._key(element, key)
        if how == "pop":
            # What the base has must be known: if it has the entry, it is to be removed there.
            tests = [test, _name(element.name("free")), _in(element, "asked", key), *self._changing(element, key)]
            taken = _call(_name(element.name("pop")), key, *rest)
            return self._either(node, tests, taken, _call(node.func, key, *rest))
        slow, default = _call(node.func, key, *rest), rest[0] if rest else ast.Constant(None)
        tests = [test, *self._touched(element, key)]
        nothing, held = _name(f"{_BEGIN}missing"), f"{_BEGIN}t"
        found = ast.NamedExpr(ast.Name(held, ast.Store()), _call(_name(element.name("get")), key, nothing))
        there = ast.Compare(found, [ast.IsNot()], [nothing])
        if element.holds_objects or not self._is_bound(default, key):
            fast: ast.expr = _call(_name(element.name("get")), key, default)
            return self._either(
                node, [*tests, *([] if element.holds_objects else [_in(element, "asked", key)])], fast, slow
            )
        # Most entries are there, and each look costs more than all else.
        fast = ast.IfExp(there, _name(held), ast.IfExp(_in(element, "asked", key), default, slow))
        return self._either(node, tests, fast, slow)

    def _is_bound(self, default: ast.expr, key: ast.expr) -> bool:
        """Whether a default has a value, so that nobody can tell whether it was looked up."""
        names = {node.id for node in ast.walk(default) if isinstance(node, ast.Name)}
        return names <= self._bound | ({key.id} if isinstance(key, ast.Name) else set())

    def _touched(self, element: Plain, key: ast.expr) -> list[ast.expr]:
        """Return what looks whether it is noted what an object was, and marks it as touched then."""
        if not element.holds_objects:
            return []
        marked = ast.Compare(_call(_name(element.name("mark")), key), [ast.Is()], [ast.Constant(None)])
        return [_name(element.name("free")), self._noted(element, key), marked]

    def _noted(self, element: Plain, key: ast.expr) -> ast.expr:
        """Return what looks whether it is noted what an object was, and notes it where that is known."""
        note, nothing, has = _name(element.name("note")), _name(f"{_BEGIN}missing"), _name(element.name("has"))
        code = _call(note, key, _call(_name(element.name("code")), key))
        coded = [_in(element, "coded", key), _call(has, key), ast.Compare(code, [ast.IsNot()], [ast.Constant(None)])]
        gone = ast.Compare(_call(note, key, nothing), [ast.Is()], [nothing])
        absent = [_in(element, "asked", key), ast.UnaryOp(ast.Not(), _call(has, key)), gone]
        ways = [_in(element, "noted", key), ast.BoolOp(ast.And(), coded), ast.BoolOp(ast.And(), absent)]
        return ast.BoolOp(ast.Or(), ways)

    def _changing(self, element: Plain, key: ast.expr) -> list[ast.expr]:
        """Return what looks whether an entry was met, and notes what it is."""
        if element.holds_objects:
            return [self._noted(element, key)]
        was, nothing = f"{_BEGIN}t", _name(f"{_BEGIN}missing")
        found = ast.NamedExpr(ast.Name(was, ast.Store()), _call(_name(element.name("get")), key, nothing))
        there = ast.Compare(found, [ast.IsNot()], [nothing])
        noted = _call(_name(element.name("log")), ast.Tuple([key, _name(was)], ast.Load()))
        return [
            ast.BoolOp(ast.Or(), [there, _in(element, "asked", key)]),
            ast.Compare(noted, [ast.Is()], [ast.Constant(None)]),
        ]

    def _either(self, node: ast.AST, tests: list[ast.expr], fast: ast.expr, slow: ast.expr) -> ast.AST:
        self.count += 1
        test = ast.BoolOp(ast.And(), tests) if len(tests) > 1 else tests[0]
        made: ast.AST = _at(ast.IfExp(test, fast, slow), node)
        return made

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Rewrite `self.m[k]` where it is read."""
        element = self._element(node.value)
        if element is None or not isinstance(node.ctx, ast.Load) or isinstance(node.slice, ast.Slice):
            return self.generic_visit(node)
        test, key = self._key(element, node.slice)
        nothing, held = _name(f"{_BEGIN}missing"), f"{_BEGIN}t"
        found = ast.NamedExpr(ast.Name(held, ast.Store()), _call(_name(element.name("get")), key, nothing))
        there = ast.Compare(found, [ast.IsNot()], [nothing])
        tests = [test, *self._touched(element, key), there]
        return self._either(node, tests, _name(held), ast.Subscript(node.value, key, ast.Load()))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Rewrite `k in self.m` and `k not in self.m`."""
        match node:
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as how], comparators=[owner]):
                element = self._element(owner)
                if element is not None:
                    test, key = self._key(element, left)
                    has: ast.expr = _call(_name(element.name("has")), key)
                    fast = has if isinstance(how, ast.In) else ast.UnaryOp(ast.Not(), has)
                    return self._either(
                        node, [test, _in(element, "asked", key)], fast, ast.Compare(key, [how], [owner])
                    )
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
                made.append(self._write(element, target, value))
        return [_at(one, node) for one in made]

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.stmt]:
        """Rewrite `self.m[k] += value`."""
        target = node.target
        element = self._element(target.value) if isinstance(target, ast.Subscript) else None
        if element is None or not isinstance(target, ast.Subscript) or isinstance(target.slice, ast.Slice):
            return self.generic_visit(node)
        # The key is looked up once, before the value that is added.
        value, key = f"{_BEGIN}v", _name(f"{_BEGIN}a")
        made: list[ast.stmt] = [
            ast.Assign([ast.Name(key.id, ast.Store())], self.visit(target.slice)),
            ast.Assign([ast.Name(value, ast.Store())], self.visit(ast.Subscript(target.value, key, ast.Load()))),
            ast.AugAssign(ast.Name(value, ast.Store()), node.op, self.visit(node.value)),
            self._write(element, ast.Subscript(target.value, key, ast.Store()), value),
        ]
        return [_at(one, node) for one in made]

    def _write(self, element: Plain, target: ast.Subscript, value: str) -> ast.stmt:
        self.count += 1
        test, key = self._key(element, target.slice)
        tests = [test]
        if element.scalars:
            kind = _call(_name(f"{_BEGIN}type"), _name(value))
            tests.append(ast.Compare(kind, [ast.In()], [_name(element.name("allowed"))]))
        tests += [_name(element.name("free")), *self._changing(element, key)]
        fast: list[ast.stmt] = []
        if not element.scalars:
            fast.append(ast.Expr(_call(_name(element.name("mark")), key)))
        fast.append(ast.Expr(_call(_name(element.name("set")), _name(element.name("raw")), key, _name(value))))
        slow = ast.Assign([ast.Subscript(target.value, key, ast.Store())], _name(value))
        return ast.If(ast.BoolOp(ast.And(), tests), fast, [slow])


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
