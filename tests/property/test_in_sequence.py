"""What time, timers, windows and event time do to programs is the same if all their epochs run in sequence.

Rows come two by two, and nothing of what they touched has room in memory behind them.
"""

from __future__ import annotations

import pytest

from millpond.engine import simulated
from millpond.engine.sequence import streaming
from millpond.engine.sequence.portions import in_portions
from millpond.engine.sequence.state import SequenceState
from millpond.engine.sequence.ways import in_sequence
from tests.property import test_eventtime, test_time, test_windows_late

pytestmark = pytest.mark.slow

fresh = test_time.fresh


@pytest.fixture(autouse=True)
def _every_epoch_in_sequence(monkeypatch):
    monkeypatch.setattr(simulated, "plan_for", lambda plan, fed: in_sequence(plan))
    monkeypatch.setattr(streaming, "in_portions", lambda batches: in_portions(batches, 2))
    monkeypatch.setattr(SequenceState, "make_room", SequenceState.put_down)


for suite in (test_time, test_eventtime, test_windows_late):
    globals().update({name: one for name, one in vars(suite).items() if name.startswith("test_")})
