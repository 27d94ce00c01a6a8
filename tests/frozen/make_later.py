"""Makes the checkpoints in `format-1-later` and `format-2-later`: `python -m tests.frozen.make_later FOLDER`.

They have all that was added to the format of version 0.1 since: levels of durability, notes beside manifests,
forks, elements that changed, times, and several roots. Made once, as `make.py` says.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from millpond.checkpoint.commit import commit
from millpond.checkpoint.forking import fork
from millpond.checkpoint.retention.retention import Keep
from millpond.checkpoint.retention.savepoints import add_savepoint
from millpond.checkpoint.snapshots import snapshots
from millpond.compiler.compile import compile_program
from millpond.engine.plan import Level
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from millpond.program.semantics.epoch_time import epoch_time
from millpond.storage.backends.files import FileStorage
from millpond.storage.composed.unsynced import UnsyncedStorage
from millpond.storage.contract import Storage
from millpond.storage.open import open_storage
from tests.crash.stories.driven import Drawn
from tests.frozen import later_programs, programs
from tests.frozen.make import EPOCHS, KEY_GROUPS, rows_of, states_of, without_replies

START = 1_700_000_000_000_000
STEP_US = 5_000_000


def moment(number: int) -> int:
    return START + number * STEP_US


def compiled(name: str) -> Any:
    return compile_program(getattr(later_programs, name, None) or getattr(programs, name))


def fed_to(folder: Path, name: str, make: Any, seeds: range, *, ends: bool = True, **options: Any) -> list[list[Any]]:
    """Run epochs, each with a run of its own; return their rows. It ends if none follow."""
    fed = []
    for seed in seeds:
        with epoch_time(moment(seed)):
            run = Simulated(compiled(name), folder, 1 + seed % 3, KEY_GROUPS, keep=Keep.all(), **options)
            fed.append(rows_of(make, seed, 7))
            run.epoch(fed[-1])
            if ends and seed == seeds[-1]:
                without_replies(run)
    return fed


def settle(folder: Path, storage: Storage, **more: Any) -> None:
    """Keep the checkpoint and what belongs to it, and beside it what it must be read as."""
    expected = {"states": states_of(storage), **more}
    for path in folder.iterdir():
        if path.name not in {"checkpoint", "near", "base"}:
            shutil.rmtree(path)
    for path in folder.rglob(".staging"):
        shutil.rmtree(path)
    for path in folder.rglob("log-*"):
        path.write_bytes(path.read_bytes().rstrip(b"\0"))
    text = json.dumps(expected, indent=1, ensure_ascii=True, sort_keys=True)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


def lazy(folder: Path) -> None:
    """What is near stays beside it; without that, keys are as they were saved."""
    run = Simulated(compiled("Mixed"), folder, 2, KEY_GROUPS, keep=Keep.all())
    fed = [rows_of(later_programs.mixed_row, seed, 7) for seed in range(EPOCHS)]
    for rows in fed:
        run.epoch(rows)
    without_replies(run)
    settle(folder, run.storage, program="Mixed", fed=fed)


def replay(folder: Path) -> None:
    """Rows alone: what they changed is gone."""
    level = {"durability": Level.REPLAY, "instances": 3}
    fed = fed_to(folder, "Totals", later_programs.totals_row, range(EPOCHS), **level)
    storage = UnsyncedStorage(FileStorage(folder / "checkpoint"), folder / "near")
    settle(folder, storage, program="Totals", fed=fed)
    shutil.rmtree(folder / "near")


def timed(folder: Path) -> None:
    """Entries with their times, timers, and what both come to in the counters of manifests."""
    fed = fed_to(folder, "Reminders", later_programs.reminders_row, range(EPOCHS))
    settle(folder, FileStorage(folder / "checkpoint"), program="Reminders", fed=fed)


def evolved(folder: Path) -> None:
    """An epoch that changes elements, between epochs of the old program and of the new one."""
    before = fed_to(folder, "Shop", programs.shop_row, range(2), ends=False)
    fed = fed_to(folder, "ShopLater", later_programs.later_row, range(2, 4), adopt=True)
    settle(folder, FileStorage(folder / "checkpoint"), program="ShopLater", before=before, fed=fed)


def forked(folder: Path) -> None:
    """A base with a savepoint, and a fork of it, each with epochs of its own after that."""
    base = str(folder / "base")
    before = fed_to(folder, "Shop", programs.shop_row, range(2), ends=False, checkpoint=base)
    add_savepoint(FileStorage(base), "before")
    fork(base, folder / "checkpoint", "before")
    own = fed_to(folder, "Shop", programs.shop_row, range(10, 12))
    theirs = fed_to(folder, "Shop", programs.shop_row, range(2, 4), checkpoint=base)
    told = {"program": "Shop", "fed": [*before, *own], "base_fed": [*before, *theirs]}
    settle(folder, open_storage(str(folder / "checkpoint")), base_states=states_of(FileStorage(base)), **told)


def spread(folder: Path) -> None:
    """Two folders and a log, with their marks."""
    root = folder / "checkpoint"
    storage = open_storage(f"spread://2*{root}/one|{root}/two|log://{root}/three")
    fed = fed_to(folder, "Shop", programs.shop_row, range(EPOCHS), checkpoint=storage.url)
    storage.close()
    settle(folder, storage, program="Shop", fed=fed)


def tidied(folder: Path) -> None:
    """Lists of what is condemned and what was swept, and marks of numbers that were given away."""
    storage = FileStorage(folder / "checkpoint")
    Drawn(storage, Keep(last=2, grace="3 s"), 2, lambda manifest: None).go(21)
    settle(folder, storage, program=None)


def main() -> None:
    root = Path(sys.argv[1])
    root.mkdir(parents=True)
    cases = (lazy, replay, timed, evolved, forked, spread, tidied)
    with (
        mock.patch.object(snapshots, "DELTA_EPOCHS_MAX", 6),
        mock.patch.object(commit, "DELTAS_KEPT", 1),
    ):
        for case in cases:
            (root / case.__name__).mkdir()
            # Rows are computed again byte by byte, so how changes are divided into files must stay as it is.
            small = working.INLINE_BYTES_MAX if case is replay else 150
            with mock.patch.object(working, "INLINE_BYTES_MAX", small):
                case(root / case.__name__)


if __name__ == "__main__":
    main()
