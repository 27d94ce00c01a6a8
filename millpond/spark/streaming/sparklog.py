"""What Spark's own checkpoint says about a batch: used to send less.

Spark reads the files of a batch from logs of its checkpoint, written before the batch starts. Their form is Spark's
business, so whatever is not as expected here means only that rows carry the names of their files, as they do for any
other source.
"""

from __future__ import annotations

import json
from pathlib import Path

_LOG_VERSION = "v1"


def only_file(checkpoint: Path, batch: int) -> str | None:
    """The one file that a batch of the checkpoint's only source consists of; None if it can't be told."""
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
    """The files that the log notes under a number; every tenth log holds those of all before it too."""
    plain = log / str(number)
    text = (plain if plain.exists() else log / f"{number}.compact").read_text(encoding="utf-8")
    version, *lines = text.splitlines()
    if version != _LOG_VERSION:
        raise ValueError
    entries = [json.loads(line) for line in lines]
    return [str(entry["path"]) for entry in entries if entry["batchId"] == number]
