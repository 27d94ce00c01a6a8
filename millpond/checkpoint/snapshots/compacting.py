"""The process that merges committed files into a snapshot, as a request on standard input asks.

It ends by itself when the driver that started it is gone.
"""

from __future__ import annotations

import gc
import os
import sys
import threading

import msgspec

from millpond.checkpoint.records.manifest import decode_manifest, manifest_hash, manifest_name
from millpond.checkpoint.snapshots.compaction import compact
from millpond.clock import SystemClock
from millpond.errors import MillpondError
from millpond.ids import EpochId, ManifestHash
from millpond.storage.open import open_storage

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
