"""The flat form of a method: instructions over variables, and jumps between them.

Names with `%` are of the compiler: what expressions give, and variables of inner scopes. An instruction says where it
is from, for messages and for the code that is generated; nobody else looks at syntax.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from millpond.compiler.draft import Site


class Op(enum.Enum):
    """What an instruction does."""

    CONST = "const"
    OUTER = "outer"
    COPY = "copy"
    OPERATE = "operate"
    AUGMENT = "augment"
    MAKE = "make"
    ATTRIBUTE = "attribute"
    ITEM = "item"
    SLICE = "slice"
    NEXT = "next"
    UNPACK = "unpack"
    PART = "part"
    SET_ATTRIBUTE = "set attribute"
    SET_ITEM = "set item"
    ADD = "add"
    DELETE = "delete"
    CALL = "call"
    METHOD = "method"
    STATE = "state"
    FUNCTION = "function"
    ENTER = "enter"
    CAUGHT = "caught"
    YIELD = "yield"
    BRANCH = "branch"
    JUMP = "jump"
    RETURN = "return"
    RAISE = "raise"


NOTHING: Final = object()
"""Says that an instruction has no meaning outside of the method."""


@dataclass(frozen=True, slots=True)
class Instr:
    """One instruction: `out` gets what `op` makes of `args`.

    `name` is the attribute, method, operator, kind of container or place; `meaning` the constant, or the object behind
    what is called; `stars` the arguments that are walked through; `words` the names of the last arguments; `target`
    where a jump goes; `top` the statement of the body that it belongs to.
    """

    op: Op
    out: str
    args: tuple[str, ...]
    node: ast.AST
    top: int
    name: str = ""
    meaning: Any = NOTHING
    stars: frozenset[int] = frozenset()
    words: tuple[str, ...] = ()
    site: Site | None = None
    target: int = -1

    @property
    def given(self) -> tuple[str, ...]:
        """What a call is given, without what is called."""
        return self.args[1:] if self.op is Op.METHOD or (self.op is Op.CALL and self.meaning is NOTHING) else self.args


@dataclass(frozen=True)
class Flat:
    """A method as instructions; `values` are the variables of expressions by the identity of their syntax."""

    instrs: tuple[Instr, ...] = ()
    values: Mapping[int, tuple[ast.AST, str]] = field(default_factory=dict)

    def knows(self, node: ast.AST) -> bool:
        """Whether an expression is one of those that were lowered."""
        return id(node) in self.values and self.values[id(node)][0] is node

    def of(self, node: ast.AST) -> str:
        """The variable that holds the value of an expression."""
        return self.values[id(node)][1]

    @cached_property
    def definitions(self) -> Mapping[str, list[int]]:
        """The instructions that give each variable a value."""
        found: dict[str, list[int]] = {}
        for number, instr in enumerate(self.instrs):
            if instr.out:
                found.setdefault(instr.out, []).append(number)
        return found

    @cached_property
    def repeated(self) -> frozenset[int]:
        """The instructions that may run more than once in a row."""
        loops = [(one.target, at) for at, one in enumerate(self.instrs) if 0 <= one.target <= at]
        return frozenset(at for first, last in loops for at in range(first, last + 1))

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """The number of the basic block of each instruction."""
        starts = {one.target for one in self.instrs} | {
            at + 1 for at, one in enumerate(self.instrs) if one.op in (Op.BRANCH, Op.JUMP, Op.RETURN, Op.RAISE)
        }
        numbers: list[int] = []
        for at in range(len(self.instrs)):
            numbers.append((numbers[-1] if numbers else 0) + (at in starts))
        return tuple(numbers)

    def root(self, variable: str) -> str:
        """The variable with a name that something is a part of, itself if it has one."""
        while "%" in variable:
            made = self.definitions.get(variable, [])
            parts = (Op.ATTRIBUTE, Op.ITEM, Op.COPY, Op.NEXT, Op.UNPACK)
            if len(made) != 1 or self.instrs[made[0]].op not in parts:
                return ""
            variable = self.instrs[made[0]].args[0]
        return variable

    def at(self, tops: frozenset[int]) -> Iterator[tuple[int, Instr]]:
        """The instructions of some statements."""
        return ((number, one) for number, one in enumerate(self.instrs) if one.top in tops)


def moved(instr: Instr, target: int) -> Instr:
    """A jump with another target."""
    return replace(instr, target=target)
