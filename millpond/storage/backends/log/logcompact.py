"""Taking back the room of deleted names: whole files by counting references, others by appending anew what lives."""

from __future__ import annotations

from millpond.crashpoints import crashpoint
from millpond.errors import DamagedError, DamagedLogError
from millpond.storage.backends.log.logrecord import (
    FILE_HEADER_BYTES,
    ROTATED_BYTES,
    RecordKind,
    Replay,
    log_damaged,
    payload_of,
)
from millpond.storage.backends.log.logtail import LogTail, log_name
from millpond.storage.door import coded


def collect(tail: LogTail) -> None:
    """Delete files in which no name lives and whose deletions nobody needs; asks for an exclusive turn."""
    tail.forget_gone()
    for number in sorted(tail.sizes):
        # The records that a deletion took away are in files before it.
        needed = tail.index.deletions[number] and number != min(tail.sizes)
        if not tail.index.live[number] and not needed:
            tail.unlink(number)


def compact_if_due(tail: LogTail, dead_bytes_min: int) -> None:
    """Empty the oldest file, if at least so much is dead in all files, and more than lives.

    The oldest, because the deletions in it need not be kept; so in going round all files, everything dead is lost.
    """
    numbers = sorted(set(tail.sizes) - tail.damaged)
    dead = sum(_dead_bytes(tail, number) for number in numbers)
    if dead >= max(dead_bytes_min, sum(tail.index.live_bytes[number] for number in numbers)):
        _empty(tail, numbers[0])


def compact_all(tail: LogTail) -> None:
    """Empty every file with something dead in it, oldest first: what the first one loses, the next need not keep."""
    for number in sorted(set(tail.sizes) - tail.damaged):
        if _dead_bytes(tail, number):
            _empty(tail, number)


def _dead_bytes(tail: LogTail, number: int) -> int:
    return tail.sizes[number] - tail.index.live_bytes[number] - FILE_HEADER_BYTES - ROTATED_BYTES


def _empty(tail: LogTail, number: int) -> None:
    try:
        _append_anew(tail, number)
    except (DamagedError, DamagedLogError):
        # What is damaged stays where it is, for whoever restores it.
        tail.damaged.add(number)
        return
    crashpoint("logfile.emptied")
    # What was copied must be durable before the only other copy goes.
    tail.sync()
    tail.unlink(number)


def _append_anew(tail: LogTail, number: int) -> None:
    with coded("read", log_name(number)), tail.reading(number) as read:
        for name in tail.index.names_in(number):
            spot = tail.index.find(name)
            assert spot is not None
            tail.append(RecordKind.PUT, name, payload_of(read, name, number, spot.start, spot.payload_bytes))
        if number == min(tail.sizes):
            return
        replay = Replay(read, number, FILE_HEADER_BYTES)
        deleted = {record.name for record in replay if record.kind is RecordKind.DELETE}
        if replay.stopped is not None:
            raise log_damaged(log_name(number), replay.end, replay.stopped)
        for name in sorted(deleted):
            if name not in tail.index:
                tail.append(RecordKind.DELETE, name, b"")
