"""Random expressions of a wanted type, over variables, helpers and state."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tests.fuzz.dice import Dice
from tests.fuzz.kinds import Kind
from tests.fuzz.path import Declared, Path, Visit
from tests.fuzz.scope import PREFIXES, Scope

_HOLE: Final = re.compile(
    r"<(s|k|c|name|fresh|small|bounded|plain|list|dict|" + "|".join(map(re.escape, PREFIXES)) + ")>"
)

_CONSTANTS: Final[dict[str, tuple[str, ...]]] = {
    "int": ("0", "1", "2", "3", "5", "7", "-1", "self.LIMIT", "10"),
    "str": ("'a'", "'b'", "''", "'a b'", "'ä'", "self.NAME"),
    "float": ("0.5", "1.0", "-0.0", "2.25", "0.1"),
    "bool": ("True", "False"),
    "list[int]": ("[1, 2]", "[]", "[3]"),
    "tuple[int, int]": ("(1, 2)", "(0, 0)"),
    "dict[str, int]": ("{'a': 1}", "{}"),
    "Point": ("Point(1, 2)",),
}
_FORMS: Final[dict[str, tuple[str, ...]]] = {
    "int": (
        "(<int> + <int>)",
        "(<int> + <int>)",
        "(<int> - <int>)",
        "<int> * 3 % 101",
        "<int> % 5",
        "<int> // 3",
        "abs(<int>)",
        "-<int>",
        "min(<int>, <int>)",
        "max(<int>, <int>)",
        "len(<str>)",
        "len(<list[int]>)",
        "sum(<list[int]>)",
        "int(<bool>)",
        "(<int> if <bool> else <int>)",
        "(<int> if <bool> else <int>)",
        "(<int> and <int>)",
        "(<int> or <int>)",
        "<tuple[int, int]>[0]",
        "sum(<tuple[int, int]>)",
        "<dict[str, int]>.get(<str>, <int>)",
        "sum(part for part in <list[int]> if part > <small>)",
        "(<int> & 7)",
        "(<int> ^ 3)",
        "clip(<int>)",
        "self._clip(<int>)",
        "self._mix(<int>, <int>)",
        "fold(<list[int]>)",
        "deep(<int>)",
        "(round(<int> / 4) if -99 < <small> < 99 else 0)",
        "same(<int>)",
        "<Point>.total()",
        "sorted([<int>, <int>, <int>])[1]",
        "<str>.count('a')",
        "{'a': <small>, 'b': <small>}.get(<str>, <int>)",
        "min(<int>, *<list>, bump(<list>), <int>)",
        "fold([*<list>, bump(<list>), <int>, *<list>])",
    ),
    "bool": (
        "<int> > <int>",
        "<int> == <int>",
        "<int> % 2 == 0",
        "(<int> < <int> <= <int>)",
        "not <bool>",
        "(<bool> and <bool>)",
        "(<bool> or <bool>)",
        "(<int> in <list[int]>)",
        "(<str> in ('a', 'b', self.NAME))",
        "<str> == <str>",
        "<float> < <float>",
        "<str>.startswith('a')",
        "bool(<list[int]>)",
        "any(part > <small> for part in <list[int]>)",
        "<tuple[int, int]> == <tuple[int, int]>",
        "isinstance(<int>, int)",
    ),
    "str": (
        "(<str> + <str>)[:7]",
        "<str>[:2]",
        "<str>.upper()",
        "str(<int>)[:5]",
        "f'{<small>}-{<small>}'",
        "word(<int>)",
        "word(<int>, text=<str>)",
        "'.'.join(str(part) for part in <list[int]>)[:6]",
        "(<str> if <bool> else <str>)",
        "(<str> or 'none')",
        'f"""{<list>}{bump(<list>)}{<plain>}{<plain>}"""[-9:]',
        'f"""{<list>!r:>9}{bump(<list>)}{<plain>:>{len(<list>)}}"""',
    ),
    "float": (
        "(<float> + <float>)",
        "<float> * 0.5",
        "-<float>",
        "<small> / 4",
        "float(<bool>)",
        "(<float> if <bool> else <float>)",
        "round(<float>, 1)",
        "max(<float>, 0.25)",
    ),
    "list[int]": (
        "[<int>, <int>]",
        "list(<list[int]>)",
        "<list[int]>[:2]",
        "<list[int]> + [<int>]",
        "sorted(<list[int]>)",
        "[part + <small> for part in <list[int]>]",
        "[part for part in <list[int]> if part % 2]",
        "[left * right for left in <list[int]>[:2] for right in (1, <small>)]",
        "list(range(<int> % 4))",
        "<list[int]>[::-1]",
        "[len(part) for part in <str>.split()]",
        "sorted({<int>, <int>})",
        "sorted(<list[int]>, key=lambda part: -part)",
        "list(reversed(<list[int]>))",
        "[*<list[int]>[:3], <int>]",
        "[*<list>, bump(<list>), <int>, <int>]",
    ),
    "tuple[int, int]": (
        "(<int>, <int>)",
        "(<int>, <int>)",
        "divmod(<int>, 3)",
        "swap(<tuple[int, int]>)",
        "(len(<str>), <int>)",
    ),
    "dict[str, int]": (
        "{<str>: <int>}",
        "{str(part): part for part in <list[int]>[:3]}",
        "dict(<dict[str, int]>)",
        "{**<dict[str, int]>, <str>: <int>}",
        "{'s': <int>, **<dict>, 'q': grow(<dict>), 'r': <int>}",
        "dict({'s': <int>}, **<dict>, q=grow(<dict>), r=<int>)",
    ),
    "Point": ("Point(<int>, <int>)", "Point(<small>, y=<int>)"),
}

_CHANGED: Final = {"list": ("list[int]", "[1]"), "dict": ("dict[str, int]", "{'a': 1}")}
"""Holes for one variable that an expression both reads and changes, each with what stands there if there is none."""

_CALLS: Final = re.compile(r"\.\w+\(|\b(bump|grow|clip|_mix|fold|deep|same|word|swap|divmod|round|Point)\(")
# Nothing that the compiler must take for a change of what it is given.
_CALM_FORMS: Final = {
    kind: tuple(form for form in forms if not _CALLS.search(form)) or _CONSTANTS[kind] for kind, forms in _FORMS.items()
}


class Expressions:
    """Writes expressions as text, left to right as Python evaluates them, so that state is met in the path's order."""

    def __init__(self, dice: Dice, scope: Scope, path: Path, every: Sequence[Declared]) -> None:
        self._dice = dice
        self._scope = scope
        self.path = path
        self._every = every
        self.called: dict[str, list[str]] = {}
        self.calm = False

    def of(self, wanted: str, depth: int = 2, *, state: float = 0.12) -> str:
        """An expression of a type; `state` is the chance that state is read at each level."""
        dice = self._dice
        if dice.chance(state):
            read = self.read(wanted, depth)
            if read is not None:
                return read
        names = self._scope.names(wanted)
        if depth <= 0 or dice.chance(0.35):
            if names and dice.chance(0.85):
                return dice.one(names)
            return dice.one(_CONSTANTS[wanted])
        form = dice.one((_CALM_FORMS if self.calm else _FORMS)[wanted])
        if " if <bool> else " in form:
            return self._conditional(wanted, depth)
        if " and <" in form or " or <" in form:
            return self._skipping(form, depth)
        if " for part in " in form or " for left in " in form:
            with self.path.held():
                return self.fill(form, depth - 1)
        return self.fill(form, depth - 1)

    def _conditional(self, wanted: str, depth: int) -> str:
        test = self.of("bool", depth - 1)
        with self.path.branches() as ways:
            with ways.branch():
                then = self.of(wanted, depth - 1)
            with ways.branch():
                other = self.of(wanted, depth - 1)
        return f"({then} if {test} else {other})"

    def _skipping(self, form: str, depth: int) -> str:
        kind, word = ("int", "and") if "<int> and" in form else ("int", "or")
        if "<bool>" in form or "<str>" in form:
            kind, word = ("bool" if "<bool>" in form else "str"), ("and" if " and " in form else "or")
        first = self.of(kind, depth - 1)
        with self.path.branches() as ways, ways.branch():
            second = self.of(kind, depth - 1)
        return f"({first} {word} {second})"

    def fill(self, template: str, depth: int = 1, *, visit: Visit | None = None, element: str = "") -> str:
        """A template with its holes filled, from left to right."""
        kept: dict[str, str] = {}

        def hole(match: re.Match[str]) -> str:
            name = match[1]
            if name == "s":
                return element
            if name == "k":
                assert visit is not None
                return kept.setdefault("k", self.key(visit))
            if name == "name":
                return kept.setdefault("name", self._dice.one(self._scope.names("int") or ["1"]))
            if name == "c":
                return f"{self.of('int', depth - 1)} % 4"
            if name == "bounded":
                return f"{self.of('int', depth - 1)} % 50"
            if name == "small":
                return self._dice.one([*self._scope.names("int"), "2", "1"])
            if name == "plain":
                return in_text(self.of("int", 0))
            if name in _CHANGED:
                kind, made = _CHANGED[name]
                return kept.setdefault(name, self._dice.one(self._scope.changeable(kind) or [made]))
            if name == "fresh":
                return f"({self.of('list[int]', max(depth, 1))})[:3]"
            return self.of(name, depth)

        return _HOLE.sub(hole, template)

    # --- state

    def key(self, visit: Visit) -> str:
        """The key of a visit; in a wild method, any."""
        if self.path.wild and self._dice.chance(0.5):
            with self.path.held(without_state=True):
                return self.any_key(visit.key_type)
        return visit.key

    def any_key(self, of_type: str) -> str:
        """Some key of a type."""
        if of_type == "int":
            return f"{self.of('int', 1)} % 4"
        if of_type == "tuple[int, int]":
            return f"({self.of('int', 1)} % 3, {self.of('int', 0)})"
        if of_type == "tuple[int, str]":
            return f"({self.of('int', 1)} % 3, {self.of('str', 0)})"
        return self.of(of_type, 1) if of_type else ""

    def here(self) -> Visit | None:
        """The visit whose state can be used; it may be a step further on the path."""
        path = self.path
        if path.silent:
            return None
        if path.wild and path.visits:
            return self._dice.one([visit for visit in path.visits if visit.key or not visit.key_type] or [None])
        following = path.next()
        ready = following is not None and (not following.late or following.key) and not following.asked
        if ready and self._dice.chance(0.5 if path.current is None else 0.12):
            path.advance()
        return path.current

    def read(self, wanted: str, depth: int) -> str | None:
        """A read of state with a result of a type, if the path allows one."""
        visit = self.here()
        if visit is None:
            return None
        options = [
            (element, template)
            for element in visit.group
            for result, template in element.kind.reads
            if result == wanted and not element.kind.partial
        ]
        calls = self.called.get(visit.group[0].name, []) if wanted == "int" else []
        if not options and not calls:
            return None
        self.path.touched = True
        with self.path.held():
            if calls and (not options or self._dice.chance(0.3)):
                return self.fill(self._dice.one(calls), depth - 1, visit=visit)
            element, template = self._dice.one(options)
            return self.fill(template, depth - 1, visit=visit, element=f"self.{element.name}")


def in_text(part: str) -> str:
    """A part of a formatted text: nothing that would end the text, which older Pythons do not allow."""
    return "1" if '"' in part else f"({part})"


def templates_of(kind: Kind) -> list[str]:
    """All templates of a kind, for checks of the table."""
    return [*(text for _, text in kind.reads), *kind.writes, *(text for _, text in kind.asks)]
