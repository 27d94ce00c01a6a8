"""The plan by which messages that were left in a frozen checkpoint are read."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from millpond.engine.simulated import Simulated
from tests.frozen import programs
from tests.sizes import compile_once


@cache
def pending_plan():
    with tempfile.TemporaryDirectory() as folder:
        return Simulated(compile_once(programs.Wandering), Path(folder), 2, 12, 2)._plan
