"""What Spark itself tells of a batch: its only file, and rows that wait in the sources.

Spark reads the files of a batch from logs of its checkpoint, written before the batch starts. Their form is Spark's
business, so whatever is not as expected here means only that rows carry the names of their files, as they do for any
other source.

Of each source Spark tells where the batch ended, and some sources tell where they end themselves. What an offset counts
is the source's own business: seconds (rate), batches of files (files), rows (Kafka). So only offsets in the form of
Kafka's are taken, numbers by partitions by topics: none of Spark's sources that count something else has them. Rows
between two of them are as many as their difference, or fewer if the topic is compacted.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_LOG_VERSION = "v1"

Offsets = dict[tuple[str, int], int]
"""The next row of each partition of each topic."""


def only_file(checkpoint: Path, batch: int) -> str | None:
    """Return the one file that a batch of the checkpoint's only source consists of; None if it can't be told."""
    try:
        now = _offset(checkpoint, batch)
        before = _offset(checkpoint, batch - 1) if batch else -1
        names = _names(checkpoint / "sources" / "0", now) if now == before + 1 else []
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None
    return names[0] if len(names) == 1 else None


def _offset(checkpoint: Path, batch: int) -> int:
    lines = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    # A version, what Spark says about the batch, and a line for each source.
    if len(lines) != 3 or lines[0] != _LOG_VERSION:
        raise ValueError
    return int(json.loads(lines[2])["logOffset"])


def _names(log: Path, number: int) -> list[str]:
    """Return the files that the log notes under a number; every tenth log holds those of all before it too."""
    plain = log / str(number)
    text = (plain if plain.exists() else log / f"{number}.compact").read_text(encoding="utf-8")
    version, *lines = text.splitlines()
    if version != _LOG_VERSION:
        raise ValueError
    entries = [json.loads(line) for line in lines]
    return [str(entry["path"]) for entry in entries if entry["batchId"] == number]


def queued_rows(progress: str) -> int | None:
    """Return the rows that were left in the sources when the batch was cut, by Spark's report in JSON.

    Sources that don't tell count as empty, and so do partitions of which no end is told, which are new. If no source
    tells, nothing is known.
    """
    known = [left for source in json.loads(progress)["sources"] if (left := _left(source)) is not None]
    return sum(known) if known else None


def _left(source: dict[str, Any]) -> int | None:
    ended, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    if ended is None or latest is None:
        return None
    # Latest offsets may be older than the end, where a source knows them from another look.
    return sum(max(0, latest[at] - end) for at, end in ended.items() if at in latest)


def _offsets(told: object) -> Offsets | None:
    """Offsets by topic and partition; None if they are of another form."""
    if isinstance(told, str):
        # Through Spark Connect, offsets are JSON within JSON.
        try:
            told = json.loads(told)
        except ValueError:
            return None
    if not isinstance(told, dict) or not told:
        return None
    offsets: Offsets = {}
    for topic, partitions in told.items():
        if not isinstance(partitions, dict) or not partitions:
            return None
        for number, offset in partitions.items():
            if not number.isdecimal() or not isinstance(offset, int) or isinstance(offset, bool):
                return None
            offsets[topic, int(number)] = offset
    return offsets
