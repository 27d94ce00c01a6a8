"""The keys that an expression touches, as expressions that note them without state.

What does not depend on state is evaluated as it is written, once and in its order. Of what does depend on it, only the
parts are evaluated that keys follow from. A part that the real run may skip is evaluated too, and may raise in peace.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from millpond.compiler.analysis.hints import Hints
from millpond.compiler.analysis.objects import Objects
from millpond.compiler.diagnostics import bar
from millpond.compiler.draft import Method, Site
from millpond.compiler.front.scope import Names
from millpond.compiler.ir.hoist import FreshNames
from millpond.compiler.ir.patterns import Sites, consumed_parts
from millpond.compiler.obstacles import Bars
from millpond.errors import ProgramError
from millpond.program import Element

_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_TAKES_ALL: Final = (sum, list, tuple, set, frozenset, dict, sorted, min, max, any, all)
_TAKES_ALL_METHODS: Final = frozenset(("join", "extend", "update", "union"))
_PASSES_ON: Final = (enumerate, zip, reversed, map, filter)

_SHOWN_MAX: Final = 60

READ: Final = "depends on what is read here"
BRANCH: Final = "depends on a branch on what is read here"
LOOP: Final = "depends on the turns of a loop, and those on what is read here"


@dataclass(frozen=True, slots=True)
class Taint:
    """Why a value can't be known from the arguments: the access that it follows from, and how."""

    node: ast.AST
    why: str


Env = dict[str, Taint]
"""The variables whose value can't be known at a place."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What the code that notes keys calls the functions it is given."""

    note: str
    perhaps: str
    leave: str
    anything: str
    limited: str
    ticking: str

    @classmethod
    def named(cls, names: FreshNames) -> Tools:
        """Names that a method does not use."""
        return cls(*(names.fresh(wanted) for wanted in ("note", "perhaps", "leave", "anything", "limited", "ticking")))


class Notes:
    """Finds the keys of expressions, and what is known where."""

    def __init__(
        self, method: Method, statements: list[ast.stmt], elements: Mapping[str, Element], tools: Tools
    ) -> None:
        self._method = method
        self._tools = tools
        finder = Sites(method, elements)
        self.sites: dict[int, Site] = {id(site.node): site for part in statements for site in finder.of(part)}
        self.kinds = Hints(method, statements, elements)
        self.objects = Objects(method, statements, self.sites, elements, self.kinds)
        self._at_once = frozenset(id(node) for part in statements for node in self._taken(part))

    # --- what is known

    def taint(self, node: ast.AST, env: Env) -> Taint | None:
        """Why the value of a piece of syntax can't be known, None if it can."""
        for part in ast.walk(node):
            if id(part) in self.sites:
                return Taint(part, READ)
        if not env:
            return None
        reads = set(Names.of(node).reads)
        for part in ast.walk(node):
            if isinstance(part, _COMPREHENSIONS):
                # `[x for x in x]` reads an outer x.
                reads |= Names.of(part.generators[0].iter).reads
        return next((env[name] for name in sorted(reads) if name in env), None)

    def spoil(self, env: Env, names: Iterable[str], taint: Taint) -> None:
        """Let variables have values that can't be known."""
        for name in names:
            env[name] = taint
            for holder in self.objects.holders(name):
                self.change(env, (holder,), taint)

    def change(self, env: Env, names: Iterable[str], taint: Taint) -> None:
        """Let the objects of variables be changed in a way that can't be known."""
        for name in names:
            for other in self.objects.same(name):
                env[other] = taint

    def bind(self, env: Env, names: Iterable[str]) -> None:
        """Let variables have values that are known."""
        for name in names:
            env.pop(name, None)

    # --- notes

    def notes(self, node: ast.AST, env: Env) -> list[ast.expr]:
        """What to evaluate in the place of an expression whose value is not needed; `env` becomes what holds after."""
        taint = self.taint(node, env)
        if taint is None:
            return self._known(node, env)
        site = self.sites.get(id(node))
        if site is not None:
            return self._access(site, env)
        match node:
            case ast.BoolOp(op=operator, values=values):
                return self._chain(operator, values, env, taint)
            case ast.IfExp():
                return self._choice(node, env, taint)
            case ast.Compare(left=left, comparators=[first, *others]):
                found = self.notes(left, env) + self.notes(first, env)
                self.change(env, self.objects.changed_by(node), taint)
                return found + self._maybe(others, env, taint)
            case ast.Lambda():
                self.change(env, self.objects.changed_in([node]), taint)
                return []
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return self._comprehension(node, env, taint)
            case ast.NamedExpr(target=target, value=value):
                found = self.notes(value, env)
                self.spoil(env, (target.id,), taint)
                return found
        found = [note for child in ast.iter_child_nodes(node) for note in self.notes(child, env)]
        self.change(env, self.objects.changed_by(node), taint)
        return found

    def _known(self, node: ast.AST, env: Env) -> list[ast.expr]:
        """A part that does not depend on state: it is evaluated if that may do more than give a value."""
        if not isinstance(node, ast.expr):
            return [note for child in ast.iter_child_nodes(node) for note in self._known(child, env)]
        if isinstance(node, ast.GeneratorExp):
            # Who takes from it, and how much, is not known.
            self.change(env, self.objects.changed_in([node]), Taint(node, BRANCH))
            return []
        self.bind(env, _named(node))
        if isinstance(node, ast.Starred | ast.Slice):
            return self._known_children(node, env)
        return [node] if acts(node) and not isinstance(node, ast.Lambda) else []

    def _known_children(self, node: ast.AST, env: Env) -> list[ast.expr]:
        return [note for child in ast.iter_child_nodes(node) for note in self._known(child, env)]

    def _access(self, site: Site, env: Env) -> list[ast.expr]:
        owned = consumed_parts(site.node)
        parts = [part for part in ast.iter_child_nodes(site.node) if not any(part is one for one in owned)]
        found = [note for part in parts for note in self._argument(part, site, env)]
        self.change(env, self.objects.changed_by(site.node), Taint(site.node, READ))
        return found

    def _argument(self, part: ast.AST, site: Site, env: Env) -> list[ast.expr]:
        if part is site.key:
            return [self._note(site, site.key, env)]
        if isinstance(part, ast.Tuple) and any(inner is site.key for inner in part.elts):
            return [note for inner in part.elts for note in self._argument(inner, site, env)]
        return self.notes(part, env)

    def _note(self, site: Site, key: ast.expr, env: Env) -> ast.expr:
        taint = self.taint(key, env)
        if taint is not None:
            raise self._follows_state(site, key, taint, env)
        self.bind(env, _named(key))
        pair = ast.Tuple([ast.Constant(site.element), key], ast.Load())
        return ast.Call(ast.Name(self._tools.note, ast.Load()), [pair], [])

    def _follows_state(self, site: Site, key: ast.expr, taint: Taint, env: Env) -> ProgramError:
        source = self._method.source
        shown = source.text(key)
        # A tuple with a part from elsewhere may be of keys that are the row's own.
        own = isinstance(key, ast.Tuple) and any(self.taint(part, env) is None for part in key.elts)
        shared = "" if own else f", and all rows share self.{site.element}"
        return bar(
            Bars.KEYS,
            "MP181",
            f"self.{site.element}[{shown}] follows from {_short(source.text(taint.node))}{shared}",
            source,
            site.node,
            expected="keys that follow from the arguments of the entry point",
            found=f"`{shown}` {taint.why}: {source.text(taint.node)}",
            hint="take two steps: a read-only entry point that replies the key, and a second entry point that gets it "
            "as an argument, fed with the replies; or keep both under one key",
            also=[source.place(taint.node)],
        )

    # --- parts that may be skipped

    def _maybe(self, parts: Sequence[ast.AST], env: Env, taint: Taint) -> list[ast.expr]:
        """Notes of parts that are evaluated, or not, depending on state."""
        self.doubt(parts, env, taint)
        notes = [note for part in parts for note in self.notes(part, env)]
        self.doubt(parts, env, taint)
        return self._perhaps(notes)

    def doubt(self, parts: Iterable[ast.AST], env: Env, taint: Taint) -> None:
        """Let all that some parts assign by `:=`, or change, be unknown."""
        parts = list(parts)
        self.change(env, self.objects.changed_in(parts), taint)
        self.spoil(env, [name for part in parts for name in _named(part)], taint)

    def _perhaps(self, notes: list[ast.expr]) -> list[ast.expr]:
        if not notes:
            return []
        arguments = ast.arguments([], [], None, [], [], None, [])
        return [ast.Call(ast.Name(self._tools.perhaps, ast.Load()), [ast.Lambda(arguments, _all(notes))], [])]

    def _chain(self, operator: ast.boolop, values: Sequence[ast.expr], env: Env, taint: Taint) -> list[ast.expr]:
        first, *rest = values
        if not rest:
            return self.notes(first, env)
        if self.taint(first, env) is not None:
            found = self.notes(first, env)
            self.doubt(rest, env, taint)
            notes = self._chain(operator, rest, env, taint)
            self.doubt(rest, env, taint)
            return found + self._perhaps(notes)
        self.bind(env, _named(first))
        inner = dict(env)
        notes = self._chain(operator, rest, inner, taint)
        env.update(inner)
        test = first if isinstance(operator, ast.And) else ast.UnaryOp(ast.Not(), first)
        return _if(test, notes) if notes else self._known(first, env)

    def _choice(self, node: ast.IfExp, env: Env, taint: Taint) -> list[ast.expr]:
        if self.taint(node.test, env) is not None:
            found = self.notes(node.test, env)
            return found + self._maybe([node.body], env, taint) + self._maybe([node.orelse], env, taint)
        self.bind(env, _named(node.test))
        one, other = dict(env), dict(env)
        body, orelse = self.notes(node.body, one), self.notes(node.orelse, other)
        env.update(one)
        env.update(other)
        return [ast.IfExp(node.test, _all(body), _all(orelse))] if body or orelse else self._known(node.test, env)

    # --- comprehensions

    def _taken(self, statement: ast.AST) -> Iterator[ast.AST]:
        """The generators that are used up where they stand, before anything else happens."""

        def find(node: ast.AST, *, taken: bool) -> Iterator[ast.AST]:
            if isinstance(node, ast.GeneratorExp) and taken:
                yield node
            inside = isinstance(node, ast.Call) and self._takes_all(node, taken=taken)
            for child in ast.iter_child_nodes(node):
                yield from find(child, taken=inside and child is not getattr(node, "func", None))

        return find(statement, taken=False)

    def _takes_all(self, node: ast.Call, *, taken: bool) -> bool:
        if isinstance(node.func, ast.Attribute) and node.func.attr in _TAKES_ALL_METHODS:
            # Of a type of the user's nobody knows what it does with a generator.
            return self.kinds.is_walked_freely(node.func.value)
        meaning = self._method.scope.resolve(node.func)
        return any(meaning is known for known in (*_TAKES_ALL, *(_PASSES_ON if taken else ())))

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, env: Env, taint: Taint
    ) -> list[ast.expr]:
        # A turn may find what the one before has left.
        self.doubt([node], env, taint)
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        notes = self._turns(node.generators, results, env)
        self.doubt([node], env, taint)
        if not isinstance(node, ast.GeneratorExp):
            return notes
        if id(node) not in self._at_once and any(id(part) in self.sites for part in ast.walk(node)):
            raise bar(
                Bars.KEYS,
                "MP183",
                "this generator touches state at a time that is not known",
                self._method.source,
                node,
                expected="a generator that is used up where it stands, as in sum(...) or any(...)",
                hint="write [...] around it",
            )
        # Who takes from it may stop before its end.
        return self._perhaps(notes)

    def _turns(self, generators: Sequence[ast.comprehension], results: Sequence[ast.expr], env: Env) -> list[ast.expr]:
        if not generators:
            return [note for result in results for note in self.notes(result, env)]
        first, *rest = generators
        own = Names.of(first.target).binds
        walked = self.taint(first.iter, env)
        found = self.notes(first.iter, env) if walked is not None else []
        inner = {name: taint for name, taint in env.items() if name not in own}
        if walked is not None:
            inner |= dict.fromkeys(own, walked)
        notes = self._conditions(first.ifs, rest, results, inner)
        if walked is not None:
            return found + self._perhaps(notes)
        if not notes:
            return self._known(first.iter, env)
        return [ast.ListComp(_all(notes), [ast.comprehension(first.target, first.iter, [], 0)])]

    def _conditions(
        self,
        tests: Sequence[ast.expr],
        generators: Sequence[ast.comprehension],
        results: Sequence[ast.expr],
        env: Env,
    ) -> list[ast.expr]:
        if not tests:
            return self._turns(generators, results, env)
        first, *others = tests
        if self.taint(first, env) is not None:
            return self.notes(first, env) + self._perhaps(self._conditions(others, generators, results, env))
        notes = self._conditions(others, generators, results, env)
        return _if(first, notes) if notes else self._known(first, env)


def acts(node: ast.AST) -> bool:
    """Whether evaluating an expression may do more than give a value, or raise."""
    return any(isinstance(part, ast.Call | ast.NamedExpr) for part in ast.walk(node))


def _named(node: ast.AST) -> list[str]:
    """The names that a piece of syntax binds by `:=`."""
    return [part.target.id for part in ast.walk(node) if isinstance(part, ast.NamedExpr)]


def _if(test: ast.expr, notes: list[ast.expr]) -> list[ast.expr]:
    return [ast.IfExp(test, _all(notes), ast.Constant(None))]


def _all(notes: list[ast.expr]) -> ast.expr:
    return notes[0] if len(notes) == 1 else ast.Tuple(notes, ast.Load())


def _short(text: str) -> str:
    """The text of an expression on one line, and not too long."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_MAX else f"{line[: _SHOWN_MAX - 3]}..."
