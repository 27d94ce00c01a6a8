"""What users say of a job beside where it runs: what of its state is kept, and how its epochs are run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict, get_args

from millpond.checkpoint.retention.retention import Keep
from millpond.engine.elastic.options import Elastic, Mode
from millpond.engine.local_state.openstate import Restore
from millpond.engine.plan import STEPS_MAX, JobLevel, Level
from millpond.errors import EpochError, FeedError
from millpond.program.durability import BoundedLoss
from millpond.spelling import check_word

SMALL_EPOCH_ROWS: Final = 20_000
"""Below this a shuffle costs more than a second core saves."""

MEMORY_MB: Final = 1024

_KEEP: Final = Keep()


@dataclass(frozen=True, slots=True)
class Durability:
    """What a job keeps of its state: `Program.on(..., durability=Durability("replay"))`; docs/DURABILITY.md."""

    level: JobLevel = "exactly_once"
    """What a commit keeps of an epoch: what it changed, its rows (`"replay"`), or of each key what is due
    (`"bounded_loss"`, `BoundedLoss(...)`)."""

    keep: Keep = _KEEP
    """Which epochs stay readable: the last 100, unless said otherwise."""

    restore: Restore = "on_demand"
    """When workers without a copy of a large state restore it: a key group when it is first used (`"on_demand"`), or
    all before the first row (`"eager"`)."""

    work: str | Path | None = None
    """A folder that driver and executors share, for Spark's own checkpoint if that of the job is not in a folder: by
    default beside the local copies. A cluster needs one."""

    @property
    def chosen(self) -> Level | BoundedLoss:
        """The level, without the words for it."""
        return self.level if isinstance(self.level, BoundedLoss) else Level(self.level)

    def __post_init__(self) -> None:
        check_word("level", self.level)
        check_word("restore", self.restore)
        levels = [level.value for level in Level]
        if not isinstance(self.level, BoundedLoss) and self.level not in levels:
            raise EpochError(
                "MP494",
                "no such durability",
                expected=", ".join(f'"{level}"' for level in levels) + " or BoundedLoss(...)",
                found=repr(self.level)[:80],
            )
        if not isinstance(self.keep, Keep):
            raise FeedError(
                "MP524",
                "keep= is not a Keep",
                expected="Keep(last=100), Keep(last=100, every=1000), or Keep.all()",
                found=repr(self.keep)[:80],
                hint="from millpond import Keep",
            )
        if self.restore not in get_args(Restore):
            raise FeedError(
                "MP523",
                "no such way to restore state",
                expected=" or ".join(f'"{choice}"' for choice in get_args(Restore)),
                found=repr(self.restore)[:40],
            )


@dataclass(frozen=True, slots=True)
class Tuning:
    """How a job runs its epochs; results are the same: `Program.on(..., tuning=Tuning(steps=16))`."""

    key_groups: int | None = None
    """How many key groups the state is divided into, 128 by default: fixed when the checkpoint is made."""

    instances: int | None = None
    """How many instances partial state has, 8 by default; another number changes the checkpoint once, before the first
    epoch."""

    retries: int = 3
    """How often a job that Spark aborts is tried again."""

    small_epoch: int = SMALL_EPOCH_ROWS
    """On one machine, an epoch after one of at most so many rows runs in a single task, which saves the shuffles; 0
    never does that."""

    steps: int = STEPS_MAX
    """How many steps an epoch may take where data decides (loops of relaxed entry points); what is left is committed,
    and goes on in an epoch of its own."""

    keep_in_place: bool = True
    """Whether partitions on a cluster stay on the executor that has their state."""

    elastic: Mode | Elastic = "off"
    """Whether partitions come and go and key groups move as the load wants it (`"act"`, `Elastic(...)`), or whether
    that is only told (`"advise"`)."""

    memory_mb: int | None = MEMORY_MB
    """About what a task may hold of rows and of the state that they touch; more than that is worked on in portions.
    None is for all at once."""

    def __post_init__(self) -> None:
        if _is_below(self.retries, 0):
            raise FeedError("MP527", "retries is not a number of tries", **_found(self.retries, "0 or more"))
        if _is_below(self.small_epoch, 0):
            raise FeedError("MP518", "small_epoch is not a number of rows", **_found(self.small_epoch, "0 or more"))
        if _is_below(self.steps, 1):
            raise FeedError("MP519", "steps is not a number of steps", **_found(self.steps, "1 or more"))
        if self.memory_mb is not None and _is_below(self.memory_mb, 1):
            expected = "1 or more, or None for all at once"
            raise FeedError("MP525", "memory_mb is not a number of megabytes", **_found(self.memory_mb, expected))

    @property
    def memory_bytes(self) -> int:
        """How many bytes a task may hold, 0 for any number."""
        return (self.memory_mb or 0) * 1_000_000


class _Found(TypedDict):
    expected: str
    found: str


def _is_below(number: object, least: int) -> bool:
    return type(number) is not int or number < least


def _found(value: object, expected: str) -> _Found:
    return {"expected": expected, "found": repr(value)[:40]}
