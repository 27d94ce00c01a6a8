"""What every statement of a body does with state: which elements, how, and under which key.

Needs: Method.body in normal form, Method.reaching and values.
Leaves: Method.stops. Two keys are one when their values are: same expression over the same definitions.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import get_args

from millpond.compiler.analysis.mutability import is_frozen, kind_of
from millpond.compiler.diagnostics import bar, refuse
from millpond.compiler.draft import (
    PARAMETER,
    UNBOUND,
    Access,
    Draft,
    Identity,
    Kind,
    Method,
    Mode,
    Reaching,
    Site,
    Stop,
    Use,
)
from millpond.compiler.ir.patterns import Sites, assigned_inside, head_of, is_merged
from millpond.compiler.obstacles import Bars
from millpond.compiler.plan.routing import hashes_alike
from millpond.program import Element

THE_KEY: Identity = ("single",)


def classify(draft: Draft) -> Draft:
    """Classify the state accesses of every method."""
    return draft.each(lambda method: replace(method, stops=tuple(_Classifier(method, draft.elements).stops())))


def identity_of(key: ast.expr, top: int, method: Method) -> Identity:
    """What an expression's value is at the beginning of a statement: equal identities are equal values."""
    match key:
        case ast.Constant(value=value):
            return ("constant", type(value).__name__, repr(value))
        case ast.Tuple(elts=parts):
            return ("tuple", *(identity_of(part, top, method) for part in parts))
        case ast.Name(id=name):
            return _identity_of_name(name, top, method)
    names = sorted({node.id for node in ast.walk(key) if isinstance(node, ast.Name)})
    return ("expression", ast.dump(key), *((name, _identity_of_name(name, top, method)) for name in names))


def definitions_in(identity: Identity | None) -> frozenset[int]:
    """The points whose assignments make an identity: where one of them runs again, the value may be another."""
    if identity is None:
        return frozenset()
    if identity[0] == "variable":
        return frozenset(identity[2:])
    return frozenset(point for part in identity if isinstance(part, tuple) for point in definitions_in(part))


def _identity_of_name(name: str, top: int, method: Method) -> Identity:
    definitions = method.reaching.at(top).get(name)
    if not definitions:
        return ("global", name)
    if len(definitions) == 1:
        (only,) = definitions
        if only.point == PARAMETER:
            return ("parameter", name)
        if only.point >= 0:
            followed = _follow(only.point, name, method)
            if followed is not None:
                return followed
    return ("variable", name, *(definition.point for definition in sorted(definitions)))


def _follow(number: int, name: str, method: Method) -> Identity | None:
    """What a variable is made of, if it is assigned once, directly in the body, from something that can't change."""
    point = method.reaching.points[number]
    match point.node:
        case ast.Assign(targets=[ast.Name(id=assigned)], value=value) if assigned == name:
            if method.body[point.top] is point.node and _is_unchanging(value):
                return identity_of(value, point.top, method)
    return None


def _is_unchanging(value: ast.expr) -> bool:
    """Whether an expression of keys is the same whenever it is evaluated over the same variables."""
    match value:
        case ast.Name() | ast.Constant():
            return True
        case ast.Tuple(elts=parts):
            return all(map(_is_unchanging, parts))
        case ast.BinOp(left=left, right=right):
            return _is_unchanging(left) and _is_unchanging(right)
        case ast.UnaryOp(operand=operand):
            return _is_unchanging(operand)
        case ast.Compare(left=left, comparators=others):
            return _is_unchanging(left) and all(map(_is_unchanging, others))
    return False


def routable(identity: Identity | None) -> str:
    """The parameters that hold a key, joined by commas, or "" if it is anything else."""
    match identity:
        case ("parameter", str(name)):
            return name
        case ("tuple", *parts) if len(parts) > 1:
            names = [routable(part) if part[0] == "parameter" else "" for part in parts]
            return ",".join(names) if all(names) else ""
    return ""


def comes_as_key(method: Method, names: str, element: Element) -> bool:
    """Whether parameters, joined by commas, are of the type of an element's key, whatever the row.

    One that may be None, or of a further type, is a key only where the method has made sure that it is one.
    """
    hints = dict(method.point.parameters)
    given = [kind_of(hints[name]) for name in names.split(",")]
    wanted = element.type.key_hint
    defaults = dict(method.point.defaults)
    fits = given == [wanted] if len(given) == 1 else tuple(given) == get_args(wanted)
    return fits and not any(name in defaults for name in names.split(",")) and hashes_alike(wanted)


@dataclass(frozen=True)
class _Classifier:
    method: Method
    elements: Mapping[str, Element]

    @property
    def _reaching(self) -> Reaching:
        return self.method.reaching

    def stops(self) -> list[Stop]:
        """The statements of the body that need state or merge."""
        found = [self._stop(top, statement) for top, statement in enumerate(self.method.body)]
        return [stop for stop in found if stop is not None]

    def _stop(self, top: int, statement: ast.stmt) -> Stop | None:
        sites = Sites(self.method, self.elements).of(statement)
        merges = [node for part in head_of(statement) for node in ast.walk(part) if is_merged(node, self.method.scope)]
        if not self.method.gathered:
            self._check_early_key(top, statement)
        if (sites or merges) and not self._reaching.before[self._reaching.heads[top]]:
            raise bar(
                Bars.SIGHT,
                "MP124",
                "this statement can never run",
                self.method.source,
                statement,
                expected="code that is reached",
            )
        if merges:
            return self._merge(top, merges[0])
        if not sites:
            return None
        uses = tuple(self._use(site, top, statement) for site in sites)
        if uses[0].access.mode is Mode.GLOBAL:
            assert isinstance(statement, ast.Assign)
            assert isinstance(statement.targets[0], ast.Name)
            return Stop(top, Kind.EACH, uses, sites[0].node, value=statement.targets[0].id)
        keyed = [use for use in uses if use.access.mode is Mode.KEYED]
        if not keyed:
            return Stop(top, Kind.LOCAL, uses, sites[0].node)
        self._check_one_key(keyed)
        first = next((use for use in keyed if use.key), keyed[0])
        return Stop(top, Kind.KEYED, uses, keyed[0].site.node, first.identity, first.key)

    def _check_early_key(self, top: int, statement: ast.stmt) -> None:
        """Refuse a key that was moved before its branch although a part of it may have no value there."""
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in self.method.scope.locals:
                for part in ast.walk(value):
                    before = self._reaching.at(top).get(part.id, ()) if isinstance(part, ast.Name) else ()
                    if any(definition.point == UNBOUND for definition in before):
                        raise bar(
                            Bars.CUT,
                            "MP160",
                            f"`{self.method.source.text(part)}` may have no value where the method may be cut",
                            self.method.source,
                            part,
                            expected="a value on every path to this statement",
                            hint="give it a first value at the top of the method",
                        )

    def _check_one_key(self, keyed: list[Use]) -> None:
        source = self.method.source
        for use in keyed[1:]:
            if use.identity != keyed[0].identity:
                raise bar(
                    Bars.CUT,
                    "MP136",
                    "one statement touches state under two keys",
                    self.method.source,
                    keyed[0].site.node,
                    expected="one key in a branch, a loop, or an expression that may be skipped",
                    found=f"{source.text(keyed[0].site.node)} and {source.text(use.site.node)}",
                    hint="read one of them into a variable before the statement, or write it after",
                    also=[self.method.source.place(use.site.node)],
                )

    def _use(self, site: Site, top: int, statement: ast.stmt) -> Use:
        element = self.elements[site.element]
        table = [element.type.operations[name] for name in site.operations]
        changeable = not is_frozen(element.type.value_hint) and self.method.values.changes(site.node)
        writes = any(entry.writes or (entry.shares and changeable) for entry in table)
        if site.everywhere:
            if any(entry.writes for entry in table):
                raise bar(
                    Bars.SIGHT,
                    "MP141",
                    "each() changes all instances",
                    self.method.source,
                    site.node,
                    expected="an operation that changes nothing",
                    hint=f"change the instance that the record meets, if that is meant: self.{site.element} without "
                    "each(); epochs without such rows are as fast as without them",
                )
            return Use(site, Access(site.element, Mode.GLOBAL, writes=False), None)
        if element.partial:
            return Use(site, Access(site.element, Mode.LOCAL, writes), None)
        if element.type.single or self.method.gathered:
            # What a gathered method touches is brought to one place, as if it were all under one key.
            return Use(site, Access(site.element, Mode.KEYED, writes), THE_KEY)
        return Use(site, Access(site.element, Mode.KEYED, writes), self._identity(site, top, statement))

    def _identity(self, site: Site, top: int, statement: ast.stmt) -> Identity:
        assert isinstance(site.key, ast.Name)
        assert site.key.id not in assigned_inside(statement), "else the statement is taken apart"
        return identity_of(site.key, top, self.method)

    def _merge(self, top: int, node: ast.AST) -> Stop:
        assert isinstance(node, ast.Call)
        if len(node.args) != 2 or node.keywords or not isinstance(node.args[0], ast.Name):
            raise refuse(
                "MP144",
                "merged() lacks what each() returned, or a function",
                self.method.source,
                node,
                expected="merged(each(self.state).method(...), function)",
                hint="do the rest in the function, or with what merged() gives",
            )
        return Stop(top, Kind.MERGE, (), node, value=node.args[0].id)
