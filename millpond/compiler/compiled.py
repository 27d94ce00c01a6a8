"""What the compiler leaves: tasks with generated code, ready for any runtime."""

from __future__ import annotations

import copy
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from millpond.graph.model import Access, Dispatch, Graph, Mode
from millpond.program.declare import Element
from millpond.program.entries import EntryPoint
from millpond.program.program import ProgramBase
from millpond.state.containers.element import ElementType

TaskFunction = Callable[..., None]
"""`f(out, *containers, *columns)`: works through the columns row by row and appends exactly one result per row to
`out`, so that `len(out)` is the row at fault when it raises. Containers are in the order of the task's accesses,
columns in the order of its inputs; a task without inputs takes one column of anything, which tells it the number of
rows. A result of a last task is the reply itself. Of any other task it is a `Reply`, `Done`, or a message: the index of
the task that goes on and the tuple of its inputs; or `Fanned`, several messages and then one of these."""


KeyFunction = Callable[..., None]
"""`f(out, *columns)`: appends to `out` for each row a list of (element name, key) pairs, which may repeat. Columns are
in the order of the task's inputs; a task without inputs takes one column of anything. It raises nothing but coded
errors: where the method would raise, the keys are those that it may have touched by then."""


ROW_FUNCTION: Final = "row"
"""What a function is called that works on one row; followed by `__` and a number if the user's code has that name."""

Message = tuple[int, tuple[Any, ...]]
"""Where a row goes on, and what it carries."""


class Reply:
    """A return of a task whose rows may also go on: the row's reply."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Done:
    """The end of a turn that a loop sent away: nothing goes on, and there is no reply. Used as it is, as a class."""


class Fanned:
    """The messages of the turns that a row's loops sent away, and what became of the row itself."""

    __slots__ = ("messages", "result")

    def __init__(self, messages: list[Message], result: Any) -> None:
        self.messages = messages
        self.result = result


class Unbound(enum.Enum):
    """What a variable without a value travels as."""

    UNBOUND = 0


def bound(value: Any, name: str) -> Any:
    """A variable's value, if it has one."""
    if value is Unbound.UNBOUND:
        raise UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")
    return value


def same_key(key: Any, here: Any) -> bool:
    """Whether a key is the one that a row is at; keys of different types are different, though Python calls them equal.

    What is no key is not told here: the access says so when it is reached.
    """
    if type(key) is not type(here):
        return False
    if isinstance(key, tuple):
        return len(key) == len(here) and all(map(same_key, key, here))
    return bool(key == here)


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """Refuses what can't be a key of an element, as plain Python does, where a row would go to that key."""

    element: ElementType

    def __call__(self, key: Any) -> None:
        """Raise for what is no key."""
        self.element.keys.check(key)


_PLAIN: Final = frozenset((int, float, str, bytes, bool, type(None)))


def as_now(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Values as they are now, whatever is done to their objects before they are sent."""
    if _PLAIN.issuperset(map(type, values)):
        return values
    try:
        return copy.deepcopy(values)
    except Exception:  # noqa: BLE001 - what can't be copied can't travel either, and is told when it is sent
        return values


def send(sent: list[Message], target: int, values: tuple[Any, ...]) -> None:
    """Send a turn away; the loop that goes on may change what it carries."""
    sent.append((target, as_now(values)))


def fanned(sent: list[Message], result: Any) -> Any:
    """What a row that may have sent turns away leaves."""
    return Fanned(sent, result) if sent else result


@dataclass(frozen=True, slots=True)
class KeySets:
    """Which keys a row of a gathered entry point may touch, from its arguments alone: never too few.

    `columns` are pairs of an element and the parameter that holds its key, parameters joined by commas for a tuple key
    ("a,b"). Where they say all, `function` is None; where there is a function, it says all and there are no columns.
    `singles` are elements of a single key (Value, List): they are part of every row's set.
    """

    columns: tuple[tuple[str, tuple[str, ...]], ...]
    function: KeyFunction | None
    singles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Added:
    """A value that is added to windows: the name of its column, if it has one, and the input that it is.

    If that input is a tuple, `part` is the place in it.
    """

    column: str | None
    input: str
    part: int | None = None


@dataclass(frozen=True, slots=True)
class Adds:
    """All that a task does: it adds these values of each row to the windows of a handler, under the row's key."""

    windows: str
    values: tuple[Added, ...]


@dataclass(frozen=True, slots=True)
class CompiledTask:
    """One task element: where it runs, what it takes, and its code.

    A `relaxed` task runs at whatever step its rows reach it; `step` is the earliest. `inputs` are the variables that
    arrive, in order; those of the first task are all parameters of the method. `key` names the input that holds the
    dispatch key of a BY_KEY task, none for a task whose only key is the single key of a value or list; in a first task
    there may be several, and the key is then the tuple of them. `collects` names the input of an ALL_TO_ONE
    task that arrives as one value per instance and is given to the code as a list in the order of the instances.

    A GATHERED task is the only one of its entry point. Its code is the whole method, and `keys` tells which keys a row
    may touch. A task with `adds` does no more than these say. `renews` are the elements that it works on as
    `RowEntries`, whose places its code makes values again when a row ends.
    """

    name: str
    entry: str
    index: int
    step: int
    dispatch: Dispatch
    key: tuple[str, ...]
    collects: str
    inputs: tuple[str, ...]
    accesses: tuple[Access, ...]
    function: TaskFunction
    last: bool
    relaxed: bool = False
    keys: KeySets | None = None
    adds: Adds | None = None
    renews: frozenset[str] = frozenset()

    @property
    def writes(self) -> frozenset[str]:
        """The elements that this task may change."""
        return frozenset(access.state for access in self.accesses if access.writes)

    @property
    def free(self) -> bool:
        """Whether its rows may run in any partition: no key and no state says where."""
        return self.dispatch is Dispatch.ANY and not self.accesses

    def mode_of(self, element: str) -> Mode:
        """How this task accesses an element."""
        return next(access.mode for access in self.accesses if access.state == element)


@dataclass(frozen=True, slots=True)
class Meets:
    """Which instances of partial state a row meets: of some elements that of a key, of others that of its arguments.

    `keys` names those elements, each with the columns of the key. It is `sure` if that says all, so that it can be told
    in any way to run: no key that a method computes decides, and no element is met in two places.
    """

    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    sure: bool = True


@dataclass(frozen=True, slots=True)
class CompiledEntry:
    """An entry point as a graph of tasks, the first one first.

    `commutes` if the order of its rows can't be seen in state or replies. `steps` is how many steps its rows take at
    most, None if that depends on data. `aborts` if the method may refuse a row by self.abort(reason).
    """

    point: EntryPoint
    tasks: tuple[CompiledTask, ...]
    reads_only: bool
    commutes: bool
    steps: int | None
    aborts: bool = False
    meets: Meets = Meets()


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A program ready to run: its elements, its entry points and its graph; and the elements that it gives up.

    `made_of` is the class, so that it can be compiled in another way; it does not travel. It is `shipped` where all
    entry points run in sequence, as methods of its instances.
    """

    name: str
    elements: Mapping[str, Element]
    entries: Mapping[str, CompiledEntry]
    graph: Graph
    dropped: tuple[str, ...] = ()
    made_of: type[ProgramBase] = field(default=ProgramBase, compare=False, repr=False)
    shipped: type[ProgramBase] | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        kept = (self.name, self.elements, self.entries, self.graph, self.dropped)
        return type(self), (*kept, self.shipped or ProgramBase, self.shipped)

    @property
    def steps(self) -> int:
        """How many steps an epoch takes."""
        return self.graph.steps

    @property
    def has_partial(self) -> bool:
        """Whether any element is partial, so that partitions must end at instance boundaries."""
        return any(element.partial for element in self.elements.values())
