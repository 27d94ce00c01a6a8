"""The frozen checkpoints of `format-1-later` and `format-2-later`, copied to where they may be changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from msgspec.structs import replace

from millpond.checkpoint.retention.retention import Keep
from millpond.engine.simulated import Simulated
from millpond.storage.backends.files import FileStorage
from millpond.storage.composed.layered import BASE_NAME, encode_base, read_base
from millpond.storage.composed.unsynced import UnsyncedStorage
from millpond.storage.open import open_storage
from tests.frozen.make_later import compiled

LATERS = sorted(Path(__file__).parent.glob("format-?-later"))
LATER = LATERS[-1]
"""What the newest format has beside checkpoints of plain runs."""


def in_bytes(texts):
    return {bytes.fromhex(key): bytes.fromhex(value) for key, value in texts.items()}


class Frozen:
    """A frozen case in a folder that may be changed."""

    def __init__(self, name, folder, later=LATER):
        self.folder = folder / name
        shutil.copytree(later / name, self.folder)
        self.told = json.loads((self.folder / "expected.json").read_text(encoding="utf-8"))
        if name == "forked":
            self._move_base()

    def _move_base(self):
        """The file that names the base has the address where it was made."""
        place = self.folder / "checkpoint" / BASE_NAME
        base = read_base(FileStorage(self.folder / "checkpoint"))
        place.chmod(0o600)
        place.write_bytes(encode_base(replace(base, url=str(self.folder / "base"))))

    @property
    def url(self):
        root = self.folder / "checkpoint"
        return f"spread://2*{root}/one|{root}/two|log://{root}/three" if self.folder.name == "spread" else str(root)

    @property
    def kept(self):
        return open_storage(self.url)

    @property
    def storage(self):
        near = self.folder / "near"
        return UnsyncedStorage(self.kept, near) if near.exists() else self.kept

    @property
    def fed(self):
        return [[(name, tuple(given)) for name, given in rows] for rows in self.told["fed"]]

    @property
    def states(self):
        return {int(epoch): in_bytes(state) for epoch, state in self.told["states"].items()}

    def run(self, **options):
        return Simulated(
            compiled(self.told["program"]), self.folder, 3, keep=Keep.all(), checkpoint=self.url, **options
        )
