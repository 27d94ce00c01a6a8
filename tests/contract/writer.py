"""A process that writes to a storage, for tests that start several.

`python -m tests.contract.writer URL HOW WRITER COUNT BYTES` says `ready`, waits for a line, then puts COUNT
names and tells of each, as it is acknowledged, what came of it.
- `race`: all writers put the same names, with contents of their own;
- `own`: each writer puts names of its own;
- `churn`: like `own`, and deletes every other one, saying so.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys

from millpond.storage.contract import PutOutcome
from millpond.storage.open import open_storage


def content(label: str, size: int) -> bytes:
    """Bytes that only this label has."""
    seed = hashlib.sha256(label.encode()).digest()
    return (seed * (size // len(seed) + 1))[:size]


def name_of(how: str, writer: int, number: int) -> str:
    return f"manifests/{number:010d}" if how == "race" else f"deltas/{writer}-{number}"


def tell(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def main(url: str, how: str, writer: int, count: int, size: int) -> None:
    for module in filter(None, os.environ.get("MILLPOND_TEST_MODULES", "").split(",")):
        importlib.import_module(module)
    storage = open_storage(url)
    tell("ready")
    sys.stdin.readline()
    for number in range(count):
        name = name_of(how, writer, number)
        outcome = storage.put(name, content(f"{name} by {writer}", size))
        tell("won" if outcome is PutOutcome.WON else "present", name)
        if how == "churn" and number % 2:
            storage.delete(name)
            tell("deleted", name)
    tell("done")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
