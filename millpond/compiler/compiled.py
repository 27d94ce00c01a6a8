"""What the compiler leaves: tasks with generated code, ready for any runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from millpond.graph.model import Access, Dispatch, Graph, Mode
from millpond.program.declare import Element
from millpond.program.entries import EntryPoint

TaskFunction = Callable[..., None]
"""`f(out, *containers, *columns)`: works through the columns row by row and appends exactly one result per row to
`out`, so that `len(out)` is the row at fault when it raises. Containers are in the order of the task's accesses,
columns in the order of its inputs; a task without inputs takes one column of anything, which tells it the number of
rows. A result of a task that has a successor is the tuple of its `outputs`, or a `Reply` when the method returned
early; a result of a last task is the reply itself."""


class Reply:
    """An early return: the row's reply is known before its last task."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass(frozen=True, slots=True)
class CompiledTask:
    """One task element: where it runs, what it takes, what it leaves, and its code.

    `inputs` are the variables that arrive, in order; those of the first task are all parameters of the method. `key`
    names the input that holds the dispatch key of a BY_KEY task ("" for a task whose only key is the single key of a
    value or list); in a first task it may name several, as in "a,b", and the key is then the tuple (a, b). `collects`
    names the input of an ALL_TO_ONE task that arrives as one value per instance and is given to the code as a list in
    the order of the instances.
    """

    name: str
    entry: str
    index: int
    step: int
    dispatch: Dispatch
    key: str
    collects: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    accesses: tuple[Access, ...]
    function: TaskFunction
    last: bool

    @property
    def writes(self) -> frozenset[str]:
        """The elements that this task may change."""
        return frozenset(access.state for access in self.accesses if access.writes)

    def mode_of(self, element: str) -> Mode:
        """How this task accesses an element."""
        return next(access.mode for access in self.accesses if access.state == element)


@dataclass(frozen=True, slots=True)
class CompiledEntry:
    """An entry point as a chain of tasks; `commutes` if the order of its rows can't be seen in state or replies."""

    point: EntryPoint
    tasks: tuple[CompiledTask, ...]
    reads_only: bool
    commutes: bool


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A program ready to run: its elements, its entry points and its graph."""

    name: str
    elements: Mapping[str, Element]
    entries: Mapping[str, CompiledEntry]
    graph: Graph

    @property
    def steps(self) -> int:
        """How many steps an epoch takes."""
        return self.graph.steps

    @property
    def has_partial(self) -> bool:
        """Whether any element is partial, so that partitions must end at instance boundaries."""
        return any(element.partial for element in self.elements.values())
