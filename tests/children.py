"""Work in a process of its own, for tests that let it die."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

from millpond.crashpoints import VARIABLE


def in_child(work: Callable[[], object], crash_at: str = "") -> int:
    """Do work in a forked process that dies at a crash point; return a negative signal, or an exit code."""
    child = os.fork()
    if child == 0:
        if crash_at:
            os.environ[VARIABLE] = crash_at
        try:
            work()
        except BaseException:  # noqa: BLE001 - a child of a test must never return into pytest
            traceback.print_exc()
            os._exit(70)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
