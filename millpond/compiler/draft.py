"""A program on its way through the compiler: frozen, replaced by every pass, checked where it is read."""

from __future__ import annotations

import ast
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millpond.compiler.compiled import CompiledProgram
from millpond.compiler.scope import Scope
from millpond.errors import SourcePlace
from millpond.graph.model import Access, Dispatch, Mode
from millpond.program import Element, EntryPoint, ProgramBase


@dataclass(frozen=True, slots=True)
class Source:
    """Where a method is written: its file, and the file's lines from `first` on."""

    file: str
    first: int
    lines: tuple[str, ...]

    def place(self, node: ast.AST) -> SourcePlace:
        """The place of a node; it must bear a line of this source."""
        line = getattr(node, "lineno", self.first)
        text = self.lines[line - self.first]
        start = self._column(text, getattr(node, "col_offset", 0))
        one_line = getattr(node, "end_lineno", line) == line
        end = self._column(text, getattr(node, "end_col_offset", 0)) if one_line else len(text)
        return SourcePlace(self.file, line, start, text, max(1, end - start))

    @staticmethod
    def _column(text: str, offset: int) -> int:
        return len(text.encode()[:offset].decode(errors="ignore"))


@dataclass(frozen=True, slots=True)
class Point:
    """A statement, or the head of a compound one, in a control-flow graph; `top` is its place in the method's body."""

    node: ast.AST
    top: int
    reads: frozenset[str]
    binds: frozenset[str]
    unbinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Block:
    """Points that run one after the other, and the blocks that may follow."""

    points: tuple[Point, ...]
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cfg:
    """The control-flow graph of a method; block 0 is where it starts."""

    blocks: tuple[Block, ...] = ()


PARAMETER = -1
UNBOUND = -2


@dataclass(frozen=True, slots=True, order=True)
class Definition:
    """Where a name got its value: a point's number, PARAMETER, or UNBOUND where it may have none."""

    name: str
    point: int


@dataclass(frozen=True, slots=True)
class Reaching:
    """The definitions that reach each point, and each statement of the body from outside it, by name."""

    points: tuple[Point, ...] = ()
    before: tuple[Mapping[str, frozenset[Definition]], ...] = ()
    heads: tuple[int, ...] = ()

    def at(self, top: int) -> Mapping[str, frozenset[Definition]]:
        """What reaches a statement of the body from before it (a loop's own assignments come too late for that)."""
        return {
            name: frozenset(d for d in found if d.point < 0 or self.points[d.point].top != top)
            for name, found in self.before[self.heads[top]].items()
        }


@dataclass(frozen=True, slots=True)
class Site:
    """A state access as written.

    `operations` are named as in the container's table; `key` is the expression of the key; `everywhere` says that all
    instances are asked, `certain` that it is evaluated whenever its statement is.
    """

    node: ast.expr
    element: str
    operations: tuple[str, ...]
    key: ast.expr | None
    everywhere: bool
    certain: bool


class Kind(enum.Enum):
    """What a statement of the body does with state."""

    KEYED = "keyed"
    LOCAL = "local"
    EACH = "each"
    MERGE = "merge"


Identity = tuple[Any, ...]
"""What a key is, whatever it is called: equal identities are equal values."""


@dataclass(frozen=True, slots=True)
class Use:
    """A classified access: how it meets its element, and under which key."""

    site: Site
    access: Access
    identity: Identity | None

    @property
    def key(self) -> str:
        """The variable that holds the key, "" for the single key of a value or list."""
        return self.site.key.id if isinstance(self.site.key, ast.Name) else ""


@dataclass(frozen=True, slots=True)
class Stop:
    """A statement of the body that needs state or merges; `value` is the variable of an each or a merge."""

    top: int
    kind: Kind
    uses: tuple[Use, ...]
    node: ast.AST
    identity: Identity | None = None
    key: str = ""
    value: str = ""

    @property
    def elements(self) -> tuple[str, ...]:
        """The elements that it touches, in order."""
        return tuple(dict.fromkeys(use.access.state for use in self.uses))


@dataclass(frozen=True, slots=True)
class Constraint:
    """`target` is met at least `weight` steps after `source` (None: after the start), because of two accesses."""

    source: str | None
    target: str
    weight: int
    entry: str
    places: tuple[SourcePlace, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A task before its code: the statements `start` to `end` of the body, run at one step."""

    name: str
    step: int
    dispatch: Dispatch
    key: str
    collects: str
    start: int
    end: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    accesses: tuple[Access, ...]
    last: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Method:
    """An entry point on its way through the compiler; each pass fills its own field."""

    point: EntryPoint
    tree: ast.FunctionDef
    source: Source
    scope: Scope
    body: tuple[ast.stmt, ...] = ()
    cfg: Cfg = field(default_factory=Cfg)
    reaching: Reaching = field(default_factory=Reaching)
    stops: tuple[Stop, ...] = ()
    live: tuple[frozenset[str], ...] = ()
    pieces: tuple[Piece, ...] = ()

    @property
    def self_name(self) -> str:
        """What the method calls its program."""
        return self.tree.args.args[0].arg

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(name for name, _ in self.point.parameters)

    @property
    def name(self) -> str:
        """The entry point's name."""
        return self.point.name


@dataclass(frozen=True, slots=True)
class Draft:
    """A program on its way through the compiler."""

    program: type[ProgramBase]
    elements: Mapping[str, Element]
    methods: tuple[Method, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    levels: Mapping[str, int] = field(default_factory=dict)
    compiled: CompiledProgram | None = None


__all__ = [
    "PARAMETER",
    "UNBOUND",
    "Access",
    "Block",
    "Cfg",
    "Constraint",
    "Definition",
    "Dispatch",
    "Draft",
    "Identity",
    "Kind",
    "Method",
    "Mode",
    "Piece",
    "Point",
    "Reaching",
    "Site",
    "Source",
    "Stop",
    "Use",
]
