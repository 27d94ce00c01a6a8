"""A program on its way through the compiler: frozen, replaced by every pass, checked where it is read."""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from millpond.compiler.compiled import CompiledProgram
from millpond.compiler.front.scope import Scope
from millpond.compiler.ir.jumps import Loop
from millpond.compiler.obstacles import ObstacleError
from millpond.errors import SourcePlace
from millpond.graph.model import Access, Dispatch, Mode, Touch
from millpond.program import Element, EntryPoint, ProgramBase

if TYPE_CHECKING:
    from millpond.compiler.analysis.values import Values

_MADE: Final = re.compile(r"\w__\d+\b")
"""How names end that the compiler makes."""


def as_written(name: str) -> str:
    """A variable as the user calls it; one of a helper that was written out may have got a number."""
    return _MADE.sub(lambda found: found.group()[0], name)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a method is written: its file, and the file's lines from `first` on.

    Lines of other files, from which helpers were written out in the method, follow after the end of the file. `further`
    tells for each such part the number of its first line here, its file, and the number of that line there.
    """

    file: str
    first: int
    lines: tuple[str, ...]
    further: tuple[tuple[int, str, int], ...] = ()

    def origin(self, line: int) -> tuple[str, int]:
        """The file, and the line in it, of a line that a node bears."""
        for here, file, there in reversed(self.further):
            if line >= here:
                return file, line - here + there
        return self.file, line

    def holds(self, place: SourcePlace) -> bool:
        """Whether a place of the user's files is in this source."""
        lines = range(self.first, self.first + len(self.lines))
        return any(self.origin(line) == (place.file, place.line) for line in lines)

    def place(self, node: ast.AST) -> SourcePlace:
        """The place of a node; it must bear a line of this source."""
        line = getattr(node, "lineno", self.first)
        text = self.lines[line - self.first]
        start = self._column(text, getattr(node, "col_offset", 0))
        one_line = getattr(node, "end_lineno", line) == line
        end = self._column(text, getattr(node, "end_col_offset", 0)) if one_line else len(text)
        return SourcePlace(*self.origin(line), start, text, max(1, end - start))

    def text(self, node: ast.AST) -> str:
        """What the user wrote where a node is from, on one line; the node may have come to use names of ours since."""
        written = self._segment(node)
        try:
            return ast.unparse(ast.parse(f"({written})", mode="eval"))
        except SyntaxError:
            shown = ast.unparse(node)
            return written.partition("\n")[0].strip() or shown if _MADE.search(shown) else shown

    def _segment(self, node: ast.AST) -> str:
        start, end = getattr(node, "lineno", self.first), getattr(node, "end_lineno", self.first)
        lines = [line.encode() for line in self.lines[start - self.first : end - self.first + 1]]
        if not lines:
            return ""
        # The end first: it may be in the same line as the start.
        lines[-1] = lines[-1][: getattr(node, "end_col_offset", 0)]
        lines[0] = lines[0][getattr(node, "col_offset", 0) :]
        return b"\n".join(lines).decode(errors="ignore")

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
        """What reaches the beginning of a statement of the body."""
        return self.before[self.heads[top]]


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
class FanOut:
    """A loop whose turns do not depend on each other.

    The accesses at `stops` are sent away, while the loop goes on at its head; what a turn does from there on (`region`)
    ends where the next turn would begin.
    """

    loop: Loop
    stops: frozenset[int]
    region: frozenset[int]


@dataclass(frozen=True, slots=True)
class Exit:
    """A way out of a piece: the statement that is not run here, and the piece that starts with it."""

    top: int
    target: int
    fan_out: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """A task before its code: the statements `tops` of the body, run at one step, beginning with `start`.

    It ends where the statement `ends` would be next, which begins the next turn of a loop that fanned out. Its `loose`
    inputs may have no value yet. The statements `checked` run here if their key is the piece's, and are left for
    otherwise. If its key is that of some parameters, joined by commas, it is `routed` by these, "" if there is one key.
    """

    name: str
    step: int
    dispatch: Dispatch
    key: str
    collects: str
    start: int
    tops: tuple[int, ...]
    inputs: tuple[str, ...]
    exits: tuple[Exit, ...]
    ends: int
    accesses: tuple[Access, ...]
    reason: str
    loose: frozenset[str] = frozenset()
    checked: frozenset[int] = frozenset()
    routed: str | None = None

    @property
    def last(self) -> bool:
        """Whether rows end here, each with its reply."""
        return not self.exits and self.ends < 0


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """Which keys a row of a gathered method may touch.

    `columns` are pairs of an element and the parameters that hold its key; where they do not say all, the keys are
    `computed`. `singles` are the elements of a single key, `touches` the read and write sets.
    """

    columns: tuple[tuple[str, tuple[str, ...]], ...]
    singles: tuple[str, ...]
    computed: bool
    touches: tuple[Touch, ...]


@dataclass(frozen=True, slots=True)
class Method:
    """An entry point on its way through the compiler; each pass fills its own field.

    `gathered` says why it is run gathered, "" if it is not; one that is run `whole`, in sequence, may touch all of an
    element; `aborts` whether it may refuse a row. `renews` are the
    elements whose places are made values again when a row ends, each with the reason; `own` are columns that are copied
    when it begins, since they are stored; `copies` says what is stored as a
    copy, since it is in another place of state, too: the value, the element, and where else.
    """

    point: EntryPoint
    tree: ast.FunctionDef
    source: Source
    scope: Scope
    owner: type = object
    body: tuple[ast.stmt, ...] = ()
    loops: tuple[Loop, ...] = ()
    cfg: Cfg = field(default_factory=Cfg)
    reaching: Reaching = field(default_factory=Reaching)
    found: Values | None = None
    stops: tuple[Stop, ...] = ()
    fan_outs: tuple[FanOut, ...] = ()
    start: Stop | None = None
    live: tuple[frozenset[str], ...] = ()
    pieces: tuple[Piece, ...] = ()
    aborts: bool = False
    gathered: str = ""
    whole: bool = False
    keys: KeyPlan | None = None
    renews: Mapping[str, str] = field(default_factory=dict)
    own: tuple[str, ...] = ()
    copies: tuple[tuple[ast.AST, str, str], ...] = ()

    @property
    def values(self) -> Values:
        """What the analyses have found of its variables."""
        assert self.found is not None, "the analyses have not run"
        return self.found

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

    @property
    def relaxed(self) -> bool:
        """Whether its rows may interleave with others between steps."""
        return self.point.relaxed

    def sent_from(self, top: int) -> FanOut | None:
        """The loop that sends an access away, if one does."""
        return next((fan for fan in self.fan_outs if top in fan.stops), None)


@dataclass(frozen=True, slots=True)
class Draft:
    """A program on its way through the compiler.

    `gathered` tells why entry points have to be run gathered, `sequence` why they have to be run in sequence: those are
    not among its `methods` but `whole`, as they are written, and `faster` says what to write instead. `sees_sets` is
    whether rows may see the order of sets that come out of state. `obstacles` are what the last pass found in the way
    of entry points: then no further pass is run, and slower ways are chosen.
    """

    program: type[ProgramBase]
    elements: Mapping[str, Element]
    eager: bool = False
    sees_sets: bool = True
    gathered: Mapping[str, str] = field(default_factory=dict)
    sequence: Mapping[str, str] = field(default_factory=dict)
    faster: Mapping[str, str] = field(default_factory=dict)
    methods: tuple[Method, ...] = ()
    whole: tuple[Method, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    levels: Mapping[str, int] = field(default_factory=dict)
    compiled: CompiledProgram | None = None
    obstacles: Mapping[str, ObstacleError] = field(default_factory=dict)

    def each(self, work: Callable[[Method], Method]) -> Draft:
        """Do a pass's work on every method; those that it meets an obstacle in stay as they are."""
        methods: list[Method] = []
        found: dict[str, ObstacleError] = {}
        for method in self.methods:
            try:
                methods.append(work(method))
            except ObstacleError as obstacle:
                methods.append(method)
                found[method.name] = obstacle
        return replace(self, methods=tuple(methods), obstacles=found)


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
    "Exit",
    "FanOut",
    "Identity",
    "KeyPlan",
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
