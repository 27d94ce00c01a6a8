"""Processes that are pinned to a core, and thieves that take most of its time away from those beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

EXECUTOR = "CoarseGrainedExecutorBackend"

PASSES_MAX = 20
"""How often threads are looked for: one that starts meanwhile inherits the cores of the one that starts it."""

_SPIN = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""
"""What a thief runs; it ends by itself when whoever started it is gone."""


def executors_below(process: psutil.Process) -> list[psutil.Process]:
    """The executors of a driver, in the order of their start."""
    found = []
    for below in process.children(recursive=True):
        with suppress(psutil.Error):
            if any(word.endswith(EXECUTOR) for word in below.cmdline()):
                found.append(below)
    return sorted(found, key=lambda one: int(one.pid))


def cores() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


def pin(process: psutil.Process, core: int) -> None:
    """Let a process and all below it run on one core alone, and with them what they start from now on."""
    for _ in range(PASSES_MAX):
        with suppress(psutil.Error):
            found = (process, *process.children(recursive=True))
            if not sum(_pin_threads(one.pid, core) for one in found):
                return


def _pin_threads(pid: int, core: int) -> int:
    """Pin the threads of a process, and say how many were not."""
    changed = 0
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                if os.sched_getaffinity(int(thread.name)) != {core}:
                    os.sched_setaffinity(int(thread.name), {core})
                    changed += 1
    return changed


@contextmanager
def thieves(core: int, count: int) -> Iterator[None]:
    """Run processes that do nothing but compute, on one core: who shares it with them gets so much less."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            running.append(subprocess.Popen([sys.executable, "-c", _SPIN]))
            os.sched_setaffinity(running[-1].pid, {core})
        yield
    finally:
        for thief in running:
            thief.kill()
            thief.wait()
