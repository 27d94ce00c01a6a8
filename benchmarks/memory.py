"""Memory sampled while something runs: of Spark's Python workers, or of a process with all that it started."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import psutil

SAMPLE_SECONDS = 0.25
"""Looking for the workers takes some milliseconds of a core that the contestant needs."""
MB = 1_000_000
KB = 1024

_WORKER_MODULES = frozenset({"pyspark.daemon", "pyspark.worker"})


class Memory(ABC):
    """Watches memory in a thread of its own; what is looked at, `look` says."""

    def __init__(self) -> None:
        self.peak_mb = 0.0

    @abstractmethod
    def look(self) -> None:
        """Look once, and raise the peaks."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch for as long as the block runs; peaks are those of all blocks so far."""
        done = threading.Event()
        thread = threading.Thread(target=self._watch, args=(done,), name="memory", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _watch(self, done: threading.Event) -> None:
        while not done.wait(SAMPLE_SECONDS):
            self.look()
        # At least once, however short the block is.
        self.look()


class WorkerMemory(Memory):
    """Resident memory of the Python workers below this process.

    Pages that workers share (the interpreter, the local store) count once for each of them, or are left out
    (`private`): those of files are the system's cache, which it takes back when memory is short.
    """

    def __init__(self, *, private: bool = False) -> None:
        super().__init__()
        self._private = private
        self.peak_each_mb = 0.0

    def look(self) -> None:
        """Look at all workers that there are now."""
        sizes = [_resident_mb(worker, private=self._private) for worker in spark_workers()]
        self.peak_mb = max(self.peak_mb, round(sum(sizes), 1))
        self.peak_each_mb = max(self.peak_each_mb, round(max(sizes, default=0.0), 1))


class TreeMemory(Memory):
    """This process and everything below it, Spark's JVM included.

    What counts is the proportional set: pages that processes share count once.
    """

    def look(self) -> None:
        """Look at the whole tree."""
        self.peak_mb = max(self.peak_mb, tree_mb())


def spark_workers() -> list[psutil.Process]:
    """Return the Python workers of the Spark that this process runs: the daemon and what it forked."""
    return [child for child in psutil.Process().children(recursive=True) if is_worker(_words(child))]


def is_worker(words: list[str]) -> bool:
    """Tell a Spark worker by the words of its command line."""
    return any(flag == "-m" and module in _WORKER_MODULES for flag, module in pairwise(words))


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []  # It ended while we looked.


def _resident_mb(process: psutil.Process, *, private: bool) -> float:
    try:
        memory = process.memory_info()
        return float(memory.rss - (memory.shared if private else 0)) / MB
    except psutil.Error:
        return 0.0


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
