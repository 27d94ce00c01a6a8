"""A method without state that notes all keys it may touch: what does not depend on state runs as it is written.

Where a branch depends on state, all its sides are run, each for itself; where a loop does, one turn. So more keys may
be noted than the real run touches, never fewer. A variable that gets its value in such a place is unknown after it, and
a key that follows from an unknown value is refused.

What holds throughout: a variable that counts as known has, wherever the real run comes by, the value of the real run.
So an exception ends the run here where it ends the real one, unless that may have gone another way: there it is caught.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from millpond.compiler.back.rewrite import as_it_is
from millpond.compiler.draft import Method
from millpond.compiler.front.scope import Names
from millpond.compiler.ir.hoist import FreshNames
from millpond.compiler.plan.key_slice.code import (
    After,
    Code,
    assigned,
    bound_in,
    caught,
    expressions,
    is_of_names,
    named,
    raised,
    stored,
)
from millpond.compiler.plan.key_slice.notes import BRANCH, Env, Notes, Taint, Tools, acts
from millpond.program import Element
from millpond.program.semantics.rows import ABORT


@dataclass
class Loop:
    """A loop around the current place: at which depth of doubt its body runs, and how it is left.

    `skipped` if state decides whether a turn goes on to its end, `broken` if it decides whether there is a next turn.
    `ends` if the loop may also end without state.
    """

    depth: int
    ends: bool = False
    broken: Taint | None = None
    skipped: Taint | None = None
    breaks: list[Env] = field(default_factory=list)
    again: list[Env] = field(default_factory=list)


class Straight(ABC):
    """Writes statements one after the other, and the sides of branches that depend on state."""

    def __init__(self, method: Method, statements: list[ast.stmt], elements: Mapping[str, Element]) -> None:
        used = {node.id for part in statements for node in ast.walk(part) if isinstance(node, ast.Name)}
        self.names = FreshNames(used | method.scope.locals | method.scope.module.keys() | method.scope.closure.keys())
        self.tools = Tools.named(self.names)
        self._method = method
        self._statements = statements
        self._notes = Notes(method, statements, elements, self.tools)
        self._depth = 0
        self._loops: list[Loop] = []
        self.saved: set[str] = set()

    @abstractmethod
    def _statement(self, node: ast.stmt, env: Env) -> tuple[Code, After]:
        """A statement of any kind, and what is unknown after it."""

    # --- blocks

    def _block(self, statements: Sequence[ast.stmt], env: Env) -> tuple[Code, After]:
        out: Code = []
        after: After = env
        for number, statement in enumerate(statements):
            if after is None:
                break
            before = self._loops[-1].skipped if self._loops else None
            code, after = self._statement(statement, after)
            out += code
            skipped = self._loops[-1].skipped if self._loops else None
            rest = statements[number + 1 :]
            if after is not None and rest and skipped is not None and skipped is not before:
                # A `continue` that depends on state came by: whether the rest of the turn runs is not known.
                code, after = self._sides([rest, []], after, skipped)
                return out + code, after
        return out, after

    # --- statements without statements inside

    def _simple(self, node: ast.stmt, env: Env) -> tuple[Code, After]:
        match node:
            case ast.Pass():
                return [], env
            case ast.Assign(targets=targets, value=value):
                return self._assign(targets, value, env), env
            case ast.AugAssign():
                return self._augment(node, env), env
            case ast.Delete(targets=targets):
                return [line for target in targets for line in self._store(target, None, env)], env
            case ast.Expr(value=value):
                code = expressions(self._notes.notes(value, env))
                if self._is_abort(value):
                    return code + self._end(), None
                return code, env
            case ast.Assert(test=test, msg=message):
                if self._notes.taint(node, env) is None:
                    return [node], env
                code = expressions(self._notes.notes(test, env))
                return code + self._guarded([ast.Expr(message)] if message else [], env, Taint(test, BRANCH))[0], env
        assert isinstance(node, ast.FunctionDef), node
        taint = self._notes.taint(node, env)
        if taint is None:
            self._notes.bind(env, (node.name,))
            return [node], env
        self._notes.spoil(env, (node.name,), taint)
        return [], env

    def _is_abort(self, node: ast.AST) -> bool:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)):
                return owner == self._method.self_name and name == ABORT
        return False

    def _assign(self, targets: Sequence[ast.expr], value: ast.expr, env: Env) -> Code:
        taint = self._notes.taint(value, env)
        if taint is not None:
            code = expressions(self._notes.notes(value, env))
            return code + [line for target in targets for line in self._store(target, taint, env)]
        if all(is_of_names(target) for target in targets):
            self._notes.bind(env, [*named(value), *(name for target in targets for name in stored(target))])
            return [ast.Assign(list(targets), value)]
        if len(targets) == 1 and not acts(value):
            return self._put(targets[0], value, env)
        self._notes.bind(env, named(value))
        held = self.names.fresh("value")
        code = [assigned(held, value)]
        for target in targets:
            code += self._put(target, ast.Name(held, ast.Load()), env)
        return code

    def _put(self, target: ast.expr, value: ast.expr, env: Env) -> Code:
        """Store a known value."""
        if is_of_names(target):
            self._notes.bind(env, stored(target))
            return [ast.Assign([target], value)]
        if isinstance(target, ast.Tuple | ast.List):
            held = [self.names.fresh("value") for _ in target.elts]
            parts: list[ast.expr] = []
            for name, part in zip(held, target.elts, strict=True):
                place = ast.Name(name, ast.Store())
                parts.append(ast.Starred(place, ast.Store()) if isinstance(part, ast.Starred) else place)
            code: Code = [ast.Assign([ast.Tuple(parts, ast.Store())], value)]
            for name, part in zip(held, target.elts, strict=True):
                inner = part.value if isinstance(part, ast.Starred) else part
                code += self._put(inner, ast.Name(name, ast.Load()), env)
            return code
        if self._notes.taint(target, env) is None:
            return [ast.Assign([target], value)]
        return self._store(target, None, env)

    def _store(self, target: ast.expr, taint: Taint | None, env: Env) -> Code:
        """Store an unknown value; with no taint, take a value away."""
        if isinstance(target, ast.Name):
            if taint is not None:
                self._notes.spoil(env, (target.id,), taint)
                return []
            return [ast.Delete([target])] if target.id not in env else []
        if isinstance(target, ast.Tuple | ast.List):
            return [line for part in target.elts for line in self._store(part, taint, env)]
        if isinstance(target, ast.Starred):
            return self._store(target.value, taint, env)
        unknown = self._notes.taint(target, env) or taint
        if unknown is None:
            return [ast.Delete([target])]
        if id(target) in self._notes.sites:
            return expressions(self._notes.notes(target, env))
        code = [line for child in ast.iter_child_nodes(target) for line in expressions(self._notes.notes(child, env))]
        self._notes.change(env, self._notes.objects.changed_by(target), unknown)
        return code

    def _augment(self, node: ast.AugAssign, env: Env) -> Code:
        taint = self._notes.taint(node, env)
        if taint is None:
            self._notes.bind(env, named(node.value))
            return [node]
        if isinstance(node.target, ast.Name):
            code = expressions(self._notes.notes(node.value, env))
            self._notes.spoil(env, (node.target.id,), taint)
        else:
            code = self._store(node.target, taint, env) + expressions(self._notes.notes(node.value, env))
        self._notes.change(env, self._notes.objects.changed_by(node), taint)
        return code

    # --- ways out

    def _end(self) -> Code:
        """Go no further: in a part that may not be run, this ends that part alone."""
        for loop in self._loops:
            loop.ends = loop.ends or self._depth == loop.depth
        return [raised(self.tools.leave)] if self._depth else [ast.Return(None)]

    def _leave(self, node: ast.Return | ast.Raise, env: Env) -> tuple[Code, After]:
        if isinstance(node, ast.Raise) and self._notes.taint(node, env) is None:
            self._end()
            return [node], None
        code = [line for part in ast.iter_child_nodes(node) for line in expressions(self._notes.notes(part, env))]
        return code + self._end(), None

    def _jump(self, node: ast.Break | ast.Continue, env: Env) -> tuple[Code, After]:
        loop = self._loops[-1]
        breaks = isinstance(node, ast.Break)
        if self._depth == loop.depth:
            (loop.breaks if breaks else loop.again).append(dict(env))
            loop.ends = loop.ends or breaks
            return [node], None
        doubt = Taint(node, BRANCH)
        if breaks:
            loop.broken = loop.broken or doubt
        else:
            loop.skipped = loop.skipped or doubt
        return [raised(self.tools.leave)], None

    # --- sides of a branch that depends on state

    def _guarded(self, statements: Sequence[ast.stmt], env: Env, taint: Taint) -> tuple[Code, After]:
        """Statements that the real run may skip: nothing outside sees what they assign, change or raise."""
        inner = dict(env)
        self._notes.change(inner, self._notes.objects.changed_in(statements), taint)
        self._depth += 1
        code, after = self._block(statements, inner)
        self._depth -= 1
        return self._fenced(code, bound_in(statements)), after

    def _fenced(self, code: Code, names: Iterable[str]) -> Code:
        named = {node.id for line in code for node in ast.walk(line) if isinstance(node, ast.Name)}
        if self.tools.note not in named:
            # It notes nothing, and nobody sees what else it does.
            return []
        keep = sorted(Names.of(*code).binds.intersection(names))
        self.saved |= {*keep}
        held = {name: self.names.fresh(name) for name in keep}
        return [
            *(assigned(held[name], as_it_is(name)) for name in keep),
            caught(code, self.tools.anything),
            *(assigned(name, as_it_is(held[name])) for name in keep),
        ]

    def _sides(self, sides: Sequence[Sequence[ast.stmt]], env: Env, taint: Taint) -> tuple[Code, After]:
        """Statements of which the real run takes one side, nobody knows which."""
        ending = [side for side in sides if self._ends(side)]
        going = [side for side in sides if not self._ends(side)]
        out: Code = []
        before = self._loops[-1].skipped if self._loops else None
        for side in ending:
            out += self._guarded(side, env, taint)[0]
        if len(going) == 1 and (not self._loops or self._loops[-1].skipped is before):
            # A run that comes out of this has gone that way.
            code, after = self._block(going[0], env)
            return out + code, after
        if not going:
            return out, None
        doubted = dict(env)
        for side in going:
            out += self._guarded(side, env, taint)[0]
            self._doubt(side, doubted, taint)
        return out, doubted

    def _doubt(self, statements: Sequence[ast.AST], env: Env, taint: Taint) -> None:
        """Let all that some statements assign or change be unknown."""
        self._notes.change(env, self._notes.objects.changed_in(statements), taint)
        self._notes.spoil(env, bound_in(statements), taint)

    def _ends(self, statements: Sequence[ast.stmt]) -> bool:
        """Whether no run comes out of some statements, or goes on to the next turn of the loop around them."""
        if not statements:
            return False
        match statements[-1]:
            case ast.Return() | ast.Raise() | ast.Break():
                return True
            case ast.Expr(value=value):
                return self._is_abort(value)
            case ast.If(body=body, orelse=orelse):
                return self._ends(body) and self._ends(orelse)
        return False
