"""Makes the frozen checkpoints of a format: `python -m tests.frozen.make FOLDER`.

Run once for each format, by the version that introduced it; what it made is never made again. The path that it is
given ends up in manifests, as the place of replies: use one that says nothing of the machine.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

from millpond.checkpoint.records.manifest import decode_manifest
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.compiler.compile import compile_program
from millpond.engine.driver import Driver
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.log.log import LogStorage
from tests.frozen import programs
from tests.programs.ledger import BATCHES, MemorySink, open_ledger, run_batch

KEY_GROUPS = 12
EPOCHS = 4
ROWS = 9


def texts(state: dict[bytes, bytes]) -> dict[str, str]:
    return {key.hex(): value.hex() for key, value in sorted(state.items())}


def states_of(storage) -> dict[str, dict[str, str]]:
    """The state at every epoch that has a manifest."""
    held = {}
    for name in storage.list("manifests"):
        manifest = decode_manifest(storage.get(name), name)
        held[str(manifest.epoch)] = texts(read_state(storage, manifest))
    return held


def rows_of(make, seed: int, count: int) -> list[Any]:
    rng = random.Random(seed)
    return [make(rng) for _ in range(count)]


def settle(folder: Path, storage, **more: Any) -> None:
    """Keep the checkpoint alone, and beside it what it must be read as."""
    expected = {"states": states_of(storage), **more}
    for path in folder.iterdir():
        if path.name != "checkpoint":
            shutil.rmtree(path)
    shutil.rmtree(folder / "checkpoint" / ".staging", ignore_errors=True)
    text = json.dumps(expected, indent=1, ensure_ascii=True, sort_keys=True)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


def simulated(folder: Path, program: str, make, *, instances=(2,), epochs=EPOCHS, rows=ROWS, **options: Any) -> None:
    """A few epochs on changing numbers of partitions; of several `instances` the last ones stay."""
    compiled = compile_program(getattr(programs, program))
    fed = []
    for epoch in range(epochs):
        count = instances[min(epoch, len(instances) - 1)]
        run = Simulated(compiled, folder, 1 + epoch % 3, KEY_GROUPS, count, **options)
        fed.append(rows_of(make, epoch, rows))
        # A relaxed program is left as if its driver had died right after the epoch.
        with mock.patch.object(Driver, "_finish", return_value=None) if epoch == epochs - 1 else nullcontext():
            run.epoch(fed[-1])
    without_replies(run)
    settle(folder, FileStorage(folder / "checkpoint"), program=program, fed=fed, instances=instances[-1])


def without_replies(run: Simulated) -> None:
    """Let an epoch without rows be the last one: a start publishes the last replies again, and they are not frozen."""
    if not run._checkpoint.head.pending:
        run.epoch([])


def logged(folder: Path) -> None:
    """The ledger of the crash tests in a log, with several files and an index."""
    storage = LogStorage(folder / "checkpoint", file_bytes_max=4000, index_records_min=6)
    checkpoint = open_ledger(storage)
    for batch in range(len(BATCHES)):
        run_batch(checkpoint, storage, batch, MemorySink().publish)
    storage.close()
    settle(folder, storage, program=None)
    for path in (folder / "checkpoint").glob("log-*"):
        # What was only reserved is zeros; a file without them is as good.
        path.write_bytes(path.read_bytes().rstrip(b"\0"))


def main() -> None:
    root = Path(sys.argv[1])
    root.mkdir(parents=True)
    with mock.patch.object(working, "INLINE_BYTES_MAX", 150):
        simulated(root / "exact", "Shop", programs.shop_row)
        simulated(root / "partial", "Copies", programs.copies_row, instances=(3,))
        simulated(root / "rescaled", "Copies", programs.copies_row, instances=(2, 5, 3))
        simulated(root / "gathered", "Transfers", programs.transfers_row)
        simulated(root / "pending", "Wandering", programs.walk_row, epochs=2, rows=4, steps_max=2)
        with mock.patch.object(snapshots, "DELTA_EPOCHS_MAX", 2):
            simulated(root / "snapshot", "Shop", programs.shop_row)
            logged(root / "log")


if __name__ == "__main__":
    main()
