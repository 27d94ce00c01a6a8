"""Where a story of kills takes place: a folder, a kind of storage in it, and what is told outside the checkpoint."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from millpond.checkpoint.commit import commit
from millpond.checkpoint.retention import collection, retired
from millpond.checkpoint.retention.retention import Keep
from millpond.checkpoint.snapshots import background, snapshots
from millpond.checkpoint.upkeep import rescale
from millpond.engine.local_state import openstate
from millpond.engine.task import working
from millpond.storage.backends.log.log import LogStorage
from millpond.storage.door import Door
from millpond.storage.open import open_storage

BACKENDS = ("files", "perkey", "log", "spread")


class UnsyncedDoor(Door):
    """A process that dies leaves what it wrote in the page cache: nothing has to reach the disk."""

    def sync(self, descriptor):
        pass

    def sync_data(self, descriptor):
        pass

    def sync_folder(self, path):
        pass


@dataclass(frozen=True)
class Place:
    """A folder, and a kind of storage for the checkpoints in it."""

    folder: Path
    backend: str

    def url(self, name="checkpoint"):
        root = self.folder / name
        match self.backend:
            case "files":
                return str(root)
            case "spread":
                return f"spread://2*{root}/one|{root}/two|log://{root}/three"
            case kind:
                return f"{kind}://{root}"

    def open(self, name="checkpoint"):
        return open_storage(self.url(name))

    def tell(self, what, number):
        """Note a number where no storage of ours is at work; it counts once this has returned."""
        staged = self.folder / f"{what}.staged"
        staged.write_text(str(number))
        staged.rename(self.folder / f"{what}.told")

    def told(self, what):
        told = self.folder / f"{what}.told"
        return int(told.read_text()) if told.exists() else 0


def make_small(patch):
    """Let files fill, lists end and stores be dropped after a few epochs; `patch` sets an attribute of a module."""
    limits = LogStorage.__init__.__kwdefaults__
    patch.setitem(limits, "file_bytes_max", 2500)
    patch.setitem(limits, "index_records_min", 5)
    patch.setattr(collection, "DELETES_MAX", 5)
    patch.setattr(retired, "LARGE", 2 * retired.SMALL)
    patch.setattr(retired, "SIZES", (retired.SMALL, 2 * retired.SMALL))
    patch.setattr(rescale, "CHUNK_BYTES", 200)
    patch.setattr(working, "INLINE_BYTES_MAX", 60)
    patch.setattr(openstate, "AT_ONCE_BYTES_MAX", 0)
    patch.setattr(openstate, "OLD_EPOCHS_MAX", 3)
    patch.setattr(background, "AT_ONCE_BYTES", 1 << 30)


def redraw(rng: random.Random) -> None:
    """Other settings for a process that starts: how often there are snapshots, and how many deltas stay listed."""
    snapshots.DELTA_EPOCHS_MAX = rng.randrange(2, 5)
    commit.DELTAS_KEPT = rng.choice((1, 1, 3, 8))


def some_keep(rng: random.Random, grace: str = "0 s") -> Keep:
    return Keep(last=rng.choice((1, 2, 3)), every=rng.choice((None, None, 7)), grace=grace)
