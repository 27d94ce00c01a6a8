"""Named points at which a test can kill the process, to see that nothing is lost.

A point does nothing unless the environment variable names it: `MILLPOND_CRASH_AT=manifest.linked:2` kills the process
with SIGKILL, as the out-of-memory killer would, when that point is reached for the second time.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

VARIABLE = "MILLPOND_CRASH_AT"

POINTS = (
    "checkpoint.created",
    "epoch.offered",
    "epoch.computed",
    "segment.written",
    "delta.written",
    "output.staged",
    "snapshot.chunk",
    "snapshot.merged",
    "save.written",
    "near.kept",
    "manifest.staged",
    "manifest.linked",
    "manifest.committed",
    "publish.started",
    "publish.file",
    "publish.finished",
    "store.advanced",
    "task.started",
    "task.finished",
)
"""Every point there is; the crash tests visit all of them."""

_seen: Counter[str] = Counter()


def crashpoint(name: str) -> None:
    """Kill this process here if a test asked for it."""
    wanted = os.environ.get(VARIABLE)
    if wanted is None:
        return
    assert name in POINTS, name
    point, _, occurrence = wanted.partition(":")
    if point != name:
        return
    _seen[name] += 1
    if _seen[name] == int(occurrence or 1):
        os.kill(os.getpid(), signal.SIGKILL)
