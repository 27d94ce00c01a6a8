"""The order of Python's sets, which is no order: it depends on the hash seed, and on what was put in when.

Needs: Method.tree, source and scope.
Leaves: the draft as it is. Refused is what lets the order of a set be seen: a loop over it, a list of it, its text, and
a function that may tell it (`setuses`). What is a set is told by hints, by what variables were assigned last, by the
types of state and by objects of the module (`setexpressions`); the state container `Set` has an order, and is none of
them. Helpers and functions of the program's own package are looked into. A set that an unknown function returns is not
seen: workers walk it alike all the same, since all have one hash seed.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from millpond.compiler.analysis.sets.expressions import Hints, Known, Reading
from millpond.compiler.analysis.sets.kinds import DICTS, LISTS, either, holds_set, is_set, item_of, written_type
from millpond.compiler.analysis.sets.uses import (
    CHANGING_METHODS,
    SEEING_MEMBERS,
    SEEING_METHODS,
    Use,
    commutes,
    is_package_own,
    plain_function,
    shows,
    use_of,
    use_of_member,
)
from millpond.compiler.diagnostics import refuse
from millpond.compiler.draft import Draft, Method
from millpond.compiler.front.callees import is_helper, is_static, read_helper
from millpond.compiler.front.inlining.helpers import is_own
from millpond.compiler.front.scope import MISSING
from millpond.compiler.front.source import parse_function, scope_of
from millpond.errors import ProgramError
from millpond.program import EntryPoint, ProgramBase
from millpond.state.codec.classes import UNRESOLVED

_FROM_ITERABLES: Final = itertools.chain.from_iterable
_CALLS_MAX: Final = 8
"""How deeply functions that call each other are looked into."""


def check_set_order(draft: Draft) -> Draft:
    """Refuse what lets the order of a set be seen, in methods and in what they call."""
    waiting = [(method, method.self_name) for method in draft.methods]
    seen: set[str] = set()
    while waiting:
        method, self_name = waiting.pop()
        reading = Reading(method, self_name, draft.elements, draft.program)
        _Walk(reading, draft.program).block(method.tree.body, _parameters(method))
        for name in {node.attr for node in ast.walk(method.tree) if is_own(node, self_name)} - seen:
            seen.add(name)
            if is_helper(draft.program, name):
                helper = read_helper(draft.program, name)
                waiting.append((helper, "" if is_static(draft.program, name) else helper.self_name))
    return draft


def _parameters(method: Method) -> Hints:
    if method.point.parameters:
        return dict(method.point.parameters)
    try:
        return typing.get_type_hints(method.point.function)
    except UNRESOLVED:
        return {}


@dataclass(frozen=True)
class _Walk:
    """A walk through a method in the order of its statements, with what is known of its variables."""

    reading: Reading
    program: type[ProgramBase]
    inside: tuple[Any, ...] = ()
    looked_into: set[tuple[Any, str]] = field(default_factory=set)

    # --- statements

    def block(self, statements: list[ast.stmt], known: Hints) -> Hints:
        """Check statements, and return what is known after them."""
        for statement in statements:
            known = self._statement(statement, known)
        return known

    def _statement(self, node: ast.stmt, known: Hints) -> Hints:
        match node:
            case ast.If(test=test, body=body, orelse=orelse):
                self._check(test, known)
                return _joined(self.block(body, dict(known)), self.block(orelse, dict(known)))
            case ast.For(target=target, iter=walked, body=body, orelse=orelse):
                self._check_walked(walked, known, blind=False)
                inside = dict(known)
                self.reading.bind(target, self.reading.item(walked, known), inside)
                return self.block(orelse, self._loop(body, known, inside))
            case ast.While(test=test, body=body, orelse=orelse):
                self._check(test, known)
                return self.block(orelse, self._loop(body, known, dict(known)))
            case ast.Try():
                after = self.block(node.body, dict(known))
                between = _joined(known, after)
                ways = [self.block(handler.body, dict(between)) for handler in node.handlers]
                return self.block(node.finalbody, _joined(self.block(node.orelse, after), *ways))
            case ast.With(items=items, body=body):
                for item in items:
                    self._check(item.context_expr, known)
                return self.block(body, known)
            case ast.Match(subject=subject, cases=cases):
                self._check(subject, known)
                return _joined(known, *(self.block(case.body, dict(known)) for case in cases))
            case ast.FunctionDef(name=name, args=arguments, body=body):
                self.block(body, {**known, **self._annotated(arguments)})
                return {**known, name: Known(node)}
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._check(child, known)
        return self._assigned(node, known)

    def _annotated(self, arguments: ast.arguments) -> Hints:
        given = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        scope = self.reading.method.scope
        return {each.arg: written_type(each.annotation, scope) if each.annotation else None for each in given}

    def _loop(self, body: list[ast.stmt], before: Hints, inside: Hints) -> Hints:
        # Twice, since what a turn leaves behind is what the next one finds.
        once = _joined(inside, self.block(body, dict(inside)))
        return _joined(before, self.block(body, once))

    def _assigned(self, node: ast.stmt, known: Hints) -> Hints:
        match node:
            case ast.Assign(targets=targets, value=value):
                hint = self.reading.hint(value, known)
                for target in targets:
                    # Both take the members apart, one by one.
                    spread = isinstance(target, ast.Tuple | ast.List) or (
                        isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice)
                    )
                    if spread and is_set(hint):
                        raise self._refuse(value)
                    self.reading.bind(target, hint, known)
                    if isinstance(target, ast.Subscript):
                        self.reading.put(target.value, dict, hint, known)
            case ast.AnnAssign(target=target, value=value):
                written = written_type(node.annotation, self.reading.method.scope)
                self.reading.bind(target, either(self.reading.hint(value, known), written), known)
            case ast.AugAssign(op=ast.Add() | ast.Mod(), value=value) if is_set(self.reading.hint(value, known)):
                raise self._refuse(value)
        return known

    # --- expressions: what lets an order be seen

    def _check(self, node: ast.AST, known: Hints, *, blind: bool = False) -> None:
        """Check an expression; `blind` if the order of what it gives can't be seen."""
        match node:
            case ast.Call():
                self._check_call(node, known, blind=blind)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                self._check_comprehension(node, known, blind=blind or isinstance(node, ast.SetComp))
            case ast.Starred(value=value, ctx=ast.Load()) if not blind and is_set(self.reading.hint(value, known)):
                raise self._refuse(value)
            case ast.Starred(value=value, ctx=ast.Load()):
                self._check(value, known, blind=blind)
            case ast.YieldFrom(value=value) if is_set(self.reading.hint(value, known)):
                raise self._refuse(value)
            case ast.FormattedValue(value=value) if self._held(value, known):
                raise self._refuse(value)
            case ast.BinOp(op=ast.Mod(), right=right) if self._held(right, known):
                raise self._refuse(right)
            case ast.Attribute(value=value, attr=name) if name in SEEING_MEMBERS and is_set(
                self.reading.hint(value, known)
            ):
                raise self._refuse(node)
            case ast.Attribute(value=value, attr=name) if isinstance(node.ctx, ast.Load):
                self._check(value, known)
                self._look_into_member(self.reading.hint(value, known), name, [], {})
            case ast.NamedExpr(target=target, value=value):
                self._check(value, known)
                self.reading.bind(target, self.reading.hint(value, known), known)
            case ast.Lambda(args=arguments, body=body):
                self._check(body, {**known, **self._annotated(arguments)})
            case _:
                for child in ast.iter_child_nodes(node):
                    self._check(child, known, blind=isinstance(node, ast.Set))

    def _held(self, node: ast.expr, known: Hints) -> bool:
        """Whether the text of a value shows a set in it."""
        element = self.reading.element(node)
        return holds_set(self.reading.hint(node, known) if element is None else element.type.value_hint)

    def _check_call(self, node: ast.Call, known: Hints, *, blind: bool) -> None:
        meaning = self.reading.meaning(node.func, known)
        use = self._use(node, meaning, known)
        if isinstance(node.func, ast.Attribute | ast.Call | ast.Lambda):
            self._check(node.func, known)
        if shows(meaning) or (isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "format_map")):
            self._check_shown(node, known)
        inside = self._is_blind(node, use, known, blind=blind)
        if use is Use.APPLIES:
            self._check_applied(node, known)
        if not blind:
            self._look_into(meaning, node, known)
        for argument in [*node.args, *(word.value for word in node.keywords)]:
            given = self.reading.hint(argument, known)
            if isinstance(argument, ast.Starred):
                given = item_of(self.reading.hint(argument.value, known))
            if meaning == _FROM_ITERABLES:
                given = item_of(given)
            if is_set(given) and not inside and use not in (Use.OWN, Use.KEEPS):
                raise self._refuse(argument)
            # The members of a set as arguments: which is the first may matter, though none tells its own order.
            spread = isinstance(argument, ast.Starred) and not commutes(meaning)
            self._check(argument, known, blind=inside and not spread)
        if use is Use.UNLESS_KEYED:
            self._check_keyed(node, known)
        self.reading.learn(node, known)

    def _use(self, node: ast.Call, meaning: Any, known: Hints) -> Use:
        """What a call does with the order of sets that it is given."""
        module = str(self.reading.method.scope.module.get("__name__", ""))
        if isinstance(meaning, ast.Lambda | ast.FunctionDef):
            return Use.OWN
        if meaning is not MISSING:
            return use_of(meaning, module)
        match node.func:
            case ast.Attribute(value=owner, attr=name):
                hint = self.reading.hint(owner, known)
                kind = typing.get_origin(hint) or hint
                if is_set(hint):
                    own = isinstance(kind, type) and is_package_own(kind, module) and not hasattr(set, name)
                    return Use.OWN if own else use_of_member(name)
                if is_own(node.func, self.reading.self_name):
                    return Use.OWN if is_helper(self.program, name) else Use.KEEPS
                foreign = isinstance(kind, type) and kind not in (*DICTS, *LISTS) and not is_package_own(kind, module)
                adds = name == "update" and kind in DICTS
                return Use.SEES if foreign or adds or name in SEEING_METHODS else Use.KEEPS
        return Use.SEES

    def _is_blind(self, node: ast.Call, use: Use, known: Hints, *, blind: bool) -> bool:
        """Whether the order of what a call is given can't be told."""
        match use:
            case Use.BLIND:
                return True
            case Use.UNLESS_KEYED:
                keyed = next((word.value for word in node.keywords if word.arg == "key"), None)
                whole = node.args[-1] if node.args else None
                # Sets compare by what they hold, which orders few of them.
                ordered = whole is None or not holds_set(self.reading.item(whole, known))
                return ordered and (keyed is None or _tells_apart(keyed))
            case Use.ADDS:
                return bool(node.args) and self._adds_integers(node.args[0], known)
            case Use.PASSES | Use.APPLIES:
                return blind and (use is Use.PASSES or self.reading.meaning(node.func, known) in (map, filter))
        return False

    def _check_shown(self, node: ast.Call, known: Hints) -> None:
        for argument in [*node.args, *(word.value for word in node.keywords)]:
            if self._held(argument, known):
                raise self._refuse(argument)
            for name in ("__str__", "__repr__", "__format__"):
                self._look_into_member(self.reading.hint(argument, known), name, [], {})

    def _check_applied(self, node: ast.Call, known: Hints) -> None:
        """Check what a function that is applied to items does with them, where these are sets."""
        if len(node.args) > 1:
            items = [self.reading.item(argument, known) for argument in node.args[1:]]
            self._check_function(node.args[0], [*items, *items], known)

    def _check_keyed(self, node: ast.Call, known: Hints) -> None:
        for word in node.keywords:
            if word.arg == "key" and node.args:
                self._check_function(word.value, [self.reading.item(node.args[-1], known)], known)

    def _check_function(self, function: ast.expr, hints: list[Any], known: Hints) -> None:
        """Check a function that is called with values of some types, of which some may be sets."""
        if not any(map(is_set, hints)):
            return
        meaning = self.reading.meaning(function, known)
        if isinstance(meaning, ast.Lambda | ast.FunctionDef):
            self._enter(meaning, hints, known)
            return
        use = Use.SEES if meaning is MISSING else use_of(meaning, self.reading.method.scope.module.get("__name__", ""))
        if shows(meaning) or use in (Use.SEES, Use.PASSES, Use.APPLIES):
            raise self._refuse(function)

    def _look_into(self, meaning: Any, node: ast.Call, known: Hints) -> None:
        """Check a function, class or method of the user's own by what its variables are when it is called here."""
        hints = [self.reading.hint(argument, known) for argument in node.args]
        named = {word.arg: self.reading.hint(word.value, known) for word in node.keywords if word.arg}
        module = str(self.reading.method.scope.module.get("__name__", ""))
        if isinstance(meaning, ast.Lambda | ast.FunctionDef):
            self._enter(meaning, hints, known, named)
        elif meaning is MISSING and isinstance(node.func, ast.Attribute):
            if is_own(node.func, self.reading.self_name):
                self._look_into_helper(node.func.attr, hints, named)
            else:
                self._look_into_member(self.reading.hint(node.func.value, known), node.func.attr, hints, named)
        elif meaning is not MISSING and is_package_own(meaning, module):
            if isinstance(meaning, type):
                for name in ("__init__", "__post_init__"):
                    self._look_into_member(meaning, name, hints if name == "__init__" else [], named)
            else:
                self._enter_function(plain_function(meaning), hints, named)

    def _look_into_helper(self, name: str, hints: list[Any], named: Hints) -> None:
        if is_helper(self.program, name):
            helper = read_helper(self.program, name)
            static = is_static(self.program, name)
            self._enter_method(helper, "" if static else helper.self_name, hints if static else [None, *hints], named)

    def _look_into_member(self, kind: Any, name: str, hints: list[Any], named: Hints) -> None:
        """Check a method or a property of a class of the user's own."""
        module = str(self.reading.method.scope.module.get("__name__", ""))
        if isinstance(kind, type) and is_package_own(kind, module):
            member = inspect.getattr_static(kind, name, None)
            found = getattr(member, "fget", None) or getattr(member, "func", None) or member
            if isinstance(found, types.FunctionType):
                self._enter_function(found, [kind, *hints], named)

    def _enter(
        self, function: ast.Lambda | ast.FunctionDef, hints: list[Any], known: Hints, named: Hints | None = None
    ) -> None:
        if len(self.inside) >= _CALLS_MAX or any(function is one for one in self.inside):
            return
        deeper = replace(self, inside=(*self.inside, function))
        given = {**known, **_bound(function.args, hints), **(named or {})}
        if isinstance(function, ast.Lambda):
            deeper._check(function.body, given)  # noqa: SLF001 - of the same class
        else:
            deeper.block(function.body, given)

    def _enter_function(self, function: Any, hints: list[Any], named: Hints) -> None:
        if not isinstance(function, types.FunctionType):
            return
        try:
            source, tree = parse_function(function, function.__qualname__)
        except ProgramError:
            # What has no source is not looked into by anybody.
            return
        if isinstance(tree, ast.FunctionDef):
            method = Method(EntryPoint(function.__name__, function, (), None), tree, source, scope_of(function, tree))
            self._enter_method(method, "", hints, named)

    def _enter_method(self, method: Method, self_name: str, hints: list[Any], named: Hints) -> None:
        function = method.point.function
        given = {**_bound(method.tree.args, hints), **named}
        declared = {name: hint for name, hint in _parameters(method).items() if hint is not None}
        known = {**given, **declared}
        asked = (function, repr(known))
        if asked in self.looked_into or len(self.inside) >= _CALLS_MAX or any(function is one for one in self.inside):
            return
        self.looked_into.add(asked)
        reading = Reading(method, self_name, self.reading.elements if self_name else {}, self.program)
        _Walk(reading, self.program, (*self.inside, function), self.looked_into).block(method.tree.body, known)

    def _check_comprehension(self, node: Any, known: Hints, *, blind: bool) -> None:
        inner = dict(known)
        walks = False
        for part in node.generators:
            walks |= is_set(self.reading.hint(part.iter, inner))
            self._check_walked(part.iter, inner, blind=blind)
            self.reading.bind(part.target, self.reading.item(part.iter, inner), inner)
            for test in part.ifs:
                self._check(test, inner)
        for result in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self._check(result, inner)
        if walks:
            for left in _left_behind(node):
                raise self._refuse(left)

    def _check_walked(self, walked: ast.expr, known: Hints, *, blind: bool) -> None:
        if not blind and is_set(self.reading.hint(walked, known)):
            raise self._refuse(walked)
        self._check(walked, known, blind=blind)

    def _adds_integers(self, node: ast.expr, known: Hints) -> bool:
        """Whether a sum does not depend on the order: that of floats is rounded at each step."""
        if not isinstance(node, ast.GeneratorExp | ast.ListComp):
            return typing.get_args(self.reading.hint(node, known))[:1] == (int,)
        inner = dict(known)
        for part in node.generators:
            self.reading.bind(part.target, self.reading.item(part.iter, inner), inner)
        return self._is_integer(node.elt, inner)

    def _is_integer(self, node: ast.expr, known: Hints) -> bool:
        match node:
            case ast.Constant(value=value):
                return isinstance(value, int)
            case ast.Compare():
                return True
            case ast.Call(func=function):
                meaning = self.reading.method.scope.resolve(function)
                return any(meaning is known for known in (len, int, ord))
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod(), right=right):
                return self._is_integer(left, known) and self._is_integer(right, known)
            case ast.UnaryOp(operand=operand):
                return self._is_integer(operand, known)
        return self.reading.hint(node, known) in (int, bool)

    def _refuse(self, node: ast.AST) -> ProgramError:
        return refuse(
            "MP177",
            "the result would depend on the order of a set",
            self.reading.method.source,
            node,
            expected="an order that is the same at every run",
            hint="use sorted(...) of it; in `key=`, let the item itself break ties: key=lambda x: (rank[x], x)",
        )


def _bound(arguments: ast.arguments, hints: list[Any]) -> Hints:
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    return {**dict.fromkeys(names), **dict(zip(names, hints, strict=False))}


def _left_behind(node: ast.AST) -> Iterator[ast.AST]:
    """What a comprehension leaves behind beside its result: variables that it binds, lists that it appends to."""
    for part in ast.walk(node):
        called = part.func if isinstance(part, ast.Call) else None
        if isinstance(part, ast.NamedExpr) or (isinstance(called, ast.Attribute) and called.attr in CHANGING_METHODS):
            yield part


def _tells_apart(key: ast.expr) -> bool:
    """Whether a key function can't give one key to two members: it is, or holds, the member itself."""
    if not isinstance(key, ast.Lambda) or len(key.args.args) != 1:
        return False
    member = key.args.args[0].arg
    parts = key.body.elts if isinstance(key.body, ast.Tuple) else [key.body]
    return any(isinstance(part, ast.Name) and part.id == member for part in parts)


def _joined(*ways: Mapping[str, Any]) -> Hints:
    """What is known where several ways meet."""
    names: Iterator[str] = iter(dict.fromkeys(name for way in ways for name in way))
    return {name: either(*(way[name] for way in ways if name in way)) for name in names}
