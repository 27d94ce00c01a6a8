"""Snapshots beside the epochs: a process of its own merges committed files, and a later commit names the result.

An epoch never waits for it. If the process or the driver dies, chunks that no manifest names are left, and the next try
writes the same ones under the same names. The process has the lowest priority, so that epochs keep the processor. On a
machine that is never idle it would not get on, and deltas would grow without end: so once a snapshot is overdue, a
process of ordinary priority takes its place.

What to merge is asked for on standard input (`main`). The process ends by itself when the driver that started it is
gone.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Final

import msgspec

from millpond.checkpoint.records.manifest import Manifest, decode_manifest, manifest_hash, manifest_name
from millpond.checkpoint.snapshots.compaction import compact, last_merged
from millpond.checkpoint.snapshots.snapshots import OVERDUE, Snapshot, bytes_to_merge, snapshot_due
from millpond.clock import SystemClock
from millpond.crashpoints import crashpoint
from millpond.errors import EpochError, MillpondError
from millpond.ids import EpochId, ManifestHash
from millpond.storage.contract import Storage
from millpond.storage.open import open_storage, opens_elsewhere

AT_ONCE_BYTES: Final = 256 * 1024
"""A merge of so little takes some milliseconds: less than starting a process."""

FAILURES_MAX: Final = 3
"""So many tries in a row may fail: then the next commit tells why, instead of deltas growing unseen."""


class Snapshots:
    """Makes snapshots of a checkpoint's epochs, one at a time."""

    def __init__(self, storage: Storage, key_groups: int) -> None:
        self._storage = storage
        self._key_groups = key_groups
        self._elsewhere = opens_elsewhere(storage.url)
        self._process: subprocess.Popen[bytes] | None = None
        self._urgent = False
        self._made: Snapshot | None = None
        self._failures = 0

    def look(self) -> None:
        """Look for a snapshot that was finished and never named."""
        self._made = last_merged(self._storage)

    def committed(self, manifest: Manifest, digest: ManifestHash) -> None:
        """Start on a committed epoch if a snapshot is due and none is under way."""
        urgent = snapshot_due(manifest, OVERDUE)
        if urgent and not self._urgent and self._process is not None and self._process.poll() is None:
            self._let_go(self._process)
        if self._process is not None or self._made is not None or not snapshot_due(manifest):
            return
        if not self._elsewhere or bytes_to_merge(manifest) <= AT_ONCE_BYTES:
            self._made = compact(self._storage, manifest, digest, self._key_groups)
            return
        self._process = subprocess.Popen(
            [sys.executable, "-m", "millpond.checkpoint.snapshots.background"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # The driver may have found this package where a new process would not look.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self._urgent = urgent
        assert self._process.stdin is not None
        request = Request(self._storage.url, manifest.epoch, digest, self._key_groups, urgent)
        # Not as arguments, which others can see: a URL may hold a password. If it died already, `take` will tell.
        with suppress(BrokenPipeError), self._process.stdin as asked:
            asked.write(msgspec.json.encode(request))
        crashpoint("snapshot.asked")

    def take(self) -> Snapshot | None:
        """Return a snapshot that is ready, once; None if there is none."""
        if self._process is not None and self._process.poll() is not None:
            process, self._process = self._process, None
            self._made = self._collected(process)
        made, self._made = self._made, None
        return made

    def close(self, head: Manifest | None) -> None:
        """Let go of what is under way; only if deltas grew far too large is the end of it waited for."""
        if self._process is not None:
            self._let_go(self._process, when_done=snapshot_due(head, OVERDUE))

    def _let_go(self, process: subprocess.Popen[bytes], *, when_done: bool = False) -> None:
        with process:
            if not when_done:
                process.kill()
        self._process = None

    def _collected(self, process: subprocess.Popen[bytes]) -> Snapshot | None:
        with process:
            answer = process.stdout.read() if process.stdout else b""
        if process.returncode == 0:
            self._failures = 0
            return last_merged(self._storage)
        self._failures += 1
        if self._failures >= FAILURES_MAX:
            raise EpochError(
                "MP418",
                "snapshots of the checkpoint can't be written",
                expected="a process that merges committed files",
                found=answer.decode(errors="replace").strip()[-500:] or f"exit code {process.returncode}",
                hint="is the disk full, or a file damaged? nothing committed is lost",
            )
        return None


NICENESS = 19
"""The lowest priority that every system knows."""

LOOK_SECONDS = 1.0
"""How often it looks whether its driver is still there."""


class Request(msgspec.Struct, frozen=True):
    """Which epoch of which checkpoint to merge; the hash tells timelines apart.

    One that is urgent is not content with what epochs leave of the processor and of the disk.
    """

    url: str
    epoch: EpochId
    hash: ManifestHash
    key_groups: int
    urgent: bool = False


def serve(asked: Request) -> bool:
    """Do what a request asks; False if something else stands where the epoch was, as after a restore from a copy."""
    storage = open_storage(asked.url)
    name = manifest_name(asked.epoch)
    data = storage.get(name)
    if manifest_hash(data) != asked.hash:
        return False
    compact(storage, decode_manifest(data, name), asked.hash, asked.key_groups)
    return True


def _end_with(parent: int) -> None:
    clock = SystemClock()
    while os.getppid() == parent:
        clock.sleep(LOOK_SECONDS)
    os._exit(1)


def stand_back() -> None:
    """Take only what epochs leave, of the processor and, where the system knows how, of the disk."""
    os.nice(NICENESS)
    if sys.platform == "linux":
        # Who is idle by policy gives way at once to whoever wakes up, and its reads and writes wait for all others'.
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main() -> None:
    """Serve the request on standard input."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    if not asked.urgent:
        stand_back()
    # It holds very many small values, none of which refers to others.
    gc.disable()
    try:
        done = serve(asked)
    except MillpondError as error:
        sys.exit(str(error))
    sys.exit(None if done else "the epoch to merge is not there any more")


if __name__ == "__main__":
    main()
