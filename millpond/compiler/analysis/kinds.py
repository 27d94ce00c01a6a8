"""What the hints of a method tell of its variables: whether one can be changed in place, or used up by walking it.

Types are followed through assignments, loops and the usual builtins, whatever the order of the statements. Where
nothing is known, the answer is "perhaps".
"""

from __future__ import annotations

import ast
import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from millpond.compiler.analysis.mutability import field_of, is_frozen
from millpond.compiler.draft import Method, Site
from millpond.compiler.front.scope import MISSING, Scope
from millpond.program import Element
from millpond.state.codec.classes import UNRESOLVED, is_plain_dataclass
from millpond.state.containers.matrix import Matrix

UNKNOWN: Final = Any

_SCALAR_CALLS: Final[Mapping[Any, Any]] = {
    **{kind: kind for kind in (int, float, str, bool, bytes)},
    **dict.fromkeys((len, ord, round), int),
    **dict.fromkeys((repr, chr, format, ascii), str),
    **dict.fromkeys((any, all, isinstance, callable), bool),
}
_TEXT: Final = frozenset(
    (
        *("strip", "lstrip", "rstrip", "lower", "upper", "casefold", "title", "capitalize", "swapcase", "replace"),
        *("join", "format", "removeprefix", "removesuffix", "zfill", "center", "ljust", "rjust", "isoformat", "hex"),
    )
)
_NUMBERS: Final = frozenset(
    ("count", "find", "rfind", "index", "rindex", "bit_length", "startswith", "endswith", "isdigit", "isalpha")
)
_PARTS: Final = frozenset(("split", "rsplit", "splitlines"))
_WHOLE: Final = (list, tuple, set, frozenset, deque)
_CONTAINERS: Final = (*_WHOLE, dict)

_ROUNDS: Final = 12
_OWN_METHODS: Final = frozenset(
    ("append", "add", "pop", "clear", "remove", "discard", "sort", "reverse", "index", "count")
)
_LOOKERS: Final = (*_WHOLE, len, sorted, sum, min, max, any, all, enumerate, reversed, zip, str, repr)
"""Functions that put nothing into what they are given."""

Step = str | int
"""From a value to a part of it: "item" is what a loop gives, a number the place in a tuple, "part" anything else."""


class Kinds:
    """The types of a method's variables, as far as they are told."""

    def __init__(
        self,
        method: Method,
        statements: list[ast.stmt],
        sites: Mapping[int, Site],
        elements: Mapping[str, Element],
    ) -> None:
        self._method = method
        self._sites = sites
        self._elements = elements
        self._hints = dict(method.point.parameters)
        self._bound: dict[str, list[tuple[ast.AST | None, tuple[Step, ...]]]] = {}
        for node in (node for statement in statements for node in ast.walk(statement)):
            for name, value, steps in bindings(node, method.scope):
                self._bound.setdefault(name, []).append((value, steps))
        self._grown: dict[str, list[ast.expr]] = {}
        self._shown: set[str] = set()
        for statement in statements:
            self._find_grown(statement)
        self._known: dict[str, Any] = {}
        self._find_all()

    def is_plain(self, name: str) -> bool:
        """Whether a variable holds nothing but values that can't be changed."""
        return is_frozen(self.of(name))

    def is_walked_freely(self, node: ast.AST) -> bool:
        """Whether a value can be walked through any number of times: no iterator, no object of unknown type."""
        hint = self.hint(node)
        kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        return all(is_frozen(kind) or (get_origin(kind) or kind) in _CONTAINERS for kind in kinds)

    def is_finite(self, node: ast.AST) -> bool:
        """Whether walking through a value comes to an end."""
        match node:
            case ast.Call(func=callee, args=[_, *_] as args):
                meaning = self._method.scope.resolve(callee)
                if any(meaning is one for one in (enumerate, reversed, map, filter)):
                    return self.is_finite(args[meaning in (map, filter)])
                if meaning is zip:
                    return any(map(self.is_finite, args))
        return self.is_walked_freely(node)

    def of(self, name: str) -> Any:
        """The type of a variable, UNKNOWN if it is not told."""
        known = self._known.get(name)
        return UNKNOWN if known is None else known

    def _find_all(self) -> None:
        """Let variables be of no type first, and then of what they are bound to, until nothing changes."""
        for _ in range(_ROUNDS):
            found = {name: self._found(name) for name in (*self._hints, *self._bound)}
            changed = [name for name, hint in found.items() if hint != self._known.get(name)]
            self._known = found
            if not changed:
                return
        # Some grow for ever, as in `x = [x]`, and others may follow from them.
        self._known = dict(self._hints)
        self._known |= dict.fromkeys(self._bound, UNKNOWN)

    def _found(self, name: str) -> Any:
        hints = [self._hints[name]] if name in self._hints else []
        for value, steps in self._bound.get(name, ()):
            hint = UNKNOWN if value is None else self.hint(value)
            for step in steps:
                hint = part_of(hint, step)
            hints.append(hint)
        whole = joined(hints)
        if get_origin(whole) not in (list, set) or name not in self._bound:
            return whole
        items = [part_of(whole, "item"), *map(self.hint, self._grown.get(name, ()))]
        return types.GenericAlias(get_origin(whole), (UNKNOWN if name in self._shown else joined(items),))

    def _find_grown(self, node: ast.AST) -> None:
        """Find what is put into the lists and sets of variables, and which of them others may put something into."""
        for child in ast.iter_child_nodes(node):
            self._find_grown(child)
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load):
                self._look_at(child, node)
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "add"), args=[given]):
                self._grown.setdefault(name, []).append(given)

    def _look_at(self, name: ast.Name, parent: ast.AST) -> None:
        match parent:
            case ast.Attribute(attr=called) if called in _OWN_METHODS:
                return
            case ast.For(iter=walked) | ast.comprehension(iter=walked) if walked is name:
                return
            case ast.If() | ast.While() | ast.Compare() | ast.UnaryOp() | ast.Return():
                return
            case ast.Subscript(value=value, ctx=ast.Load()) if value is name:
                return
            case ast.Call(func=callee) if any(self._method.scope.resolve(callee) is known for known in _LOOKERS):
                return
        self._shown.add(name.id)

    def hint(self, node: ast.AST) -> Any:
        """The type of an expression, UNKNOWN if it is not told; None as long as nothing is known of its parts."""
        site = self._sites.get(id(node))
        if site is not None:
            return self._read(site)
        match node:
            case ast.Constant(value=value):
                return type(value)
            case ast.Name(id=name):
                return self._named(name, node)
            case ast.JoinedStr():
                return str
            case ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return bool
            case ast.UnaryOp(operand=operand):
                return self._scalar(operand)
            case ast.BinOp(left=left, right=right):
                return self._sum(self.hint(left), self.hint(right))
            case ast.IfExp(body=body, orelse=orelse):
                return joined([self.hint(body), self.hint(orelse)])
            case ast.BoolOp(values=values):
                return joined([self.hint(value) for value in values])
            case ast.NamedExpr(value=value) | ast.Starred(value=value):
                return self.hint(value)
            case ast.Subscript(value=value, slice=place):
                return self._part(value, place)
            case ast.Attribute(value=value, attr=name):
                return self._attribute(value, name)
            case ast.Call():
                return self._call(node)
        return self._display(node)

    def _named(self, name: str, node: ast.AST) -> Any:
        if name in self._hints or name in self._bound:
            return self._known.get(name)
        meaning = self._method.scope.resolve(node)
        return UNKNOWN if meaning is MISSING or not is_frozen(type(meaning)) else type(meaning)

    def _read(self, site: Site) -> Any:
        element = self._elements[site.element]
        operation = site.operations[-1]
        if operation in ("__len__", "__contains__", "is_set"):
            return int
        if element.type.container is Matrix:
            return element.type.arguments[2] if operation == "__getitem__" else UNKNOWN
        if not element.type.operations[operation].shares:
            return UNKNOWN
        value = element.type.value_hint
        if operation in ("__iter__", "values", "items"):
            # A walk gives one value after the other.
            pair = types.GenericAlias(tuple, (element.type.key_hint, value))
            return types.GenericAlias(list, (pair if operation == "items" else value,))
        if operation in ("get", "pop", "setdefault") and isinstance(site.node, ast.Call):
            return self._or_default(value, site.node, 0 if element.type.single else 1, pops=operation == "pop")
        return value

    def _or_default(self, value: Any, node: ast.Call, at: int, *, pops: bool) -> Any:
        """The type of what is found, or of the default if there is nothing: None, unless that raises."""
        if len(node.args) > at:
            return (
                value if self._is_empty(node.args[at], get_origin(value)) else joined([value, self.hint(node.args[at])])
            )
        return value if pops and not node.keywords else joined([value, type(None)])

    def _is_empty(self, node: ast.AST, kind: Any) -> bool:
        """Whether an expression makes an empty container of a kind: it fits whatever is put into that."""
        match node:
            case ast.Dict(keys=[]):
                return kind is dict
            case ast.Call(func=callee, args=[], keywords=[]):
                return kind in _CONTAINERS and self._method.scope.resolve(callee) is kind
        return False

    def _scalar(self, node: ast.AST) -> Any:
        hint = self.hint(node)
        return hint if hint in (int, float, bool) else UNKNOWN

    @staticmethod
    def _sum(left: Any, right: Any) -> Any:
        if is_frozen(left) and is_frozen(right):
            # What operators make of values that can't be changed can't be changed either.
            return left
        return left if (get_origin(left) or left) in _CONTAINERS and left == right else UNKNOWN

    def _part(self, value: ast.AST, place: ast.AST) -> Any:
        whole = self.hint(value)
        if isinstance(place, ast.Slice):
            return whole
        match place:
            case ast.Constant(value=int(number)) if get_origin(whole) is tuple:
                return part_of(whole, number)
        if get_origin(whole) is dict:
            return get_args(whole)[1]
        return part_of(whole, "item") if get_origin(whole) in (list, tuple) or whole in (str, bytes) else UNKNOWN

    def _attribute(self, value: ast.AST, name: str) -> Any:
        if isinstance(value, ast.Name) and value.id == self._method.self_name:
            constant = getattr(self._method.owner, name, None)
            return type(constant) if is_frozen(type(constant)) else UNKNOWN
        whole = self.hint(value)
        return UNKNOWN if whole is UNKNOWN else field_of(whole, name)

    def _call(self, node: ast.Call) -> Any:
        meaning = self._meaning(node.func)
        for function, hint in _SCALAR_CALLS.items():
            if meaning is function:
                return hint
        if meaning is range:
            return range
        if any(meaning is function for function in (abs, min, max, sum, divmod, pow)) and node.args:
            return self._chosen(node, meaning)
        if any(meaning is kind for kind in (*_WHOLE, sorted)):
            return self._copied(list if meaning is sorted else meaning, node)
        if isinstance(node.func, ast.Attribute) and meaning is MISSING:
            return self._method_call(node, node.func)
        return returned(meaning)

    def _meaning(self, callee: ast.expr) -> Any:
        match callee:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == self._method.self_name:
                return getattr(self._method.owner, name, MISSING)
        return self._method.scope.resolve(callee)

    def _chosen(self, node: ast.Call, meaning: Any) -> Any:
        if len(node.args) == 1 and meaning is not abs:
            return part_of(self.hint(node.args[0]), "item")
        hints = [self.hint(argument) for argument in node.args]
        return joined(hints) if all(map(is_frozen, hints)) else UNKNOWN

    def _copied(self, kind: Any, node: ast.Call) -> Any:
        item = part_of(self.hint(node.args[0]), "item") if node.args else None
        whole = (item, ...) if kind is tuple else (item,)
        return types.GenericAlias(kind, whole) if item is not None else kind

    def _method_call(self, node: ast.Call, callee: ast.Attribute) -> Any:
        owner = self.hint(callee.value)
        name = callee.attr
        if owner in (str, bytes):
            known = {**dict.fromkeys(_TEXT, str), **dict.fromkeys(_NUMBERS, int), **dict.fromkeys(_PARTS, list[str])}
            return known.get(name, UNKNOWN)
        if get_origin(owner) is dict and name in ("get", "pop", "setdefault"):
            return self._or_default(get_args(owner)[1], node, 1, pops=name == "pop")
        if get_origin(owner) is dict and name == "items":
            return list[tuple[get_args(owner)]]  # type: ignore[misc]
        if get_origin(owner) is dict and name in ("keys", "values"):
            return types.GenericAlias(list, (get_args(owner)[name == "values"],))
        return part_of(owner, "item") if get_origin(owner) is list and name == "pop" else UNKNOWN

    def _display(self, node: ast.AST) -> Any:
        match node:
            case ast.Tuple(elts=parts):
                return types.GenericAlias(tuple, tuple(map(self.hint, parts)))
            case ast.List(elts=parts) | ast.Set(elts=parts):
                kind = list if isinstance(node, ast.List) else set
                # Of an empty one only what is put into it tells.
                return types.GenericAlias(kind, (joined([self.hint(part) for part in parts]) if parts else None,))
            case ast.ListComp(elt=part) | ast.SetComp(elt=part):
                return types.GenericAlias(list if isinstance(node, ast.ListComp) else set, (self.hint(part),))
            case ast.Dict(keys=keys, values=values):
                hints = [UNKNOWN if key is None else self.hint(key) for key in keys]
                return types.GenericAlias(dict, (joined(hints), joined([self.hint(value) for value in values])))
            case ast.DictComp(key=key, value=value):
                return types.GenericAlias(dict, (self.hint(key), self.hint(value)))
        return UNKNOWN


def joined(hints: list[Any]) -> Any:
    """One type for what may be of several."""
    different = [hint for hint in dict.fromkeys(hints) if hint is not None]
    if not different:
        return None if hints else UNKNOWN
    if UNKNOWN in different:
        return UNKNOWN
    kinds = {get_origin(hint) for hint in different}
    if len(different) > 1 and kinds in ({list}, {set}):
        return types.GenericAlias(kinds.pop(), (joined([get_args(hint)[0] for hint in different]),))
    return different[0] if len(different) == 1 else Union[tuple(different)]  # noqa: UP007


def part_of(hint: Any, step: Step) -> Any:
    """The type of a part of a value."""
    if hint is None:
        return None
    if step == "part":
        return UNKNOWN
    arguments = get_args(hint)
    if hint in (str, bytes, range):
        return str if hint is str else int
    if get_origin(hint) is tuple and Ellipsis not in arguments:
        if step == "item":
            return joined(list(arguments))
        return arguments[step] if isinstance(step, int) and -len(arguments) <= step < len(arguments) else UNKNOWN
    return arguments[0] if get_origin(hint) in _CONTAINERS and arguments else UNKNOWN


def returned(function: Any) -> Any:
    """The declared type of what a function returns, UNKNOWN if it does not tell."""
    function = getattr(function, "__func__", function)
    if isinstance(function, type) and (is_frozen(function) or _makes_itself(function)):
        return function
    if not isinstance(function, types.FunctionType):
        return UNKNOWN
    try:
        return get_type_hints(function).get("return", UNKNOWN)
    except UNRESOLVED:
        return UNKNOWN


def _makes_itself(kind: type) -> bool:
    """Whether a class, when it is called, gives an object of itself and nothing else."""
    making: Any = kind.__new__
    return is_plain_dataclass(kind) and making is object.__new__ and type(kind) is type


def bindings(node: ast.AST, scope: Scope) -> Iterator[tuple[str, ast.AST | None, tuple[Step, ...]]]:
    """The names that a node binds, what each is taken from, and how; None if that has no expression."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _targets(target, value, ())
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
            yield from _targets(target, value, ())
        case ast.AugAssign(target=ast.Name(id=name) as target, op=operator, value=value):
            yield name, ast.BinOp(ast.Name(target.id, ast.Load()), operator, value), ()
        case ast.For(target=target, iter=walked) | ast.comprehension(target=target, iter=walked):
            yield from _walked(target, walked, scope)
        case ast.withitem(optional_vars=ast.expr() as target):
            yield from _targets(target, None, ())
        case ast.Match(subject=subject, cases=cases):
            for case in cases:
                yield from _captured(case.pattern, subject, ())
        case ast.ExceptHandler(name=str(name)) | ast.FunctionDef(name=name):
            yield name, None, ()


def _captured(
    pattern: ast.pattern, subject: ast.expr, steps: tuple[Step, ...]
) -> Iterator[tuple[str, ast.AST | None, tuple[Step, ...]]]:
    inner: Step = "item" if isinstance(pattern, ast.MatchSequence) else "part"
    match pattern:
        case ast.MatchAs(pattern=whole, name=name):
            if name is not None:
                yield name, subject, steps
            if whole is not None:
                yield from _captured(whole, subject, steps)
            return
        case ast.MatchOr(patterns=patterns):
            for one in patterns:
                yield from _captured(one, subject, steps)
            return
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name, subject, (*steps, "part")
    for number, part in enumerate(part for part in ast.iter_child_nodes(pattern) if isinstance(part, ast.pattern)):
        starred = any(isinstance(other, ast.MatchStar) for other in ast.iter_child_nodes(pattern))
        yield from _captured(part, subject, (*steps, inner if starred or inner == "part" else number))


def _walked(target: ast.expr, walked: ast.expr, scope: Scope) -> Iterator[tuple[str, ast.AST | None, tuple[Step, ...]]]:
    meaning = scope.resolve(walked.func) if isinstance(walked, ast.Call) else MISSING
    match walked, target:
        case ast.Call(args=[source, *_]), ast.Tuple(elts=[first, second]) if meaning is enumerate:
            yield from _targets(first, ast.Constant(0), ())
            yield from _targets(second, source, ("item",))
        case ast.Call(args=sources), ast.Tuple(elts=parts) if meaning is zip and len(sources) == len(parts):
            for part, source in zip(parts, sources, strict=True):
                yield from _targets(part, source, ("item",))
        case ast.Call(args=[source]), _ if meaning is reversed:
            yield from _targets(target, source, ("item",))
        case _:
            yield from _targets(target, walked, ("item",))


def _targets(
    target: ast.expr, value: ast.AST | None, steps: tuple[Step, ...]
) -> Iterator[tuple[str, ast.AST | None, tuple[Step, ...]]]:
    match target:
        case ast.Name(id=name):
            yield name, value, steps
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            starred = any(isinstance(part, ast.Starred) for part in parts)
            for number, part in enumerate(parts):
                yield from _targets(part, None if starred else value, (*steps, number))
        case ast.Starred(value=inner):
            yield from _targets(inner, None, ())
