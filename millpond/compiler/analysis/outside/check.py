"""Changes of what is outside of a row: objects of the module, of the class, and results that a function keeps.

Needs: Method.tree with helpers that touch state written out.
Leaves: the draft as it is. They may be read, and stored as a copy; a method that may change one of them, also through
state that it stored it in, is refused at the line: rows would see it on one worker and not on another.

The method is run over what its values may be, statement by statement: an object of the module itself, or something that
holds one. Functions of the program's own package are looked into where they are given such an object, and so are
functions inside a method. Of a function that comes as a value, and is then called, it is not known which it is: every
one that the method mentions is looked into. Nor is it known of which class an object is: if a method of its name is
written in a class of the package that the method meets, or that state holds, it is looked into.
"""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import operator
import types
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import _lru_cache_wrapper
from typing import Any, Final, NoReturn

from millpond.compiler.analysis.outside.may_alias import MayAlias
from millpond.compiler.analysis.outside.opening import is_home, is_own_class, opened_function, own_function
from millpond.compiler.analysis.outside.things import (
    BY_AUGMENTING,
    BY_FUNCTIONS,
    BY_OPERATORS,
    BY_TRUTH,
    BY_WALKS,
    NOTHING,
    Env,
    Thing,
    Value,
    as_lambda,
    as_load,
    changes_argument,
    class_attributes,
    defaults_of,
    getter_of,
    given_to,
    is_changer,
    join,
    made_by,
    member_of,
    members_named,
    merged,
    new_object,
    referenced,
    stored_by,
    value_of,
    written_defaults,
)
from millpond.compiler.analysis.record_types import classes_in
from millpond.compiler.analysis.types import returned
from millpond.compiler.diagnostics import refuse
from millpond.compiler.draft import Draft, Source
from millpond.compiler.front.callees import is_helper, is_static
from millpond.compiler.front.inlining.helpers import is_own
from millpond.compiler.front.scope import MISSING, Scope, arguments_of, bound_by, outer_names

_TURNS: Final = 2
"""How often a loop is run: what its first turn leaves, the second one meets."""

_FUNCTIONS: Final = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, ast.Attribute)
_SHARED_CODE: Final = (type, types.FunctionType, types.ModuleType)

_ELEMENT: Final = "self."
"""What the names of state elements begin with, among those of variables."""

_SETS_ATTRIBUTES: Final = (setattr, delattr, object.__setattr__, type.__setattr__)

_PARAMETERS_MAX: Final = 16
"""To so many parameters of a function all that it may be called with is given, where its caller is not known."""


@dataclass(frozen=True)
class _Inner:
    """A function inside a method: its tree, what its surroundings are, and where it is written."""

    tree: ast.FunctionDef | ast.Lambda
    env: Env
    frame: _Frame


def check_outside(draft: Draft) -> Draft:
    """Refuse methods that may change what is outside of a row."""
    held = [element.type.value_hint for element in draft.elements.values()]
    for method in draft.methods:
        own = "" if is_static(draft.program, method.name) else method.self_name
        frame = _Frame(draft, method.scope, method.source, own)
        for kind in sorted(classes_in([*held, *dict(method.point.parameters).values()]), key=str):
            frame.meet(kind)
        frame.run(method.tree.body, dict.fromkeys(method.parameters, NOTHING))
    return draft


@dataclass
class _Frame:
    """One function on its way: where it is written, what it may return, and what is `known` of others by then."""

    draft: Draft
    scope: Scope
    source: Source
    self_name: str
    known: dict[Any, Value] = field(default_factory=dict)
    mentioned: dict[Hashable, Any] = field(default_factory=dict)
    """Functions that are values somewhere, by what identifies them; all frames of a method share them."""
    running: set[Hashable] = field(default_factory=set)
    kinds: dict[type, None] = field(default_factory=dict)
    """Classes of the program's own package that objects may be of; all frames of a method share them, too."""
    named: dict[str, list[Hashable]] = field(default_factory=dict)
    """Those that a variable of this function may be."""
    result: Value = NOTHING
    bound: set[str] = field(default_factory=set)
    outer: set[str] = field(default_factory=set)
    """Its variables that are those of the module, or of a function around it that is outside of the row."""
    aliases: MayAlias = field(init=False)
    at: ast.AST | None = None
    """The call that is looked at."""
    made_name: str = ""
    made: Value = NOTHING
    raised: Value = NOTHING

    def run(self, body: list[ast.stmt], env: Env) -> Value:
        """Run the statements of a function, and say what it may return."""
        self.bound = {name for one in body for node in ast.walk(one) for name in bound_by(node)} | set(env)
        self.outer = {name for one in body for name in outer_names(one)}
        self.aliases = MayAlias(body, self.scope, self._element)
        self._block(body, env)
        return self.result

    def run_inner(
        self, tree: ast.FunctionDef | ast.Lambda, args: Sequence[Value], named: Mapping[str, Value], env: Env
    ) -> Value:
        """Run a function that the method itself defines, and say what it may return."""
        written = {name: self._value(default, env) for name, default in written_defaults(tree).items()}
        inner = {**env, **given_to(tree, args, named, written)}
        if isinstance(tree, ast.Lambda):
            return self._value(tree.body, inner)
        before, self.result = self.result, NOTHING
        self._block(tree.body, inner)
        found, self.result = self.result, before
        return found

    # --- statements

    def _block(self, body: Iterable[ast.stmt], env: Env | None) -> Env | None:
        """Run statements one after the other; None where none of them comes to its end."""
        for statement in body:
            if env is None:
                return None
            env = self._statement(statement, env)
        return env

    def _statement(self, node: ast.stmt, env: Env) -> Env | None:
        match node:
            case ast.Return(value=value):
                self.result = join(self.result, self._value(value, env))
                return None
            case ast.Raise(exc=exception):
                self.raised = join(self.raised, self._value(exception, env))
                return None
            case ast.If(test=test, body=body, orelse=orelse):
                self._special(self._value(test, env), BY_TRUTH)
                return merged(self._block(body, dict(env)), self._block(orelse, dict(env)))
            case ast.For() | ast.While():
                return self._loop(node, env)
            case ast.Match(subject=subject, cases=cases):
                return self._match(self._value(subject, env), cases, env)
            case ast.Try():
                return self._try(node, env)
            case ast.With(items=items, body=body):
                for item in items:
                    found = self._value(item.context_expr, env)
                    found = join(found, found.part(), self._special(found, BY_OPERATORS))
                    if item.optional_vars is not None:
                        self._bind(item.optional_vars, found, env)
                return self._block(body, env)
            case ast.FunctionDef(name=name):
                self.named.setdefault(name, []).append(self._mention(id(node), _Inner(node, env, self)))
                self._run_mentioned(id(node), [], {})
            case _:
                self._simple(node, env)
        return env

    def _simple(self, node: ast.stmt, env: Env) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                found = self._value(value, env)
                for target in targets:
                    if isinstance(target, ast.Name) and (functions := self._functions_of(value, env)):
                        self.named.setdefault(target.id, []).extend(functions)
                for target in targets:
                    self._bind(target, found, env)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self._value(value, env), env)
            case ast.AugAssign(target=target, value=value):
                self._augment(target, self._value(value, env), env)
            case ast.Delete(targets=targets):
                for target in targets:
                    self._bind(target, NOTHING, env)
            case _:
                self._walk(node, env)

    def _loop(self, node: ast.For | ast.While, env: Env) -> Env | None:
        after: Env | None = dict(env)
        for _ in range(_TURNS):
            inner = dict(after or env)
            if isinstance(node, ast.For):
                walked = self._value(node.iter, inner)
                self._check_walked(node.iter, walked)
                self._bind(node.target, join(walked.part(), self._special(walked, BY_WALKS).part()), inner)
            else:
                self._special(self._value(node.test, inner), BY_TRUTH)
            after = merged(self._block(node.body, inner), after)
        return self._block(node.orelse, after) if after is not None and node.orelse else after

    def _match(self, subject: Value, cases: list[ast.match_case], env: Env) -> Env | None:
        after: Env | None = dict(env)
        for case in cases:
            inner = dict(env)
            for pattern in ast.walk(case.pattern):
                name = getattr(pattern, "name", None) or getattr(pattern, "rest", None)
                if isinstance(name, str):
                    inner[name] = join(subject, subject.part(), subject.part().part())
            if case.guard is not None:
                self._value(case.guard, inner)
            after = merged(after, self._block(case.body, inner))
        return after

    def _try(self, node: ast.Try, env: Env) -> Env | None:
        before = dict(env)
        after = self._block(node.body, env)
        # A handler may begin after any statement of the body.
        broken = merged(before, env)
        assert broken is not None
        whole = self._block(node.orelse, after)
        for handler in node.handlers:
            named = {handler.name: Value(holds=self.raised.all)} if handler.name else {}
            whole = merged(whole, self._block(handler.body, {**broken, **named}))
        return self._block(node.finalbody, dict(whole if whole is not None else broken)) if node.finalbody else whole

    def _bind(self, target: ast.expr, value: Value, env: Env) -> None:
        match target:
            case ast.Name(id=name):
                if name in self.outer:
                    found = self.scope.resolve(ast.Name(name, ast.Load()))
                    self._refuse_change(target, f"`{name}`", name if found is MISSING else type(found).__name__)
                env[name] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self._bind(part, value.part(), env)
            case ast.Starred(value=inner):
                self._bind(inner, Value(holds=value.all), env)
            case ast.Subscript(value=owner, slice=place):
                self._value(place, env)
                self._put(target, owner, value, env)
            case ast.Attribute(value=owner):
                self._put(target, owner, value, env)

    def _put(self, node: ast.expr, owner: ast.expr, value: Value, env: Env) -> None:
        """Put a value into an object, which must not be one of outside."""
        element = self._element(owner)
        if element:
            # State holds the object itself until the row ends.
            env[element] = join(env.get(element, NOTHING), value)
            return
        whole = self._value(owner, env)
        placed = isinstance(node, ast.Subscript)
        self._check_changed(node, Value(frozenset(one for one in whole.is_ if one.has_places or not placed)))
        if isinstance(node, ast.Attribute):
            self._check_code(node, whole)
            if self._is_class_of(owner):
                self._refuse_change(node, f"`{ast.unparse(node)}`", "an attribute of a class")
            self._special(whole, ("__setattr__",))
            self._by_kinds(whole, (node.attr,), [value], {}, setting=True)
        else:
            self._special(whole, ("__setitem__", "__delitem__"))
        self._into(owner, value, env)

    def _into(self, owner: ast.expr, value: Value, env: Env) -> None:
        """Let all that an object may be found by hold a value, too."""
        for name in self.aliases.of(owner) if value.all else ():
            if name in env or name.startswith(_ELEMENT):
                held = env.get(name, NOTHING)
                env[name] = Value(held.is_, held.holds | value.all)
            if name == self.made_name:
                self.made = join(self.made, Value(holds=value.all))

    def _augment(self, target: ast.expr, value: Value, env: Env) -> None:
        if isinstance(target, ast.Name):
            if target.id in self.outer:
                self._bind(target, value, env)
            before = env.get(target.id, NOTHING)
            self._check_changed(target, Value(frozenset(thing for thing in before.is_ if thing.grows)))
            self._special(before, BY_AUGMENTING)
            env[target.id] = Value(before.is_, before.holds | value.all)
            return
        whole = self._value(as_load(target), env)
        self._check_changed(target, Value(frozenset(thing for thing in whole.is_ if thing.grows)))
        self._special(whole, BY_AUGMENTING)
        self._bind(target, join(whole, Value(holds=value.all)), env)

    # --- expressions

    def _walk(self, node: ast.AST, env: Env) -> Value:
        """Look at all parts of a node; what it gives holds nothing of outside."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._value(child, env)
            elif not isinstance(child, ast.expr_context):
                self._walk(child, env)
        return NOTHING

    def _value(self, node: ast.expr | None, env: Env) -> Value:  # noqa: C901, PLR0912 - one case per kind
        match node:
            case None | ast.Constant():
                return NOTHING
            case ast.Name(id=name) if name == self.self_name:
                return self._own()
            case ast.Name(id=name):
                self._functions_of(node, env)
                return env.get(name, NOTHING) if name in self.bound or name in env else self._global(node)
            case ast.Attribute():
                return self._attribute(node, env)
            case ast.Subscript(value=owner, slice=place):
                self._value(place, env)
                element = self._element(owner)
                if element:
                    return env.get(element, NOTHING)
                whole = self._value(owner, env)
                self._check_changed(node, Value(frozenset(one for one in whole.is_ if one.fills)))
                given = self._special(whole, ("__getitem__", "__missing__"))
                return join(given, Value(holds=whole.part().all) if isinstance(place, ast.Slice) else whole.part())
            case ast.Call():
                return self._call(node, env)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self._special(self._value(test, env), BY_TRUTH)
                return join(self._value(body, env), self._value(orelse, env))
            case ast.BoolOp(values=values):
                found = join(*(self._value(value, env) for value in values))
                self._special(found, BY_TRUTH)
                return found
            case ast.NamedExpr(target=target, value=value):
                found = self._value(value, env)
                self._bind(target, found, env)
                return found
            case ast.Starred(value=value):
                return self._value(value, env).part()
            case ast.Dict():
                return self._dict(node, env)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return Value(holds=join(*(self._value(part, env) for part in parts)).all)
            case ast.BinOp(left=left, right=right):
                sides = join(self._value(left, env), self._value(right, env))
                return join(self._special(sides, BY_OPERATORS), Value(holds=sides.part().all))
            case ast.Compare(left=left, comparators=others):
                self._special(join(*(self._value(one, env) for one in (left, *others))), BY_OPERATORS)
                return NOTHING
            case ast.UnaryOp(operand=operand):
                return self._special(self._value(operand, env), BY_OPERATORS)
            case ast.FormattedValue(value=value):
                self._special(self._value(value, env), BY_FUNCTIONS)
                return NOTHING
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node, env)
            case ast.Lambda():
                self._functions_of(node, env)
                return self.run_inner(node, [], {}, env)
            case ast.Yield(value=value) | ast.YieldFrom(value=value):
                # What a generator gives is what it holds.
                found = self._value(value, env)
                given = found.part() if isinstance(node, ast.YieldFrom) else found
                self.result = join(self.result, Value(holds=given.all))
                return NOTHING
            case ast.Await(value=value):
                return self._value(value, env)
        return self._walk(node, env)

    def _attribute(self, node: ast.Attribute, env: Env) -> Value:
        if element := self._element(node):
            return Value(holds=env.get(element, NOTHING).all)
        self._functions_of(node, env)
        found, whole = join(self._constant(node), self._global(node)), self._value(node.value, env)
        # Whoever takes such a method takes it to call it.
        self._check_changed(node, Value(frozenset(one for one in whole.is_ if is_changer(one, node.attr))))
        given = self._special(whole, (node.attr, "__getattr__"), properties=True)
        if not is_own(node, self.self_name):
            given = join(given, self._by_kinds(whole, (node.attr, "__getattr__"), [], {}))
        elif (getter := getter_of(self.draft.program, node.attr)) is not None:
            given = join(given, self._enter(getter, [], {}, first=self._own()))
        return join(given, found if found.all else whole.part(node.attr))

    def _dict(self, node: ast.Dict, env: Env) -> Value:
        both = list(zip(node.keys, node.values, strict=True))
        spread = [self._value(value, env).part() for key, value in both if key is None]
        pairs = [pair for pair in both if pair[0] is not None]
        self._special(NOTHING, ("__hash__", "__eq__"))
        return Value(holds=join(*spread, *(self._value(part, env) for pair in pairs for part in pair)).all)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, env: Env) -> Value:
        inner = dict(env)
        for generator in node.generators:
            walked = self._value(generator.iter, inner)
            self._check_walked(generator.iter, walked)
            self._bind(generator.target, join(walked.part(), self._special(walked, BY_WALKS).part()), inner)
            for test in generator.ifs:
                self._special(self._value(test, inner), BY_TRUTH)
        made = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        return Value(holds=join(*(self._value(part, inner) for part in made)).all)

    def _call(self, node: ast.Call, env: Env) -> Value:
        self.at = node
        args = self._arguments(node.args, env)
        named = {k.arg or "": self._value(k.value, env) for k in node.keywords}
        every = join(*args, *named.values())
        for one in (*node.args, *(k.value for k in node.keywords)):
            self._call_back(one, join(every, every.part(), every.part().part()), env)
        meaning = self._meaning(node.func)
        if meaning is MISSING and isinstance(node.func, ast.Attribute):
            return self._method_call(node, node.func, args, named, env)
        if meaning is MISSING:
            return self._call_value(node.func, args, named, env)
        if meaning is super or (meaning is type and len(args) == 1):
            return self._classes_of(node)
        if meaning is getattr and len(args) > 1:
            return join(self._named_attribute(node, env), *args[2:])
        if (meaning is functools.partial or meaning is operator.call) and node.args:
            # What it is for is to be called with these.
            first = ast.copy_location(ast.Call(node.args[0], node.args[1:], node.keywords), node)
            return join(self._call(first, env), Value(holds=every.all))
        place = changes_argument(meaning)
        if place is not None and place < len(args):
            self._check_changed(node.args[place], args[place])
        if args and any(meaning is setting for setting in _SETS_ATTRIBUTES):
            self._check_changed(node.args[0], args[0])
            self._check_code(node.args[0], args[0])
        if isinstance(meaning, type | types.BuiltinFunctionType):
            self._special(every, BY_FUNCTIONS)
        return self._result(meaning, args, named)

    def _arguments(self, written: list[ast.expr], env: Env) -> list[Value]:
        args = [self._value(one, env) for one in written]
        spread = [place for place, one in enumerate(written) if isinstance(one, ast.Starred)]
        if spread:
            # Where the parts of it end, and what follows begins, is not known.
            args[spread[0] :] = [join(*args[spread[0] :])] * _PARAMETERS_MAX
        return args

    def _own(self) -> Value:
        """What the program itself has: the attributes of its class, but for its state."""
        return new_object(self.draft.program, frozenset(self.draft.elements))

    def _classes_of(self, node: ast.Call) -> Value:
        """The classes that `type(x)` and `super()` may give: the program, or any that objects may be of."""
        own = not node.args or (isinstance(node.args[0], ast.Name) and node.args[0].id == self.self_name)
        return join(*(value_of(kind, kind.__name__) for kind in (*self.kinds, *[self.draft.program] * own)))

    def _named_attribute(self, node: ast.Call, env: Env) -> Value:
        """What `getattr` gives: an attribute by its name, or any of them."""
        match node.args:
            case [owner, ast.Constant(value=str(name)), *_]:
                return self._value(ast.copy_location(ast.Attribute(owner, name, ast.Load()), node), env)
        whole = self._value(node.args[0], env)
        return join(whole.part(), whole.any_attribute())

    def _result(self, meaning: Any, args: list[Value], named: Mapping[str, Value]) -> Value:
        """What a call of an object of outside may give."""
        if isinstance(meaning, functools.partial):
            before = [value_of(one, meaning.func.__name__) for one in meaning.args]
            kept = {name: value_of(one, name) for name, one in meaning.keywords.items()}
            return self._result(meaning.func, [*before, *args], {**kept, **named})
        every = join(*args, *named.values())
        holder = getattr(meaning, "__self__", None) if isinstance(meaning, types.BuiltinMethodType) else None
        if holder is not None and not isinstance(holder, types.ModuleType | type):
            # A method of an object of outside, under a name of its own.
            return self._called(Value(frozenset((Thing.of(holder, meaning.__name__),))), meaning.__name__, every)
        if isinstance(meaning, operator.methodcaller):
            return self._called(args[0] if args else NOTHING, str(meaning.__reduce__()[1][0]), every)
        if isinstance(meaning, operator.attrgetter):
            return join(*(every.attribute_of(path) for path in meaning.__reduce__()[1]))
        if isinstance(meaning, operator.itemgetter):
            return join(every.part(), every.part().part())
        if isinstance(meaning, types.MethodWrapperType) and meaning.__name__ == "__call__":
            return self._result(meaning.__self__, args, named)
        function = getattr(meaning, "__func__", meaning)
        if isinstance(function, _lru_cache_wrapper):
            hint = returned(getattr(function, "__wrapped__", None))
            thing = Thing.kept(function.__name__, hint)
            return Value(frozenset((thing,))) if thing.matters else NOTHING
        if isinstance(meaning, enum.EnumType):
            return value_of(meaning, meaning.__name__).part()
        if isinstance(meaning, type):
            return self._constructed(meaning, args, named)
        owner = getattr(meaning, "__self__", None) if isinstance(meaning, types.MethodType) else None
        calling = inspect.getattr_static(type(meaning), "__call__", None)
        if not isinstance(meaning, _FUNCTIONS) and isinstance(calling, types.FunctionType):
            function, owner = calling, meaning
        inside = self._own_function(function)
        if inside is None:
            return made_by(meaning, every)
        first = None if owner is None else Value(frozenset((Thing.of(owner, type(owner).__name__),)))
        return self._enter(inside, args, named, first=first)

    def _constructed(self, kind: type, args: list[Value], named: Mapping[str, Value]) -> Value:
        """What a new object leads to: its arguments, defaults, and what the code of one's own class gives it."""
        kept = made_by(kind, join(*args, *named.values()))
        if not is_home(kind.__module__, self.draft.program):
            return kept
        names = [*getattr(kind, "__dataclass_fields__", getattr(kind, "_fields", ()))]
        given = {*names[: len(args)], *named}
        found = []
        for base in kind.__mro__:
            for name in ("__new__", "__init__", "__post_init__"):
                code = vars(base).get(name)
                inside = self._own_function(getattr(code, "__func__", code))
                if inside is not None and inside.__code__.co_filename != "<string>":
                    found.append(self._enter(inside, args, named, first=NOTHING, making=True))
        if (
            not isinstance(making := inspect.getattr_static(kind, "__init__"), types.FunctionType)
            or making.__code__.co_filename == "<string>"
        ):
            # It keeps what it is given; one that the user wrote keeps what is seen there.
            found.append(kept)
        fields = getattr(kind, "__dataclass_fields__", {}).values()
        left_out = [one.default_factory for one in fields if one.name not in given and callable(one.default_factory)]
        found += [self._result(factory, [], {}) for factory in left_out]
        defaults = getattr(kind, "_field_defaults", {})
        found += [value_of(value, name) for name, value in defaults.items() if name not in given]
        own = {*given, *stored_by(vars(kind).get("__init__"))}
        by_class = class_attributes(kind, frozenset(own))
        shown = [Value(frozenset((Thing.of(by_class, kind.__name__),)))] if by_class.held else []
        return join(*(Value(holds=one.all) for one in found), *shown)

    # --- objects of one's own classes

    def meet(self, meaning: Any) -> None:
        """Note a class that objects may be of from now on."""
        if is_own_class(meaning, self.draft.program):
            self.kinds[meaning] = None

    def _by_kinds(
        self,
        owner: Value,
        names: Iterable[str],
        args: list[Value],
        named: Mapping[str, Value],
        *,
        setting: bool = False,
    ) -> Value:
        """Look into members of all classes that were met: of which class an object is, is not known."""
        found = []
        for kind, member, code in members_named(list(self.kinds), names, setting=setting):
            own = self._own_function(code)
            if own is not None and own.__code__.co_filename != "<string>":
                found.append(self._enter(own, args, named, first=self._receiver(kind, member, owner)))
            getter = self._own_function(member_of(type(member), "__get__"))
            if getter is not None:
                found.append(self._enter(getter, [], {}, first=NOTHING))
        return join(*found)

    def _receiver(self, kind: type, member: Any, owner: Value) -> Value | None:
        """What the first parameter of a member stands for: an object, its class, or nothing."""
        if isinstance(member, staticmethod):
            return None
        if isinstance(member, classmethod):
            return value_of(kind, kind.__name__)
        fitting = frozenset(one for one in owner.is_ if isinstance(one.value, kind))
        return join(Value(fitting, owner.holds), new_object(kind))

    def _by_super(self, name: str, args: list[Value], named: Mapping[str, Value]) -> Value:
        """Look into a method by `super()`: that of any base."""
        found = []
        for kind in [self.draft.program] if self.self_name else list(self.kinds):
            first = self._own() if kind is self.draft.program else new_object(kind)
            methods = (self._own_function(vars(base).get(name)) for base in kind.__mro__[1:])
            found += [self._enter(own, args, named, first=first) for own in methods if own is not None]
        return join(*found)

    def _is_class_of(self, node: ast.expr) -> bool:
        """Whether an expression is the class of something: `type(x)` or `x.__class__`."""
        match node:
            case ast.Attribute(attr="__class__"):
                return True
            case ast.Call(func=callee, args=[_]):
                return self._meaning(callee) is type
        return False

    def _method_call(
        self, node: ast.Call, callee: ast.Attribute, args: list[Value], named: Mapping[str, Value], env: Env
    ) -> Value:
        element = self._element(callee.value)
        every = join(*args, *named.values())
        if element:
            held = env[element] = join(env.get(element, NOTHING), every)
            return join(held, Value(holds=held.all))
        owner = self._value(callee.value, env)
        written = {thing: self._own_function(thing.method(callee.attr)) for thing in owner.is_}
        changed = (thing for thing, own in written.items() if own is None and is_changer(thing, callee.attr))
        self._check_changed(node, Value(frozenset(changed)))
        if args and self._is_class_of(callee.value):
            self._check_changed(node, Value(frozenset(one for one in args[0].is_ if is_changer(one, callee.attr))))
        if every.all:
            self._into(callee.value, every, env)
        results = [owner.given_by(callee.attr, every), self._by_kinds(owner, (callee.attr,), args, named)]
        if isinstance(callee.value, ast.Call) and self._meaning(callee.value.func) is super:
            results.append(self._by_super(callee.attr, args, named))
        if callee.attr == "__call__":
            results += [self._result(thing.value, args, named) for thing in owner.is_ if callable(thing.value)]
        for thing, own in written.items():
            if isinstance(thing.value, type):
                results.append(self._result(getattr(thing.value, callee.attr, MISSING), args, named))
            elif isinstance(thing.method(callee.attr), _lru_cache_wrapper):
                results.append(self._result(thing.method(callee.attr), args, named))
            elif own is not None:
                results.append(self._enter(own, args, named, first=Value(frozenset((thing,)))))
        return join(*results)

    def _called(self, owner: Value, method: str, given: Value) -> Value:
        """What a method of an object gives, that is called by another name."""
        assert self.at is not None
        self._check_changed(self.at, Value(frozenset(one for one in owner.is_ if is_changer(one, method))))
        return join(self._special(owner, (method,)), owner.given_by(method, given))

    def _special(self, owner: Value, names: Iterable[str], *, properties: bool = False) -> Value:
        """Look into methods of one's own classes that are called without being named."""
        found = []
        for thing in owner.is_:
            for name in names:
                code = thing.getter(name) if properties and name != "__getattr__" else thing.method(name)
                own = self._own_function(code)
                if own is not None:
                    found.append(self._enter(own, [], {}, first=Value(frozenset((thing,)))))
        if not properties:  # For what they change: what they give is not taken for what any operator may give.
            self._by_kinds(owner, names, [], {})
        return join(*found)

    # --- functions that are values

    def _call_value(self, callee: ast.expr, args: list[Value], named: Mapping[str, Value], env: Env) -> Value:
        """Call what is a variable, or the result of something."""
        functions = self._functions_of(callee, env)
        if functions:
            return join(*(self._run_mentioned(one, args, named) for one in functions))
        found, every = self._value(callee, env), join(*args, *named.values())
        self._special(found, ("__call__",))
        results = [self._result(thing.value, args, named) for thing in found.is_ if callable(thing.value)]
        # A class that is called gives a new object, and not itself.
        found = Value(frozenset(thing for thing in found.is_ if not isinstance(thing.value, type)), found.holds)
        if every.all:
            results += [self._run_mentioned(one, [every] * _PARAMETERS_MAX, {}) for one in list(self.mentioned)]
        return join(every, found, Value(holds=every.all), *results)

    def _call_back(self, function: ast.expr, given: Value, env: Env) -> None:
        """Look into a function that another one is given, and may call with what it is given besides."""
        for one in self._functions_of(function, env):
            self._run_mentioned(one, [given] * _PARAMETERS_MAX, {})
        if isinstance(function, ast.Name | ast.Attribute) and changes_argument(self._meaning(function)) is not None:
            self._check_changed(function, given)

    def _functions_of(self, node: ast.expr, env: Env) -> list[Hashable]:
        """The functions that an expression is known to stand for; they are mentioned by that."""
        if isinstance(node, ast.Lambda):
            return [self._mention(id(node), _Inner(node, env, self))]
        if isinstance(node, ast.Name) and node.id in self.bound:
            return self.named.get(node.id, [])
        if isinstance(node, ast.Call) and (made := as_lambda(self._meaning(node.func), node)) is not None:
            return [self._mention(ast.dump(node), _Inner(made, env, self))]
        if not isinstance(node, ast.Name | ast.Attribute):
            return []
        meaning = self._meaning(node)
        function = None if meaning is MISSING else self._own_function(meaning)
        return [] if function is None else [self._mention(_name_of(function), function)]

    def _mention(self, identity: Hashable, function: Any) -> Hashable:
        self.mentioned[identity] = function
        return identity

    def _run_mentioned(self, identity: Hashable, args: list[Value], named: Mapping[str, Value]) -> Value:
        """Look into a function that is given something; one that calls itself, once."""
        function = self.mentioned[identity]
        if identity in self.running:
            return join(*args, *named.values())
        self.running.add(identity)
        try:
            if isinstance(function, _Inner):
                return function.frame.run_inner(function.tree, args, named, function.env)
            return self._enter(function, args, named, first=None)
        finally:
            self.running.discard(identity)

    # --- functions that are looked into

    def _meaning(self, callee: ast.expr) -> Any:
        if is_own(callee, self.self_name):
            assert isinstance(callee, ast.Attribute)
            return callee if is_helper(self.draft.program, callee.attr) else MISSING
        root: ast.AST = callee
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in self.bound:
            return MISSING
        meaning = self.scope.resolve(callee)
        self.meet(meaning)
        return meaning

    def _own_function(self, meaning: Any) -> Any:
        return own_function(meaning, self.draft.program)

    def _enter(
        self,
        function: Any,
        args: list[Value],
        named: Mapping[str, Value],
        first: Value | None,
        *,
        making: bool = False,
    ) -> Value:
        """What a function may give; with `making`, what it puts into its first argument too."""
        mentioned = frozenset(self.mentioned)
        call = (_name_of(function), tuple(args), frozenset(named.items()), first, making, mentioned)
        if call not in self.known:
            # A function may call itself: until it is known, it gives what it is given.
            self.known[call] = join(*args, *named.values())
            self.known[call] = self._look_into(function, args, named, first, making=making)
        return self.known[call]

    def _look_into(
        self, function: Any, args: list[Value], named: Mapping[str, Value], first: Value | None, *, making: bool
    ) -> Value:
        opened = opened_function(function, self.draft.program)
        if opened is None:
            return join(*args, *named.values(), *referenced(function))
        tree, scope, source, own = opened
        frame = _Frame(self.draft, scope, source, own, self.known, self.mentioned, self.running, self.kinds)
        if frame.self_name or first is not None:
            args = [first or NOTHING, *args]
            frame.made_name = next((one.arg for one in arguments_of(tree.args)), "") if making else ""
        found = frame.run(tree.body, given_to(tree, args, named, defaults_of(function, tree)))
        return join(found, frame.made)

    # --- what names stand for

    def _element(self, node: ast.AST) -> str:
        """The state element that a node stands for, as a name of its own; "" if none."""
        if is_own(node, self.self_name) and node.attr in self.draft.elements:
            return f"{_ELEMENT}{node.attr}"
        return ""

    def _constant(self, node: ast.Attribute) -> Value:
        if not is_own(node, self.self_name):
            return NOTHING
        return value_of(getattr(self.draft.program, node.attr, None), ast.unparse(node))

    def _global(self, node: ast.expr) -> Value:
        root: ast.AST = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or root.id in self.bound:
            return NOTHING
        meaning = self.scope.resolve(node)
        self.meet(meaning)
        return NOTHING if meaning is MISSING else value_of(meaning, ast.unparse(node))

    # --- refusing

    def _check_walked(self, node: ast.expr, walked: Value) -> None:
        """Walking through an iterator uses it up; one that a container may hold among others is not looked for."""
        named = self._global(node).is_
        self._check_changed(node, Value(frozenset(thing for thing in walked.is_ & named if thing.used_up)))

    def _check_code(self, node: ast.AST, owner: Value) -> None:
        """Attributes of classes, functions and modules are there for all rows."""
        found = frozenset(thing for thing in owner.is_ if isinstance(thing.value, _SHARED_CODE))
        self._check_changed(node, Value(found), found)

    def _check_changed(self, node: ast.AST, value: Value, surely: frozenset[Thing] = frozenset()) -> None:
        for thing in sorted(value.is_, key=lambda one: one.text):
            if thing.changeable or thing in surely:
                self._refuse_change(node, thing.text, thing.shown)

    def _refuse_change(self, node: ast.AST, changed: str, found: str) -> NoReturn:
        raise refuse(
            "MP122",
            f"this changes {changed}, which is not state",
            self.source,
            node,
            expected="changes to state elements and local variables",
            found=found,
            hint="it is one object for all rows of a process: change a copy, e.g. list(x), or make it state",
        )


def _name_of(function: Any) -> Hashable:
    return str(function.attr) if isinstance(function, ast.Attribute) else id(function)
