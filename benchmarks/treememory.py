"""Memory of a process with all that it started, sampled while something runs: Spark's JVM and Python workers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

SAMPLE_SECONDS = 0.1
MB = 1_000_000
KB = 1024


class TreeMemory:
    """Watches this process and everything below it, in a thread of its own.

    What counts is the proportional set: pages that processes share count once.
    """

    def __init__(self) -> None:
        self.peak_mb = 0.0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch for as long as the block runs; the peak is that of all blocks so far."""
        done = threading.Event()
        thread = threading.Thread(target=self._watch, args=(done,), name="tree memory", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _watch(self, done: threading.Event) -> None:
        over = False
        while not over:
            self.peak_mb = max(self.peak_mb, tree_mb())
            over = done.wait(SAMPLE_SECONDS)


def tree_mb() -> float:
    """What this process and everything below it hold now."""
    own = psutil.Process()
    return round(sum(_proportional(process.pid) for process in (own, *own.children(recursive=True))) / MB, 1)


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0  # It ended while we looked.
    return sum(int(line.split()[1]) * KB for line in lines if line.startswith("Pss:"))
