"""What a task of an epoch must know: the program, the layout, the committed parent, the feeds and their sinks."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from millpond.checkpoint.records.manifest import Elements
from millpond.checkpoint.records.work import NO_CHANGE, Changed, Parent
from millpond.compiler.compiled import CompiledEntry, CompiledProgram, CompiledTask
from millpond.engine.local_state.openstate import Restore
from millpond.engine.messages import Letter
from millpond.engine.time.eventtime import FeedTime, ParentWatermark
from millpond.graph.model import Dispatch
from millpond.keygroups import Layout
from millpond.program.durability import BoundedLoss
from millpond.sinks.protocol import Sink
from millpond.state.codec.classes import learn_from

INLINE_BYTES_MAX = 64 * 1024
"""Changes up to this size ride in the control row; the driver writes one segment for all of them."""

INLINE_ENTRIES_MAX = 4096
"""More changes than this are not even measured: they go to a file."""

STEPS_MAX = 8
"""Steps of an epoch of a relaxed program whose number of steps depends on data; what is left goes into the next one."""

DEAD_LETTERS = "dead-letters"
"""The suffix of a feed's dead-letter sink."""

LATE = "late"
"""The suffix of a feed's sink for late rows."""


class BadRows(enum.Enum):
    """What happens to a row that does not fit its entry point."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead letter"


JobLevel = Literal["exactly_once", "replay", "bounded_loss"] | BoundedLoss
"""How users say what a commit keeps."""


class Level(enum.Enum):
    """What a commit keeps of an epoch: what it changed, what it was computed from, or what is due of each key."""

    EXACTLY_ONCE = "exactly_once"
    REPLAY = "replay"
    BOUNDED_LOSS = "bounded_loss"


class Order(enum.Enum):
    """What gives the rows of a feed their order."""

    COLUMN = "order_by"
    SOURCE = "source"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """Where the files of a sink are staged: the sink's name in manifests, the root of its files, and whether they are
    published by appearing there. With `rows`, a reply is a list of rows of the sink, and these are its columns; with
    `apart`, it is a list of replies, each a row of the sink.
    """

    name: str
    root: str
    visible: bool = False
    rows: pa.Schema | None = None
    apart: bool = False

    @classmethod
    def of(cls, name: str, sink: Sink, outputs: Path) -> SinkPlan:
        """Say where a sink says that its files wait, and else in `outputs`."""
        told = sink.describe()
        return cls(name, str(outputs if told.staging is None else told.staging.absolute()), told.manifest_tells)


@dataclass(frozen=True, slots=True)
class FeedPlan:
    """One feed: its entry point, the columns that replies keep, and where replies, bad rows and late rows go.

    `time` is there if its rows have event times, and `unparsed` says that its source gives what it could not read.
    """

    name: str
    entry: str
    keep: tuple[tuple[str, pa.DataType], ...]
    order: Order
    bad_rows: BadRows
    replies: SinkPlan | None
    dead_letters: SinkPlan | None
    time: FeedTime | None = None
    late: SinkPlan | None = None
    unparsed: bool = False


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """What stays the same over the epochs of a run; a task may hold rows and state of `memory_bytes`, 0 for any."""

    program: CompiledProgram
    layout: Layout
    feeds: tuple[FeedPlan, ...]
    storage_url: str = field(repr=False)
    local_root: str
    steps_max: int = STEPS_MAX
    restore: Restore = "on_demand"
    durability: Level = Level.EXACTLY_ONCE
    elements: Elements = ()
    bounded_loss: frozenset[str] = frozenset()
    memory_bytes: int = 0
    tasks: tuple[CompiledTask, ...] = field(init=False)
    steps: int = field(init=False)
    """How many steps an epoch takes: those that some feed needs, at most `steps_max` where data decides."""
    relaxed: bool = field(init=False)
    """Whether rows of some feed may meet an element at any step, so that steps see what those before changed."""

    def __post_init__(self) -> None:
        tasks = tuple(task for entry in self.program.entries.values() for task in entry.tasks)
        fed = [self.program.entries[feed.entry] for feed in self.feeds]
        object.__setattr__(self, "tasks", tasks)
        object.__setattr__(self, "steps", max((entry.steps or self.steps_max for entry in fed), default=0))
        object.__setattr__(self, "relaxed", any(entry.point.relaxed for entry in fed))
        # Messages name classes of the program: whoever has a plan must know them.
        learn_from(
            *(hint for element in self.program.elements.values() for hint in element.type.arguments),
            *(hint for entry in self.program.entries.values() for _, hint in entry.point.parameters),
            *(task.function for task in tasks),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew where it arrives, so that the classes are known there too.
        shape = (self.program, self.layout, self.feeds, self.storage_url, self.local_root)
        more = (self.steps_max, self.restore, self.durability, self.elements, self.bounded_loss, self.memory_bytes)
        return type(self), (*shape, *more)

    @property
    def in_sequence(self) -> bool:
        """Whether all rows run in sequence."""
        return self.program.shipped is not None

    @property
    def sifts(self) -> bool:
        """Whether rows that raise are found all together and left out by running the epoch again.

        That is for rows that others have seen something of by then: what a row does in one place is undone there.
        """
        if self.relaxed or all(feed.bad_rows is BadRows.FAIL for feed in self.feeds):
            return False
        firsts = (self.entry_of(number).tasks[0].dispatch for number in range(len(self.feeds)))
        return self.steps > 1 or any(first is Dispatch.ONE_TO_ALL for first in firsts)

    @property
    def event_time(self) -> bool:
        """Whether rows have times of their own: all feeds have event time, or none."""
        return self.feeds[0].time is not None

    @property
    def gathered_feeds(self) -> list[int]:
        """The feeds whose entry points are gathered."""
        return [n for n in range(len(self.feeds)) if self.entry_of(n).tasks[0].dispatch is Dispatch.GATHERED]

    def entry_of(self, feed: int) -> CompiledEntry:
        """Return the entry point that a feed goes to."""
        return self.program.entries[self.feeds[feed].entry]

    def task_id(self, task: CompiledTask) -> int:
        """Return a task's number in messages."""
        return next(number for number, other in enumerate(self.tasks) if other.name == task.name)

    def task_of(self, entry: str, index: int) -> CompiledTask:
        """Return a task of an entry point, by its index there."""
        return self.program.entries[entry].tasks[index]

    @property
    def element_indexes(self) -> dict[str, int]:
        """The index of each element in store keys, by name."""
        return {name: self.element_index(name) for name in self.program.elements}

    @property
    def bounded_loss_indexes(self) -> frozenset[int]:
        """The indexes of elements whose changes stay near the host, to be saved key by key."""
        return frozenset(self.element_index(name) for name in self.bounded_loss)

    def element_index(self, name: str) -> int:
        """Return an element's index in store keys: what the checkpoint says, else its place in the declaration."""
        names = [None if kept is None else kept.name for kept in self.elements] or list(self.program.elements)
        return names.index(name)

    def windows_since(self, name: str) -> dict[str, int]:
        """From when on windows of an element know all rows, of those that came later than others."""
        kept = self.elements[self.element_index(name)] if self.elements else None
        return {} if kept is None or kept.windows is None else kept.windows.since


@dataclass(frozen=True, slots=True)
class Excluded:
    """A row that is left out of an epoch, because the user's code raised on it; by its place in the input.

    Rows of one place are told apart by what they say, equal ones by their number. It is `settled` which rows raise if
    all of them did so twice.
    """

    order: int
    feed: int
    source: str | None
    position: int
    tie: int
    duplicate: int
    reason: str
    letter: Letter | None = None
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Earlier:
    """What the parts of an epoch before one of them did: so many steps, and what they changed, the later files last."""

    steps: int = 0
    changed: Changed = NO_CHANGE


NOTHING_EARLIER = Earlier()


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """One epoch: its number, the parent that its tasks open their state at, and how all names of sources begin.

    If it `continues`, it has no rows of its own but the messages that the epoch before left. `now_us` is its time in
    microseconds since 1970, chosen once by the driver: what `self.now` says in all its tasks. `excluded` are rows that
    an earlier try found to raise: they are only tried, and leave nothing. In a relaxed program they are not even tried,
    and with `until`, only rows before that one are.
    `watermark` is the one that was committed with the parent: rows with event times are late by it. If the epoch is cut
    around rows in sequence, this is a part of it, on top of `earlier` ones.
    """

    epoch: int
    parent: Parent
    source_prefix: str = ""
    continues: bool = False
    now_us: int = 0
    excluded: tuple[Excluded, ...] = ()
    until: Excluded | None = None
    watermark: ParentWatermark = field(default_factory=ParentWatermark)
    earlier: Earlier = NOTHING_EARLIER

    def source_name(self, short: str | None) -> str | None:
        """Return the whole name of a source that travelled without its beginning."""
        return self.source_prefix + (short or "") or None


def key_parameters(task: CompiledTask) -> frozenset[str]:
    """Return the parameters of a first task that are keys, or parts of one: they can't be null."""
    if task.dispatch is Dispatch.BY_KEY:
        return frozenset(task.key)
    columns = () if task.keys is None else task.keys.columns
    return frozenset(name for _, names in columns for name in names)


def parameter_hints(entry: CompiledEntry) -> dict[str, Any]:
    """Return the type of each parameter of an entry point."""
    return dict(entry.point.parameters)
