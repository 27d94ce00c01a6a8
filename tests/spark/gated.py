"""A program of two steps whose user code can be held back, or killed, by marker files. Needs no Spark."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from millpond import Map, Partitioned, Program, entry

FOLDER: str | None = None
"""Where the markers lie; it travels to the workers with the program."""

WAIT_SECONDS_MAX = 600


class Gate:
    """A callable object, since what a function of the program's own package does is looked into, and refused."""

    def __call__(self, place: str) -> None:
        """Do what a file named `place` asks for: `kill N` lets N processes die here, `wait` waits for a file `go`."""
        if FOLDER is None or not (asked := Path(FOLDER) / place).exists():
            return
        verb, _, number = asked.read_text().partition(" ")
        if verb == "kill":
            for turn in range(int(number)):
                try:
                    os.close(os.open(asked.with_name(f"{place}.{turn}"), os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue
                os.kill(os.getpid(), signal.SIGKILL)
            return
        asked.with_name(f"{place}.waiting").touch()
        until = time.monotonic() + WAIT_SECONDS_MAX
        while not asked.with_name("go").exists():
            assert time.monotonic() < until, "nobody opened the gate"
            time.sleep(0.02)


gate = Gate()


class Gated(Program):
    """Counts visits by user, then by page; both steps pass a gate."""

    visits = Partitioned(Map[int, int])
    pages = Partitioned(Map[str, int])

    @entry
    def visit(self, user: int, page: str) -> int:
        gate("first")
        number = self.visits.get(user, 0) + 1
        self.visits[user] = number
        views = self.pages.get(page, 0) + number
        gate("second")
        self.pages[page] = views
        return views

    @entry
    def views(self, page: str) -> int:
        return self.pages.get(page, 0)
