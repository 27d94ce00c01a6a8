"""Random transactional programs from a seed: entry points over several keys, lists of keys, and several elements."""

from __future__ import annotations

from typing import Final

from tests.fuzz.dice import Dice
from tests.fuzz.grammar import Generated
from tests.fuzz.helpers import FUNCTIONS, HEAD, MEMBERS, used
from tests.fuzz.kinds import PARTITIONED, Kind
from tests.fuzz.path import Declared
from tests.fuzz.scope import Scope
from tests.fuzz.statements import Around, indent
from tests.fuzz.transactions.bodies import Call, Reading, Transactions
from tests.fuzz.transactions.keys import Keys

ELEMENTS_MAX: Final = 4
_PARAMETERS: Final = ((8, "int"), (4, "str"), (3, "list[int]"), (2, "list[str]"), (1, "float"), (1, "bool"))
_REPLIES: Final = (
    (9, "str"),
    (4, "int"),
    (2, "None"),
    (1, "bool"),
    (1, "list[int]"),
    (1, "dict[str, int]"),
    (1, "tuple[int, int]"),
)
_SETS: Final = Kind(
    "Map[int, set[int]]",
    "int",
    reads=(
        ("int", "len(<s>.get(<k>, set()))"),
        ("list[int]", "sorted(<s>.get(<k>, set()))"),
        ("bool", "(<int> in <s>.get(<k>, set()))"),
    ),
    writes=(
        "<s>.setdefault(<k>, set()).add(<int>)",
        "<s>.setdefault(<k>, set()).discard(<int>)",
        "<s>[<k>] = {<int>, <int>}",
        "if <k> in <s>:\n    <s>[<k>] |= {<int>}",
    ),
)
_SIDES: Final = (
    """\
@entry
def side(self, a: int, b: int) -> int:
    self.side0[a] += 1
    self.side1[b] = self.side1.get(b, 0) + self.side0[a]
    return self.side1[b]
""",
    """\
@entry
def side(self, a: int, b: int) -> int:
    self.side0[a] += b
    return 10 // (self.side0[a] % 5)
""",
)
_AMOUNT: Final = "n"
"""The parameter of helpers that may come from state, so that it is no key."""
_SIDE: Final = ("side0 = Partitioned(Counter[int])", "side1 = Partitioned(Map[int, int])")


def generate(seed: int) -> Generated:
    """The random program of a seed."""
    return _Generator(Dice(seed)).program(seed)


class _Generator:
    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        kinds = [(kind.weight, kind) for kind in (*PARTITIONED, _SETS)]
        count = dice.weighted([(5, 1), (5, 2), (2, 3), (1, ELEMENTS_MAX)])
        self._every = [Declared(f"e{number}", dice.weighted(kinds)) for number in range(count)]
        self._helpers: list[str] = []
        self._calls: list[Call] = []

    def program(self, seed: int) -> Generated:
        dice = self._dice
        for number in range(dice.weighted([(5, 0), (3, 1), (2, 2)])):
            self._helper(number)
        count = dice.weighted([(3, 1), (4, 2), (2, 3)])
        # Small programs run faster and shrink better; large ones reach further.
        budget = dice.weighted([(4, 5), (4, 10), (2, 24)])
        methods: list[str] = []
        entries: dict[str, tuple[tuple[str, str], ...]] = {}
        for number in range(count):
            name = f"entry{number}"
            entries[name] = parameters = self._parameters()
            methods.append(self._entry(name, parameters, max(3, budget // count)))
        if dice.chance(0.2):
            # An entry point that is exact by levels, in the same epochs.
            methods.append(dice.one(_SIDES))
            entries["side"] = (("a", "int"), ("b", "int"))
        return Generated(seed, self._text(methods), entries)

    def _parameters(self) -> tuple[tuple[str, str], ...]:
        dice = self._dice
        names = "abcde"[: dice.weighted([(1, 1), (4, 2), (4, 3), (2, 4), (1, 5)])]
        return tuple(zip(names, ["int", *(dice.weighted(_PARAMETERS) for _ in names[1:])], strict=True))

    def _writer(self, parameters: tuple[tuple[str, str], ...], returns: str, budget: int) -> Transactions:
        dice = self._dice
        scope, keys = Scope(dice), Keys(dice)
        for name, kind in parameters:
            loose = dice.chance(0.08)
            if kind != "list[str]":
                scope.bind(name, kind, fixed=not loose)
            if kind != "float" and name != _AMOUNT and not loose:
                keys.bind(name, kind)
        write = Reading(dice, scope, self._every, keys)
        write.calm = dice.chance(0.5)
        write.calls = list(self._calls)
        for kind in ("int", "list[int]"):
            scope.bind(f"{kind[0]}0", kind)
        return Transactions(dice, scope, write, returns, budget)

    def _entry(self, name: str, parameters: tuple[tuple[str, str], ...], budget: int) -> str:
        returns = self._dice.weighted(_REPLIES)
        lines = self._body(parameters, returns, budget)
        signature = ", ".join(f"{parameter}: {kind}" for parameter, kind in parameters)
        return "\n".join(["@entry", f"def {name}(self, {signature}) -> {returns}:", *indent(lines)])

    def _body(self, parameters: tuple[tuple[str, str], ...], returns: str, budget: int) -> list[str]:
        writer = self._writer(parameters, returns, budget)
        lines = ["i0 = 1", "l0 = [2]"]
        while writer.budget > 0:
            lines += writer.statement(Around())
        if returns != "None":
            lines.append(writer.answer())
        return lines

    def _helper(self, number: int) -> None:
        """A method that transactions call with one or two keys; it answers with a whole number."""
        kinds = [self._dice.one(("int", "int", "str")) for _ in range(self._dice.between(1, 2))]
        parameters = (*zip(("one", "other"), kinds, strict=False), (_AMOUNT, "int"))
        lines = self._body(parameters, "int", self._dice.between(1, 3))
        name = f"_help{number}"
        signature = ", ".join(f"{parameter}: {kind}" for parameter, kind in parameters)
        self._helpers.append("\n".join([f"def {name}(self, {signature}) -> int:", *indent(lines)]))
        self._calls.append((tuple(kind for _, kind in parameters), name))

    def _text(self, methods: list[str]) -> str:
        helpers: list[str] = []
        for text in reversed(self._helpers):
            # Helpers call earlier ones only.
            if f"{text.split('(')[0].split()[-1]}(" in "\n".join([*methods, *helpers]):
                helpers.insert(0, text)
        code = "\n".join([*methods, *helpers, *(element.kind.declared for element in self._every)])
        members = used(MEMBERS, code)
        functions = used(FUNCTIONS, "\n".join([code, *members]))
        declared = [_declaration(element) for element in self._every if f"self.{element.name}" in code]
        declared += _SIDE if "self.side0" in code else ()
        parts = [part.rstrip().splitlines() for part in (*members, *helpers, *methods)]
        body = [line for part in parts for line in (*part, "")]
        lines = [HEAD, *functions, "class Random(Program):", *indent(declared)]
        return "\n".join([*lines, *(f"    {line}" if line else "" for line in body)]).rstrip() + "\n"


def _declaration(element: Declared) -> str:
    by = f', by="{element.kind.by}"' if element.kind.by else ""
    return f"{element.name} = Partitioned({element.kind.declared}{by})"
