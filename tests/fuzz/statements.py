"""Random statements: assignments, changes of state, and control flow around them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz.dice import Dice
from tests.fuzz.expressions import Expressions, in_text
from tests.fuzz.path import Branches, Path, Visit
from tests.fuzz.scope import Scope

NESTING_MAX = 3
CALM = 0.9
"""The share of fan-outs without calls that the compiler can't look into: it must take them for changes."""

_ASSIGNED = (
    (9, "int"),
    (3, "str"),
    (2, "float"),
    (2, "bool"),
    (4, "list[int]"),
    (2, "tuple[int, int]"),
    (1, "dict[str, int]"),
    (1, "Point"),
)
_COPIES = {"list[int]": "list({0})", "dict[str, int]": "dict({0})", "Point": "Point({0}.x, {0}.y)"}


def indent(lines: list[str]) -> list[str]:
    """Statements one level further in."""
    return [f"    {line}" for text in lines for line in text.splitlines()]


@dataclass(slots=True)
class Around:
    """What stands around a statement: how deep it is, in a loop, in a fan-out."""

    depth: int = 0
    loop: bool = False
    fan_out: bool = False
    may_return: bool = True


class Statements:
    """Writes the statements of one method; `budget` is how many are left."""

    def __init__(self, dice: Dice, scope: Scope, expressions: Expressions, returns: str, budget: int) -> None:
        self._dice = dice
        self._scope = scope
        self._write = expressions
        self._returns = returns
        self.budget = budget

    @property
    def _path(self) -> Path:
        return self._write.path

    def block(self, around: Around, most: int = 4) -> list[str]:
        """A few statements, at least one."""
        lines: list[str] = []
        for _ in range(self._dice.between(1, most)):
            if self.budget <= 0:
                break
            lines += self.statement(around)
            if lines and lines[-1].lstrip().startswith(("return", "break", "continue")):
                break
        return lines or ["pass"]

    def statement(self, around: Around) -> list[str]:
        """One statement; a compound one counts those in it as well."""
        self.budget -= 1
        return self._dice.weighted(self._choices(around))(around)

    def _choices(self, around: Around) -> list[tuple[float, Callable[[Around], list[str]]]]:
        choices: list[tuple[float, Callable[[Around], list[str]]]] = [
            (24, self._change),
            (9, self._assign),
            (9, self._read),
            (5, self._augmented),
            (3, self._unpack),
            (4, self._in_place),
            (1, self._annotated),
            (0.6, self._risky),
        ]
        following = self._path.next()
        if following is not None:
            choices += [(10, self._ask if following.asked else self._advance), (6, self._fan_out), (3, self._beside)]
            choices.append((0.2, self._shared))
        if around.depth < NESTING_MAX and self.budget > 1:
            choices += [
                (14, self._if),
                (7, self._for),
                (3, self._while),
                (8 if following is not None and following.late else 4, self._match),
                (3, self._try),
                (2, self._walrus),
                (2, self._alias),
            ]
        if around.depth and around.may_return and not around.fan_out:
            choices.append((2, self._return))
        if around.loop:
            choices.append((3, self._leave_turn))
        return choices

    def visit(self) -> list[str]:
        """A statement that uses state, if the path has any left."""
        following = self._path.next()
        if following is None:
            return []
        return (self._ask if following.asked else self._advance)(Around())

    # --- simple statements

    def _assign(self, _: Around) -> list[str]:
        kind = self._dice.weighted(_ASSIGNED)
        value = self._own(kind, self._write.of(kind))
        return [f"{self._bound(kind)} = {value}"]

    def _own(self, kind: str, value: str) -> str:
        """Mostly a copy where the value is another variable's object, for two names of one object are often refused."""
        if kind not in _COPIES or not value.isidentifier() or self._dice.chance(0.05):
            return value
        return _COPIES[kind].format(value)

    def _bound(self, kind: str) -> str:
        name = self._scope.target(kind)
        self._scope.bind(name, kind)
        return name

    def _annotated(self, _: Around) -> list[str]:
        value = self._write.of("int")
        return [f"{self._bound('int')}: int = {value}"]

    def _read(self, around: Around) -> list[str]:
        kind = self._dice.weighted(_ASSIGNED)
        read = self._write.read(kind, 1)
        if read is None:
            return self._change(around)
        return [f"{self._bound(kind)} = {read}"]

    def _augmented(self, around: Around) -> list[str]:
        kind, operators = self._dice.one(
            [("int", ("+=", "-=", "^=")), ("int", ("+=",)), ("float", ("+=", "*=")), ("list[int]", ("+=",))]
        )
        names = self._scope.changeable(kind)
        if not names:
            return self._assign(around)
        value = self._write.of(kind, 1)
        value = f"({value})[:2]" if kind == "list[int]" else value
        return [f"{self._dice.one(names)} {self._dice.one(operators)} {value}"]

    def _unpack(self, _: Around) -> list[str]:
        if self._dice.chance(0.5):
            value = self._write.of("tuple[int, int]", 1, state=0.4)
            first, second = self._bound("int"), self._scope.fresh("int")
            self._scope.bind(second, "int")
            return [f"{first}, {second} = {value}"]
        number = self._write.of("int", 1)
        values = f"{number}, {self._own('list[int]', self._write.of('list[int]', 1))}"
        return [f"{self._bound('int')}, {self._bound('list[int]')} = {values}"]

    def _in_place(self, around: Around) -> list[str]:
        lists, points = self._scope.changeable("list[int]"), self._scope.changeable("Point")
        dicts = self._scope.changeable("dict[str, int]")
        templates = [f"{name}.append(<int>)" for name in lists] + [f"{name}.sort()" for name in lists]
        templates += [f"{name}.x += <int>" for name in points] + [f"{name}[<str>] = <int>" for name in dicts]
        if not templates:
            return self._assign(around)
        return [self._write.fill(self._dice.one(templates))]

    def _risky(self, _: Around) -> list[str]:
        """Something that raises on some rows."""
        visit = self._write.here()
        maps = [e for e in visit.group if e.kind.declared.startswith("Map") and e.kind.key] if visit else []
        if visit is not None and maps and self._dice.chance(0.4):
            self._path.touched = True
            element = f"self.{self._dice.one(maps).name}"
            return [self._write.fill(self._dice.one(["<s>[<k>]", "del <s>[<k>]"]), visit=visit, element=element)]
        template = self._dice.one(
            [
                "<target> = 10 // (<int> % 4)",
                "<target> = <list[int]>[<small> % 3]",
                "<target> = {'a': 1, 'b': <int>}[<str>]",
                "if <small> % 5 == 3:\n    raise ValueError(<str>)",
                "assert <small> % 5 != 2, <str>",
            ]
        )
        text = self._write.fill(template)
        return [text.replace("<target>", self._bound("int"))] if "<target>" in text else [text]

    def _beside(self, around: Around) -> list[str]:
        """State of several groups in one expression, beside a variable that the expression both uses and changes."""
        lists, dicts = self._scope.changeable("list[int]"), self._scope.changeable("dict[str, int]")
        if self._path.next() is None or not (lists or dicts):
            return self._assign(around)
        lines: list[str] = []
        if self._dice.chance(0.3):
            dicts, lists = [self._bound("dict[str, int]")], []
            lines.append(f"{dicts[0]} = {{'a': {self._write.of('int', 0, state=0)}}}")
        first, second, third = parts = [self._further() for _ in range(3)]
        one, two, last = map(in_text, parts)
        forms = [
            *(("list[int]", f"[{first}, *{name}, bump({name}), {second}, {third}]") for name in lists),
            *(("int", f"fold([{first}, *{name}, bump({name}), {second}, {third}])") for name in lists),
            *(("str", f'f"""{{{one}}}{{{name}}}{{bump({name})}}{{{two}}}{{{last}}}"""') for name in lists),
            *(("str", f'f"""{{{name}!s:>9}}{{bump({name})}}{{{one}:>{{len({name})}}}}"""') for name in lists),
            *(("dict[str, int]", f"{{'s': {first}, **{name}, 'q': grow({name}), 'r': {second}}}") for name in dicts),
            *(("dict[str, int]", f"dict({{'s': {first}}}, **{name}, q=grow({name}), r={second})") for name in dicts),
        ]
        kind, form = self._dice.one(forms)
        return [*lines, f"{self._bound(kind)} = {form}"]

    def _shared(self, around: Around) -> list[str]:
        """One object by two ways, a visit that may be a cut, and a change by either way that is seen by the other."""
        name, box = self._scope.fresh("list[int]"), self._scope.fresh("int").replace("t", "x")
        number = self._write.of("int", 0, state=0)
        made, other = self._dice.one(
            [
                ([f"{box} = [{name}]"], f"{box}[0]"),
                ([f"{box} = [{name}, {name}]"], f"{box}[1]"),
                ([f"{box} = []", f"{box}.append({name})"], f"{box}[-1]"),
                ([f"{box} = {{}}", f"{box}['a'] = {name}"], f"{box}['a']"),
                ([f"{box} = {{'a': {name}}}"], f"{box}.get('a', [])"),
                ([f"{box} = ({number}, {name})"], f"{box}[1]"),
                ([f"{box} = [[{number}]] * 2", f"{name} = {box}[0]"], f"{box}[1]"),
                ([f"{box} = [{name}][:]"], f"{box}[0]"),
                ([f"{box} = [{name}]", f"{box} += [{name}]"], f"{box}[1]"),
                ([f"{box} = Point({name}, 0)"], f"{box}.x"),
            ]
        )
        moved = self.visit() if self._path.next() is not None else self._change(around)
        changed, seen = self._dice.one([(name, other), (other, name)])
        change = self._dice.one([f"{changed}.append({number})", f"{changed}[0] += 1", f"bump({changed})"])
        result = self._bound("int")
        self._scope.bind(name, "list[int]")
        lines = [f"{name} = [{number}]", *made, *moved, change]
        return [*lines, f"{result} = fold({seen}) * 3 + fold({changed})"]

    def _further(self) -> str:
        """A number out of state, mostly of a group that comes later on the path."""
        following = self._path.next()
        if following is not None and not following.asked and (following.key or not following.key_type):
            self._path.advance()
        return self._write.of("int", 0, state=0.9)

    def _return(self, _: Around) -> list[str]:
        return [self.answer()]

    def answer(self) -> str:
        """A return of the method's type."""
        if self._returns == "None":
            return "return"
        if self._returns == "str" and self._dice.chance(0.8):
            return f"return repr(({self._everything()}))"
        return f"return {self._write.of(self._returns, 2, state=0.25)}"

    def _everything(self) -> str:
        kinds = ("int", "str", "float", "bool", "list[int]", "tuple[int, int]", "dict[str, int]", "Point")
        names = [name for kind in kinds for name in self._scope.names(kind)]
        chosen = self._dice.some(names, self._dice.between(1, 7))
        return ", ".join([*chosen, self._write.of("int", 1, state=0.2)])

    def _leave_turn(self, around: Around) -> list[str]:
        test = self._write.of("bool", 1)
        word = "continue" if around.fan_out else self._dice.one(("break", "continue"))
        return [f"if {test}:\n    {word}"]

    # --- state

    def _change(self, around: Around) -> list[str]:
        """Change state here, or at the next group with values from here."""
        path = self._path
        following = path.next()
        if following is not None and following.key and not following.asked and self._dice.chance(0.15):
            return [self._change_of(following, moves=True)]
        visit = self._write.here()
        if visit is None:
            return self._assign(around)
        return [self._change_of(visit, moves=False)]

    def _change_of(self, visit: Visit, *, moves: bool) -> str:
        element = self._dice.one(visit.group)
        plain = [text for text in element.kind.writes if text.count("<s>") == 1] or list(element.kind.writes)
        template = self._dice.one(plain if moves else element.kind.writes)
        with self._path.held():
            text = self._write.fill(template, 1, visit=visit, element=f"self.{element.name}")
        if moves:
            self._path.advance()
        self._path.touched = True
        return text

    def _advance(self, around: Around) -> list[str]:
        visit = self._path.next()
        assert visit is not None
        lines = []
        if visit.late:
            with self._path.held():
                key = self._write.any_key(visit.key_type)
            visit.key = self._scope.fresh("int")
            # Keys of other types are not in the scope: nothing but the visit may use them.
            if visit.key_type == "int":
                self._scope.bind(visit.key, "int", fixed=True)
            lines.append(f"{visit.key} = {key}")
        self._path.advance()
        if self._dice.chance(0.3):
            return lines or self._change(around)
        return lines + self._change(around)

    def _ask(self, around: Around) -> list[str]:
        visit = self._path.next()
        assert visit is not None
        element = self._dice.one(visit.group)
        kind, template = self._dice.one(element.kind.asks)
        with self._path.held():
            text = self._write.fill(template, 1, visit=visit, element=f"self.{element.name}")
        self._path.advance()
        self._path.leave()
        if self._dice.chance(0.3) and text.startswith("merged(each("):
            asked, _, merge = text.removeprefix("merged(").rpartition(", ")
            return [f"answers = {asked}", f"{self._bound(kind)} = merged(answers, {merge}"]
        return [f"{self._bound(kind)} = {text}"]

    def _alias(self, around: Around) -> list[str]:
        """A name for an object of state, changed while the method is there."""
        visit = self._write.here()
        kinds = {"Map[int, list[int]]": ("[]", ".append(<int>)"), "Map[int, Point]": ("Point(0, 1)", ".x += <int>")}
        found = [element for element in visit.group if element.kind.declared in kinds] if visit else []
        if visit is None or not found:
            return self._change(around)
        element = self._dice.one(found)
        empty, change = kinds[element.kind.declared]
        self._path.touched = True
        with self._path.held():
            key = self._write.key(visit)
            changed = self._write.fill(f"held{change}", 1)
        return [f"held = self.{element.name}.setdefault({key}, {empty})", changed]

    # --- control flow

    def _if(self, around: Around) -> list[str]:
        inner = Around(around.depth + 1, around.loop, around.fan_out, around.may_return)
        lines = [f"if {self._write.of('bool', 2, state=0.25)}:"]
        with self._path.branches() as ways:
            lines += self._branch(ways, inner)
            if self._dice.chance(0.25):
                with ways.branch():
                    with self._path.held():
                        lines.append(f"elif {self._write.of('bool', 1)}:")
                    with self._scope.block():
                        lines += indent(self.block(inner, 3))
            if self._dice.chance(0.5):
                lines.append("else:")
                lines += self._branch(ways, inner)
        return lines

    def _branch(self, ways: Branches, around: Around, most: int = 3) -> list[str]:
        with ways.branch(), self._scope.block():
            return indent(self.block(around, most))

    def _walrus(self, around: Around) -> list[str]:
        name = self._scope.fresh("int")
        value = self._write.of("int", 1, state=0.2)
        self._scope.bind(name, "int")
        lines = [f"if ({name} := {value}) > {self._dice.between(0, 3)}:"]
        with self._path.branches() as ways:
            lines += self._branch(ways, Around(around.depth + 1, around.loop, around.fan_out))
        return lines

    def _match(self, around: Around) -> list[str]:
        inner = Around(around.depth + 1, around.loop, around.fan_out, around.may_return)
        captured = self._scope.fresh("int")
        following = self._path.next()
        wanted = following.key_type if following is not None and following.late and not following.asked else ""
        if wanted in ("int", "str") and self._dice.chance(0.7):
            return self._match_key(inner, wanted)
        subject, patterns = self._dice.one(
            [
                ("<int> % 4", ["0", "1", "_"]),
                ("<int> % 4", ["1 | 3", "_"]),
                ("<tuple[int, int]>", [f"(0, {captured})", f"({captured}, 1 | 2)", "_"]),
                ("<str>", ["'a' | 'b'", "''", "_"]),
                ("<list[int]>", ["[]", f"[{captured}]", f"[{captured}, *_]"]),
            ]
        )
        if self._dice.chance(0.1):
            patterns = [*patterns[:-1], f"{captured} if {captured} != 2", "_"]
            subject = "<int> % 4"
        lines = [f"match {self._write.fill(subject)}:"]
        with self._path.branches() as ways:
            for pattern in self._dice.some(patterns, self._dice.between(2, 3)):
                with self._scope.block():
                    if captured in pattern:
                        self._scope.bind(captured, "int")
                    body = self._branch(ways, inner, most=2)
                lines += indent([f"case {pattern}:", *body])
        return lines

    def _match_key(self, around: Around, kind: str) -> list[str]:
        """A match whose cases capture the key under which they go on."""
        captured = self._scope.fresh(kind)
        subject, patterns = self._dice.one(
            {
                "int": [
                    ("<int> % 4", ["0", captured]),
                    ("<int> % 4", [f"{captured} if {captured} > 1", f"{captured}"]),
                    ("(<int> % 4, <int> % 3)", [f"(0, {captured})", f"({captured}, 1 | 2)", "_"]),
                    ("[<int> % 4, *<list[int]>]", [f"[{captured}]", f"[{captured}, *_]"]),
                    ("{'n': <int> % 4, 'm': <bool>}", [f"{{'n': {captured}, 'm': True}}", f"{{'n': {captured}}}"]),
                ],
                "str": [
                    ("<str>", ["''", captured]),
                    ("<str>.split()", ["[]", f"[{captured}]", f"[_, {captured}]"]),
                    ("(<str> + ' a').split()", [f"['a', {captured}]", f"[{captured}, *_]"]),
                ],
            }[kind]
        )
        lines = [f"match {self._write.fill(subject)}:"]
        with self._path.branches() as ways:
            for pattern in patterns:
                with ways.branch(), self._scope.block():
                    body: list[str] = []
                    visit = self._path.next()
                    if captured in pattern and visit is not None:
                        self._scope.bind(captured, kind, fixed=True)
                        visit.key = captured
                        self._path.advance()
                        body = self._change(around)
                    if not body or self._dice.chance(0.4):
                        body += self.block(around, 2)
                lines += indent([f"case {pattern}:", *indent(body)])
        return lines

    def _loop_body(self, around: Around, *, first: list[str] | None = None) -> list[str]:
        inner = Around(around.depth + 1, loop=True, may_return=around.may_return, fan_out=around.fan_out)
        with self._path.branches() as ways:
            body = self._branch(ways, inner)
        return indent(first or []) + body

    def _for(self, around: Around) -> list[str]:
        """A loop that stays in one group."""
        around = Around(around.depth, around.loop, fan_out=False, may_return=not around.fan_out and around.may_return)
        names, walked = self._dice.one(
            [
                (1, "range(<int> % 4)"),
                # Copies, for a list that grows while a loop walks over it may never end.
                (1, "list(<list[int]>)"),
                (1, "<tuple[int, int]>"),
                (2, "enumerate(list(<list[int]>))"),
                (2, "zip(list(<list[int]>), range(3))"),
                (1, "sorted(<dict[str, int]>.values())"),
            ]
        )
        self._write.here()
        with self._path.held():
            walked = self._write.fill(walked, 1)
            targets = [self._scope.fresh("int") for _ in range(names)]
            with self._scope.block():
                for name in targets:
                    self._scope.bind(name, "int", fixed=True)
                lines = [f"for {', '.join(targets)} in {walked}:", *self._loop_body(around)]
            if self._dice.chance(0.15):
                inner = Around(around.depth + 1, may_return=around.may_return)
                with self._path.branches() as ways:
                    lines += ["else:", *self._branch(ways, inner, most=2)]
        return lines

    def _while(self, around: Around) -> list[str]:
        around = Around(around.depth, around.loop, fan_out=False, may_return=not around.fan_out and around.may_return)
        fuel = self._scope.fresh("int")
        self._write.here()
        with self._path.held():
            start = f"{fuel} = {self._write.of('int', 1)} % 4"
            self._scope.bind(fuel, "int", fixed=True)
            also = f" and {self._write.of('bool', 1)}" if self._dice.chance(0.3) else ""
            with self._scope.block():
                body = self._loop_body(around, first=[f"{fuel} -= 1"])
        return [start, f"while {fuel} > 0{also}:", *body]

    def _try(self, around: Around) -> list[str]:
        """A try whose body needs no cut: without state, or where the method has been already."""
        inner = Around(NESTING_MAX, may_return=around.may_return and not around.fan_out)
        name = self._bound("int")
        visit = self._path.current
        known = visit is not None and len(visit.group) == 1 and self._path.touched
        # A method that goes where it likes would go on inside, which is refused.
        self._path.silent = self._path.wild and self._dice.chance(0.8)
        with self._path.held(without_state=not known):
            risky = self._dice.one(["10 // (<int> % 2)", "<list[int]>[<small>]", "int(<str>)", "{'a': 1}[<str>]"])
            with self._scope.block():
                body = [f"    {name} = {self._write.fill(risky)}", *indent(self.block(inner, 2))]
            with self._scope.block():
                handler = indent(self.block(inner, 1))
            lines = ["try:", *body, "except (ZeroDivisionError, LookupError, ValueError):", *handler]
            if self._dice.chance(0.3):
                with self._scope.block():
                    last = Around(NESTING_MAX, may_return=False)
                    lines += ["finally:", *indent(self.block(last, 1))]
        self._path.silent = False
        return [f"{name} = {self._dice.between(0, 9)}", *lines]

    def _fan_out(self, around: Around) -> list[str]:
        """A loop whose turns do not depend on each other, each under keys of its own."""
        path = self._path
        following = itertools.takewhile(lambda visit: not visit.asked, path.visits[path.at + 1 :])
        chosen = list(following)[: self._dice.weighted([(6, 1), (3, 2), (1, 3)])]
        if not chosen:
            return self._change(around)
        kind = "str" if chosen[0].key_type == "str" else "int"
        text = {
            "str": ["<str>.split()", "(<str>, <str>)", "['a', <str>, 'b']", "sorted({<str>, 'b'})"],
            "int": ["range(<int> % 4)", "<list[int]>", "(<int> % 3, <int> % 4)", "sorted({<small>, 2})"],
        }[kind]
        calm, self._write.calm = self._write.calm, self._dice.chance(CALM)
        with path.held():
            walked = self._write.fill(self._dice.one(text))
        name = self._scope.fresh("str" if kind == "str" else "int")
        with self._scope.block(closed=True):
            self._scope.bind(name, kind, fixed=True)
            with path.held(without_state=True):
                inner = [Visit(visit.group, self._turn_key(visit, name, kind)) for visit in chosen]
            body = [*self._named(inner), *self._turns(Path(inner), Around(around.depth + 1, loop=True, fan_out=True))]
        self._write.calm = calm
        for _ in chosen:
            path.advance()
        path.leave()
        return [f"for {name} in {walked}:", *indent(body)]

    def _named(self, visits: list[Visit]) -> list[str]:
        """Mostly variables for keys that are expressions: the compiler does not see that two expressions are equal."""
        lines = []
        for visit in visits:
            if visit.key and not visit.key.isidentifier() and self._dice.chance(0.9):
                name = self._scope.fresh("int").replace("t", "k")
                lines.append(f"{name} = {visit.key}")
                visit.key = name
        return lines

    def _turn_key(self, visit: Visit, name: str, kind: str) -> str:
        """A key of one turn, out of the loop's variable."""
        if visit.key_type == "tuple[int, int]":
            return f"({name}, {self._write.of('int', 0)})" if kind == "int" else self._write.any_key(visit.key_type)
        if visit.key_type == kind:
            return self._dice.one([name, name, f"({name} + 1) % 3" if kind == "int" else f"{name}[:1]"])
        return self._write.any_key(visit.key_type)

    def _turns(self, inner: Path, around: Around) -> list[str]:
        """The body of a fan-out, on a path of its own."""
        outer, self._write.path = self._write.path, inner
        lines: list[str] = []
        while self._path.next() is not None:
            self._path.advance()
            lines += self._change(around)
            if self.budget > 0 and self._dice.chance(0.5):
                lines += self.statement(around)
        self._write.path = outer
        return lines
