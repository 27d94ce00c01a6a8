"""Run by test_determinism.py under different seeds, time zones and locales: prints all that must not differ."""

from __future__ import annotations

import datetime
import hashlib
import random
import sys
import tempfile
from pathlib import Path

from millpond import parquet
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.compiler.compile import compile_program
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from millpond.keygroups import Layout
from tests.frozen import programs

KEYS = ("", "a", "ä", "日本", 0, -1, 2**63 - 1, ("a", 1), True, b"\x00", datetime.date(2024, 2, 29))
CASES = (
    (programs.Shop, programs.shop_row),
    (programs.Copies, programs.copies_row),
    (programs.Wandering, programs.wandering_row),
    (programs.Transfers, programs.transfers_row),
)


def told(text: object) -> None:
    sys.stdout.buffer.write(f"{text}\n".encode())


def run(program, make_row) -> None:
    told(program.explain())
    rng = random.Random(7)
    rows = [make_row(rng) for _ in range(40)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compiled = compile_program(program)
        sinks = {entry: parquet(folder / "out" / entry) for entry in compiled.entries}
        for start, partitions in ((0, 2), (20, 3)):
            simulated = Simulated(compiled, folder, partitions, 12, 4, steps_max=3, sinks=sinks)
            simulated.epoch(rows[start : start + 20])
        told(sorted(read_state(simulated.storage).items()))
        for place in ("deltas", "snapshots", "pending"):
            # Names are of one driver; what is under them is not.
            found = (simulated.storage.get(name) for name in simulated.storage.list(place))
            told((f"{place}/", sorted(hashlib.sha256(data).hexdigest() for data in found)))
        replies = sorted((folder / "out").glob("*/*.parquet"))
        assert replies
        told(sorted((path.parent.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in replies))


def main() -> None:
    snapshots.DELTA_EPOCHS_MAX = 2
    working.INLINE_BYTES_MAX = 100
    for partitions in (1, 3, 7):
        layout = Layout(64, partitions, 8, aligned=False)
        groups = [layout.group_of(key) for key in KEYS]
        told([(key, int(group), int(layout.owner_of(group))) for key, group in zip(KEYS, groups, strict=True)])
    for program, make_row in CASES:
        run(program, make_row)


if __name__ == "__main__":
    main()
