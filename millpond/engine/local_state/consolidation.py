"""Consolidation: after a commit, the local stores of this host are brought to it while nobody waits for them.

Only a head start: a task opens its state at exactly its parent in any case, and does itself what is not done by then.
So whatever fails here is left to the next epoch, which meets it again and tells it.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

from millpond.checkpoint.records.work import Parent
from millpond.clock import Clock, SystemClock
from millpond.engine.local_state.openstate import catch_up
from millpond.ids import PartitionId
from millpond.keygroups import Layout
from millpond.state.local.localstore import LocalStore
from millpond.storage.contract import Storage

_CLOCK = SystemClock()

_AT_STORES = threading.Lock()
"""A process has each store open once, also if several of its jobs share one: none is closed while another uses it."""


class Consolidation:
    """Brings stores that are a little behind to the last commit, one commit at a time, in a thread of its own."""

    def __init__(self, storage: Storage, local_root: str, clock: Clock = _CLOCK) -> None:
        self._storage = storage
        self._local_root = local_root
        self._clock = clock
        self._thread: threading.Thread | None = None
        self._seconds: float | None = None
        self._ending = threading.Event()

    def start(self, parent: Parent, layout: Layout) -> None:
        """Begin with a committed epoch, unless an earlier one is still under way: a later one takes them together."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._ending.clear()
        # Not a daemon: the end of the program waits for the rest of a transaction, not for much.
        self._thread = threading.Thread(target=self._run, args=(parent, layout), name="millpond-consolidation")
        self._thread.start()

    def wait(self) -> None:
        """Wait until nothing is under way."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def take_seconds(self) -> float | None:
        """Say how long the last one took, once; None if there was none, or it is not over."""
        seconds, self._seconds = self._seconds, None
        return seconds

    def close(self) -> None:
        """End with nothing under way, and with no store open in this process; what is not begun yet is left."""
        self._ending.set()
        self.wait()
        with _AT_STORES:
            LocalStore.close_below(Path(self._local_root))

    def _run(self, parent: Parent, layout: Layout) -> None:
        begun = self._clock.ticks()
        caught_up = False
        for partition in range(layout.partitions):
            if self._ending.is_set():
                return
            # Whatever it is, the next task that opens this store meets the same, and tells it with its epoch.
            with suppress(Exception), _AT_STORES:
                caught_up |= catch_up(self._storage, self._local_root, parent, layout, PartitionId(partition))
        with suppress(Exception), _AT_STORES:
            # Tasks remove the stores of partitions that there are no more.
            LocalStore.close_below(Path(self._local_root), removed=True)
        if caught_up:
            self._seconds = self._clock.ticks() - begun
