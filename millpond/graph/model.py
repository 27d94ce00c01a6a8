"""The stateful dataflow graph as data: frozen, checked when built, knows no Python source.

>>> add = TaskNode("add.0", "add", 0, (Access("counts", Mode.KEYED, writes=True),), (5,))
>>> graph = Graph(
...     "Words",
...     (StateNode("counts", "Counter[str]", "partitioned", "", level=0),),
...     (add,),
...     (Edge(None, "add.0", Dispatch.BY_KEY, "word", ("word",), "the key of counts"),),
... )
>>> graph.steps
1
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from millpond.errors import ProgramError

_REPORT = "this is a fault of Millpond, please report it with the program"


class Dispatch(enum.Enum):
    """How a task element's input reaches it."""

    BY_KEY = "by key"
    ANY = "any"
    ONE_TO_ALL = "one-to-all"
    ALL_TO_ONE = "all-to-one"
    GATHERED = "gathered"
    SEQUENCE = "in sequence"


class Mode(enum.Enum):
    """How a task element accesses a state element."""

    KEYED = "keyed"
    LOCAL = "local"
    GLOBAL = "global"


@dataclass(frozen=True, slots=True)
class StateNode:
    """A state element; every task element that touches it runs at step `level`."""

    name: str
    type: str
    distribution: str
    by: str
    level: int


@dataclass(frozen=True, slots=True)
class Access:
    """A task element's access to a state element."""

    state: str
    mode: Mode
    writes: bool


@dataclass(frozen=True, slots=True)
class Touch:
    """What a gathered task does to an element under one key, as the program writes the key; "" for its only key."""

    state: str
    key: str
    reads: bool
    writes: bool


@dataclass(frozen=True, slots=True)
class TaskNode:
    """A task element: a piece of one entry point that runs at one step, without moving.

    `touches` are the read and write sets of a gathered one.
    """

    name: str
    entry: str
    step: int
    accesses: tuple[Access, ...]
    lines: tuple[int, ...]
    touches: tuple[Touch, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """A dataflow edge; `source` is None for the feed of an entry point, `target` None for its reply.

    A task may have several edges out, one for each way in which its rows go on. Over a `fan_out` edge a row sends any
    number of messages, one for each turn of a loop, and goes on by itself.
    """

    source: str | None
    target: str | None
    dispatch: Dispatch
    key: str
    carries: tuple[str, ...]
    reason: str
    fan_out: bool = False


@dataclass(frozen=True, slots=True)
class Graph:
    """A program as states, tasks and edges.

    The tasks of `relaxed` entry points run at whatever step their messages reach them; `step` is the earliest. Their
    edges may form cycles. `gathered` are the entry points that run gathered, each with the reason: those rows of an
    epoch that share keys are gathered in one task. `sequence` are those that run in sequence, each with the reason: if
    an epoch has rows of one, all its rows run in one task, one after the other.
    """

    program: str
    states: tuple[StateNode, ...]
    tasks: tuple[TaskNode, ...]
    edges: tuple[Edge, ...]
    relaxed: frozenset[str] = frozenset()
    gathered: tuple[tuple[str, str], ...] = ()
    sequence: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        levels = {state.name: state.level for state in self.states}
        steps = {task.name: task.step for task in self.tasks}
        if len(levels) != len(self.states) or len(steps) != len(self.tasks):
            raise ProgramError("MP190", "two nodes of the graph have the same name", found=self.program, hint=_REPORT)
        entries = {task.name: task.entry for task in self.tasks}
        for task in self.tasks:
            if task.entry in self.relaxed or self.why_sequence(task.entry):
                continue
            for access in task.accesses:
                if levels.get(access.state) != task.step:
                    raise ProgramError(
                        "MP191",
                        f"task {task.name} touches {access.state} outside its level",
                        expected=f"step {levels.get(access.state)}",
                        found=f"step {task.step}",
                        hint=_REPORT,
                    )
        for edge in self.edges:
            ends = [end for end in (edge.source, edge.target) if end is not None]
            if not ends or any(end not in steps for end in ends):
                raise ProgramError(
                    "MP192",
                    "an edge leads to or from a task that is not in the graph",
                    found=f"{edge.source} -> {edge.target}",
                    hint=_REPORT,
                )
            if len(ends) == 2 and entries[ends[0]] not in self.relaxed and steps[ends[0]] >= steps[ends[1]]:
                raise ProgramError(
                    "MP193", "an edge does not go to a later step", found=f"{ends[0]} -> {ends[1]}", hint=_REPORT
                )
        self._check_gathered()

    def _check_gathered(self) -> None:
        """Check that what gathered entry points touch is touched by no other."""
        names = {entry for entry, _ in self.gathered}
        shared = {access.state for task in self.tasks if task.entry in names for access in task.accesses}
        for task in self.tasks:
            mixed = shared & {access.state for access in task.accesses}
            if mixed and task.entry not in names and not self.why_sequence(task.entry):
                raise ProgramError(
                    "MP194",
                    f"task {task.name} touches {min(mixed)}, which gathered entry points touch",
                    expected="an element of gathered entry points alone",
                    found=task.entry,
                    hint=_REPORT,
                )

    def why_gathered(self, entry: str) -> str:
        """Return why an entry point runs gathered; "" if it does not."""
        return dict(self.gathered).get(entry, "")

    def why_sequence(self, entry: str) -> str:
        """Return why an entry point runs in sequence; "" if it does not."""
        return dict(self.sequence).get(entry, "")

    @property
    def steps(self) -> int:
        """How many steps an epoch takes."""
        return 1 + max((task.step for task in self.tasks), default=0)
