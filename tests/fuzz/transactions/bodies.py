"""Bodies of random transactions: state under any key at any place, loops over lists of keys, refusals, exceptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tests.fuzz.dice import Dice
from tests.fuzz.expressions import Expressions
from tests.fuzz.path import Declared, Path, Visit
from tests.fuzz.scope import Scope
from tests.fuzz.statements import NESTING_MAX, Around, Statements, indent
from tests.fuzz.transactions.keys import Keys

_OVER_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "int": (
        "sum({int} for {v} in {ks})",
        "len([{v} for {v} in {ks} if {bool}])",
        "max([{int} for {v} in {ks}], default=0)",
    ),
    "bool": ("all({bool} for {v} in {ks})", "any({bool} for {v} in {ks})"),
    "list[int]": ("[{int} for {v} in {ks}]", "[{int} for {v} in {ks} if {bool}]"),
    "dict[str, int]": ("{{str({v}): {int} for {v} in {ks}}}",),
}
_AMOUNTS: Final = ("Map[int, int]", "Map[str, int]", "Counter[int]", "Counter[str]", "Map[tuple[int, int], int]")
Call = tuple[tuple[str, ...], str]
"""A helper: the types of its parameters, and its name. It answers with a whole number."""


class Reading(Expressions):
    """Expressions that read any element, under any key that follows from the arguments."""

    def __init__(self, dice: Dice, scope: Scope, every: Sequence[Declared], keys: Keys) -> None:
        super().__init__(dice, scope, Path([Visit((element,), "key") for element in every], wild=True), every)
        self.keys = keys
        self.calls: Sequence[Call] = ()

    def key(self, visit: Visit) -> str:
        """A key of the visit's element."""
        return self.keys.of(visit.key_type)

    def here(self) -> Visit:
        """Any element."""
        return self._dice.one(self.path.visits)

    def read(self, wanted: str, depth: int) -> str | None:
        """A read of state with a result of a type, if an element has one."""
        dice = self._dice
        if wanted in _OVER_KEYS and depth > 0 and dice.chance(0.2):
            return self._over_keys(wanted, depth)
        if wanted == "int" and self.calls and dice.chance(0.2):
            return self._called(depth)
        options = [
            (visit, template)
            for visit in self.path.visits
            for result, template in visit.group[0].kind.reads
            if result == wanted
        ]
        if not options:
            return None
        visit, template = dice.one(options)
        return self.fill(template, depth - 1, visit=visit, element=f"self.{visit.group[0].name}")

    def _over_keys(self, wanted: str, depth: int) -> str:
        walked, kind = self.keys.walked()
        name = self.keys.fresh()
        with self.keys.also(name, kind):
            number = self.read("int", depth - 1) or "1"
            test = self.read("bool", depth - 1) or "True"
        return self._dice.one(_OVER_KEYS[wanted]).format(int=number, bool=test, v=name, ks=walked)

    def _called(self, depth: int) -> str:
        kinds, name = self._dice.one(self.calls)
        *keys, _ = (self.keys.of(kind) for kind in kinds)
        return f"self.{name}({', '.join([*keys, self.of('int', depth - 1)])})"


class Transactions(Statements):
    """Writes the statements of one transaction."""

    _write: Reading

    def __init__(self, dice: Dice, scope: Scope, write: Reading, returns: str, budget: int) -> None:
        super().__init__(dice, scope, write, returns, budget)
        self._keys = write.keys

    def _choices(self, around: Around) -> list[tuple[float, Callable[[Around], list[str]]]]:
        choices: list[tuple[float, Callable[[Around], list[str]]]] = [
            (22, self._change),
            (8, self._move),
            (6, self._assign),
            (8, self._read),
            (3, self._augmented),
            (2, self._unpack),
            (3, self._in_place),
            (3, self._alias),
            (2, self._risky),
            (2.5, self._abort),
            (6 if around.depth == 0 else 0.3, self._key),
        ]
        if around.depth < NESTING_MAX and self.budget > 1:
            choices += [
                (12, self._if),
                (9, self._for_keys),
                (3, self._for),
                (2, self._while),
                (3, self._match),
                (5, self._try),
                (2, self._walrus),
            ]
        if around.depth and around.may_return:
            choices.append((3, self._return))
        if around.loop:
            choices.append((4, self._leave_turn))
        return choices

    def block(self, around: Around, most: int = 4) -> list[str]:
        """A few statements, at least one; keys that they bind are forgotten."""
        with self._keys.block():
            return super().block(around, most)

    # --- state

    def _change(self, around: Around) -> list[str]:
        return [self._change_of(self._write.here(), moves=False)]

    def _move(self, around: Around) -> list[str]:
        """Move an amount between two keys of an element, which may be one."""
        found = [visit for visit in self._path.visits if visit.group[0].kind.declared in _AMOUNTS]
        if not found:
            return self._change(around)
        visit = self._dice.one(found)
        name = f"self.{visit.group[0].name}"
        first, second = self._write.key(visit), self._write.key(visit)
        amount = self._write.of("int", 1)
        taken = f"{name}[{first}] = {name}.get({first}, 0) - {amount}"
        given = f"{name}[{second}] = {name}.get({second}, 0) + {amount}"
        test = f"{name}.get({first}, 0) < {amount}"
        return self._dice.one(
            [
                [taken, given],
                [taken, f"if {name}[{first}] < 0:", "    self.abort('below zero')", given],
                [f"if {test}:", f"    self.abort({self._write.of('str', 1)})", taken, given],
                [f"if not {test}:", f"    {taken}", f"    {given}"],
                [f"{name}[{first}], {name}[{second}] = {name}.get({second}, 0), {name}.get({first}, 1)"],
                [f"{name}[{second}] = {name}.pop({first}, {amount})"],
                [f"{name}[{first}] -= {amount}", f"{name}[{second}] += {amount}"],
            ]
        )

    def _key(self, around: Around) -> list[str]:
        """A variable for a key."""
        kind = self._dice.one(("int", "int", "str", "list[int]"))
        name = self._keys.fresh()
        if kind == "list[int]":
            walked, _ = self._int_keys()
            item = self._keys.fresh()
            value = self._dice.one([f"[{item} for {item} in {walked}]", f"[{item} % 3 for {item} in {walked}]"])
        else:
            value = self._keys.of(kind)
        self._keys.bind(name, kind)
        return [f"{name} = {value}"]

    def _int_keys(self) -> tuple[str, str]:
        walked, kind = self._keys.walked()
        return (walked, kind) if kind == "int" else (f"({self._keys.of('int')}, {self._keys.of('int')})", "int")

    def _abort(self, around: Around) -> list[str]:
        reason = self._dice.one([self._write.of("str", 1), self._write.fill("f'refused {<small>}'")])
        return [f"if {self._write.of('bool', 1, state=0.4)}:", f"    self.abort({reason})"]

    # --- control flow

    def _for_keys(self, around: Around) -> list[str]:
        """A loop over keys, whose turns may depend on each other."""
        walked, kind = self._keys.walked()
        name = self._keys.fresh()
        with self._keys.block(), self._scope.block():
            self._keys.bind(name, kind)
            if kind == "int" or self._dice.chance(0.5):
                self._scope.bind(name, kind, fixed=True)
            inner = Around(around.depth + 1, loop=True, may_return=around.may_return)
            body = [*self._change(inner), *self.block(inner, 3)]
        head = f"for {name} in {walked}:"
        if self._dice.chance(0.15):
            head = f"for place, {name} in enumerate({walked}):"
        return [head, *indent(body)]

    def _try(self, around: Around) -> list[str]:
        """A try with state in it: what its body changed before the exception stays."""
        inner = Around(around.depth + 1, around.loop, may_return=around.may_return)
        caught = self._dice.one(
            [
                "(ZeroDivisionError, LookupError)",
                "KeyError",
                "Exception",
                "(LookupError, ValueError) as error",
            ]
        )
        with self._scope.block():
            body = [*self._change(inner), *self._risky(inner), *self.block(inner, 2)]
        with self._scope.block():
            handler = self.block(inner, 2)
        lines = ["try:", *indent(body), f"except {caught}:", *indent(handler)]
        if self._dice.chance(0.2):
            with self._scope.block():
                lines += ["else:", *indent(self.block(inner, 1))]
        if self._dice.chance(0.2):
            with self._scope.block():
                lines += ["finally:", *indent(self.block(Around(NESTING_MAX, may_return=False), 1))]
        return lines
