"""From statements to flat instructions, in the order in which Python evaluates them.

Needs: statements of a method, with jumps or without, and the accesses to state in them.
Leaves: a `Flat`. After this nobody has to look at syntax to know what a method does.

Parts that may be skipped or repeated are behind branches. Comprehensions are loops, and so are generators, which run as
a whole where they are made. Functions within a method may run at any time and any number of times: they are a loop that
may be skipped, and their parameters come from nowhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from millpond.compiler.draft import Method, Site
from millpond.compiler.front.scope import MISSING, Names, arguments_of
from millpond.compiler.ir.jumps import Branch, Jump
from millpond.compiler.ir.model import NOTHING, Flat, Instr, Op, moved
from millpond.compiler.ir.patterns import Sites
from millpond.errors import ProgramError
from millpond.program import Element

_SIGNS: Final[Mapping[type[ast.AST], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitOr: "|",
    ast.BitAnd: "&",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.MatMult: "@",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Not: "not",
    ast.USub: "-",
    ast.UAdd: "+",
    ast.Invert: "~",
}


def lower(method: Method, statements: Sequence[ast.stmt], elements: Mapping[str, Element]) -> Flat:
    """Write statements of a method as instructions."""
    finder = Sites(method, elements)
    sites = {id(site.node): site for statement in statements for site in finder.of(statement)}
    return _Lowering(method, sites).run(statements)


def lower_expression(method: Method, node: ast.expr, elements: Mapping[str, Element]) -> list[Instr]:
    """Write a single expression as instructions, the last of which gives its value; none for a part of an access."""
    try:
        sites = {id(site.node): site for site in Sites(method, elements).of(node)}
    except ProgramError:
        return []
    return _Lowering(method, sites, "%").expression(node)


class _Lowering:
    def __init__(self, method: Method, sites: Mapping[int, Site], mark: str = "") -> None:
        self._mark_of = mark
        self._method = method
        self._sites = sites
        self._out: list[Instr] = []
        self._values: dict[int, tuple[ast.AST, str]] = {}
        self._labels: list[int] = []
        self._tops: dict[int, int] = {}
        self._loops: list[tuple[int, int]] = []
        self._inner: list[dict[str, str]] = []
        self._top = 0
        self._number = 0
        self._at: ast.AST = ast.Pass()

    def run(self, statements: Sequence[ast.stmt]) -> Flat:
        """Write all statements, and then fill in where jumps go."""
        for top, statement in enumerate(statements):
            self._top = top
            self._tops[top] = len(self._out)
            self._statement(statement)
        self._tops[len(statements)] = len(self._out)
        return Flat(tuple(one if one.target < 0 else moved(one, self._goal(one)) for one in self._out), self._values)

    def expression(self, node: ast.expr) -> list[Instr]:
        """Write an expression."""
        self._emit(Op.COPY, [self._value(node)], node)
        return self._out

    def _goal(self, instr: Instr) -> int:
        return self._tops[instr.target] if isinstance(instr.node, Branch | Jump) else self._labels[instr.target]

    # --- writing

    def _emit(
        self, op: Op, args: Sequence[str] = (), node: ast.AST | None = None, out: str | None = None, **more: Any
    ) -> str:
        assert node is not None
        target = self._temp() if out is None else out
        self._out.append(Instr(op, target, tuple(args), node, self._top, **more))
        return target

    def _temp(self, name: str = "") -> str:
        self._number += 1
        return f"{name}%{self._mark_of}{self._number}"

    def _label(self) -> int:
        self._labels.append(-1)
        return len(self._labels) - 1

    def _mark(self, label: int) -> None:
        self._labels[label] = len(self._out)

    def _jump(self, label: int, node: ast.AST) -> None:
        self._emit(Op.JUMP, (), node, "", target=label)

    def _branch(self, test: Sequence[str], label: int, node: ast.AST) -> None:
        self._emit(Op.BRANCH, test, node, "", target=label)

    def _name(self, name: str) -> str:
        return next((scope[name] for scope in reversed(self._inner) if name in scope), name)

    @contextmanager
    def _scope(self, names: Iterator[str] | frozenset[str]) -> Iterator[None]:
        self._inner.append({name: self._temp(name) for name in sorted(names)})
        yield
        self._inner.pop()

    # --- statements

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:  # noqa: C901, PLR0912 - one case per kind
        self._at = node
        match node:
            case Branch():
                self._emit(Op.BRANCH, [self._value(node.test)], node, "", target=node.target)
            case Jump():
                self._emit(Op.JUMP, (), node, "", target=node.target)
            case ast.Assign(targets=targets, value=value):
                held = self._value(value)
                for target in targets:
                    self._store(target, held, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._store(target, self._value(value), value)
            case ast.AugAssign():
                self._augment(node)
            case ast.Return(value=value):
                self._emit(Op.RETURN, [] if value is None else [self._value(value)], node, "")
            case ast.Raise(exc=exception, cause=cause):
                self._emit(Op.RAISE, [self._value(one) for one in (exception, cause) if one is not None], node, "")
            case ast.Expr(value=value):
                self._value(value)
            case ast.If(test=test, body=body, orelse=orelse):
                self._either([self._value(test)], node, body, orelse)
            case ast.While() | ast.For():
                self._loop(node)
            case ast.Break() | ast.Continue():
                onward, again = self._loops[-1]
                self._jump(onward if isinstance(node, ast.Break) else again, node)
            case ast.With():
                self._with(node)
            case ast.Try():
                self._try(node)
            case ast.Match():
                self._match(node)
            case ast.FunctionDef(name=name):
                self._function(node, self._name(name))
            case ast.Delete(targets=targets):
                for target in targets:
                    self._delete(target)
            case ast.Assert(test=test, msg=message):
                over = self._label()
                self._branch([self._value(test)], over, node)
                if message is not None:
                    self._value(message)
                self._mark(over)

    def _either(self, test: list[str], node: ast.AST, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
        other, end = self._label(), self._label()
        self._branch(test, other, node)
        self._block(body)
        self._jump(end, node)
        self._mark(other)
        self._block(orelse)
        self._mark(end)

    def _loop(self, node: ast.While | ast.For) -> None:
        head, other, end = self._label(), self._label(), self._label()
        walked = [self._value(node.iter)] if isinstance(node, ast.For) else []
        self._mark(head)
        self._branch([self._value(node.test)] if isinstance(node, ast.While) else [], other, node)
        if isinstance(node, ast.For):
            self._store(node.target, self._emit(Op.NEXT, walked, node.iter), node.iter)
        self._loops.append((end, head))
        self._block(node.body)
        self._loops.pop()
        self._jump(head, node)
        self._mark(other)
        self._block(node.orelse)
        self._mark(end)

    def _with(self, node: ast.With) -> None:
        end = self._label()
        for item in node.items:
            entered = self._emit(Op.ENTER, [self._value(item.context_expr)], item.context_expr)
            if item.optional_vars is not None:
                self._store(item.optional_vars, entered, item.context_expr)
        # What the body raises may be swallowed.
        self._branch([], end, node)
        self._block(node.body)
        self._mark(end)

    def _try(self, node: ast.Try) -> None:
        end = self._label()
        ways = [self._label() for _ in node.handlers]
        for way in ways:
            self._branch([], way, node)
        self._block([*node.body, *node.orelse])
        self._jump(end, node)
        for way, handler in zip(ways, node.handlers, strict=True):
            self._mark(way)
            if handler.type is not None:
                self._value(handler.type)
            if handler.name:
                self._emit(Op.CAUGHT, (), handler, self._name(handler.name))
            self._block(handler.body)
            self._jump(end, node)
        self._mark(end)
        self._block(node.finalbody)

    def _match(self, node: ast.Match) -> None:
        subject, end = self._value(node.subject), self._label()
        for case in node.cases:
            after = self._label()
            self._branch([], after, node)
            self._capture(case.pattern, subject, node.subject)
            if case.guard is not None:
                self._branch([self._value(case.guard)], after, case.guard)
            self._block(case.body)
            self._jump(end, node)
            self._mark(after)
        self._mark(end)

    def _capture(self, pattern: ast.pattern, subject: str, node: ast.expr) -> None:
        match pattern:
            case ast.MatchAs(pattern=inner, name=name):
                if name is not None:
                    self._emit(Op.COPY, [subject], node, self._name(name))
                if inner is not None:
                    self._capture(inner, subject, node)
                return
            case ast.MatchOr(patterns=patterns):
                for one in patterns:
                    self._capture(one, subject, node)
                return
            case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                self._emit(Op.PART, [subject], node, self._name(name))
            case ast.MatchValue(value=value):
                self._value(value)
        parts = [one for one in ast.iter_child_nodes(pattern) if isinstance(one, ast.pattern)]
        placed = isinstance(pattern, ast.MatchSequence) and not any(isinstance(one, ast.MatchStar) for one in parts)
        for place, part in enumerate(parts):
            if isinstance(part, ast.MatchStar):
                self._capture(part, subject, node)
            elif placed:
                self._capture(part, self._emit(Op.UNPACK, [subject], node, name=str(place)), node)
            else:
                op = Op.NEXT if isinstance(pattern, ast.MatchSequence) else Op.PART
                self._capture(part, self._emit(op, [subject], node), node)

    def _delete(self, target: ast.expr) -> None:
        match target:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self._delete(part)
            case ast.Name():
                return
            case _ if id(target) in self._sites:
                self._access(target, self._sites[id(target)])
            case ast.Subscript(value=owner, slice=place):
                self._emit(Op.DELETE, [self._value(owner), self._value(place)], target, "")
            case ast.Attribute(value=owner, attr=name):
                self._emit(Op.DELETE, [self._value(owner)], target, "", name=name)

    # --- targets

    def _store(self, target: ast.expr, value: str, node: ast.AST) -> None:
        match target:
            case ast.Name(id=name):
                self._emit(Op.COPY, [value], node, self._name(name))
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                starred = any(isinstance(part, ast.Starred) for part in parts)
                for place, part in enumerate(parts):
                    if isinstance(part, ast.Starred):
                        self._store(part.value, self._emit(Op.SLICE, [value], node), node)
                    else:
                        op, name = (Op.NEXT, "") if starred else (Op.UNPACK, str(place))
                        self._store(part, self._emit(op, [value], node, name=name), node)
            case ast.Starred(value=inner):
                self._store(inner, value, node)
            case _ if id(target) in self._sites:
                self._access(target, self._sites[id(target)], value)
            case ast.Subscript(value=owner, slice=ast.Slice()):
                self._emit(Op.METHOD, [self._value(owner), value], target, name="extend")
            case ast.Subscript(value=owner, slice=place):
                self._emit(Op.SET_ITEM, [self._value(owner), value, self._value(place)], self._at, "")
            case ast.Attribute(value=owner, attr=name):
                self._emit(Op.SET_ATTRIBUTE, [self._value(owner), value], self._at, "", name=name)

    def _augment(self, node: ast.AugAssign) -> None:
        target, sign = node.target, _SIGNS[type(node.op)]
        site = self._sites.get(id(target))
        if isinstance(target, ast.Name):
            name = self._name(target.id)
            self._emit(Op.AUGMENT, [name, self._value(node.value)], node, name, name=sign)
            return
        # The place is found once: it is read, and then stored into.
        if site is not None:
            assert isinstance(target, ast.Subscript)
            key = [self._value(target.slice)]
            read = self._emit(Op.STATE, key, target, name=site.operations[0], site=site)
        elif isinstance(target, ast.Subscript):
            owner, place = self._value(target.value), self._value(target.slice)
            read = self._emit(Op.ITEM, [owner, place], target)
        else:
            owner = self._value(target.value)
            read = self._emit(Op.ATTRIBUTE, [owner], target, name=target.attr)
        added = self._emit(Op.AUGMENT, [read, self._value(node.value)], node, name=sign)
        if site is not None:
            self._emit(Op.STATE, [*key, added], node, "", name=site.operations[-1], site=site)
        elif isinstance(target, ast.Subscript):
            self._emit(Op.SET_ITEM, [owner, added, place], node, "")
        else:
            self._emit(Op.SET_ATTRIBUTE, [owner, added], node, "", name=target.attr)

    # --- accesses to state

    def _access(self, node: ast.expr, site: Site, stored: str = "") -> str:
        name = site.operations[-1]
        match node:
            case ast.Subscript():
                key = self._value(node.slice)
                if stored:
                    return self._emit(Op.STATE, [key, stored], self._at, "", name=name, site=site)
                return self._emit(Op.STATE, [key], node, name=name, site=site)
            case ast.Compare(left=left):
                return self._emit(Op.STATE, [self._value(left)], node, name=name, site=site)
            case ast.Call(func=ast.Attribute(value=ast.Attribute() | ast.Call(), attr=called)) if name == called:
                args, stars, words = self._given(node)
                return self._emit(Op.STATE, args, node, name=name, site=site, stars=stars, words=words)
            case ast.Call(func=callee, args=[_, *others], keywords=keywords):
                # A function of a whole element, such as len() or sorted().
                whole = self._emit(Op.STATE, (), node, name=name, site=site)
                if name == "__len__":
                    return whole
                rest = [self._value(one) for one in (*others, *(word.value for word in keywords))]
                words = tuple(word.arg or "" for word in keywords)
                return self._emit(Op.CALL, [whole, *rest], node, meaning=self._meaning(callee), words=words)
        return self._emit(Op.STATE, (), node, name=name, site=site)

    # --- expressions

    def _value(self, node: ast.expr) -> str:
        found = self._expression(node)
        self._values[id(node)] = node, found
        return found

    def _expression(self, node: ast.expr) -> str:  # noqa: C901, PLR0912 - one case per kind
        site = self._sites.get(id(node))
        if site is not None:
            return self._access(node, site)
        match node:
            case ast.Constant(value=value):
                return self._emit(Op.CONST, (), node, meaning=value)
            case ast.Name() | ast.Attribute():
                return self._named(node)
            case ast.Call():
                return self._call(node)
            case ast.Subscript(value=owner, slice=ast.Slice() as place):
                args = [
                    self._value(owner),
                    *(self._value(one) for one in (place.lower, place.upper, place.step) if one),
                ]
                return self._emit(Op.SLICE, args, node)
            case ast.Subscript(value=owner, slice=place):
                return self._emit(Op.ITEM, [self._value(owner), self._value(place)], node)
            case ast.BinOp(left=left, op=sign, right=right):
                args = [self._value(left), self._value(right)]
                return self._emit(Op.OPERATE, args, node, name=_SIGNS[type(sign)])
            case ast.UnaryOp(op=sign, operand=operand):
                return self._emit(Op.OPERATE, [self._value(operand)], node, name=_SIGNS[type(sign)])
            case ast.Compare(left=left, ops=signs, comparators=others):
                args = [self._value(one) for one in (left, *others)]
                return self._emit(Op.OPERATE, args, node, name=_SIGNS[type(signs[0])])
            case ast.JoinedStr() | ast.FormattedValue():
                parts = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
                return self._emit(Op.OPERATE, [self._value(one) for one in parts], node, name="text")
            case ast.BoolOp(values=values):
                return self._choice(node, values, "or" if isinstance(node.op, ast.Or) else "")
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._chosen(node, test, body, orelse)
            case ast.NamedExpr(target=target, value=value):
                held = self._value(value)
                self._store(target, held, value)
                return held
            case ast.Tuple() | ast.List() | ast.Set() | ast.Dict():
                return self._display(node)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return self._comprehension(node)
            case ast.Lambda():
                return self._function(node, None)
            case ast.Starred(value=value):
                return self._value(value)
        parts = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
        return self._emit(Op.YIELD, [self._value(one) for one in parts], node)

    def _named(self, node: ast.Name | ast.Attribute) -> str:
        if isinstance(node, ast.Name):
            renamed = self._name(node.id)
            if renamed != node.id or node.id in self._method.scope.locals:
                return renamed
        meaning = self._meaning(node)
        if meaning is not NOTHING:
            return self._emit(Op.OUTER, (), node, name=ast.unparse(node), meaning=meaning)
        if isinstance(node, ast.Name):
            return node.id
        return self._emit(Op.ATTRIBUTE, [self._value(node.value)], node, name=node.attr)

    def _meaning(self, node: ast.AST) -> Any:
        """The object behind a name, a member of a module, or a member of the program's class."""
        match node:
            case ast.Name(id=name) if any(name in scope for scope in self._inner):
                return NOTHING
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == self._method.self_name:
                return getattr(self._method.owner, name, NOTHING)
        found = self._method.scope.resolve(node)
        return NOTHING if found is MISSING else found

    def _given(self, node: ast.Call) -> tuple[list[str], frozenset[int], tuple[str, ...]]:
        args = [self._value(one) for one in (*node.args, *(word.value for word in node.keywords))]
        starred = {at for at, one in enumerate(node.args) if isinstance(one, ast.Starred)}
        starred |= {len(node.args) + at for at, word in enumerate(node.keywords) if word.arg is None}
        return args, frozenset(starred), tuple(word.arg or "" for word in node.keywords)

    def _call(self, node: ast.Call) -> str:
        meaning = self._meaning(node.func)
        if meaning is NOTHING and isinstance(node.func, ast.Attribute):
            owner = [self._value(node.func.value)]
            args, stars, words = self._given(node)
            stars = frozenset(at + 1 for at in stars)
            return self._emit(Op.METHOD, owner + args, node, name=node.func.attr, stars=stars, words=words)
        called = [self._value(node.func)] if meaning is NOTHING else []
        args, stars, words = self._given(node)
        stars = frozenset(at + len(called) for at in stars)
        return self._emit(Op.CALL, called + args, node, meaning=meaning, stars=stars, words=words)

    def _choice(self, node: ast.AST, values: Sequence[ast.expr], name: str) -> str:
        out, end = self._temp(), self._label()
        for value in values:
            last = value is values[-1]
            self._emit(Op.COPY, [self._value(value)], value, out, name="" if last else name)
            if not last:
                self._branch([out], end, node)
        self._mark(end)
        return out

    def _chosen(self, node: ast.AST, test: ast.expr, body: ast.expr, orelse: ast.expr) -> str:
        out, other, end = self._temp(), self._label(), self._label()
        self._branch([self._value(test)], other, node)
        self._emit(Op.COPY, [self._value(body)], body, out)
        self._jump(end, node)
        self._mark(other)
        self._emit(Op.COPY, [self._value(orelse)], orelse, out)
        self._mark(end)
        return out

    def _display(self, node: ast.Tuple | ast.List | ast.Set | ast.Dict) -> str:
        kind = type(node).__name__.lower()
        if isinstance(node, ast.Dict):
            keys = [None if key is None else self._value(key) for key in node.keys]
            values = [self._value(value) for value in node.values]
            pairs = list(zip(keys, values, strict=True))
            args = [part for key, value in pairs for part in (*([] if key is None else [key]), value)]
            spread = frozenset(args.index(value) for key, value in pairs if key is None)
            return self._emit(Op.MAKE, args, node, name=kind, stars=spread)
        args = [self._value(part) for part in node.elts]
        stars = frozenset(at for at, part in enumerate(node.elts) if isinstance(part, ast.Starred))
        return self._emit(Op.MAKE, args, node, name=kind, stars=stars)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> str:
        kind = {ast.SetComp: "set", ast.DictComp: "dict", ast.GeneratorExp: "generator"}.get(type(node), "list")
        out = self._emit(Op.MAKE, (), node, name=kind)
        first = self._value(node.generators[0].iter)
        names = frozenset(name for part in node.generators for name in Names.of(part.target).binds)
        ends = []
        with self._scope(names):
            for number, each in enumerate(node.generators):
                walked = first if number == 0 else self._value(each.iter)
                head, end = self._label(), self._label()
                ends.append((head, end))
                self._mark(head)
                self._branch([], end, each.iter)
                self._store(each.target, self._emit(Op.NEXT, [walked], each.iter), each.iter)
                for test in each.ifs:
                    self._branch([self._value(test)], head, test)
            keys = [self._value(node.key)] if isinstance(node, ast.DictComp) else []
            part = node.value if isinstance(node, ast.DictComp) else node.elt
            self._emit(Op.ADD, [out, self._value(part), *keys], part, "")
        for head, end in reversed(ends):
            self._jump(head, node)
            self._mark(end)
        return out

    def _function(self, node: ast.FunctionDef | ast.Lambda, out: str | None) -> str:
        """A function within the method: what it does may be done from here on, at any time."""
        body = node.body if isinstance(node.body, list) else [node.body]
        own = frozenset(one.arg for one in arguments_of(node.args)) | Names.of(*body).binds
        captured = sorted(self._name(name) for name in Names.of(node).reads if name in self._method.scope.locals)
        head, end = self._label(), self._label()
        made = self._emit(Op.FUNCTION, captured, node, out)
        self._mark(head)
        self._branch([], end, node)
        outer, self._loops = self._loops, []
        with self._scope(own):
            for argument in arguments_of(node.args):
                self._emit(Op.CAUGHT, (), argument, self._name(argument.arg))
            if isinstance(node, ast.Lambda):
                self._emit(Op.YIELD, [self._value(node.body)], node.body, "")
            else:
                self._inside(node.body)
        self._loops = outer
        self._jump(head, node)
        self._mark(end)
        return made

    def _inside(self, body: Sequence[ast.stmt]) -> None:
        """The statements of a function within the method, whose returns give something to whoever calls it."""
        first = len(self._out)
        self._block(body)
        for at in range(first, len(self._out)):
            if self._out[at].op is Op.RETURN:
                one = self._out[at]
                self._out[at] = Instr(Op.YIELD, "", one.args, one.node, one.top)
