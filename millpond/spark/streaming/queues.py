"""How many rows wait in the sources of a query, from what Spark tells of its last batch.

Of each source Spark tells where the batch ended, and some sources tell where they end themselves. What an offset counts
is the source's own business: seconds (rate), batches of files (files), rows (Kafka). So only offsets in the form of
Kafka's are taken, numbers by partitions by topics: none of Spark's sources that count something else has them. Rows
between two of them are as many as their difference, or fewer if the topic is compacted.
"""

from __future__ import annotations

import json
from typing import Any

Offsets = dict[tuple[str, int], int]
"""The next row of each partition of each topic."""


def queued_rows(progress: str) -> int | None:
    """The rows that were left in the sources when the batch was cut, by Spark's report in JSON.

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
