"""What Spark may say while it goes down, and nobody can help."""

from __future__ import annotations

import re

# A Python worker that waits for its next task finds its socket closed, and fails to write that. The JVM tells it only
# if it lives long enough, maybe in part. Over TCP the same write is lost in silence.
_WORKER = re.compile(
    r"Traceback \(most recent call last\):\n"
    r'(?:  File ".*pyspark/daemon\.py", .*\n(?:    .*\n)*)*'
    r"(?:BrokenPipeError: .*\n)?"
)


def without_farewell(stderr: str) -> str:
    """Standard error without what a worker says that Spark left behind."""
    return _WORKER.sub("", stderr)


def is_progress(stderr: str, program: str) -> bool:
    """Whether standard error has lines about epochs alone, as a run outside of a terminal writes them."""
    return re.fullmatch(rf"({program}: epoch \d+ · .*\n)*", without_farewell(stderr)) is not None
