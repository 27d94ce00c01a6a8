"""Random programs from a seed: state elements, one to four entry points, and helpers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.fuzz.dice import Dice
from tests.fuzz.expressions import Expressions
from tests.fuzz.helpers import FUNCTIONS, HEAD, MEMBERS, used
from tests.fuzz.kinds import PARTIAL, PARTITIONED, Kind
from tests.fuzz.path import Declared, Group, Path, Visit
from tests.fuzz.scope import Scope
from tests.fuzz.statements import Around, Statements, indent

_PARAMETERS: Final = ((8, "int"), (3, "str"), (2, "float"), (1, "bool"))
_REPLIES: Final = (
    (9, "str"),
    (3, "int"),
    (3, "None"),
    (1, "bool"),
    (1, "float"),
    (1, "tuple[int, int]"),
    (1, "list[int]"),
    (1, "dict[str, int]"),
)


@dataclass(frozen=True, slots=True)
class Knobs:
    """What kind of programs are made: limits, and the shares of methods that are not steered, or relaxed."""

    statements_max: int = 40
    entries_max: int = 4
    elements_max: int = 7
    unsteered: float = 0.03
    relaxed: float = 0.08


@dataclass(frozen=True, slots=True)
class Generated:
    """A random program as text, and the parameters of its entry points with their types.

    A steered one keeps to the order that stratification asks for.
    """

    seed: int
    text: str
    entries: dict[str, tuple[tuple[str, str], ...]]
    rebalanced: bool = True


USUAL: Final = Knobs()


def generate(seed: int, knobs: Knobs = USUAL) -> Generated:
    """The random program of a seed."""
    return _Generator(Dice(seed), knobs).program(seed)


class _Generator:
    def __init__(self, dice: Dice, knobs: Knobs) -> None:
        self._dice = dice
        self._knobs = knobs
        self._groups = self._declare()
        self._every = [element for group in self._groups for element in group]
        self._helpers: list[str] = []
        self._keys: list[str] = []
        self._called: dict[str, list[str]] = {}
        self._steered = True
        # Small programs run faster and shrink better; large ones reach further.
        self._budget = self._dice.weighted([(4, 8), (4, 16), (2, knobs.statements_max)])

    def program(self, seed: int) -> Generated:
        dice = self._dice
        count = dice.weighted([(4, 1), (4, 2), (2, 3), (1, 4)])
        for number in range(dice.weighted([(6, 0), (3, 1), (1, 2)])):
            self._helper(number)
        methods: list[str] = []
        entries: dict[str, tuple[tuple[str, str], ...]] = {}
        for number in range(min(count, self._knobs.entries_max)):
            name = f"entry{number}"
            parameters = self._parameters()
            methods.append(self._entry(name, parameters, max(2, self._budget // count)))
            entries[name] = tuple(parameters)
        return Generated(seed, self._text(methods), entries, self._steered)

    # --- declarations

    def _declare(self) -> list[Group]:
        """Groups of elements in the order in which all methods visit them."""
        dice = self._dice
        wanted = dice.between(1, self._knobs.elements_max)
        groups: list[Group] = []
        made = 0
        while made < wanted:
            if dice.chance(0.2):
                group = [self._element(PARTIAL, made)]
            else:
                group = [self._element(PARTITIONED, made)]
                fitting = tuple(kind for kind in PARTITIONED if kind.key == group[0].kind.key)
                while made + len(group) < wanted and dice.chance(0.3):
                    group.append(self._element(fitting, made + len(group)))
            made += len(group)
            groups.append(tuple(group))
        return groups

    def _element(self, kinds: tuple[Kind, ...], number: int) -> Declared:
        kind = self._dice.weighted([(kind.weight, kind) for kind in kinds])
        # The name tells the comparison how the instances of a partial element are merged.
        return Declared(f"{kind.merge or 'e'}{number}", kind)

    def _parameters(self) -> list[tuple[str, str]]:
        dice = self._dice
        names = "abcde"[: dice.weighted([(1, 1), (4, 2), (4, 3), (2, 4), (1, 5)])]
        kinds = ["int", *(dice.weighted(_PARAMETERS) for _ in names[1:])]
        return list(zip(names, kinds, strict=True))

    # --- methods

    def _entry(self, name: str, parameters: list[tuple[str, str]], budget: int) -> str:
        dice = self._dice
        scope = Scope(dice)
        relaxed = dice.chance(self._knobs.relaxed)
        self._keys = []
        path = Path(self._visits(parameters), wild=relaxed or dice.chance(self._knobs.unsteered))
        self._steered = self._steered and not path.wild
        in_keys = " ".join([*(visit.key for visit in path.visits), *self._keys])
        for parameter, kind in parameters:
            scope.bind(parameter, kind, fixed=parameter in in_keys or dice.chance(0.7))
        returns = dice.weighted(_REPLIES)
        write = Expressions(dice, scope, path, self._every)
        write.called = self._called
        write.calm = dice.chance(0.6)
        statements = Statements(dice, scope, write, returns, budget)
        lines = [*self._keys]
        for kind in ("int", "list[int]", *dice.some(["str", "float", "int", "tuple[int, int]", "Point"], 1)):
            value = write.of(kind, 1, state=0)
            fresh = scope.fresh(kind)
            scope.bind(fresh, kind)
            lines.append(f"{fresh} = {value}")
        lines += statements.visit() if dice.chance(0.6) else []
        while statements.budget > 0:
            lines += statements.statement(Around())
        lines += statements.visit() if path.at < 0 else []
        if returns != "None":
            lines.append(statements.answer())
        signature = ", ".join(f"{parameter}: {kind}" for parameter, kind in parameters)
        mark = "@entry(relaxed=True)" if relaxed else "@entry"
        return "\n".join([mark, f"def {name}(self, {signature}) -> {returns}:", *indent(lines)])

    def _visits(self, parameters: list[tuple[str, str]]) -> list[Visit]:
        dice = self._dice
        chosen = dice.some(self._groups, dice.between(1, len(self._groups)))
        return [self._visit(group, parameters) for group in chosen]

    def _visit(self, group: Group, parameters: list[tuple[str, str]]) -> Visit:
        dice = self._dice
        if len(group) == 1 and group[0].kind.partial:
            return Visit(group, "", asked=dice.chance(0.5))
        wanted = group[0].kind.key
        if not wanted:
            return Visit(group, "")
        if dice.chance(0.2):
            return Visit(group, "", late=True)
        key = self._early_key(wanted, parameters)
        if key.isidentifier() or key.isdecimal() or dice.chance(0.04):
            return Visit(group, key)
        name = f"k{len(self._keys)}"
        self._keys.append(f"{name} = {key}")
        return Visit(group, name)

    def _early_key(self, wanted: str, parameters: list[tuple[str, str]]) -> str:
        """A key that the parameters give."""
        dice = self._dice
        names = {kind: [name for name, own in parameters if own == kind] for kind in ("int", "str", "bool")}
        ints, texts = names["int"], names["str"] or ["'a'"]
        some = dice.one(ints)
        forms: dict[str, list[tuple[float, str]]] = {
            "int": [
                (9, some),
                (2, f"{some} % 3"),
                (1, f"({some} + {dice.one(ints)}) % 4"),
                (1, "2"),
                (1, "self.LIMIT"),
            ],
            "str": [(9, dice.one(texts)), (1, f"{dice.one(texts)}[:1]"), (1, f"str({some} % 3)"), (1, "self.NAME")],
            "bool": [(3, dice.one(names["bool"] or ["True"])), (2, f"({some} > 1)")],
            "tuple[int, int]": [(3, f"({some}, {dice.one(ints)})"), (2, f"({some} % 2, 1)")],
            "tuple[int, str]": [(3, f"({some}, {dice.one(texts)})"), (2, f"({some}, 'b')")],
        }
        return dice.weighted(forms[wanted])

    def _helper(self, number: int) -> None:
        """A method that uses the state of one group, under a key that it is given."""
        dice = self._dice
        group = dice.one(self._groups)
        if group[0].kind.partial:
            return
        key = group[0].kind.key
        scope = Scope(dice)
        scope.bind("n", "int")
        visit = Visit(group, "key" if key else "")
        path = Path([visit])
        path.advance()
        write = Expressions(dice, scope, path, self._every)
        statements = Statements(dice, scope, write, "int", dice.between(1, 4))
        lines = []
        while statements.budget > 0:
            lines += statements.statement(Around())
        lines.append(statements.answer())
        name = f"_visit{number}"
        head = f"def {name}(self, key: {key}, n: int) -> int:" if key else f"def {name}(self, n: int) -> int:"
        self._helpers.append("\n".join([head, *indent(lines)]))
        call = f"self.{name}(<k>, <int>)" if key else f"self.{name}(<int>)"
        self._called.setdefault(group[0].name, []).append(call)

    # --- text

    def _text(self, methods: list[str]) -> str:
        code = "\n".join(methods)
        helpers = [text for text in self._helpers if text.split("(")[0].split()[-1] in code]
        code = "\n".join([code, *helpers, *(element.kind.declared for element in self._every)])
        members = used(MEMBERS, code)
        functions = used(FUNCTIONS, "\n".join([code, *members]))
        declared = [_declaration(element) for element in self._every if f"self.{element.name}" in code]
        parts = [part.rstrip().splitlines() for part in (*members, *helpers, *methods)]
        body = [line for part in parts for line in (*part, "")]
        lines = [
            HEAD,
            *functions,
            "class Random(Program):",
            *indent(declared),
            *(f"    {x}" if x else "" for x in body),
        ]
        return "\n".join(lines).rstrip() + "\n"


def _declaration(element: Declared) -> str:
    kind = element.kind
    by = f', by="{kind.by}"' if kind.by else ""
    return f"{element.name} = {'Partial' if kind.partial else 'Partitioned'}({kind.declared}{by})"
