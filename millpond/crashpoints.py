"""Named points at which a test can kill the process, to see that nothing is lost.

A point does nothing unless the environment variable names it: `MILLPOND_CRASH_AT=manifest.linked:2` kills the process
with SIGKILL, as the out-of-memory killer would, when that point is reached for the second time. In a simulated run a
death is an exception, which whoever hears of a point may raise.

>>> points = []
>>> with heard_by(points.append):
...     crashpoint("manifest.linked")
>>> points
['manifest.linked']
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

VARIABLE = "MILLPOND_CRASH_AT"

IN_EPOCHS = (
    "checkpoint.created",
    "epoch.offered",
    "epoch.computed",
    "segment.written",
    "delta.written",
    "output.staged",
    "snapshot.chunk",
    "snapshot.merged",
    "manifest.staged",
    "manifest.linked",
    "head.noted",
    "head.forgotten",
    "manifest.committed",
    "publish.started",
    "publish.file",
    "publish.given",
    "publish.finished",
    "store.advanced",
    "task.started",
    "task.finished",
)
"""What every run passes sooner or later: the first once, the others again and again."""

IN_STORAGE = (
    "file.staged",
    "file.linked",
    "record.synced",
    "record.deleted",
    "logfile.begun",
    "logfile.rotated",
    "logfile.emptied",
    "logfile.unlinked",
    "witness.written",
    "index.staged",
    "index.named",
    "index.replaced",
    "spread.identified",
    "spread.marked",
    "spread.remembered",
)
"""What only some kinds of storage have: files of their own for each name, a log with its index, roots with marks."""

IN_TIDYING = (
    "garbage.listed",
    "garbage.deleted",
    "garbage.forgotten",
    "number.retired",
    "number.covered",
)
"""Epochs that are not kept are deleted: lists, marks, and names that come to life again."""

BY_HAND = (
    "savepoint.named",
    "fork.held",
    "fork.based",
    "fork.copied",
    "fork.begun",
    "repair.copied",
    "repair.removed",
    "repair.replaced",
    "repair.set_aside",
    "repair.unnoted",
    "repair.went_back",
)
"""What people ask for: savepoints, forks and repairs."""

IN_LEVELS = (
    "save.written",
    "unsynced.written",
    "unsynced.kept",
    "unsynced.replaced",
    "unsynced.forgotten",
    "loss.reported",
    "input.logged",
    "replay.computed",
)
"""State that is kept unsynced on a host, by the durability levels bounded loss and replay."""

IN_STORES = ("store.begun", "store.caught_up", "store.dropped", "scratch.filled", "snapshot.asked")
"""Local stores that are restored in parts, advanced behind an epoch or dropped, and snapshots made elsewhere."""

IN_PARTS = ("part.computed",)
"""An epoch that is cut around a few rows in sequence: some of its parts are done."""

IN_SINKS = ("kafka.sent", "kafka.flushed", "kafka.committed", "table.staged", "table.committed")
"""Inside the transactions of sinks: rows are there and nobody sees them, or all see them and nobody knows it yet."""

POINTS = (*IN_EPOCHS, *IN_STORAGE, *IN_TIDYING, *BY_HAND, *IN_LEVELS, *IN_STORES, *IN_PARTS, *IN_SINKS)
"""Every point there is; the crash tests visit all of them."""

_seen: Counter[str] = Counter()

_hears: ContextVar[Callable[[str], None] | None] = ContextVar("hears", default=None)


def crashpoint(name: str) -> None:
    """Kill this process here if a test asked for it."""
    hears = _hears.get()
    if hears is not None:
        hears(name)
    wanted = os.environ.get(VARIABLE)
    if wanted is None:
        return
    assert name in POINTS, name
    _seen[name] += 1
    point, _, occurrence = wanted.partition(":")
    if point == name and _seen[name] == int(occurrence or 1):
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def heard_by(hears: Callable[[str], None]) -> Iterator[None]:
    """Let a function hear of each point that this thread passes inside the block; what it raises is raised there."""
    token = _hears.set(hears)
    try:
        yield
    finally:
        _hears.reset(token)


def passed() -> frozenset[str]:
    """Return the points that this process came by since a test set the variable."""
    return frozenset(_seen)
