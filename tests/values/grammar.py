"""Random programs about shared objects, from a seed: each says which features it shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.fuzz.dice import Dice, derive
from tests.values.pieces import (
    AROUND,
    BUILTINS,
    CACHED_PROPERTY,
    CHANGES,
    CLASSES,
    ELEMENTS,
    EXPRESSIONS,
    FEATURES,
    GUARDED,
    HEAD,
    KINDS,
    LOOPS,
    NEW,
    OBSERVED,
    OUTSIDE,
    OUTSIDE_OF_ROWS,
    RAISES,
    Form,
)
from tests.values.plain import Row

STATE = re.compile(r"<self (.)>")
HOLE = re.compile(r"<(self )?([LNDSCOPTBvk])(!?)>")
BODY = re.compile(r"^( *)<body>$", re.MULTILINE)
ROWS, ROWS_OF_SMALL = 18, 12
KEYS_MAX = 1
ONCE = "default of parameter"
"""At most once in a row: the rule does not say whether two calls of one row share a default, as they do in Python."""

NEEDS = {"S": "set", "P": "named tuple", "T": "tuple", "B": "frozen"}
"""Kinds of values that are features by themselves."""

BEFORE = ("a", "n", "c", "s", "t")
"""Elements that are met before the cut, under one key; the others behind it, under another."""

WAYS = ((5, "store"), (5, "change"), (4, "assign"), (1, "loop"), (0.8, "raise"), (2, "twice"), (1.2, "around"))

HELPERS = {
    "_collect": "    def _collect(self, value, into=[]):\n        into.append(value)\n        return into\n\n",
    "_mine": "    def _mine(self, key):\n        return self.a.setdefault(key, [])\n\n",
    "_other": "    def _other(self, items, *, least=1):\n        return items if len(items) > least else [least]\n\n",
}
"""Methods that entry points call. A default of a function of the module would be outside of rows, and refused."""

Parameters = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Generated:
    """A program, rows for it, and the features that it shows."""

    text: str
    rows: tuple[Row, ...]
    features: frozenset[str]
    seed: int


def generate(seed: int, number: int, features: Sequence[str] = FEATURES) -> Generated:
    """The program of a number in a campaign; it does not depend on the others."""
    return _Generator(Dice(derive(seed, number, "values")), frozenset(features)).program()


class _Generator:
    def __init__(self, dice: Dice, features: frozenset[str]) -> None:
        self._dice = dice
        self._features = features
        self._used: set[str] = set()
        self._names: dict[str, list[str]] = {}
        self._keys = ["k", "j"]
        self._collected = False
        self._around = False
        self._met: set[str] = set()
        # A program about everything says little about anything.
        self._kinds = dice.some(list(KINDS), dice.between(1, 3))
        self._kinds = [kind for kind in self._kinds if self._may(NEEDS.get(kind, ""))]
        if "L" not in self._kinds:
            self._kinds.append("L")
        # Most faults show in a few lines, and a small program takes a third of the time.
        self._small = dice.chance(0.85)
        self._shadowing = self._may("own builtin") and dice.chance(0.12)
        self._outside = dice.chance(0.2)
        self._elements = ELEMENTS
        self._cut = self._may("cut") and dice.chance(0.25)
        if self._cut:
            self._used.add("cut")

    def program(self) -> Generated:
        methods, entries = [], {}
        for name in ("one", "two", "see")[: self._dice.between(1, 2) if self._small else self._dice.between(2, 3)]:
            text, entries[name] = self._method(name)
            methods.append(text)
        body = "\n".join(methods)
        body = "".join(text for name, text in HELPERS.items() if f"self.{name}(" in body) + body
        declared = [
            f"    {name} = Partitioned(Map[int, {KINDS[kind]}])"
            for name, kind in ELEMENTS.items()
            if re.search(rf"self\.{name}\b", body)
        ]
        if "self.FIRST" in body:
            declared.append("    FIRST = [5, 6]")
        if "self.here[" in body:
            declared.append("    here = Partial(Counter[int])")
        if "self.i[" in body:
            declared.append("    i = Partitioned(Map[int, int])")
        needed = [text for name, text in (OUTSIDE | BUILTINS).items() if re.search(rf"\b{name}\b", body)]
        shadowed = [text for text in needed if self._shadowing or not text.startswith(tuple(map(_opening, BUILTINS)))]
        parts = [
            HEAD,
            CLASSES,
            *(f"{text}\n" for text in shadowed),
            "class Shared(Program):\n",
            *_lines(declared),
            "\n",
        ]
        rows = tuple(self._row(entries) for _ in range(ROWS_OF_SMALL if self._small else ROWS))
        return Generated("".join([*parts, body]), rows, frozenset(self._used), self._dice.between(0, 2**32))

    def _method(self, name: str) -> tuple[str, Parameters]:
        parameters = [("k", "int"), ("j", "int"), ("v", "int")]
        self._names, self._keys, self._collected = {}, ["k", "j"], False
        lines = []
        guarded = self._may("guard") and self._dice.chance(0.2)
        if guarded:
            self._used.add("guard")
            parameters[1] = ("j", "int | None")
            if self._cut or self._dice.chance(0.4):
                lines.append(self._dice.one(['if j is None:\n    return "none"', 'if not j:\n    return "none"']))
            else:
                # Behind the guard alone.
                self._keys = ["k"]
        if self._may("list parameter") and self._dice.chance(0.2):
            self._used.add("list parameter")
            parameters.append(("given", "list[int]"))
            self._names["L"] = ["given"]
        header = ", ".join(f"{one}: {hint}" for one, hint in parameters)
        count = self._dice.between(1, 3) if self._small else self._dice.between(2, 6)
        unsure = guarded and not lines
        if self._cut:
            self._elements, self._keys = {name: ELEMENTS[name] for name in BEFORE}, ["k"]
        for number in range(count):
            if self._cut and number == count // 2:
                self._elements, self._keys = {name: ELEMENTS[name] for name in ELEMENTS if name not in BEFORE}, ["j"]
                if self._dice.chance(0.7):
                    # What was met before the cut is mostly done with: a shared object on both sides is refused.
                    self._names = {}
                lines += ["self.b[j] = [*self.b.get(j, []), v]", "self.here[j] += 1"]
            lines += self._maybe(self._statement)
            if unsure and self._dice.chance(0.6):
                lines.append(self._form(GUARDED))
        returns = "str"
        if self._may("caller") and (unsure or not guarded) and self._dice.chance(0.25):
            self._used.add("caller")
            returns = "list[int]"
            lines.append(f"return {self._of('L')}")
        else:
            form = self._dice.one(["repr(({}, {}))", 'f"""{{({})}} {{({})}}"""'])
            lines.append("return " + form.format(self._observed(), self._observed()))
        text = f"    @entry\n    def {name}(self, {header}) -> {returns}:\n"
        return text + "".join(f"        {line}\n" for text in lines for line in text.splitlines()), tuple(parameters)

    def _maybe(self, statement: Callable[[], list[str]]) -> list[str]:
        """A statement, or one under a condition; what is bound there has no meaning behind it."""
        if not self._dice.chance(0.15):
            return statement()
        test = self._filled(
            self._dice.one(
                [
                    "<v> > 3",
                    "<v> <= k",
                    "<v> - k < 2",
                    "not <v>",
                    "1 < <v> < 6",
                    "<v> >= j" if "j" in self._keys else "<v> >= k",
                ]
            ),
            0,
        )
        return [self._nested(f"if {test}:\n    <body>", statement)]

    def _nested(self, text: str, statement: Callable[[], list[str]]) -> str:
        """A text with statements in it, which leave no variable behind that others could count on."""

        def body(match: re.Match[str]) -> str:
            before = {kind: list(names) for kind, names in self._names.items()}
            lines = [line for part in statement() for line in part.splitlines()]
            self._names = before
            return "\n".join(f"{match[1]}{line}" if line else "" for line in lines)

        return BODY.sub(body, text)

    def _statement(self) -> list[str]:
        kind = self._dice.one([kind for kind in self._kinds if kind in self._elements.values()] or ["L"])
        way = self._dice.weighted(WAYS)
        if way == "loop" and self._shadowing:
            return [self._form(LOOPS)]
        if way == "raise" and self._may("raising row"):
            return [self._form(RAISES)]
        if way == "around" and not self._around:
            allowed = [one for one in AROUND if self._may(one.feature)]
            if allowed:
                # A loop would call it more often than once.
                self._around, before, self._collected = True, self._collected, True
                lines = [self._nested(self._form(allowed), self._statement)]
                self._around, self._collected = False, before
                return lines
        if way == "twice" and self._may("second place"):
            return self._twice(kind)
        if way == "store":
            return [f"{self._place(kind)} = {self._own(kind)}"]
        if way == "assign":
            written = self._own(kind)
            name = f"{kind.lower()}{len(self._names.get(kind, []))}"
            self._names.setdefault(kind, []).append(name)
            return [f"{name} = {written}"]
        if self._may("shared"):
            return [self._form(CHANGES[kind])]
        return [f"self.{self._element(kind)}.setdefault({self._dice.one(self._keys)}, {self._own(kind)})"]

    def _own(self, kind: str) -> str:
        """An expression for what is kept; without shared objects, of an object that nobody else has."""
        if self._may("shared"):
            self._used.add("shared")
            return self._of(kind)
        return f"copy.deepcopy({self._of(kind)})"

    def _twice(self, kind: str) -> list[str]:
        """One object in two places of state, and mostly a change after it."""
        self._used.add("second place")
        name = f"{kind.lower()}{len(self._names.get(kind, []))}"
        lines = [f"{name} = {self._of(kind)}", f"{self._place(kind)} = {name}", f"{self._place(kind)} = {name}"]
        self._names.setdefault(kind, []).append(name)
        return [*lines, self._form(CHANGES[kind])] if self._dice.chance(0.6) else lines

    def _place(self, kind: str) -> str:
        return f"self.{self._element(kind)}[{self._dice.one(self._keys)}]"

    def _element(self, kind: str) -> str:
        name = self._dice.one([name for name, of in self._elements.items() if of == kind])
        self._met.add(name)
        return name

    def _is_here(self, text: str) -> bool:
        """Whether what a form asks for can be met here; a method of the program's own meets state, too."""
        if not all(self._may(NEEDS.get(kind, "")) for _, kind, _ in HOLE.findall(text)):
            return False
        return set(STATE.findall(text)) <= set(self._elements.values()) and not (self._cut and "self._mine" in text)

    def _observed(self) -> str:
        if "C" in self._kinds and self._may("cached property") and self._dice.chance(0.3):
            self._used.add("cached property")
            return self._filled(CACHED_PROPERTY.text, 1)
        places = sorted(self._met & set(self._elements))
        if places and self._dice.chance(0.6):
            # What earlier rows have left is what this is about.
            name = self._dice.one(places)
            held = f"self.{name}.get({self._dice.one(self._keys)})"
            return f"sorted({held} or [])" if ELEMENTS[name] == "S" else held
        kind = self._dice.one(self._kinds)
        return self._filled(self._dice.one(OBSERVED[kind]), 1)

    def _of(self, kind: str, depth: int | None = None) -> str:
        depth = self._depth() if depth is None else depth
        return self._form(EXPRESSIONS[kind] if depth > 0 else EXPRESSIONS[kind][:2], depth)

    def _depth(self) -> int:
        return 2 if self._small else 3

    def _form(self, forms: Sequence[Form], depth: int | None = None) -> str:
        depth = self._depth() if depth is None else depth
        allowed = [(one.weight, one) for one in forms if self._may(one.feature) and self._is_here(one.text)]
        if self._collected:
            allowed = [(weight, one) for weight, one in allowed if one.feature != ONCE] or allowed
        if not self._outside:
            allowed = [(weight, one) for weight, one in allowed if one.feature not in OUTSIDE_OF_ROWS] or allowed
        chosen = self._dice.weighted(allowed)
        if chosen.feature:
            self._used.add(chosen.feature)
        self._collected |= chosen.feature == ONCE
        return self._filled(chosen.text, depth - 1)

    def _filled(self, text: str, depth: int) -> str:
        def hole(match: re.Match[str]) -> str:
            place, kind, variable = match.groups()
            if kind == "v":
                return self._dice.one(["v", "v", "1", "2", "3"])
            if kind == "k":
                return self._dice.one(self._keys)
            if place:
                return f"self.{self._element(kind)}"
            if variable or depth <= 0:
                names = self._names.get(kind, [])
                if names and self._dice.chance(0.9):
                    return self._dice.one(names)
                new = self._filled(NEW[kind], 0)
                if not self._may("state") or kind not in self._elements.values() or self._dice.chance(0.6):
                    return new
                self._used.add("state")
                return f"self.{self._element(kind)}.setdefault({self._dice.one(self._keys)}, {new})"
            return self._of(kind, depth)

        return HOLE.sub(hole, text)

    def _row(self, entries: dict[str, Parameters]) -> Row:
        name = self._dice.one(list(entries))
        return name, tuple(self._value(*one) for one in entries[name])

    def _value(self, name: str, hint: str) -> object:
        if hint.startswith("list"):
            return [self._dice.between(0, 9) for _ in range(self._dice.between(0, 2))]
        if hint.endswith("None") and self._dice.chance(0.3):
            return None
        return self._dice.between(0, 9 if name == "v" else KEYS_MAX)

    def _may(self, feature: str) -> bool:
        return not feature or feature in self._features


def _opening(name: str) -> str:
    return f"def {name}("


def _lines(lines: Sequence[str]) -> list[str]:
    return [f"{line}\n" for line in lines]
