"""Which variables may be one object with state or with each other, told from a method's assignments.

No types are inferred beyond hints; where nothing is known, sharing is assumed. It is only suspected (`sure` is false)
where a value may as well be something else: the result of a call of unknown code, a part of a value, and what was put
into another object.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, get_args, get_origin, get_type_hints

from millpond.compiler.analysis.mutability import field_of, is_frozen, items_of
from millpond.compiler.analysis.record_types import classes_in, methods_of
from millpond.compiler.draft import Method, Site
from millpond.compiler.front.scope import MISSING, Names
from millpond.compiler.ir.hoist import ITEMS
from millpond.compiler.ir.patterns import FRESH, PLAIN, PLAIN_METHODS, SHALLOW, Sites, root_names
from millpond.program import Element, merged
from millpond.state.codec.classes import UNRESOLVED
from millpond.state.containers.access import Operation


@dataclass(frozen=True, slots=True)
class Share:
    """A value of type `hint` may be an object of `element`, or hold some: what of its type can be changed in place.

    `stored` if it went there, else it came from there; `asked` if it came by each(). `key` is its key as written.
    """

    element: str
    hint: Any
    sure: bool = True
    stored: bool = False
    asked: bool = False
    key: str = ""


Shares = frozenset[Share]
NOTHING: Shares = frozenset()

_DEPTH_MAX: Final = 4
"""In so many lists within each other nothing is told of a value: loops may put a list into another in every turn."""

_MOVING: Final = (
    *(ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.Call, ast.Match),
    *(ast.For, ast.comprehension, ast.withitem, ast.FunctionDef),
)
"""What binds a variable, or puts one value into another."""

STORING: Final = frozenset(("append", "appendleft", "extend", "extendleft", "insert", "add", "update", "setdefault"))
"""Methods of builtin containers that put what they are given into them."""

TAKING: Final = frozenset(("get", "pop", "popleft", "popitem", "setdefault"))
"""Methods of builtin containers that give what they hold, or what they are given."""

COPYING: Final = frozenset(
    ("copy", "values", "items", "union", "intersection", "difference", "symmetric_difference", "__iter__")
)
"""Methods of builtin containers that give another one of what they hold."""

GIVING_NOTHING: Final = frozenset(
    (
        *("append", "extend", "insert", "add", "update", "clear", "remove", "discard", "sort", "reverse"),
        *("keys", "index", "count", "issubset", "issuperset", "isdisjoint"),
    )
)
"""Methods of builtin containers that give a number, or nothing; keys can't be changed."""


class Sharing:
    """What the variables of some statements share, as the statements leave them."""

    def __init__(self, method: Method, statements: Sequence[ast.stmt], elements: Mapping[str, Element]) -> None:
        self._method = method
        self._elements = elements
        self._hints = dict(method.point.parameters)
        self._shares: dict[str, Shares] = {}
        self._values: dict[str, list[ast.AST]] = {}
        self._links: dict[frozenset[str], bool] = {}
        finder = Sites(method, elements)
        self._sites = {id(site.node): site for statement in statements for site in finder.of(statement)}
        # A key is of its element's key type, which can't be changed.
        self._keys = {site.key.id for site in self._sites.values() if isinstance(site.key, ast.Name)}
        self._nodes = nodes = [node for statement in statements for node in ast.walk(statement)]
        for node in nodes:
            for name, value in _bindings(node):
                self._values.setdefault(name, []).append(value)
        # Statements are taken in any order, until nothing is found any more: loops carry things round.
        moving = [node for node in nodes if isinstance(node, _MOVING)]
        before = None
        while before != (self._shares, self._links):
            before = (dict(self._shares), dict(self._links))
            for node in moving:
                self._take(node)
            self._spread()

    @cached_property
    def _helpers(self) -> dict[str, Any]:
        return {
            name: member
            for base in reversed(self._method.owner.__mro__)
            for name, member in vars(base).items()
            if isinstance(member, types.FunctionType | staticmethod | classmethod)
        }

    def of(self, name: str) -> Shares:
        """What a variable shares with state."""
        return self._shares.get(name, NOTHING)

    def values(self, name: str) -> list[ast.AST]:
        """The expressions that a variable is assigned from."""
        return self._values.get(name, [])

    def returned(self) -> frozenset[tuple[int, int]]:
        """The places of returns whose value may be, or hold, an object of state."""
        returns = [node for node in self._nodes if isinstance(node, ast.Return) and node.value is not None]
        holding = self._holding()
        return frozenset(
            (node.lineno, node.col_offset)
            for node in returns
            if node.value is not None and self._gives_state(node.value, holding)
        )

    def _gives_state(self, value: ast.AST, holding: set[str]) -> bool:
        """Whether a value may be, or hold, an object of state."""
        if any(not share.asked for share in self._expression(value)):
            return True
        return any(name in holding for name, _ in self._names_in(value))

    def _holding(self) -> set[str]:
        """The variables whose objects may hold an object of state that was put into them."""
        holding: set[str] = set()
        while True:
            puts = [put for node in self._nodes for put in self._puts(node)]
            more = {name for name, value in puts if self._gives_state(value, holding)} - holding
            if not more:
                return holding
            holding |= more

    def _puts(self, node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
        """The variables that a node binds, or puts something into, each with the expression."""
        yield from ((name, value) for name, value in _bindings(node) if not self.is_plain(name))
        yield from ((name, value) for name, value, _ in self._put_into(node))

    def _put_into(self, node: ast.AST) -> Iterator[tuple[str, ast.AST, bool]]:
        """The variables whose objects a node may put something into, with the expression, and whether it surely does.

        A function may put any of what it is given into any other.
        """
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Subscript | ast.Attribute):
                        yield from ((name, value, True) for name in self._roots(target))
            case ast.AugAssign(target=ast.Subscript() | ast.Attribute() as target, value=value):
                yield from ((name, value, False) for name in self._roots(target))
            case ast.Call(func=callee) if id(node) not in self._sites:
                given = given_to(node)
                meaning = self._method.scope.resolve(callee)
                if any(meaning is known for known in (*FRESH, *SHALLOW)):
                    return
                if isinstance(callee, ast.Attribute):
                    sure = callee.attr in STORING
                    yield from ((name, value, sure) for name in self._roots(callee.value) for value in given)
                if not isinstance(callee, ast.Attribute) or meaning is not MISSING:
                    pairs = ((one, other) for one in given for other in given if other is not one)
                    yield from ((name, other, False) for one, other in pairs for name in self._roots(one))

    def _roots(self, node: ast.AST) -> Iterator[str]:
        return (name for name in root_names(node) if name != self._method.self_name and not self.is_plain(name))

    def asked(self) -> dict[str, str]:
        """The variables that may be objects of instances that were asked, with their elements."""
        return {name: share.element for name, shares in self._shares.items() for share in shares if share.asked}

    def hint(self, value: ast.AST) -> Any:
        """The declared type of a value that is read from state as it is, or None."""
        site = self._sites.get(id(value))
        if site is None or not self._operation(site).shares or not self._operation(site).keyed:
            return None
        return self._elements[site.element].type.value_hint

    def origin(self, name: str) -> ast.AST | None:
        """Where a variable got its value, for showing."""
        return next(iter(self.values(name)), None)

    def link(self, one: str, other: str) -> bool | None:
        """Whether two variables may be one object: surely possible (True), suspected (False), or not (None)."""
        near = {one: True}
        waiting = [one]
        while waiting:
            name = waiting.pop()
            for pair, sure in self._links.items():
                if name in pair:
                    (far,) = pair - {name}
                    reached = near[name] and sure
                    if far not in near or (reached and not near[far]):
                        near[far] = reached
                        waiting.append(far)
        return near.get(other)

    def stored_again(self) -> Iterator[tuple[ast.expr, str, str]]:
        """What is put into an element although it is in another place of state: value, element, where else."""
        for node in self._nodes:
            for stored, share in self._stores(node):
                others = (known for known in self._expression(stored) if known.sure and not known.asked)
                for known in others:
                    if not is_frozen(share.hint) and (known.element, known.key) != (share.element, share.key):
                        yield stored, share.element, f"self.{known.element}" + (f"[{known.key}]" if known.key else "")

    # --- assignments

    def _take(self, node: ast.AST) -> None:
        for name, value in _bindings(node):
            walked = isinstance(node, ast.For | ast.comprehension)
            shares = self._items(self._expression(value)) if walked else self._expression(value)
            self._add(name, shares)
            parted = walked or isinstance(node, ast.Match)
            for other, sure in self._names_in(value):
                if other != name and not self.is_plain(name):
                    self._link(name, other, sure=sure and not parted)
        for name, value, sure in self._put_into(node):
            self._add(name, [replace(share, sure=False, hint=Any) for share in self._expression(value)])
            for other, same in self._names_in(value):
                if other != name:
                    self._link(name, other, sure=sure and same)
        for stored, share in self._stores(node):
            for name, sure in self._names_in(stored):
                self._add(name, frozenset((replace(share, sure=share.sure and sure),)))

    def _add(self, name: str, shares: Iterable[Share]) -> None:
        kept = frozenset(share for share in shares if not is_frozen(share.hint))
        if kept and not self.is_plain(name):
            self._shares[name] = self.of(name) | kept

    def _link(self, one: str, other: str, *, sure: bool) -> None:
        pair = frozenset((one, other))
        self._links[pair] = self._links.get(pair, False) or sure

    def _spread(self) -> None:
        """Let linked variables share what either shares."""
        before = None
        while before != self._shares:
            before = dict(self._shares)
            for pair, sure in self._links.items():
                one, other = pair
                for name, source in ((one, other), (other, one)):
                    found = self.of(source)
                    # One may be a part of the other.
                    self._add(name, found if sure else [replace(share, sure=False, hint=Any) for share in found])

    def _stores(self, node: ast.AST) -> Iterator[tuple[ast.expr, Share]]:
        """The expressions that a node puts into state, or into an object of state."""
        site = self._sites.get(id(node))
        if site is not None and isinstance(node, ast.Call) and self._operation(site).writes:
            hint = self._elements[site.element].type.value_hint
            share = Share(site.element, hint, stored=True, key=_key_text(site))
            yield from ((argument, share) for argument in node.args)
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from ((value, share) for share in self._slot(target))
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if site is None:
                for share in self._items(self._expression(owner)):
                    put = replace(share, stored=True, sure=share.sure and name in STORING)
                    yield from ((argument, put) for argument in given_to(node))

    def _slot(self, target: ast.expr) -> Iterator[Share]:
        """What an assignment to a subscript or an attribute puts its value into."""
        site = self._sites.get(id(target))
        if site is not None:
            hint = self._elements[site.element].type.value_hint
            yield Share(site.element, hint, stored=True, key=_key_text(site))
        elif isinstance(target, ast.Subscript | ast.Attribute):
            yield from (replace(share, stored=True) for share in self._part(target))

    # --- expressions

    def _operation(self, site: Site) -> Operation:
        return self._elements[site.element].type.operations[site.operations[-1]]

    def _expression(self, node: ast.AST) -> Shares:
        """What the value of an expression shares with state."""
        site = self._sites.get(id(node))
        if site is not None:
            shared = self._operation(site).shares and site.operations != ("pop",)
            hint = self._elements[site.element].type.value_hint
            # Answers to each() leave their instance as copies, though not in plain Python: so they must not be changed.
            key = _key_text(site)
            share = Share(site.element, hint, sure=not site.everywhere, asked=site.everywhere, key=key)
            return frozenset((share,)) if shared and not is_frozen(hint) else NOTHING
        match node:
            case ast.Name(id=name):
                return self.of(name)
            case ast.Subscript() | ast.Attribute():
                return frozenset(self._part(node))
            case ast.Call():
                return self._call(node)
            case ast.Compare() | ast.Constant() | ast.JoinedStr() | ast.Lambda() | ast.UnaryOp():
                return NOTHING
            case ast.BinOp(left=left, right=right):
                return _holding(self._items(self._expression(left) | self._expression(right)))
            case ast.ListComp(elt=result) | ast.SetComp(elt=result) | ast.GeneratorExp(elt=result):
                return _holding(self._expression(result))
            case ast.DictComp(value=result):
                return _holding(self._expression(result))
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return _holding(share for part in parts for share in self._item(part))
            case ast.Dict(keys=keys, values=values):
                # Without a key it is a dict whose entries are taken over.
                shares = ((key, self._expression(value)) for key, value in zip(keys, values, strict=True))
                return _holding(share for key, found in shares for share in (found if key else self._items(found)))
        return frozenset(share for child in ast.iter_child_nodes(node) for share in self._expression(child))

    def _item(self, part: ast.expr) -> Shares:
        """What a part of a display shares, or the parts that it stands for."""
        return self._items(self._expression(part.value)) if isinstance(part, ast.Starred) else self._expression(part)

    def _part(self, node: ast.Subscript | ast.Attribute) -> Iterator[Share]:
        whole = self._expression(node.value)
        if isinstance(node, ast.Subscript):
            items = self._items(whole)
            yield from _holding(items) if isinstance(node.slice, ast.Slice) else items
        else:
            for share in whole:
                hint = field_of(share.hint, node.attr)
                if not is_frozen(hint):
                    yield replace(share, hint=hint)

    def _call(self, node: ast.Call) -> Shares:
        meaning = self._method.scope.resolve(node.func)
        if any(meaning is known for known in FRESH):
            return NOTHING
        given = [self._item(argument) for argument in given_to(node)]
        every = frozenset(share for shares in given for share in shares)
        if any(meaning is known for known in SHALLOW):
            return self._taken_from(meaning, given)
        if not isinstance(node.func, ast.Attribute) or meaning is not MISSING:
            return _suspected(every)
        owner = self._expression(node.func.value)
        if self._gives_plain(node.func) or (owner and all(_is_builtin(share.hint) for share in owner)):
            every = every if node.func.attr in TAKING else NOTHING
        found = _suspected(every)
        for share in owner:
            found |= self._method_result(share, node.func.attr)
        return found

    def _taken_from(self, meaning: Any, given: list[Shares]) -> Shares:
        """What the result of a function shares that is made of the parts of its arguments."""
        every = frozenset(share for shares in given for share in shares)
        items = self._items(every)
        if meaning is sum:
            return _holding(self._items(items)) | _holding(items if len(given) > 1 else NOTHING)
        if meaning is next or (meaning in (min, max) and len(given) == 1):
            return items | frozenset(share for shares in given[1:] for share in shares)
        if meaning in (min, max):
            return every
        if meaning is dict:
            return _holding(items | self._items(items))
        return _holding(_holding(items)) if meaning in (enumerate, zip) else _holding(items)

    def _method_result(self, share: Share, name: str) -> Shares:
        """What the result of a method of an object of state, or of one that holds some, may share."""
        if not _is_builtin(share.hint):
            return _suspected((share,))
        if name in TAKING:
            return frozenset(replace(item, sure=False) for item in self._items((share,)))
        if name in COPYING:
            return frozenset(replace(item, sure=False) for item in _holding(self._items((share,))))
        return NOTHING if name in GIVING_NOTHING or name in PLAIN_METHODS else _suspected((share,))

    @staticmethod
    def _items(shares: Iterable[Share]) -> Shares:
        return frozenset(
            replace(share, hint=hint) for share in shares for hint in items_of(share.hint) if not is_frozen(hint)
        )

    def _names_in(self, node: ast.AST) -> Iterator[tuple[str, bool]]:
        """The variables that an expression's value may be or hold, and whether that is sure to be possible."""
        match node:
            case ast.Name(id=name):
                if not self.is_plain(name):
                    yield name, True
            case ast.Tuple() | ast.List() | ast.Set() | ast.Dict() | ast.IfExp() | ast.BoolOp() | ast.Starred():
                for child in ast.iter_child_nodes(node):
                    yield from self._names_in(child)
            case ast.NamedExpr(value=value):
                yield from self._names_in(value)
            case ast.BinOp(left=left, right=right):
                yield from ((name, False) for part in (left, right) for name, _ in self._names_in(part))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                made = (node.value,) if isinstance(node, ast.DictComp) else (node.elt,)
                parts = [*made, *(generator.iter for generator in node.generators)]
                yield from ((name, False) for part in parts for name, _ in self._names_in(part))
            case ast.Subscript(value=value) | ast.Attribute(value=value) if id(node) not in self._sites:
                # A part of a value may be a number as well as a list, so it is only suspected.
                yield from ((name, False) for name, _ in self._names_in(value))
            case ast.Call() if id(node) not in self._sites:
                meaning = self._method.scope.resolve(node.func)
                if not any(meaning is known for known in FRESH):
                    owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
                    for part in (*owner, *given_to(node)):
                        yield from ((name, False) for name, _ in self._names_in(part))

    def is_plain(self, name: str, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a variable holds nothing but values that can't be changed."""
        if name in seen:
            return True
        values = self.values(name)
        if name in self._keys and len(values) + (name in self._hints) == 1:
            return True
        if name in self._hints and not is_frozen(self._hints[name]):
            return False
        if not values and name not in self._hints:
            return False
        return all(self._is_plain_value(value, seen | {name}) for value in values)

    def _is_plain_value(self, node: ast.AST, seen: frozenset[str]) -> bool:
        site = self._sites.get(id(node))
        if site is not None:
            operation = self._operation(site)
            frozen = is_frozen(self._elements[site.element].type.value_hint)
            return site.operations[-1] in ("__len__", "__contains__") or (
                operation.shares and operation.keyed and frozen
            )
        match node:
            case ast.Constant() | ast.Compare() | ast.JoinedStr():
                return True
            case ast.Name(id=name):
                return self.is_plain(name, seen)
            case ast.BinOp(op=ast.Sub() | ast.Div() | ast.FloorDiv() | ast.Mod() | ast.Pow(), left=left):
                # What these give is new, and of the kind of what they are given.
                return self._is_plain_value(left, seen)
            case ast.Call():
                return self._is_plain_call(node, seen)
            case ast.NamedExpr(value=value):
                return self._is_plain_value(value, seen)
            case ast.Subscript(value=value, ctx=ast.Load(), slice=place):
                parts = not isinstance(place, ast.Slice) and self._holds_plain(value, seen)
                return parts or self._is_plain_value(value, seen)
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == self._method.self_name:
                return is_frozen(type(getattr(self._method.owner, name, [])))
            case ast.IfExp(body=body, orelse=orelse):
                return self._is_plain_value(body, seen) and self._is_plain_value(orelse, seen)
            case ast.UnaryOp() | ast.BinOp() | ast.Tuple() | ast.BoolOp():
                inner = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
                return all(self._is_plain_value(part, seen) for part in inner)
        return False

    def _is_plain_call(self, node: ast.Call, seen: frozenset[str]) -> bool:
        meaning = self._meaning(node.func)
        if any(meaning is known for known in PLAIN) or (meaning is sum and len(node.args) == 1):
            return True
        if meaning in (min, max, divmod, pow) and len(node.args) > 1:
            return all(self._is_plain_value(part, seen) for part in node.args)
        if meaning is merged and len(node.args) == 2:
            function = self._meaning(node.args[1])
            return function in (sum, len, any, all) or is_frozen(_returned(function))
        match node.func:
            case ast.Attribute(value=ast.Name(id=name), attr="pop") if name.startswith(ITEMS) and not node.args:
                return all(self._holds_plain(value, seen) for value in self.values(name))
            case ast.Attribute() as callee if self._gives_plain(callee):
                return True
        return is_frozen(_returned(meaning))

    def _gives_plain(self, callee: ast.Attribute) -> bool:
        """Whether a method is one of text and numbers, by its name: nothing else in reach has one of this name."""
        if callee.attr not in PLAIN_METHODS or self._meaning(callee) not in (None, MISSING):
            return False
        return callee.attr not in self._own_methods

    @cached_property
    def _own_methods(self) -> frozenset[str]:
        """The methods of classes in reach that are written in Python."""
        scope = self._method.scope
        named = [value for where in (scope.module, scope.closure) for value in where.values()]
        hints = [*self._hints.values(), *(element.type.value_hint for element in self._elements.values())]
        return frozenset(name for kind in classes_in([*named, *hints]) for name in methods_of(kind))

    def _meaning(self, callee: ast.expr) -> Any:
        """The function that is called: of the module, a builtin, or a helper of the program."""
        match callee:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == self._method.self_name:
                return self._helpers.get(name)
        return self._method.scope.resolve(callee)

    def _holds_plain(self, node: ast.AST, seen: frozenset[str]) -> bool:
        """Whether what a list is made of is nothing but values that can't be changed."""
        match node:
            case ast.Subscript(value=value, slice=ast.Slice()) | ast.Starred(value=value):
                return self._holds_plain(value, seen)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return all(
                    self._holds_plain(part, seen) if isinstance(part, ast.Starred) else self._is_plain_value(part, seen)
                    for part in parts
                )
            case ast.Call(func=ast.Attribute(attr="split" | "splitlines" | "partition")):
                return True
            case ast.Call(func=callee, args=[source, *_]) if any(
                self._method.scope.resolve(callee) is known for known in (list, tuple, sorted, reversed, set)
            ):
                return self._holds_plain(source, seen)
            case ast.Name(id=name) if name in self._hints and not self.values(name):
                return all(map(is_frozen, items_of(self._hints[name])))
            case ast.Call() | ast.Constant():
                return self._is_plain_value(node, seen)
        return False


def given_to(node: ast.Call) -> list[ast.expr]:
    """All that a call is given."""
    return [*node.args, *(keyword.value for keyword in node.keywords)]


def _holding(shares: Iterable[Share]) -> Shares:
    """What a new object shares that holds values with these shares."""
    return frozenset(replace(share, hint=_list_of(share.hint)) for share in shares)


def _list_of(hint: Any) -> Any:
    within, depth = hint, 1
    while get_origin(within) is list and depth < _DEPTH_MAX:
        (within,) = get_args(within)
        depth += 1
    return Any if depth == _DEPTH_MAX else list[hint]


def _suspected(shares: Iterable[Share]) -> Shares:
    """What a value may share that may be, hold or be a part of another, or have nothing to do with it."""
    return frozenset(replace(share, sure=False, hint=Any) for share in shares)


def _is_builtin(hint: Any) -> bool:
    """Whether all that values of a type can do is known."""
    return get_origin(hint) in (list, dict, set, frozenset, tuple)


def _key_text(site: Site) -> str:
    return "" if site.key is None else ast.unparse(site.key)


def _returned(function: Any) -> Any:
    """The declared type of what a function returns; Any if it says nothing, or nothing that can be understood."""
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType):
        return Any
    try:
        return get_type_hints(function).get("return", Any)
    except UNRESOLVED:
        return Any


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The names that a node binds, each with the expression that it is taken from."""
    pairs: list[tuple[ast.expr, ast.AST]] = []
    match node:
        case ast.Assign(targets=targets, value=value):
            pairs = [(target, value) for target in targets]
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
            pairs = [(target, value)]
        case ast.AugAssign(target=target, value=value):
            pairs = [(target, ast.BinOp(target, node.op, value))]
        case ast.For(target=target, iter=walked) | ast.comprehension(target=target, iter=walked):
            pairs = [(target, walked)]
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            pairs = [(target, value)]
        case ast.Match(subject=subject, cases=cases):
            yield from ((name, subject) for case in cases for name in Names.of(case.pattern).binds)
        case ast.FunctionDef(name=name):
            yield name, node
    for target, source in pairs:
        stored = (part for part in ast.walk(target) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
        yield from ((part.id, source) for part in stored)
