"""Jobs on separate executors that are killed by their process numbers, and what they told of their epochs."""

from __future__ import annotations

import ctypes
import json
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.spark.drivers import SECONDS_MAX, Driver

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

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """For a while nothing of this driver runs, nor of what it started."""
        own = [psutil.Process(self._process.pid), *self.below()]
        for process in own:
            process.suspend()
        try:
            yield
        finally:
            for process in reversed(own):
                with suppress(psutil.NoSuchProcess):
                    process.resume()


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


class Nemesis:
    """Harms a job at moments of its own clock, 1 to 6 s apart, whatever the job is doing, and watches its commits.

    It starts the driver again whenever that has ended before its time. A harm counts only if it met something; one that
    did not comes later. Every kind comes before any comes again, and then it waits for a commit: executors and drivers
    need seconds to start, and if they never got these, nothing would be harmed but starts.
    """

    KINDS = ("executor", "executor", "executor", "burst", "worker", "worker", "store", "driver", "checkpoint")
    BURST = 5

    def __init__(self, start: Callable[[], ClusterDriver], rng: random.Random) -> None:
        self._start = start
        self._rng = rng
        self.driver = start()
        self._folder = self.driver.folder
        self._commits: list[float] = []
        self._harms: list[tuple[str, float]] = []
        self._deck: list[str] = []
        self._burst_left = 0
        self._commits_at_start = 0
        self.ends: list[tuple[int, str]] = []

    def harm_for(self, seconds: float, until_epoch: int) -> None:
        """Harm for so long after the first commit, and in every way, unless so many epochs are committed before."""
        self._watch_until(lambda: bool(self._commits))
        end, next_at = time.monotonic() + seconds, time.monotonic()
        while (time.monotonic() < end or self.counts().keys() < {*self.KINDS}) and not self._over(until_epoch):
            if time.monotonic() >= next_at:
                self._harm()
                next_at = time.monotonic() + self._rng.uniform(1, 6)
            self._watch()
        self._burst_left = 0

    def finish(self) -> None:
        """Leave the job alone until it has ended as it should."""
        self._watch_until(self._over)

    def _over(self, until_epoch: float = float("inf")) -> bool:
        return len(self._commits) >= until_epoch or (self.driver.ended() and self._ended() == 0)

    def _watch_until(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + SECONDS_MAX
        while not condition():
            assert time.monotonic() < until, self.driver.log()[-4000:]
            self._watch()

    def _watch(self) -> None:
        new = epochs_in(self._folder) - len(self._commits)
        self._commits += [time.monotonic()] * new
        if self._burst_left and self.driver.kill_one(EXECUTOR, self._rng):
            self._burst_left -= 1
        if self.driver.ended() and self._ended() != 0:
            self.driver = self._start()
            self._commits_at_start = len(self._commits)
        time.sleep(0.05)

    def _ended(self) -> int:
        """How the driver has ended, noted once with the code that it told."""
        code = self.driver.end()
        if not self.ends or self.ends[-1][1] != self.driver.log():
            self.ends.append((code, self.driver.log()))
        return code

    def _harm(self) -> None:
        if not self._deck:
            before = len(self._commits)
            self._watch_until(lambda: self._over(before + 1))
            self._deck = list(self.KINDS)
            self._rng.shuffle(self._deck)
        kind, begun = self._deck.pop(), time.monotonic()
        if self._does(kind):
            self._harms.append((kind, begun))
        else:
            self._deck.insert(0, kind)

    def _does(self, kind: str) -> bool:
        match kind:
            case "executor":
                return self.driver.kill_one(EXECUTOR, self._rng)
            case "burst":
                self._burst_left = self.BURST
                return bool(self.driver.processes(EXECUTOR))
            case "worker":
                return self.driver.kill_one(WORKER, self._rng)
            case "driver":
                if len(self._commits) == self._commits_at_start:
                    return False
                self.driver.kill_after(0)
                return True
            case "store":
                return self._remove_store()
        with unreadable(self._folder / "ck"):
            time.sleep(self._rng.uniform(0.5, 8.0))
        return True

    def _remove_store(self) -> bool:
        with suppress(OSError, ValueError):
            stores = [path for path in json.loads((self._folder / "stores").read_text()) if Path(path).exists()]
            if stores:
                shutil.rmtree(self._rng.choice(stores), ignore_errors=True)
                return True
        return False

    def counts(self) -> Counter[str]:
        """How often each kind of harm was done."""
        return Counter(kind for kind, _ in self._harms)

    def story(self) -> list[tuple[float, str]]:
        """What happened when, in seconds since the first commit."""
        commits = [(at, "commit") for at in self._commits]
        events = sorted([*commits, *((at, kind) for kind, at in self._harms)])
        return [(round(at - self._commits[0], 1), what) for at, what in events]

    def told(self) -> list[str]:
        """How long the next commit took after each kind of harm, whatever came in between: median and 95 of 100."""
        lines = []
        for kind in sorted(self.counts()):
            waits = [
                next((commit for commit in self._commits if commit > at), self._commits[-1]) - at
                for one, at in self._harms
                if one == kind
            ]
            ordered = sorted(max(wait, 0.0) for wait in waits)
            p50, p95 = (ordered[min(len(ordered) - 1, int(len(ordered) * part))] for part in (0.5, 0.95))
            lines.append(f"{kind}: {len(ordered)} times, next commit after p50 {p50:.1f} s, p95 {p95:.1f} s")
        return lines
