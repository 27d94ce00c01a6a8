"""Runs many rows in sequence in a process of its own, as they come, and tells what memory that took.

python -m tests.unit.engine.sequence.stream_of_rows FOLDER ROWS KEYS MEMORY_BYTES PORTION_ROWS
"""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from millpond import Map, Partitioned, Program, entry
from millpond.compiler.compile import compile_program
from millpond.engine.messages import decode_control
from millpond.engine.plan import EpochPlan
from millpond.engine.sequence import streaming
from millpond.engine.sequence.portions import in_portions
from millpond.engine.sequence.streaming import run_in_sequence
from millpond.engine.sequence.ways import in_sequence
from millpond.engine.simulated import Simulated

BATCH_ROWS = 10_000


class Visits(Program):
    """How often each key came, and when it came last."""

    counts = Partitioned(Map[int, int])
    last = Partitioned(Map[int, list[int]])

    @entry
    def visit(self, key: int, at: int) -> int:
        """Count a visit."""
        self.counts[key] = self.counts.get(key, 0) + 1
        self.last[key] = [at]
        return self.counts[key]


def keys_of(rows: int, keys: int) -> np.ndarray:
    """Return the key of each row."""
    return np.random.default_rng(7).integers(0, keys, rows)


def batches(rows: int, keys: int):
    """Yield the rows as they come."""
    every = keys_of(rows, keys)
    for start in range(0, rows, BATCH_ROWS):
        own = every[start : start + BATCH_ROWS]
        places = np.arange(start, start + len(own))
        yield pa.record_batch({"pos": places, "f0_key": own, "f0_at": places, "k0_0": places})


def main() -> None:
    """Run the rows, and print what was told."""
    folder, rows, keys, memory_bytes, portion = Path(sys.argv[1]), *map(int, sys.argv[2:])
    streaming.in_portions = lambda coming: in_portions(coming, portion)
    run = Simulated(compile_program(Visits), folder, 2)
    plan = replace(in_sequence(run._plan), memory_bytes=memory_bytes)
    epoch = EpochPlan(1, run._driver.checkpoint.parent, now_us=0)
    # A run before it, so that what is loaded once does not count.
    run_in_sequence(plan, epoch, batches(1000, 10), ordered=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = run_in_sequence(plan, epoch, batches(rows, keys), ordered=True)
    controls = [decode_control(body) for body in told.column("body").to_pylist()]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    files = [file.file.name for control in controls for file in control.moved.files]
    told_of = {"grown_mb": (peak - before) // 1024, "files": files, "growth": controls[0].moved.growth}
    sys.stdout.write(json.dumps(told_of | {"checkpoint": plan.storage_url}))


if __name__ == "__main__":
    main()
