"""Jobs on separate executors that are killed by their process numbers, and what they told of their epochs."""

from __future__ import annotations

import ctypes
import json
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.spark.drivers import Driver
from tests.spark.programs import say

EXECUTOR = "CoarseGrainedExecutorBackend"
WORKER = "pyspark.daemon"

_HERE = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE


class ClusterDriver(Driver):
    """A driver with executors of its own."""

    JOB = "tests.spark.cluster_job"

    def processes(self, word: str) -> list[psutil.Process]:
        """The processes below the driver whose command has a word that ends so."""
        found = []
        for process in self.below():
            with suppress(psutil.Error):
                if any(part.endswith(word) for part in process.cmdline()):
                    found.append(process)
        return found

    def pause(self, seconds: float) -> None:
        """Let the driver work for so long, unless it ends before."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=seconds)

    def kill_one(self, word: str, rng: random.Random) -> bool:
        """Kill one of the processes of a kind; False if there is none."""
        found = self.processes(word)
        if not found:
            return False
        with suppress(psutil.NoSuchProcess):
            rng.choice(found).kill()
        return True


def told(folder: Path) -> list[dict[str, Any]]:
    """The epochs that the drivers of a folder committed, as they told of them."""
    path = folder / "epochs"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def epochs_in(folder: Path) -> int:
    """The last epoch that is committed."""
    with suppress(OSError):
        return max((int(path.name) for path in (folder / "ck" / "manifests").iterdir()), default=0)
    return 0


@contextmanager
def unreadable(path: Path) -> Iterator[None]:
    """For a while a folder is not there: something that is no folder takes its place, at one stroke."""
    other = path.with_name(path.name + ".away")
    other.write_text("no folder")
    _exchange(path, other)
    try:
        yield
    finally:
        _exchange(path, other)
        other.unlink()


def _exchange(one: Path, other: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_HERE, bytes(one), _HERE, bytes(other), _EXCHANGE):
        raise OSError(ctypes.get_errno(), "renameat2", str(one))


@dataclass(slots=True)
class Killer:
    """Harms a running job at random moments, and notes how long the next commit takes."""

    driver: ClusterDriver
    rng: random.Random
    recovered_s: dict[str, list[float]] = field(default_factory=dict)

    def harm(self, kind: str, wait_max_s: float = 90) -> None:
        """Do one thing, then wait for the next commit or the end of the driver."""
        folder = self.driver.folder
        actions: dict[str, Callable[[], object]] = {
            "executor": lambda: self.driver.kill_one(EXECUTOR, self.rng),
            "burst": lambda: [self.driver.kill_one(EXECUTOR, self.rng) for _ in range(3)],
            "worker": lambda: self.driver.kill_one(WORKER, self.rng),
            "driver": lambda: self.driver.kill_after(0),
            "store": self._remove_store,
            "checkpoint": self._take_away,
        }
        before, begun = epochs_in(folder), time.monotonic()
        actions[kind]()
        while not self.driver.ended() and time.monotonic() < begun + wait_max_s:
            if epochs_in(folder) > before:
                self.recovered_s.setdefault(kind, []).append(time.monotonic() - begun)
                return
            time.sleep(0.05)

    def _remove_store(self) -> None:
        with suppress(OSError, ValueError):
            stores = json.loads((self.driver.folder / "stores").read_text())
            if stores:
                shutil.rmtree(self.rng.choice(stores), ignore_errors=True)

    def _take_away(self) -> None:
        with unreadable(self.driver.folder / "ck"):
            time.sleep(self.rng.uniform(0.5, 2.0))

    def tell(self) -> None:
        """Say how long commits took after each kind of harm: the median and the nearest rank to 95 of 100."""
        for kind, seconds in sorted(self.recovered_s.items()):
            ordered = sorted(seconds)
            p50, p95 = (ordered[min(len(ordered) - 1, int(len(ordered) * part))] for part in (0.5, 0.95))
            say(f"{kind}: {len(ordered)} times, next commit after p50 {p50:.1f} s, p95 {p95:.1f} s")
