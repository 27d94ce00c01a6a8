"""Rows between steps: messages from task to task, and one control row per task of a step.

Nothing here may differ between two attempts of a task: a shuffle that is read twice must give the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec
import pyarrow as pa

from millpond.checkpoint.records.manifest import OutputFile
from millpond.checkpoint.records.times import TaskTimes
from millpond.checkpoint.records.work import Changed
from millpond.storage.content import FileRef

CONTROL_TASK = -1

BYTES_IN = "bytes_in"
"""The counter of how many bytes the rows of an epoch have."""

MESSAGE_SCHEMA = pa.schema(
    [
        pa.field("part", pa.int32(), nullable=False),
        pa.field("task", pa.int32(), nullable=False),
        pa.field("feed", pa.int32(), nullable=False),
        pa.field("grp", pa.int32(), nullable=False),
        pa.field("ord", pa.int64(), nullable=False),
        pa.field("src", pa.string()),
        pa.field("pos", pa.int64(), nullable=False),
        pa.field("tie", pa.int64(), nullable=False),
        pa.field("dup", pa.int64(), nullable=False),
        pa.field("path", pa.binary()),
        pa.field("inst", pa.int64(), nullable=False),
        pa.field("body", pa.binary(), nullable=False),
    ]
)
"""The columns of a message: where it goes, its place in the order, and its variables.

The path tells which turns of loops sent it: four bytes for each, so that paths sort as the turns ran.
"""


class Letter(msgspec.Struct, frozen=True):
    """What a dead letter tells of an exception: its type, and the user's own lines, the innermost last."""

    exception: str
    lines: tuple[str, ...] = ()


class Failure(msgspec.Struct, frozen=True):
    """A row that stops the epoch, or is to be left out of it: the error as the user will see it.

    The `tie` and the number as a `duplicate` tell it from other rows of its place; the `path` tells which turn of its
    loops raised. `reason` is what a dead letter says of it.
    """

    kind: str
    code: str
    summary: str
    expected: str | None = None
    found: str | None = None
    hint: str | None = None
    trace: str | None = None
    place: tuple[int, int, str | None, int] = (0, 0, None, 0)
    tie: int = 0
    duplicate: int = 0
    path: bytes = b""
    letter: Letter | None = None
    reason: str = ""


def place_key(place: tuple[int, int, str | None, int]) -> tuple[int, int, str, int]:
    """Return a failure's place as something that sorts in input order."""
    return place[0], place[1], place[2] or "", place[3]


class Found(Enum):
    """How a task found the state of its partition: there was none yet, it was on its host since the epoch before, an
    old copy was there and caught up, or it had to be restored.
    """

    NOTHING = "nothing"
    LOCAL = "local"
    CAUGHT_UP = "caught up"
    RESTORED = "restored"


class Seen(msgspec.Struct, frozen=True):
    """Where a partition's last task of an epoch ran, and how it found its state; like times, it tells no more than
    what happened this once.
    """

    where: str = ""
    found: Found = Found.NOTHING
    restore_s: float = 0.0


class Load(msgspec.Struct, frozen=True):
    """The rows that a task element met: key groups that have some (two bytes each, little-endian) and how many (four
    bytes each); and the keys that many of them were for.
    """

    task: str
    groups: bytes
    rows: bytes
    hot: tuple[tuple[str, int], ...] = ()


class Control(msgspec.Struct, frozen=True):
    """What one task of a step did: changes of state, files, counts of messages, and failures.

    What gathered rows changed is `moved`, wherever its keys are at home.

    `loads` are of rows of `size_bytes` together. `busy` is how long tasks of the partition were at work, by step,
    without the time in which state was opened and restored.

    `raised` are rows that raised where they can't be left out at once: after others may have seen what they did. Where
    such a row should have had answers from all instances, those that came are `incomplete`.
    """

    step: int
    partition: int
    received: int
    sent: int
    changed: Changed = Changed()
    moved: Changed = Changed()
    outputs: tuple[OutputFile, ...] = ()
    counters: dict[str, int] = {}
    times: TaskTimes = TaskTimes()
    failure: Failure | None = None
    raised: tuple[Failure, ...] = ()
    incomplete: int = 0
    pending: tuple[FileRef, ...] = ()
    spent: dict[str, float] = {}
    seen: Seen = Seen()
    loads: tuple[Load, ...] = ()
    size_bytes: int = 0
    busy: dict[int, float] = {}


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Control)


def encode_control(control: Control) -> bytes:
    """Return a control row's body."""
    return _encoder.encode(control)


def decode_control(data: bytes) -> Control:
    """Read a control row's body."""
    return _decoder.decode(data)


@dataclass(slots=True)
class Outbox:
    """Messages of a task, gathered as columns."""

    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in MESSAGE_SCHEMA.names})

    def __len__(self) -> int:
        return len(self.columns["part"])

    def extend(self, **columns: list[Any]) -> None:
        """Add messages, all columns of the same length."""
        for name, values in columns.items():
            self.columns[name].extend(values)

    def messages(self, waiting: pa.RecordBatch | None) -> pa.RecordBatch:
        """Return the messages alone."""
        arrays = [pa.array(self.columns[field.name], type=field.type) for field in MESSAGE_SCHEMA]
        batch = pa.RecordBatch.from_arrays(arrays, schema=MESSAGE_SCHEMA)
        return batch if waiting is None else pa.concat_batches([batch, waiting])

    def table(self, control: Control, through: list[bytes], waiting: pa.RecordBatch | None = None) -> pa.RecordBatch:
        """Return the messages, this task's control row, those of earlier steps, and messages for a later step."""
        bodies = [encode_control(control), *through]
        count = len(bodies)
        self.extend(
            part=[control.partition] * count,
            task=[CONTROL_TASK] * count,
            src=[None] * count,
            path=[None] * count,
            body=bodies,
            **{name: [0] * count for name in ("feed", "grp", "ord", "pos", "tie", "dup", "inst")},
        )
        return self.messages(waiting)
